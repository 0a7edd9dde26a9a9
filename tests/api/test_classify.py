"""Judging without recording."""

from typing import Any

import pytest

from ledger.database import execute
from tests.conftest import Api

WRITE = {"effect": "write", "idempotency": {"guarantee": "none"}}
TIMEOUT = {"kind": "exception", "exception": "ReadTimeout", "phase": "await"}


def test_a_lost_answer_is_unknown_and_nothing_is_stored(api: Api) -> None:
    before = execute("SELECT count(*) FROM operation")
    answer = api.post("/classify", {"contract": WRITE, "history": [], "observation": TIMEOUT})
    assert answer.status_code == 200
    data = answer.json()["data"]
    assert (data["recovery_action"], data["effect_status"]) == ("reconcile", "unknown")
    assert execute("SELECT count(*) FROM operation") == before


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"contract": {"effect": "wish"}, "observation": TIMEOUT}, "contract.effect"),
        ({"contract": WRITE, "observation": {"kind": "telepathy"}}, "observation.kind"),
        ({"contract": WRITE, "observation": TIMEOUT, "history": [{"kind": "telepathy"}]}, "history[0].kind"),
        ({"contract": WRITE}, "observation"),
        ({"contract": WRITE, "observation": TIMEOUT, "extra": 1}, "extra"),
        ({"contract": WRITE, "observation": TIMEOUT, "now": "yesterday"}, "now"),
    ],
)
def test_what_is_wrong_is_named(api: Api, body: dict[str, Any], field: str) -> None:
    answer = api.post("/classify", body)
    assert answer.status_code == 422, answer.content
    assert answer.json()["error"]["field"] == field
