"""What is known of each item of a batch, and may it be sent again by itself?

An item is judged as an operation of its own would be: `of_item` gives its facts, and every rule that is asked about an
operation (join, licence, grade, decision) is asked about the item. What is left to say is how items come together:

| of all items                     | the batch's effect |
| -------------------------------- | ------------------ |
| at least one is unknown          | unknown            |
| else at least one is running     | pending            |
| all are applied                  | applied            |
| none is                          | none               |
| some are, the others are not     | partial            |

And which of them a further request carries (`to_carry`); the first line that holds:

| the operation                                         | the request carries                                      |
| ----------------------------------------------------- | -------------------------------------------------------- |
| was never sent                                        | all items of its revision                                |
| has a new revision that was not sent yet              | that revision's items, if each has a licence             |
| has items that may be sent again in another request   | those, whatever is the matter with the others            |
| has items that may be sent again only in the same one | that same request, if each of its items has that licence |
| has neither                                           | nothing: refused                                         |

A key of the whole request is no item's key: it licenses the same request again, never a part of it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from ledger.rules.contract import Contract
from ledger.rules.evidence import join_effects
from ledger.rules.facts import AttemptFacts, Facts, ItemAttempt, ItemFacts
from ledger.rules.licences import Refusal, may_repeat
from ledger.rules.vocabulary import Action, Effect, EffectKind, Guarantee, Licence, Outcome, Proof, Verification

CHANGES: Final = frozenset({Action.REPAIR, Action.REFRESH, Action.REPLACE})
"""An item with such a decision may go again only changed: as an item of a revision."""
_REPEATS: Final = frozenset({Action.RETRY, Action.RECONCILE, Action.WAIT})
_OPEN: Final = frozenset({Effect.UNKNOWN, Effect.PENDING, Effect.PARTIAL})
_LEAST_CERTAIN_FIRST: Final = tuple(reversed(Licence))


@dataclass(frozen=True, slots=True, kw_only=True)
class Carry:
    """The items of the next request."""

    licences: dict[int, Licence | None]
    """By number, in the batch's order; None where an item is sent for the first time."""
    same_request: bool
    """It is the current revision's request. Otherwise a new revision is made for it."""

    @property
    def licence(self) -> Licence | None:
        """The one word for the whole request: that of the item of which least is certain."""
        found = set(self.licences.values())
        return next((licence for licence in _LEAST_CERTAIN_FIRST if licence in found), None)


def join_items(items: Iterable[ItemFacts]) -> Effect:
    """The batch's effect."""
    return _joined({item.effect for item in items})


def attempt_effect(items: Iterable[ItemFacts], *, number: int) -> tuple[Effect, Proof | None]:
    """What one attempt did, by the items that it carried, and the proof behind it: of `partial`, that of an item that
    it applied."""
    carried = [each for item in items for each in item.attempts if each.attempt == number]
    effect = _joined({each.effect for each in carried})
    shows = Effect.APPLIED if effect is Effect.PARTIAL else effect
    proofs = [each.proof for each in carried if each.effect is shows and each.proof is not None]
    # Of several proofs the one that the owner's own word gave is told.
    return effect, next((proof for proof in proofs if proof is Proof.OWNER_RESULT), proofs[0] if proofs else None)


def of_item(facts: Facts, item: ItemFacts, *, whole_request: bool = True) -> Facts:
    """The item's facts, as those of an operation that was sent with the attempts that carried it. `whole_request`:
    whether the request that carried it may still go again as it was (`may_go_whole`).

    Whether the outcome is as intended is asked of the whole batch, so an item waits for no check of its own.
    """
    carried = {each.attempt: each for each in item.attempts}
    return replace(
        facts,
        kind=EffectKind.WRITE,
        effect=item.effect,
        outcome=item.outcome,
        verification=Verification.VERIFIED,
        attempts=tuple(
            replace(
                attempt,
                effect=carried[attempt.number].effect,
                proof=carried[attempt.number].proof,
                licence=carried[attempt.number].licence,
            )
            for attempt in facts.attempts
            if attempt.number in carried
        ),
        clean_reads=item.clean_reads,
        absence_since=item.absence_since,
        items=(),
        carries=frozenset(),
        whole_request=whole_request,
    )


