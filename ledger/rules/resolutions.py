"""What may a person say of an operation, and does it count at once?

| answer                | what it means                             | counts                                                     |
| --------------------- | ----------------------------------------- | ---------------------------------------------------------- |
| applied               | it happened                               | at once                                                    |
| not_applied           | it did not happen                         | at once with a natural or a live key guarantee, else after a second person's signature |
| partially_applied     | some items happened, others did not       | as its items do (below)                                    |
| cannot_tell           | nobody knows yet; keep looking            | at once; changes no effect                                 |
| written_off           | nobody will know; close it, never repeat it | after a second person's signature, always                |
| accept_duplicate_risk | send it once more though it may have happened | after a second person's signature, always              |
| distinct_intent       | another effect is meant than the holder's | at once; lets this operation be dispatched                 |

A batch that was sent is answered item by item (`item_offer`): applied or not_applied for each item of which nobody
knows; what is known needs no answer. Once no item is open, the batch settles as its items say, in part if need be.

To accept the risk licenses one permit. It is offered only where a permit could follow: the time to send is not over,
no budget is used up, and nothing safer licenses the repeat. What comes to light before that permit ends the licence.

Each needs an evidence link or a reason. A contract may ask for more second signatures, never for fewer.
A person may answer while nobody else acts: not while an attempt is in flight, not once it is settled.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from ledger.rules.contract import Contract
from ledger.rules.facts import Facts, ItemFacts
from ledger.rules.items import join_items, of_item
from ledger.rules.licences import key_window_ends, may_repeat
from ledger.rules.vocabulary import Effect, Guarantee, Licence, State


class Answer(StrEnum):
    """A person's answer to what happened."""

    APPLIED = "applied"
    NOT_APPLIED = "not_applied"
    PARTIALLY_APPLIED = "partially_applied"
    """Said of a batch, item by item."""
    CANNOT_TELL = "cannot_tell"
    WRITTEN_OFF = "written_off"
    ACCEPT_DUPLICATE_RISK = "accept_duplicate_risk"
    DISTINCT_INTENT = "distinct_intent"


