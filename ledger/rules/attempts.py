"""What is known of one attempt once something more has been said about it?

| held       | said      | then      | why                                                                        |
| ---------- | --------- | --------- | -------------------------------------------------------------------------- |
| applied    | anything  | applied   | a proved effect is not unsaid by a later refusal; the contradiction is kept as evidence |
| none       | applied   | applied   | a late receipt outranks a proof of absence; the operation reopens          |
| none       | the rest  | none      | a proof stands until a stronger one speaks                                 |
| unknown, pending | anything | what was said | the latest word of somebody who may say it                      |
"""

from dataclasses import replace
from datetime import datetime

from ledger.rules.facts import AttemptFacts
from ledger.rules.vocabulary import Effect, FailureClass, Proof

_OPEN = frozenset({Effect.UNKNOWN, Effect.PENDING, Effect.PARTIAL})


def attempt_after(
    attempt: AttemptFacts,
    *,
    effect: Effect,
    proof: Proof | None,
    failure_class: FailureClass | None,
    network_attempts: int,
    now: datetime,
) -> AttemptFacts:
    """The attempt with one more reading. A report after the lapse moves its possible end to the report's time."""
    takes = attempt.effect in _OPEN or effect is Effect.APPLIED
    return replace(
        attempt,
        effect=effect if takes else attempt.effect,
        proof=proof if takes else attempt.proof,
        failure_class=failure_class if takes else attempt.failure_class,
        network_attempts=max(attempt.network_attempts, network_attempts),
        closed_at=attempt.closed_at or now,
        lapses_at=max(attempt.lapses_at, now) if now > attempt.lapses_at else attempt.lapses_at,
    )


def covered(attempts: tuple[AttemptFacts, ...], *, effect: Effect, proof: Proof | None) -> tuple[AttemptFacts, ...]:
    """The attempts once something was said that covers all of them: a lookup by key, a graded absence, a person."""
    return tuple(
        replace(attempt, effect=effect, proof=proof) if attempt.effect in _OPEN else attempt for attempt in attempts
    )
