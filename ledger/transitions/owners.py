"""Whether an owner may be asked: places among the questions open at it, turns under its rate, its circuit, its pause,
and credentials that it refused.

Nothing here touches an operation or its history. Operations that cannot be asked for now are put back in the schedule,
many in one statement, and never past the moment at which a person is asked whatever the owner does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import orjson
from django.db import transaction

from ledger.database import execute
from ledger.identifiers import new_id
from ledger.queries.clock import database_now
from ledger.queries.owners import COLUMNS, WAITING, WAITS_FOR_ITS_OWNER, circuit_from, waiting
from ledger.rules.circuits import Circuit, CircuitState, after_reply, asked_now, at_most, not_before, spread_over
from ledger.rules.events import EventKind

TRIES_AGAIN_AFTER = timedelta(minutes=15)
"""So often one question finds out whether a refused credential is accepted again."""
LONGEST_WAIT_FOR_A_TURN = 2.0
"""Seconds; an owner's rate that needs a longer wait than this makes the operation wait in the schedule instead."""
ORDINARY_ANSWER = 0.5
"""Seconds that an owner needs for an answer, when nobody has measured it."""
_TURNSTILE = 0
"""The slot whose `held_until` is when the next question may begin at an owner with a rate."""
_TOLD_AGAIN_AFTER = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place among the questions that may be open at an owner at once."""

    owner_id: UUID
    number: int
    held_until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Latch:
    """A credential that its owner refused."""

    reference: str
    fingerprint: bytes
    tries_again_at: datetime
    stands: bool
    """False once another value under the same name was accepted: only workers that still have the old one are concerned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """What an owner allows now."""

    places: tuple[Place, ...]
    not_before: datetime | None
    """Until when nobody may ask; None when there is merely no place, or there was one."""
    circuit: Circuit
    most_at_once: int
    per_second: float | None
    latches: tuple[Latch, ...]
    now: datetime


def take_places(*, owner_id: UUID, wanted: int, lasts: timedelta) -> Admission:
    """Take up to `wanted` places (0: only say what the owner allows), each for `lasts`; a worker that dies leaves them to
    their end. Two statements; places that others take in the same moment are passed over, never waited for."""
    row = execute(
        f"SELECT {COLUMNS}, ow.most_at_once, ow.per_second, now(), "  # noqa: S608 - columns are ours
        "(SELECT count(*) FROM owner_slot sl WHERE sl.owner = ow.id AND sl.number BETWEEN 1 AND ow.most_at_once), "
        "(SELECT json_agg(json_build_array(l.reference, encode(l.fingerprint, 'hex'), l.tries_again_at, l.reason <> '')) "
        " FROM credential_latch l WHERE l.owner = ow.id) "
        "FROM owner ow LEFT JOIN owner_state st ON st.owner = ow.id WHERE ow.id = %s",
        [owner_id],
    )[0]
    circuit = circuit_from(row)
    most_at_once, per_second, now, places, latches = row[-5:]
    allowed = at_most(circuit, most_at_once=most_at_once, now=now)
    taken: list[tuple[Any, ...]] = []
    if allowed and wanted:
        if places < most_at_once:
            _make_places(owner_id, most_at_once)
        if asked_now(circuit, now=now).state is not circuit.state:
            execute(
                "UPDATE owner_state SET circuit = 'half_open' WHERE owner = %s AND circuit = 'open' AND asks_again_at <= now()",
                [owner_id],
            )
        taken = execute(
            "WITH free AS (SELECT owner, number FROM owner_slot WHERE owner = %(owner)s AND number BETWEEN 1 AND %(allowed)s "
            "AND held_until <= now() ORDER BY number LIMIT %(wanted)s FOR UPDATE SKIP LOCKED) "
            "UPDATE owner_slot SET held_until = now() + %(lasts)s FROM free "
            "WHERE owner_slot.owner = free.owner AND owner_slot.number = free.number "
            "RETURNING owner_slot.number, owner_slot.held_until",
            {"owner": owner_id, "allowed": allowed, "wanted": wanted, "lasts": lasts},
        )
    return Admission(
        places=tuple(Place(owner_id=owner_id, number=number, held_until=until) for number, until in taken),
        not_before=not_before(circuit, now=now),
        circuit=circuit,
        most_at_once=most_at_once,
        per_second=per_second,
        latches=tuple(
            Latch(
                reference=reference,
                fingerprint=bytes.fromhex(fingerprint),
                tries_again_at=datetime.fromisoformat(tries_again_at),
                stands=stands,
            )
            for reference, fingerprint, tries_again_at, stands in (latches or ())
        ),
        now=now,
    )


