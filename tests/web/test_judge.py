"""The judge page: what it says, what it refuses, and that it records nothing."""

import pytest
from django.test import Client

from ledger.database import execute
from ledger.rules.vocabulary import Role
from ledger.transitions.workspace import ensure_person, ensure_role
from tests.conftest import Bench

TIMEOUT = '{"kind": "exception", "exception": "ReadTimeout", "phase": "await", "message": "<script>alert(1)</script>"}'


@pytest.fixture
def page(bench: Bench) -> Client:
    person = ensure_person(username=f"judge-{bench.slug}", name="Judy", password="a-long-password-1")
    ensure_role(workspace_id=bench.id, person_id=person, role=Role.VIEWER)
    client = Client()
    assert client.login(username=f"judge-{bench.slug}", password="a-long-password-1")
    return client


def test_a_timeout_on_a_write_is_told_with_its_rule(page: Client) -> None:
    answer = page.post("/judge/", {"contract": "write", "observation": TIMEOUT, "history": ""})
    text = answer.content.decode()
    assert answer.status_code == 200
    assert "Next step: reconcile" in text
    assert "OUTCOME_UNKNOWN" in text
    assert "Rules that did not hold" in text
    assert "<script>alert(1)</script>" not in text


def test_the_same_on_a_read_is_retried(page: Client) -> None:
    answer = page.post("/judge/", {"contract": "read", "observation": TIMEOUT, "history": ""})
    assert "Next step: retry" in answer.content.decode()


def test_a_published_contract_can_be_picked(page: Client, bench: Bench) -> None:
    [(version,)] = execute("SELECT current_id FROM tool WHERE workspace_id = %s", [bench.id])
    answer = page.post("/judge/", {"contract": str(version), "observation": TIMEOUT, "history": ""})
    assert answer.status_code == 200
    assert "tickets.create@1" in answer.content.decode()


@pytest.mark.parametrize(
    ("form", "says"),
    [
        ({"observation": "{"}, "This is not JSON"),
        ({"observation": "[]"}, "This must be an object"),
        ({"observation": '{"kind": "telepathy"}'}, "kind"),
        ({"observation": TIMEOUT, "history": "{}"}, "a list of observations"),
        ({"observation": TIMEOUT, "history": "[1]"}, "a list of observations"),
        ({"observation": TIMEOUT, "contract": "another workspace's"}, "Choose one of the contracts"),
    ],
)
def test_nonsense_is_named_and_nothing_typed_is_lost(page: Client, form: dict[str, str], says: str) -> None:
    answer = page.post("/judge/", {"contract": "write", "history": "", **form})
    text = answer.content.decode()
    assert answer.status_code == 422
    assert says in text
    assert "aria-invalid" in text


def test_nothing_is_recorded(page: Client) -> None:
    before = execute("SELECT count(*) FROM journal")
    page.post("/judge/", {"contract": "write", "observation": TIMEOUT, "history": ""})
    assert execute("SELECT count(*) FROM journal") == before
