"""Other operations of the same intent: same workspace, same tool, same identity digest."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from ledger.database import execute
from ledger.rules.agent_retries import Step, Tries
from ledger.rules.payload import raw
from ledger.rules.vocabulary import Effect, Outcome, State


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedOperation:
    """One other operation that means the same effect."""

    id: UUID
    operation_id: str
    state: State
    effect: Effect
    outcome: Outcome | None
    holds_identity: bool
    created_at: datetime


def related_operations(
    *, workspace_id: UUID, tool_id: UUID, identity_digest: bytes, besides: UUID, most: int = 10
) -> tuple[RelatedOperation, ...]:
    """Up to `most` others, the holder of the identity first, then the newest."""
    rows = execute(
        "SELECT id, operation_id, state, effect, outcome, holds_identity, created_at FROM operation "
        "WHERE workspace_id = %s AND tool_id = %s AND identity_digest = %s AND id <> %s "
        "ORDER BY holds_identity DESC, created_at DESC LIMIT %s",
        [workspace_id, tool_id, identity_digest, besides, most],
    )
    return tuple(_related(row) for row in rows)


def with_same_payload(
    *,
    workspace_id: UUID,
    tool_id: UUID,
    payload_digest: str,
    besides: UUID,
    since: datetime,
    until: datetime,
    most: int,
) -> tuple[RelatedOperation, ...]:
    """Others of a tool that began in a span of time with the same payload, the newest first. Reads what began then."""
    rows = execute(
        "SELECT id, operation_id, state, effect, outcome, holds_identity, created_at FROM operation "
        "WHERE workspace_id = %s AND created_at BETWEEN %s AND %s AND tool_id = %s AND payload_digest = %s AND id <> %s "
        "ORDER BY created_at DESC, id DESC LIMIT %s",
        [workspace_id, since, until, tool_id, raw(payload_digest), besides, most],
    )
    return tuple(_related(row) for row in rows)


def dependants(
    *, workspace_id: UUID, run: str, besides: UUID, opened_at: datetime, most: int
) -> tuple[RelatedOperation, ...]:
    """Operations of the same run whose next step may hang on this one: those that are not settled, and those that were
    opened after it. Oldest first."""
    rows = execute(
        "SELECT id, operation_id, state, effect, outcome, holds_identity, created_at FROM operation "
        "WHERE workspace_id = %s AND agent->>'run' = %s AND id <> %s AND (state <> 'settled' OR created_at > %s) "
        "ORDER BY created_at, id LIMIT %s",
        [workspace_id, run, besides, opened_at, most],
    )
    return tuple(_related(row) for row in rows)


def tries_in_step(*, workspace_id: UUID, tool_id: UUID, identity_digest: bytes, step: Step, besides: str) -> Tries:
    """What was sent for an intent in one step of an agent's run, by other operations than `besides`."""
    [(sent, done)] = execute(
        f"SELECT count(*), max(operation_id) FILTER (WHERE effect = 'applied') FROM operation WHERE {SENT_IN_STEP}",  # noqa: S608
        tried(workspace_id=workspace_id, tool_id=tool_id, identity_digest=identity_digest, step=step, besides=besides),
    )
    return Tries(step=step, sent=sent, done=done)


SENT_IN_STEP = (
    "workspace_id = %(tried_workspace)s AND agent->>'run' = %(tried_run)s::text AND identity_digest = %(tried_identity)s "
    "AND tool_id = %(tried_tool)s AND agent->>'step' IS NOT DISTINCT FROM %(tried_step)s::text "
    "AND first_sent_at IS NOT NULL AND operation_id <> %(tried_besides)s"
)
"""Which operations are other tries of an intent; its parameters are those of `tried`."""


def tried(*, workspace_id: UUID, tool_id: UUID, identity_digest: bytes, step: Step, besides: str) -> dict[str, Any]:
    """The parameters of `SENT_IN_STEP`."""
    return {
        "tried_workspace": workspace_id,
        "tried_tool": tool_id,
        "tried_identity": identity_digest,
        "tried_run": step.run,
        "tried_step": step.step,
        "tried_besides": besides,
    }


def _related(row: tuple[Any, ...]) -> RelatedOperation:
    id, name, state, effect, outcome, holds, created_at = row
    return RelatedOperation(
        id=id,
        operation_id=name,
        state=State(state),
        effect=Effect(effect),
        outcome=Outcome(outcome) if outcome else None,
        holds_identity=holds,
        created_at=created_at,
    )
