"""A batch on its page: what is known of each item, and what a person may say of those of which nobody knows."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from ledger.queries.clock import database_now
from ledger.queries.facts import held
from ledger.rules.contract import parse_contract
from ledger.rules.vocabulary import Scope
from ledger.transitions.contracts import publish_contract
from ledger.transitions.workspace import create_token, ensure_owner
from recovery.web.scenes import Stage
from tests.conftest import Api

CONTRACT = {
    "contract": "tickets.import",
    "effect": "batch",
    "owner": "helpdesk",
    "identity": "none",
    "items": {"path": "payload.tickets", "key": "ref"},
    "budgets": {"retries": 0},
}
Batch = Callable[..., str]


@pytest.fixture
def batch(stage: Stage) -> Batch:
    """Opens a batch of three tickets in the stage's workspace and reports these statuses; gives its page's address."""
    now = database_now()
    owner = ensure_owner(workspace_id=stage.workspace_id, name="helpdesk", base_url="http://127.0.0.1:1")
    publish_contract(workspace_id=stage.workspace_id, contract=parse_contract(CONTRACT), owner_id=owner, now=now)
    token = create_token(
        workspace_id=stage.workspace_id,
        name="batches",
        scopes=list(Scope),
        now=now,
        expires_at=now + timedelta(days=1),
    )
    api = Api(token.token)

    def make(**statuses: int) -> str:
        tickets = [{"ref": ref, "title": f"Ticket {ref}"} for ref in ("north", "south", "east")]
        body = {"operation_id": "b-1", "tool": "tickets.import", "payload": {"tickets": tickets}, "attempt": True}
        id = api.post("/operations", body).json()["data"]["id"]
        results = [{"id": ref, "status": status} for ref, status in statuses.items()]
        seen = {"kind": "http", "status": 200, "body": {"results": results}}
        answer = api.post("/operations/b-1/attempts/attempt-01/observations", seen)
        assert answer.status_code == 200, answer.json()
        return f"/operations/{id}/"

    return make


def say(client: Client, page: str, **fields: Any) -> Any:
    one = held(id=page.split("/")[2])  # type: ignore[arg-type]
    assert one is not None
    form = {"version": one.facts.version, "reason": "looked at the list", "evidence_url": "", **fields}
    return client.post(f"{page}items/", form)


def test_what_is_known_of_each_item(batch: Batch, as_person: Any) -> None:
    text = as_person("olive").get(batch(north=201, south=402)).content.decode()
    assert "Submitted 3, accounted for 2." in text
    assert "1 unknown" in text
    assert "1 happened" in text
    for key in ("north", "south", "east"):
        assert f'<bdi class="mono">{key}</bdi>' in text
    assert text.count('name="item-') == 3, "only the item of which nobody knows is asked about"
    assert "A batch is answered item by item." in text, "and the whole is not answered at once"


def test_a_viewer_sees_the_items_and_no_form(batch: Batch, as_person: Any) -> None:
    page = batch(north=201, south=402)
    text = as_person("vic").get(page).content.decode()
    assert "Submitted 3" in text
    assert 'name="item-' not in text
    assert say(as_person("vic"), page, **{"item-3": "applied"}).status_code == 403


def test_an_answer_for_an_item_settles_the_batch(batch: Batch, as_person: Any) -> None:
    page = batch(north=201, south=402)
    olive = as_person("olive")
    assert say(olive, page).status_code == 422, "no item was answered"
    wrong = say(olive, page, reason="", **{"item-3": "applied"})
    assert wrong.status_code == 422
    assert 'value="applied" checked' in wrong.content.decode(), "what was chosen is kept"
    assert say(olive, page, version=1, **{"item-3": "applied"}).status_code == 409, "it moved since it was seen"
    assert say(olive, page, **{"item-3": "applied"}).status_code == 303
    text = olive.get(page).content.decode()
    assert "Settled" in text
    assert 'name="item-' not in text


def test_what_did_not_happen_needs_a_second_person(batch: Batch, as_person: Any) -> None:
    page = batch(north=201, south=402)
    assert say(as_person("olive"), page, **{"item-3": "not_applied"}).status_code == 303
    text = as_person("otto").get(page).content.decode()
    assert "Sign the same answers" in text
    assert 'value="not_applied" checked' in text
    assert say(as_person("otto"), page, **{"item-3": "not_applied"}).status_code == 303
    assert "Settled" in as_person("otto").get(page).content.decode()


def test_what_is_partial_for_good_is_closed(batch: Batch, as_person: Any) -> None:
    page = batch(north=201, south=402, east=201)
    olive = as_person("olive")
    assert "Close it in part" in olive.get(page).content.decode()
    assert say(olive, page).status_code == 303
    assert "Settled" in olive.get(page).content.decode()
