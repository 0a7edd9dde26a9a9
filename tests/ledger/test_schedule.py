"""Claims from a watermark on: what lies before it was claimed and has moved on, and is looked at now and then all the same."""

from uuid import UUID

import pytest

from ledger.database import execute
from ledger.transitions.schedule import SLACK, Watermark, claim_due
from tests.conftest import Api, Bench


@pytest.fixture
def ids(bench: Bench, api: Api) -> list[UUID]:
    """Three operations of ours, due one minute after the other, the last a minute ago; nothing else is due."""
    execute(
        "UPDATE schedule SET next_check_at = now() + interval '1 day' WHERE next_check_at < now() + interval '1 hour'"
    )
    made = []
    for number in range(3):
        body = {
            "operation_id": f"t-{number}",
            "tool": "tickets.create",
            "payload": {"title": str(number), "customer": "c"},
            "attempt": True,
        }
        id = UUID(api.post("/operations", body).json()["data"]["id"])
        execute(
            "UPDATE schedule SET next_check_at = now() - %s * interval '1 minute' WHERE operation = %s",
            [3 - number, id],
        )
        made.append(id)
    return made


def free(id: UUID) -> None:
    """Its claim has lapsed."""
    execute("UPDATE schedule SET claimed_until = now() - interval '1 second' WHERE operation = %s", [id])


def test_a_watermark_lies_a_little_before_the_earliest_that_was_due(ids: list[UUID]) -> None:
    mark = Watermark()
    assert claim_due(most=1, watermark=mark) == ids[:1]
    [(first,)] = execute("SELECT next_check_at FROM schedule WHERE operation = %s", [ids[0]])
    assert mark.at == first - SLACK
    assert set(claim_due(most=10, watermark=mark)) == set(ids[1:])
    assert mark.at > first, "the first was not free any more"


def test_what_lies_before_it_waits_for_the_next_look_from_the_beginning(ids: list[UUID]) -> None:
    mark = Watermark()
    claim_due(most=1, watermark=mark)
    claim_due(most=10, watermark=mark)
    free(ids[0])
    free(ids[2])
    assert claim_due(most=10, watermark=mark) == [ids[2]], "a claim that lapsed, and one that lapsed long before"
    mark.rescanned_at = float("-inf")
    assert claim_due(most=10, watermark=mark) == [ids[0]]


def test_without_a_watermark_everything_is_seen(ids: list[UUID]) -> None:
    assert set(claim_due(most=10)) >= set(ids)
    free(ids[0])
    assert claim_due(most=10) == [ids[0]]


def test_nothing_due_moves_no_watermark(ids: list[UUID]) -> None:
    mark = Watermark()
    claim_due(most=10, watermark=mark)
    at = mark.at
    assert claim_due(most=10, watermark=mark) == []
    assert mark.at == at
