"""Each way to ask over HTTP, from the report of a lost answer to what the ledger then holds."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from tests.conftest import TICKETS, Api, Database, make_bench
from tests.owners.scripted import Answer, Received, ScriptedOwner
from tests.reconcile.stage import look_until

LOST = {"kind": "exception", "exception": "ReadTimeout", "phase": "await", "bytes_sent": 300, "request_bytes": 300}
PAYLOAD = {"title": "Export broken"}
STATUS = TICKETS["lookup"][0]  # type: ignore[index]
SEARCH = {
    "by": "search",
    "http": {"path": "/tickets?q={operation_id}&after={cursor}"},
    "items": "body.items",
    "next": "body.next",
    "match": "item.ref == operation_id",
    "same": {"title": "body.title"},
}
OPERATION = {
    "by": "operation",
    "http": {"at": "job"},
    "effect": {"applied": "body.state == 'done'", "none": "body.state == 'failed'", "pending": "body.state == 'runs'"},
    "authoritative": True,
}


@pytest.fixture
def owner() -> Iterator[ScriptedOwner]:
    with ScriptedOwner() as running:
        yield running


def reported(owner: ScriptedOwner, observation: dict[str, Any], **more: Any) -> tuple[Api, UUID]:
    """An operation whose first attempt ended with this observation."""
    bench = make_bench(owner_url=owner.url)
    bench.publish({**TICKETS, "receipt": {"id": "body.id", "job": "headers.location"}, **more})
    api = Api(bench.token)
    body = {"operation_id": "t-1", "tool": "tickets.create", "payload": PAYLOAD, "attempt": True}
    id = UUID(api.post("/operations", body).json()["data"]["id"])
    told = api.post("/operations/t-1/attempts/attempt-01/observations", observation)
    assert told.status_code == 200, told.json()
    return api, id


def test_an_index_settles_what_it_shows(database: Database, owner: ScriptedOwner) -> None:
    api, id = reported(owner, LOST, lookup=[SEARCH])
    owner.answer = lambda received: Answer(
        body={"items": [{"id": "T-7", "ref": "t-1", "title": PAYLOAD["title"]}], "next": None}
        if received.query.get("after")
        else {"items": [], "next": "c2"}
    )
    data = look_until(id, api, state="settled")
    assert (data["outcome"], data["evidence"][-1]["speaker"]) == ("applied", "owner_index")


def test_two_of_them_go_to_a_person_with_both_named(database: Database, owner: ScriptedOwner) -> None:
    api, id = reported(owner, LOST, lookup=[SEARCH])
    twice = [{"id": f"T-{number}", "ref": "t-1", "title": PAYLOAD["title"]} for number in (7, 8)]
    owner.answer = lambda received: Answer(body={"items": twice, "next": None})
    data = look_until(id, api, state="escalated")
    assert data["effect"] == "unknown"
    from ledger.database import execute

    detail = execute("SELECT detail FROM evidence WHERE operation = %s ORDER BY observed_at DESC LIMIT 1", [id])[0][0]
    import orjson

    shown = orjson.loads(detail) if isinstance(detail, str | bytes) else detail
    assert (shown["matches"], shown["found"]) == (2, [{"id": "T-7"}, {"id": "T-8"}])


def test_an_index_that_shows_nothing_leaves_the_question_to_the_next(database: Database, owner: ScriptedOwner) -> None:
    """And what the authority does not hold is absent, after its two clean reads."""

    def answer(received: Received) -> Answer:
        return Answer(body={"items": [], "next": None}) if received.query else Answer(status=404, body={})

    owner.answer = answer
    api, id = reported(owner, LOST, lookup=[SEARCH, STATUS])
    data = look_until(id, api, state="open")
    assert (data["effect"], data["evidence"][-1]["proof"]) == ("none", "graded_absence")
    assert {row["source"] for row in data["evidence"][1:]} == {"helpdesk/status"}


def accepted(owner: ScriptedOwner) -> dict[str, Any]:
    return {
        "kind": "http",
        "request": {"method": "POST", "path": "/tickets"},
        "status": 202,
        "headers": {"Location": f"{owner.url}/jobs/7"},
        "body": {},
    }


def test_a_job_is_followed_to_its_end(database: Database, owner: ScriptedOwner) -> None:
    states = ["runs", "runs", "done"]
    owner.answer = lambda received: Answer(body={"state": states.pop(0) if len(states) > 1 else states[0]})
    api, id = reported(owner, accepted(owner), lookup=[OPERATION])
    data = look_until(id, api, state="settled")
    assert data["outcome"] == "applied"
    assert {received.path for received in owner.received} == {"/jobs/7"}
    assert "pending" in {row["effect"] for row in data["evidence"]}


def test_a_job_that_failed_is_proof_of_none(database: Database, owner: ScriptedOwner) -> None:
    owner.answer = lambda received: Answer(body={"state": "failed"})
    api, id = reported(owner, accepted(owner), lookup=[OPERATION])
    data = look_until(id, api, state="open")
    assert (data["effect"], data["evidence"][-1]["proof"]) == ("none", "lookup_match")


def test_a_second_attempt_is_not_judged_by_the_first_ones_job(database: Database, owner: ScriptedOwner) -> None:
    """The first job failed, the second answer was lost: the first job's failure says nothing of it."""
    owner.answer = lambda received: Answer(body={"state": "failed"})
    api, id = reported(owner, accepted(owner), lookup=[OPERATION], budgets={"polls": 3})
    look_until(id, api, state="open")
    assert api.post("/operations/t-1/attempts", {}).status_code == 201
    assert api.post("/operations/t-1/attempts/attempt-02/observations", LOST).status_code == 200
    data = look_until(id, api, state="escalated")
    assert data["effect"] == "unknown"


def test_a_lost_handle_leaves_the_question_to_the_next(database: Database, owner: ScriptedOwner) -> None:
    owner.answer = lambda received: Answer(body={"title": PAYLOAD["title"]})
    api, id = reported(owner, LOST, lookup=[OPERATION, STATUS])
    data = look_until(id, api, state="settled")
    assert (data["outcome"], data["evidence"][-1]["source"]) == ("applied", "helpdesk/status")


def test_what_is_not_asked_by_our_own_name_settles_nothing(database: Database, owner: ScriptedOwner) -> None:
    """Another ticket with this title may be anybody's."""
    owner.answer = lambda received: Answer(body={"title": PAYLOAD["title"]})
    by_title = {**STATUS, "http": {"path": "/tickets?title={payload.title}"}}
    api, id = reported(owner, LOST, lookup=[by_title], budgets={"polls": 2})
    data = look_until(id, api, state="escalated")
    assert data["effect"] == "unknown"


def test_an_owner_on_this_machine_is_not_asked_unless_it_is_listed(database: Database, owner: ScriptedOwner) -> None:
    from ledger.transitions.workspace import ensure_owner

    api, id = reported(owner, LOST, budgets={"polls": 2})
    from ledger.database import execute

    workspace = execute("SELECT workspace_id FROM operation WHERE id = %s", [id])[0][0]
    ensure_owner(workspace_id=workspace, name="helpdesk", base_url=owner.url)
    data = look_until(id, api, state="escalated")
    assert data["effect"] == "unknown"
    assert owner.received == []
