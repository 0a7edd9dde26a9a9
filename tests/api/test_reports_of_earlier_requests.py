"""Polls, lookups and checks speak of an earlier request: what they do to an attempt, in the ledger as without one."""

from datetime import UTC, datetime
from typing import Any

import pytest

from ledger.rules.contract import parse_stated_contract
from recovery.judgement.stateless import judge
from tests.conftest import TICKETS, Api, Bench, Database, make_bench
from tests.ledger.test_verification import verify

KEYED = {
    **TICKETS,
    "contract": "tickets.keyed",
    "lookup": [],
    "success": "status == 201",
    "retry": {"first": "1ms", "factor": 1, "max": "1ms", "jitter": 0},
    "idempotency": {
        "guarantee": "key",
        "field": "header:Idempotency-Key",
        "retention": "24h",
        "in_flight": "status == 409 && body.code == 'IN_FLIGHT'",
    },
}
REQUEST = {"method": "POST", "path": "/tickets", "idempotency_key": "t-1"}
ACCEPTED = {"kind": "http", "status": 202, "body": {}, "request": REQUEST}
LOST = {"kind": "exception", "exception": "ReadTimeout", "phase": "await", "bytes_sent": 300, "request": REQUEST}
IN_FLIGHT = {"kind": "http", "status": 409, "body": {"code": "IN_FLIGHT"}, "request": REQUEST}
NO_MATCH = {"kind": "lookup", "lookup": "status", "exact_key": True, "matches": 0, "complete": True}
FOUND = {**NO_MATCH, "matches": 1}
LOOKUP_FAILED = {"kind": "lookup", "lookup": "status", "exact_key": True, "failed": {"status": 503}}
DIFFERS = {"kind": "verification", "checks": [{"path": "title", "expected": "T", "seen": "U"}]}
NO_CHECK = {"kind": "verification", "failed": {"status": 500}}
POLL_FAILED = {"kind": "lro", "status": 503}
NOT_ASKED = {"kind": "lro", "status": 403}
WORK_FAILED = {"kind": "lro", "status": 200, "operation": {"status": "Failed"}}
WORK_GONE = {"kind": "lro", "status": 404}
RUNNING = {"kind": "lro", "operation": {"done": False}}
CANCELLED = {"kind": "mcp_task", "task": {"taskId": "t", "status": "cancelled"}}
STRANGE = {"kind": "mcp_task", "task": {"taskId": "t", "status": "pondering"}}


@pytest.fixture
def bench(database: Database) -> Bench:
    """A workspace with one write whose owner remembers keys and lets nobody look."""
    made = make_bench()
    made.publish(KEYED)
    return made


def opened(api: Api) -> None:
    body = {"operation_id": "t-1", "tool": "tickets.keyed", "payload": {"title": "T"}, "attempt": True}
    assert api.post("/operations", body).status_code == 201


def reported(api: Api, observation: Any, attempt: int = 1) -> Any:
    answer = api.post(f"/operations/t-1/attempts/attempt-{attempt:02d}/observations", observation)
    assert answer.status_code == 200, answer.json()
    return answer.json()["data"]


def judged(*history: Any) -> Any:
    *before, last = history
    return judge(
        contract=parse_stated_contract(KEYED), history=before, observation=last, now=datetime(2026, 12, 1, tzinfo=UTC)
    )


ROWS = [
    (ACCEPTED, NO_MATCH, "pending", "a lookup that shows nothing does not stop what runs"),
    (ACCEPTED, LOOKUP_FAILED, "pending", "nor one that failed"),
    (ACCEPTED, FOUND, "applied", "what is found is done"),
    (ACCEPTED, DIFFERS, "pending", "a check speaks of the check"),
    (ACCEPTED, NO_CHECK, "pending", "also one that could not run"),
    (ACCEPTED, POLL_FAILED, "pending", "asking failed, the work goes on"),
    (ACCEPTED, NOT_ASKED, "pending", "somebody who may not ask sees nothing of it"),
    (ACCEPTED, STRANGE, "pending", "a word that nobody knows says nothing"),
    (ACCEPTED, RUNNING, "pending", "it runs"),
    (ACCEPTED, WORK_FAILED, "unknown", "the owner says that it ended badly: what it left is unknown"),
    (ACCEPTED, CANCELLED, "unknown", "likewise"),
    (ACCEPTED, WORK_GONE, "unknown", "the owner does not know it any more"),
    (LOST, NO_MATCH, "unknown", "a harness never proves absence"),
    (LOST, RUNNING, "pending", "it was taken after all"),
    (LOST, DIFFERS, "unknown", "a check of the outcome is none of the effect"),
]  # fmt: skip


@pytest.mark.parametrize(("first", "then", "effect", "why"), ROWS, ids=[f"{row[3]} {row[2]}" for row in ROWS])
def test_only_a_requests_own_answer_speaks_for_it(api: Api, first, then, effect, why) -> None:
    opened(api)
    reported(api, first)
    assert reported(api, then)["effect"] == effect, why
    assert judged(first, then).effect == effect, "the same without a ledger"


def test_what_is_done_stays_done(api: Api) -> None:
    opened(api)
    reported(api, {**ACCEPTED, "status": 201})
    for later in (NO_MATCH, LOOKUP_FAILED, NO_CHECK, POLL_FAILED, WORK_FAILED):
        assert reported(api, later)["effect"] == "applied"


def test_a_key_in_use_says_that_the_lost_request_runs(api: Api) -> None:
    opened(api)
    reported(api, LOST)
    for _ in range(200):  # the wait before the repeat
        permit = api.post("/operations/t-1/attempts", {})
        if permit.status_code == 201:
            break
    assert permit.status_code == 201, permit.json()
    told = reported(api, IN_FLIGHT, attempt=2)
    assert (told["effect"], told["decision"]["recovery_action"]) == ("pending", "wait")
    attempts = api.get("/operations/t-1").json()["data"]["attempts"]
    assert [each["effect"] for each in attempts] == ["pending", "pending"]
    without = judged(LOST, IN_FLIGHT)
    assert (without.effect, without.decision.recovery_action) == ("pending", "wait")
    assert verify()[0] == 0, "the history tells it as the rows do"


def test_another_key_in_use_says_nothing_of_the_lost_request() -> None:
    told = judged({**LOST, "request": {**REQUEST, "idempotency_key": "another"}}, IN_FLIGHT)
    assert told.effect == "unknown"
