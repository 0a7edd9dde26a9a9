"""Acting on many operations at once: the preview of a frozen set, the job that carries it out, and what came of each.

`POST /bulk/preview/` freezes what was ticked, or everything that matches the filter, and leads to `/bulk/<id>/`. There a
verb is chosen, its numbers are shown, and `…/begin/` confirms them. The same address then shows the job.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotModified, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.utils import timezone
from django.utils.safestring import SafeString
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from ledger.database import TookTooLong, within
from ledger.queries.access import Seat
from ledger.queries.bulk import (
    PAGE,
    SAMPLES,
    Job,
    MemberRow,
    Preview,
    job_of,
    jobs_beside,
    jobs_of,
    members_of,
    preview_of,
    results_of,
    waiting_for_another,
)
from ledger.queries.desk import PersonRow, label_suggestions, people_to_assign
from ledger.queries.filters import read_filter
from ledger.rules.bulk import ANSWERS, BY_TWO, FIRST, OFFERED, RATES, UNDO_LASTS, Result, Verb, may_act, may_be_undone
from ledger.rules.desk import LONGEST_LABEL, LONGEST_NOTE, WakesOn, why_not_label, why_not_note, why_not_snooze
from ledger.rules.vocabulary import Role
from ledger.transitions import bulk
from ledger.transitions.bulk import NotBegun, Order
from recovery.web.access import DECIDES, missing_role, seated, see_other
from recovery.web.desk import RULES, signer_of, snoozes
from recovery.web.forms import LONGEST_LINK, LONGEST_REASON, cleaned, is_link, typed_moment
from recovery.web.moments import moment
from recovery.web.sentences import ANSWERS as ANSWER_LOOKS
from recovery.web.sentences import Look, look_of, under_state

PATIENCE_MS = 8000
"""So long may one statement of a preview take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerbLook:
    """A verb in words: as it is offered, while it is done, once it was done."""

    name: str
    doing: str
    did: str
    icon: str
    gist: str


def _answer_look(verb: Verb, doing: str, did: str) -> VerbLook:
    look = ANSWER_LOOKS[ANSWERS[verb]]
    return VerbLook(name=look.name, doing=doing, did=did, icon=look.icon, gist=look.gist)


