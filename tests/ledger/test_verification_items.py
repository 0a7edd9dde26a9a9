"""`verify_ledger` finds whatever was changed of a batch's items behind the ledger's back."""

from collections.abc import Callable, Iterator
from uuid import UUID

import psycopg
import pytest

from ledger.queries.verification import Differs, verified
from tests.conftest import Api, Bench, Database
from tests.ledger.test_laws import BATCH

REPORT = {"kind": "http", "status": 200, "body": {"results": [{"id": "a", "status": 201}, {"id": "b", "status": 500}]}}
Tamper = Callable[..., None]


@pytest.fixture
def batch(bench: Bench, database: Database) -> Iterator[UUID]:
    """A batch of three items, reported on once. It is gone after the test, so that what was done to it disturbs no other."""
    bench.publish(BATCH)
    api = Api(bench.token)
    payload = {"tickets": [{"ref": "a"}, {"ref": "b"}, {"ref": "c"}]}
    opened = {"operation_id": "v", "tool": "tickets.import", "payload": payload, "attempt": True}
    id = UUID(api.post("/operations", opened).json()["data"]["id"])
    api.post("/operations/v/attempts/attempt-01/observations", REPORT)
    yield id
    with psycopg.connect(database.superuser_url, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        for table in (
            "journal", "evidence", "revision", "item_attempt", "item", "attempt", "original", "schedule", "event",
        ):  # fmt: skip
            connection.execute(f"DELETE FROM {table} WHERE operation = %s", [id])
        connection.execute("DELETE FROM operation WHERE id = %s", [id])


CHANGED = [
    ("UPDATE item SET effect = 'pending' WHERE operation = %(id)s AND number = 2", "The effect of item 2 is pending", "an effect"),
    ("UPDATE item SET outcome = NULL WHERE operation = %(id)s AND number = 1", "The outcome of item 1", "an outcome"),
    ("UPDATE item SET licence = 'key_in_window' WHERE operation = %(id)s AND number = 2", "The licence of item 2", "a licence"),
    ("UPDATE item SET decision = '{}' WHERE operation = %(id)s AND number = 2", "The decision of item 2", "what is next for it"),
    ("UPDATE item SET clean_reads = 9 WHERE operation = %(id)s AND number = 2", "The clean_reads of item 2", "a count of reads"),
    ("UPDATE item SET key = 'z' WHERE operation = %(id)s AND number = 3", "The keys of its items", "a key"),
    ("DELETE FROM item WHERE operation = %(id)s AND number = 3", "tells of item 3, which is not there", "an item"),
    ("UPDATE item_attempt SET effect = 'pending' WHERE operation = %(id)s AND number = 2", "The effect of item attempt 1/2", "what an attempt did to it"),
    ("UPDATE item_attempt SET licence = 'key_in_window' WHERE operation = %(id)s AND number = 2", "The licence of item attempt 1/2", "why it was carried"),
    ("DELETE FROM item_attempt WHERE operation = %(id)s AND number = 3", "tells of item attempt 1/3", "that it was carried"),
    ("UPDATE revision SET keys = '[\"a\"]' WHERE operation = %(id)s", "The keys of revision 1", "what a request carried"),
]  # fmt: skip


def test_it_is_whole_as_it_is(batch: UUID) -> None:
    assert batch in [one.id for one in verified()]


@pytest.mark.parametrize(("write", "said", "why"), CHANGED, ids=[row[2] for row in CHANGED])
def test_a_change_is_found(write: str, said: str, why: str, batch: UUID, tamper: Tamper) -> None:
    tamper(write, {"id": batch})
    with pytest.raises(Differs, match=said) as found:
        for _ in verified():
            pass
    assert found.value.operation == batch, why