def may_go_whole(facts: Facts) -> bool:
    """Whether each item of the current revision is as open as the others, so that its request can go again as it was."""
    return all(item.outcome is None and item.effect in _OPEN for item in _current(facts))


def with_attempts(item: ItemFacts, attempts: Sequence[AttemptFacts]) -> ItemFacts:
    """The item once its attempts are known to have done this (`of_item` gave them), its effect joined anew."""
    told = {attempt.number: attempt for attempt in attempts}
    return replace(
        item,
        attempts=tuple(
            replace(each, effect=told[each.attempt].effect, proof=told[each.attempt].proof) for each in item.attempts
        ),
        effect=join_effects(attempts=attempts, absence_since=None, kind=EffectKind.WRITE),
    )


def sent_again(item: ItemFacts, *, attempt: int, licence: Licence | None) -> ItemFacts:
    """The item once an attempt carries it: what it does to it is unknown, and nothing is decided."""
    return replace(
        item,
        effect=Effect.APPLIED if item.effect is Effect.APPLIED else Effect.UNKNOWN,
        attempts=(*item.attempts, ItemAttempt(attempt=attempt, effect=Effect.UNKNOWN, licence=licence)),
        failure_class=None,
        code="",
        licence=None,
        decision=None,
        clean_reads=0,
        absence_since=None,
    )


def licence_of(
    *, item: ItemFacts, facts: Facts, contract: Contract, now: datetime, same_request: bool
) -> Licence | Refusal:
    """The licence under which this item may be carried by a further attempt, or why there is none.

    `same_request`: of the current revision's request. Another request has another key and another payload, but an
    item's own part of it stays what it was.
    """
    if item.outcome is not None:
        return Refusal(code="ITEM_SETTLED", sentence=f"The item {item.key} is settled as {item.outcome}.")
    asked = of_item(facts, item, whole_request=same_request)
    if contract.idempotency.guarantee is Guarantee.NATURAL:
        asked = replace(asked, attempts=tuple(replace(each, digest=facts.payload_digest) for each in asked.attempts))
    return may_repeat(facts=asked, contract=contract, now=now)


def to_carry(*, facts: Facts, contract: Contract, now: datetime) -> Carry | Refusal:
    """The items that the next request may carry, each with its licence; or why it may carry none."""
    if not facts.attempts:
        return Carry(licences={item.number: None for item in _current(facts)}, same_request=True)
    fresh = all(attempt.revision != facts.revision for attempt in facts.attempts)
    if fresh:
        # Its items were changed, so nothing but a proof that nothing happened lets them go.
        changed = next((item for item in _current(facts) if item.effect is not Effect.NONE), None)
        if changed is not None:
            return Refusal(
                code="ITEM_NOT_PROVED_NONE",
                sentence=f"The item {changed.key} is {changed.effect}; it is not sent again.",
            )
        return _all_of(_current(facts), facts=facts, contract=contract, now=now, same_request=False)
    wanted = [item for item in facts.items if _may_go(item, now)]
    licences: dict[int, Licence | None] = {}
    for item in wanted:
        licence = licence_of(item=item, facts=facts, contract=contract, now=now, same_request=False)
        if isinstance(licence, Licence):
            licences[item.number] = licence
    if licences:
        return Carry(licences=licences, same_request=facts.carries == licences.keys())
    current = _current(facts)
    if current and all(item in wanted for item in current):
        return _all_of(current, facts=facts, contract=contract, now=now, same_request=True)
    refused = sum(item.outcome is None and _wants_change(item) for item in facts.items)
    if refused:
        return Refusal(
            code="ITEMS_NEED_CHANGES",
            sentence=f"Nothing may go as it is: {refused:,} of the items were refused and have to be corrected first, "
            "in a revision that carries only such items.",
        )
    return Refusal(
        code="NO_ITEM_LICENSED",
        sentence="No item may be sent again now: each is done, was refused for good, or may have happened.",
    )


def to_recover(items: Iterable[ItemFacts]) -> int:
    """How many items the harness has something to do about: sent again as they are, or changed."""
    return sum(
        item.outcome is None
        and item.decision is not None
        and (item.decision.recovery_action is Action.RETRY or _wants_change(item))
        for item in items
    )


