"""My work: what waits for me, in the order to do it; what I did last; and handing a shift over."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseNotModified, HttpResponseRedirect
from django.shortcuts import render
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.http import require_GET, require_http_methods

from ledger.queries.access import Seat
from ledger.queries.desk import PersonRow, people_to_assign
from ledger.queries.my_work import Action, HeldGroup, Mention, MyWork, Signature, Woken, my_work
from ledger.rules.desk import LONGEST_NOTE, MAY, Subject, Verb, may_act
from ledger.rules.resolutions import Answer
from ledger.transitions.desk import hand_over_all
from recovery.web.access import DECIDES, missing_role, seated, see_other
from recovery.web.desk import address_of, signer_of
from recovery.web.forms import cleaned
from recovery.web.moments import Shape, clock, moment
from recovery.web.queue_rows import Row, row_of, told_cause
from recovery.web.sentences import ANSWERS

BECAUSE = {
    "time": "Its time has come",
    "evidence": "There is new evidence",
    "owner_back": "The owner answers again",
    "state_change": "Its state changed",
}
DID = {
    Verb.CLAIM.value: ("hand-raised", "Claimed"),
    Verb.RELEASE.value: ("hand-raised", "Released"),
    Verb.ASSIGN.value: ("arrow-right-circle", "Gave to {whom}"),
    Verb.HAND_OVER.value: ("arrow-right-circle", "Handed over to {whom}"),
    Verb.SNOOZE.value: ("moon", "Put to sleep"),
    Verb.WAKE.value: ("sun", "Woke"),
    Verb.LABEL.value: ("tag", "Labelled {label}"),
    Verb.UNLABEL.value: ("tag", "Took the label {label} from"),
    Verb.NOTE.value: ("chat-bubble-left", "Wrote a note on"),
    Verb.UNDO.value: ("arrow-uturn-left", "Took something back on"),
    "view_original": ("eye", "Looked at an original of"),
    "answer": ("check-circle", "Answered “{answer}” on"),
    "bulk": ("queue-list", "Began a job:"),
}
"""Icon and words of what a person did, before what it was done to."""
LATEST = 200
"""Characters of a note or a reason that the page shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One operation or group to do something about."""

    row: Row | None
    """None: a group."""
    title: str
    """Of a group: its tool."""
    why: str
    href: str
    desk_at: str
    """Where its desk's verbs are."""
    lead: str = ""
    """Who said something, before what they said."""
    quoted: str = ""
    when: SafeString | str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """Something that I did."""

    icon: str
    words: str
    what: str
    href: str
    when: SafeString
    undone: bool
    undo: str
    """The address that takes it back; empty when it is no longer offered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """The whole page."""

    words: str
    as_of: SafeString
    breaching: tuple[Line, ...]
    held: tuple[Line, ...]
    woken: tuple[Line, ...]
    mentions: tuple[Line, ...]
    signatures: tuple[Line, ...]
    done: tuple[Done, ...]
    held_count: int
    more_held: int
    nothing: bool
    acts: bool
    notes: bool
    signs: bool
    people: tuple[PersonRow, ...]
    longest_note: int = LONGEST_NOTE
    wrong: str = ""
    typed: str = ""
    to: str = ""


@require_GET
@seated()
def my_work_page(request: HttpRequest, seat: Seat) -> HttpResponse:
    """The page of one's own work."""
    work = _work(request, seat)
    return _shown(request, seat, work, _sheet(request, seat, work))


@require_GET
@seated()
def my_work_live(request: HttpRequest, seat: Seat) -> HttpResponse:
    """The page's moving parts, or 304 while nothing has changed."""
    work = _work(request, seat)
    etag = f'"{work.mark}"'
    if request.headers.get("If-None-Match") == etag:
        return HttpResponseNotModified(headers={"ETag": etag})
    response = _shown(request, seat, work, _sheet(request, seat, work), template="my_work.html#work")
    response["ETag"] = etag
    return response


@require_http_methods(["GET", "POST"])
@seated()
def my_work_hand_over(request: HttpRequest, seat: Seat) -> HttpResponse:
    """Passes everything that the person holds to somebody, or back to the queue, with a note on each."""
    if request.method == "GET":
        return HttpResponseRedirect("/")
    if not may_act(verb=Verb.HAND_OVER, roles=seat.roles):
        return missing_role(request, seat=seat, roles=tuple(sorted(MAY[Verb.HAND_OVER])))
    text = cleaned(request.POST.get("text", "")).replace("\r\n", "\n").strip()
    to = request.POST.get("person", "")
    person_id = int(to) if to.isascii() and to.isdigit() and len(to) < 10 else None
    came: int | str = "Choose who gets it, or the queue."
    if person_id is not None or to == "queue":
        came = hand_over_all(workspace_id=seat.workspace_id, by=signer_of(request), person_id=person_id, text=text)
    if isinstance(came, str):
        work = _work(request, seat)
        sheet = replace(_sheet(request, seat, work), wrong=came, typed=text, to=to)
        return _shown(request, seat, work, sheet, status=422)
    messages.success(request, "You held nothing." if not came else f"Handed over: {_count(came, 'piece')} of work.")
    return see_other("/")


def _work(request: HttpRequest, seat: Seat) -> MyWork:
    return my_work(
        workspace_id=seat.workspace_id,
        person_id=int(request.user.pk or 0),
        username=request.user.get_username(),
        signs=bool(seat.roles & DECIDES),
    )