def keep_place(place: Place, *, lasts: timedelta) -> Place | None:
    """Hold a place for `lasts` from now; None when it lapsed and somebody else has it, or nobody may ask any more."""
    rows = execute(
        "UPDATE owner_slot SET held_until = now() + %(lasts)s WHERE owner = %(owner)s AND number = %(number)s "
        "AND held_until = %(until)s AND NOT EXISTS (SELECT 1 FROM owner_state st WHERE st.owner = %(owner)s "
        "AND (st.circuit = 'open' OR st.paused_until > now())) RETURNING held_until",
        {"lasts": lasts, "owner": place.owner_id, "number": place.number, "until": place.held_until},
    )
    return Place(owner_id=place.owner_id, number=place.number, held_until=rows[0][0]) if rows else None


def free_place(place: Place) -> None:
    """Give a place back; without effect when it lapsed."""
    execute(
        "UPDATE owner_slot SET held_until = now() WHERE owner = %s AND number = %s AND held_until = %s",
        [place.owner_id, place.number, place.held_until],
    )


def take_turn(
    *, owner_id: UUID, per_second: float, turns: int = 1, patience: float = LONGEST_WAIT_FOR_A_TURN
) -> float | None:
    """Seconds to wait before the next question may begin at an owner with a rate, which are then ours. None when they
    would be more than `patience`: nothing is taken then. Turns follow each other evenly; none are saved up for a burst.
    One statement."""
    interval = timedelta(seconds=turns / per_second)
    rows = execute(
        "INSERT INTO owner_slot AS sl (owner, number, held_until) VALUES (%(owner)s, %(number)s, now() + %(interval)s) "
        "ON CONFLICT (owner, number) DO UPDATE SET held_until = greatest(sl.held_until, now()) + %(interval)s "
        "WHERE sl.held_until <= now() + %(patience)s "
        "RETURNING extract(epoch FROM held_until - %(interval)s - now())::float8",
        {"owner": owner_id, "number": _TURNSTILE, "interval": interval, "patience": timedelta(seconds=patience)},
    )
    return max(float(rows[0][0]), 0.0) if rows else None


def note_reply(
    *,
    owner_id: UUID,
    overloaded: bool,
    roll: float,
    asked: timedelta | None = None,
    reason: str = "",
    answer_seconds: float = ORDINARY_ANSWER,
) -> Circuit:
    """What one question showed. When that opens the owner's circuit, everything that waits for the owner is moved to its
    end in the same transaction, spread so that the owner can answer (`answer_seconds` each)."""
    with transaction.atomic():
        execute("INSERT INTO owner_state (owner, circuit, failures, last_reason, paused_by, paused_because) "
                "VALUES (%s, 'closed', 0, '', '', '') ON CONFLICT (owner) DO NOTHING", [owner_id])  # fmt: skip
        row = execute(
            f"SELECT {COLUMNS}, clock_timestamp() FROM owner_state st WHERE st.owner = %s FOR UPDATE",  # noqa: S608
            [owner_id],
        )[0]
        before, now = circuit_from(row), row[-1]
        after = after_reply(before, overloaded=overloaded, now=now, roll=roll, asked=asked)
        execute(
            "UPDATE owner_state SET circuit = %(circuit)s, failures = %(failures)s, opened_at = %(opened_at)s, "
            "asks_again_at = %(asks_again_at)s, last_success_at = %(success)s, "
            "last_failure_at = CASE WHEN %(failed)s THEN %(now)s ELSE last_failure_at END, "
            "last_reason = CASE WHEN %(failed)s THEN %(reason)s ELSE last_reason END WHERE owner = %(owner)s",
            {
                "owner": owner_id,
                "circuit": after.state.value,
                "failures": after.failures,
                "opened_at": after.opened_at,
                "asks_again_at": after.asks_again_at,
                "success": after.last_success_at,
                "failed": overloaded,
                "now": now,
                "reason": reason[:400],
            },
        )
        if after.state is CircuitState.OPEN and after.asks_again_at != before.asks_again_at:
            _move_waiting(owner_id, until=after.asks_again_at or now, now=now, answer_seconds=answer_seconds)
    return after


def put_back(
    *,
    ids: Sequence[UUID],
    over: timedelta,
    not_before: datetime | None = None,
    at_least: timedelta = timedelta(0),
    past_deadline: bool = False,
) -> list[UUID]:
    """These operations are looked at later: from `not_before` (none: now) plus `at_least` on, spread over `over`. One
    statement; no history, no budget.

    Never past an operation's deadline, when a person has to be asked: those whose deadline is over stay due and are
    returned, unless with `past_deadline`. One whose person was asked and whose `reconcile_until` is over is looked at no
    more.
    """
    rows = execute(
        "WITH known AS MATERIALIZED (SELECT id, deadline_at, state = 'escalated' AS escalated, reconcile_until FROM operation "  # noqa: S608 - the text is ours
        "WHERE id = ANY(%(ids)s)), "
        "ended AS (DELETE FROM schedule USING known WHERE schedule.operation = known.id AND known.escalated "
        "AND known.reconcile_until <= now()), "
        f"moved AS ({_MOVED} FROM known WHERE schedule.operation = known.id AND schedule.next_check_at <= now() "
        "AND CASE WHEN known.escalated THEN known.reconcile_until > now() ELSE known.deadline_at > now() OR %(past)s END) "
        "SELECT id FROM known WHERE NOT escalated AND deadline_at <= now() AND NOT %(past)s",
        {"ids": list(ids), "until": not_before, "at_least": at_least, "over": over, "past": past_deadline},
    )
    return [row[0] for row in rows]


