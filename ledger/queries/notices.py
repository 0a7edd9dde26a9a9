"""Where an owner's notifications come in, and which operations one may be about."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from ledger.database import execute
from ledger.queries.contracts import contract_by_id
from ledger.rules.contract import Contract
from ledger.rules.vocabulary import Effect, Speaker

MOST_VERSIONS: Final = 200
"""Contract versions of one owner that a notification is read by, the current ones first."""
CLOCKS_DIFFER: Final = timedelta(minutes=1)
"""What our clock and an owner's may differ by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One address for one owner's notifications."""

    id: UUID
    workspace_id: UUID
    owner_id: UUID
    owner: str
    sealed_secrets: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointRow:
    """An endpoint as it is listed."""

    id: UUID
    owner: str
    created_at: datetime
    disabled_at: datetime | None
    last_received_at: datetime | None


def endpoint_by_id(*, id: UUID) -> Endpoint | None:
    """An endpoint that accepts notifications; None looks alike for absent and for switched off."""
    rows = execute(
        "SELECT n.id, n.workspace_id, n.owner_id, o.name, n.sealed_secrets FROM notice_endpoint n "
        "JOIN owner o ON o.id = n.owner_id WHERE n.id = %s AND n.disabled_at IS NULL",
        [id],
    )
    if not rows:
        return None
    found, workspace_id, owner_id, owner, secrets = rows[0]
    return Endpoint(id=found, workspace_id=workspace_id, owner_id=owner_id, owner=owner, sealed_secrets=bytes(secrets))


def endpoints(*, workspace_id: UUID) -> tuple[EndpointRow, ...]:
    """The endpoints of a workspace, by owner."""
    rows = execute(
        "SELECT n.id, o.name, n.created_at, n.disabled_at, "
        "(SELECT max(r.received_at) FROM notice r WHERE r.endpoint_id = n.id) "
        "FROM notice_endpoint n JOIN owner o ON o.id = n.owner_id WHERE n.workspace_id = %s ORDER BY o.name, n.created_at",
        [workspace_id],
    )
    return tuple(
        EndpointRow(id=id, owner=owner, created_at=created_at, disabled_at=disabled_at, last_received_at=received_at)
        for id, owner, created_at, disabled_at, received_at in rows
    )


def owner_by_name(*, workspace_id: UUID, name: str) -> UUID | None:
    """The owner of this name in a workspace, if there is one."""
    rows = execute("SELECT id FROM owner WHERE workspace_id = %s AND name = %s", [workspace_id, name])
    return UUID(str(rows[0][0])) if rows else None


def contracts_with_notice(*, owner_id: UUID) -> tuple[Contract, ...]:
    """Every published contract of an owner's tools that reads notifications, the current ones first. An operation is
    pinned to the version it began with, so older ones still count."""
    rows = execute(
        "SELECT cv.id FROM contract_version cv JOIN tool t ON t.id = cv.tool_id WHERE t.owner_id = %s "
        "ORDER BY cv.id IS DISTINCT FROM t.current_id, cv.published_at DESC LIMIT %s",
        [owner_id, MOST_VERSIONS],
    )
    found = (contract_by_id(row[0]) for row in rows)
    return tuple(contract for contract in found if contract.notice is not None)


def since(*, id: UUID, effect: Effect) -> datetime | None:
    """When the newest evidence for an effect happened: by the owner's own word, or, for a lookup of ours whose answer
    does not say, a minute before it was read. None where nothing says when; then nothing counts as earlier."""
    if effect is Effect.UNKNOWN:
        return None
    rows = execute(
        "SELECT max(coalesce(event_at, CASE WHEN speaker = %(lookup)s THEN observed_at - %(clocks)s::interval END)) "
        "FROM evidence WHERE operation = %(id)s AND effect = %(effect)s",
        {"id": id, "effect": effect.value, "lookup": Speaker.OWNER_STATUS.value, "clocks": CLOCKS_DIFFER},
    )
    moment: datetime | None = rows[0][0]
    return moment
