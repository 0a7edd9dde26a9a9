"""The desk beside an operation or a group: who holds it, until when it sleeps, labels, notes, who is looking.

`/operations/<id>/desk/` and `/groups/<tool>/<cause>/desk/` show it; `…/<verb>/` acts. With htmx an act answers with the
fresh strip, without it with a redirect; a lost race is 409 with the fresh strip and who won.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils import timezone
from django.utils.safestring import SafeString
from django.views.decorators.http import require_GET, require_http_methods

from ledger.queries.access import Seat
from ledger.queries.desk import Desk, PersonRow, entry, label_suggestions, people_to_assign, titled, whole_desk
from ledger.rules.desk import LONGEST_LABEL, LONGEST_NOTE, MAY, Subject, Verb, WakesOn, may_act
from ledger.transitions import desk
from ledger.transitions.desk import Acted, Refused, Seen
from ledger.transitions.person import Signer
from recovery.web.access import missing_role, safe_next, seated, see_other
from recovery.web.forms import cleaned, typed_moment
from recovery.web.moments import Shape, moment
from recovery.web.queue_rows import cause_key, told_cause

STRIP = "shared/desk.html#strip"
MORNING = 9
"""The hour at which "tomorrow" and "Monday" begin, in the person's zone."""
NO_CAUSE = "-"
RULES: Mapping[WakesOn, tuple[str, str]] = {
    WakesOn.TIME: ("At that time", ""),
    WakesOn.EVIDENCE: ("Or on new evidence", "on new evidence"),
    WakesOn.OWNER_BACK: ("Or when the owner answers again", "when the owner answers again"),
    WakesOn.STATE_CHANGE: ("Or when its state changes", "when its state changes"),
}
"""What ends a snooze: as the form offers it, and as the strip says it."""
SAID: Mapping[Verb, str] = {
    Verb.CLAIM: "You hold it: for 30 minutes, and longer while you look.",
    Verb.RELEASE: "Released. Anybody can take it.",
    Verb.ASSIGN: "{who} now.",
    Verb.HAND_OVER: "Handed over. {who} now.",
    Verb.SNOOZE: "Asleep. It comes back by itself.",
    Verb.WAKE: "Awake again.",
    Verb.LABEL: "Labelled {label}.",
    Verb.UNLABEL: "Label {label} taken away.",
    Verb.NOTE: "Noted.",
    Verb.SEEN: "It has left your list.",
    Verb.UNDO: "Undone.",
}
AS_IT_WAS = "It is so already. Nothing was changed."


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteLine:
    """A note as the strip shows it."""

    author: str
    text: str
    when: SafeString
    of_group: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What came of an act, over the strip."""

    tone: str
    icon: str
    text: str
    undo: str = ""
    """The address that takes it back; empty where nothing does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeskView:
    """A desk as its strip shows it."""

    key: str
    """Ends the ids of its elements."""
    address: str
    onward: str
    """Where a browser without JavaScript goes on after an act."""
    is_group: bool
    is_settled: bool
    may_act: bool
    may_note: bool
    holder: str
    is_mine: bool
    held_by_group: bool
    held_until: SafeString | str
    snoozed_until: SafeString | str
    snoozed_by_group: bool
    wakes_on: str
    woken: SafeString | str
    labels: tuple[str, ...]
    suggestions: tuple[str, ...]
    notes: tuple[NoteLine, ...]
    looking: str
    """Names; empty: nobody else."""
    lookers: int
    people: tuple[PersonRow, ...]
    me: int
    seen: str
    """What this strip shows, for the act to be compared with."""
    snoozes: tuple[tuple[str, str], ...]
    rules: tuple[tuple[str, str], ...]
    zone: str
    said: Said | None = None
    typed: Mapping[str, str] = field(default_factory=dict)
    """What was typed and not kept, by the field's name."""
    longest_note: int = LONGEST_NOTE
    longest_label: int = LONGEST_LABEL


@require_GET
@seated()
def operation_desk(request: HttpRequest, seat: Seat, id: UUID) -> HttpResponse:
    """The desk of one operation: alone on a page, or its strip for htmx."""
    return _shown(request, seat, Subject(workspace_id=seat.workspace_id, operation=id))


