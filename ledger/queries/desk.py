"""Who holds an operation, until when it sleeps, and what people wrote beside it."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from ledger.database import execute
from ledger.rules.desk import PRESENT_FOR, Kept, Subject, Verb, WakesOn
from ledger.rules.vocabulary import Role

ACTING = (Role.OPERATOR.value, Role.ADMIN.value)
"""Who may hold an operation."""
NAME = "COALESCE(NULLIF(TRIM(CONCAT_WS(' ', {p}.first_name, {p}.last_name)), ''), {p}.username)"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeskRow:
    """The desk of one operation or group, as it holds now: a claim that has lapsed and a snooze that is over are not in it."""

    holder_id: int | None = None
    holder: str = ""
    """Username."""
    holder_name: str = ""
    held_until: datetime | None = None
    held_by_group: bool = False
    """The claim is on the whole group, and the operation has none of its own."""
    snoozed_until: datetime | None = None
    snoozed_by_group: bool = False
    wakes_on: WakesOn = WakesOn.TIME
    woken_at: datetime | None = None
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteRow:
    """What a person wrote beside an operation or its group."""

    id: UUID
    author_id: int
    author: str
    """Their name."""
    text: str
    at: datetime
    of_group: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonRow:
    """Somebody of a workspace."""

    id: int
    username: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """All that a desk shows: who holds it, who looks, what was written."""

    row: DeskRow
    notes: tuple[NoteRow, ...]
    looking: tuple[PersonRow, ...]
    is_settled: bool
    now: datetime

    @property
    def mark(self) -> str:
        """Another one whenever the desk reads differently."""
        read = (self.row, [note.id for note in self.notes], [person.id for person in self.looking])
        return hashlib.sha256(repr(read).encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryRow:
    """An act as it was recorded, and what taking it back needs."""

    id: UUID
    subject: Subject
    kept: Kept
    before: dict[str, Any]


_OWN_CLAIM, _GROUPS_CLAIM = "d.held_until > now()", "g.held_until > now()"
_OWN_SNOOZE, _GROUPS_SNOOZE = "d.snoozed_until > now()", "g.snoozed_until > now()"
HOLDER = f"CASE WHEN {_OWN_CLAIM} THEN d.holder_id WHEN {_GROUPS_CLAIM} THEN g.holder_id END"
"""Over DESK_JOINS: who holds an operation now, by itself or with its group."""
SNOOZED_UNTIL = f"CASE WHEN {_OWN_SNOOZE} THEN d.snoozed_until WHEN {_GROUPS_SNOOZE} THEN g.snoozed_until END"
"""Over DESK_JOINS: until when an operation sleeps, by itself or with its group."""
DESK_JOINS = (
    " LEFT JOIN desk d ON d.operation = o.id "
    "LEFT JOIN cause_desk g ON g.tool_id = o.tool_id AND g.cause = o.cause AND o.state <> 'settled' "
    f"LEFT JOIN person holder ON holder.id = {HOLDER} "
)
"""What DESK_COLUMNS reads, over `operation o`."""
DESK_COLUMNS = (
    f"holder.id, holder.username, {NAME.format(p='holder')}, "
    f"CASE WHEN {_OWN_CLAIM} THEN d.held_until WHEN {_GROUPS_CLAIM} THEN g.held_until END, "
    f"({_OWN_CLAIM}) IS NOT TRUE AND {_GROUPS_CLAIM}, {SNOOZED_UNTIL}, "
    f"({_OWN_SNOOZE}) IS NOT TRUE AND {_GROUPS_SNOOZE}, "
    f"CASE WHEN {_OWN_SNOOZE} THEN d.wakes_on WHEN {_GROUPS_SNOOZE} THEN g.wakes_on END, d.woken_at, d.labels::text"
)
"""Ten columns for `desk_from`."""
WIDTH = 10


def desk_from(row: Sequence[Any]) -> DeskRow:
    """The desk behind the ten columns of DESK_COLUMNS."""
    return DeskRow(
        holder_id=row[0],
        holder=row[1] or "",
        holder_name=row[2] or "" if row[0] else "",
        held_until=row[3],
        held_by_group=bool(row[4]),
        snoozed_until=row[5],
        snoozed_by_group=bool(row[6]),
        wakes_on=WakesOn(row[7] or ""),
        woken_at=row[8],
        labels=tuple(orjson.loads(row[9])) if row[9] else (),
    )


def desk_of(*, subject: Subject) -> DeskRow | None:
    """The desk of an operation or a group now; None when it is not in the workspace. One statement."""
    if subject.operation is not None:
        rows = execute(
            f"SELECT {DESK_COLUMNS} FROM operation o {DESK_JOINS} WHERE o.id = %s AND o.workspace_id = %s",  # noqa: S608
            [subject.operation, subject.workspace_id],
        )
    else:
        rows = execute(
            f"SELECT holder.id, holder.username, {NAME.format(p='holder')}, "  # noqa: S608 - names are ours
            f"CASE WHEN {_GROUPS_CLAIM} THEN g.held_until END, false, "
            f"CASE WHEN {_GROUPS_SNOOZE} THEN g.snoozed_until END, false, "
            f"CASE WHEN {_GROUPS_SNOOZE} THEN g.wakes_on END, NULL, NULL "
            "FROM tool t LEFT JOIN cause_desk g ON g.tool_id = t.id AND g.cause = %s "
            f"LEFT JOIN person holder ON holder.id = g.holder_id AND {_GROUPS_CLAIM} "
            "WHERE t.id = %s AND t.workspace_id = %s",
            [subject.cause, subject.tool_id, subject.workspace_id],
        )
    return desk_from(rows[0]) if rows else None


def whole_desk(*, subject: Subject, person_id: int, most_notes: int = 50) -> Desk | None:
    """All that the desk of an operation or a group shows to a person; None when it is not in the workspace.

    Three statements. Notes newest first, an operation's and its group's; who looks, without the person themselves.
    """
    row = desk_of(subject=subject)
    if row is None:
        return None
    notes = notes_of(subject=subject, most=most_notes)
    rows = execute(
        f"SELECT now(), o.state = 'settled', p.id, p.username, {NAME.format(p='p')} FROM (SELECT %(id)s::uuid AS id) one "  # noqa: S608
        "LEFT JOIN operation o ON o.id = one.id LEFT JOIN (presence pr JOIN person p ON p.id = pr.person_id) "
        "ON pr.operation = one.id AND pr.person_id <> %(person)s AND pr.seen_at > now() - %(present)s ORDER BY p.username",
        {"id": subject.operation, "person": person_id, "present": PRESENT_FOR},
    )
    looking = tuple(
        PersonRow(id=id, username=username, name=name) for _, _, id, username, name in rows if id is not None
    )
    return Desk(row=row, notes=notes, looking=looking, is_settled=bool(rows[0][1]), now=rows[0][0])


def titled(*, subject: Subject) -> tuple[str, str] | None:
    """The tool's name, and the operation's id or the group's cause; None when it is not in the workspace."""
    rows = execute(
        "SELECT t.name, o.operation_id FROM operation o JOIN tool t ON t.id = o.tool_id "
        "WHERE o.id = %(operation)s AND o.workspace_id = %(workspace)s"
        if subject.operation is not None
        else "SELECT t.name, %(cause)s FROM tool t WHERE t.id = %(tool)s AND t.workspace_id = %(workspace)s",
        named(subject),
    )
    return (rows[0][0], rows[0][1]) if rows else None


