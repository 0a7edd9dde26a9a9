"""How every transition reaches the database: one statement, one durable transaction, or nothing.

A transition is described as a `Change` and written by `write` as a single data-modifying statement:
the operation's row moves from the version that was read to the next, and only if it did, the journal row,
attempts, evidence, originals, events and the schedule row follow in the same transaction. Zero rows back means that
somebody else moved the operation first; the caller reads again and decides again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Any
from uuid import UUID

import orjson

from ledger.database import execute
from ledger.errors import LawBroken
from ledger.identifiers import new_id
from ledger.queries.facts import Held
from ledger.rules.decision import Decision
from ledger.rules.events import EventKind, Told, events_of, violation
from ledger.rules.payload import shown
from ledger.rules.vocabulary import State

CHANNEL = "operation_changed"
"""Waiting requests listen here; the payload is the operation's uuid."""

RUN_SPENT = (
    "UPDATE run SET dispatches = dispatches + 1, latest_end = greatest(latest_end, %(spends_end)s) FROM {source} "
    "WHERE run.workspace_id = %(spends_workspace)s AND run.name = %(spends_name)s"
)
"""Counts a dispatch for its run, when `source` gave a row and the run is registered. Its constraints refuse one too many, and
with it the whole statement."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What one transition writes. Column names are those of the models."""

    id: UUID
    version: int
    """The version that the caller read and decided on."""
    at: datetime
    verb: str
    actor: str
    set: Row
    """Operation columns that change."""
    next_check_at: datetime | None
    """When to look again; None takes the operation off the schedule."""
    said: Row = field(default_factory=dict)
    """What else the history row tells: reason, licence, what was answered."""
    opens: Row | None = None
    """An attempt to insert."""
    closes: Row | None = None
    """An attempt to update: `number` and the columns that change."""
    covers: Row | None = None
    """`effect` and `proof` for every attempt that is still unknown or pending."""
    running: Row | None = None
    """An `idempotency_key` that the owner says is running: of all other attempts than `number`, the unknown and closed ones
    that carried it are pending."""
    items: tuple[Row, ...] = ()
    """Of a batch: groups of items that become alike. Each has `numbers` and every column of ITEM_COLUMNS."""
    item_attempts: tuple[Row, ...] = ()
    """Groups of what an `attempt` is known to have done to the items of these `numbers`: `effect` and `proof`."""
    carries: tuple[Row, ...] = ()
    """Groups of items (`numbers`) that the attempt that `opens` carries, with their `licence`."""
    evidence: tuple[Row, ...] = ()
    originals: tuple[Row, ...] = ()
    revision: Row | None = None
    attestation: Row | None = None
    spends: Row | None = None
    """A dispatch to count for the run of this `name`, where the `workspace` has it; `end`: how far the permit reaches."""
    held: Held | None = None
    """The operation as it was read: what others are told of is seen against it. Required where the change settles or
    escalates."""
    violations: tuple[str, ...] = ()
    """How the tool broke its contract, in sentences of ours."""


def write(change: Change) -> int | None:
    """Write a change. Returns the new version, or None when the version read is no longer the row's.

    Raises:
        django.db.IntegrityError: a law was about to be broken; `ledger.errors.sentence` has the words.
    """
    seq = change.version + 1
    params: dict[str, Any] = {
        "id": change.id,
        "version": change.version,
        "at": change.at,
        "verb": change.verb,
        "actor": change.actor,
        "entry": entry(change),
        "next_check_at": change.next_check_at,
        "notify": str(change.id),
    }
    parts: list[tuple[str, tuple[str, ...]]] = []
    _add(params, parts, "set", {name: _bound(value) for name, value in change.set.items()})
    for number, original in enumerate(change.originals):
        _add(params, parts, f"original{number}", original)
    if change.revision:
        _add(params, parts, "revision", change.revision)
    if change.opens:
        _add(params, parts, "opens", change.opens)
    if change.closes:
        _add(params, parts, "closes", change.closes)
    if change.covers:
        _add(params, parts, "covers", change.covers)
    if change.running:
        _add(params, parts, "running", change.running)
    for part, groups in (("items", change.items), ("item_attempts", change.item_attempts)):
        if groups:
            _add(params, parts, part, {"groups": _told(groups)})
    if change.carries and change.opens:
        _add(params, parts, "carries", {"groups": _told(change.carries), "attempt": change.opens["number"]})
    for number, piece in enumerate(change.evidence):
        _add(params, parts, f"evidence{number}", {**piece, "seq": seq, "detail": _json(piece["detail"])})
    if change.attestation:
        _add(params, parts, "attestation", change.attestation)
    if change.spends:
        _add(params, parts, "spends", change.spends)
    for number, told in enumerate(_events(change)):
        part = f"{'violated' if told.kind is EventKind.CONTRACT_VIOLATED else 'event'}{number}"
        params[f"{part}_contract"] = told.payload.get("contract")
        workspace_id = change.held.workspace_id if change.held is not None else None
        row = {"id": new_id(), "workspace_id": workspace_id, "kind": told.kind.value, "payload": _told(told.payload)}
        _add(params, parts, part, row)
    rows = execute(_statement(tuple(parts), change.next_check_at is None), params)
    return rows[0][0] if rows else None