@require_http_methods(["GET", "POST"])
@seated()
def operation_desk_act(request: HttpRequest, seat: Seat, id: UUID, verb: str) -> HttpResponse:
    """One act at the desk of an operation."""
    return _act(request, seat, Subject(workspace_id=seat.workspace_id, operation=id), verb)


@require_GET
@seated()
def group_desk(request: HttpRequest, seat: Seat, tool_id: UUID, key: str) -> HttpResponse:
    """The desk of one group: alone on a page, or its strip for htmx."""
    return _shown(request, seat, _group(seat, tool_id, key))


@require_http_methods(["GET", "POST"])
@seated()
def group_desk_act(request: HttpRequest, seat: Seat, tool_id: UUID, key: str, verb: str) -> HttpResponse:
    """One act at the desk of a group; it shows on all of its operations."""
    return _act(request, seat, _group(seat, tool_id, key), verb)


@require_http_methods(["GET", "POST"])
@seated()
def desk_undo(request: HttpRequest, seat: Seat, entry_id: UUID) -> HttpResponse:
    """Takes an act of the person's own back, while it is fresh and nobody acted since."""
    if request.method == "GET":
        return HttpResponseRedirect("/")
    if not may_act(verb=Verb.UNDO, roles=seat.roles):
        return missing_role(request, seat=seat, roles=tuple(sorted(MAY[Verb.UNDO])))
    try:
        came = desk.undo(workspace_id=seat.workspace_id, entry_id=entry_id, by=signer_of(request))
    except LookupError as error:
        raise Http404 from error
    return _answered(request, seat, _subject_of(seat, entry_id), Verb.UNDO, came)


def desk_view(
    *,
    found: Desk,
    seat: Seat,
    person_id: int,
    subject: Subject,
    onward: str = "",
    said: Said | None = None,
    typed: Mapping[str, str] | None = None,
) -> DeskView:
    """A desk as `templates/shared/desk.html` shows it. Two statements more for those who may act."""
    row, now = found.row, found.now
    acts = may_act(verb=Verb.CLAIM, roles=seat.roles)
    return DeskView(
        key=key_of(subject),
        address=address_of(subject),
        onward=onward or page_of(subject),
        is_group=subject.is_group,
        is_settled=found.is_settled,
        may_act=acts,
        may_note=may_act(verb=Verb.NOTE, roles=seat.roles),
        holder=row.holder_name,
        is_mine=row.holder_id == person_id,
        held_by_group=row.held_by_group,
        held_until=moment(at=row.held_until, now=now, shape=Shape.IN) if row.held_until else "",
        snoozed_until=moment(at=row.snoozed_until, now=now, shape=Shape.IN) if row.snoozed_until else "",
        snoozed_by_group=row.snoozed_by_group,
        wakes_on=RULES[row.wakes_on][1],
        woken=moment(at=row.woken_at, now=now) if row.woken_at else "",
        labels=row.labels,
        suggestions=label_suggestions(workspace_id=seat.workspace_id) if acts and not subject.is_group else (),
        notes=tuple(
            NoteLine(
                author=note.author, text=note.text, when=moment(at=note.at, now=now),
                of_group=note.of_group and not subject.is_group,
            )
            for note in found.notes
        ),
        looking=_names(found.looking),
        lookers=len(found.looking),
        people=people_to_assign(workspace_id=seat.workspace_id) if acts else (),
        me=person_id,
        seen=f"{row.holder_id or ''}|{row.snoozed_until.isoformat() if row.snoozed_until else ''}",
        snoozes=tuple((name, at.isoformat()) for name, at in snoozes(now=now)),
        rules=tuple((rule.value, words) for rule, (words, _) in RULES.items()),
        zone=timezone.get_current_timezone_name(),
        said=said,
        typed=typed or {},
    )  # fmt: skip


def snoozes(*, now: datetime) -> tuple[tuple[str, datetime], ...]:
    """The times that a snooze is offered for, with their words, in the person's zone."""
    local = now.astimezone(timezone.get_current_timezone())
    morning = local.replace(hour=MORNING, minute=0, second=0, microsecond=0)
    tomorrow, monday = morning + timedelta(days=1), morning + timedelta(days=7 - local.weekday())
    return (
        ("1 hour", now + timedelta(hours=1)),
        ("4 hours", now + timedelta(hours=4)),
        (f"Tomorrow {MORNING}:00", tomorrow),
        (f"Monday {MORNING}:00", monday),
    )


