"""A run with its budget, and everything that its review packet is made of."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from ledger.database import execute
from ledger.queries.contracts import contract_by_id
from ledger.rules.facts import Budget
from ledger.rules.packet import Written
from ledger.rules.runs import RunBudget
from ledger.rules.vocabulary import Effect, FailureClass, State

MOST_OPERATIONS = 500
"""Of one run, in one packet: the oldest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A registered run."""

    id: UUID
    name: str
    budget: RunBudget
    deadline_ms: int | None
    questions: tuple[str, ...]
    created_at: datetime
    now: datetime
    """The database's clock when this was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadReport:
    """What a harness reported of one read of the run."""

    operation_id: str
    tool: str
    arguments: Mapping[str, Any]
    """Empty once retention has destroyed them."""
    observation: Mapping[str, Any] | None
    """As it was reported, redacted by the contract; None once retention has destroyed it."""
    failure_class: FailureClass | None
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOperations:
    """The operations of a run."""

    states: Mapping[State, int]
    reads: tuple[ReadReport, ...]
    """Oldest first."""
    writes: tuple[Written, ...]
    left_out: int
    """How many lie beyond `MOST_OPERATIONS`."""


def run_by_name(*, workspace_id: UUID, name: str) -> RunRow | None:
    """A registered run; None looks alike for absent and for another workspace's."""
    rows = execute(
        "SELECT id, name, max_dispatches, dispatches, deadline_ms, deadline_at, questions::text, created_at, now() "
        "FROM run WHERE workspace_id = %s AND name = %s",
        [workspace_id, name],
    )
    if not rows:
        return None
    id, name, most, dispatches, deadline_ms, deadline_at, questions, created_at, now = rows[0]
    return RunRow(
        id=id,
        name=name,
        budget=RunBudget(
            run=name,
            dispatches=Budget(used=dispatches, limit=most) if most is not None else None,
            deadline_at=deadline_at,
        ),
        deadline_ms=deadline_ms,
        questions=tuple(orjson.loads(questions)),
        created_at=created_at,
        now=now,
    )


def run_budget(*, workspace_id: UUID, name: str) -> RunBudget | None:
    """What a registered run may still do; None when it is not registered."""
    row = run_by_name(workspace_id=workspace_id, name=name)
    return row.budget if row is not None else None


def run_operations(*, workspace_id: UUID, name: str) -> RunOperations:
    """Everything that states this run as its agent's."""
    counted = execute(
        "SELECT state, count(*) FROM operation WHERE workspace_id = %s AND agent->>'run' = %s GROUP BY state",
        [workspace_id, name],
    )
    states = {State(state): int(count) for state, count in counted}
    rows = execute(
        "SELECT o.id, o.operation_id, t.name, o.contract_id, o.effect, "
        "EXISTS (SELECT 1 FROM attempt a WHERE a.operation = o.id), p.source, p.revision, p.observed_at "
        "FROM operation o JOIN tool t ON t.id = o.tool_id "
        "LEFT JOIN LATERAL (SELECT e.source, e.revision, e.observed_at FROM evidence e WHERE e.operation = o.id "
        "AND e.effect = o.effect AND e.proof IS NOT NULL ORDER BY e.seq DESC, e.id DESC LIMIT 1) p ON true "
        "WHERE o.workspace_id = %s AND o.agent->>'run' = %s ORDER BY o.created_at, o.id LIMIT %s",
        [workspace_id, name, MOST_OPERATIONS],
    )
    reads = [row for row in rows if contract_by_id(row[3]).is_read]
    return RunOperations(
        states=states,
        reads=read_reports(ids=[row[0] for row in reads]),
        writes=tuple(
            Written(
                operation_id=row[1],
                tool=row[2],
                effect=Effect(row[4]),
                dispatched=row[5],
                source=row[6],
                revision=row[7],
                observed_at=row[8],
            )
            for row in rows
            if row not in reads
        ),
        left_out=max(sum(states.values()) - len(rows), 0),
    )


def read_reports(*, ids: list[UUID]) -> tuple[ReadReport, ...]:
    """Everything that harnesses reported of these operations, oldest first, with its originals: never for lists."""
    rows = execute(
        "SELECT o.operation_id, t.name, p.body, b.body, a.failure_class, e.observed_at FROM evidence e "
        "JOIN operation o ON o.id = e.operation JOIN tool t ON t.id = o.tool_id "
        "JOIN attempt a ON a.operation = e.operation AND a.number = e.attempt "
        "JOIN revision r ON r.operation = a.operation AND r.number = a.revision "
        "LEFT JOIN original p ON p.id = r.original LEFT JOIN original b ON b.id = e.original "
        "WHERE e.operation = ANY(%s) ORDER BY e.observed_at, o.created_at, e.seq",
        [ids],
    )
    return tuple(
        ReadReport(
            operation_id=operation_id,
            tool=tool,
            arguments=orjson.loads(payload) if payload else {},
            observation=orjson.loads(body) if body else None,
            failure_class=FailureClass(failure_class) if failure_class else None,
            at=at,
        )
        for operation_id, tool, payload, body, failure_class, at in rows
    )