def entry(change: Change) -> str:
    """The history row's text: what the operation's row became, and what came with it."""
    told: dict[str, Any] = {"set": change.set, **change.said}
    if change.opens:
        told["opens"] = change.opens
    if change.closes:
        told["closes"] = change.closes
    if change.covers:
        told["covers"] = change.covers
    if change.running:
        told["running"] = change.running
    if change.revision:
        told["revision"] = change.revision
    groups = {"items": change.items, "item_attempts": change.item_attempts, "carries": change.carries}
    told |= {name: group for name, group in groups.items() if group}
    if change.evidence:
        told["evidence"] = [
            {name: piece[name] for name in ("id", "digest", "source", "speaker", "outcome", "effect")}
            for piece in change.evidence
        ]
    return _told(told)


def stored_decision(decision: Decision) -> dict[str, Any]:
    """A decision as the operation's row and the history keep it: only what it says, no empty members."""
    said = {name: getattr(decision, name) for name in _DECISION}
    kept: dict[str, Any] = orjson.loads(_told({name: value for name, value in said.items() if value not in (None, ())}))
    return kept


def _events(change: Change) -> tuple[Told, ...]:
    if change.held is None:
        if change.set.get("state") in (State.SETTLED, State.ESCALATED):
            raise LawBroken(f"{change.verb} would settle or escalate and tell nobody")
        return ()
    held = change.held
    escalation = held.contract.escalation
    told = events_of(
        facts=held.facts,
        columns=change.set,
        escalation=escalation,
        about=lambda: _about(held),
        listened=held.listened,
    )
    if change.violations:
        told += (violation(sentences=change.violations, escalation=escalation, about=_about(held)),)
    return told


def _about(held: Held) -> dict[str, str]:
    """What names an operation to others."""
    about = {
        "id": str(held.id),
        "operation_id": held.facts.operation_id,
        "tool": held.facts.tool,
        "contract": held.contract_label,
    }
    if held.owner.name:
        about["owner"] = held.owner.name
    agent = held.agent or {}
    return about | {name: str(agent[name])[:200] for name in ("run", "name") if agent.get(name)}


_DECISION = tuple(Decision.__dataclass_fields__)
_TABLES = {
    "original": "original",
    "evidence": "evidence",
    "revision": "revision",
    "opens": "attempt",
    "attestation": "attestation",
}


def _add(params: dict[str, Any], parts: list[tuple[str, tuple[str, ...]]], part: str, row: Row) -> None:
    parts.append((part, tuple(row)))
    for name, value in row.items():
        params[f"{part}_{name}"] = value