VERBS: Mapping[Verb, VerbLook] = {
    Verb.CLAIM: VerbLook(
        name="Claim", doing="Claiming", did="Claimed", icon="hand-raised", gist="You hold each of them for half an hour."
    ),
    Verb.RELEASE: VerbLook(
        name="Release", doing="Releasing", did="Released", icon="hand-raised", gist="Nobody holds those that you hold."
    ),
    Verb.ASSIGN: VerbLook(
        name="Assign", doing="Assigning", did="Assigned", icon="user-plus", gist="Somebody holds each of them for a shift."
    ),
    Verb.HAND_OVER: VerbLook(
        name="Hand over", doing="Handing over", did="Handed over", icon="arrow-right-circle",
        gist="The same, or back to the queue, with one note on each.",
    ),
    Verb.SNOOZE: VerbLook(
        name="Snooze", doing="Putting to sleep", did="Put to sleep", icon="moon", gist="They leave the queue and come back."
    ),
    Verb.LABEL: VerbLook(
        name="Label", doing="Labelling", did="Labelled", icon="tag", gist="One label on each of them."
    ),
    Verb.NOTE: VerbLook(
        name="Note", doing="Noting on", did="Noted on", icon="chat-bubble-left", gist="One note beside each. A note stays."
    ),
    Verb.LOOK_AGAIN: VerbLook(
        name="Look again", doing="Asking again about", did="Asked again about", icon="arrow-path",
        gist="Each one's owner is asked now, at the owner's own pace.",
    ),
    Verb.APPLIED: _answer_look(Verb.APPLIED, "Recording that it happened for", "Recorded that it happened for"),
    Verb.NOT_APPLIED: _answer_look(
        Verb.NOT_APPLIED, "Recording that it did not happen for", "Recorded that it did not happen for"
    ),
    Verb.WRITTEN_OFF: _answer_look(Verb.WRITTEN_OFF, "Writing off", "Wrote off"),
    Verb.ACCEPT_DUPLICATE_RISK: _answer_look(
        Verb.ACCEPT_DUPLICATE_RISK, "Accepting the risk of a duplicate for", "Accepted the risk of a duplicate for"
    ),
    Verb.UNDO: VerbLook(
        name="Undo", doing="Taking back", did="Took back", icon="arrow-uturn-left", gist="What a job did is undone."
    ),
}  # fmt: skip
RESULTS: Mapping[Result, Look] = {
    Result.DONE: Look(word="Done", icon="check-circle", tone="green"),
    Result.SKIPPED: Look(word="Skipped", icon="forward", tone="gray"),
    Result.FAILED: Look(word="Failed", icon="x-circle", tone="red"),
}
WAITS = Look(word="Not yet", icon="clock", tone="gray")
STATES: Mapping[str, Look] = {
    "running": Look(word="Running", icon="play-circle", tone="blue"),
    "stopped": Look(word="Stopped", icon="pause-circle", tone="amber"),
    "finished": Look(word="Finished", icon="check-circle", tone="green"),
    "waiting": Look(word="Not begun", icon="eye", tone="gray"),
}
SHOWN = {"done": ("done",), "skipped": ("skipped",), "failed": ("failed",), "left": ("",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberView:
    """One member in a list."""

    id: UUID
    tool: str
    operation_id: str
    look: Look
    under: str
    result: Look
    because: str
    left_out: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why members are left out or were skipped, with some of them."""

    sentence: str
    count: str
    look: Look
    samples: tuple[MemberView, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """A job as its page and the drawer show it."""

    id: UUID
    href: str
    title: str
    """`Claiming 142 operations`."""
    icon: str
    look: Look
    person: str
    is_mine: bool
    is_running: bool
    total: int
    taken: int
    counts: tuple[tuple[Look, str], ...]
    left: str
    reason: str
    link: str
    reference: str
    query: str
    began: SafeString
    ended: SafeString | str
    ended_word: str
    first: bool
    """It stopped because the first ones are done."""
    can_stop: bool
    can_go_on: bool
    can_undo: bool
    can_sign: int
    can_repeat: bool
    mark: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedOrder:
    """What was typed into the sheet, and what is wrong with it, by the field's name."""

    values: Mapping[str, str] = field(default_factory=dict)
    wrong: Mapping[str, str] = field(default_factory=dict)


@require_http_methods(["GET", "POST"])
@seated()
def bulk_preview(request: HttpRequest, seat: Seat) -> HttpResponse:
    """Freezes what was ticked (`ids`), or with `all` what matches `q`, and leads to its preview."""
    if request.method == "GET":
        return HttpResponseRedirect("/queue/")  # somebody came back here after signing in
    if not _may_anything(seat):
        return missing_role(request, seat=seat, roles=tuple(sorted(DECIDES)))
    q = " ".join(cleaned(request.POST.get("q", "")).split())
    back = f"/queue/?{urlencode({'q': q})}" if q else "/queue/"
    by = signer_of(request)
    try:
        with within(milliseconds=PATIENCE_MS):
            if request.POST.get("all"):
                wanted, problems = read_filter(q, me=by.id)
                if problems:
                    return _no(request, back, f"Correct {problems[0].word.text} first: {problems[0].sentence}.")
                made = bulk.freeze_filter(workspace_id=seat.workspace_id, by=by, filter=wanted, query=q)
            else:
                ids = _ids(request.POST.getlist("ids"))
                if not ids:
                    return _no(request, back, "Select at least one operation.")
                made = bulk.freeze_ids(workspace_id=seat.workspace_id, by=by, ids=ids)
    except TookTooLong:
        return _no(request, back, "This filter takes too long to look at. Nothing was done; narrow it.")
    if isinstance(made, str):
        return _no(request, back, made)
    verb = request.POST.get("verb", "")
    return see_other(f"/bulk/{made}/?verb={verb}" if verb in OFFERED else f"/bulk/{made}/")


@require_GET
@seated()
def bulk_jobs(request: HttpRequest, seat: Seat) -> HttpResponse:
    """The jobs of the workspace, newest first."""
    me = int(request.user.pk or 0)
    jobs = tuple(_job_view(job, seat=seat, me=me) for job in jobs_of(workspace_id=seat.workspace_id))
    return render(request, "bulk_jobs.html", {"seat": seat, "section": "queue", "jobs": jobs})


@require_GET
@seated()
def bulk_live(request: HttpRequest, seat: Seat) -> HttpResponse:
    """The drawer beside the queue, or 304 when it reads as it did."""
    me = int(request.user.pk or 0)
    found = jobs_beside(workspace_id=seat.workspace_id, person_id=me)
    etag = f'"{"/".join(f"{job.id.hex[-12:]}{job.mark}" for job in found)}"'
    if request.headers.get("If-None-Match") == etag:
        return HttpResponseNotModified(headers={"ETag": etag})
    jobs = tuple(_job_view(job, seat=seat, me=me) for job in found)
    running = sum(job.is_running for job in jobs)
    response = render(request, "bulk_jobs.html#drawer", {"seat": seat, "jobs": jobs, "running": running})
    response["ETag"] = etag
    return response


@require_GET
@seated()
def bulk_job(request: HttpRequest, seat: Seat, id: UUID) -> HttpResponse:
    """A preview that waits to be confirmed, or a job with what came of it."""
    job = _find(seat, id)
    if job.state == "waiting":
        return _sheet(request, seat, job)
    return render(request, "bulk.html", _job_context(request, seat, job))


@require_GET
@seated()
def bulk_job_live(request: HttpRequest, seat: Seat, id: UUID) -> HttpResponse:
    """The moving part of a job's page, or 304 when nothing has moved."""
    job = _find(seat, id)
    etag = f'"{job.mark}"'
    if request.headers.get("If-None-Match") == etag:
        return HttpResponseNotModified(headers={"ETag": etag})
    response = render(request, "bulk.html#job", _job_context(request, seat, job))
    response["ETag"] = etag
    return response


@require_http_methods(["GET", "POST"])
@seated()
def bulk_begin(request: HttpRequest, seat: Seat, id: UUID) -> HttpResponse:
    """Begins what was previewed, if it still is that. A form that is sent twice begins one job."""
    job = _find(seat, id)
    if request.method == "GET" or job.state != "waiting":
        return see_other(f"/bulk/{id}/")
    verb = _verb(request.POST.get("verb", ""))
    if verb is None:
        return _sheet(request, seat, job, typed=TypedOrder(wrong={"verb": "Choose what to do."}), status=422)
    if job.person_id != request.user.pk:
        return _sheet(request, seat, job, status=403)
    if not may_act(verb=verb, roles=seat.roles):
        return missing_role(request, seat=seat, roles=tuple(sorted(DECIDES)))
    order, typed = _order(request.POST, verb, now=job.now, seat=seat)
    digest = _digest(request.POST.get("digest", ""))
    with within(milliseconds=PATIENCE_MS):
        preview = preview_of(job=job, verb=verb, me=job.person_id)
    if preview.digest != digest:
        return _moved(request, seat, job, typed, "Nothing was done: some of these have changed since the preview.")
    count = request.POST.get("count", "").replace(",", "").replace(" ", "")
    if count != str(len(preview.eligible)):
        typed = TypedOrder(
            values=typed.values,
            wrong={**typed.wrong, "count": f"Type {len(preview.eligible)}, the number of operations this acts on."},
        )
    if typed.wrong or order is None:
        return _sheet(request, seat, job, typed=typed, status=422)
    with within(milliseconds=PATIENCE_MS):
        began = bulk.begin(job=job, workspace_id=seat.workspace_id, by=signer_of(request), order=order, digest=digest)
    if isinstance(began, NotBegun):
        return _moved(request, seat, job, typed, began.sentence, anew=not began.frozen_anew)
    return see_other(f"/bulk/{id}/")


@require_POST
@seated()
def bulk_stop(request: HttpRequest, seat: Seat, id: UUID) -> HttpResponse:
    """Stops a job: whoever may do what it does may stop it."""
    job = _steered(request, seat, id)
    if isinstance(job, HttpResponse):
        return job
    if bulk.stop(job_id=id):
        messages.success(request, "Stopped. What is done stays done; nothing else is begun until somebody goes on.")
    return see_other(_onward(request, id))


@require_POST
@seated()
def bulk_go_on(request: HttpRequest, seat: Seat, id: UUID) -> HttpResponse:
    """Goes on with a job that stands: only the person whose decision it is."""
    job = _steered(request, seat, id)
    if isinstance(job, HttpResponse):
        return job
    if job.person_id != request.user.pk:
        return _no(request, f"/bulk/{id}/", f"Only {job.person}, who began it, can go on with it.")
    bulk.go_on(job_id=id)
    return see_other(f"/bulk/{id}/")


@require_POST
@seated()
def bulk_undo(request: HttpRequest, seat: Seat, id: UUID) -> HttpResponse:
    """Takes a whole job back, by another job."""
    job = _steered(request, seat, id)
    if isinstance(job, HttpResponse):
        return job
    made = bulk.undo(job=job, workspace_id=seat.workspace_id, by=signer_of(request))
    return _no(request, f"/bulk/{id}/", made) if isinstance(made, str) else see_other(f"/bulk/{made}/")


@require_POST
@seated()
def bulk_again(request: HttpRequest, seat: Seat, id: UUID) -> HttpResponse:
    """Freezes anew: a preview that waits, or what a job left undone."""
    job = _steered(request, seat, id)
    if isinstance(job, HttpResponse):
        return job
    if job.state == "waiting":
        if job.person_id == request.user.pk:
            bulk.freeze_again(job=job)
        verb = request.POST.get("verb", "")
        return see_other(f"/bulk/{id}/?verb={verb}" if verb in OFFERED else f"/bulk/{id}/")
    made = bulk.freeze_left_over(job=job, workspace_id=seat.workspace_id, by=signer_of(request))
    if isinstance(made, str):
        return _no(request, f"/bulk/{id}/", made)
    return see_other(f"/bulk/{made}/?verb={job.verb.value}" if job.verb in OFFERED else f"/bulk/{made}/")


@require_POST
@seated()
def bulk_sign(request: HttpRequest, seat: Seat, id: UUID) -> HttpResponse:
    """Freezes what waits for a second signature on a job's answer, for another person to preview and sign."""
    job = _steered(request, seat, id)
    if isinstance(job, HttpResponse):
        return job
    made = bulk.freeze_unsigned(job=job, workspace_id=seat.workspace_id, by=signer_of(request))
    return _no(request, f"/bulk/{id}/", made) if isinstance(made, str) else see_other(f"/bulk/{made}/")


def _may_anything(seat: Seat) -> bool:
    return any(may_act(verb=verb, roles=seat.roles) for verb in OFFERED)


def _steered(request: HttpRequest, seat: Seat, id: UUID) -> Job | HttpResponse:
    job = _find(seat, id)
    if not may_act(verb=job.verb or Verb.NOTE, roles=seat.roles):
        return missing_role(request, seat=seat, roles=(Role.ADMIN, Role.OPERATOR))
    return job


def _find(seat: Seat, id: UUID) -> Job:
    job = job_of(workspace_id=seat.workspace_id, id=id)
    if job is None:
        raise Http404
    return job


def _onward(request: HttpRequest, id: UUID) -> str:
    return "/queue/" if request.POST.get("next") == "/queue/" else f"/bulk/{id}/"


def _no(request: HttpRequest, to: str, sentence: str) -> HttpResponse:
    messages.error(request, sentence)
    return see_other(to)


def _moved(
    request: HttpRequest, seat: Seat, job: Job, typed: TypedOrder, sentence: str, *, anew: bool = True
) -> HttpResponse:
    """409: the set as it is now, frozen anew, with what was typed."""
    if anew:
        bulk.freeze_again(job=job)
    kept = TypedOrder(values={name: value for name, value in typed.values.items() if name != "count"})
    return _sheet(request, seat, _find(seat, job.id), typed=kept, lost=sentence, status=409)


def _sheet(
    request: HttpRequest,
    seat: Seat,
    job: Job,
    *,
    typed: TypedOrder | None = None,
    lost: str = "",
    status: int = 200,
) -> HttpResponse:
    verb = _verb(request.POST.get("verb", "") or request.GET.get("verb", "")) or _verb(job.options.get("verb", ""))
    me = int(request.user.pk or 0)
    preview: Preview | None = None
    if verb is not None and may_act(verb=verb, roles=seat.roles):
        with within(milliseconds=PATIENCE_MS):
            preview = preview_of(job=job, verb=verb, me=me)
    context: dict[str, Any] = {
        "seat": seat,
        "section": "queue",
        "job": job,
        "sheet": True,
        "back": f"/queue/?{urlencode({'q': job.query})}" if job.query else "/queue/",
        "frozen": moment(at=job.created_at, now=job.now),
        "verbs": tuple(
            (name, offered)
            for name, answers in (("At the desk", False), ("What happened", True))
            if (offered := _offered(seat, verb, answers=answers))
        ),
        "is_mine": job.person_id == me,
        "lost": lost,
        "typed": (typed or TypedOrder()).values,
        "wrong": (typed or TypedOrder()).wrong,
    }
    if preview is None or verb is None:
        samples = tuple(_member(row) for row in members_of(job_id=job.id, most=SAMPLES))
        return render(
            request, "bulk.html", {**context, "samples": samples, "more": job.total - len(samples)}, status=status
        )
    count = len(preview.eligible)
    samples, reasons = _sampled(job, preview)
    answer = ANSWERS.get(verb)
    context |= {
        "verb": verb.value,
        "look": VERBS[verb],
        "count": count,
        "out": job.total - count,
        "samples": samples,
        "more": count - len(samples),
        "reasons": reasons,
        "moved": preview.moved if answer else 0,
        "digest": preview.digest.hex(),
        "answer": ANSWER_LOOKS[answer] if answer else None,
        "by_two": verb in BY_TWO,
        "signs": sum(member.waits_for is not None for member in preview.eligible),
        "undo": may_be_undone(verb=verb.value),
        "undo_hours": UNDO_LASTS.seconds // 3600,
        "people": people_to_assign(workspace_id=seat.workspace_id) if verb in _TO_SOMEBODY else (),
        "suggestions": label_suggestions(workspace_id=seat.workspace_id) if verb is Verb.LABEL else (),
        "snoozes": tuple((name, at.isoformat()) for name, at in snoozes(now=job.now)),
        "rules": tuple((rule.value, words) for rule, (words, _) in RULES.items()),
        "zone": timezone.get_current_timezone_name(),
        "firsts": tuple(number for number in FIRST if number < count),
        "rates": RATES,
        "longest_note": LONGEST_NOTE,
        "longest_label": LONGEST_LABEL,
    }
    return render(request, "bulk.html", context, status=status)


def _offered(seat: Seat, chosen: Verb | None, *, answers: bool) -> tuple[tuple[Verb, VerbLook, bool], ...]:
    return tuple(
        (verb, VERBS[verb], verb is chosen)
        for verb in OFFERED
        if (verb in ANSWERS) is answers and may_act(verb=verb, roles=seat.roles)
    )


_TO_SOMEBODY = (Verb.ASSIGN, Verb.HAND_OVER)


def _sampled(job: Job, preview: Preview) -> tuple[tuple[MemberView, ...], tuple[Reason, ...]]:
    taken = [member.number for member in preview.eligible[:SAMPLES]]
    out: dict[str, list[int]] = {why: [] for why, _ in preview.reasons}
    for member, why in preview.members:
        if why and len(out[why]) < 3:
            out[why].append(member.number)
    numbers = [*taken, *(number for those in out.values() for number in those)]
    rows = {row.number: row for row in members_of(job_id=job.id, numbers=numbers, most=len(numbers))}
    samples = tuple(_member(rows[number]) for number in taken)
    reasons = tuple(
        Reason(
            sentence=why,
            count=f"{count:,}",
            look=RESULTS[Result.SKIPPED],
            samples=tuple(_member(rows[number]) for number in out[why]),
        )
        for why, count in preview.reasons
    )
    return samples, reasons


def _member(row: MemberRow) -> MemberView:
    return MemberView(
        id=row.id,
        tool=row.tool,
        operation_id=row.operation_id,
        look=look_of(state=row.state, outcome=row.outcome),
        under=under_state(state=row.state, effect=row.effect, outcome=row.outcome),
        result=RESULTS[row.result] if row.result else WAITS,
        because=row.because,
    )


def _job_view(job: Job, *, seat: Seat, me: int) -> JobView:
    verb = job.verb or Verb.NOTE
    look, running = VERBS[verb], job.state == "running"
    acts, mine = may_act(verb=verb, roles=seat.roles), job.person_id == me
    started = job.options.get("started_at")
    words = look.doing if job.state in ("running", "stopped") else look.did
    counts = ((Result.DONE, job.done), (Result.SKIPPED, job.skipped), (Result.FAILED, job.failed))
    stands = job.state == "stopped" and "started_at" in job.options
    return JobView(
        id=job.id,
        href=f"/bulk/{job.id}/",
        title=f"{words} {_operations(job.total - _left_out(job))}",
        icon=look.icon,
        look=STATES[job.state],
        person=job.person,
        is_mine=mine,
        is_running=running,
        total=job.total - _left_out(job),
        taken=job.total - job.left - _left_out(job),
        counts=tuple((RESULTS[result], f"{count:,}") for result, count in counts if count),
        left=f"{job.left:,}" if job.left else "",
        reason=job.reason,
        link=job.evidence_url if is_link(job.evidence_url) else "",
        reference=job.evidence_url,
        query=job.query,
        began=moment(at=datetime.fromisoformat(started) if started else job.created_at, now=job.now),
        ended=moment(at=job.ended_at, now=job.now) if job.ended_at else "",
        ended_word=STATES[job.state].word,
        first=stands and bool(job.options.get("up_to")),
        can_stop=running and acts,
        can_go_on=stands and mine and acts and job.left > 0,
        can_undo=not running
        and mine
        and acts
        and job.done > 0
        and may_be_undone(verb=verb.value)
        and job.ended_at is not None
        and job.now - job.ended_at <= UNDO_LASTS,
        can_sign=0,
        can_repeat=job.state == "finished" and acts and verb in OFFERED and job.done < job.total,
        mark=job.mark,
    )


def _left_out(job: Job) -> int:
    """Members that were left out before the job began."""
    return int(job.options.get("left_out", 0))


def _job_context(request: HttpRequest, seat: Seat, job: Job) -> dict[str, Any]:
    me = int(request.user.pk or 0)
    shown = request.GET.get("show", "")
    after = request.GET.get("after", "")
    behind = int(after) if after.isascii() and after.isdigit() and len(after) < 7 else 0
    rows = members_of(job_id=job.id, results=SHOWN.get(shown), after=behind, most=PAGE + 1)
    view = _job_view(job, seat=seat, me=me)
    unsigned = waiting_for_another(job_id=job.id) if job.verb in ANSWERS and not view.is_running else 0
    query = urlencode({name: value for name, value in (("show", shown), ("after", after)) if value})
    totals = {"": job.total, "done": job.done, "skipped": job.skipped, "failed": job.failed, "left": job.left}
    names = {"": "All", "done": "Done", "skipped": "Skipped", "failed": "Failed", "left": "Not yet"}
    return {
        "seat": seat,
        "section": "queue",
        "back": f"/queue/?{urlencode({'q': job.query})}" if job.query else "/queue/",
        "view": view,
        "unsigned": unsigned,
        "signable": unsigned if not view.is_mine and may_act(verb=job.verb or Verb.NOTE, roles=seat.roles) else 0,
        "rows": tuple(_member(row) for row in rows[:PAGE]),
        "reasons": tuple(
            Reason(sentence=why, count=f"{count:,}", look=RESULTS[result])
            for result, why, count in results_of(job_id=job.id)
            if why
        ),
        "tabs": tuple(
            (names[name], f"?show={name}" if name else "?", name == shown, f"{count:,}")
            for name, count in totals.items()
            if count or name == shown or not name
        ),
        "next_page": f"?{urlencode({'show': shown, 'after': rows[PAGE - 1].number})}" if len(rows) > PAGE else "",
        "first_page": f"?show={shown}" if behind else "",
        "live": f"/bulk/{job.id}/live/{f'?{query}' if query else ''}",
    }


def _operations(count: int) -> str:
    return "1 operation" if count == 1 else f"{count:,} operations"


def _ids(given: list[str]) -> list[UUID]:
    found: dict[UUID, None] = {}
    for text in given:
        try:
            found[UUID(text)] = None
        except ValueError:
            continue
    return list(found)


def _verb(text: str) -> Verb | None:
    return Verb(text) if text in OFFERED else None


def _digest(text: str) -> bytes:
    try:
        return bytes.fromhex(text[:64])
    except ValueError:
        return b""


def _order(post: QueryDict, verb: Verb, *, now: datetime, seat: Seat) -> tuple[Order | None, TypedOrder]:
    """What was typed: an order when all of it can be carried out, and each field with what is wrong with it."""
    names = ("reason", "evidence_url", "person", "text", "label", "until", "for", "wakes_on", "first", "rate", "count")
    values = {name: cleaned(post.get(name, "")).replace("\r\n", "\n").strip() for name in names}
    wrong: dict[str, str] = {}
    options: dict[str, Any] = {}
    if verb in ANSWERS:
        wrong |= _wrong_reason(values["reason"], values["evidence_url"])
    if verb in _TO_SOMEBODY:
        options["person"] = _person(values["person"], people_to_assign(workspace_id=seat.workspace_id))
        if options["person"] is None and (verb is Verb.ASSIGN or values["person"]):
            wrong["person"] = "Choose an operator or an admin of this workspace."
    if verb in (Verb.HAND_OVER, Verb.NOTE):
        options["text"] = values["text"]
        if sentence := why_not_note(values["text"]):
            wrong["text"] = sentence
    if verb is Verb.LABEL:
        options["label"] = " ".join(values["label"].split())
        if sentence := why_not_label(options["label"]):
            wrong["label"] = sentence
    if verb is Verb.SNOOZE:
        until, rule = typed_moment(values["until"] or values["for"]), values["wakes_on"]
        if until is None or rule not in list(WakesOn):
            wrong["until"] = "Choose until when they sleep at the latest."
        elif sentence := why_not_snooze(until=until, now=now):
            wrong["until"] = sentence
        else:
            options |= {"until": until.isoformat(), "wakes_on": rule}
    first = int(values["first"]) if values["first"] in {str(number) for number in FIRST} else None
    rate = int(values["rate"]) if values["rate"] in {str(number) for number in RATES} else 20
    typed = TypedOrder(values=values, wrong=wrong)
    if wrong:
        return None, typed
    reason, link = (values["reason"], values["evidence_url"]) if verb in ANSWERS else ("", "")
    order = Order(verb=verb, reason=reason, evidence_url=link, options=options, first=first, per_second=rate)
    return order, typed


def _wrong_reason(reason: str, link: str) -> dict[str, str]:
    wrong: dict[str, str] = {}
    if not reason:
        wrong["reason"] = "Give the reason that holds for all of them."
    elif len(reason) > LONGEST_REASON:
        wrong["reason"] = f"Keep the reason under {LONGEST_REASON:,} characters. It has {len(reason):,}."
    if link and (len(link) > LONGEST_LINK or not is_link(link)):
        wrong["evidence_url"] = (
            "Write a whole web address, beginning with https:// or http://, without names or passwords."
        )
    return wrong


def _person(text: str, people: tuple[PersonRow, ...]) -> int | None:
    return next((person.id for person in people if str(person.id) == text), None)
