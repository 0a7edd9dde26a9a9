"""What belongs together in the queue: operations with one cause, or of one owner."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from ledger.database import execute
from ledger.queries.desk import NAME, DeskRow
from ledger.queries.filters import Filter

LOOKED_AT = 10_000
"""Of the newest operations that a filter finds so many are grouped: a million open ones make no slow page."""
MOST_GROUPS = 100


class Grouping(StrEnum):
    """By what the list is grouped."""

    FLAT = ""
    CAUSE = "cause"
    OWNER = "owner"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupNote:
    """The newest note on a cause."""

    author: str
    text: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Operations that belong together."""

    tool_id: UUID | None
    """Of a cause; None of an owner."""
    tool: str
    cause: str
    owner: str
    count: int
    first_at: datetime
    last_at: datetime
    unknown: int
    """How many of them have an unknown effect."""
    escalated: int
    """How many of them wait for a person."""
    desk: DeskRow
    note: GroupNote | None
    notes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """The largest groups first."""

    groups: tuple[Group, ...]
    more_groups: bool
    """There are smaller ones that are not shown."""
    cut: bool
    """There are older operations that were not looked at."""
    as_of: datetime


def operation_groups(*, workspace_id: UUID, filter: Filter, by: Grouping) -> Groups:
    """What a filter finds, grouped. Two statements: the groups, and for causes what the desk says of them."""
    where, params = filter.where()
    key = "o.tool_id, o.cause" if by is Grouping.CAUSE else "t.owner_id"
    rows = execute(
        f"""
        WITH seen AS (
            SELECT o.tool_id, o.cause, t.name AS tool, t.owner_id, o.created_at, o.effect, o.state
            FROM operation o JOIN tool t ON t.id = o.tool_id WHERE o.workspace_id = %(workspace)s{where}
            ORDER BY o.created_at DESC, o.id DESC LIMIT %(looked_at)s
        ), grouped AS (
            SELECT {key.replace("o.", "seen.").replace("t.", "seen.")}, count(*) AS number, min(created_at) AS first_at,
                   max(created_at) AS last_at, count(*) FILTER (WHERE effect = 'unknown') AS unknown,
                   count(*) FILTER (WHERE state = 'escalated') AS escalated, min(tool) AS tool, min(owner_id::text)::uuid AS of_owner
            FROM seen GROUP BY {key.replace("o.", "seen.").replace("t.", "seen.")}
        )
        SELECT {"grouped.tool_id, grouped.cause" if by is Grouping.CAUSE else "NULL::uuid, ''"}, tool, w.name, number,
               first_at, last_at, unknown, escalated, (SELECT count(*) FROM seen), now()
        FROM grouped JOIN owner w ON w.id = grouped.of_owner
        ORDER BY number DESC, last_at DESC, w.name, tool LIMIT %(groups)s
        """,  # noqa: S608 - names are ours
        {"workspace": workspace_id, "looked_at": LOOKED_AT, "groups": MOST_GROUPS + 1, **params},
    )
    desks = _desks(workspace_id, [(row[0], row[1]) for row in rows[:MOST_GROUPS]]) if by is Grouping.CAUSE else {}
    nothing = (DeskRow(), None, 0)
    return Groups(
        groups=tuple(
            Group(
                tool_id=row[0],
                cause=row[1],
                tool=row[2] if by is Grouping.CAUSE else "",
                owner=row[3],
                count=row[4],
                first_at=row[5],
                last_at=row[6],
                unknown=row[7],
                escalated=row[8],
                desk=desks.get((row[0], row[1]), nothing)[0],
                note=desks.get((row[0], row[1]), nothing)[1],
                notes=desks.get((row[0], row[1]), nothing)[2],
            )
            for row in rows[:MOST_GROUPS]
        ),
        more_groups=len(rows) > MOST_GROUPS,
        cut=bool(rows) and rows[0][9] >= LOOKED_AT,
        as_of=rows[0][10] if rows else execute("SELECT now()")[0][0],
    )


def tool_named(*, workspace_id: UUID, id: UUID) -> str | None:
    """A tool's name; None when it is not in this workspace."""
    rows = execute("SELECT name FROM tool WHERE id = %s AND workspace_id = %s", [id, workspace_id])
    return rows[0][0] if rows else None


def _desks(
    workspace_id: UUID, keys: Sequence[tuple[UUID, str]]
) -> dict[tuple[UUID, str], tuple[DeskRow, GroupNote | None, int]]:
    """Claim, snooze and newest note of each cause."""
    if not keys:
        return {}
    rows = execute(
        f"""
        SELECT k.tool_id, k.cause, p.id, p.username, {NAME.format(p="p")}, g.held_until,
               CASE WHEN g.snoozed_until > now() THEN g.snoozed_until END, n.author, n.text, n.at, n.number
        FROM unnest(%(tools)s::uuid[], %(causes)s::varchar[]) AS k(tool_id, cause)
        LEFT JOIN cause_desk g ON g.tool_id = k.tool_id AND g.cause = k.cause AND g.workspace_id = %(workspace)s
        LEFT JOIN person p ON p.id = g.holder_id AND g.held_until > now()
        LEFT JOIN LATERAL (
            SELECT {NAME.format(p="a")} AS author, left(note.text, 300) AS text, note.at, count(*) OVER () AS number
            FROM note JOIN person a ON a.id = note.author_id
            WHERE note.tool_id = k.tool_id AND note.cause = k.cause ORDER BY note.at DESC LIMIT 1
        ) n ON true
        """,  # noqa: S608 - names are ours
        {
            "workspace": workspace_id,
            "tools": [tool_id for tool_id, _ in keys],
            "causes": [cause for _, cause in keys],
        },
    )
    return {
        (row[0], row[1]): (
            DeskRow(
                holder_id=row[2],
                holder=row[3] or "",
                holder_name=row[4] if row[2] else "",
                held_until=row[5] if row[2] else None,
                held_by_group=row[2] is not None,
                snoozed_until=row[6],
                snoozed_by_group=row[6] is not None,
            ),
            GroupNote(author=row[7], text=row[8], at=row[9]) if row[9] else None,
            row[10] or 0,
        )
        for row in rows
    }
