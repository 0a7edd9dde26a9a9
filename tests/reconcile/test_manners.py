"""Good manners under failure: an owner that is down, slow, busy or unwilling, and the operations that wait for it."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ledger.database import execute, forget_broken
from ledger.queries.clock import database_now
from ledger.queries.owners import owner_health
from ledger.rules.circuits import OPENS_AFTER, CircuitState
from ledger.transitions.owners import pause, take_places
from ledger.transitions.secrets import set_secret
from recovery.hands import Hands
from recovery.reconcile import Done, reconcile
from recovery.sealing import seal
from recovery.sweeps import look_at
from tests.conftest import ROOT, TICKETS, Database
from tests.journeys.programs import until
from tests.reconcile.crowd import CountingOwner, crowd, due, limits, polls, states, work

LOOKUP = TICKETS["lookup"][0]
VARIABLE = "ASCERTAIN_TEST_HELPDESK"


@pytest.fixture
def owner(database: Database) -> Iterator[CountingOwner]:
    execute("UPDATE schedule SET next_check_at = now() + interval '1 day'")  # what other tests left
    made = CountingOwner()
    yield made
    made.close()


@pytest.fixture
def other(database: Database) -> Iterator[CountingOwner]:
    made = CountingOwner()
    yield made
    made.close()


def test_all_are_asked_but_never_more_at_once_than_the_owner_takes(owner: CountingOwner) -> None:
    owner.seconds = 0.05
    bench, ids = crowd(owner, 30)
    limits(bench, most_at_once=3)
    assert look_at(ids=ids) == {Done.ASKED: 30}
    assert states(ids) == {"settled": 30}
    assert owner.most_at_once == 3
    until(lambda: owner_health(workspace_id=bench.id)[0].open_questions == 0, seconds=5, what="a place was kept")
    assert owner_health(workspace_id=bench.id)[0].waiting == 0


def test_two_processes_share_the_places(owner: CountingOwner) -> None:
    owner.seconds = 0.05
    bench, ids = crowd(owner, 40)
    limits(bench, most_at_once=4)
    # Each process has hands of its own; what they share stands in the database.
    first, second = (Hands(look=lambda id, left, visit: reconcile(id=id, time_left=left, visit=visit)) for _ in "ab")
    owners = dict.fromkeys(ids, bench.owner_id)
    futures = first.give(dict(list(owners.items())[:20]), ends=time.monotonic() + 10)
    futures += second.give(dict(list(owners.items())[20:]), ends=time.monotonic() + 10)
    assert {future.result(15) for future in futures} == {Done.ASKED}
    assert owner.most_at_once <= 4
    assert states(ids) == {"settled": 40}


def test_a_rate_is_kept_without_bursts(owner: CountingOwner) -> None:
    bench, ids = crowd(owner, 25)
    limits(bench, most_at_once=8, per_second=10)
    work(seconds=20, until=lambda: states(ids)["settled"] == 25)
    assert states(ids) == {"settled": 25}
    assert owner.most_in(seconds=1.0) <= 11
    assert owner.most_in(seconds=0.25) <= 4, "spread within the second too"
    assert polls(ids) == 25


def test_an_owner_that_is_down_is_left_alone_and_nobody_pays_for_it(owner: CountingOwner) -> None:
    owner.status = 503
    bench, ids = crowd(owner, 40)
    work(seconds=4)
    [health] = owner_health(workspace_id=bench.id)
    assert health.circuit is not CircuitState.CLOSED
    assert health.waiting == 40
    assert OPENS_AFTER <= len(owner.asked) <= OPENS_AFTER + 3, "five that opened it, and one now and then"
    assert polls(ids) == len(owner.asked), "only what was asked is spent"
    assert states(ids) == {"reconciling": 40}
    rows = execute("SELECT count(*) FROM journal WHERE operation = ANY(%s)", [ids])
    assert rows == [(80 + len(owner.asked),)], "no row of history for a wait"

    owner.status, owner.seconds = 200, 0.05
    owner.begin_again()
    work(seconds=40, until=lambda: states(ids)["settled"] == 40)
    assert states(ids) == {"settled": 40}
    assert owner.most_at_once <= 4
    assert owner.asked[1] - owner.asked[0] >= 0.05, "one found out, and the others came after its answer"
    assert owner_health(workspace_id=bench.id)[0].circuit is CircuitState.CLOSED


def test_a_wait_that_the_owner_asks_for_holds_for_all(owner: CountingOwner) -> None:
    owner.status, owner.headers = 429, {"Retry-After": "3"}
    bench, ids = crowd(owner, 20)
    began = time.monotonic()
    work(seconds=2.0)
    assert len(owner.asked) == 1, "the first answer tells all of us"
    owner.status, owner.headers = 200, {}
    work(seconds=30, until=lambda: states(ids)["settled"] == 20)
    assert states(ids) == {"settled": 20}
    assert owner.asked[1] - owner.asked[0] >= 3
    assert time.monotonic() - began < 30
    assert polls(ids) == 21
    assert owner_health(workspace_id=bench.id)[0].circuit is CircuitState.CLOSED


def test_a_refused_credential_is_told_once_and_asked_with_no_more(
    owner: CountingOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "old")
    owner.accepts = "Bearer new"
    bench, ids = crowd(
        owner, 25, lookup=[{**LOOKUP, "as": f"env:{VARIABLE}"}], escalation={"notify": ["ops"], "priority": "high"}
    )
    for _ in range(3):
        work(seconds=0.6)
        due(ids)
    assert len(owner.asked) == 1
    events = execute(
        "SELECT payload FROM event WHERE workspace_id = %s AND kind = 'owner.credential_refused'", [bench.id]
    )
    assert len(events) == 1
    told = json.loads(events[0][0])
    assert (told["credential"], told["waiting"], told["notify"]) == (f"env:{VARIABLE}", 25, ["ops"])
    assert "old" not in told.values()
    assert polls(ids) == 1
    assert states(ids) == {"reconciling": 25}
    [health] = owner_health(workspace_id=bench.id)
    assert [latched.reference for latched in health.refused] == [f"env:{VARIABLE}"]
    assert health.circuit is CircuitState.CLOSED, "the owner is well; it refuses who we are"
    execute("UPDATE credential_latch SET tries_again_at = now() WHERE owner = %s", [bench.owner_id])
    due(ids)
    work(seconds=0.6)
    assert len(owner.asked) == 2, "one question tries it again"

    monkeypatch.setenv(VARIABLE, "new")
    due(ids)
    work(seconds=20, until=lambda: states(ids)["settled"] == 25)
    assert states(ids) == {"settled": 25}
    assert owner_health(workspace_id=bench.id)[0].refused == ()


def test_a_secret_is_asked_with_and_a_new_value_wakes_who_waits(owner: CountingOwner) -> None:
    owner.accepts = "Bearer right"
    bench, ids = crowd(owner, 3, lookup=[{**LOOKUP, "as": "secret:helpdesk"}])
    set_secret(workspace_id=bench.id, name="helpdesk", sealed=seal("wrong"))
    work(seconds=0.6)
    assert (len(owner.asked), states(ids)) == (1, {"reconciling": 3})
    set_secret(workspace_id=bench.id, name="helpdesk", sealed=seal("right"))
    work(seconds=15, until=lambda: states(ids)["settled"] == 3)
    assert states(ids) == {"settled": 3}
    kept = execute(
        "SELECT string_agg(e.query || e.principal || e.detail::text, '') FROM evidence e WHERE e.operation = ANY(%s)",
        [ids],
    )
    assert "right" not in kept[0][0]


def test_a_deadline_ends_with_a_person_whatever_the_owner_does(owner: CountingOwner) -> None:
    bench, ids = crowd(owner, 3, deadline="2s")
    pause(owner_id=bench.owner_id, until=database_now() + timedelta(hours=1), because="migration", actor="olive")
    work(seconds=10, until=lambda: states(ids)["escalated"] == 3)
    assert states(ids) == {"escalated": 3}
    assert owner.asked == []
    assert polls(ids) == 0


def test_lookups_go_on_at_the_slowest_pace_and_end(owner: CountingOwner) -> None:
    owner.status = 403
    _, [id] = crowd(
        owner,
        1,
        dispatch_within="500ms",
        timeout="500ms",
        budgets={"polls": 2},
        poll={"first": "50ms", "max": "400ms", "jitter": 0},
        reconcile_until="6s",
    )
    work(seconds=8, until=lambda: states([id])["escalated"] == 1)
    escalated_at = len(owner.asked)
    work(seconds=8, until=lambda: not execute("SELECT 1 FROM schedule WHERE operation = %s", [id]))
    assert states([id]) == {"escalated": 1}
    assert len(owner.asked) > escalated_at + 1
    later = owner.asked[escalated_at:]
    assert all(after - before >= 0.39 for before, after in pairwise(later)), "its slowest pace"
    asked = len(owner.asked)
    work(seconds=1)
    assert len(owner.asked) == asked, "its time is over; the person stays asked"


def test_a_hanging_owner_costs_a_quick_one_nothing(owner: CountingOwner, other: CountingOwner) -> None:
    """Alone, and beside an owner that hangs for three seconds and has more operations due."""

    def settled_in(ids: list[Any]) -> float:
        began = time.monotonic()
        work(seconds=30, until=lambda: states(ids)["settled"] == len(ids))
        assert states(ids) == {"settled": len(ids)}
        return time.monotonic() - began

    owner.seconds, other.seconds = 3.0, 0.01
    bench, quick = crowd(other, 60)
    alone = settled_in(quick)
    limits(bench, most_at_once=4)
    crowd(owner, 120)
    _, quick = crowd(other, 60)
    beside = settled_in(quick)
    assert owner.asked, "the hanging one was being asked"
    assert owner.most_at_once <= 4
    assert beside < alone + 2.0, f"{alone:.1f} s alone, {beside:.1f} s beside a hanging owner"


def test_a_flood_leaves_the_way_free(owner: CountingOwner) -> None:
    owner.seconds = 3.0
    bench, ids = crowd(owner, 150)
    work(seconds=2.5)
    left = execute(
        "SELECT count(*) FROM schedule WHERE operation = ANY(%s) AND next_check_at <= now() AND claimed_until IS NULL",
        [ids],
    )
    assert left[0][0] < 20, "what the owner cannot take now is due later"
    assert polls(ids) <= 4
    assert owner.most_at_once <= 4
    pause(owner_id=bench.owner_id, until=database_now() + timedelta(hours=1), because="the end", actor="tests")


def test_a_database_that_comes_back_is_used_again_at_once(owner: CountingOwner, database: Database) -> None:
    owner.seconds = 0.02
    _, ids = crowd(owner, 40)
    work(seconds=0.2)
    with psycopg.connect(database.superuser_url, autocommit=True) as superuser:
        superuser.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = 'ascertain_app'"
        )
    forget_broken()  # this thread's own; those of the hands are theirs to replace
    work(seconds=20, until=lambda: states(ids)["settled"] == 40)
    assert states(ids) == {"settled": 40}


def test_a_killed_worker_leaves_its_place_to_its_end(owner: CountingOwner, database: Database, tmp_path: Path) -> None:
    owner.seconds = 30
    bench, [id, *_] = crowd(owner, 1)
    limits(bench, most_at_once=1)
    script = tmp_path / "worker.py"
    script.write_text(
        "import sys\nfrom datetime import timedelta\nfrom uuid import UUID\nimport django\ndjango.setup()\n"
        "from recovery import asking\nfrom recovery.reconcile import reconcile\n"
        "asking.PLACE_LASTS = timedelta(seconds=3)\nreconcile(id=UUID(sys.argv[1]), time_left=15)\n"
    )
    env = {**os.environ, "DATABASE_URL": database.app_url, "DJANGO_SETTINGS_MODULE": "recovery.settings"}
    env["PYTHONPATH"] = str(ROOT)
    worker = subprocess.Popen([sys.executable, str(script), str(id)], env=env, cwd=ROOT)
    try:
        ends = time.monotonic() + 20
        while not owner.asked and time.monotonic() < ends:
            time.sleep(0.05)
        assert owner.asked
    finally:
        worker.kill()
        worker.wait()
    assert take_places(owner_id=bench.owner_id, wanted=1, lasts=timedelta(seconds=5)).places == ()
    assert reconcile(id=id, time_left=5) is Done.PUT_BACK
    owner.seconds = 0
    time.sleep(3)
    due([id])
    assert reconcile(id=id, time_left=5) is Done.ASKED
    assert states([id]) == {"settled": 1}
