"""One operation: what we know of it and what we don't, what a person may say, and its history in words.

`?tab=` shows another side of it; `?from=` is the filter of the list that the person came from, for going on to its
neighbours and back.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.db import IntegrityError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotModified, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.http import require_GET, require_http_methods

from ledger.database import TookTooLong, within
from ledger.errors import sentence
from ledger.queries.access import Seat
from ledger.queries.desk import Desk, whole_desk
from ledger.queries.facts import Held, held, holder_of
from ledger.queries.filters import read_filter
from ledger.queries.neighbours import neighbours
from ledger.queries.operations import evidence_of, journal_of
from ledger.rules.desk import Subject
from ledger.rules.resolutions import Answer, Offer, item_offer, offers
from ledger.rules.vocabulary import Licence, State
from ledger.transitions.desk import Refused, hand_over, look, snooze
from ledger.transitions.item_answers import attest_items, first_item_answers
from ledger.transitions.person import FirstSignature, Signer, attest, first_signature
from ledger.transitions.schedule import look_again
from recovery.web.access import DECIDES, missing_role, seated
from recovery.web.decide import decide_card
from recovery.web.desk import desk_view
from recovery.web.forms import Later, Typed, cleaned, read_answer, read_later
from recovery.web.items import items_view, read_item_answers
from recovery.web.operation_tabs import address_of, query_of, tab_links, tab_of, tab_view
from recovery.web.operation_view import Notice, lines_of, operation_view
from recovery.web.sentences import ANSWERS, STATES

PATIENCE_MS = 500
"""How long the neighbours in a list may take to find; without them the page is whole."""
LONGEST_FILTER = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class CameFrom:
    """The list that the person came from."""

    back: str
    previous: str
    """Addresses of the neighbours; empty where there is none."""
    next: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An operation of the person's workspace, and what their answer would depend on."""

    held: Held
    offers: tuple[Offer, ...]
    waiting: FirstSignature | None
    holder: str | None


@require_GET
@seated()
def operation(request: HttpRequest, seat: Seat, id: UUID) -> HttpResponse:
    """The page of one operation."""
    found = _find(seat, id)
    _looks(request, seat, id)
    return _page(request, seat, found)


@require_GET
@seated()
def operation_live(request: HttpRequest, seat: Seat, id: UUID) -> HttpResponse:
    """The page's moving parts, or 304 when the operation and its desk still are what the page shows."""
    found = _find(seat, id)
    _looks(request, seat, id)
    etag = f'"{found.held.facts.version}.{_desk(request, seat, id).mark}"'
    if request.headers.get("If-None-Match") == etag:
        return HttpResponseNotModified(headers={"ETag": etag})
    response = _page(request, seat, found, template="operation.html#operation")
    response["ETag"] = etag
    return response


@require_http_methods(["GET", "POST"])
@seated()
def operation_answer(request: HttpRequest, seat: Seat, id: UUID) -> HttpResponse:
    """Records what a person says of the operation, if it still is what they saw."""
    found = _find(seat, id)
    if request.method == "GET":
        return HttpResponseRedirect(f"/operations/{id}/")  # somebody came back here after signing in
    if not seat.roles.intersection(DECIDES):
        return missing_role(request, seat=seat, roles=tuple(sorted(DECIDES)))
    typed = read_answer(request.POST)
    if typed.answer is None:
        return _again(request, seat, found, typed, status=422, text="Choose one of the answers.")
    if typed.version != found.held.facts.version:
        return _lost(request, seat, found, typed)
    offer = next(one for one in found.offers if one.answer is typed.answer)
    if not offer.allowed:
        return _again(request, seat, found, typed, status=409, text=offer.why_not)
    if typed.is_wrong:
        return _again(request, seat, found, typed, status=422, text="Nothing was recorded yet.")
    if typed.answer is Answer.PARTIALLY_APPLIED:
        return _again(request, seat, found, typed, status=422, text="Answer for the items one by one.")
    signer = Signer(id=int(request.user.pk or 0), username=request.user.get_username())
    waiting = found.waiting
    signs = waiting if waiting and waiting.answer is offer.answer and waiting.person_id != signer.id else None
    try:
        version = attest(
            held=found.held,
            signer=signer,
            offer=offer,
            reason=typed.reason,
            evidence_url=typed.evidence_url,
            expected_version=typed.version,
            signs=signs,
        )
    except IntegrityError as error:
        return _again(request, seat, _find(seat, id), typed, status=409, text=sentence(error))
    if version is None:
        return _lost(request, seat, _find(seat, id), typed)
    name = ANSWERS[offer.answer].name
    waits = offer.needs_second_person and signs is None
    text = f"Recorded: {name}." + (" It counts once a second person signs it." if waits else "")
    if offer.answer is Answer.CANNOT_TELL:
        text += _afterwards(seat, id, typed, read_later(request.POST), by=signer)
    return _done(request, seat, id, text)


