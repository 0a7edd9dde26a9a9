"""Runs: a budget over many operations that nothing overruns, and the review packet, as JSON and as Markdown."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection

from ledger.database import execute
from ledger.rules.facts import Budget
from ledger.rules.runs import RunBudget, stop_of
from ledger.rules.vocabulary import State
from tests.conftest import TICKETS, Api, Bench, Database, make_bench

CONTEXT, REQUIREMENT = "support_get_export_context", "support_lookup_export_requirement"
LOST = {"kind": "exception", "exception": "ReadTimeout", "phase": "await", "bytes_sent": 300, "request_bytes": 300}
CREATED = {"kind": "http", "status": 201, "body": {"id": "t-1"}, "request": {"method": "POST", "path": "/tickets"}}
NOT_SENT = {"kind": "exception", "exception": "ConnectError", "phase": "connect", "bytes_sent": 0}
JOB = {
    "outcome": "ok",
    "id": "J-42",
    "status": "failed",
    "error_code": "EXPORT_ROLE_REQUIRED",
    "failed_at": "2026-10-01T09:00:00Z",
    "source_id": "E1-job",
    "observed_at": "2026-10-01T09:05:00Z",
}
FIRST = {"outcome": "partial", "job": JOB, "current_access": {"outcome": "timeout", "role": None}}
SECOND = {
    "outcome": "ok",
    "job": {**JOB, "observed_at": "2026-10-01T09:05:04Z"},
    "current_access": {"outcome": "ok", "role": "viewer", "source_id": "E2", "observed_at": "2026-10-01T09:05:04Z"},
}
DOCUMENT = {
    "outcome": "ok",
    "requires": "editor",
    "revision": "r3",
    "source_id": "DOC-EXPORT-7",
    "observed_at": "2026-10-01T09:05:06Z",
}
RENAME = "Is there a link to the workspace rename?"


@pytest.fixture
def bench(database: Database) -> Bench:
    """A workspace with a write and two reads, repeated at once where they may be."""
    made = make_bench()
    quick = {"retry": {"first": "1ms", "factor": 1, "max": "1ms", "jitter": 0}}
    made.publish({**TICKETS, **quick})
    for name in (CONTEXT, REQUIREMENT):
        made.publish({"contract": name, "owner": "helpdesk", "effect": "read", **quick})
    return made


def intent(number: int, *, run: str | None = "run-1", attempt: bool = True, **more: Any) -> dict[str, Any]:
    body = {
        "operation_id": f"t-{number}",
        "tool": "tickets.create",
        "payload": {"title": f"Export broken {number}", "customer": "c-19"},
        "attempt": attempt,
        **more,
    }
    return body if run is None else {**body, "agent": {"name": "support-7", "run": run, "step": "1"}}


def register(api: Api, run: str = "run-1", **budget: Any) -> Any:
    return api.post("/runs", {"run": run, **budget})


def used(api: Api, run: str = "run-1") -> int:
    told = api.get(f"/runs/{run}").json()["data"]["budgets"]["dispatches"]
    assert told["left"] == told["limit"] - told["used"]
    return int(told["used"])


def permits(api: Api, *numbers: int, **more: Any) -> list[bool]:
    return [api.post("/operations", intent(number, **more)).json()["data"]["permit"] is not None for number in numbers]


# ---- Registering.


def test_a_run_is_registered_with_its_budget(api: Api) -> None:
    answer = register(api, deadline_ms=45_000, max_dispatches=6)
    assert answer.status_code == 201
    data = answer.json()["data"]
    assert data["budgets"]["dispatches"] == {"used": 0, "limit": 6, "left": 6}
    assert data["budgets"]["deadline"]["limit_ms"] == 45_000
    assert 0 < data["budgets"]["deadline"]["left_ms"] <= 45_000
    assert data["stop_reason"] == "not_stopped"
    read = api.get("/runs/run-1")
    assert read.status_code == 200
    assert read.json()["data"]["run"] == "run-1"


def test_the_same_run_again_is_the_same_run(api: Api) -> None:
    first = register(api, deadline_ms=45_000, max_dispatches=6).json()["data"]
    again = register(api, deadline_ms=45_000, max_dispatches=6)
    assert again.status_code == 200
    assert again.json()["data"]["deadline_at"] == first["deadline_at"], "its time is not lengthened"


@pytest.mark.parametrize(
    ("budget", "field"),
    [
        ({"deadline_ms": 45_000, "max_dispatches": 7}, "max_dispatches"),
        ({"deadline_ms": 90_000, "max_dispatches": 6}, "deadline_ms"),
        ({"max_dispatches": 6}, "deadline_ms"),
        ({"deadline_ms": 45_000, "max_dispatches": 6, "questions": ["Why?"]}, "questions"),
    ],
)
def test_a_budget_is_never_changed(api: Api, budget: dict[str, Any], field: str) -> None:
    register(api, deadline_ms=45_000, max_dispatches=6)
    answer = register(api, **budget)
    assert answer.status_code == 409
    assert (answer.json()["error"]["code"], answer.json()["error"]["field"]) == ("RUN_MISMATCH", field)
    assert api.get("/runs/run-1").json()["data"]["budgets"]["dispatches"]["limit"] == 6


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"run": "run 1"}, "run"),
        ({"run": ""}, "run"),
        ({}, "run"),
        ({"run": "r", "max_dispatches": -1}, "max_dispatches"),
        ({"run": "r", "deadline_ms": 0}, "deadline_ms"),
        ({"run": "r", "deadline_ms": "45s"}, "deadline_ms"),
        ({"run": "r", "max_cost": 1}, "max_cost"),
    ],
)
def test_what_no_run_can_be(api: Api, body: dict[str, Any], field: str) -> None:
    answer = api.post("/runs", body)
    assert answer.status_code == 422
    assert answer.json()["error"]["field"] == field


def test_a_run_of_another_workspace_is_like_none(api: Api, other_bench: Bench) -> None:
    other = Api(other_bench.token)
    register(other, run="theirs", max_dispatches=1)
    theirs, none = api.get("/runs/theirs"), api.get("/runs/nobodys")
    assert (theirs.status_code, theirs.content) == (none.status_code, none.content)
    assert theirs.status_code == 404
    assert register(api, run="theirs", max_dispatches=5).status_code == 201, "the same name is free here"
    assert permits(api, 1, 2, run="theirs") == [True, True], "and has nothing to do with that one"


def test_what_was_dispatched_before_counts(api: Api) -> None:
    assert permits(api, 1, 2) == [True, True]
    answer = register(api, max_dispatches=1)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "RUN_BUDGET_SPENT")
    register(api, max_dispatches=3)
    assert used(api) == 2


# ---- The budget.


def test_dispatches_are_counted_over_all_operations(api: Api) -> None:
    register(api, max_dispatches=2)
    assert permits(api, 1, 2, 3) == [True, True, False]
    assert used(api) == 2
    refused = api.get("/operations/t-3").json()["data"]
    assert refused["state"] == "open"
    assert refused["decision"]["code"] == "RUN_DISPATCHES_BUDGET_ENDED"
    assert refused["attempts"] == []


def test_a_permit_that_is_asked_for_later_is_counted_too(api: Api) -> None:
    register(api, max_dispatches=1)
    assert permits(api, 1, 2, attempt=False) == [False, False]
    assert used(api) == 0, "an intent costs nothing"
    assert api.post("/operations/t-1/attempts", {}).status_code == 201
    answer = api.post("/operations/t-2/attempts", {})
    assert answer.status_code == 409
    assert answer.json()["data"]["decision"]["code"] == "RUN_DISPATCHES_BUDGET_ENDED"
    assert answer.json()["data"]["decision"]["recovery_action"] == "stop"
    assert used(api) == 1


def test_a_repeat_is_a_dispatch(api: Api) -> None:
    register(api, max_dispatches=2)
    permits(api, 1)
    for number in (1, 2):
        api.post(f"/operations/t-1/attempts/attempt-{number:02d}/observations", NOT_SENT)
        again = api.post("/operations/t-1/attempts", {})
    assert again.status_code == 409
    assert again.json()["data"]["decision"]["code"] in ("RUN_DISPATCHES_BUDGET_ENDED", "WAIT_NOT_OVER")
    assert used(api) == 2


def test_a_refused_permit_costs_nothing(api: Api) -> None:
    register(api, max_dispatches=5)
    permits(api, 1)
    assert api.post("/operations/t-1/attempts", {}).status_code == 409, "one is in flight"
    permits(api, 1)
    assert used(api) == 1


def test_other_runs_and_operations_without_one_are_not_counted(api: Api) -> None:
    register(api, max_dispatches=1)
    assert permits(api, 1) == [True]
    assert permits(api, 2, run=None) == [True]
    assert permits(api, 3, run="run-2") == [True], "nobody registered it"
    assert used(api) == 1


def test_a_run_without_limits_counts_and_refuses_nothing(api: Api) -> None:
    assert register(api).status_code == 201
    assert permits(api, 1, 2, 3) == [True, True, True]
    data = api.get("/runs/run-1").json()["data"]
    assert data["budgets"] == {"dispatches": None, "deadline": None}


def test_twenty_at_once_do_not_overrun_it(api: Api, bench: Bench) -> None:
    register(api, max_dispatches=7)
    for number in range(10):
        api.post("/operations", intent(number, attempt=False))
    line = threading.Barrier(20)

    def one(number: int) -> bool:
        mine = Api(bench.token)
        line.wait(30)
        try:
            if number < 10:
                return mine.post(f"/operations/t-{number}/attempts", {}).status_code == 201
            return mine.post("/operations", intent(number)).json()["data"]["permit"] is not None
        finally:
            connection.close()

    with ThreadPoolExecutor(20) as pool:
        given = list(pool.map(one, range(20)))
    assert sum(given) == 7
    assert used(api) == 7
    sent = "SELECT count(*) FROM attempt a JOIN operation o ON o.id = a.operation WHERE o.workspace_id = %s"
    assert execute(sent, [bench.id]) == [(7,)]


def test_a_permit_reaches_no_further_than_the_runs_time(api: Api) -> None:
    deadline = register(api, deadline_ms=1_500, max_dispatches=6).json()["data"]["deadline_at"]
    permit = api.post("/operations", intent(1)).json()["data"]["permit"]
    assert permit["dispatch_by"] <= deadline
    assert permit["timeout_ms"] <= 1_500


def test_nothing_is_sent_after_the_runs_time(api: Api) -> None:
    register(api, deadline_ms=1, max_dispatches=6)
    permits(api, 1, attempt=False)
    answer = api.post("/operations/t-1/attempts", {})
    assert answer.status_code == 409
    assert answer.json()["data"]["decision"]["code"] == "RUN_DEADLINE_PASSED"
    assert api.get("/runs/run-1").json()["data"]["stop_reason"] == "deadline"


def test_an_operation_without_a_run_takes_no_more_statements(api: Api, django_assert_num_queries: Any) -> None:
    permits(api, 1, run=None)
    with django_assert_num_queries(2):
        permits(api, 2, run=None)
    with django_assert_num_queries(2):
        permits(api, 3, run="nobodys")
    register(api, max_dispatches=6)
    with django_assert_num_queries(2):
        permits(api, 4)


STOPS = [
    ({}, 0, None, "not_stopped", "nothing has begun"),
    ({State.SETTLED: 2}, 2, None, "settled", "all are"),
    ({State.SETTLED: 2}, 6, None, "settled", "whatever it used"),
    ({State.SETTLED: 2, State.RECONCILING: 1}, 6, None, "budget", "something is open, and nothing more is sent"),
    ({State.RECONCILING: 1}, 6, -1, "deadline", "time first"),
    ({State.ESCALATED: 1, State.SETTLED: 1}, 1, None, "waits_for_a_person", "all that is left"),
    ({State.ESCALATED: 1, State.WAITING: 1}, 1, None, "not_stopped", "one is still on its way"),
]


@pytest.mark.parametrize(("states", "dispatches", "seconds", "reason", "why"), STOPS)
def test_why_it_stopped(states: Any, dispatches: int, seconds: int | None, reason: str, why: str) -> None:
    from datetime import UTC, datetime, timedelta

    now = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
    ends = now + timedelta(seconds=seconds) if seconds is not None else None
    budget = RunBudget(run="r", dispatches=Budget(used=dispatches, limit=6), deadline_at=ends)
    assert stop_of(budget=budget, states=states, now=now) == reason, why


# ---- The packet.


def read(api: Api, name: str, tool: str, payload: Any, *observations: Any) -> None:
    """One logical read: its first dispatch and, while something is missing, the one repeat that it has."""
    body = {
        "operation_id": name,
        "tool": tool,
        "payload": payload,
        "attempt": True,
        "agent": {"run": "run-42", "step": name},
    }
    assert api.post("/operations", body).json()["data"]["permit"]
    for number, observation in enumerate(observations, start=1):
        if number > 1:
            answer = _permit_soon(api, name)
            assert answer.status_code == 201, answer.json()
        told = observation if "kind" in observation else {"kind": "envelope", "body": observation}
        api.post(f"/operations/{name}/attempts/attempt-{number:02d}/observations", told)


def _permit_soon(api: Api, name: str) -> Any:
    for _ in range(100):
        answer = api.post(f"/operations/{name}/attempts", {})
        if answer.status_code == 201 or answer.json()["data"]["decision"]["code"] != "WAIT_NOT_OVER":
            break
    return answer


def test_j_42_over_the_api(api: Api) -> None:
    register(api, run="run-42", deadline_ms=45_000, max_dispatches=6, questions=[RENAME])
    read(api, "read:job", CONTEXT, {"job_id": "J-42"}, FIRST, SECOND)
    read(api, "read:doc", REQUIREMENT, {"error_code": "EXPORT_ROLE_REQUIRED"}, DOCUMENT)
    data = api.get("/runs/run-42").json()["data"]
    assert data["budgets"]["dispatches"]["used"] == 3
    assert data["stop_reason"] == "settled"
    packet = data["packet"]
    facts = {fact["what"]: fact for fact in packet["established"]}
    assert facts["job"]["values"]["error_code"] == "EXPORT_ROLE_REQUIRED"
    assert facts["current_access"]["values"] == {"role": "viewer"}
    assert facts["current_access"]["observed_at"] == "2026-10-01T09:05:04Z"
    assert (facts[REQUIREMENT]["source_id"], facts[REQUIREMENT]["revision"]) == ("DOC-EXPORT-7", "r3")
    open_ = [gap["what"] for gap in packet["unverified"]]
    assert open_ == ["current_access", RENAME], "the role at failure time, and the link"
    assert [each["outcome"] for each in packet["trace"]] == ["partial", "ok", "ok"]


def test_fixture_a_over_the_api(api: Api) -> None:
    register(api, run="run-42", deadline_ms=45_000, max_dispatches=6)
    read(api, "read:job", CONTEXT, {"job_id": "J-42"}, FIRST, {**LOST, "request": {"method": "GET"}})
    assert _permit_soon(api, "read:job").status_code == 409, "one repeat, not two"
    packet = api.get("/runs/run-42").json()["data"]["packet"]
    assert [fact["what"] for fact in packet["established"]] == ["job"]
    assert [gap["what"] for gap in packet["unverified"]] == ["current_access"]
    assert "viewer" not in str(packet)


def test_fixture_d_over_the_api(api: Api) -> None:
    told = []
    for run, status in (("run-a", 403), ("run-b", 404)):
        register(api, run=run)
        body = {"operation_id": f"{run}:99", "tool": CONTEXT, "payload": {"job_id": "J-99"}, "attempt": True}
        api.post("/operations", {**body, "agent": {"run": run}})
        seen = {"kind": "http", "status": status, "body": {"message": "J-99 belongs to ACME"}}
        api.post(f"/operations/{run}:99/attempts/attempt-01/observations", seen)
        packet = api.get(f"/runs/{run}").json()["data"]["packet"]
        told.append((packet["established"], packet["unverified"]))
        assert "ACME" not in str(packet)
    assert told[0] == told[1], "refused and absent look alike"


def test_writes_stand_beside_reads(api: Api) -> None:
    register(api)
    permits(api, 1, 2)
    api.post("/operations/t-1/attempts/attempt-01/observations", CREATED)
    api.post("/operations/t-2/attempts/attempt-01/observations", LOST)
    packet = api.get("/runs/run-1").json()["data"]["packet"]
    assert [(fact["what"], fact["says"]) for fact in packet["established"]] == [("t-1", "It is done.")]
    assert packet["unverified"] == [
        {"what": "t-2", "why": "Whether it happened is not known. It must not be repeated.", "attempts": []}
    ]


def test_a_plain_answer_is_seen_and_not_established(api: Api) -> None:
    register(api, run="run-42")
    read(api, "read:job", CONTEXT, {"job_id": "J-42"}, {"kind": "http", "status": 200, "body": {"role": "viewer"}})
    packet = api.get("/runs/run-42").json()["data"]["packet"]
    assert packet["established"] == []
    assert packet["unverified"][0]["why"] == "It does not say which source was read, and when."


def test_the_packet_in_markdown(api: Api) -> None:
    register(api, run="run-42", questions=[RENAME])
    read(api, "read:job", CONTEXT, {"job_id": "J-42"}, SECOND)
    answer = api.client.get(
        "/api/v1/runs/run-42", headers={"Authorization": f"Bearer {api.token}", "Accept": "text/markdown"}
    )
    assert answer.headers["Content-Type"] == "text/markdown; charset=utf-8"
    text = answer.content.decode()
    assert text.startswith("# Review packet: `run-42`\n")
    for told in ("## Established", "`E1-job`", "2026-10-01 09:05:04 UTC", "## Unverified", RENAME, "## What was tried"):
        assert told in text, told


@pytest.mark.parametrize("accept", ["application/json", "*/*", "text/markdown;q=0.5, application/json", "nonsense"])
def test_the_packet_is_json_otherwise(api: Api, accept: str) -> None:
    register(api)
    answer = api.client.get("/api/v1/runs/run-1", headers={"Authorization": f"Bearer {api.token}", "Accept": accept})
    assert answer.json()["ok"] is True