def recoverable_at(items: Iterable[ItemFacts]) -> datetime | None:
    """When the first of them may be sent again; None: now, or none may."""
    moments = [
        item.decision.not_before
        for item in items
        if item.outcome is None and item.decision is not None and item.decision.recovery_action is Action.RETRY
    ]
    known = [moment for moment in moments if moment is not None]
    return min(known) if known and len(known) == len(moments) else None


def to_look_up(facts: Facts) -> tuple[ItemFacts, ...]:
    """The items that the owner can be asked about: sent, open, and not in flight; those that waited longest first."""
    flying = {attempt.number for attempt in facts.attempts if attempt.closed_at is None}
    found = [
        item
        for item in facts.items
        if item.outcome is None
        and (item.effect in _OPEN or _to_compare(item))
        and item.attempts
        and flying.isdisjoint(each.attempt for each in item.attempts)
    ]
    return tuple(sorted(found, key=lambda item: (_looks_at(item) is not None, _looks_at(item) or 0, item.number)))


def looks_next(facts: Facts) -> datetime | None:
    """When the owner is to be asked about an item next; None when there is none to ask about."""
    moments = [moment for item in to_look_up(facts) if (moment := _looks_at(item)) is not None]
    return min(moments, default=None)


def settled(items: Iterable[ItemFacts], *, verification: Verification) -> tuple[ItemFacts, ...]:
    """The items once their operation is settled: each ends as its effect says, what nobody knows is written off.
    `verification` is the whole batch's."""
    return tuple(
        replace(
            item,
            outcome=item.outcome or _OUTCOMES.get(item.effect, Outcome.WRITTEN_OFF),
            verification=verification if item.effect is Effect.APPLIED else Verification.NOT_REQUIRED,
        )
        for item in items
    )


def outcome_of(effect: Effect) -> Outcome | None:
    """How an item, or a whole batch, ends whose effect is this; None while it is open."""
    return Outcome.PARTIALLY_APPLIED if effect is Effect.PARTIAL else _OUTCOMES.get(effect)


_OUTCOMES: Final = {Effect.APPLIED: Outcome.APPLIED, Effect.NONE: Outcome.NOT_APPLIED}


def _joined(effects: set[Effect]) -> Effect:
    if effects <= {Effect.NONE}:
        return Effect.NONE
    if effects == {Effect.APPLIED}:
        return Effect.APPLIED
    if effects == {Effect.APPLIED, Effect.NONE}:
        return Effect.PARTIAL
    # What happened to a part of one item is not accounted for.
    return Effect.UNKNOWN if effects & {Effect.UNKNOWN, Effect.PARTIAL} else Effect.PENDING


def _current(facts: Facts) -> tuple[ItemFacts, ...]:
    return tuple(item for item in facts.items if item.number in facts.carries)


def _may_go(item: ItemFacts, now: datetime) -> bool:
    """Whether the item's own decision lets it be sent again as it is."""
    if item.outcome is not None or item.decision is None or item.decision.recovery_action not in _REPEATS:
        return False
    waits = item.decision.recovery_action is Action.RETRY and item.decision.not_before
    return not waits or now >= waits


def _wants_change(item: ItemFacts) -> bool:
    return item.decision is not None and item.decision.recovery_action in CHANGES


def _all_of(
    items: Sequence[ItemFacts], *, facts: Facts, contract: Contract, now: datetime, same_request: bool
) -> Carry | Refusal:
    licences: dict[int, Licence | None] = {}
    for item in items:
        licence = licence_of(item=item, facts=facts, contract=contract, now=now, same_request=same_request)
        if isinstance(licence, Refusal):
            return licence
        licences[item.number] = licence
    return Carry(licences=licences, same_request=True)


def _to_compare(item: ItemFacts) -> bool:
    """This request had no effect on it, but something of ours may be there already."""
    return item.decision is not None and item.decision.recovery_action is Action.RECONCILE


def _looks_at(item: ItemFacts) -> datetime | None:
    return item.decision.not_before if item.decision is not None else None
