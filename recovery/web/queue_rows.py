"""How does one operation, or one group of them, stand in the queue? Two lines a cell: what it is, and under it why."""

import base64
import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlencode

from django.utils.html import format_html
from django.utils.safestring import SafeString

from ledger.queries.desk import DeskRow
from ledger.queries.operation_groups import Group, Grouping, GroupNote
from ledger.queries.operations import ListedOperation
from ledger.rules.filters import narrowed
from ledger.rules.vocabulary import FailureClass, State
from recovery.judgement.codes import SENTENCES
from recovery.web.moments import Shape, moment
from recovery.web.sentences import Look, look_of, under_state, why_here

HELD_BACK = "POSSIBLE_DUPLICATE"
SOON = timedelta(hours=1)
"""An answer that is due within this time is about to be late."""
NO_TROUBLE = "Nothing went wrong so far"
NOBODY = "Nobody"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who holds it, and whether it sleeps."""

    name: str
    """Empty: nobody."""
    is_me: bool
    by_group: bool
    until: SafeString | None
    snoozed: SafeString | None
    """When it wakes; None: it is awake."""
    woke: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One operation as the list shows it."""

    key: str
    """Its uuid without dashes: the row's element id, and what polling names it by."""
    mark: str
    id: str
    href: str
    peek: str
    """The list's own address with this operation beside it, for browsers without JavaScript."""
    look: Look
    under: str
    tool: str
    operation_id: str
    why: str
    opened: SafeString
    due: SafeString | str
    due_tone: str
    """red: passed; amber: within the hour; empty: neither."""
    next: SafeString | str
    next_under: str
    awaits_signature: bool
    holder: Holder
    labels: tuple[str, ...]
    matches: bool = True
    """False: it is still on the screen but has left this view."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """One group as the list shows it."""

    key: str
    mark: str
    name: str
    """What went wrong, in words; of an owner its name."""
    why: str
    owner_code: str
    """What the owner said, foreign text; empty when it said nothing."""
    tool: str
    owner: str
    href: str
    """The list of its operations."""
    count: str
    parts: str
    """`12 unknown, 3 need a person`."""
    first: SafeString
    last: SafeString
    holder: Holder
    note: GroupNote | None
    note_at: SafeString | None
    more_notes: int
    desk_at: str
    """Where its desk is; empty where a group has none."""
    peek: str
    """Where its summary is."""


def row_of(
    item: ListedOperation,
    *,
    now: datetime,
    me: int,
    list_at: str = "",
    filter_text: str = "",
    matches: bool = True,
) -> Row:
    """One operation's row as `me` sees it. `list_at` is the query of the list that it stands in, and `filter_text` the
    filter, for the way back from its page."""
    upcoming, under = _next(item, now=now)
    due, tone = _due(item, now=now)
    came_from = f"?{urlencode({'from': filter_text})}" if filter_text else ""
    return Row(
        key=item.id.hex,
        mark=item.mark,
        id=str(item.id),
        href=f"/operations/{item.id}/{came_from}",
        peek=f"/queue/?{list_at}{'&' if list_at else ''}peek={item.id}",
        look=look_of(state=item.state, outcome=item.outcome),
        under=under_state(state=item.state, effect=item.effect, outcome=item.outcome),
        tool=item.tool,
        operation_id=item.operation_id,
        why=why_here(item),
        opened=moment(at=item.created_at, now=now, shape=Shape.AGE),
        due=due,
        due_tone=tone,
        next=upcoming,
        next_under=under,
        awaits_signature=item.awaits_signature,
        holder=holder_of(item.desk, now=now, me=me),
        labels=item.desk.labels,
        matches=matches,
    )


def group_row_of(group: Group, *, now: datetime, me: int, query: str, by: Grouping, most: int) -> GroupRow:
    """One group's row. `query` is the filter that found it; `most` is where counting stopped."""
    if by is Grouping.CAUSE:
        name, why, said = told_cause(group.cause)
        to = {"tool": group.tool, "cause": group.cause}
        written = f"{group.tool_id}|{group.cause}"
    else:
        name, why, said = group.owner, "", ""
        to = {"owner": group.owner}
        written = group.owner
    parts = [
        f"{count:,} {words}"
        for count, words in (
            (group.unknown, "unknown"),
            (group.escalated, "needs a person" if group.escalated == 1 else "need a person"),
        )
        if count
    ]
    has_desk = group.tool_id is not None and bool(group.cause)
    return GroupRow(
        key=group_key(written),
        mark=_mark(group),
        name=name,
        why=why,
        owner_code=said,
        tool=group.tool,
        owner=group.owner,
        href=list_address(narrowed(query, to=to)),
        count=f"{group.count:,}{'+' if group.count >= most else ''}",
        parts=", ".join(parts),
        first=moment(at=group.first_at, now=now),
        last=moment(at=group.last_at, now=now),
        holder=holder_of(group.desk, now=now, me=me),
        note=group.note,
        note_at=moment(at=group.note.at, now=now) if group.note else None,
        more_notes=max(group.notes - 1, 0),
        desk_at=f"/groups/{group.tool_id}/{cause_key(group.cause)}/desk/" if has_desk else "",
        peek=f"/queue/peek/group/?{urlencode({'tool': str(group.tool_id), 'cause': group.cause})}" if has_desk else "",
    )


