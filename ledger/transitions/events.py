"""The outbox: events are spread to destinations, deliveries claimed, tried, and tried again.

    event (written by a transition) ─ spread_events ─▶ delivery a destination ─ claim_deliveries ─▶ sent ─ record_try

Everything here may run twice: an event goes to a destination once by a constraint, and a claim is a moment in the
future that lapses by itself. A worker that dies between sending and recording leaves a delivery that is sent again
once its claim has lapsed, with the same id, so that a receiver can tell; its try is counted when it is claimed.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import orjson
from django.db import transaction

from ledger.database import execute
from ledger.identifiers import new_id
from ledger.queries.related_operations import dependants
from ledger.rules.deliveries import Tried, next_try
from ledger.rules.events import MOST_DEPENDANTS, EventKind, goes_to

CLAIM: Final = timedelta(seconds=60)
"""How long a worker may take for a delivery; a task is finished long before."""
LOG_LINES: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Untold:
    """An event that always goes to somebody, and nobody is there to be told."""

    event_id: UUID
    workspace_id: UUID
    kind: str
    notify: tuple[str, ...]
    """The names that the contract gives; none of them is a destination of the workspace."""


def spread_events(*, most: int = 200) -> tuple[Untold, ...]:
    """Make the deliveries of the oldest events that have none yet. One transaction. Returns those that concern people
    and reach nobody."""
    untold = []
    with transaction.atomic():
        rows = execute(
            "SELECT e.id, e.workspace_id, e.kind, e.payload::text, e.operation, o.created_at FROM event e "
            "LEFT JOIN operation o ON o.id = e.operation WHERE e.spread_at IS NULL "
            "ORDER BY e.at, e.id LIMIT %s FOR UPDATE OF e SKIP LOCKED",
            [most],
        )
        destinations = _destinations({row[1] for row in rows})
        for id, workspace_id, kind, text, operation, opened_at in rows:
            payload = orjson.loads(text)
            told = [
                found
                for found, name, kinds in destinations[workspace_id]
                if goes_to(kind=kind, payload=payload, name=name, kinds=kinds)
            ]
            if told and operation is not None and payload.get("run"):
                others = dependants(
                    workspace_id=workspace_id,
                    run=payload["run"],
                    besides=operation,
                    opened_at=opened_at,
                    most=MOST_DEPENDANTS,
                )
                payload["dependants"] = [other.operation_id for other in others]
            _deliver(event=id, destinations=told, payload=payload)
            if not told and "notify" in payload:
                untold.append(
                    Untold(event_id=id, workspace_id=workspace_id, kind=kind, notify=tuple(payload["notify"]))
                )
    return tuple(untold)


def claim_deliveries(*, most: int, claim: timedelta = CLAIM) -> list[UUID]:
    """Take up to `most` deliveries whose time has come and that nobody holds. Their next try is counted now."""
    rows = execute(
        "WITH due AS (SELECT id FROM delivery WHERE next_try_at <= now() "
        "AND (claimed_until IS NULL OR claimed_until <= now()) ORDER BY next_try_at LIMIT %(most)s FOR UPDATE SKIP LOCKED) "
        "UPDATE delivery SET claimed_until = now() + %(claim)s, tries = tries + 1 FROM due WHERE delivery.id = due.id "
        "RETURNING delivery.id",
        {"most": most, "claim": claim},
    )
    return [row[0] for row in rows]


def release_deliveries(*, ids: Sequence[UUID]) -> None:
    """Give back claims whose deliveries were not tried."""
    execute(
        "UPDATE delivery SET claimed_until = NULL, tries = tries - 1 WHERE id = ANY(%s) AND claimed_until IS NOT NULL",
        [list(ids)],
    )


def record_try(*, id: UUID, tries: int, tried: Tried, now: datetime, roll: float) -> datetime | None:
    """Keep what a try came to, in its log too. Returns when the next one is; None when there is none.

    Counts only while the delivery stands at `tries`: a later claim's word is not overwritten.
    """
    again = None if tried.taken else next_try(tried=tried, tries=tries, now=now, roll=roll)
    line = {"at": now.isoformat().replace("+00:00", "Z"), "try": tries, "said": tried.said[:400]}
    if tried.status is not None:
        line["status"] = tried.status
    execute(
        "UPDATE delivery SET next_try_at = %(again)s, claimed_until = NULL, delivered_at = %(delivered)s, "
        "given_up_at = %(given_up)s, log = (SELECT coalesce(jsonb_agg(line ORDER BY place), '[]') FROM ("
        "SELECT line, place FROM jsonb_array_elements(log || %(line)s::jsonb) WITH ORDINALITY AS lines(line, place) "
        "ORDER BY place DESC LIMIT %(lines)s) newest) WHERE id = %(id)s AND tries = %(tries)s AND delivered_at IS NULL",
        {
            "id": id,
            "tries": tries,
            "again": again,
            "delivered": now if tried.taken else None,
            "given_up": now if again is None and not tried.taken else None,
            "line": orjson.dumps([line]).decode(),
            "lines": LOG_LINES,
        },
    )
    return again


def redeliver(*, id: UUID, workspace_id: UUID, by: str, now: datetime) -> bool:
    """Send a delivery once more, now, with the same id and all its tries. False when it is not this workspace's, when
    it is on its way already, or when its destination is switched off."""
    line = {"at": now.isoformat().replace("+00:00", "Z"), "try": 0, "said": f"{by} asked for it to be sent again."}
    rows = execute(
        "UPDATE delivery SET next_try_at = %(now)s, tries = 0, delivered_at = NULL, given_up_at = NULL, "
        "log = log || %(line)s::jsonb FROM destination d WHERE delivery.id = %(id)s AND d.id = delivery.destination_id "
        "AND d.workspace_id = %(workspace)s AND d.disabled_at IS NULL AND delivery.next_try_at IS NULL RETURNING 1",
        {"id": id, "workspace": workspace_id, "now": now, "line": orjson.dumps([line]).decode()},
    )
    return bool(rows)


def try_destination(*, destination_id: UUID, workspace_id: UUID, now: datetime) -> UUID:
    """Send a test event to one destination. Returns the delivery's id.

    Raises:
        LookupError: the workspace has no such destination.
    """
    if not execute("SELECT 1 FROM destination WHERE id = %s AND workspace_id = %s", [destination_id, workspace_id]):
        raise LookupError("This workspace has no such destination.")
    event = new_id()
    payload = {"code": "TEST", "sentence": "This is a test of Ascertain's messages. Nothing has to be done."}
    with transaction.atomic():
        execute(
            "INSERT INTO event (id, workspace_id, operation, seq, kind, payload, at, spread_at) "
            "VALUES (%s, %s, NULL, NULL, %s, %s, %s, %s)",
            [event, workspace_id, EventKind.TEST.value, orjson.dumps(payload).decode(), now, now],
        )
        return _deliver(event=event, destinations=[destination_id], payload=payload)[0]


def _destinations(workspaces: set[UUID]) -> Mapping[UUID, list[tuple[UUID, str, list[str]]]]:
    found: dict[UUID, list[tuple[UUID, str, list[str]]]] = defaultdict(list)
    if workspaces:
        rows = execute(
            "SELECT workspace_id, id, name, kinds::text FROM destination WHERE workspace_id = ANY(%s) "
            "AND disabled_at IS NULL",
            [list(workspaces)],
        )
        for workspace_id, id, name, kinds in rows:
            found[workspace_id].append((id, name, orjson.loads(kinds)))
    return found


def _deliver(*, event: UUID, destinations: Sequence[UUID], payload: Mapping[str, Any]) -> list[UUID]:
    ids = [new_id() for _ in destinations]
    execute("UPDATE event SET spread_at = now(), payload = %s WHERE id = %s", [orjson.dumps(payload).decode(), event])
    execute(
        "INSERT INTO delivery (id, event_id, destination_id, tries, next_try_at, log) "
        "SELECT d.id, %(event)s, d.destination, 0, now(), '[]' "
        "FROM unnest(%(ids)s::uuid[], %(destinations)s::uuid[]) AS d(id, destination) "
        "ON CONFLICT ON CONSTRAINT an_event_goes_to_a_destination_once DO NOTHING",
        {"event": event, "ids": ids, "destinations": list(destinations)},
    )
    return ids
