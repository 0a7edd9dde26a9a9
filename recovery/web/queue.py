"""The queue: what is unresolved, why it is here, and what happens next by itself."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseNotModified, HttpResponseRedirect
from django.shortcuts import render
from django.utils.safestring import SafeString
from django.views.decorators.http import require_GET
from django_htmx.http import HttpResponseClientRedirect

from ledger.database import TookTooLong, within
from ledger.queries.access import Seat
from ledger.queries.filters import Cursor, CursorInvalid, Filter, parse_cursor, read_filter
from ledger.queries.operation_groups import LOOKED_AT, Grouping, Groups, operation_groups
from ledger.queries.operations import OperationPage, listed_operations, operation_named, operation_page
from ledger.queries.queue_counts import QueueCounts, queue_counts
from ledger.queries.saved_views import View, saved_views
from ledger.queries.watched_operations import newer_operations, watched_operations
from ledger.rules.filters import QUALIFIERS, Problem
from recovery.web.access import DECIDES, seated
from recovery.web.moments import Shape, clock, moment
from recovery.web.queue_peek import Peek, peek_of
from recovery.web.queue_rows import GroupRow, Row, group_row_of, row_of

PAGE = 50
COUNTED = 1000
"""Counts stop here and are shown as 1,000+: an exact large number is worth no slow page."""
PATIENCE_MS = 2000
"""So long may the database think about one question of this page."""
STALE = timedelta(seconds=60)
"""A reconciler that has not been seen for so long is not feeding this page."""
SEEN_EVERY = 30
"""Seconds after which a poll tells anew when the reconciler was seen, though nothing else has changed."""
LONGEST = 800
UNRESOLVED = "is:unresolved"
AWAKE = "is:unresolved -is:snoozed"
"""What the queue shows when nothing else is asked."""
VIEWS: Final = (
    ("Unresolved", AWAKE, True),
    ("Mine", "is:unresolved is:mine", True),
    ("Unclaimed", "is:unresolved is:unclaimed -is:snoozed", True),
    ("Breaching", "is:breaching", True),
    ("Waiting for a person", "state:escalated", True),
    ("Blocked", "state:blocked", True),
    ("Unknown", "is:unresolved effect:unknown", True),
    ("Partial", "is:unresolved effect:partial", True),
    ("Verification failed", "is:unresolved verification:failed,unavailable", True),
    ("Snoozed", "is:unresolved is:snoozed", True),
    ("Settled", "is:settled", False),
)
"""Name, filter, and whether it is counted."""
_TOTAL = "total"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tab:
    """A view of the queue, as a link."""

    name: str
    href: str
    current: bool
    count: str
    saved: View | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What the sentence over the list says, and when it was last true."""

    unresolved: str
    tools: str
    oldest: SafeString | None
    mine: str
    snoozed: str
    as_of: SafeString
    is_empty: bool
    fed: bool
    last_run: SafeString | None
    """When the reconciler was last seen; None when it never was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """A word of the filter that is not understood, and where it stands."""

    before: str
    """The text in front of it: the sentence stands under the word."""
    token: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the address asks for."""

    text: str
    filter: Filter
    problems: tuple[Problem, ...]
    by: Grouping
    after: Cursor | None
    before: Cursor | None
    stale_cursor: bool

    def address(self, **besides: str) -> str:
        """The queue's address for the same filter and grouping."""
        asked = {} if self.text == AWAKE else {"q": self.text}
        grouped = {"group": self.by.value} if self.by is not Grouping.FLAT else {}
        query = urlencode({**asked, **grouped, **{name: value for name, value in besides.items() if value}})
        return f"/queue/?{query}" if query else "/queue/"


@require_GET
@seated()
def queue(request: HttpRequest, seat: Seat) -> HttpResponse:
    """The list, filtered, grouped and paged by the address alone. A pasted id opens its operation."""
    me = int(request.user.pk or 0)
    views = saved_views(workspace_id=seat.workspace_id, person_id=me)
    asked = _asked(request, me=me, views=views)
    if named := _pasted(seat, asked):
        to = f"/operations/{named}/"
        return HttpResponseClientRedirect(to) if request.htmx else HttpResponseRedirect(to)  # type: ignore[attr-defined]
    page: OperationPage | Groups | None = None
    counts: QueueCounts | None = None
    try:
        with within(milliseconds=PATIENCE_MS):
            page = _found(seat, asked)
            counts = _counts(seat, me)
    except TookTooLong:
        page, counts = None, _counts_alone(seat, me)
    context = _context(request, seat, asked, page=page, counts=counts, views=views, me=me)
    whole = not request.htmx or request.htmx.history_restore_request  # type: ignore[attr-defined]
    return render(request, "queue.html" if whole else "queue.html#list", context, status=200 if page else 422)


