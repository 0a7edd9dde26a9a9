"""Batches at Kinto: one call makes many records, some may be refused, and the answer may be lost on its way."""

import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import httpx2
import pytest

from ledger.queries.verification import verified
from recovery.reconcile import reconcile
from tests.conftest import Api, Database, make_bench
from tests.owners.fault_proxy import FaultProxy
from tests.owners.fixtures import Collection
from tests.owners.kinto import AUTHORIZATION, CREDENTIAL

HEADERS = {"authorization": AUTHORIZATION}


class Importer:
    """A harness that imports tickets with `POST /v1/batch` through the proxy, and a worker beside it."""

    def __init__(self, proxy: FaultProxy, collection: Collection) -> None:
        self.proxy, self.collection = proxy, collection
        bench = make_bench(owner_url=proxy.url)
        bench.publish(contract(collection))
        self.api = Api(bench.token)
        self.id = UUID(int=0)

    def open(self, *refs: str) -> dict[str, Any]:
        tickets = [{"ref": ref, "title": f"Ticket {ref}", "customer": "c-19"} for ref in refs]
        body = {"operation_id": "b-1", "tool": "kinto.tickets.import", "payload": {"tickets": tickets}, "attempt": True}
        data = self.api.post("/operations", body).json()["data"]
        self.id = UUID(data["id"])
        return self.send(data["permit"], tickets)

    def send(self, permit: dict[str, Any], tickets: list[dict[str, Any]]) -> dict[str, Any]:
        """Make the call that the permit is for, and report what was seen of it."""
        requests = [
            {
                "method": "PUT",
                "path": f"{self.collection.path}/{ticket['ref']}",
                "headers": {"If-None-Match": "*"},
                "body": {"data": {"title": ticket["title"], "customer": ticket["customer"]}},
            }
            for ticket in tickets
        ]
        seen: dict[str, Any]
        try:
            answer = httpx2.post(
                f"{self.proxy.url}/v1/batch", json={"requests": requests}, headers=HEADERS, timeout=2, trust_env=False
            )
            seen = {"kind": "http", "status": answer.status_code, "body": answer.json()}
        except httpx2.HTTPError as error:
            seen = {"kind": "exception", "exception": type(error).__name__, "phase": "await", "bytes_sent": 500}
        seen["request"] = {"method": "POST", "path": "/v1/batch"}
        told = self.api.post(f"/operations/b-1/attempts/{permit['attempt_id']}/observations", seen)
        assert told.status_code == 200, told.json()
        return dict(told.json()["data"])

    def read(self) -> dict[str, Any]:
        return dict(self.api.get("/operations/b-1").json()["data"])

    def effects(self) -> dict[str, str]:
        return {item["key"]: item["effect"] for item in self.read()["items"]}

    def look_until(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        ends = time.monotonic() + 30
        while time.monotonic() < ends:
            reconcile(id=self.id, time_left=5)
            if holds(data := self.read()):
                return data
            time.sleep(0.05)
        raise AssertionError(f"{data['state']}: {data['decision']} {self.effects()}")

    def permit(self) -> dict[str, Any]:
        ends = time.monotonic() + 10
        while (answer := self.api.post("/operations/b-1/attempts", {})).status_code != 201 and time.monotonic() < ends:
            time.sleep(0.05)
        assert answer.status_code == 201, answer.json()
        return dict(answer.json()["data"]["permit"])

    def sent(self) -> int:
        return self.proxy.forwarded("POST /v1/batch")


def contract(collection: Collection) -> dict[str, Any]:
    return {
        "contract": "kinto.tickets.import",
        "effect": "batch",
        "owner": "helpdesk",
        "identity": "none",
        "items": {"path": "payload.tickets", "key": "ref"},
        "lookup": [
            {
                "by": "status",
                "http": {"path": f"{collection.path}/{{item.ref}}"},
                "found": "status == 200",
                "no_match": "status == 404",
                "same": {"title": "body.data.title", "customer": "body.data.customer"},
                "authoritative": True,
                "as": f"env:{CREDENTIAL}",
                "sees": "all",
                "lag": "500ms",
                "clean_reads": 2,
            }
        ],
        "timeout": "2s",
        "dispatch_within": "1s",
        "poll": {"first": "200ms", "factor": 1.5, "max": "1s", "jitter": 0.1},
        "retry": {"first": "100ms", "max": "1s"},
        "deadline": "2m",
        "source": {
            "url": "https://docs.kinto-storage.org/en/stable/api/1.x/batch.html",
            "checked_on": "2026-11-30",
        },
    }


@pytest.fixture
def importer(
    database: Database, fault_proxy: FaultProxy, collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Importer]:
    monkeypatch.setenv(CREDENTIAL, AUTHORIZATION)
    yield Importer(fault_proxy, collection)
    for _ in verified():
        pass


def test_all_made(importer: Importer) -> None:
    assert importer.open("a", "b", "c")["outcome"] == "applied"
    assert importer.collection.count() == 3


def test_one_is_refused_and_the_others_are_made(importer: Importer) -> None:
    taken = {"data": {"title": "Somebody else's", "customer": "c-1"}}
    url = f"{importer.collection.kinto.url}{importer.collection.path}/b"
    httpx2.put(url, json=taken, headers=HEADERS, trust_env=False).raise_for_status()
    told = importer.open("a", "b", "c")
    assert importer.effects() == {"a": "applied", "b": "none", "c": "applied"}
    assert (told["effect"], told["recovery_action"]) == ("partial", "recover_items")
    refused = importer.api.post("/operations/b-1/attempts", {})
    assert refused.json()["data"]["decision"]["code"] == "ITEMS_NEED_CHANGES", "the same again would be refused again"
    assert (importer.collection.count(), importer.sent()) == (3, 1)


def test_the_answer_is_lost_after_the_records_were_made(importer: Importer) -> None:
    importer.proxy.fail("drop_after", times=1, match="POST /v1/batch")
    assert importer.open("a", "b", "c")["effect"] == "unknown"
    data = importer.look_until(lambda data: data["state"] == "settled")
    assert data["outcome"] == "applied"
    assert [item["outcome"] for item in data["items"]] == ["applied"] * 3
    assert (importer.collection.count(), importer.sent()) == (3, 1), "each record once, and nothing was sent again"


def test_the_answer_is_lost_and_one_was_refused(importer: Importer) -> None:
    """Of the refused one a lookup finds somebody else's record: a conflict, for a person."""
    taken = {"data": {"title": "Somebody else's", "customer": "c-1"}}
    url = f"{importer.collection.kinto.url}{importer.collection.path}/b"
    httpx2.put(url, json=taken, headers=HEADERS, trust_env=False).raise_for_status()
    importer.proxy.fail("drop_after", times=1, match="POST /v1/batch")
    importer.open("a", "b", "c")
    data = importer.look_until(lambda data: data["state"] == "escalated")
    assert importer.effects() == {"a": "applied", "b": "unknown", "c": "applied"}
    assert data["decision"]["code"] == "CONFLICT"
    assert (importer.collection.count(), importer.sent()) == (3, 1)


def test_the_request_is_lost_and_every_item_is_sent_again_after_its_absence_is_proved(importer: Importer) -> None:
    importer.proxy.fail("drop_before", times=1, match="POST /v1/batch")
    importer.open("a", "b", "c")
    importer.look_until(lambda data: data["effect"] == "none")
    permit = importer.permit()
    assert permit["licence"] == "effect_none_proved"
    tickets = [{"ref": ref, "title": f"Ticket {ref}", "customer": "c-19"} for ref in "abc"]
    wanted = [ticket for ticket in tickets if ticket["ref"] in permit["items"]]
    told = importer.send(permit, wanted)
    while told["state"] != "settled":
        permit = importer.permit()
        told = importer.send(permit, permit["payload"]["tickets"])
    assert (told["outcome"], importer.collection.count()) == ("applied", 3)


def test_the_owner_is_away_while_items_are_looked_up(importer: Importer) -> None:
    importer.proxy.fail("drop_after", times=1, match="POST /v1/batch")
    importer.open("a", "b")
    importer.proxy.fail("down")
    ends = time.monotonic() + 1.5
    while time.monotonic() < ends:
        reconcile(id=importer.id, time_left=5)
        time.sleep(0.05)
    assert importer.effects() == {"a": "unknown", "b": "unknown"}, "a lookup that failed found nothing out"
    importer.proxy.heal()
    assert importer.look_until(lambda data: data["state"] == "settled")["outcome"] == "applied"
    assert (importer.collection.count(), importer.sent()) == (2, 1)
