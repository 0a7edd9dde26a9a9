"""The queue: what is unresolved, why it is here, and what happens next by itself."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.shortcuts import render
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.http import require_GET

from ledger.queries.access import Seat
from ledger.queries.clock import database_now
from ledger.queries.filters import Cursor, CursorInvalid, Filter, FilterInvalid, parse_cursor, parse_filter
from ledger.queries.health import heartbeats
from ledger.queries.operations import (
    ListedOperation,
    OperationPage,
    oldest_unsettled,
    operation_page,
    tools_with_unsettled,
    unsettled_counts,
)
from ledger.queries.watched_operations import watched_operations
from ledger.rules.vocabulary import State
from recovery.web.access import seated
from recovery.web.moments import Shape, absolute, moment
from recovery.web.sentences import Look, look_of, under_state, why_here

PAGE = 50
COUNTED = 1000
"""Counts stop here and are shown as 1,000+: an exact large number is worth no slow page."""
STALE = timedelta(seconds=60)
"""A reconciler that has not been seen for so long is not feeding this page."""
HELD_BACK = "POSSIBLE_DUPLICATE"
UNRESOLVED = "is:unresolved"
VIEWS = (
    ("All unresolved", UNRESOLVED, None),
    ("Unknown", "is:unresolved effect:unknown", None),
    ("Waiting for a person", "state:escalated", State.ESCALATED),
    ("Blocked", "state:blocked", State.BLOCKED),
    ("Settled", "is:settled", None),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One operation as the list shows it."""

    key: str
    """Its uuid without dashes: the row's element id, and what polling names it by."""
    version: int
    href: str
    look: Look
    under: str
    tool: str
    operation_id: str
    why: str
    opened: SafeString
    due: SafeString | str
    is_late: bool
    next: SafeString | str
    next_under: str
    awaits_signature: bool
    matches: bool = True
    """False: it is still on the screen but has left this view."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tab:
    """A view of the queue, as a link."""

    name: str
    href: str
    current: bool
    count: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What the sentence over the list says, and when it was last true."""

    unresolved: str
    tools: str
    oldest: SafeString | None
    as_of: SafeString
    is_empty: bool
    fed: bool
    last_run: SafeString | None
    """When the reconciler was last seen; None when it never was."""


@require_GET
@seated()
def queue(request: HttpRequest, seat: Seat) -> HttpResponse:
    """The list, filtered and paged by the address alone."""
    text = request.GET.get("q", UNRESOLVED).replace("\x00", "")[:400].strip()
    wrong: FilterInvalid | None = None
    stale_cursor = False
    after: Cursor | None = None
    wanted = Filter()
    try:
        wanted = parse_filter(text)
    except FilterInvalid as error:
        wrong = error
    if given := request.GET.get("after"):
        try:
            after = parse_cursor(given)
        except CursorInvalid:
            stale_cursor = True
    page = None if wrong else operation_page(workspace_id=seat.workspace_id, filter=wanted, limit=PAGE, after=after)
    counts = unsettled_counts(workspace_id=seat.workspace_id, most=COUNTED)
    beats = heartbeats()
    scope = _scope(seat=seat, counts=counts, page=page, beats=beats)
    rows = tuple(_row(item, now=page.as_of) for item in page.items) if page else ()
    context: dict[str, Any] = {
        "seat": seat,
        "scope": scope,
        "rows": rows,
        "tabs": _tabs(text, counts),
        "q": text,
        "is_default": text == UNRESOLVED,
        "wrong": wrong,
        "stale_cursor": stale_cursor,
        "empty": "" if rows or wrong else _empty(scope, text, after),
        "first_page": f"/queue/?{urlencode({'q': text})}" if after else "",
        "next_page": (
            f"/queue/?{urlencode({'q': text, 'after': page.next_cursor})}" if page and page.next_cursor else ""
        ),
        "here": f"/queue/?{urlencode({'q': text})}",
        "live": ""
        if wrong
        else f"/queue/live/?{urlencode({'q': text, **({'after': given} if after and given else {})})}",
    }
    template = "queue.html#list" if request.htmx and not request.htmx.history_restore_request else "queue.html"  # type: ignore[attr-defined]
    return render(request, template, context)