def _shown(
    request: HttpRequest, seat: Seat, work: MyWork, sheet: Sheet, *, template: str = "my_work.html", status: int = 200
) -> HttpResponse:
    context = {"seat": seat, "section": "my_work", "work": sheet, "mark": work.mark}
    return render(request, template, context, status=status)


def _sheet(request: HttpRequest, seat: Seat, work: MyWork) -> Sheet:
    me, now = int(request.user.pk or 0), work.as_of
    acts = may_act(verb=Verb.CLAIM, roles=seat.roles)
    rows = {id: row_of(item, now=now, me=me) for id, item in work.operations.items()}
    lines = {
        id: Line(row=row, title=row.tool, why=row.why, href=row.href, desk_at=f"{row.href}desk/")
        for id, row in rows.items()
    }
    held = (
        *(_held_group_line(seat, group, work) for group in work.held_groups),
        *(lines[item.id] for item in work.held),
    )
    sheet = Sheet(
        words="",
        as_of=clock(now),
        breaching=tuple(lines[item.id] for item in work.breaching),
        held=held,
        woken=tuple(_woken_line(seat, one, lines, work) for one in work.woken),
        mentions=tuple(_mention_line(seat, one, lines, work) for one in work.mentions),
        signatures=tuple(_signature_line(one, lines, work) for one in work.signatures if one.operation in lines),
        done=tuple(_done(one, work) for one in work.actions),
        held_count=work.held_count + len(work.held_groups),
        more_held=max(work.held_count - len(work.held), 0),
        nothing=False,
        acts=acts,
        notes=may_act(verb=Verb.NOTE, roles=seat.roles),
        signs=bool(seat.roles & DECIDES),
        people=tuple(one for one in people_to_assign(workspace_id=seat.workspace_id) if one.id != me) if held else (),
    )
    parts = [
        words
        for count, words in (
            (len(sheet.breaching), f"{len(sheet.breaching)} to answer within the hour or late"),
            (sheet.held_count, f"{sheet.held_count:,} held by you"),
            (len(sheet.woken), f"{len(sheet.woken)} woke up"),
            (len(sheet.mentions), _count(len(sheet.mentions), "mention")),
            (len(sheet.signatures), _count(len(sheet.signatures), "signature") + " asked for"),
        )
        if count
    ]
    return replace(sheet, words=", ".join(parts), nothing=not parts)


def _group_line(seat: Seat, *, tool_id: UUID | None, tool: str, cause: str, more: str = "") -> Line:
    name, why, _ = told_cause(cause)
    subject = Subject(workspace_id=seat.workspace_id, tool_id=tool_id, cause=cause)
    at = address_of(subject)
    return Line(row=None, title=tool, why=" · ".join(filter(None, (name, more or why))), href=at, desk_at=at)


def _line_of(seat: Seat, one: Woken | Mention, lines: Mapping[UUID, Line]) -> Line:
    if one.operation is not None and one.operation in lines:
        return lines[one.operation]
    return _group_line(seat, tool_id=one.tool_id, tool=one.tool, cause=one.cause)


def _held_group_line(seat: Seat, group: HeldGroup, work: MyWork) -> Line:
    count = _count(group.count, "operation")
    line = _group_line(seat, tool_id=group.tool_id, tool=group.tool, cause=group.cause, more=count)
    return replace(line, when=format_html("lapses {}", moment(at=group.held_until, now=work.as_of, shape=Shape.IN)))


def _woken_line(seat: Seat, one: Woken, lines: Mapping[UUID, Line], work: MyWork) -> Line:
    line = _line_of(seat, one, lines)
    return replace(line, lead=f"{BECAUSE.get(one.because, BECAUSE['time'])}.", when=moment(at=one.at, now=work.as_of))


def _mention_line(seat: Seat, one: Mention, lines: Mapping[UUID, Line], work: MyWork) -> Line:
    line = _line_of(seat, one, lines)
    return replace(line, lead=one.author, quoted=_cut(one.text), when=moment(at=one.at, now=work.as_of))


def _signature_line(one: Signature, lines: Mapping[UUID, Line], work: MyWork) -> Line:
    name = ANSWERS[Answer(one.answer)].name if one.answer in list(Answer) else one.answer.replace("_", " ")
    return replace(
        lines[one.operation],
        lead=f"{one.author} said: {name.lower()}",
        quoted=_cut(one.reason),
        when=moment(at=one.at, now=work.as_of),
    )


def _done(one: Action, work: MyWork) -> Done:
    icon, words = DID.get(one.verb, ("queue-list", f"{one.verb.replace('_', ' ').capitalize()}:"))
    answer = str(one.said.get("answer", ""))
    said = ANSWERS[Answer(answer)].name if answer in list(Answer) else answer.replace("_", " ")
    whom = one.whom or "the queue"
    written = words.format(whom=whom, label=one.said.get("label", ""), answer=said)
    if one.verb == "answer" and one.said.get("signs"):
        written = f"Signed “{said}” on"
    what = one.operation_id
    href = f"/operations/{one.operation}/" if one.operation else ""
    if one.verb == "bulk":
        what = (
            f"{str(one.said.get('verb', '')).replace('_', ' ')}, {_count(int(one.said.get('count', 0)), 'operation')}"
        )
        href = f"/bulk/{one.said.get('job', '')}/"
    if not one.operation and one.tool_id:
        what = f"{one.tool}: {told_cause(one.cause)[0].lower()}"
        href = ""
    return Done(
        icon=icon,
        words=written,
        what=what,
        href=href,
        when=moment(at=one.at, now=work.as_of),
        undone=one.undone,
        undo=f"/desk/undo/{one.id}/" if one.undo else "",
    )


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LATEST else f"{line[:LATEST]}…"