def _afterwards(seat: Seat, id: UUID, typed: Typed, later: Later, *, by: Signer) -> str:
    """Puts to sleep or hands over what could not be told, and says what came of it. The answer is recorded already."""
    subject = Subject(workspace_id=seat.workspace_id, operation=id)
    said = ""
    if later.sleeps is not None:
        came = snooze(subject=subject, by=by, until=later.sleeps, wakes_on=later.wakes_on)
        said += (
            f" But it was not put to sleep: {came.sentence}" if isinstance(came, Refused) else " It sleeps until then."
        )
    if later.person is not None:
        text = typed.reason or f"Could not tell; see {typed.evidence_url}"
        passed = hand_over(subject=subject, by=by, person_id=later.person, text=text)
        refused = isinstance(passed, Refused)
        said += f" But it was not handed over: {passed.sentence}" if isinstance(passed, Refused) else ""
        said += "" if refused else " It is handed over."
    return said


@require_http_methods(["GET", "POST"])
@seated()
def operation_items(request: HttpRequest, seat: Seat, id: UUID) -> HttpResponse:
    """Records what a person says of single items of a batch, if the operation still is what they saw."""
    found = _find(seat, id)
    if request.method == "GET":
        return HttpResponseRedirect(f"/operations/{id}/")
    if not seat.roles.intersection(DECIDES):
        return missing_role(request, seat=seat, roles=tuple(sorted(DECIDES)))
    typed = read_answer(request.POST)
    answers = read_item_answers(request.POST, held=found.held)
    if typed.version != found.held.facts.version:
        return _lost(request, seat, found, typed)
    offer = item_offer(facts=found.held.facts)
    if not offer.allowed:
        return _again(request, seat, found, typed, status=409, text=offer.why_not, of_items=answers)
    if offer.open and not answers:
        text = "Choose an answer for at least one item."
        return _again(request, seat, found, typed, status=422, text=text, of_items=answers)
    if typed.is_wrong:
        return _again(request, seat, found, typed, status=422, text="Nothing was recorded yet.", of_items=answers)
    signer = Signer(id=int(request.user.pk or 0), username=request.user.get_username())
    waiting = found.waiting
    signs = waiting if waiting is not None and waiting.person_id != signer.id else None
    if signs is not None and first_item_answers(id=id) != answers:
        signs = None  # another answer takes the first one's place, and waits for its own second person
    try:
        version = attest_items(
            held=found.held,
            signer=signer,
            answers=answers,
            reason=typed.reason,
            evidence_url=typed.evidence_url,
            expected_version=typed.version,
            signs=signs,
        )
    except ValueError as error:
        return _again(request, seat, found, typed, status=409, text=str(error), of_items=answers)
    except IntegrityError as error:
        return _again(request, seat, _find(seat, id), typed, status=409, text=sentence(error), of_items=answers)
    if version is None:
        return _lost(request, seat, _find(seat, id), typed)
    fresh = _find(seat, id)
    waits = fresh.held.awaits_signature is not None
    count = f"{len(answers)} item{'s' if len(answers) != 1 else ''}"
    text = f"Recorded for {count}." if answers else "Recorded: it is closed as its items say."
    return _done(request, seat, id, text + (" It counts once a second person signs it." if waits else ""))


