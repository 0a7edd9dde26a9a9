"""Operations as the API and the pages read them: frozen rows, never models, never payloads in a list."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from ledger.database import execute
from ledger.queries.clock import database_now
from ledger.queries.contracts import contract_by_id
from ledger.queries.desk import DESK_COLUMNS, DESK_JOINS, HOLDER, SNOOZED_UNTIL, WIDTH, DeskRow, desk_from
from ledger.queries.filters import Cursor, Filter
from ledger.rules.decision import Decision
from ledger.rules.payload import shown
from ledger.rules.stored import decision_from
from ledger.rules.vocabulary import Effect, Outcome, Request, Speaker, State, Verification


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceRow:
    """One graded fact with its provenance."""

    evidence_id: str
    seq: int
    attempt: int | None
    source: str
    speaker: str
    outcome: str
    effect: str | None
    proof: str | None
    revision: str | None
    digest: str
    query: str
    principal: str
    event_at: datetime | None
    observed_at: datetime
    coverage: str
    original: UUID | None
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalRow:
    """One line of an operation's history."""

    seq: int
    at: datetime
    verb: str
    actor: str
    entry: str
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedOperation:
    """One row of a list."""

    id: UUID
    operation_id: str
    tool: str
    contract: str
    owner: str
    version: int
    state: State
    request: Request
    effect: Effect
    verification: Verification
    outcome: Outcome | None
    decision: Decision | None
    polls: int
    polls_limit: int
    agent: Mapping[str, Any] | None
    created_at: datetime
    changed_at: datetime
    deadline_at: datetime
    escalated_at: datetime | None
    next_check_at: datetime | None
    awaits_signature: bool
    cause: str
    """What went wrong: `class/code/owner's code`."""
    sla_at: datetime | None
    desk: DeskRow
    mark: str
    """Another one whenever the row reads differently: its version, its next look, or its desk has changed."""

    @property
    def cursor(self) -> str:
        return Cursor(created_at=self.created_at, id=self.id).written()


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationPage:
    """One page of operations, newest first."""

    items: tuple[ListedOperation, ...]
    next_cursor: str | None
    """Behind which older ones follow; None: there are none."""
    previous_cursor: str | None
    """Before which newer ones stand; None: there are none, or nobody asked."""
    as_of: datetime


MARK = f"""left(md5(concat_ws('|', o.version, s.next_check_at, {HOLDER}, {SNOOZED_UNTIL}, d.woken_at, d.labels)), 12)"""
"""Over LISTED's joins: what a row on the screen is compared with."""
LISTED_FROM = f"""
    FROM operation o JOIN tool t ON t.id = o.tool_id JOIN owner ow ON ow.id = t.owner_id
    JOIN contract_version cv ON cv.id = o.contract_id LEFT JOIN schedule s ON s.operation = o.id {DESK_JOINS}
    WHERE o.workspace_id = %(workspace)s
"""
LISTED = f"""
    SELECT o.id, o.operation_id, t.name, cv.number, ow.name, o.version, o.state, o.request, o.effect, o.verification,
           o.outcome, o.decision, o.polls, o.contract_id, o.agent, o.created_at, o.changed_at, o.deadline_at,
           o.escalated_at, s.next_check_at, o.awaits_signature_id IS NOT NULL, o.cause, o.sla_at, {MARK},
           {DESK_COLUMNS}, now()
    {LISTED_FROM}
"""


def operation_page(
    *, workspace_id: UUID, filter: Filter, limit: int, after: Cursor | None = None, before: Cursor | None = None
) -> OperationPage:
    """A page of operations, newest first, by keyset: a page deep in the list costs what the first one does, and what
    comes meanwhile moves no page. `after` gives the older ones that follow it, `before` the newer ones next to it."""
    where, params = filter.where()
    backwards = before is not None and after is None
    place = before if backwards else after
    if place is not None:
        where += f" AND (o.created_at, o.id) {'>' if backwards else '<'} (%(place_at)s, %(place_id)s)"
        params |= {"place_at": place.created_at, "place_id": place.id}
    order = "o.created_at, o.id" if backwards else "o.created_at DESC, o.id DESC"
    rows = execute(
        f"{LISTED}{where} ORDER BY {order} LIMIT %(limit)s",
        {"workspace": workspace_id, "limit": limit + 1, **params},
    )
    items = tuple(listed(row) for row in rows[:limit])
    more = len(rows) > limit
    if backwards:
        items = items[::-1]
    first, last = (items[0].cursor, items[-1].cursor) if items else (None, None)
    at_place = place.written() if place is not None else None
    return OperationPage(
        items=items,
        next_cursor=(last or at_place) if backwards else (last if more else None),
        previous_cursor=(first if more else None) if backwards else (at_place and (first or at_place)),
        as_of=rows[0][-1] if rows else database_now(),
    )


def listed_operations(*, workspace_id: UUID, ids: Sequence[UUID]) -> tuple[ListedOperation, ...]:
    """Those of `ids` that are in this workspace, by primary key, in no particular order."""
    if not ids:
        return ()
    rows = execute(f"{LISTED} AND o.id = ANY(%(ids)s::uuid[])", {"workspace": workspace_id, "ids": list(ids)})
    return tuple(listed(row) for row in rows)