@require_GET
@seated()
def queue_live(request: HttpRequest, seat: Seat) -> HttpResponse:
    """What has changed since the rows on the screen were drawn: those rows anew, and how many wait to be loaded.

    `shown` lists the rows as `<key>.<mark>`. 304 when the answer's ETag is the one given.
    """
    me = int(request.user.pk or 0)
    asked = _asked(request, me=me, views=())
    shown = _shown(request.GET.get("shown", ""))
    rows: tuple[Row, ...] | tuple[GroupRow, ...]
    try:
        with within(milliseconds=PATIENCE_MS):
            counts = _counts(seat, me)
            if asked.by is Grouping.FLAT:
                newer, now_there, rows = _moved_rows(request, seat, asked, shown, counts=counts, me=me)
            else:
                newer, now_there, rows = _moved_groups(seat, asked, shown, me=me)
    except TookTooLong:
        return HttpResponse("This view takes too long to look at.", status=503, content_type="text/plain")
    scope = _scope(counts)
    etag = _etag(
        [f"{key}.{mark}" for key, mark in now_there.items()],
        newer,
        [f"{name}={count}" for name, count in counts.views.items()],
        [str(scope.fed), scope.tools, _seen_about(counts)],
    )
    if request.headers.get("If-None-Match") == etag:
        return HttpResponseNotModified(headers={"ETag": etag})
    context = {
        "scope": scope,
        "tabs": _tabs(asked, counts),
        "rows" if asked.by is Grouping.FLAT else "groups": rows,
        "newer": min(len(newer), PAGE),
        "more": len(newer) > PAGE,
        "gone": ",".join(key for key in shown if key not in now_there),
        "acts": bool(seat.roles & DECIDES),
        "by": asked.by.value,
    }
    response = render(request, "queue.html#live", context)
    response["ETag"] = etag
    return response


def _asked(request: HttpRequest, *, me: int, views: Sequence[View]) -> Asked:
    given, grouping = request.GET.get("q"), request.GET.get("group", "")
    saved = next((view for view in views if str(view.id) == request.GET.get("view")), None)
    if saved is not None and given is None:
        given, grouping = saved.query, saved.grouping.value
    text = " ".join((AWAKE if given is None else given).replace("\x00", " ").split())[:LONGEST]
    wanted, problems = read_filter(text, me=me)
    after, stale = _cursor(request.GET.get("after", ""))
    before, stale_before = _cursor(request.GET.get("before", ""))
    return Asked(
        text=text,
        filter=wanted,
        problems=problems,
        by=Grouping(grouping) if grouping in list(Grouping) else Grouping.FLAT,
        after=after,
        before=before if after is None else None,
        stale_cursor=stale or stale_before,
    )


def _cursor(text: str) -> tuple[Cursor | None, bool]:
    try:
        return (parse_cursor(text) if text else None), False
    except CursorInvalid:
        return None, True


def _pasted(seat: Seat, asked: Asked) -> UUID | None:
    terms = asked.filter.terms
    if len(terms) != 1 or terms[0].qualifier != "id" or terms[0].word.text != asked.text:
        return None
    return operation_named(workspace_id=seat.workspace_id, name=terms[0].values[0])


def _found(seat: Seat, asked: Asked) -> OperationPage | Groups:
    if asked.by is not Grouping.FLAT:
        return operation_groups(workspace_id=seat.workspace_id, filter=asked.filter, by=asked.by)
    page = operation_page(
        workspace_id=seat.workspace_id, filter=asked.filter, limit=PAGE, after=asked.after, before=asked.before
    )
    if asked.before is not None and len(page.items) < PAGE:
        # The way back has reached the newest: a whole first page rather than a short one.
        return operation_page(workspace_id=seat.workspace_id, filter=asked.filter, limit=PAGE)
    return page


def _counts(seat: Seat, me: int) -> QueueCounts:
    counted = {name: read_filter(q, me=me)[0] for name, q, is_counted in VIEWS if is_counted}
    total, _ = read_filter(UNRESOLVED)
    return queue_counts(workspace_id=seat.workspace_id, views={_TOTAL: total, **counted}, most=COUNTED)