def signer_of(request: HttpRequest) -> Signer:
    """The person who acts."""
    return Signer(id=int(request.user.pk or 0), username=request.user.get_username())


def address_of(subject: Subject) -> str:
    """Where a desk is; its verbs stand behind it."""
    if subject.operation is not None:
        return f"/operations/{subject.operation}/desk/"
    return f"/groups/{subject.tool_id}/{cause_key(subject.cause)}/desk/"


def page_of(subject: Subject) -> str:
    """The page to which a desk belongs."""
    return f"/operations/{subject.operation}/" if subject.operation is not None else address_of(subject)


def key_of(subject: Subject) -> str:
    """What the ids of a desk's elements end with."""
    if subject.operation is not None:
        return subject.operation.hex
    return f"{subject.tool_id.hex if subject.tool_id else ''}-{cause_key(subject.cause)}"


def _group(seat: Seat, tool_id: UUID, key: str) -> Subject:
    try:
        cause = "" if key == NO_CAUSE else base64.urlsafe_b64decode(key + "=" * (-len(key) % 4)).decode()
    except (ValueError, binascii.Error) as error:
        raise Http404 from error
    if "\x00" in cause:
        raise Http404
    return Subject(workspace_id=seat.workspace_id, tool_id=tool_id, cause=cause)


def _subject_of(seat: Seat, entry_id: UUID) -> Subject:
    found = entry(workspace_id=seat.workspace_id, id=entry_id)
    if found is None:
        raise Http404
    return found.subject


def _shown(request: HttpRequest, seat: Seat, subject: Subject) -> HttpResponse:
    return _page(request, seat, subject, status=200)


def _act(request: HttpRequest, seat: Seat, subject: Subject, verb: str) -> HttpResponse:
    if verb not in list(Verb) or Verb(verb) not in _ACTS:
        raise Http404
    if request.method == "GET":
        return HttpResponseRedirect(page_of(subject))  # somebody came back here after signing in
    if not may_act(verb=Verb(verb), roles=seat.roles):
        return missing_role(request, seat=seat, roles=tuple(sorted(MAY[Verb(verb)])))
    try:
        came = _ACTS[Verb(verb)](request, subject)
    except LookupError as error:
        raise Http404 from error
    return _answered(request, seat, subject, Verb(verb), came)


def _claim(request: HttpRequest, subject: Subject) -> Acted | Refused:
    return desk.claim(subject=subject, by=signer_of(request))


def _release(request: HttpRequest, subject: Subject) -> Acted | Refused:
    return desk.release(subject=subject, by=signer_of(request))


def _assign(request: HttpRequest, subject: Subject) -> Acted | Refused:
    if request.POST.get("text", "").strip() or not request.POST.get("person"):
        return _hand_over(request, subject)
    return desk.assign(subject=subject, by=signer_of(request), person_id=_person(request) or 0, seen=_seen(request))


def _hand_over(request: HttpRequest, subject: Subject) -> Acted | Refused:
    return desk.hand_over(
        subject=subject, by=signer_of(request), person_id=_person(request), text=_text(request), seen=_seen(request)
    )


def _snooze(request: HttpRequest, subject: Subject) -> Acted | Refused:
    until = typed_moment(request.POST.get("until", "") or request.POST.get("for", ""))
    rule = request.POST.get("wakes_on", "")
    if until is None or rule not in list(WakesOn):
        return Refused(sentence="Choose until when it sleeps at the latest.", lost=False, desk=None)
    return desk.snooze(subject=subject, by=signer_of(request), until=until, wakes_on=WakesOn(rule), seen=_seen(request))


def _wake(request: HttpRequest, subject: Subject) -> Acted | Refused:
    return desk.wake(subject=subject, by=signer_of(request), seen=_seen(request))


def _label(request: HttpRequest, subject: Subject) -> Acted | Refused:
    if subject.is_group:
        return Refused(sentence="A group has no labels. Label its operations.", lost=False, desk=None)
    return desk.label(subject=subject, by=signer_of(request), text=_word(request))