@cache
def _statement(parts: tuple[tuple[str, tuple[str, ...]], ...], unscheduled: bool) -> str:
    # Rows are found by the id itself: joined on `changed`, a plan made while tables were empty would read all of them.
    pieces: list[str] = []
    for part, columns in parts:
        if part == "set":
            assigned = "".join(f", {name} = %(set_{name})s" for name in columns)
            pieces.append(
                f"changed AS (UPDATE operation SET version = version + 1, changed_at = %(at)s{assigned} "  # noqa: S608 - names are ours
                "WHERE id = %(id)s AND version = %(version)s RETURNING id, version)"
            )
        elif part == "closes":
            assigned = ", ".join(f"{name} = %(closes_{name})s" for name in columns if name != "number")
            pieces.append(
                f"closes AS (UPDATE attempt SET {assigned} FROM changed "  # noqa: S608
                "WHERE attempt.operation = %(id)s AND attempt.number = %(closes_number)s)"
            )
        elif part == "covers":
            # One statement changes a row once: the attempt that is being closed says the same of itself.
            besides = " AND attempt.number <> %(closes_number)s" if "closes" in dict(parts) else ""
            pieces.append(
                "covers AS (UPDATE attempt SET effect = %(covers_effect)s, proof = %(covers_proof)s FROM changed "  # noqa: S608
                f"WHERE attempt.operation = %(id)s AND attempt.effect IN ('unknown', 'pending', 'partial'){besides})"
            )
        elif part == "running":
            pieces.append(
                "running AS (UPDATE attempt SET effect = 'pending' FROM changed WHERE attempt.operation = %(id)s "
                "AND attempt.effect = 'unknown' AND attempt.closed_at IS NOT NULL "
                "AND attempt.idempotency_key = %(running_idempotency_key)s AND attempt.number <> %(running_number)s)"
            )
        elif part in _ITEM_PARTS:
            pieces.append(f"{part} AS ({_ITEM_PARTS[part]})")
        elif part == "spends":
            pieces.append(f"spends AS ({RUN_SPENT.format(source='changed')})")
        elif part.rstrip("0123456789") in _TOLD_WHERE:
            where = _TOLD_WHERE[part.rstrip("0123456789")].format(part=part)
            values = ", ".join(f"%({part}_{name})s" for name in columns)
            pieces.append(
                f"{part} AS (INSERT INTO event (operation, seq, at, {', '.join(columns)}) "  # noqa: S608
                f"SELECT changed.id, changed.version, %(at)s, {values} FROM changed{where})"
            )
        else:
            table = _TABLES[part.rstrip("0123456789")]
            values = ", ".join(f"%({part}_{name})s" for name in columns)
            pieces.append(
                f"{part} AS (INSERT INTO {table} (operation, {', '.join(columns)}) SELECT changed.id, {values} FROM changed)"  # noqa: S608
            )
    pieces.append(
        "journaled AS (INSERT INTO journal (operation, seq, at, verb, actor, entry, hash) "
        "SELECT changed.id, changed.version, %(at)s, %(verb)s, %(actor)s, %(entry)s, ''::bytea FROM changed)"
    )
    if unscheduled:
        pieces.append("scheduled AS (DELETE FROM schedule USING changed WHERE schedule.operation = %(id)s)")
    else:
        pieces.append(
            "scheduled AS (INSERT INTO schedule (operation, next_check_at) SELECT changed.id, %(next_check_at)s FROM changed "
            "ON CONFLICT (operation) DO UPDATE SET next_check_at = EXCLUDED.next_check_at, claimed_until = NULL)"
        )
    return "WITH " + ",\n".join(pieces) + f"\nSELECT version, pg_notify('{CHANNEL}', %(notify)s) FROM changed"


ITEM_COLUMNS = {
    "effect": "varchar",
    "verification": "varchar",
    "outcome": "varchar",
    "failure_class": "varchar",
    "code": "varchar",
    "licence": "varchar",
    "decision": "jsonb",
    "clean_reads": "smallint",
    "absence_since": "timestamptz",
}
"""An item's columns that change, with their types."""

_ITEM_PARTS = {
    "items": (
        f"UPDATE item SET {', '.join(f'{name} = g.{name}' for name in ITEM_COLUMNS)} "  # noqa: S608 - names are ours
        "FROM changed, jsonb_to_recordset(%(items_groups)s::jsonb) AS g(numbers int[], "
        f"{', '.join(f'{name} {kind}' for name, kind in ITEM_COLUMNS.items())}), unnest(g.numbers) AS n(number) "
        "WHERE item.operation = %(id)s AND item.number = n.number"
    ),
    "item_attempts": (
        "UPDATE item_attempt SET effect = g.effect, proof = g.proof FROM changed, "
        "jsonb_to_recordset(%(item_attempts_groups)s::jsonb) AS g(attempt smallint, numbers int[], effect varchar, "
        "proof varchar), unnest(g.numbers) AS n(number) WHERE item_attempt.operation = %(id)s "
        "AND item_attempt.attempt = g.attempt AND item_attempt.number = n.number"
    ),
    "carries": (
        "INSERT INTO item_attempt (operation, attempt, number, effect, licence) "
        "SELECT changed.id, %(carries_attempt)s, n.number, 'unknown', g.licence FROM changed, "
        "jsonb_to_recordset(%(carries_groups)s::jsonb) AS g(numbers int[], licence varchar), unnest(g.numbers) AS n(number)"
    ),
}
"""How groups of items are written."""

_TOLD_WHERE = {
    "event": "",
    # Broken once, it is broken with every call: an hour is silent after it was told.
    "violated": (
        " WHERE NOT EXISTS (SELECT 1 FROM event e WHERE e.workspace_id = %({part}_workspace_id)s "  # noqa: S608
        f"AND e.at > %(at)s - interval '1 hour' AND e.kind = '{EventKind.CONTRACT_VIOLATED.value}' "
        "AND e.payload ->> 'contract' = %({part}_contract)s)"
    ),
}
"""Under which condition an event is written."""


def _bound(value: Any) -> Any:
    """A value as psycopg binds it: enums by their word, mappings as JSON."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return _json(value)
    return value


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


def _told(value: Any) -> str:
    """JSON as the history keeps it: members in order, times in UTC to the microsecond."""
    return orjson.dumps(value, default=_plain, option=orjson.OPT_SORT_KEYS | orjson.OPT_UTC_Z).decode()


def _plain(value: Any) -> Any:
    """What JSON has no form for, as the history tells it: digests by name, exact numbers as text."""
    if isinstance(value, bytes | memoryview):
        return shown(value)
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be told in the history")