def put_back_waiting(
    *, owner_id: UUID, over: timedelta, not_before: datetime | None = None, at_least: timedelta = timedelta(0)
) -> None:
    """As `put_back`, for everything that is due for an owner and that nobody has claimed: a flood that the owner cannot take
    now leaves the way free for what others wait for. One statement."""
    _move(owner_id, before=None, until=not_before, over=over, at_least=at_least, claimed=False)


def pause(*, owner_id: UUID, until: datetime, because: str, actor: str) -> None:
    """Nobody asks the owner until then. What waits for it is moved there; deadlines still end in a person's queue."""
    with transaction.atomic():
        execute(
            "INSERT INTO owner_state (owner, circuit, failures, last_reason, paused_until, paused_by, paused_because) "
            "VALUES (%(owner)s, 'closed', 0, '', %(until)s, %(actor)s, %(because)s) ON CONFLICT (owner) DO UPDATE "
            "SET paused_until = EXCLUDED.paused_until, paused_by = EXCLUDED.paused_by, paused_because = EXCLUDED.paused_because",
            {"owner": owner_id, "until": until, "actor": actor[:160], "because": because[:400]},
        )
        _move_waiting(owner_id, until=until, now=database_now(), answer_seconds=ORDINARY_ANSWER)


def resume(*, owner_id: UUID, actor: str) -> bool:
    """End a pause before its time; what waited for its end comes back, spread. False when it was not paused."""
    with transaction.atomic():
        rows = execute(
            "SELECT paused_until FROM owner_state WHERE owner = %s AND paused_until > now() FOR UPDATE", [owner_id]
        )
        if not rows:
            return False
        execute(
            "UPDATE owner_state SET paused_until = NULL, paused_by = %s, paused_because = '' WHERE owner = %s",
            [actor[:160], owner_id],
        )
        wake_waiting(owner_id=owner_id, since=rows[0][0])
    return True


def wake_waiting(*, owner_id: UUID, since: datetime | None = None) -> None:
    """What waits for the owner, due at `since` or later (none: within the next three minutes), is looked at from now on,
    spread so that the owner can answer."""
    execute(
        f"WITH known AS MATERIALIZED ({_WAITING}) UPDATE schedule SET next_check_at = now() + random() * %(over)s "  # noqa: S608
        "FROM known WHERE schedule.operation = known.id AND schedule.next_check_at > now() AND "
        + (
            "schedule.next_check_at >= %(since)s" if since else "schedule.next_check_at <= now() + interval '3 minutes'"
        ),
        {
            "owner": owner_id,
            **WAITING,
            "over": _over(owner_id, answer_seconds=ORDINARY_ANSWER, within=timedelta(days=1)),
            **({"since": since} if since else {}),
        },
    )


def latch_credential(
    *,
    owner_id: UUID,
    workspace_id: UUID,
    reference: str,
    fingerprint: bytes,
    reason: str,
    told: dict[str, Any],
) -> bool:
    """The owner refused this credential: nobody asks with it until it tries again or its value changes. One statement,
    with one event for all operations; the same refusal is not told again within the hour. Returns whether it was news."""
    rows = execute(
        "WITH latched AS (INSERT INTO credential_latch AS l (owner, reference, fingerprint, since, reason, tries_again_at) "
        "VALUES (%(owner)s, %(reference)s::text, %(fingerprint)s, now(), %(reason)s, now() + %(after)s) "
        "ON CONFLICT (owner, reference) DO UPDATE SET fingerprint = EXCLUDED.fingerprint, since = EXCLUDED.since, "
        "reason = EXCLUDED.reason, tries_again_at = EXCLUDED.tries_again_at "
        "WHERE l.fingerprint <> EXCLUDED.fingerprint RETURNING l.reference), "
        "told AS (INSERT INTO event (id, workspace_id, kind, payload, at) "
        "SELECT %(event)s, %(workspace)s, %(kind)s::text, %(payload)s::jsonb, now() FROM latched WHERE NOT EXISTS ("
        "SELECT 1 FROM event e WHERE e.workspace_id = %(workspace)s AND e.at > now() - %(again)s AND e.kind = %(kind)s::text "
        "AND e.payload ->> 'owner_id' = %(owner_name)s::text AND e.payload ->> 'credential' = %(reference)s::text)) "
        "SELECT reference FROM latched",
        {
            "owner": owner_id,
            "workspace": workspace_id,
            "reference": reference[:200],
            "fingerprint": fingerprint,
            "reason": reason[:400] or "It was refused",
            "after": TRIES_AGAIN_AFTER,
            "again": _TOLD_AGAIN_AFTER,
            "event": new_id(),
            "kind": EventKind.CREDENTIAL_REFUSED.value,
            "owner_name": str(owner_id),
            "payload": orjson.dumps({**told, "owner_id": str(owner_id), "credential": reference[:200]}).decode(),
        },
    )
    return bool(rows)


