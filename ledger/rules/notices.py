"""What does an owner's signed notification mean for the operation that it names?

An owner may assert everything of its own effects. What its word comes to depends on when it happened and on what is
known already; `dated` says whether it happened before the newest word that stands (`Known.since`).

| the operation                | the notification says            | dated          | comes to                                        |
| ---------------------------- | -------------------------------- | -------------- | ----------------------------------------------- |
| is a read                    | anything                         | any            | settles nothing: a read has no effect           |
| has items                    | anything                         | any            | settles nothing: each item has its own effect   |
| any                          | nothing that the contract knows  | any            | settles nothing                                 |
| any                          | something else than was meant    | any            | conflict: a person compares                     |
| applied                      | applied                          | any            | confirms                                        |
| applied                      | pending or partial               | any            | out of order: an earlier stage                  |
| applied                      | none                             | before         | out of order: what came later stands            |
| applied                      | none                             | later, undated | contradicts: a person compares                  |
| none, proved                 | none                             | any            | confirms                                        |
| none, proved                 | applied or partial               | any            | contradicts where settled, else counts          |
| none, proved                 | pending                          | before         | out of order                                    |
| none, proved                 | pending                          | later, undated | contradicts where settled, else counts          |
| unknown, pending, partial    | applied                          | any            | counts                                          |
| unknown, pending, partial    | pending, partial or none         | before         | out of order: it undoes nothing newer           |
| unknown, pending, partial    | pending, partial                 | later, undated | counts                                          |
| unknown, pending, partial    | none, of every open attempt      | later, undated | counts                                          |
| unknown, pending, partial    | none, perhaps not of all of them | any            | settles nothing                                 |
| settled as written off       | applied, partial, none, pending  | any            | contradicts: what nobody could tell can be told |
| was never sent by us         | anything                         | any            | settles nothing, and conflict where it says that something is there |

`none` is said of all that we sent only where nothing else can be meant (`reaches`): no attempt is still out, all open ones
carry the one key that it may repeat, each sent one request or the owner makes one effect of a key, and it happened after
the last of them was opened, or there was only one. A proved effect outranks an absence; an absence is no licence to
forget what else was sent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from ledger.rules.facts import AttemptFacts, Facts
from ledger.rules.vocabulary import Effect, Outcome, State

_OPEN: Final = frozenset({Effect.UNKNOWN, Effect.PENDING, Effect.PARTIAL})
_THERE: Final = frozenset({Effect.APPLIED, Effect.PARTIAL, Effect.PENDING})


class Weight(StrEnum):
    """What a notification comes to."""

    COUNTS = "counts"
    """It moves the operation's effect; the next step is decided with it."""
    CONFLICT = "conflict"
    """Something is there that is not what was meant; a person compares."""
    CONTRADICTS = "contradicts"
    """It says otherwise than the outcome; the operation is reopened for a person."""
    CONFIRMS = "confirms"
    """It says what is known; kept as evidence."""
    OUT_OF_ORDER = "out_of_order"
    """It tells of something earlier than what is known; kept as evidence."""
    SETTLES_NOTHING = "settles_nothing"
    """It says nothing of the effect that could be used; kept as evidence."""


STEPS: Final = frozenset({Weight.COUNTS, Weight.CONFLICT, Weight.CONTRADICTS})
"""Those after which a next step is decided; the others are only kept."""


