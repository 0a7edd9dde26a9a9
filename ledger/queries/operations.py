"""Operations as the API and the pages read them: frozen rows, never models, never payloads in a list."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from ledger.database import execute
from ledger.queries.clock import database_now
from ledger.queries.contracts import contract_by_id
from ledger.queries.filters import Cursor, Filter
from ledger.rules.decision import Decision
from ledger.rules.payload import shown
from ledger.rules.stored import decision_from
from ledger.rules.vocabulary import Effect, Outcome, Request, State, Verification


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

    @property
    def cursor(self) -> str:
        return Cursor(created_at=self.created_at, id=self.id).written()


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationPage:
    """One page of operations, newest first."""

    items: tuple[ListedOperation, ...]
    next_cursor: str | None
    as_of: datetime


LISTED = """
    SELECT o.id, o.operation_id, t.name, cv.number, ow.name, o.version, o.state, o.request, o.effect, o.verification,
           o.outcome, o.decision, o.polls, o.contract_id, o.agent, o.created_at, o.changed_at, o.deadline_at,
           o.escalated_at, s.next_check_at, o.awaits_signature_id IS NOT NULL, now()
    FROM operation o JOIN tool t ON t.id = o.tool_id JOIN owner ow ON ow.id = t.owner_id
    JOIN contract_version cv ON cv.id = o.contract_id LEFT JOIN schedule s ON s.operation = o.id
    WHERE o.workspace_id = %(workspace)s
"""


def operation_page(*, workspace_id: UUID, filter: Filter, limit: int, after: Cursor | None = None) -> OperationPage:
    """A page of operations, newest first, by keyset: a page deep in the list costs what the first one does."""
    where, params = filter.where()
    if after is not None:
        where += " AND (o.created_at, o.id) < (%(after_at)s, %(after_id)s)"
        params |= {"after_at": after.created_at, "after_id": after.id}
    rows = execute(
        f"{LISTED}{where} ORDER BY o.created_at DESC, o.id DESC LIMIT %(limit)s",
        {"workspace": workspace_id, "limit": limit + 1, **params},
    )
    items = tuple(listed(row) for row in rows[:limit])
    return OperationPage(
        items=items,
        next_cursor=items[-1].cursor if len(rows) > limit else None,
        as_of=rows[0][-1] if rows else database_now(),
    )


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


def journal_of(*, id: UUID) -> tuple[JournalRow, ...]:
    """The history of an operation, oldest first."""
    rows = execute(
        "SELECT seq, at, verb, actor, entry, encode(hash, 'hex') FROM journal WHERE operation = %s ORDER BY seq", [id]
    )
    return tuple(
        JournalRow(seq=seq, at=at, verb=verb, actor=actor, entry=entry, hash=hash)
        for seq, at, verb, actor, entry, hash in rows
    )


def original_body(*, workspace_id: UUID, id: UUID) -> str | None:
    """The body of a restricted original of this workspace; None when there is none or retention destroyed it."""
    rows = execute(
        "SELECT r.body FROM original r JOIN operation o ON o.id = r.operation WHERE r.id = %s AND o.workspace_id = %s",
        [id, workspace_id],
    )
    return rows[0][0] if rows else None


def unsettled_counts(*, workspace_id: UUID, most: int = 1000) -> dict[State, int]:
    """How many unsettled operations are in each state, counted up to `most` each (shown as `most+`)."""
    rows = execute(
        "SELECT s.state, (SELECT count(*) FROM (SELECT 1 FROM operation o WHERE o.workspace_id = %(workspace)s "
        "AND o.state = s.state AND o.state <> 'settled' LIMIT %(most)s) counted) FROM unnest(%(states)s::varchar[]) AS s(state)",
        {
            "workspace": workspace_id,
            "most": most,
            "states": [state.value for state in State if state is not State.SETTLED],
        },
    )
    return {State(state): count for state, count in rows}


def oldest_unsettled(*, workspace_id: UUID) -> datetime | None:
    """When the oldest unsettled operation was opened."""
    rows = execute(
        "SELECT created_at FROM operation WHERE workspace_id = %s AND state <> 'settled' ORDER BY created_at, id LIMIT 1",
        [workspace_id],
    )
    return rows[0][0] if rows else None


def tools_with_unsettled(*, workspace_id: UUID) -> int:
    """How many tools have at least one unsettled operation."""
    rows = execute(
        "SELECT count(*) FROM tool t WHERE t.workspace_id = %s AND EXISTS (SELECT 1 FROM operation o "
        "WHERE o.workspace_id = t.workspace_id AND o.tool_id = t.id AND o.state <> 'settled')",
        [workspace_id],
    )
    return int(rows[0][0])


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
    )


def _parsed(value: Any) -> Any:
    return orjson.loads(value) if isinstance(value, str | bytes) else value
