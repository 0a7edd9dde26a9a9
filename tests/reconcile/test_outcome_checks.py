"""After success the outcome is compared with what was intended: as intended, different, or not to be seen."""

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest

from recovery.owners.verify import Inspected
from recovery.reconcile import reconcile
from tests.conftest import TICKETS, Api, Bench, Database, make_bench
from tests.reconcile.stage import Owner, look_until

TITLE = "Export broken"
CREATED = {
    "kind": "http",
    "request": {"method": "POST", "path": "/tickets"},
    "status": 201,
    "body": {"id": "T-1", "title": TITLE},
}
VERIFIED = {
    "receipt": {"id": "body.id"},
    "verify": {"http": {"path": "/tickets/{receipt.id}"}, "expect": {"title": "body.title"}},
}


@pytest.fixture
def owner() -> Iterator[Owner]:
    made = Owner()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def created(database: Database, owner: Owner) -> Callable[..., tuple[Api, UUID]]:
    """An operation whose answer said that it was done, with a contract that wants it checked."""

    def make(**more: Any) -> tuple[Api, UUID]:
        bench: Bench = make_bench(owner_url=owner.url)
        bench.publish({**TICKETS, **VERIFIED, **more})
        api = Api(bench.token)
        body = {"operation_id": "t-1", "tool": "tickets.create", "payload": {"title": TITLE}, "attempt": True}
        id = UUID(api.post("/operations", body).json()["data"]["id"])
        told = api.post("/operations/t-1/attempts/attempt-01/observations", CREATED).json()["data"]
        assert (told["decision"]["recovery_action"], told["state"]) == ("verify", "verifying")
        return api, id

    return make


def test_an_outcome_as_intended_settles_it(created: Any, owner: Owner) -> None:
    api, id = created()
    owner.at["/tickets/T-1"] = (200, {"title": TITLE})
    data = look_until(id, api, state="settled")
    assert (data["outcome"], data["verification"]) == ("applied", "verified")
    piece = data["evidence"][-1]
    assert (piece["speaker"], piece["outcome"], piece["effect"]) == ("verifier", "verified", None)


def test_a_verifier_that_is_down_is_asked_again_and_nothing_is_written(created: Any, owner: Owner) -> None:
    api, id = created()
    owner.at["/tickets/T-1"] = (503, {})
    reconcile_until(lambda data: data["budgets"]["checks"]["used"] >= 2, api, id)
    data = api.get("/operations/t-1").json()["data"]
    assert (data["decision"]["recovery_action"], data["effect"], data["verification"]) == (
        "verify",
        "applied",
        "unavailable",
    )
    assert len(data["attempts"]) == 1
    assert api.post("/operations/t-1/attempts", {}).status_code == 409
    owner.at["/tickets/T-1"] = (200, {"title": TITLE})
    assert look_until(id, api, state="settled")["verification"] == "verified"


def test_checks_have_a_budget_of_their_own_and_a_person_at_its_end(created: Any, owner: Owner) -> None:
    api, id = created(budgets={"checks": 2})
    owner.at["/tickets/T-1"] = (503, {})
    data = look_until(id, api, state="escalated")
    assert (data["decision"]["code"], data["effect"]) == ("CHECKS_ENDED", "applied")
    assert data["budgets"]["polls"]["used"] == 0
    owner.at["/tickets/T-1"] = (200, {"title": TITLE})
    data = look_until(id, api, state="settled")
    assert (data["outcome"], data["verification"]) == ("applied", "verified"), "checks go on after the escalation"


def test_a_difference_is_looked_at_before_a_person_is_asked(created: Any, owner: Owner) -> None:
    api, id = created(budgets={"checks": 2})
    owner.at["/tickets/T-1"] = (200, {"title": "Something else"})
    owner.status, owner.body = 200, {"title": TITLE}
    data = look_until(id, api, state="escalated")
    assert (data["decision"]["code"], data["verification"], data["effect"]) == ("CHECK_FAILED", "failed", "applied")
    assert any(row["outcome"] == "found" for row in data["evidence"]), "the owner's record was looked at in between"
    assert len(data["attempts"]) == 1


def test_without_a_receipt_the_check_cannot_be_made_and_says_so(database: Database, owner: Owner) -> None:
    bench = make_bench(owner_url=owner.url)
    bench.publish({**TICKETS, **VERIFIED, "budgets": {"checks": 1}})
    api = Api(bench.token)
    body = {"operation_id": "t-1", "tool": "tickets.create", "payload": {"title": TITLE}, "attempt": True}
    id = UUID(api.post("/operations", body).json()["data"]["id"])
    api.post("/operations/t-1/attempts/attempt-01/observations", {**CREATED, "body": {}})
    data = look_until(id, api, state="escalated")
    assert data["decision"]["code"] == "CHECKS_ENDED"
    assert data["verification"] == "unavailable"


@pytest.mark.parametrize(
    ("checks", "differing", "says"),
    [
        ((("title", "a", "a"),), [], "The owner shows what was intended."),
        ((("title", "a", "b"),), ["title"], "The owner shows something else in title."),
        ((("urgent", True, 1),), ["urgent"], "The owner shows something else in urgent."),
        ((("title", "a", None),), [], "The owner does not show title, which says nothing."),
        ((("note", None, None),), [], "The owner shows what was intended."),
    ],
    ids=["alike", "different", "true is not 1", "not shown is no difference", "nothing was meant"],
)
def test_what_a_check_saw_is_told_as_it_is_judged(checks: Any, differing: list[str], says: str) -> None:
    seen = Inspected(checks=checks)
    assert [member for member, _, _ in seen.differs] == differing
    assert seen.sentences == (says,)


def test_what_the_contract_redacts_is_compared_and_never_shown(created: Any, owner: Owner) -> None:
    api, id = created(budgets={"checks": 1}, redact=["title"])
    owner.at["/tickets/T-1"] = (200, {"title": "hunter2"})
    owner.status, owner.body = 200, {"title": TITLE}
    data = look_until(id, api, state="escalated")
    assert data["verification"] == "failed"
    assert "hunter2" not in str(data)


def reconcile_until(holds: Callable[[dict[str, Any]], bool], api: Api, id: UUID) -> None:
    import time

    ends = time.monotonic() + 15
    while time.monotonic() < ends:
        reconcile(id=id, time_left=5)
        if holds(api.get("/operations/t-1").json()["data"]):
            return
        time.sleep(0.05)
    raise AssertionError("it never came to that")
