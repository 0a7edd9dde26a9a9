"""One agent, one step of its plan, one intent: how often it may be sent under new names."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.conftest import TICKETS, Api, Bench, Database, make_bench

NOT_ALLOWED = {"kind": "http", "status": 402, "body": {}, "request": {"method": "POST", "path": "/tickets"}}
CREATED = {"kind": "http", "status": 201, "body": {"id": "t-1"}, "request": {"method": "POST", "path": "/tickets"}}
STEP = {"name": "support-7", "run": "run-91", "step": "3"}


@pytest.fixture
def bench(database: Database) -> Bench:
    """A workspace with a write whose refusals settle it at once, a read, and a write that is meant to repeat."""
    made = make_bench()
    made.publish({**TICKETS, "errors": [{"when": "status == 402", "class": "business_rule", "effect": "none"}]})
    made.publish({"contract": "jobs.get", "owner": "helpdesk", "effect": "read"})
    made.publish({"contract": "notes.add", "owner": "helpdesk", "effect": "write", "identity": "none"})
    return made


def sent(api: Api, name: str, agent: Any = STEP, *, tool: str = "tickets.create", title: str = "T", **more: Any) -> Any:
    body = {"operation_id": name, "tool": tool, "payload": {"title": title, "customer": "c-19"}, "attempt": True}
    answer = api.post("/operations", {**body, "agent": agent, **more} if agent else {**body, **more})
    assert answer.status_code in (200, 201), answer.json()
    return answer.json()["data"]


def seen(api: Api, name: str, observation: Any = NOT_ALLOWED) -> None:
    answer = api.post(f"/operations/{name}/attempts/attempt-01/observations", observation)
    assert answer.json()["data"]["state"] == "settled"


def code(data: Any) -> str | None:
    return None if data["permit"] else data["decision"]["code"]


def test_a_step_has_one_retry(api: Api) -> None:
    assert code(sent(api, "t-1")) is None
    seen(api, "t-1")
    assert code(sent(api, "t-2")) is None
    seen(api, "t-2")
    third = sent(api, "t-3")
    assert code(third) == "AGENT_RETRIES_ENDED"
    assert third["decision"]["recovery_action"] == "stop"
    refused = api.post("/operations/t-3/attempts", {})
    assert (refused.status_code, refused.json()["data"]["decision"]["code"]) == (409, "AGENT_RETRIES_ENDED")
    assert sent(api, "t-3")["operation_id"] == "t-3", "asked again it is the same operation"


OTHERS = [
    ({**STEP, "step": "4"}, {}, "another step"),
    ({**STEP, "run": "run-92"}, {}, "another run"),
    (STEP, {"title": "another"}, "another intent"),
    (STEP, {"tool": "notes.add"}, "another tool"),
    (None, {}, "nobody says which run: the first is settled, so it is a new intent"),
    ({**STEP, "name": "support-8", "tool_call_id": "call_9"}, None, "the same step, whoever calls it by which id"),
]


@pytest.mark.parametrize(("agent", "more", "why"), OTHERS, ids=[row[2] for row in OTHERS])
def test_what_is_counted_together(api: Api, agent, more, why) -> None:
    for name in ("t-1", "t-2"):
        sent(api, name)
        seen(api, name)
    assert code(sent(api, "t-3", agent, **(more or {}))) == ("AGENT_RETRIES_ENDED" if more is None else None), why


def test_what_is_done_is_not_done_again_in_the_same_step(api: Api) -> None:
    sent(api, "t-1")
    seen(api, "t-1", CREATED)
    again = sent(api, "t-2")
    assert (code(again), again["decision"]["alternatives"]) == ("DONE_IN_THIS_STEP", ["t-1"])
    assert code(sent(api, "t-3", {**STEP, "step": "4"})) is None, "the next step may mean it again"


def test_a_twin_that_waited_is_counted_once_the_first_has_settled(api: Api) -> None:
    sent(api, "t-1")
    assert code(sent(api, "t-2")) == "POSSIBLE_DUPLICATE"
    assert code(sent(api, "t-3")) == "POSSIBLE_DUPLICATE"
    seen(api, "t-1")
    assert api.post("/operations/t-2/attempts", {}).status_code == 201
    seen(api, "t-2")
    refused = api.post("/operations/t-3/attempts", {})
    assert refused.json()["data"]["decision"]["code"] == "AGENT_RETRIES_ENDED"


def test_an_intent_that_was_never_sent_is_no_try(api: Api) -> None:
    for name in ("t-1", "t-2"):
        sent(api, name, attempt=False, title=name)
    assert code(sent(api, "t-3", title="t-1")) == "POSSIBLE_DUPLICATE"


def test_a_refused_one_does_not_hold_the_intent(api: Api) -> None:
    for name in ("t-1", "t-2"):
        sent(api, name)
        seen(api, name)
    sent(api, "t-3")
    assert code(sent(api, "t-4", {**STEP, "step": "4"})) is None


def test_a_run_without_steps_has_no_retry_of_a_write(api: Api) -> None:
    run = {"run": "run-91"}
    sent(api, "t-1", run)
    seen(api, "t-1")
    assert code(sent(api, "t-2", run)) == "AGENT_RETRIES_ENDED"


def test_what_is_meant_to_repeat_is_not_counted(api: Api) -> None:
    assert [code(sent(api, f"n-{n}", tool="notes.add")) for n in range(4)] == [None] * 4


def test_a_read_is_not_counted(api: Api) -> None:
    for number in range(3):
        assert code(sent(api, f"r-{number}", tool="jobs.get")) is None
        seen(api, f"r-{number}", {"kind": "http", "status": 200, "body": {"id": "J-1"}})


@pytest.mark.parametrize("agent", [None, STEP])
def test_the_first_try_takes_no_statement_more(api: Api, agent: Any) -> None:
    sent(api, "warm-up", agent, title="warm-up")
    with CaptureQueriesContext(
        connection,
    ) as queries:
        sent(api, "t-1", agent)
    assert len([one for one in queries if "INSERT INTO operation" in one["sql"]]) == 1
    assert len(queries) == 2, [one["sql"][:80] for one in queries]
