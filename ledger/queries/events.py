"""What others were told, where, and how the telling went."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from ledger.database import execute


@dataclass(frozen=True, slots=True, kw_only=True)
class DueDelivery:
    """Everything that one try needs. The address and the secret are sealed."""

    id: UUID
    tries: int
    """This one counted."""
    event_id: UUID
    kind: str
    payload: Mapping[str, Any]
    at: datetime
    workspace: str
    destination_id: UUID
    destination: str
    destination_kind: str
    """email, apprise or webhook."""
    sealed_address: bytes = field(repr=False)
    sealed_secret: bytes | None = field(repr=False)
    disabled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRow:
    """One delivery as its log shows it."""

    id: UUID
    event_id: UUID
    kind: str
    operation: UUID | None
    sentence: str
    at: datetime
    destination_id: UUID
    destination: str
    tries: int
    next_try_at: datetime | None
    delivered_at: datetime | None
    given_up_at: datetime | None
    log: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationRow:
    """A destination without its address."""

    id: UUID
    name: str
    kind: str
    kinds: tuple[str, ...]
    created_at: datetime
    disabled_at: datetime | None
    last_delivered_at: datetime | None
    given_up: int
    """Deliveries that never arrived, counted up to 1,000."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """One event of an operation."""

    id: UUID
    kind: str
    seq: int | None
    payload: Mapping[str, Any]
    at: datetime
    spread_at: datetime | None
    deliveries: int


def due_deliveries(*, ids: Sequence[UUID]) -> tuple[DueDelivery, ...]:
    """Claimed deliveries with what they carry; those that were delivered or given up meanwhile are left out."""
    rows = execute(
        "SELECT v.id, v.tries, e.id, e.kind, e.payload::text, e.at, w.slug, d.id, d.name, d.kind, d.sealed_address, "
        "d.sealed_secret, d.disabled_at IS NOT NULL FROM delivery v JOIN event e ON e.id = v.event_id "
        "JOIN destination d ON d.id = v.destination_id JOIN workspace w ON w.id = e.workspace_id "
        "WHERE v.id = ANY(%s) AND v.next_try_at IS NOT NULL AND v.claimed_until IS NOT NULL ORDER BY e.at, e.id",
        [list(ids)],
    )
    return tuple(
        DueDelivery(
            id=id,
            tries=tries,
            event_id=event_id,
            kind=kind,
            payload=orjson.loads(payload),
            at=at,
            workspace=workspace,
            destination_id=destination_id,
            destination=destination,
            destination_kind=destination_kind,
            sealed_address=bytes(address),
            sealed_secret=bytes(secret) if secret is not None else None,
            disabled=disabled,
        )
        for id, tries, event_id, kind, payload, at, workspace, destination_id, destination, destination_kind, address,
        secret, disabled in rows
    )  # fmt: skip


def delivery_log(*, workspace_id: UUID, destination_id: UUID | None = None, most: int = 50) -> tuple[DeliveryRow, ...]:
    """The newest deliveries of a workspace, or of one of its destinations."""
    rows = execute(
        "SELECT v.id, e.id, e.kind, e.operation, e.payload ->> 'sentence', e.at, d.id, d.name, v.tries, v.next_try_at, "
        "v.delivered_at, v.given_up_at, v.log::text FROM delivery v JOIN event e ON e.id = v.event_id "
        "JOIN destination d ON d.id = v.destination_id WHERE e.workspace_id = %(workspace)s "
        "AND (%(destination)s::uuid IS NULL OR d.id = %(destination)s) ORDER BY e.at DESC, v.id DESC LIMIT %(most)s",
        {"workspace": workspace_id, "destination": destination_id, "most": most},
    )
    return tuple(
        DeliveryRow(
            id=id,
            event_id=event_id,
            kind=kind,
            operation=operation,
            sentence=sentence or "",
            at=at,
            destination_id=found,
            destination=name,
            tries=tries,
            next_try_at=next_try_at,
            delivered_at=delivered_at,
            given_up_at=given_up_at,
            log=tuple(orjson.loads(log)),
        )
        for id, event_id, kind, operation, sentence, at, found, name, tries, next_try_at, delivered_at, given_up_at, log
        in rows
    )  # fmt: skip


def destinations(*, workspace_id: UUID) -> tuple[DestinationRow, ...]:
    """The destinations of a workspace, by name."""
    rows = execute(
        "SELECT d.id, d.name, d.kind, d.kinds::text, d.created_at, d.disabled_at, "
        "(SELECT max(v.delivered_at) FROM delivery v WHERE v.destination_id = d.id), "
        "(SELECT count(*) FROM (SELECT 1 FROM delivery v WHERE v.destination_id = d.id "
        "AND v.given_up_at IS NOT NULL LIMIT 1000) lost) FROM destination d WHERE d.workspace_id = %s ORDER BY d.name",
        [workspace_id],
    )
    return tuple(
        DestinationRow(
            id=id,
            name=name,
            kind=kind,
            kinds=tuple(orjson.loads(kinds)),
            created_at=created_at,
            disabled_at=disabled_at,
            last_delivered_at=delivered_at,
            given_up=given_up,
        )
        for id, name, kind, kinds, created_at, disabled_at, delivered_at, given_up in rows
    )


def events_of_operation(*, id: UUID, workspace_id: UUID, after: datetime, most: int = 50) -> tuple[EventRow, ...]:
    """The newest events of one operation since `after` (when it was opened), with how many deliveries each has."""
    rows = execute(
        "SELECT e.id, e.kind, e.seq, e.payload::text, e.at, e.spread_at, "
        "(SELECT count(*) FROM delivery v WHERE v.event_id = e.id) FROM event e "
        "WHERE e.workspace_id = %s AND e.at >= %s AND e.operation = %s ORDER BY e.at DESC, e.id DESC LIMIT %s",
        [workspace_id, after, id, most],
    )
    return tuple(
        EventRow(
            id=found, kind=kind, seq=seq, payload=orjson.loads(payload), at=at, spread_at=spread_at, deliveries=count
        )
        for found, kind, seq, payload, at, spread_at, count in rows
    )