def notes_of(*, subject: Subject, most: int = 50) -> tuple[NoteRow, ...]:
    """The newest notes on an operation and on its group, or on a group, newest first."""
    source = f"note n WHERE {about(subject, 'n')}"
    if subject.operation is not None:
        source = (
            "(SELECT n.* FROM note n WHERE n.operation = %(operation)s UNION ALL SELECT n.* FROM operation o "
            "JOIN note n ON n.tool_id = o.tool_id AND n.cause = o.cause WHERE o.id = %(operation)s AND o.cause <> '') n WHERE true"
        )
    rows = execute(
        f"SELECT n.id, n.author_id, {NAME.format(p='p')}, n.text, n.at, n.operation IS NULL "  # noqa: S608 - names are ours
        f"FROM person p, {source} AND p.id = n.author_id AND n.workspace_id = %(workspace)s "
        "ORDER BY n.at DESC, n.id DESC LIMIT %(most)s",
        {**named(subject), "most": most},
    )
    return tuple(
        NoteRow(id=id, author_id=author_id, author=author, text=text, at=at, of_group=of_group)
        for id, author_id, author, text, at, of_group in rows
    )


def people_to_assign(*, workspace_id: UUID) -> tuple[PersonRow, ...]:
    """Who may hold operations of a workspace: its active operators and admins, by name."""
    rows = execute(
        f"SELECT DISTINCT p.id, p.username, {NAME.format(p='p')} AS name FROM membership m "  # noqa: S608 - names are ours
        "JOIN person p ON p.id = m.person_id WHERE m.workspace_id = %s AND m.role = ANY(%s) AND p.is_active ORDER BY name, p.id",
        [workspace_id, list(ACTING)],
    )
    return tuple(PersonRow(id=id, username=username, name=name) for id, username, name in rows)