TOLD: Final[Mapping[Answer, str]] = MappingProxyType(
    {
        Answer.APPLIED: "An operator established that it happened. Do not send it again.",
        Answer.NOT_APPLIED: "An operator established that it did not happen, and closed it. "
        "Begin a new operation if it is still wanted.",
        Answer.WRITTEN_OFF: "Two operators closed it without learning what happened. It may have happened: never send it "
        "again, and ask a person before you begin anything with the same intent.",
        Answer.ACCEPT_DUPLICATE_RISK: "Two operators accepted the risk that this happens twice. It may be sent once more: "
        "ask for a permit, and send exactly what it names.",
    }
)
"""What the agent is told once the answer counts; the others tell it nothing new."""
TOLD_OF_ITEMS: Final[Mapping[Effect, str]] = MappingProxyType(
    {
        Effect.APPLIED: "An operator established that all items are done. Do not send any of them again.",
        Effect.NONE: "An operator established that no item happened, and closed it. "
        "Begin a new operation if it is still wanted.",
        Effect.PARTIAL: "An operator closed it: some items are done and the others are not. "
        "Begin a new operation for those that are still wanted.",
    }
)
"""Likewise of a batch, once no item is open."""
ITEM_ANSWERS: Final = frozenset({Answer.APPLIED, Answer.NOT_APPLIED})
ALWAYS_BY_TWO: Final = frozenset({Answer.WRITTEN_OFF, Answer.ACCEPT_DUPLICATE_RISK})
_MAY_HAVE_HAPPENED: Final = frozenset({Effect.UNKNOWN, Effect.PENDING})
_SAFER: Final = {
    Licence.NATURAL_IDEMPOTENCY: "the contract says that repeating it changes nothing",
    Licence.KEY_IN_WINDOW: "the owner still knows the key of the first request",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemOffer:
    """Which items of a batch a person may answer for now, and why not when they may not."""

    open: tuple[ItemFacts, ...]
    """Nobody knows of these. With none, the batch can be closed as its items say."""
    why_not: str

    @property
    def allowed(self) -> bool:
        return not self.why_not


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Whether an answer is open to a person now, and why not when it is not."""

    answer: Answer
    allowed: bool
    why_not: str
    needs_second_person: bool


def offers(
    *, facts: Facts, contract: Contract, now: datetime, blocked_by_identity: bool, risk_accepted: bool = False
) -> tuple[Offer, ...]:
    """Every answer, each with whether and why not. `risk_accepted`: two people's licence stands and was not used yet."""
    made = (
        _offer(answer, facts=facts, contract=contract, now=now, blocked_by_identity=blocked_by_identity)
        for answer in Answer
    )
    accepted = "Two people accepted it already. The next permit carries it."
    return tuple(
        replace(offer, allowed=False, why_not=accepted)
        if risk_accepted and offer.answer is Answer.ACCEPT_DUPLICATE_RISK and offer.allowed
        else offer
        for offer in made
    )


def needs_second_person(*, answer: Answer, facts: Facts, contract: Contract, now: datetime) -> bool:
    """Whether the answer counts only with a second person's signature."""
    if answer in ALWAYS_BY_TWO or answer.value in contract.resolution.second_person_for:
        return True
    if answer is not Answer.NOT_APPLIED or facts.is_read or not facts.attempts:
        return False
    guarantee = contract.idempotency.guarantee
    if guarantee is Guarantee.NATURAL:
        return False
    ends = key_window_ends(facts=facts, contract=contract) if guarantee is Guarantee.KEY else None
    return ends is None or now >= ends


def item_offer(*, facts: Facts) -> ItemOffer:
    """The items of a batch that a person may answer for."""
    open_ = tuple(
        item for item in facts.items if item.outcome is None and item.effect not in (Effect.NONE, Effect.APPLIED)
    )
    why_not = ""
    if not facts.items:
        why_not = "It is no batch."
    elif facts.state is State.SETTLED:
        why_not = "It is settled. New evidence would reopen it."
    elif facts.state is State.DISPATCHED:
        why_not = "An attempt is in flight. It ends with a report or a lapse; then you can answer."
    elif not open_ and facts.effect is not Effect.PARTIAL:
        why_not = f"Every item is known already: the batch is {facts.effect}."
    return ItemOffer(open=open_, why_not=why_not)


def items_need_second_person(*, answers: Mapping[str, Answer], facts: Facts, contract: Contract, now: datetime) -> bool:
    """Whether answers for single items, by key, count only with a second person's signature."""
    named = {item.key: item for item in facts.items}
    each = any(
        needs_second_person(answer=answer, facts=of_item(facts, named[key]), contract=contract, now=now)
        for key, answer in answers.items()
    )
    return each or (
        "partially_applied" in contract.resolution.second_person_for
        and answered_effect(answers=answers, facts=facts) is Effect.PARTIAL
    )


def answered_effect(*, answers: Mapping[str, Answer], facts: Facts) -> Effect:
    """The batch's effect with these answers counted in."""
    said = {Answer.APPLIED: Effect.APPLIED, Answer.NOT_APPLIED: Effect.NONE}
    return join_items(
        replace(item, effect=said[answers[item.key]]) if item.key in answers else item for item in facts.items
    )


def _offer(answer: Answer, *, facts: Facts, contract: Contract, now: datetime, blocked_by_identity: bool) -> Offer:
    why_not = _why_nobody_answers(facts) or _why_not(
        answer, facts=facts, contract=contract, now=now, blocked_by_identity=blocked_by_identity
    )
    return Offer(
        answer=answer,
        allowed=not why_not,
        why_not=why_not,
        needs_second_person=needs_second_person(answer=answer, facts=facts, contract=contract, now=now),
    )


def _why_nobody_answers(facts: Facts) -> str:
    if facts.state is State.SETTLED:
        return "It is settled. New evidence would reopen it."
    if facts.state is State.DISPATCHED:
        return "An attempt is in flight. It ends with a report or a lapse; then you can answer."
    return ""


def _why_not(answer: Answer, *, facts: Facts, contract: Contract, now: datetime, blocked_by_identity: bool) -> str:
    if answer is Answer.DISTINCT_INTENT:
        return "" if blocked_by_identity else "No other unsettled operation has this intent."
    if answer is Answer.CANNOT_TELL:
        known = facts.effect in (Effect.NONE, Effect.APPLIED)
        return f"The evidence already says {facts.effect}." if known else ""
    if facts.is_read:
        return "A read has no effect."
    if answer is Answer.PARTIALLY_APPLIED:
        return "It is no batch: all of it happened, or nothing." if not facts.items else item_offer(facts=facts).why_not
    if answer in ITEM_ANSWERS and facts.items and facts.attempts:
        return "A batch is answered item by item."
    if answer is Answer.APPLIED and not facts.attempts:
        return "Nothing was ever permitted to be sent, so it cannot have happened through this operation."
    if answer is Answer.NOT_APPLIED and facts.effect is Effect.APPLIED:
        return "It is proved that it happened. To take it back is another operation."
    if answer in ALWAYS_BY_TWO and facts.effect not in _MAY_HAVE_HAPPENED:
        return _KNOWN[facts.effect]
    if answer is Answer.ACCEPT_DUPLICATE_RISK:
        return _why_no_risk(facts=facts, contract=contract, now=now)
    return ""


_KNOWN: Final = {
    Effect.NONE: "It is known that it did not happen: nothing is in doubt.",
    Effect.APPLIED: "It is known that it happened: nothing is in doubt.",
    Effect.PARTIAL: "It is known what happened to each item: nothing is in doubt.",
}


def _why_no_risk(*, facts: Facts, contract: Contract, now: datetime) -> str:
    if facts.items:
        return "A batch is never sent again as a whole. Answer for its items; a new one can carry what is still wanted."
    licence = may_repeat(facts=facts, contract=contract, now=now)
    if isinstance(licence, Licence):
        return f"No risk has to be accepted: {_SAFER.get(licence, 'a repeat is licensed already')}."
    if facts.deadline_at is not None and now >= facts.deadline_at:
        return "The time in which it could be sent has ended. Begin a new operation, as a distinct intent, if it is wanted."
    for name in ("retries", "network_attempts"):
        budget = facts.budgets.get(name)
        if budget is not None and budget.left <= 0:
            return f"The budget of {budget.limit:g} {name.replace('_', ' ')} is used up: no permit could follow."
    return ""
