"""Which credentials are kept here? Names and dates for people; a sealed value only for the worker that asks with it."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from ledger.database import execute


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSecret:
    """A credential as people may see it: everything but its value."""

    name: str
    created_at: datetime
    changed_at: datetime
    expires_at: datetime | None


def secrets_of(*, workspace_id: UUID) -> tuple[KeptSecret, ...]:
    """Every credential of a workspace, by name."""
    rows = execute(
        "SELECT name, created_at, changed_at, expires_at FROM secret WHERE workspace_id = %s ORDER BY name",
        [workspace_id],
    )
    return tuple(
        KeptSecret(name=name, created_at=created, changed_at=changed, expires_at=expires)
        for name, created, changed, expires in rows
    )


def sealed_secret(*, workspace_id: UUID, name: str) -> bytes | None:
    """One sealed credential; None when there is none of this name."""
    rows = execute("SELECT sealed FROM secret WHERE workspace_id = %s AND name = %s", [workspace_id, name])
    return bytes(rows[0][0]) if rows else None
