"""What an operation's page says once an owner has told us something by itself, and what it lists of the same run."""

import re
from typing import Any
from uuid import UUID, uuid4

from ledger.queries.clock import database_now
from ledger.queries.notices import Endpoint
from ledger.rules.vocabulary import Role
from ledger.transitions.workspace import ensure_person, ensure_role
from recovery.notices import Message, receive
from tests.conftest import TICKETS, Api, Bench, make_bench

NOTICE = {
    "operation_id": "body.reference",
    "effect": {"applied": "body.state == 'open'", "none": "body.state == 'rejected'"},
    "same": {"title": "body.title"},
    "event_at": "body.at",
}
LOST = {"kind": "exception", "exception": "ReadTimeout", "phase": "await", "bytes_sent": 300, "request_bytes": 300}


def page(bench: Bench, id: UUID) -> str:
    from django.contrib.auth import get_user_model
    from django.test import Client

    person = ensure_person(username=f"olive.{uuid4().hex[:6]}", name="Olive", password="quiet-harbour-42")
    ensure_role(workspace_id=bench.id, person_id=person, role=Role.OPERATOR)
    client = Client()
    client.force_login(get_user_model().objects.get(pk=person))
    answer = client.get(f"/operations/{id}/")
    assert answer.status_code == 200
    return re.sub(r"\s+", " ", re.sub(r"</?(b|bdi|strong)\b[^>]*>", "", answer.content.decode()))


def tell(bench: Bench, **body: Any) -> None:
    endpoint = uuid4()
    from ledger.transitions.destinations import add_endpoint

    add_endpoint(
        workspace_id=bench.id, owner_id=bench.owner_id, endpoint_id=endpoint, sealed_secrets=b"", now=database_now()
    )
    found = Endpoint(id=endpoint, workspace_id=bench.id, owner_id=bench.owner_id, owner="helpdesk", sealed_secrets=b"")
    receive(endpoint=found, message=Message(id=uuid4().hex, headers={}, body=body, raw=repr(body).encode()))


def begin(bench: Bench, name: str) -> UUID:
    api = Api(bench.token)
    agent = {"name": "support-7", "run": "run-91", "step": name}
    body = {"operation_id": name, "tool": "tickets.create", "payload": {"title": name}, "attempt": True, "agent": agent}
    id = UUID(api.post("/operations", body).json()["data"]["id"])
    api.post(f"/operations/{name}/attempts/attempt-01/observations", LOST)
    return id


def test_the_page_tells_who_said_it_and_what_it_came_to(committing: Any) -> None:
    bench = make_bench()
    bench.publish({**TICKETS, "notice": NOTICE, "poll": {"first": "1h", "max": "1h"}})
    id = begin(bench, "t-1")
    begin(bench, "t-2")
    tell(bench, reference="t-1", state="viewed", title="t-1")
    tell(bench, reference="t-1", state="open", title="t-1")
    text = page(bench, id)
    for said in (
        "The owner (helpdesk)",
        "sent a signed notice that settles nothing.",
        "said in a signed notice what happened.",
        "a notice that changes nothing",
        "the owner&#x27;s signed notice",
        "It happened.",
        "Of the same run",
        "t-2",
    ):
        assert said in text, said


def test_the_page_shows_how_it_differs(committing: Any) -> None:
    bench = make_bench()
    bench.publish({**TICKETS, "notice": NOTICE, "poll": {"first": "1h", "max": "1h"}})
    id = begin(bench, "t-1")
    tell(bench, reference="t-1", state="open", title="Another")
    text = page(bench, id)
    assert "Intended and found differ" in text
    assert "Another" in text