@require_GET
@seated()
def queue_live(request: HttpRequest, seat: Seat) -> HttpResponse:
    """What has changed since the rows on the screen were drawn: those rows anew, and how many wait to be loaded.

    `shown` lists the rows as `<uuid hex>.<version>`. 304 when the answer's ETag is the one given.
    """
    shown = _shown(request.GET.get("shown", ""))
    try:
        wanted = parse_filter(request.GET.get("q", UNRESOLVED).replace("\x00", "")[:400])
        after = parse_cursor(request.GET["after"]) if request.GET.get("after") else None
    except (FilterInvalid, CursorInvalid):
        return HttpResponse("This view cannot be read; open the queue again.", status=400, content_type="text/plain")
    page = operation_page(workspace_id=seat.workspace_id, filter=wanted, limit=PAGE, after=after)
    watched = watched_operations(workspace_id=seat.workspace_id, ids=tuple(shown), filter=wanted)
    counts = unsettled_counts(workspace_id=seat.workspace_id, most=COUNTED)
    beats = heartbeats()
    newer = _newer(page, watched=[one.row for one in watched]) if after is None else ()
    scope = _scope(seat=seat, counts=counts, page=page, beats=beats)
    etag = _etag(
        [f"{one.row.id.hex}.{one.row.version}.{one.matches}" for one in watched],
        [row.id.hex for row in newer],
        [f"{state}={count}" for state, count in sorted(counts.items())],
        [str(scope.fed), scope.tools],
    )
    if request.headers.get("If-None-Match") == etag:
        return HttpResponseNotModified(headers={"ETag": etag})
    changed = tuple(
        _row(one.row, now=page.as_of, matches=one.matches)
        for one in watched
        if shown[one.row.id] != one.row.version or not one.matches
    )
    context = {
        "scope": scope,
        "rows": changed,
        "newer": len(newer),
        "more": len(newer) == PAGE,
        "tabs": _tabs(request.GET.get("q", UNRESOLVED), counts),
    }
    response = render(request, "queue.html#live", context)
    response["ETag"] = etag
    return response


def _scope(*, seat: Seat, counts: dict[State, int], page: OperationPage | None, beats: dict[str, datetime]) -> Scope:
    now = page.as_of if page else database_now()
    total = sum(counts.values())
    capped = any(count >= COUNTED for count in counts.values())
    tools = tools_with_unsettled(workspace_id=seat.workspace_id) if total else 0
    oldest = oldest_unsettled(workspace_id=seat.workspace_id) if total else None
    last = beats.get("reconciler")
    return Scope(
        unresolved=f"{total:,}{'+' if capped else ''}",
        tools=f"{tools} tool" if tools == 1 else f"{tools} tools",
        oldest=moment(at=oldest, now=now, shape=Shape.AGE) if oldest else None,
        as_of=_clock(now),
        is_empty=not total,
        fed=last is not None and now - last <= STALE,
        last_run=moment(at=last, now=now) if last else None,
    )


def _clock(now: datetime) -> SafeString:
    return format_html('<time datetime="{}" title="{}">{}</time>', now.isoformat(), absolute(now), f"{now:%H:%M:%S}")


def _tabs(text: str, counts: dict[State, int]) -> tuple[Tab, ...]:
    total = sum(counts.values())
    written = " ".join(text.split())
    return tuple(
        Tab(
            name=name,
            href=f"/queue/?{urlencode({'q': q})}" if q != UNRESOLVED else "/queue/",
            current=written == q,
            count=_count(total if q == UNRESOLVED else counts.get(state, 0) if state else None),
        )
        for name, q, state in VIEWS
    )


def _count(number: int | None) -> str:
    if number is None:
        return ""
    return f"{COUNTED:,}+" if number >= COUNTED else str(number)


def _row(item: ListedOperation, *, now: datetime, matches: bool = True) -> Row:
    settled = item.state is State.SETTLED
    late = not settled and item.deadline_at <= now
    upcoming, under = _next(item, now=now)
    return Row(
        key=item.id.hex,
        version=item.version,
        href=f"/operations/{item.id}/",
        look=look_of(state=item.state, outcome=item.outcome),
        under=under_state(state=item.state, effect=item.effect, outcome=item.outcome),
        tool=item.tool,
        operation_id=item.operation_id,
        why=why_here(item),
        opened=moment(at=item.created_at, now=now, shape=Shape.AGE),
        due="" if settled else moment(at=item.deadline_at, now=now, shape=Shape.DUE),
        is_late=late,
        next=upcoming,
        next_under=under,
        awaits_signature=item.awaits_signature,
        matches=matches,
    )


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
    return format_html("Looks again {}", when), looks


def _empty(scope: Scope, text: str, after: Cursor | None) -> str:
    if not scope.fed:
        return "not_fed"
    if after is not None:
        return "past_the_end"
    return "nothing" if text == UNRESOLVED else "no_match"


def _newer(page: OperationPage, *, watched: list[ListedOperation]) -> tuple[ListedOperation, ...]:
    """Rows of the page that are not on the screen and belong above its last row; rows that only moved up from the
    next page are not new."""
    known = {row.id for row in watched}
    last = min(((row.created_at, row.id) for row in watched), default=None)
    return tuple(
        item for item in page.items if item.id not in known and (last is None or (item.created_at, item.id) > last)
    )


def _shown(text: str) -> dict[UUID, int]:
    found: dict[UUID, int] = {}
    for piece in text.split(",")[: 2 * PAGE]:
        key, _, version = piece.partition(".")
        if len(key) == 32 and version.isascii() and version.isdigit():
            try:
                found[UUID(key)] = int(version[:9])
            except ValueError:
                continue
    return found


def _etag(*parts: Iterable[str]) -> str:
    written = "|".join(",".join(sorted(part)) for part in parts)
    return f'"{hashlib.sha256(written.encode()).hexdigest()[:24]}"'
