"""Other operations of the same intent: same workspace, same tool, same identity digest."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from ledger.database import execute
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
    return tuple(
        RelatedOperation(
            id=id,
            operation_id=name,
            state=State(state),
            effect=Effect(effect),
            outcome=Outcome(outcome) if outcome else None,
            holds_identity=holds,
            created_at=created_at,
        )
        for id, name, state, effect, outcome, holds, created_at in rows
    )
