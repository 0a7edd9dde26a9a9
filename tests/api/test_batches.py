"""Batches over the API: what is recorded, what is refused, and how much a large one costs."""

import time
from typing import Any

import pytest

from ledger.database import execute
from ledger.queries.verification import verified
from tests.conftest import Api, Bench

CONTRACT: dict[str, Any] = {
    "contract": "tickets.import",
    "effect": "batch",
    "owner": "helpdesk",
    "identity": "none",
    "items": {"path": "payload.tickets", "key": "ref"},
    "arguments": {
        "type": "object",
        "required": ["tickets"],
        "properties": {"tickets": {"type": "array", "items": {"required": ["ref"]}}},
    },
    "lookup": [
        {
            "by": "status",
            "http": {"path": "/tickets/{item.key}"},
            "found": "status == 200",
            "no_match": "status == 404",
            "authoritative": True,
            "sees": "all",
            "lag": "0s",
        }
    ],
}
LOST = {"kind": "exception", "exception": "ReadTimeout", "phase": "await", "bytes_sent": 300, "request_bytes": 300}


@pytest.fixture
def importer(bench: Bench) -> Api:
    """The API of a workspace with `tickets.import`."""
    bench.publish(CONTRACT)
    return Api(bench.token)


def opened(api: Api, *keys: str, id: str = "b-1", **more: Any) -> Any:
    payload = {"tickets": [{"ref": key} for key in keys]}
    return api.post("/operations", {"operation_id": id, "tool": "tickets.import", "payload": payload, **more})


def test_items_are_recorded_with_their_operation(importer: Api) -> None:
    answer = opened(importer, "a", "b")
    assert answer.status_code == 201
    data = answer.json()["data"]
    assert [(item["key"], item["effect"], item["attempts"]) for item in data["items"]] == [
        ("a", "none", []),
        ("b", "none", []),
    ]
    assert importer.get("/operations/b-1").json()["data"]["items"] == data["items"]
    assert "items" not in importer.get("/operations").json()["data"]["items"][0], "lists do not load them"
    permit = importer.post("/operations/b-1/attempts", {}).json()["data"]
    assert (permit["licence"], [item["effect"] for item in permit["items"]]) == (None, ["unknown", "unknown"])
    assert permit["permit"]["items"] == ["a", "b"]


def test_items_may_stand_beside_the_payload(importer: Api) -> None:
    body = {"operation_id": "b-1", "tool": "tickets.import", "payload": {}, "items": [{"ref": "a"}]}
    assert importer.post("/operations", body).status_code == 201
    assert opened(importer, "a").status_code == 200, "it is one request, wherever its items are stated"
    both = {**body, "payload": {"tickets": [{"ref": "b"}]}}
    answer = importer.post("/operations", both)
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, "items")


def test_the_same_id_with_other_items_is_another_operation(importer: Api) -> None:
    assert opened(importer, "a", "b").status_code == 201
    assert opened(importer, "a", "b").status_code == 200
    for other in (("a",), ("b", "a"), ("a", "b", "c")):
        answer = opened(importer, *other)
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "OPERATION_MISMATCH")


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        ({"tickets": []}, "payload.tickets"),
        ({"tickets": [{"ref": "a"}, {"ref": "a"}]}, "payload.tickets[1]"),
        ({"tickets": [{"ref": ""}]}, "payload.tickets[0].ref"),
        ({"tickets": [{"ref": "x" * 201}]}, "payload.tickets[0].ref"),
        ({"tickets": [{"ref": "\x00"}]}, "payload.tickets[0].ref"),
        ({"tickets": [{}]}, "payload.tickets[0].ref"),
        ({"tickets": 7}, "payload.tickets"),
        ({}, "payload.tickets"),
    ],
)
def test_items_that_cannot_be_told_apart_are_refused(importer: Api, payload: Any, field: str) -> None:
    answer = importer.post("/operations", {"operation_id": "b-1", "tool": "tickets.import", "payload": payload})
    assert answer.status_code == 422, answer.json()
    assert answer.json()["error"]["field"] == field
    assert importer.get("/operations/b-1").status_code == 404, "nothing was recorded"


def test_what_takes_one_thing_at_a_time_takes_no_items(api: Api) -> None:
    body = {"operation_id": "t-1", "tool": "tickets.create", "payload": {"title": "x"}, "items": ["a"]}
    answer = api.post("/operations", body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "ITEMS_NOT_TAKEN")


def test_a_late_word_against_a_settled_batch_reopens_it(importer: Api) -> None:
    opened(importer, "a", "b", attempt=True)
    report = "/operations/b-1/attempts/attempt-01/observations"
    refused = {
        "kind": "http",
        "status": 200,
        "body": {"results": [{"id": "a", "status": 402}, {"id": "b", "status": 402}]},
    }
    assert importer.post(report, refused).json()["data"]["outcome"] == "not_applied"
    same = importer.post(report, {**refused, "elapsed_ms": 5}).json()["data"]
    assert (same["state"], same["outcome"]) == ("settled", "not_applied"), "it says nothing new"
    late = {"kind": "http", "status": 200, "body": {"results": [{"id": "a", "status": 201}]}}
    data = importer.post(report, late).json()["data"]
    assert (data["state"], data["effect"], data["code"]) == ("escalated", "partial", "OUTCOME_CONTRADICTED")
    assert [item["outcome"] for item in importer.get("/operations/b-1").json()["data"]["items"]] == [
        "applied",
        "not_applied",
    ]


def test_ten_thousand_items(importer: Api) -> None:
    keys = [str(number) for number in range(10_000)]
    started = time.monotonic()
    answer = opened(importer, *keys, attempt=True)
    assert answer.status_code == 201, answer.json()
    recorded = time.monotonic()
    entries = [{"id": key, "status": (201, 429, 500)[number % 3]} for number, key in enumerate(keys)]
    told = importer.post(
        "/operations/b-1/attempts/attempt-01/observations",
        {"kind": "http", "status": 200, "body": {"results": entries}},
    )
    assert told.status_code == 200, told.json()
    assert told.json()["data"]["effect"] == "unknown"
    reported = time.monotonic()
    for _ in range(100):
        again = importer.post("/operations/b-1/attempts", {})
        if again.status_code == 201:
            break
        time.sleep(0.05)
    assert len(again.json()["data"]["permit"]["items"]) == 3_333
    print(
        f"open {recorded - started:.2f}s, report {reported - recorded:.2f}s, permit {time.monotonic() - reported:.2f}s"
    )
    assert time.monotonic() - started < 60, "under load too"
    ((length,),) = execute(
        "SELECT max(length(entry)) FROM journal j JOIN operation o ON o.id = j.operation WHERE o.operation_id = 'b-1'"
    )
    assert length < 500_000, "items that become alike are told together"
    for _ in verified():
        pass