def _counts_alone(seat: Seat, me: int) -> QueueCounts | None:
    try:
        with within(milliseconds=PATIENCE_MS):
            return _counts(seat, me)
    except TookTooLong:
        return None


def _context(
    request: HttpRequest,
    seat: Seat,
    asked: Asked,
    *,
    page: OperationPage | Groups | None,
    counts: QueueCounts | None,
    views: Sequence[View],
    me: int,
) -> dict[str, Any]:
    rows: tuple[Row, ...] = ()
    groups: tuple[GroupRow, ...] = ()
    list_at = asked.address().partition("?")[2]
    if isinstance(page, OperationPage):
        rows = tuple(
            row_of(item, now=page.as_of, me=me, list_at=list_at, filter_text=asked.text) for item in page.items
        )
    elif isinstance(page, Groups):
        groups = _group_rows(page, asked, me=me)
    scope = _scope(counts) if counts else None
    flat = page if isinstance(page, OperationPage) else None
    place = {name: request.GET[name] for name in ("after", "before") if request.GET.get(name)}
    return {
        "seat": seat,
        "section": "queue",
        "acts": bool(seat.roles & DECIDES),
        "scope": scope,
        "rows": rows,
        "groups": groups,
        "grouped": page if isinstance(page, Groups) else None,
        "looked_at": LOOKED_AT,
        "by": asked.by.value,
        "ways": _ways(asked),
        "tabs": _tabs(asked, counts),
        "kept": _kept(asked, views),
        "views": views,
        "q": asked.text,
        "is_default": asked.text == AWAKE,
        "wrong": tuple(_wrong(asked.text, problem) for problem in asked.problems),
        "qualifiers": tuple(QUALIFIERS.values()),
        "unclear": _unclear(asked),
        "stale_cursor": asked.stale_cursor,
        "too_wide": page is None,
        "empty": "" if rows or groups or page is None else _empty(scope, asked),
        "previous_page": asked.address(before=flat.previous_cursor or "") if flat and flat.previous_cursor else "",
        "next_page": asked.address(after=flat.next_cursor or "") if flat and flat.next_cursor else "",
        "first_page": asked.address() if asked.after or asked.before else "",
        "here": asked.address(),
        "live": f"/queue/live/?{urlencode({'q': asked.text, 'group': asked.by.value, **place})}" if page else "",
        "peek": _peek(request, seat, asked, place, me=me),
    }


def _peek(request: HttpRequest, seat: Seat, asked: Asked, place: dict[str, str], *, me: int) -> Peek | None:
    try:
        id = UUID(request.GET["peek"]) if request.GET.get("peek") else None
    except ValueError:
        return None
    return peek_of(seat=seat, id=id, me=me, back=asked.address(**place)) if id else None


def _moved_rows(
    request: HttpRequest, seat: Seat, asked: Asked, shown: dict[str, str], *, counts: QueueCounts, me: int
) -> tuple[list[str], dict[str, str], tuple[Row, ...]]:
    watched = watched_operations(workspace_id=seat.workspace_id, ids=_uuids(shown), filter=asked.filter)
    paged = request.GET.get("after") or request.GET.get("before")
    newer = (
        ()
        if paged
        else newer_operations(workspace_id=seat.workspace_id, filter=asked.filter, watched=watched, most=PAGE + 1)
    )
    matches = {row.id: row.matches for row in watched}
    moved = [row.id for row in watched if shown[row.id.hex] != row.mark or not row.matches]
    list_at = asked.address().partition("?")[2]
    rows = tuple(
        row_of(item, now=counts.as_of, me=me, list_at=list_at, filter_text=asked.text, matches=matches[item.id])
        for item in listed_operations(workspace_id=seat.workspace_id, ids=moved)
    )
    there = {row.id.hex: f"{row.mark}{'' if row.matches else '-'}" for row in watched}
    return [id.hex for id in newer], there, rows


def _moved_groups(
    seat: Seat, asked: Asked, shown: dict[str, str], *, me: int
) -> tuple[list[str], dict[str, str], tuple[GroupRow, ...]]:
    found = operation_groups(workspace_id=seat.workspace_id, filter=asked.filter, by=asked.by)
    rows = _group_rows(found, asked, me=me)
    newer = [row.key for row in rows if row.key not in shown]
    moved = tuple(row for row in rows if row.key in shown and shown[row.key] != row.mark)
    return newer, {row.key: row.mark for row in rows if row.key in shown}, moved


