"""What may a person say of an operation, and does it count at once?

| answer          | what it means                                   | counts                                                     |
| --------------- | ----------------------------------------------- | ---------------------------------------------------------- |
| applied         | it happened                                     | at once                                                    |
| not_applied     | it did not happen                               | at once with a natural or a live key guarantee, else after a second person's signature |
| cannot_tell     | nobody knows yet; keep looking                  | at once; changes no effect                                 |
| distinct_intent | another effect is meant than the holder's       | at once; lets this operation be dispatched                 |

A batch that was sent is answered item by item (`item_offer`): applied or not_applied for each item of which nobody
knows; what is known needs no answer. Once no item is open, the batch settles as its items say, in part if need be.

Each needs an evidence link or a reason. A contract may ask for more second signatures, never for fewer.
A person may answer while nobody else acts: not while an attempt is in flight, not once it is settled.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

from ledger.rules.contract import Contract
from ledger.rules.facts import Facts, ItemFacts
from ledger.rules.items import join_items, of_item
from ledger.rules.licences import key_window_ends
from ledger.rules.vocabulary import Effect, Guarantee, State


class Answer(StrEnum):
    """A person's answer to what happened."""

    APPLIED = "applied"
    NOT_APPLIED = "not_applied"
    CANNOT_TELL = "cannot_tell"
    DISTINCT_INTENT = "distinct_intent"


ITEM_ANSWERS: Final = frozenset({Answer.APPLIED, Answer.NOT_APPLIED})


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


def offers(*, facts: Facts, contract: Contract, now: datetime, blocked_by_identity: bool) -> tuple[Offer, ...]:
    """Every answer, each with whether and why not."""
    return tuple(
        _offer(answer, facts=facts, contract=contract, now=now, blocked_by_identity=blocked_by_identity)
        for answer in Answer
    )


def needs_second_person(*, answer: Answer, facts: Facts, contract: Contract, now: datetime) -> bool:
    """Whether the answer counts only with a second person's signature."""
    if answer.value in contract.resolution.second_person_for:
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
    why_not = ""
    if facts.state is State.SETTLED:
        why_not = "It is settled. New evidence would reopen it."
    elif facts.state is State.DISPATCHED:
        why_not = "An attempt is in flight. It ends with a report or a lapse; then you can answer."
    elif answer is Answer.DISTINCT_INTENT and not blocked_by_identity:
        why_not = "No other unsettled operation has this intent."
    elif answer in ITEM_ANSWERS and facts.items and facts.attempts:
        why_not = "A batch is answered item by item."
    elif answer is Answer.APPLIED and not facts.attempts:
        why_not = "Nothing was ever permitted to be sent, so it cannot have happened through this operation."
    elif answer in (Answer.APPLIED, Answer.NOT_APPLIED) and facts.is_read:
        why_not = "A read has no effect."
    elif answer is Answer.CANNOT_TELL and facts.effect in (Effect.NONE, Effect.APPLIED):
        why_not = f"The evidence already says {facts.effect}."
    return Offer(
        answer=answer,
        allowed=not why_not,
        why_not=why_not,
        needs_second_person=needs_second_person(answer=answer, facts=facts, contract=contract, now=now),
    )