@require_http_methods(["GET", "POST"])
@seated()
def operation_look_again(request: HttpRequest, seat: Seat, id: UUID) -> HttpResponse:
    """Has the owner asked now rather than at the next interval."""
    found = _find(seat, id)
    if request.method == "GET":
        return HttpResponseRedirect(f"/operations/{id}/")
    if not seat.roles.intersection(DECIDES):
        return missing_role(request, seat=seat, roles=tuple(sorted(DECIDES)))
    if found.held.facts.state not in (State.RECONCILING, State.WAITING, State.ESCALATED):
        return _done(request, seat, id, "There is nothing to look up in this state.")
    if look_again(held=found.held, actor=f"person:{request.user.get_username()}") is None:
        return _done(request, seat, id, "It changed in the same moment; what you see is the newest.")
    return _done(request, seat, id, "The owner is asked again now.")


def _find(seat: Seat, id: UUID) -> Found:
    one = held(id=id)
    if one is None or one.workspace_id != seat.workspace_id:
        raise Http404
    holder = None
    if one.identity_digest and not one.holds_identity and not one.distinct_intent and one.facts.state is State.OPEN:
        holder = holder_of(
            workspace_id=one.workspace_id, tool_id=one.tool_id, identity_digest=one.identity_digest, besides=one.id
        )
    return Found(
        held=one,
        offers=offers(
            facts=one.facts,
            contract=one.contract,
            now=one.now,
            blocked_by_identity=holder is not None,
            risk_accepted=one.decision.get("licence") == Licence.ACCEPTED_DUPLICATE_RISK.value,
        ),
        waiting=first_signature(id=one.id) if one.awaits_signature else None,
        holder=holder,
    )


def _looks(request: HttpRequest, seat: Seat, id: UUID) -> None:
    look(
        subject=Subject(workspace_id=seat.workspace_id, operation=id),
        person_id=int(request.user.pk or 0),
        acts=bool(seat.roles & DECIDES),
    )


def _desk(request: HttpRequest, seat: Seat, id: UUID) -> Desk:
    found = whole_desk(
        subject=Subject(workspace_id=seat.workspace_id, operation=id), person_id=int(request.user.pk or 0)
    )
    if found is None:
        raise Http404
    return found


def _page(
    request: HttpRequest,
    seat: Seat,
    found: Found,
    *,
    template: str = "operation.html",
    typed: Typed | None = None,
    notice: Notice | None = None,
    status: int = 200,
    of_items: Mapping[str, Answer] | None = None,
) -> HttpResponse:
    one = found.held
    person_id = int(request.user.pk or 0)
    evidence, journal = evidence_of(id=one.id), journal_of(id=one.id)
    items = items_view(
        held=one,
        evidence=evidence,
        seat=seat,
        person_id=person_id,
        waiting=found.waiting,
        typed=typed if of_items is not None else None,
        chosen=of_items or {},
    )
    card = decide_card(
        held=one,
        offers=found.offers,
        evidence=evidence,
        waiting=found.waiting,
        seat=seat,
        person_id=person_id,
        typed=None if of_items is not None and items and items.may_answer else typed,
        holder=found.holder,
    )
    desk = _desk(request, seat, one.id)
    tab, came_from = tab_of(request.GET.get("tab", "")), _came_from(request)
    context = {
        "seat": seat,
        "op": operation_view(held=one, seat=seat, holder=found.holder, evidence=evidence, journal=journal),
        "card": card,
        "items": items,
        "notice": notice,
        "typed": typed,
        "later": read_later(request.POST),
        "mark": f"{one.facts.version}.{desk.mark}",
        "tab": tab.value,
        "tabs": tab_links(id=one.id, tab=tab, came_from=came_from),
        "asked": query_of(tab=tab, came_from=came_from),
        "came_from": _neighbours(seat, one, came_from, me=person_id) if template == "operation.html" else None,
        "desk": desk_view(
            found=desk,
            seat=seat,
            person_id=person_id,
            subject=Subject(workspace_id=seat.workspace_id, operation=one.id),
            onward=address_of(id=one.id, tab=tab, came_from=came_from),
        ),
        **tab_view(tab=tab, held=one, evidence=evidence, journal=journal),
    }
    return render(request, template, context, status=status)


