"""Restricted originals: what was to be sent and what was answered, as it was. For whoever may read them, never for lists."""

from dataclasses import dataclass
from uuid import UUID

from ledger.database import execute


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginalRow:
    """One original of one operation."""

    id: UUID
    kind: str
    """payload, observation or answer."""
    body: str | None
    """None once retention has destroyed it."""


def original_of(*, workspace_id: UUID, operation: UUID, id: UUID) -> OriginalRow | None:
    """An original by its id, where this operation of this workspace refers to it; None where it does not."""
    rows = execute(
        "SELECT named.kind, r.body FROM operation o "
        "JOIN LATERAL (SELECT 'payload' AS kind FROM revision v WHERE v.operation = o.id AND v.original = %(id)s "
        "UNION ALL SELECT CASE WHEN e.outcome = 'observed' THEN 'observation' ELSE 'answer' END FROM evidence e "
        "WHERE e.operation = o.id AND e.original = %(id)s LIMIT 1) named ON true "
        "LEFT JOIN original r ON r.id = %(id)s AND r.operation = o.id "
        "WHERE o.id = %(operation)s AND o.workspace_id = %(workspace)s",
        {"id": id, "operation": operation, "workspace": workspace_id},
    )
    return OriginalRow(id=id, kind=rows[0][0], body=rows[0][1]) if rows else None


def payload_original(*, operation: UUID, revision: int) -> UUID | None:
    """The original that holds a revision's payload; None when there is no such revision."""
    rows = execute("SELECT original FROM revision WHERE operation = %s AND number = %s", [operation, revision])
    return rows[0][0] if rows else None
