"""What one look at an operation comes to, against a real HTTP owner, without workers."""

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest

from recovery.reconcile import Done, reconcile
from tests.conftest import TICKETS, Api, Bench, Database, make_bench
from tests.reconcile.stage import Owner, look_until

LOST = {"kind": "exception", "exception": "ReadTimeout", "phase": "await", "bytes_sent": 300, "request_bytes": 300}
TITLE = "Export broken"


@pytest.fixture
def owner() -> Iterator[Owner]:
    made = Owner()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def lost(database: Database, owner: Owner) -> Callable[..., tuple[Api, UUID]]:
    """An operation whose answer was lost, at an owner that answers what the test says."""

    def make(**more: Any) -> tuple[Api, UUID]:
        bench: Bench = make_bench(owner_url=owner.url)
        bench.publish({**TICKETS, **more})
        api = Api(bench.token)
        body = {"operation_id": "t-1", "tool": "tickets.create", "payload": {"title": TITLE}, "attempt": True}
        id = UUID(api.post("/operations", body).json()["data"]["id"])
        api.post("/operations/t-1/attempts/attempt-01/observations", LOST)
        return api, id

    return make


def test_what_the_owner_holds_settles_it_as_applied(lost: Any, owner: Owner) -> None:
    api, id = lost()
    owner.status, owner.body = 200, {"title": TITLE}
    data = look_until(id, api, state="settled")
    assert data["outcome"] == "applied"
    assert data["evidence"][-1]["proof"] == "lookup_match"
    assert api.post("/operations/t-1/attempts", {}).status_code == 409


def test_absence_counts_only_after_the_possible_end_and_twice(lost: Any, owner: Owner) -> None:
    api, id = lost()
    data = look_until(id, api, state="open")
    lapses_at = data["attempts"][0]["lapses_at"]
    counted = [row for row in data["evidence"] if row["outcome"] == "no_match"]
    assert counted[-1]["proof"] == "graded_absence"
    assert counted[-2]["observed_at"] > lapses_at, "the first of the two clean reads came after the possible end"
    assert data["effect"] == "none"
    again = api.post("/operations/t-1/attempts", {})
    assert again.status_code == 201
    assert again.json()["data"]["licence"] == "effect_none_proved"


def test_something_else_under_our_key_is_a_conflict_for_a_person(lost: Any, owner: Owner) -> None:
    api, id = lost()
    owner.status, owner.body = 200, {"title": "Something else"}
    data = look_until(id, api, state="escalated")
    assert data["effect"] == "unknown"


def test_an_owner_that_stays_down_ends_the_polls_and_escalates(lost: Any, owner: Owner) -> None:
    api, id = lost(budgets={"polls": 3})
    owner.status = 503
    data = look_until(id, api, state="escalated")
    assert data["effect"] == "unknown"
    assert data["decision"]["code"] == "POLLS_ENDED"
    owner.status, owner.body = 200, {"title": TITLE}
    assert look_until(id, api, state="settled")["outcome"] == "applied", "lookups go on after the escalation"


def test_nothing_is_done_before_its_time(lost: Any, owner: Owner) -> None:
    _, id = lost(poll={"first": "1h", "max": "1h"})
    assert reconcile(id=id, time_left=5) is Done.NOTHING
    assert owner.asked == 0