def listed_operation(*, workspace_id: UUID, id: UUID) -> ListedOperation | None:
    """One operation as a list shows it; None when it is not in this workspace."""
    rows = execute(f"{LISTED} AND o.id = %(id)s", {"workspace": workspace_id, "id": id})
    return listed(rows[0]) if rows else None


def id_of(*, workspace_id: UUID, operation_id: str) -> tuple[UUID, int] | None:
    """The uuid and version of an operation, for a waiting request; None when it is not in this workspace."""
    rows = execute(
        "SELECT id, version FROM operation WHERE workspace_id = %s AND operation_id = %s", [workspace_id, operation_id]
    )
    return (rows[0][0], rows[0][1]) if rows else None


def operation_named(*, workspace_id: UUID, name: str) -> UUID | None:
    """The operation that somebody means who pasted its whole operation id or its uuid; None when there is none here."""
    rows = execute(
        "SELECT id FROM operation WHERE workspace_id = %(workspace)s AND operation_id = %(name)s "
        "UNION ALL SELECT id FROM operation WHERE workspace_id = %(workspace)s AND id = %(id)s",
        {"workspace": workspace_id, "name": name, "id": _uuid(name)},
    )
    return rows[0][0] if rows else None


def version_of(*, id: UUID) -> int:
    """The version of an operation now; 0 when there is none."""
    rows = execute("SELECT version FROM operation WHERE id = %s", [id])
    return rows[0][0] if rows else 0


def evidence_of(*, id: UUID) -> tuple[EvidenceRow, ...]:
    """All evidence of an operation, oldest first. Bodies stay where they are."""
    rows = execute(
        "SELECT id, seq, attempt, source, speaker, outcome, effect, proof, revision, digest, query, principal, event_at, "
        "observed_at, coverage, original, detail::text FROM evidence WHERE operation = %s ORDER BY seq, id",
        [id],
    )
    return tuple(
        EvidenceRow(
            evidence_id=f"ev-{row[0]}",
            seq=row[1],
            attempt=row[2],
            source=row[3],
            speaker=row[4],
            outcome=row[5],
            effect=row[6],
            proof=row[7],
            revision=row[8],
            digest=shown(row[9]),
            query=row[10],
            principal=row[11],
            event_at=row[12],
            observed_at=row[13],
            coverage=row[14],
            original=row[15],
            detail=_parsed(row[16]),
        )
        for row in rows
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceLine:
    """One piece of evidence, without what it says in detail."""

    source: str
    speaker: Speaker
    outcome: str
    effect: Effect | None
    observed_at: datetime


def latest_evidence(*, id: UUID, most: int) -> tuple[tuple[EvidenceLine, ...], int]:
    """The newest evidence of an operation, newest first, and how many pieces there are in all."""
    rows = execute(
        "SELECT source, speaker, outcome, effect, observed_at, count(*) OVER () FROM evidence WHERE operation = %s "
        "ORDER BY seq DESC, id DESC LIMIT %s",
        [id, most],
    )
    lines = tuple(
        EvidenceLine(
            source=source,
            speaker=Speaker(speaker),
            outcome=outcome,
            effect=Effect(effect) if effect else None,
            observed_at=observed_at,
        )
        for source, speaker, outcome, effect, observed_at, _ in rows
    )
    return lines, rows[0][5] if rows else 0


def journal_of(*, id: UUID) -> tuple[JournalRow, ...]:
    """The history of an operation, oldest first."""
    rows = execute(
        "SELECT seq, at, verb, actor, entry, encode(hash, 'hex') FROM journal WHERE operation = %s ORDER BY seq", [id]
    )
    return tuple(
        JournalRow(seq=seq, at=at, verb=verb, actor=actor, entry=entry, hash=hash)
        for seq, at, verb, actor, entry, hash in rows
    )


def listed(row: tuple[Any, ...]) -> ListedOperation:
    """One row selected with LISTED."""
    decision = _parsed(row[11])
    return ListedOperation(
        id=row[0],
        operation_id=row[1],
        tool=row[2],
        contract=f"{row[2]}@{row[3]}",
        owner=row[4],
        version=row[5],
        state=State(row[6]),
        request=Request(row[7]),
        effect=Effect(row[8]),
        verification=Verification(row[9]),
        outcome=Outcome(row[10]) if row[10] else None,
        decision=decision_from(decision),
        polls=row[12],
        polls_limit=contract_by_id(row[13]).budgets.polls,
        agent=_parsed(row[14]) if row[14] else None,
        created_at=row[15],
        changed_at=row[16],
        deadline_at=row[17],
        escalated_at=row[18],
        next_check_at=row[19],
        awaits_signature=row[20],
        cause=row[21],
        sla_at=row[22],
        mark=row[23],
        desk=desk_from(row[24 : 24 + WIDTH]),
    )


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _parsed(value: Any) -> Any:
    return orjson.loads(value) if isinstance(value, str | bytes) else value
