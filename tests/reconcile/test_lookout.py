"""One lookout of all processes sweeps when something comes due; it ends with its connection, and another begins."""

import threading
import time
from collections.abc import Iterator

import psycopg
import pytest

from ledger.database import execute
from ledger.queries.clock import database_now
from ledger.queries.schedule import next_due
from recovery.lookout import LONGEST_NAP, PLACE, Lookout
from tests.conftest import Api, Bench, Database


class Swept:
    """Notes when it is called."""

    def __init__(self) -> None:
        self.at: list[float] = []
        self.broken = False
        self.called = threading.Event()

    def __call__(self) -> int:
        self.at.append(time.monotonic())
        self.called.set()
        if self.broken:
            raise RuntimeError("the broker is away")
        return 0


@pytest.fixture
def place(database: Database) -> Iterator[Database]:
    """Nobody looks out at the start, nor afterwards."""
    _nobody(database)
    yield database
    _nobody(database)


def _nobody(database: Database) -> None:
    with psycopg.connect(database.superuser_url, autocommit=True) as superuser:
        superuser.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objid = %s", [PLACE]
        )
    _until(lambda: _holders() == 0)


def _holders() -> int:
    return int(execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = %s", [PLACE])[0][0])


def _until(true: object) -> None:
    ends = time.monotonic() + 10
    while not true():  # type: ignore[operator]
        assert time.monotonic() < ends
        time.sleep(0.02)


def test_only_one_looks_out_and_another_begins_when_its_connection_is_gone(place: Database) -> None:
    first, second = Swept(), Swept()
    one, other = Lookout(sweep=first, most=10), Lookout(sweep=second, most=10)
    one.stand()
    assert first.called.wait(10)
    other.stand()
    time.sleep(2 * LONGEST_NAP)
    assert len(first.at) >= 2, "it looks all the same"
    assert not second.at
    _nobody(place)
    other.stand()
    assert second.called.wait(10)
    assert _holders() == 1


def test_a_sweep_that_fails_ends_it_and_the_next_tick_begins_anew(place: Database) -> None:
    swept = Swept()
    swept.broken = True
    lookout = Lookout(sweep=swept, most=10)
    lookout.stand()
    assert swept.called.wait(10)
    _until(lambda: _holders() == 0)
    swept.broken = False
    swept.called.clear()

    def begun() -> bool:
        lookout.stand()  # beat ticks until somebody stands; the first tick may find the old thread still ending
        return swept.called.is_set()

    _until(begun)


def test_it_sweeps_when_something_comes_due_sooner_than_it_thought(place: Database, bench: Bench, api: Api) -> None:
    swept = Swept()
    Lookout(sweep=swept, most=10).stand()
    assert swept.called.wait(10)
    body = {
        "operation_id": "t-1",
        "tool": "tickets.create",
        "payload": {"title": "x", "customer": "c"},
        "attempt": True,
    }
    id = api.post("/operations", body).json()["data"]["id"]
    due: list[float] = []
    for _ in range(5):
        swept.at.clear()
        execute("UPDATE schedule SET next_check_at = clock_timestamp() + interval '150 ms' WHERE operation = %s", [id])
        execute("SELECT pg_notify('operation_changed', %s)", [id])
        comes_due = time.monotonic() + 0.15
        time.sleep(0.4)
        due += [at - comes_due for at in swept.at if at >= comes_due - 0.05][:1]
    assert len(due) == 5
    assert sorted(due)[2] < 0.1, "at its moment, not at the next look"


def test_what_is_due_next_is_what_nobody_holds(bench: Bench, api: Api) -> None:
    since = database_now()
    body = {
        "operation_id": "t-1",
        "tool": "tickets.create",
        "payload": {"title": "x", "customer": "c"},
        "attempt": True,
    }
    id = api.post("/operations", body).json()["data"]["id"]
    execute("UPDATE schedule SET next_check_at = now() + interval '1 ms' WHERE operation = %s", [id])
    seconds, now = next_due(since=since)
    assert seconds is not None
    assert seconds < 1
    assert now > since
    execute("UPDATE schedule SET claimed_until = now() + interval '1 hour' WHERE operation = %s", [id])
    held, _ = next_due(since=since)
    assert held is None or held > seconds
    execute("DELETE FROM schedule WHERE operation = %s", [id])
