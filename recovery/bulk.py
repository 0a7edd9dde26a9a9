"""Carry out a job in bulk: one member after the other, each by the same transition as a single act, each in one
transaction with its result. A worker that dies in the middle of a member leaves it undone, and of no member twice.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import structlog
from django.db import IntegrityError, InterfaceError, OperationalError, transaction

from ledger.errors import sentence
from ledger.queries.bulk import Job, act_of, acted_on_since, offer_of
from ledger.queries.facts import held
from ledger.rules.bulk import ANSWERS, BY_TWO, CHANGED, NOT_ASKED, UNDO_LASTS, Result, Verb
from ledger.rules.desk import Subject, WakesOn
from ledger.transitions import bulk, desk
from ledger.transitions.desk import Acted, Refused
from ledger.transitions.person import Signer, attest, first_signature
from ledger.transitions.schedule import look_again

SLICE = 1.0
"""Seconds that one task works; others of the same process have their turn in between."""
AT_ONCE = 25
"""Members read at a time."""
SO_ALREADY = "It was so already."
log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Came:
    """What came of one member."""

    result: Result
    because: str = ""


class _StoppedError(Exception):
    """The job was stopped while a member was being done: that member is taken back."""


def hand_out_jobs(*, hand_out: Callable[[str], None]) -> int:
    """Hand out each job that runs and that nobody has in hand. Returns how many."""
    ids = bulk.unattended()
    for id in ids:
        hand_out(str(id))
    return len(ids)


def run(*, job_id: UUID, seconds: float = SLICE) -> bool:
    """Work on a job for so long, at its rate. Returns whether it has more to do.

    Does nothing while somebody else has it in hand. The database going away is raised: the hold on the job lapses, and
    the next worker goes on where this one was.
    """
    job = bulk.take(job_id=job_id)
    if job is None:
        return False
    ends = time.monotonic() + seconds
    due = time.monotonic()
    while time.monotonic() < ends:
        members = bulk.left_of(job=job, most=AT_ONCE)
        if not members:
            bulk.end(job=job)
            return False
        for number, operation, seen in members:
            due = max(due, time.monotonic() - 1 / job.per_second)
            if due > ends:
                break
            time.sleep(max(0.0, due - time.monotonic()))
            if not _do(job, number, operation, seen):
                bulk.put_down(job_id=job_id)
                return False
            due += 1 / job.per_second
            if time.monotonic() >= ends:
                break
        else:
            continue
        break
    bulk.put_down(job_id=job_id)
    return True


def _do(job: Job, number: int, operation: UUID, seen: int) -> bool:
    """One member, done and recorded together. False when the job was stopped."""
    try:
        try:
            with transaction.atomic():
                if bulk.locked(job_id=job.id, number=number):
                    _record(job, number, _act(job, operation, seen))
        except IntegrityError as error:
            with transaction.atomic():
                if bulk.locked(job_id=job.id, number=number):
                    _record(job, number, Came(result=Result.FAILED, because=sentence(error)))
        except (_StoppedError, OperationalError, InterfaceError):
            raise
        except Exception:  # one member must not keep the others from their turn
            log.exception("a member of a job failed", job=str(job.id), number=number)
            with transaction.atomic():
                if bulk.locked(job_id=job.id, number=number):
                    words = "Something in Ascertain broke at this one. Nothing of it was changed."
                    _record(job, number, Came(result=Result.FAILED, because=words))
    except _StoppedError:
        return False
    return True


def _record(job: Job, number: int, came: Came) -> None:
    if not bulk.record(job_id=job.id, number=number, result=came.result, because=came.because):
        raise _StoppedError


def _act(job: Job, operation: UUID, seen: int) -> Came:
    verb, by = job.verb, Signer(id=job.person_id, username=job.username)
    if verb is None:
        raise ValueError("A job without a verb does not run.")
    if verb in ANSWERS:
        return _answer(job, verb, by, operation, seen)
    if verb is Verb.LOOK_AGAIN:
        return _look_again(by, operation)
    if verb is Verb.UNDO:
        return _undo(job, by, operation)
    return _at_the_desk(job, verb, by, operation)


def _answer(job: Job, verb: Verb, by: Signer, operation: UUID, seen: int) -> Came:
    one = held(id=operation)
    if one is None or one.facts.version != seen:
        return Came(result=Result.SKIPPED, because=CHANGED)
    offer = offer_of(verb=verb, facts=one.facts, contract=one.contract, now=one.now)
    if not offer.allowed:
        return Came(result=Result.SKIPPED, because=offer.why_not)
    first = first_signature(id=operation) if one.awaits_signature else None
    if first is not None and (first.answer is not offer.answer or first.person_id == by.id):
        return Came(result=Result.SKIPPED, because="It waits for another person's signature already.")
    version = attest(
        held=one,
        signer=by,
        offer=offer,
        reason=job.reason,
        evidence_url=job.evidence_url,
        expected_version=seen,
        signs=first,
    )
    if version is None:
        return Came(result=Result.SKIPPED, because=CHANGED)
    if offer.needs_second_person and first is None:
        return Came(result=Result.DONE, because="It waits for a second person's signature.")
    return Came(result=Result.DONE, because="You signed it; it counts." if verb in BY_TWO else "")


def _look_again(by: Signer, operation: UUID) -> Came:
    for _ in range(3):  # it may be looked at in the same moment
        one = held(id=operation)
        if one is None:
            break
        if look_again(held=one, actor=f"person:{by.username}") is not None:
            return Came(result=Result.DONE)
    return Came(result=Result.SKIPPED, because=NOT_ASKED)


def _undo(job: Job, by: Signer, operation: UUID) -> Came:
    entry = act_of(job_id=UUID(job.options["of"]), operation=operation)
    if entry is None:
        return Came(result=Result.SKIPPED, because="The job had changed nothing there.")
    return _came(desk.undo(workspace_id=job.workspace_id, entry_id=entry, by=by, within=UNDO_LASTS * 2))


def _at_the_desk(job: Job, verb: Verb, by: Signer, operation: UUID) -> Came:
    subject, options = Subject(workspace_id=job.workspace_id, operation=operation), job.options
    person = options.get("person")
    if verb is Verb.CLAIM:
        return _came(desk.claim(subject=subject, by=by))
    if verb is Verb.RELEASE:
        return _came(desk.release(subject=subject, by=by))
    if verb is Verb.LABEL:
        return _came(desk.label(subject=subject, by=by, text=options["label"]))
    if verb is Verb.NOTE:
        return _came(desk.note(subject=subject, by=by, text=options["text"]))
    # What was on the screen is what the job may change: not what somebody did after it was begun.
    if acted_on_since(operation=operation, at=datetime.fromisoformat(options["started_at"])):
        return Came(result=Result.SKIPPED, because=CHANGED)
    if verb is Verb.SNOOZE:
        until = datetime.fromisoformat(options["until"])
        return _came(desk.snooze(subject=subject, by=by, until=until, wakes_on=WakesOn(options["wakes_on"])))
    if verb is Verb.ASSIGN:
        return _came(desk.assign(subject=subject, by=by, person_id=int(person or 0)))
    return _came(desk.hand_over(subject=subject, by=by, person_id=person, text=options["text"]))


def _came(came: Acted | Refused) -> Came:
    if isinstance(came, Refused):
        return Came(result=Result.SKIPPED, because=came.sentence)
    return Came(result=Result.DONE, because="" if came.entry_id else SO_ALREADY)