def _came_from(request: HttpRequest) -> str | None:
    """The filter of the list that the person came from; None where the address names none."""
    asked = request.GET.get("from")
    return None if asked is None else " ".join(cleaned(asked).split())[:LONGEST_FILTER]


def _neighbours(seat: Seat, one: Held, came_from: str | None, *, me: int) -> CameFrom | None:
    if came_from is None:
        return None
    back = f"/queue/?{urlencode({'q': came_from})}"
    filter, problems = read_filter(came_from, me=me)
    if problems:
        return CameFrom(back=back, previous="", next="")
    try:
        with within(milliseconds=PATIENCE_MS):
            beside = neighbours(workspace_id=seat.workspace_id, filter=filter, id=one.id, created_at=one.created_at)
    except TookTooLong:
        return CameFrom(back=back, previous="", next="")
    return CameFrom(
        back=back,
        previous=address_of(id=beside.previous, came_from=came_from) if beside.previous else "",
        next=address_of(id=beside.next, came_from=came_from) if beside.next else "",
    )


def _done(request: HttpRequest, seat: Seat, id: UUID, text: str) -> HttpResponse:
    """The fresh fragment for htmx, else a redirect with a message, so that a reload repeats nothing."""
    if request.htmx:  # type: ignore[attr-defined]
        notice = Notice(tone="green", icon="check-circle", title=text, lines=())
        return _page(request, seat, _find(seat, id), template="operation.html#operation", notice=notice)
    messages.success(request, text)
    to = address_of(id=id, tab=tab_of(request.GET.get("tab", "")), came_from=_came_from(request))
    response = HttpResponseRedirect(to)
    response.status_code = 303
    return response


def _again(
    request: HttpRequest,
    seat: Seat,
    found: Found,
    typed: Typed,
    *,
    status: int,
    text: str,
    of_items: Mapping[str, Answer] | None = None,
) -> HttpResponse:
    """The page again with what was typed, saying why nothing was recorded."""
    notice = Notice(tone="red", icon="exclamation-triangle", title=text, lines=())
    template = "operation.html#operation" if request.htmx else "operation.html"  # type: ignore[attr-defined]
    # The version that the person saw no longer matters: what they see now is the newest.
    typed = replace(typed, version=found.held.facts.version)
    return _page(request, seat, found, template=template, typed=typed, notice=notice, status=status, of_items=of_items)


def _lost(request: HttpRequest, seat: Seat, found: Found, typed: Typed) -> HttpResponse:
    """409: the operation moved since the person saw it. Who moved it, what changed, and what they typed."""
    facts = found.held.facts
    since = tuple(row for row in journal_of(id=found.held.id) if row.seq > typed.version)
    notice = Notice(
        tone="red",
        icon="bolt",
        title="Not recorded: this changed while you were writing.",
        lines=lines_of(since, now=found.held.now),
        after=(
            f"It is now {STATES[facts.state].word.lower()}, effect {facts.effect.value}. What you wrote is kept below"
            + ("." if facts.state is State.SETTLED else "; read what is new, then record it again if it still holds.")
        ),
    )
    template = "operation.html#operation" if request.htmx else "operation.html"  # type: ignore[attr-defined]
    return _page(request, seat, found, template=template, typed=typed, notice=notice, status=409)
