"""Every worker is killed while Ascertain itself sends, at a certain place: the next one finishes, and there is one effect.

| killed                               | the owner has                | what the next worker finds                              |
| ------------------------------------ | ---------------------------- | ------------------------------------------------------- |
| between the permit and the first byte | nothing                     | a permit that lapses; a replay by key, or absence       |
| between the request and the record   | the effect                   | the same; the replay is answered from memory            |
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from ledger.database import execute
from tests.conftest import TICKETS, Bench, make_bench
from tests.journeys.laws import assert_lawful
from tests.journeys.programs import Workers, until
from tests.owners.fault_proxy import FaultProxy
from tests.owners.key_owner import KeyOwner

PAYLOAD = {"title": "Export broken", "customer": "c-19"}
NOT_SENT = {"kind": "exception", "exception": "ConnectError", "phase": "connect", "bytes_sent": 0}
LOST = {"kind": "exception", "exception": "ReadTimeout", "phase": "await", "bytes_sent": 300, "request_bytes": 300}
CONTRACT = {
    **TICKETS,
    "idempotency": {
        "guarantee": "key",
        "field": "header:Idempotency-Key",
        "retention": "1h",
        "replay_marker": "headers['idempotent-replayed'] == 'true'",
    },
    "dispatch": {"http": {"method": "POST", "path": "/tickets"}},
    "lookup": [{"by": "replay"}],
    "timeout": "4s",
}


@dataclass(slots=True, kw_only=True)
class Calls:
    """A harness that reports its own first attempt and then only reads."""

    http: httpx2.Client
    bench: Bench

    def open(self) -> None:
        intent = {"operation_id": "t-1", "tool": "tickets.create", "payload": PAYLOAD, "attempt": True}
        assert self.http.post("/operations", json=intent).status_code == 201

    def report(self, observation: dict[str, Any]) -> None:
        path = "/operations/t-1/attempts/attempt-01/observations"
        assert self.http.post(path, json=observation).status_code == 200

    def read(self, *, wait: int = 0) -> dict[str, Any]:
        data: dict[str, Any] = self.http.get("/operations/t-1", params={"wait": wait}).json()["data"]
        return data


@pytest.fixture
def harness(web: str) -> Iterator[Callable[..., Calls]]:
    with ExitStack() as stack:

        def make(*, owner_url: str, **more: Any) -> Calls:
            bench = make_bench(owner_url=owner_url)
            bench.publish({**CONTRACT, **more})
            headers = {"authorization": f"Bearer {bench.token}"}
            http = httpx2.Client(base_url=f"{web}/api/v1", headers=headers, timeout=60, trust_env=False)
            return Calls(http=stack.enter_context(http), bench=bench)

        yield make


def _kill(workers: Workers) -> None:
    for node in workers.nodes:
        node.kill()


def _settled(calls: Calls, workers: Workers) -> dict[str, Any]:
    until(
        lambda: calls.read(wait=1)["state"] == "settled", seconds=60, what=lambda: f"{calls.read()}\n{workers.said()}"
    )
    return calls.read()


def test_killed_between_the_permit_and_the_first_byte(harness: Callable[..., Calls], workers: Workers) -> None:
    owner = KeyOwner()
    owner.bind()
    calls = harness(owner_url=owner.url)
    with owner.nobody_gets_through():
        calls.open()
        calls.report(NOT_SENT)
        until(lambda: len(calls.read()["attempts"]) == 2, seconds=30, what=workers.said)
        _kill(workers)
        before = calls.read()
    assert (before["state"], before["effect"]) == ("dispatched", "unknown")
    assert before["attempts"][1] | {"sender": "worker", "kind": "retry", "closed_at": None} == before["attempts"][1]
    owner.serve()
    try:
        workers.start()
        data = _settled(calls, workers)
        assert (data["outcome"], len(owner.tickets), len(owner.posts())) == ("applied", 1, 1)
        kinds = [(each["kind"], each["effect"]) for each in data["attempts"]]
        assert kinds == [("dispatch", "none"), ("retry", "unknown"), ("replay", "applied")]
        assert _verbs(calls)[2:] == ["open_attempt", "lapse_attempt", "open_attempt", "record_observation"]
    finally:
        owner.close()


def test_killed_between_the_request_and_the_record(harness: Callable[..., Calls], workers: Workers) -> None:
    owner = KeyOwner()
    owner.bind()
    owner.serve()
    try:
        with FaultProxy(upstream_port=owner.port) as proxy:
            calls = harness(owner_url=proxy.url)
            proxy.fail("hang_after", times=1, match="POST")
            calls.open()
            calls.report(LOST)
            until(lambda: proxy.forwarded("POST") == 1, seconds=30, what=workers.said)
            _kill(workers)
            assert calls.read()["state"] == "dispatched"
            assert len(owner.tickets) == 1
            workers.start()
            data = _settled(calls, workers)
            assert (data["outcome"], len(owner.tickets), len(owner.posts())) == ("applied", 1, 2)
            kinds = [(each["kind"], each["effect"]) for each in data["attempts"]]
            assert kinds == [("dispatch", "unknown"), ("replay", "unknown"), ("replay", "applied")]
            assert data["evidence"][-1]["source"] == "worker/http"
            _verbs(calls)
    finally:
        owner.close()


def test_the_waiting_harness_sees_what_we_sent(harness: Callable[..., Calls], workers: Workers) -> None:
    """429 with a wait of two seconds: no turn of an agent is spent on it."""
    owner = KeyOwner()
    owner.bind()
    owner.serve()
    try:
        calls = harness(owner_url=owner.url)
        owner.next_answers.append((429, {"error": "slow down"}, {"retry-after": "2"}))
        calls.open()
        calls.report(NOT_SENT)
        asked = 0
        data = calls.read()
        while data["state"] != "settled" and asked < 10:
            told = calls.http.get("/operations/t-1", params={"wait": 20, "version": data["version"]}).json()["data"]
            assert told["decision"] is None or told["decision"]["recovery_action"] in ("wait", "done"), told["decision"]
            data, asked = told, asked + 1
        assert (data["outcome"], len(owner.tickets), len(owner.posts())) == ("applied", 1, 2)
        assert {each["sender"] for each in data["attempts"][1:]} == {"worker"}
    finally:
        owner.close()


def _verbs(calls: Calls) -> list[str]:
    verbs: list[str] = assert_lawful(workspace_id=calls.bench.id, operation_id="t-1")
    sent = execute(
        "SELECT count(*) FROM attempt JOIN operation ON operation.id = attempt.operation WHERE workspace_id = %s "
        "AND sender = 'worker' AND licence IS NULL",
        [calls.bench.id],
    )
    assert sent == [(0,)], "we send nothing without a licence"
    return verbs
