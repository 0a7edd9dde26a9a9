"""How are the owner systems doing, and what waits for them?"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from ledger.database import execute
from ledger.queries.contracts import contract_by_id
from ledger.rules.circuits import Circuit, CircuitState
from ledger.rules.lifecycle import ASKED
from ledger.rules.senders import REPEATS
from ledger.rules.vocabulary import State

MOST_COUNTED = 10_000
COLUMNS = "st.circuit, st.failures, st.opened_at, st.asks_again_at, st.last_success_at, st.paused_until"
"""A circuit's columns of `owner_state st`, first in a row for `circuit_from`."""
_WAITING_STATES = sorted(state.value for state in ASKED | {State.VERIFYING})
_REPEATS = sorted(action.value for action in REPEATS)
WAITS_FOR_ITS_OWNER = (
    "o.state = ANY(%(states)s) AND NOT coalesce(o.decision ->> 'recovery_action' = ANY(%(repeats)s), false)"
)
"""Whether an operation `o` is one for which the owner is asked. With `WAITING` as its parameters."""
WAITING = {"states": _WAITING_STATES, "repeats": _REPEATS}


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedCredential:
    """A credential that the owner refused and that nobody asks with."""

    reference: str
    """`env:NAME` or `secret:name`; empty for asking without one."""
    since: datetime
    reason: str
    tries_again_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerHealth:
    """One owner, as its card shows it."""

    id: UUID
    name: str
    base_url: str
    most_at_once: int
    per_second: float | None
    circuit: CircuitState
    failures: int
    """Overloaded replies in a row."""
    opened_at: datetime | None
    asks_again_at: datetime | None
    last_success_at: datetime | None
    last_failure_at: datetime | None
    last_reason: str
    paused_until: datetime | None
    """Only while it is paused."""
    paused_by: str
    paused_because: str
    waiting: int
    """Operations for which it is asked, counted up to 10,000 a workspace: while it cannot be, none of them settles."""
    open_questions: int
    refused: tuple[RefusedCredential, ...]
    now: datetime
    """When this was true."""


def owner_health(*, workspace_id: UUID) -> tuple[OwnerHealth, ...]:
    """Every owner of a workspace, by name. Two statements."""
    counted: dict[UUID, int] = dict(
        execute(
            "SELECT t.owner_id, count(*) FROM (SELECT tool_id FROM operation o WHERE o.workspace_id = %(workspace)s "  # noqa: S608
            f"AND {WAITS_FOR_ITS_OWNER} LIMIT %(most)s) waits JOIN tool t ON t.id = waits.tool_id GROUP BY t.owner_id",
            {"workspace": workspace_id, **WAITING, "most": MOST_COUNTED},
        )
    )
    rows = execute(
        f"SELECT {COLUMNS}, ow.id, ow.name, ow.base_url, ow.most_at_once, ow.per_second, st.last_failure_at, "  # noqa: S608
        "coalesce(st.last_reason, ''), coalesce(st.paused_by, ''), coalesce(st.paused_because, ''), "
        "(SELECT count(*) FROM owner_slot sl WHERE sl.owner = ow.id AND sl.number > 0 AND sl.held_until > now()), "
        "(SELECT json_agg(json_build_array(l.reference, l.since, l.reason, l.tries_again_at) ORDER BY l.reference) "
        " FROM credential_latch l WHERE l.owner = ow.id AND l.reason <> ''), now() "
        "FROM owner ow LEFT JOIN owner_state st ON st.owner = ow.id WHERE ow.workspace_id = %s ORDER BY ow.name",
        [workspace_id],
    )
    return tuple(_health(row, counted) for row in rows)


def waiting(*, owner_id: UUID, within: timedelta | None = None) -> int:
    """How many operations wait for an owner, counted up to 10,000; with `within`, those that come due within it."""
    due = (
        "JOIN schedule s ON s.operation = o.id AND s.next_check_at <= now() + %(within)s " if within is not None else ""
    )
    rows = execute(
        "SELECT count(*) FROM (SELECT 1 FROM owner ow JOIN tool t ON t.owner_id = ow.id JOIN operation o "  # noqa: S608 - the text is ours
        f"ON o.workspace_id = ow.workspace_id AND o.tool_id = t.id {due} WHERE ow.id = %(owner)s AND {WAITS_FOR_ITS_OWNER} "
        "LIMIT %(most)s) waits",
        {"owner": owner_id, **WAITING, "most": MOST_COUNTED, **({"within": within} if due else {})},
    )
    return int(rows[0][0])


def owners_to_ask(*, ids: Sequence[UUID]) -> dict[UUID, UUID | None]:
    """Which owner would be asked, or sent a repeat by us, for each operation whose time has come; None where nobody is."""
    rows = execute(
        "SELECT o.id, t.owner_id, o.contract_id, o.state = ANY(%s), o.decision ->> 'recovery_action' = ANY(%s) "
        "FROM operation o JOIN tool t ON t.id = o.tool_id WHERE o.id = ANY(%s)",
        [_WAITING_STATES, _REPEATS, list(ids)],
    )
    return {
        id: owner if asks and not (repeats and contract_by_id(contract).dispatch is None) else None
        for id, owner, contract, asks, repeats in rows
    }


def owners_everywhere() -> list[tuple[str, str, str, int]]:
    """(workspace, owner, state, refused credentials) of every owner that was asked or paused; `paused` goes before the
    circuit's own word. For measuring."""
    rows = execute(
        "SELECT w.slug, ow.name, CASE WHEN st.paused_until > now() THEN 'paused' ELSE st.circuit END, "
        "(SELECT count(*) FROM credential_latch l WHERE l.owner = ow.id AND l.reason <> '') "
        "FROM owner_state st JOIN owner ow ON ow.id = st.owner JOIN workspace w ON w.id = ow.workspace_id "
        "ORDER BY w.slug, ow.name LIMIT 1000"
    )
    return [(slug, name, state, refused) for slug, name, state, refused in rows]


def circuit_from(row: Sequence[Any]) -> Circuit:
    """The circuit in a row that begins with COLUMNS; an owner that was never asked has a closed one."""
    state, failures, opened_at, asks_again_at, last_success_at, paused_until = row[:6]
    return Circuit(
        state=CircuitState(state or "closed"),
        failures=failures or 0,
        opened_at=opened_at,
        asks_again_at=asks_again_at,
        last_success_at=last_success_at,
        paused_until=paused_until,
    )


def _health(row: Sequence[Any], counted: dict[UUID, int]) -> OwnerHealth:
    circuit = circuit_from(row)
    id, name, base_url, most_at_once, per_second, failed_at, reason, by, because, open_questions, refused, now = row[6:]
    paused = circuit.paused_until is not None and circuit.paused_until > now
    return OwnerHealth(
        id=id,
        name=name,
        base_url=base_url,
        most_at_once=most_at_once,
        per_second=per_second,
        circuit=circuit.state,
        failures=circuit.failures,
        opened_at=circuit.opened_at,
        asks_again_at=circuit.asks_again_at,
        last_success_at=circuit.last_success_at,
        last_failure_at=failed_at,
        last_reason=reason,
        paused_until=circuit.paused_until if paused else None,
        paused_by=by if paused else "",
        paused_because=because if paused else "",
        waiting=counted.get(id, 0),
        open_questions=open_questions,
        refused=tuple(
            RefusedCredential(
                reference=reference,
                since=datetime.fromisoformat(since),
                reason=why,
                tries_again_at=datetime.fromisoformat(tries_again_at),
            )
            for reference, since, why, tries_again_at in (refused or ())
        ),
        now=now,
    )
