"""What waits for one person, in the order to do it, and what they did last."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import orjson

from ledger.database import execute
from ledger.queries.clock import database_now
from ledger.queries.desk import DESK_JOINS, HOLDER, NAME, SNOOZED_UNTIL
from ledger.queries.operations import ListedOperation, listed_operations
from ledger.rules.desk import UNDO_OFFERED, may_be_undone

SOON = timedelta(hours=1)
"""An answer that is due within this time is about to be late."""
MENTIONED_WITHIN = timedelta(days=14)
WOKEN_WITHIN = timedelta(days=2)
"""Groups that woke are shown for so long, unless the person acts on them sooner."""
MOST = 20
MOST_COUNTED = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldGroup:
    """A group that the person holds."""

    tool_id: UUID
    tool: str
    cause: str
    held_until: datetime
    count: int
    """Its unsettled operations, counted up to 1,000."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Woken:
    """A snooze that has ended: of an operation, or of a group (`tool` and `cause`)."""

    operation: UUID | None
    tool_id: UUID | None
    tool: str
    cause: str
    because: str
    """time, evidence, owner_back or state_change."""
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """A note that names the person."""

    operation: UUID | None
    tool_id: UUID | None
    tool: str
    cause: str
    author: str
    text: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """An answer of somebody else that counts only once another person has signed it."""

    operation: UUID
    author: str
    answer: str
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """Something that the person did: at the desk, or an answer to what happened."""

    id: UUID
    verb: str
    """Of an answer: `answer`."""
    operation: UUID | None
    operation_id: str
    tool_id: UUID | None
    tool: str
    cause: str
    whom: str
    """Who got it; empty: nobody, or the verb gives nothing."""
    said: Mapping[str, Any]
    at: datetime
    undone: bool
    undo: bool
    """Taking it back is offered now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MyWork:
    """Everything on the page of one person's work."""

    breaching: tuple[ListedOperation, ...]
    held: tuple[ListedOperation, ...]
    held_groups: tuple[HeldGroup, ...]
    woken: tuple[Woken, ...]
    mentions: tuple[Mention, ...]
    signatures: tuple[Signature, ...]
    actions: tuple[Action, ...]
    operations: Mapping[UUID, ListedOperation]
    """Every operation that the sections name."""
    held_count: int
    """Operations held, counted up to 1,000."""
    as_of: datetime

    @property
    def mark(self) -> str:
        """Another one whenever the page reads differently."""
        read = (
            sorted((str(id), row.mark) for id, row in self.operations.items()),
            [row.id for row in self.breaching],
            [row.id for row in self.held],
            self.held_groups,
            self.woken,
            [(mention.text, mention.at) for mention in self.mentions],
            self.signatures,
            [(action.id, action.undone, action.undo) for action in self.actions],
        )
        return hashlib.sha256(repr(read).encode()).hexdigest()[:16]


