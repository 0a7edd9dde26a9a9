"""What is known of one attempt once something more has been said about it?

| held       | said      | then      | why                                                                        |
| ---------- | --------- | --------- | -------------------------------------------------------------------------- |
| applied    | anything  | applied   | a proved effect is not unsaid by a later refusal; the contradiction is kept as evidence |
| none       | applied   | applied   | a late receipt outranks a proof of absence; the operation reopens          |
| none       | the rest  | none      | a proof stands until a stronger one speaks                                 |
| unknown, pending | anything | what was said | the latest word of somebody who may say it                      |

Whose word it is goes first; nothing of the above is asked where it says nothing:

| the word        | of an attempt that           | says                                                         |
| --------------- | ---------------------------- | ------------------------------------------------------------ |
| answer          | any                          | what stands above                                            |
| poll            | has no report yet, is running | likewise: it is the accepted work's own                      |
| poll            | has any other standing       | only that its work is there: whether it is the same is not known |
| found           | any                          | that it is there, never that it is not                       |
| aside           | any                          | nothing: asking failed, found nothing, or asked something else |
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from enum import StrEnum

from ledger.rules.facts import AttemptFacts
from ledger.rules.vocabulary import Effect, FailureClass, Proof

_OPEN = frozenset({Effect.UNKNOWN, Effect.PENDING, Effect.PARTIAL})
_THERE = frozenset({Effect.APPLIED, Effect.PENDING})


class Word(StrEnum):
    """How what was said belongs to the attempt that it was said of."""

    ANSWER = "answer"
    """The request's own answer, or how the answer was lost."""
    POLL = "poll"
    """How far the work is that an earlier request began."""
    FOUND = "found"
    """What the owner holds."""
    ASIDE = "aside"
    """A poll or a lookup that came to nothing, or a check of the outcome."""


def attempt_after(
    attempt: AttemptFacts,
    *,
    effect: Effect,
    proof: Proof | None,
    failure_class: FailureClass | None,
    network_attempts: int,
    now: datetime,
    word: Word = Word.ANSWER,
) -> AttemptFacts:
    """The attempt with one more reading. A report after the lapse moves its possible end to the report's time."""
    takes = (attempt.effect in _OPEN or effect is Effect.APPLIED) and _concerns(attempt, word, effect)
    return replace(
        attempt,
        effect=effect if takes else attempt.effect,
        proof=proof if takes else attempt.proof,
        failure_class=failure_class if takes else attempt.failure_class,
        network_attempts=max(attempt.network_attempts, network_attempts),
        closed_at=attempt.closed_at or now,
        lapses_at=max(attempt.lapses_at, now) if now > attempt.lapses_at else attempt.lapses_at,
    )


def running(attempts: Sequence[AttemptFacts], *, key: str | None) -> tuple[AttemptFacts, ...]:
    """The attempts once the owner has said that a request with this key is running: every unknown one that carried it
    is that request, or waits behind it. One that is in flight will say so itself."""

    def is_it(attempt: AttemptFacts) -> bool:
        open_ = attempt.effect is Effect.UNKNOWN and attempt.closed_at is not None
        return open_ and key is not None and attempt.idempotency_key == key

    return tuple(replace(attempt, effect=Effect.PENDING) if is_it(attempt) else attempt for attempt in attempts)


def stored_for_all(attempts: Sequence[AttemptFacts], *, told: AttemptFacts) -> bool:
    """Whether an answer that the owner keeps under a key is the answer to every attempt that is still open: all of them
    carried that key, with the same payload, as the same principal. They share one execution."""
    return told.idempotency_key is not None and all(
        (attempt.idempotency_key, attempt.digest, attempt.principal)
        == (told.idempotency_key, told.digest, told.principal)
        for attempt in attempts
        if attempt.effect in _OPEN
    )


def covered(attempts: tuple[AttemptFacts, ...], *, effect: Effect, proof: Proof | None) -> tuple[AttemptFacts, ...]:
    """The attempts once something was said that covers all of them: a lookup by key, a graded absence, a person."""
    return tuple(
        replace(attempt, effect=effect, proof=proof) if attempt.effect in _OPEN else attempt for attempt in attempts
    )


def _concerns(attempt: AttemptFacts, word: Word, effect: Effect) -> bool:
    if word is Word.POLL:
        return effect in _THERE or attempt.closed_at is None or attempt.effect is Effect.PENDING
    return word is Word.ANSWER or (word is Word.FOUND and effect in _THERE)