def try_credential(*, owner_id: UUID, reference: str) -> bool:
    """Whether the one question that finds out whether a refused credential is accepted again is ours to ask now."""
    return bool(
        execute(
            "UPDATE credential_latch SET tries_again_at = now() + %s WHERE owner = %s AND reference = %s "
            "AND tries_again_at <= now() RETURNING owner",
            [TRIES_AGAIN_AFTER, owner_id, reference],
        )
    )


def accept_credential(*, owner_id: UUID, reference: str, fingerprint: bytes) -> None:
    """The owner accepted this value. A latch of the same value ends; one of another value stays for workers that still
    have that one, but is no longer told of."""
    execute(
        "WITH ended AS (DELETE FROM credential_latch WHERE owner = %(owner)s AND reference = %(reference)s "
        "AND fingerprint = %(fingerprint)s) UPDATE credential_latch SET reason = '' WHERE owner = %(owner)s "
        "AND reference = %(reference)s AND fingerprint <> %(fingerprint)s",
        {"owner": owner_id, "reference": reference, "fingerprint": fingerprint},
    )


_LATER = "greatest(coalesce(%(until)s::timestamptz, now()), now()) + %(at_least)s + random() * %(over)s"
_MOVED = (
    "UPDATE schedule SET claimed_until = NULL, next_check_at = CASE WHEN known.escalated OR known.deadline_at <= now() "  # noqa: S608
    f"THEN {_LATER} ELSE least({_LATER}, known.deadline_at) END"
)
_WAITING = (
    "SELECT o.id, o.deadline_at, o.state = 'escalated' AS escalated FROM owner ow JOIN tool t ON t.owner_id = ow.id "  # noqa: S608
    "JOIN operation o ON o.workspace_id = ow.workspace_id AND o.tool_id = t.id "
    f"WHERE ow.id = %(owner)s AND {WAITS_FOR_ITS_OWNER}"
)
"""Operations for which the owner is asked when their time comes."""


def _move_waiting(owner_id: UUID, *, until: datetime, now: datetime, answer_seconds: float) -> None:
    """Whatever would come due before `until` comes due after it, spread."""
    over = _over(owner_id, answer_seconds=answer_seconds, within=until - now)
    _move(owner_id, before=until, until=until, over=over, at_least=timedelta(0), claimed=True)


def _move(
    owner_id: UUID,
    *,
    before: datetime | None,
    until: datetime | None,
    over: timedelta,
    at_least: timedelta,
    claimed: bool,
) -> None:
    """Those whose deadline has passed stay: a person is asked now."""
    execute(
        f"WITH known AS MATERIALIZED ({_WAITING}), free AS MATERIALIZED (SELECT s.operation FROM schedule s "  # noqa: S608
        "JOIN known ON known.id = s.operation WHERE s.next_check_at < coalesce(%(before)s::timestamptz, now()) "
        "AND (%(claimed)s OR s.claimed_until IS NULL OR s.claimed_until <= now()) "
        "ORDER BY s.operation FOR UPDATE OF s SKIP LOCKED) "
        f"{_MOVED} FROM known, free WHERE schedule.operation = known.id AND free.operation = known.id "
        "AND (known.escalated OR known.deadline_at > now())",
        {
            "owner": owner_id,
            **WAITING,
            "before": before,
            "until": until,
            "at_least": at_least,
            "over": over,
            "claimed": claimed,
        },
    )


def _over(owner_id: UUID, *, answer_seconds: float, within: timedelta) -> timedelta:
    most_at_once, per_second = execute("SELECT most_at_once, per_second FROM owner WHERE id = %s", [owner_id])[0]
    return spread_over(
        waiting=waiting(owner_id=owner_id, within=within),
        most_at_once=most_at_once,
        per_second=per_second,
        answer_seconds=answer_seconds,
    )


def _make_places(owner_id: UUID, most_at_once: int) -> None:
    execute(
        "INSERT INTO owner_slot (owner, number, held_until) SELECT %s, number, '-infinity' "
        "FROM generate_series(1, %s) number ON CONFLICT DO NOTHING",
        [owner_id, most_at_once],
    )