CLAIMS: Final = STEPS | {Weight.CONFIRMS}
"""Those whose evidence says what the effect is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeFacts:
    """What a notification says, as the operation's contract reads it."""

    effect: Effect | None
    """None: no condition of the contract holds."""
    key: str | None = None
    """The idempotency key that it repeats; None when it names the operation alone."""
    event_at: datetime | None = None
    """When the owner says that it happened."""
    differs: tuple[tuple[str, Any, Any], ...] = ()
    """(payload member, intended, found)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The newest word that stands beside the notification."""

    since: datetime | None
    """When the newest evidence for the present effect happened (`ledger.queries.notices.since`)."""
    one_effect_a_key: bool = False
    """The owner guarantees that requests with one key have one effect together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """What a notification comes to, and why in a sentence."""

    weight: Weight
    effect: Effect | None
    """What it says of the effect, where that counts."""
    reason: str


def weigh(*, notice: NoticeFacts, facts: Facts, known: Known) -> Weighed:
    """What the notification comes to for an operation as it stands."""
    said = notice.effect
    if facts.is_read:
        return _kept(Weight.SETTLES_NOTHING, "A read has no effect that could be told of.")
    if facts.items:
        return _kept(
            Weight.SETTLES_NOTHING, "It speaks of a batch as a whole, and each of its items has its own effect."
        )
    if notice.differs:
        return _differs(notice, facts)
    if said is None or said is Effect.UNKNOWN:
        return _kept(Weight.SETTLES_NOTHING, "What it says of the effect is not in the contract.")
    if not facts.attempts:
        return _never_sent(said)
    if facts.outcome is Outcome.WRITTEN_OFF:
        # A person looks, and says it: so `none` needs not reach every attempt, and moves no effect by itself.
        counted = None if said is Effect.NONE else said
        return _contradicts(counted, "It was closed with its effect unknown, and now the owner says what happened.")
    earlier = notice.event_at is not None and known.since is not None and notice.event_at < known.since
    if facts.effect is Effect.APPLIED:
        return _to_applied(said, earlier)
    if facts.effect is Effect.NONE:
        return _to_none(said, earlier, settled=facts.state is State.SETTLED)
    if facts.state is State.SETTLED:  # partially applied
        if said is facts.effect:
            return _kept(Weight.CONFIRMS, "It says what is known already.")
        counted = said if said is Effect.APPLIED else None
        return _contradicts(counted, f"It is settled as {facts.outcome}, and now the owner says {said}.")
    return _to_open(notice, facts, said, earlier, known)


def reaches(*, notice: NoticeFacts, attempts: Sequence[AttemptFacts], one_effect_a_key: bool) -> bool:
    """Whether `none` is said of every request that may have had an effect."""
    open_attempts = [attempt for attempt in attempts if attempt.effect is not Effect.NONE]
    keys = {attempt.idempotency_key for attempt in open_attempts}
    if any(attempt.closed_at is None for attempt in attempts) or len(keys) > 1:
        return False
    if notice.key is not None and keys != {notice.key}:
        return False
    if not one_effect_a_key and any(attempt.network_attempts > 1 for attempt in open_attempts):
        return False
    if len(attempts) == 1:
        return True
    return notice.event_at is not None and all(notice.event_at >= attempt.opened_at for attempt in open_attempts)


def _differs(notice: NoticeFacts, facts: Facts) -> Weighed:
    members = ", ".join(member for member, _, _ in notice.differs)
    if notice.effect not in _THERE:
        return _kept(Weight.SETTLES_NOTHING, f"What it tells of differs from what was meant in {members}.")
    weight = Weight.CONTRADICTS if facts.state is State.SETTLED else Weight.CONFLICT
    reason = f"The owner tells of something that differs from what was meant in {members}. A person must look."
    return Weighed(weight=weight, effect=None, reason=reason)


def _never_sent(said: Effect) -> Weighed:
    if said in _THERE:
        reason = f"The owner says {said}, and nothing was ever permitted to be sent. A person must look."
        return Weighed(weight=Weight.CONFLICT, effect=None, reason=reason)
    return _kept(Weight.SETTLES_NOTHING, "Nothing was sent for this operation yet.")


def _to_applied(said: Effect, earlier: bool) -> Weighed:
    if said is Effect.APPLIED:
        return _kept(Weight.CONFIRMS, "It says what is known already: applied.")
    if said in _THERE:
        return _kept(Weight.OUT_OF_ORDER, f"It says {said}, which is a stage before what is known: applied.")
    if earlier:
        return _kept(Weight.OUT_OF_ORDER, "It says none, and happened before what proved it applied.")
    return _contradicts(None, "It is known as applied, and now the owner says that it did not happen.")


def _to_none(said: Effect, earlier: bool, *, settled: bool) -> Weighed:
    if said is Effect.NONE:
        return _kept(Weight.CONFIRMS, "It says what is known already: none.")
    if said is Effect.PENDING and earlier:
        return _kept(Weight.OUT_OF_ORDER, "It says pending, and happened before what proved it absent.")
    if settled:
        return _contradicts(said, f"It is settled as not applied, and now the owner says {said}.")
    return Weighed(weight=Weight.COUNTS, effect=said, reason=f"The owner says {said}: that outranks an absence.")


def _to_open(notice: NoticeFacts, facts: Facts, said: Effect, earlier: bool, known: Known) -> Weighed:
    if said is Effect.APPLIED:
        return Weighed(weight=Weight.COUNTS, effect=said, reason="The owner's signed notification says applied.")
    if earlier:
        return _kept(Weight.OUT_OF_ORDER, f"It says {said}, and happened before what is known already.")
    if said is Effect.NONE and not reaches(
        notice=notice, attempts=facts.attempts, one_effect_a_key=known.one_effect_a_key
    ):
        return _kept(Weight.SETTLES_NOTHING, "It says none, perhaps not of everything that was sent.")
    return Weighed(weight=Weight.COUNTS, effect=said, reason=f"The owner's signed notification says {said}.")


def _contradicts(said: Effect | None, reason: str) -> Weighed:
    return Weighed(weight=Weight.CONTRADICTS, effect=said, reason=f"{reason} A person must look at both.")


def _kept(weight: Weight, reason: str) -> Weighed:
    return Weighed(weight=weight, effect=None, reason=reason)