def _group_rows(found: Groups, asked: Asked, *, me: int) -> tuple[GroupRow, ...]:
    return tuple(
        group_row_of(
            group,
            now=found.as_of,
            me=me,
            query=asked.text,
            by=asked.by,
            most=LOOKED_AT,
        )
        for group in found.groups
    )


def _scope(counts: QueueCounts) -> Scope:
    total, now, last = counts.views[_TOTAL], counts.as_of, counts.reconciler_at
    return Scope(
        unresolved=_count(total),
        tools=f"{counts.tools} tool" if counts.tools == 1 else f"{counts.tools} tools",
        oldest=moment(at=counts.oldest, now=now, shape=Shape.AGE) if counts.oldest else None,
        mine=_count(counts.views["Mine"]),
        snoozed=_count(counts.views["Snoozed"]) if counts.views["Snoozed"] else "",
        as_of=clock(now),
        is_empty=not total,
        fed=last is not None and now - last <= STALE,
        last_run=moment(at=last, now=now) if last else None,
    )


def _tabs(asked: Asked, counts: QueueCounts | None) -> tuple[Tab, ...]:
    return tuple(
        Tab(
            name=name,
            href=f"/queue/?{urlencode({'q': q})}" if q != AWAKE else "/queue/",
            current=asked.text == q,
            count=_count(counts.views[name]) if counts and is_counted and counts.views[name] else "",
        )
        for name, q, is_counted in VIEWS
    )


def _seen_about(counts: QueueCounts) -> str:
    """When the reconciler was seen, roughly: the page says how long ago, and is not drawn anew for every beat."""
    return str(int(counts.reconciler_at.timestamp() // SEEN_EVERY)) if counts.reconciler_at else ""


def _kept(asked: Asked, views: Sequence[View]) -> tuple[Tab, ...]:
    return tuple(
        Tab(
            name=view.name,
            href=f"/queue/?view={view.id}",
            current=asked.text == " ".join(view.query.split()) and asked.by is view.grouping,
            count="",
            saved=view,
        )
        for view in views
    )


def _ways(asked: Asked) -> tuple[Tab, ...]:
    """The ways to group the same filter."""
    names = ((Grouping.FLAT, "Flat"), (Grouping.CAUSE, "By cause"), (Grouping.OWNER, "By owner"))
    asked_for = {} if asked.text == AWAKE else {"q": asked.text}
    ways = []
    for by, name in names:
        query = urlencode({**asked_for, **({"group": by.value} if by.value else {})})
        ways.append(Tab(name=name, href=f"/queue/?{query}" if query else "/queue/", current=asked.by is by, count=""))
    return tuple(ways)


def _count(number: int) -> str:
    return f"{COUNTED:,}+" if number >= COUNTED else str(number)


def _wrong(text: str, problem: Problem) -> Wrong:
    return Wrong(before=text[: problem.word.start], token=problem.word.text, sentence=problem.sentence)


def _unclear(asked: Asked) -> str:
    """A word before a colon that is no qualifier, and was read as the beginning of an operation id."""
    for term in asked.filter.terms:
        name, colon, _ = term.word.text.removeprefix("-").partition(":")
        if term.qualifier == "id" and colon and name not in QUALIFIERS and not name.startswith('"'):
            return name
    return ""


def _empty(scope: Scope | None, asked: Asked) -> str:
    if scope is None or not scope.fed:
        return "not_fed"
    if asked.after is not None or asked.before is not None:
        return "past_the_end"
    if asked.text in (AWAKE, UNRESOLVED):
        return "nothing" if scope.is_empty else "all_asleep"
    return "no_match"


def _shown(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for piece in text.split(",")[: 4 * PAGE]:
        key, _, mark = piece.partition(".")
        if len(key) == 32 and mark.isascii() and mark.isalnum():
            found[key] = mark[:24]
    return found


def _uuids(shown: dict[str, str]) -> tuple[UUID, ...]:
    found = []
    for key in shown:
        try:
            found.append(UUID(key))
        except ValueError:
            continue
    return tuple(found)


def _etag(*parts: Iterable[str]) -> str:
    written = "|".join(",".join(sorted(part)) for part in parts)
    return f'"{hashlib.sha256(written.encode()).hexdigest()[:24]}"'
