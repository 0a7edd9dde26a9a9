"""Places, turns, circuits, pauses and refused credentials, on a real PostgreSQL."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from ledger.database import execute
from ledger.queries.clock import database_now
from ledger.queries.owners import owner_health, owners_everywhere, owners_to_ask, waiting
from ledger.rules.circuits import OPENS_AFTER, CircuitState
from ledger.transitions.owners import (
    Admission,
    accept_credential,
    free_place,
    keep_place,
    latch_credential,
    note_reply,
    pause,
    put_back,
    put_back_waiting,
    resume,
    take_places,
    take_turn,
    try_credential,
    wake_waiting,
)
from ledger.transitions.schedule import claim_due
from tests.conftest import TICKETS, Api, Bench, Database, make_bench
from tests.spoiled import forgotten

LASTS = timedelta(seconds=20)
Tamper = Callable[..., None]
LOST = {"kind": "exception", "exception": "ReadTimeout", "phase": "await", "bytes_sent": 300, "request_bytes": 300}


@pytest.fixture(autouse=True)
def gone_afterwards(database: Database) -> Iterator[None]:
    """Deadlines and states are moved by hand here, which no history explains."""
    with forgotten(database):
        yield


@pytest.fixture
def bench(database: Database) -> Bench:
    """A workspace whose owner takes four questions at once."""
    made = make_bench()
    made.publish({**TICKETS, "poll": {"first": "10m", "max": "10m"}, "deadline": "1h"})
    return made


def lost(bench: Bench, name: str) -> UUID:
    """An operation whose answer was lost, looked at ten minutes from now."""
    api = Api(bench.token)
    body = {"operation_id": name, "tool": "tickets.create", "payload": {"title": name}, "attempt": True}
    id = UUID(api.post("/operations", body).json()["data"]["id"])
    api.post(f"/operations/{name}/attempts/attempt-01/observations", LOST)
    return id


def due(*ids: UUID, at: str = "now()") -> None:
    execute(f"UPDATE schedule SET next_check_at = {at} WHERE operation = ANY(%s)", [list(ids)])


def next_checks(*ids: UUID) -> list[datetime]:
    rows = execute("SELECT next_check_at FROM schedule WHERE operation = ANY(%s) ORDER BY 1", [list(ids)])
    return [row[0] for row in rows]


def well(bench: Bench) -> None:
    """The owner has answered lately."""
    note_reply(owner_id=bench.owner_id, overloaded=False, roll=0.5)


def take(bench: Bench, wanted: int, *, lasts: timedelta = LASTS) -> Admission:
    return take_places(owner_id=bench.owner_id, wanted=wanted, lasts=lasts)


def versions(*ids: UUID) -> list[tuple[int, int]]:
    return execute("SELECT version, polls FROM operation WHERE id = ANY(%s) ORDER BY id", [list(ids)])


def test_one_question_goes_ahead_until_the_owner_has_answered(bench: Bench) -> None:
    assert len(take(bench, 4).places) == 1
    assert take(bench, 4).places == ()
    well(bench)
    assert len(take(bench, 9).places) == 3, "all four, with the one that is out"


def test_a_place_lapses_is_kept_and_is_given_back_by_its_holder_only(bench: Bench) -> None:
    well(bench)
    [place, *_] = take(bench, 4, lasts=timedelta(milliseconds=150)).places
    kept = keep_place(place, lasts=LASTS)
    assert kept is not None
    assert keep_place(place, lasts=LASTS) is None, "that hold is over: it was renewed"
    time.sleep(0.2)
    assert len(take(bench, 4).places) == 3, "the others lapsed, as those of a dead worker do"
    free_place(place)
    assert take(bench, 4).places == (), "an old hold frees nothing"
    free_place(kept)
    assert len(take(bench, 4).places) == 1


def test_a_place_is_not_kept_while_nobody_may_ask(bench: Bench) -> None:
    well(bench)
    [place] = take(bench, 1).places
    pause(owner_id=bench.owner_id, until=database_now() + timedelta(hours=1), because="migration", actor="olive")
    assert keep_place(place, lasts=LASTS) is None


def test_many_workers_race_for_places_and_never_hold_too_many(bench: Bench) -> None:
    well(bench)
    start = threading.Barrier(8)
    held: list[int] = []
    most: list[int] = []
    lock = threading.Lock()

    def work() -> int:
        start.wait(10)
        got = 0
        for _ in range(25):
            admission = take(bench, 2)
            with lock:
                held.extend(place.number for place in admission.places)
                most.append(len(held))
                assert len(set(held)) == len(held), "a place has one holder"
            got += len(admission.places)
            for place in admission.places:
                with lock:
                    held.remove(place.number)
                free_place(place)
        connection.close()
        return got

    with ThreadPoolExecutor(8) as pool:
        took = [future.result() for future in [pool.submit(work) for _ in range(8)]]
    assert max(most) <= 4
    assert sum(took) > 50


def test_turns_follow_each_other_evenly_and_save_up_nothing(bench: Bench) -> None:
    waits = [take_turn(owner_id=bench.owner_id, per_second=10) for _ in range(4)]
    assert waits[0] == 0
    assert [round(wait or 0, 1) for wait in waits] == [0, 0.1, 0.2, 0.3]
    time.sleep(1)
    again = [take_turn(owner_id=bench.owner_id, per_second=10) for _ in range(3)]
    assert [round(wait or 0, 1) for wait in again] == [0, 0.1, 0.2], "an idle second is no credit"
    assert take_turn(owner_id=bench.owner_id, per_second=0.1) is not None
    assert take_turn(owner_id=bench.owner_id, per_second=0.1) is None, "ten seconds are waited for in the schedule"


def test_an_outage_moves_all_that_waits_in_one_step_and_spends_nothing(bench: Bench) -> None:
    ids = [lost(bench, f"t-{number}") for number in range(30)]
    due(*ids)
    before = versions(*ids)
    for number in range(OPENS_AFTER):
        circuit = note_reply(
            owner_id=bench.owner_id, overloaded=True, roll=0.5, reason="answered 503", answer_seconds=0.5
        )
        assert (circuit.state is CircuitState.OPEN) == (number == OPENS_AFTER - 1)
    checks = next_checks(*ids)
    assert circuit.asks_again_at is not None
    assert circuit.asks_again_at <= checks[0]
    spread = checks[-1] - checks[0]
    assert timedelta(seconds=2) < spread <= timedelta(seconds=30 * 0.5 / 4), "30 × 0.5 s, four at a time"
    assert versions(*ids) == before, "no history, no polls"
    [health] = owner_health(workspace_id=bench.id)
    assert (health.circuit, health.waiting, health.last_reason) == (CircuitState.OPEN, 30, "answered 503")
    assert health.asks_again_at == circuit.asks_again_at
    admission = take(bench, 4)
    assert (admission.places, admission.not_before) == ((), circuit.asks_again_at)
    assert (bench.slug, "helpdesk", "open", 0) in owners_everywhere()


def test_one_question_finds_out_and_an_answer_closes(bench: Bench) -> None:
    for _ in range(OPENS_AFTER):
        note_reply(owner_id=bench.owner_id, overloaded=True, roll=0.5)
    execute("UPDATE owner_state SET asks_again_at = now() WHERE owner = %s", [bench.owner_id])
    assert len(take(bench, 4).places) == 1
    assert take(bench, 4).places == ()
    assert owner_health(workspace_id=bench.id)[0].circuit is CircuitState.HALF_OPEN
    well(bench)
    assert len(take(bench, 4).places) == 3


def test_what_waits_is_never_moved_past_the_moment_a_person_is_asked(bench: Bench, tamper: Tamper) -> None:
    soon, over, escalated = (lost(bench, name) for name in ("soon", "over", "escalated"))
    due(soon, over, escalated)
    tamper("UPDATE operation SET deadline_at = now() + interval '1 minute' WHERE id = %s", [soon])
    tamper("UPDATE operation SET deadline_at = now() - interval '1 minute' WHERE id = ANY(%s)", [[over, escalated]])
    tamper("UPDATE operation SET state = 'escalated', escalated_at = now() WHERE id = %s", [escalated])
    until = database_now() + timedelta(minutes=30)
    pause(owner_id=bench.owner_id, until=until, because="migration", actor="olive")
    assert next_checks(soon) == [deadline(soon)]
    assert next_checks(over)[0] <= database_now(), "it stays due: a person is asked now"
    assert next_checks(escalated)[0] >= until, "a person was asked; it can wait"


def test_what_finds_no_place_is_put_back_and_what_has_ended_is_left_alone(bench: Bench, tamper: Tamper) -> None:
    plain, over, ended, moved = (lost(bench, name) for name in ("plain", "over", "ended", "moved"))
    due(plain, over, ended)
    tamper("UPDATE operation SET deadline_at = now() - interval '1 minute' WHERE id = ANY(%s)", [[over, ended]])
    tamper(
        "UPDATE operation SET state = 'escalated', escalated_at = now(), reconcile_until = now() WHERE id = %s", [ended]
    )
    before, kept = versions(plain, over, ended, moved), next_checks(moved)
    ids = [plain, over, ended, moved]
    assert put_back(ids=ids, over=timedelta(seconds=5), at_least=timedelta(seconds=1)) == [over]
    now = database_now()
    assert now < next_checks(plain)[0] < now + timedelta(seconds=7)
    assert next_checks(over)[0] <= now
    assert next_checks(ended) == [], "looked at until its end, and not beyond"
    assert next_checks(moved) == kept, "somebody looked at it meanwhile"
    assert put_back(ids=[over], over=timedelta(seconds=5), past_deadline=True) == []
    assert next_checks(over)[0] > now
    assert versions(plain, over, ended, moved) == before


def test_a_flood_is_put_back_in_one_step(bench: Bench, tamper: Tamper) -> None:
    claimed, over, *flood = (lost(bench, f"t-{number}") for number in range(12))
    due(claimed, over, *flood)
    execute("UPDATE schedule SET claimed_until = now() + interval '1 minute' WHERE operation = %s", [claimed])
    tamper("UPDATE operation SET deadline_at = now() - interval '1 minute' WHERE id = %s", [over])
    put_back_waiting(owner_id=bench.owner_id, over=timedelta(seconds=30), at_least=timedelta(seconds=1))
    now = database_now()
    assert all(now < check < now + timedelta(seconds=31) for check in next_checks(*flood))
    assert all(check <= now for check in next_checks(claimed, over)), (
        "somebody looks at one; a person is asked of the other"
    )


def test_a_pause_ends_by_itself_or_by_a_person(bench: Bench) -> None:
    ids = [lost(bench, f"t-{number}") for number in range(3)]
    until = database_now() + timedelta(minutes=30)
    pause(owner_id=bench.owner_id, until=until, because="migration", actor="olive")
    [health] = owner_health(workspace_id=bench.id)
    assert (health.paused_until, health.paused_by, health.paused_because) == (until, "olive", "migration")
    assert all(check >= until for check in next_checks(*ids))
    assert resume(owner_id=bench.owner_id, actor="olive")
    assert all(check < database_now() + timedelta(seconds=2) for check in next_checks(*ids))
    assert owner_health(workspace_id=bench.id)[0].paused_until is None
    assert not resume(owner_id=bench.owner_id, actor="olive")
    assert len(take(bench, 1).places) == 1


def test_a_refused_credential_is_latched_once_and_told_once(bench: Bench) -> None:
    start = threading.Barrier(6)

    def refuse(_: int) -> bool:
        start.wait(10)
        news = latch(bench, b"old")
        connection.close()
        return news

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(refuse, range(6))) == 1
    assert len(events(bench)) == 1
    [(kind, payload)] = events(bench)
    assert kind == "owner.credential_refused"
    assert (payload["credential"], payload["owner"]) == ("env:HELPDESK", "helpdesk")
    assert not try_credential(owner_id=bench.owner_id, reference="env:HELPDESK"), "not before its time"
    execute("UPDATE credential_latch SET tries_again_at = now() WHERE owner = %s", [bench.owner_id])
    assert try_credential(owner_id=bench.owner_id, reference="env:HELPDESK")
    assert not try_credential(owner_id=bench.owner_id, reference="env:HELPDESK"), "one question, not one a worker"
    assert not latch(bench, b"old"), "refused again: nothing new"
    assert latch(bench, b"new"), "another value, refused too"
    assert len(events(bench)) == 1, "within the hour people know already"
    accept_credential(owner_id=bench.owner_id, reference="env:HELPDESK", fingerprint=b"newer")
    [latched] = take(bench, 1).latches
    assert (latched.fingerprint, latched.stands) == (b"new", False), "workers with the old value still do not ask"
    assert owner_health(workspace_id=bench.id)[0].refused == ()
    accept_credential(owner_id=bench.owner_id, reference="env:HELPDESK", fingerprint=b"new")
    assert take(bench, 1).latches == ()


def test_who_waits_for_a_credential_is_woken(bench: Bench) -> None:
    near, far = lost(bench, "near"), lost(bench, "far")
    due(near, at="now() + interval '90 seconds'")
    kept = next_checks(far)
    wake_waiting(owner_id=bench.owner_id)
    assert next_checks(near)[0] < database_now() + timedelta(seconds=2)
    assert next_checks(far) == kept, "its own next look is far away"


def test_a_flood_of_one_owner_does_not_keep_another_waiting(bench: Bench, other_bench: Bench) -> None:
    flood = [lost(bench, f"t-{number}") for number in range(30)]
    few = [lost(other_bench, f"t-{number}") for number in range(3)]
    assert owners_to_ask(ids=[*flood, *few]) == {
        **dict.fromkeys(flood, bench.owner_id),
        **dict.fromkeys(few, other_bench.owner_id),
    }
    assert (waiting(owner_id=bench.owner_id), waiting(owner_id=other_bench.owner_id)) == (30, 3)
    execute("UPDATE schedule SET next_check_at = now() + interval '1 hour'")  # what other tests left
    due(*flood, at="'2001-01-01'")
    due(*few, at="'2001-01-02'")
    claimed = claim_due(most=10)
    assert set(few) <= set(claimed), "though all of the flood came first"
    assert len(claimed) == 10


def test_a_permit_that_lapses_asks_nobody(bench: Bench) -> None:
    api = Api(bench.token)
    body = {"operation_id": "sent", "tool": "tickets.create", "payload": {"title": "sent"}, "attempt": True}
    id = UUID(api.post("/operations", body).json()["data"]["id"])
    assert owners_to_ask(ids=[id]) == {id: None}
    kept = next_checks(id)
    pause(owner_id=bench.owner_id, until=database_now() + timedelta(hours=1), because="migration", actor="olive")
    assert next_checks(id) == kept, "no pause of an owner keeps a permit open"


def latch(bench: Bench, fingerprint: bytes) -> bool:
    return latch_credential(
        owner_id=bench.owner_id,
        workspace_id=bench.id,
        reference="env:HELPDESK",
        fingerprint=fingerprint,
        reason="The owner answered 401",
        told={"owner": "helpdesk", "code": "CREDENTIAL_REFUSED"},
    )


def events(bench: Bench) -> list[tuple[str, Any]]:
    rows = execute("SELECT kind, payload FROM event WHERE workspace_id = %s AND operation IS NULL", [bench.id])
    return [(kind, json.loads(payload) if isinstance(payload, str) else payload) for kind, payload in rows]


def deadline(id: UUID) -> datetime:
    at: datetime = execute("SELECT deadline_at FROM operation WHERE id = %s", [id])[0][0]
    return at