def label_suggestions(*, workspace_id: UUID, most: int = 20) -> tuple[str, ...]:
    """The labels that people of the workspace gave lately, the most used first."""
    rows = execute(
        "SELECT e.label FROM (SELECT DISTINCT person_id FROM membership WHERE workspace_id = %(workspace)s) m "
        "CROSS JOIN LATERAL (SELECT verb, after ->> 'label' AS label FROM desk_entry WHERE workspace_id = %(workspace)s "
        "AND person_id = m.person_id ORDER BY at DESC LIMIT 100) e "
        "WHERE e.verb = %(verb)s GROUP BY e.label ORDER BY count(*) DESC, e.label LIMIT %(most)s",
        {"workspace": workspace_id, "verb": Verb.LABEL.value, "most": most},
    )
    return tuple(row[0] for row in rows)


def entry(*, workspace_id: UUID, id: UUID) -> EntryRow | None:
    """An act of this workspace, with who changed the same thing after it."""
    rows = execute(
        "SELECT e.operation, e.tool_id, e.cause, e.verb, e.person_id, e.at, e.before::text, e.after::text, "
        "EXISTS (SELECT 1 FROM desk_entry u WHERE u.undoes_id = e.id) "
        "FROM desk_entry e WHERE e.id = %s AND e.workspace_id = %s",
        [id, workspace_id],
    )
    if not rows:
        return None
    operation, tool_id, cause, verb, person_id, at, before, after, undone = rows[0]
    subject = Subject(workspace_id=workspace_id, operation=operation, tool_id=tool_id, cause=cause)
    changed = orjson.loads(after) if after else {}
    since = last_to_change(subject=subject, columns=tuple(changed), label=changed.get("label"), after=(at, id))
    return EntryRow(
        id=id,
        subject=subject,
        kept=Kept(verb=verb, person_id=person_id, at=at, undone=undone, since=since),
        before=orjson.loads(before) if before else {},
    )


def last_to_change(
    *,
    subject: Subject,
    columns: Sequence[str],
    label: str | None = None,
    after: tuple[datetime, UUID] | None = None,
) -> str:
    """The name of who changed one of these members of a desk last (of labels: this one); empty when nobody has.

    `after`: only acts later than this one.
    """
    later = "AND (e.at, e.id) > (%(after_at)s, %(after_id)s) " if after else ""
    rows = execute(
        f"SELECT {NAME.format(p='p')} FROM desk_entry e JOIN person p ON p.id = e.person_id "  # noqa: S608 - names are ours
        f"WHERE {about(subject, 'e')} AND e.workspace_id = %(workspace)s AND e.after ?| %(columns)s::text[] {later}"
        "AND (e.after ->> 'label') IS NOT DISTINCT FROM %(label)s::text ORDER BY e.at DESC, e.id DESC LIMIT 1",
        {
            **named(subject),
            "columns": list(columns),
            "label": label,
            **({"after_at": after[0], "after_id": after[1]} if after else {}),
        },
    )
    return rows[0][0] if rows else ""


def about(subject: Subject, alias: str) -> str:
    """The condition under which a note or an act is about the subject, over `named`'s parameters."""
    if subject.operation is not None:
        return f"{alias}.operation = %(operation)s"
    return f"{alias}.operation IS NULL AND {alias}.tool_id = %(tool)s AND {alias}.cause = %(cause)s"


def named(subject: Subject) -> dict[str, Any]:
    """A subject as statements name it."""
    about_it: dict[str, Any] = {"workspace": subject.workspace_id}
    if subject.operation is not None:
        return about_it | {"operation": subject.operation}
    return about_it | {"tool": subject.tool_id, "cause": subject.cause}
