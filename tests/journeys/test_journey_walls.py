"""What another payload and another workspace are told, by the real server."""

from typing import Any

import httpx2
import pytest

from tests.conftest import Bench
from tests.journeys.laws import assert_lawful

VARIES = {"date"}


def _asked(web: str, bench: Bench, method: str, path: str, body: Any = None) -> httpx2.Response:
    headers = {"authorization": f"Bearer {bench.token}"}
    return httpx2.request(method, f"{web}/api/v1{path}", json=body, headers=headers, timeout=30, trust_env=False)


def _body(title: str) -> dict[str, Any]:
    payload = {"title": title, "customer": "c-19"}
    return {"operation_id": "ticket:1", "tool": "tickets.create", "payload": payload, "attempt": True}


def test_another_payload_is_refused_and_nothing_is_overwritten(web: str, bench: Bench) -> None:
    first = _asked(web, bench, "POST", "/operations", _body("Export broken")).json()["data"]
    answer = _asked(web, bench, "POST", "/operations", _body("Import broken"))
    assert answer.status_code == 409
    assert answer.json()["error"]["code"] == "OPERATION_MISMATCH"
    assert answer.json()["error"]["field"] == "payload"
    after = _asked(web, bench, "GET", "/operations/ticket:1").json()["data"]
    assert {name: after[name] for name in ("version", "payload_digest", "state")} == {
        name: first[name] for name in ("version", "payload_digest", "state")
    }
    same = _asked(web, bench, "POST", "/operations", _body("Export broken"))
    assert (same.status_code, same.json()["data"]["version"]) == (200, first["version"])
    assert same.json()["data"]["permit"] is None, "the permit was handed out once"
    assert assert_lawful(workspace_id=bench.id, operation_id="ticket:1") == ["open_operation"]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/operations/{}", None),
        ("GET", "/operations/{}?wait=1", None),
        ("GET", "/operations/{}?version=0&wait=1", None),
        ("POST", "/operations/{}/attempts", {}),
        ("POST", "/operations/{}/attempts/attempt-01/observations", {"kind": "http", "status": 201}),
        (
            "POST",
            "/operations/{}/revisions",
            {"kind": "repair", "payload": {"title": "x"}, "field": "title", "reason": "refused"},
        ),
    ],
)
def test_another_workspaces_operation_looks_like_none(
    web: str, bench: Bench, other_bench: Bench, method: str, path: str, body: Any
) -> None:
    _asked(web, bench, "POST", "/operations", _body("Export broken"))
    theirs = _asked(web, other_bench, method, path.format("ticket:1"), body)
    absent = _asked(web, other_bench, method, path.format("ticket:2"), body)
    assert theirs.status_code == 404
    assert theirs.content == absent.content
    assert _shown(theirs) == _shown(absent)
    assert theirs.json()["error"]["code"] == "OPERATION_NOT_FOUND"
    assert _asked(web, bench, "GET", "/operations/ticket:1").json()["data"]["version"] == 1


def _shown(answer: httpx2.Response) -> list[tuple[str, str]]:
    return sorted((name, value) for name, value in answer.headers.items() if name not in VARIES)