def list_address(query: str, *, by: str = "", **besides: str) -> str:
    """The queue's address for a filter; an empty one is what the queue shows when nothing is asked."""
    asked = {name: value for name, value in {"q": query, "group": by, **besides}.items() if value}
    return f"/queue/?{urlencode(asked)}" if asked else "/queue/"


def group_key(written: str) -> str:
    """A group's element id, shaped like an operation's: `tool id|cause`, or an owner's name."""
    return hashlib.sha256(written.encode()).hexdigest()[:32]


def told_cause(cause: str) -> tuple[str, str, str]:
    """A cause in words: its class, our sentence for its code, and the owner's own code, which is foreign text."""
    if not cause:
        return NO_TROUBLE, "No attempt has failed, or none was made yet.", ""
    failure_class, _, rest = cause.partition("/")
    code, _, said = rest.partition("/")
    name = failure_class.replace("_", " ").capitalize() if failure_class in list(FailureClass) else failure_class
    return name, SENTENCES.get(code, code.replace("_", " ").capitalize()), said


def cause_key(cause: str) -> str:
    """A cause as a part of an address: an owner's code is foreign text and may read `..` or `#`."""
    return base64.urlsafe_b64encode(cause.encode()).decode().rstrip("=") or "-"


def holder_of(desk: DeskRow, *, now: datetime, me: int) -> Holder:
    """Who holds it, as `me` reads it."""
    return Holder(
        name="" if desk.holder_id is None else "You" if desk.holder_id == me else desk.holder_name,
        is_me=desk.holder_id == me,
        by_group=desk.held_by_group,
        until=moment(at=desk.held_until, now=now, shape=Shape.IN) if desk.held_until else None,
        snoozed=moment(at=desk.snoozed_until, now=now, shape=Shape.IN) if desk.snoozed_until else None,
        woke=desk.woken_at is not None,
    )


def _mark(group: Group) -> str:
    desk, note = group.desk, group.note
    said = (group.count, group.unknown, group.escalated, group.last_at, desk.holder_id, desk.snoozed_until, group.notes)
    return hashlib.sha256(repr((*said, note.at if note else None)).encode()).hexdigest()[:12]


def _due(item: ListedOperation, *, now: datetime) -> tuple[SafeString | str, str]:
    if item.state is State.SETTLED:
        return "", ""
    at = item.sla_at or item.deadline_at
    tone = "red" if at <= now else "amber" if item.sla_at and at - now <= SOON else ""
    words = "Answer due {}" if item.sla_at else "Deadline {}"
    return format_html(words, moment(at=at, now=now, shape=Shape.DUE)), tone


def _next(item: ListedOperation, *, now: datetime) -> tuple[SafeString | str, str]:
    spent = item.polls > item.polls_limit
    looks = f"{item.polls} looks, {item.polls_limit} budgeted" if spent else f"{item.polls} of {item.polls_limit} looks"
    if item.state is State.SETTLED:
        return format_html("Settled {}", moment(at=item.changed_at, now=now)), ""
    if item.state is State.OPEN:
        if item.decision and item.decision.code == HELD_BACK:
            return "Held back", "until the other one settles"
        return "The harness may send", ""
    if item.state is State.BLOCKED:
        return "Waits for permission", ""
    if item.next_check_at is None:
        return "Waits for a person", looks if item.polls else ""
    when = moment(at=item.next_check_at, now=now, shape=Shape.IN)
    if item.state is State.DISPATCHED:
        return format_html("Permit ends {}", when), "then the effect is unknown"
    if item.state is State.WAITING and not item.polls:
        return format_html("Goes on {}", when), ""
    if item.state is State.VERIFYING:
        return format_html("Checks again {}", when), ""
    return format_html("Looks again {}", when), looks