def _unlabel(request: HttpRequest, subject: Subject) -> Acted | Refused:
    if subject.is_group:
        return Refused(sentence="A group has no labels.", lost=False, desk=None)
    return desk.unlabel(subject=subject, by=signer_of(request), text=_word(request))


def _note(request: HttpRequest, subject: Subject) -> Acted | Refused:
    return desk.note(subject=subject, by=signer_of(request), text=_text(request))


def _saw(request: HttpRequest, subject: Subject) -> Acted | Refused:
    return desk.seen(subject=subject, by=signer_of(request))


_ACTS = {
    Verb.CLAIM: _claim,
    Verb.RELEASE: _release,
    Verb.ASSIGN: _assign,
    Verb.HAND_OVER: _hand_over,
    Verb.SNOOZE: _snooze,
    Verb.WAKE: _wake,
    Verb.LABEL: _label,
    Verb.UNLABEL: _unlabel,
    Verb.NOTE: _note,
    Verb.SEEN: _saw,
}


def _answered(request: HttpRequest, seat: Seat, subject: Subject, verb: Verb, came: Acted | Refused) -> HttpResponse:
    if isinstance(came, Refused):
        said = Said(tone="red", icon="bolt" if came.lost else "exclamation-triangle", text=came.sentence)
        status = 409 if came.lost else 422
        typed = {name: cleaned(request.POST.get(name, "")) for name in ("text", "label", "person", "until")}
        return _page(request, seat, subject, status=status, said=said, typed={**typed, "verb": verb.value})
    row = came.desk
    who = "You hold it" if row.holder_id == request.user.pk else f"{row.holder_name or 'Nobody'} holds it"
    text = SAID[verb].format(who=who, label=_word(request)) if came.entry_id else AS_IT_WAS
    undo = f"/desk/undo/{came.entry_id}/" if came.undo_until else ""
    if request.htmx:  # type: ignore[attr-defined]
        said = Said(tone="green", icon="check-circle", text=text, undo=undo)
        response = _page(request, seat, subject, status=200, said=said)
        response["HX-Trigger"] = json.dumps({"desk": {"id": key_of(subject), "said": text, "undo": undo}})
        return response
    messages.success(request, text)
    return see_other(safe_next(request, otherwise=page_of(subject)))


def _page(
    request: HttpRequest,
    seat: Seat,
    subject: Subject,
    *,
    status: int,
    said: Said | None = None,
    typed: Mapping[str, str] | None = None,
) -> HttpResponse:
    person_id = int(request.user.pk or 0)
    found = whole_desk(subject=subject, person_id=person_id)
    if found is None:
        raise Http404
    onward = safe_next(request, otherwise=page_of(subject))
    view = desk_view(
        found=found, seat=seat, person_id=person_id, subject=subject, onward=onward, said=said, typed=typed
    )
    if request.htmx:  # type: ignore[attr-defined]
        return render(request, STRIP, {"desk": view, "seat": seat}, status=status)
    tool, name = titled(subject=subject) or ("", "")
    words, why, said_code = told_cause(subject.cause) if subject.is_group else ("", "", "")
    context: dict[str, Any] = {
        "desk": view,
        "seat": seat,
        "tool": tool,
        "name": words or name,
        "why": why,
        "owner_code": said_code,
        "onward": onward,
    }
    return render(request, "desk.html", context, status=status)


def _names(people: tuple[PersonRow, ...]) -> str:
    names = [person.name for person in people]
    if len(names) > 3:
        return f"{', '.join(names[:3])} and {len(names) - 3} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1] if names else ""]))


def _seen(request: HttpRequest) -> Seen | None:
    given = request.POST.get("seen")
    if given is None:
        return None
    holder, _, until = given.partition("|")
    return Seen(
        holder_id=int(holder) if holder.isascii() and holder.isdigit() and len(holder) < 10 else None,
        snoozed_until=typed_moment(until),
    )


def _person(request: HttpRequest) -> int | None:
    given = request.POST.get("person", "")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 10 else None


def _text(request: HttpRequest) -> str:
    return cleaned(request.POST.get("text", "")).replace("\r\n", "\n").strip()


def _word(request: HttpRequest) -> str:
    return " ".join(cleaned(request.POST.get("label", "")).split())