def my_work(*, workspace_id: UUID, person_id: int, username: str, signs: bool) -> MyWork:
    """The work of a person in a workspace. `signs`: they may give second signatures. Eight statements, whatever there is."""
    who = {"workspace": workspace_id, "me": person_id, "name": username, "most": MOST}
    breaching = [row[0] for row in execute(_BREACHING, {**who, "soon": SOON})]
    held = execute(_HELD, {**who, "counted": MOST_COUNTED})
    groups = execute(_HELD_GROUPS, {**who, "counted": MOST_COUNTED})
    woken = execute(_WOKEN, {**who, "within": WOKEN_WITHIN})
    mentions = execute(_MENTIONS, {**who, "within": MENTIONED_WITHIN, "mine": orjson.dumps([username]).decode()})
    signatures = execute(_SIGNATURES, who) if signs else []
    done = execute(_ACTIONS, who)
    named = {
        *breaching,
        *(row[0] for row in held),
        *(row[0] for row in woken if row[0]),
        *(row[0] for row in mentions if row[0]),
        *(row[0] for row in signatures),
    }
    operations = {row.id: row for row in listed_operations(workspace_id=workspace_id, ids=sorted(named))}
    now = database_now()
    return MyWork(
        breaching=tuple(operations[id] for id in breaching if id in operations),
        held=tuple(operations[row[0]] for row in held if row[0] in operations),
        held_groups=tuple(
            HeldGroup(tool_id=row[0], tool=row[1], cause=row[2], held_until=row[3], count=row[4]) for row in groups
        ),
        woken=tuple(
            Woken(
                operation=row[0], tool_id=row[1], tool=row[2] or "", cause=row[3], because=row[4] or "time", at=row[5]
            )
            for row in woken
        ),
        mentions=tuple(
            Mention(
                operation=row[0], tool_id=row[1], tool=row[2] or "", cause=row[3], author=row[4], text=row[5], at=row[6]
            )
            for row in mentions
        ),
        signatures=tuple(
            Signature(operation=row[0], author=row[1], answer=row[2], reason=row[3], at=row[4]) for row in signatures
        ),
        actions=tuple(_action(row, now) for row in done),
        operations=operations,
        held_count=held[0][1] if held else 0,
        as_of=now,
    )


def _action(row: tuple[Any, ...], now: datetime) -> Action:
    id, verb, operation, operation_id, tool_id, tool, cause, whom, said, at, undone = row
    return Action(
        id=id,
        verb=verb,
        operation=operation,
        operation_id=operation_id or "",
        tool_id=tool_id,
        tool=tool or "",
        cause=cause,
        whom=whom or "",
        said=orjson.loads(said) if said else {},
        at=at,
        undone=undone,
        undo=may_be_undone(verb=verb) and not undone and now - at <= UNDO_OFFERED,
    )


_BREACHING = (
    f"SELECT o.id FROM operation o {DESK_JOINS} WHERE o.workspace_id = %(workspace)s AND o.state <> 'settled' "  # noqa: S608
    f"AND o.sla_at IS NOT NULL AND o.sla_at <= now() + %(soon)s AND coalesce({HOLDER}, %(me)s) = %(me)s "
    f"AND {SNOOZED_UNTIL} IS NULL ORDER BY o.sla_at, o.id LIMIT %(most)s"
)
_HELD = (
    "SELECT o.id, (SELECT count(*) FROM (SELECT 1 FROM desk d JOIN operation o ON o.id = d.operation "
    "WHERE d.workspace_id = %(workspace)s AND d.holder_id = %(me)s AND d.held_until > now() AND o.state <> 'settled' "
    "LIMIT %(counted)s) counted) FROM desk d JOIN operation o ON o.id = d.operation "
    "WHERE d.workspace_id = %(workspace)s AND d.holder_id = %(me)s AND d.held_until > now() AND o.state <> 'settled' "
    "ORDER BY least(o.sla_at, o.deadline_at), o.id LIMIT %(most)s"
)
_HELD_GROUPS = (
    "SELECT g.tool_id, t.name, g.cause, g.held_until, (SELECT count(*) FROM (SELECT 1 FROM operation o "
    "WHERE o.workspace_id = %(workspace)s AND o.tool_id = g.tool_id AND o.cause = g.cause AND o.state <> 'settled' "
    "LIMIT %(counted)s) counted) FROM cause_desk g JOIN tool t ON t.id = g.tool_id WHERE g.workspace_id = %(workspace)s "
    "AND g.holder_id = %(me)s AND g.held_until > now() ORDER BY t.name, g.cause LIMIT %(most)s"
)
# A snooze is its setter's, and its holder's.
_WOKEN = (
    "(SELECT d.operation, NULL::uuid, NULL, '', ended.because, d.woken_at AS at FROM desk d JOIN operation o ON o.id = d.operation "
    "LEFT JOIN LATERAL (SELECT e.person_id, e.after ->> 'because' AS because FROM desk_entry e WHERE e.operation = d.operation "
    "AND e.verb = 'woke' ORDER BY e.at DESC, e.id DESC LIMIT 1) ended ON true WHERE d.workspace_id = %(workspace)s "
    "AND d.woken_at IS NOT NULL AND o.state <> 'settled' AND (ended.person_id = %(me)s OR (d.holder_id = %(me)s "
    "AND d.held_until > now())) ORDER BY d.woken_at DESC LIMIT %(most)s) "
    "UNION ALL (SELECT NULL, e.tool_id, t.name, e.cause, e.after ->> 'because', e.at FROM desk_entry e JOIN tool t ON t.id = e.tool_id "
    "WHERE e.workspace_id = %(workspace)s AND e.person_id = %(me)s AND e.verb = 'woke' AND e.operation IS NULL "
    "AND e.at > now() - %(within)s AND NOT EXISTS (SELECT 1 FROM desk_entry l WHERE l.workspace_id = %(workspace)s "
    "AND l.person_id = %(me)s AND l.at > e.at AND l.operation IS NULL AND l.tool_id = e.tool_id AND l.cause = e.cause) "
    "ORDER BY e.at DESC LIMIT %(most)s) ORDER BY at DESC LIMIT %(most)s"
)
_MENTIONS = (
    f"SELECT n.operation, n.tool_id, t.name, n.cause, {NAME.format(p='p')}, n.text, n.at FROM note n "  # noqa: S608
    "JOIN person p ON p.id = n.author_id LEFT JOIN tool t ON t.id = n.tool_id WHERE n.workspace_id = %(workspace)s "
    "AND n.mentions @> %(mine)s::jsonb AND n.author_id <> %(me)s AND n.at > now() - %(within)s AND NOT EXISTS ("
    "SELECT 1 FROM desk_entry e WHERE e.workspace_id = %(workspace)s AND e.person_id = %(me)s AND e.at > n.at "
    "AND e.verb <> 'woke' AND (e.operation = n.operation OR (n.operation IS NULL AND e.operation IS NULL "
    "AND e.tool_id = n.tool_id AND e.cause = n.cause))) ORDER BY n.at DESC LIMIT %(most)s"
)
_SIGNATURES = (
    f"SELECT o.id, {NAME.format(p='p')}, a.answer, a.reason, a.at FROM operation o "  # noqa: S608
    "JOIN attestation a ON a.id = o.awaits_signature_id JOIN person p ON p.id = a.person_id "
    "WHERE o.workspace_id = %(workspace)s AND o.awaits_signature_id IS NOT NULL AND o.state <> 'settled' "
    "AND a.person_id <> %(me)s ORDER BY a.at, o.id LIMIT %(most)s"
)
_ACTIONS = (
    "SELECT act.id, act.verb, act.operation, o.operation_id, act.tool_id, t.name, act.cause, "  # noqa: S608
    f"CASE WHEN p.id IS NOT NULL THEN {NAME.format(p='p')} END, act.after, act.at, "
    "EXISTS (SELECT 1 FROM desk_entry u WHERE u.undoes_id = act.id) FROM ("
    "(SELECT id, verb, operation, tool_id, cause, after::text AS after, (after ->> 'holder_id')::int AS whom, at FROM desk_entry "
    "WHERE workspace_id = %(workspace)s AND person_id = %(me)s AND verb NOT IN ('woke', 'seen') ORDER BY at DESC LIMIT %(most)s) "
    "UNION ALL (SELECT a.id, 'answer', a.operation, NULL, '', json_build_object('answer', a.answer, 'signs', a.signs_id IS NOT NULL)::text, "
    "NULL, a.at FROM attestation a JOIN operation o ON o.id = a.operation WHERE a.person_id = %(me)s "
    "AND o.workspace_id = %(workspace)s ORDER BY a.at DESC LIMIT %(most)s)) act "
    "LEFT JOIN operation o ON o.id = act.operation LEFT JOIN tool t ON t.id = coalesce(act.tool_id, o.tool_id) "
    "LEFT JOIN person p ON p.id = act.whom ORDER BY act.at DESC, act.id DESC LIMIT %(most)s"
)
