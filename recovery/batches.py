"""What has happened to each item of a batch, and what is each one's next step?

| what came                                  | an item that the attempt carried is read as                          |
| ------------------------------------------ | -------------------------------------------------------------------- |
| an answer that names it                    | what the answer says of it                                           |
| an answer that names others and not it     | unknown: submitted and not accounted for                             |
| an answer that tells no items apart        | what the answer proves of the whole: refused, not sent, or nothing   |
| no answer, or no report                    | unknown                                                              |
| a lookup that the harness made of the whole | unknown: that something is there says nothing of each item          |

Then each item is decided on by the same table as an operation, with its own attempts. Keys that name no item which the
attempt carried are kept as a violation of the contract and say nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from ledger.queries.facts import Held, payloads_of
from ledger.rules.attempts import attempt_after, covered
from ledger.rules.batch_payload import items_in, named_item
from ledger.rules.contract import Contract
from ledger.rules.contract_compiled import CompiledLookup
from ledger.rules.decision import Decision
from ledger.rules.evidence import Grade
from ledger.rules.facts import AttemptFacts, Facts, ItemFacts, LookupFacts
from ledger.rules.items import (
    attempt_effect,
    join_items,
    may_go_whole,
    of_item,
    recoverable_at,
    to_look_up,
    with_attempts,
)
from ledger.rules.vocabulary import Action, Effect, FailureClass, Outcome
from ledger.transitions.item_lookup import ItemAnswer, with_answers
from recovery.judgement.codes import Code
from recovery.judgement.decide import decide, decide_lapse, decide_lookup
from recovery.judgement.reading import ItemReading, Reading
from recovery.owners.base import Reply

SHOWN: Final = 50
"""Keys that a sentence or a piece of evidence lists; there may be thousands."""


ITEMS_A_LOOK: Final = 20
"""So many items are asked about in one look, in one transition."""
LEAST_SECONDS: Final = 1.0
"""With less time left no further item is asked about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemQuestion:
    """What a question about one item needs."""

    item: ItemFacts
    key: str
    payload: Any
    """The whole request's."""
    body: Mapping[str, Any]
    """The item as the payload has it, with its `key`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedItem:
    """What the owner answered about one item, not yet weighed."""

    number: int
    lookup: CompiledLookup
    reply: Reply
    started_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemBodies:
    """A batch's request, and every item as it was last meant."""

    request: Any
    bodies: Mapping[str, Any]

    def of(self, key: str) -> dict[str, Any]:
        return named_item(key, self.bodies.get(key))


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTold:
    """A report on a batch: its items as they then stand, and whether every one that was sent is accounted for."""

    reading: Reading
    """Of the whole attempt, with its effect joined over the items that it carried."""
    items: tuple[ItemFacts, ...]
    effect: Effect
    """Of the whole operation."""
    detail: Mapping[str, Any]


def with_carried_keys(observation: Mapping[str, Any], *, facts: Facts, number: int) -> dict[str, Any]:
    """The observation with the keys that the attempt carried as our own record has them, whatever it says itself."""
    request = observation.get("request")
    told = dict(request) if isinstance(request, Mapping) else {}
    for name in ("ids", "keys", "items", "entries", "records", "requests", "operations", "count", "size"):
        told.pop(name, None)
    return {**observation, "request": {**told, "keys": [item.key for item in _carried(facts, number)]}}


def earlier_attempts(*, facts: Facts, number: int) -> tuple[AttemptFacts, ...]:
    """The attempts before this one, as far as they carried its items: what they did to others is no matter here."""
    carried = _carried(facts, number)
    found = []
    for attempt in facts.attempts:
        if attempt.number < number and any(
            each.attempt == attempt.number for item in carried for each in item.attempts
        ):
            effect, proof = attempt_effect(carried, number=attempt.number)
            found.append(replace(attempt, effect=effect, proof=proof))
    return tuple(found)


def told_by_report(
    *, facts: Facts, number: int, reading: Reading, contract: Contract, now: datetime, roll: float
) -> BatchTold:
    """What a reading says of every item that attempt `number` carried. `facts` are those before it."""
    carried = _carried(facts, number)
    named = _named(reading, carried)
    whole = replace(reading, items=())
    missing = replace(
        whole,
        effect=Effect.UNKNOWN,
        proof=None,
        failure_class=FailureClass.UNKNOWN_OUTCOME,
        code=str(Code.ITEM_NOT_ACCOUNTED_FOR),
        rule=_NOT_NAMED,
        remedy=None,
    )
    said: dict[int, Reading] = {}
    readings: dict[ItemReading, Reading] = {}
    for item in carried:
        told = named.get(item.key)
        if told is None:
            said[item.number] = missing if reading.items or reading.kind == _LOOKUP else whole
        else:
            # Thousands of items are often told alike: each kind is put into words, and judged, once.
            alike = replace(told, key="")
            said[item.number] = readings.get(alike) or readings.setdefault(alike, _as_reading(whole, alike))
    known = [
        _seen(item, said[item.number], facts, number, now) if item.number in said else item for item in facts.items
    ]
    goes_whole = may_go_whole(replace(facts, items=tuple(known)))
    judged: dict[Any, ItemFacts] = {}
    after: list[ItemFacts] = []
    for item in known:
        if item.number not in said:
            after.append(item)
            continue
        kind = (replace(item, number=0, key=""), id(said[item.number]))
        if kind not in judged:
            before = of_item(facts, item, whole_request=goes_whole)
            decision = decide(
                reading=said[item.number],
                facts=replace(before, attempts=_known_attempts(before, item)),
                effect=item.effect,
                contract=contract,
                now=now,
                roll=roll,
            )
            judged[kind] = _decided(item, decision)
        after.append(replace(judged[kind], number=item.number, key=item.key))
    effect, proof = attempt_effect(after, number=number)
    return BatchTold(
        reading=replace(
            reading,
            effect=effect,
            proof=reading.proof if effect is reading.effect and reading.proof is not None else proof,
            violations=(*reading.violations, *_violations(reading, carried)),
        ),
        items=tuple(after),
        effect=join_items(after),
        detail=_account(reading, carried),
    )


def of_the_batch(decision: Decision, *, items: Sequence[ItemFacts]) -> Decision:
    """The operation's decision with the time of its items: the first one that may be sent again says when."""
    if decision.recovery_action is not Action.RECOVER_ITEMS:
        return decision
    licence = next((item.licence for item in items if item.outcome is None and item.licence is not None), None)
    return replace(decision, not_before=recoverable_at(items), licence=licence)


def told_by_lapse(
    *, facts: Facts, number: int, contract: Contract, now: datetime, roll: float
) -> tuple[ItemFacts, ...]:
    """The items once the permit of attempt `number` has ended with no report."""
    carried = {item.number for item in _carried(facts, number)}
    goes_whole = may_go_whole(facts)
    judged: dict[Any, Decision] = {}
    after = []
    for item in facts.items:
        if item.number not in carried or item.outcome is not None:
            after.append(item)
            continue
        alike = replace(item, number=0, key="")
        if alike not in judged:
            judged[alike] = decide_lapse(
                facts=of_item(facts, item, whole_request=goes_whole),
                effect=item.effect,
                contract=contract,
                now=now,
                roll=roll,
            )
        after.append(_decided(item, judged[alike]))
    return tuple(after)


def told_by_lookup(
    *,
    facts: Facts,
    item: ItemFacts,
    grade: Grade,
    lookup: LookupFacts,
    contract: Contract,
    now: datetime,
    roll: float,
) -> ItemFacts:
    """One item once the owner was asked about it."""
    asked = of_item(facts, item, whole_request=may_go_whole(facts))
    attempts = asked.attempts
    if grade.effect is not None:
        attempts = covered(attempts, effect=grade.effect, proof=grade.proof)
    known = replace(with_attempts(item, attempts), clean_reads=grade.clean_reads, absence_since=grade.absence_since)
    decision = decide_lookup(
        grade=grade, lookup=lookup, facts=asked, effect=known.effect, contract=contract, now=now, roll=roll
    )
    return _decided(known, decision)


def item_bodies(held: Held) -> ItemBodies:
    """What was meant, from every revision that is still kept; the latest word on each item counts."""
    payloads = payloads_of(id=held.id)
    bodies: dict[str, Any] = {}
    for payload in payloads.values():
        bodies |= items_in(held.contract, payload)
    return ItemBodies(request=payloads.get(held.facts.revision), bodies=bodies)


def due_items(facts: Facts, *, now: datetime) -> tuple[ItemFacts, ...]:
    """The open items whose time has come; the first of the others where none has."""
    waiting = to_look_up(facts)
    due = tuple(
        item
        for item in waiting
        if item.decision is None or item.decision.not_before is None or item.decision.not_before <= now
    )
    return due or waiting[:1]


def decide_after_items(
    *,
    facts: Facts,
    answers: tuple[ItemAnswer, ...],
    contract: Contract,
    now: datetime,
    roll: float,
    round_over: bool,
) -> Decision:
    """The operation's next step once some of its items were asked about. `facts` are those before.

    One item in conflict keeps nobody from looking up the others: a person is asked when it is the only one left.
    """
    items = with_answers(facts.items, answers)
    going = any(
        item.outcome is None and item.decision is not None and item.decision.recovery_action in _LOOKED_UP
        for item in items
    )
    conflict = any(item.outcome is None and item.code == Code.CONFLICT for item in items)
    worst = next((answer for answer in answers if answer.grade.effect is None), answers[-1])
    polls = facts.budgets.get("polls")
    budgets = dict(facts.budgets)
    if polls is not None and not round_over:
        budgets["polls"] = replace(polls, used=polls.used - 1)  # only a whole round counts as one
    decision = decide_lookup(
        grade=replace(worst.grade, conflict=conflict and not going),
        lookup=worst.lookup,
        facts=replace(facts, items=items, budgets=budgets),
        effect=join_items(items),
        contract=contract,
        now=now,
        roll=roll,
    )
    return of_the_batch(decision, items=items)


_LOOKED_UP: Final = frozenset({Action.RECONCILE, Action.WAIT})


def _seen(item: ItemFacts, said: Reading, facts: Facts, number: int, now: datetime) -> ItemFacts:
    """The item once a reading has spoken of what attempt `number` did to it."""
    attempts = tuple(
        attempt_after(
            attempt,
            effect=said.effect,
            proof=said.proof,
            failure_class=said.failure_class,
            network_attempts=said.network_attempts,
            now=now,
            word=said.word,
        )
        if attempt.number == number
        else attempt
        for attempt in of_item(facts, item).attempts
    )
    return with_attempts(item, attempts)


def _known_attempts(facts: Facts, item: ItemFacts) -> tuple[AttemptFacts, ...]:
    told = {each.attempt: each for each in item.attempts}
    return tuple(
        replace(attempt, effect=told[attempt.number].effect, proof=told[attempt.number].proof)
        for attempt in facts.attempts
    )


def _decided(item: ItemFacts, decision: Decision) -> ItemFacts:
    outcome = item.outcome
    if item.effect is Effect.APPLIED and (outcome is not None or decision.recovery_action is Action.DONE):
        outcome = Outcome.APPLIED  # a late receipt outranks a proof that nothing happened
    elif outcome is None and decision.recovery_action is Action.STOP and item.effect is Effect.NONE:
        outcome = Outcome.NOT_APPLIED
    return replace(
        item,
        outcome=outcome,
        failure_class=decision.failure_class,
        code=decision.code,
        licence=decision.licence,
        decision=decision,
    )


_NOT_NAMED: Final = "item.not_named"
_LOOKUP: Final = "lookup"


def _named(reading: Reading, carried: Sequence[ItemFacts]) -> dict[str, ItemReading]:
    """What the answer itself says of single items that were sent."""
    keys = {item.key for item in carried}
    return {item.key: item for item in reading.items if item.key in keys and item.rule != _NOT_NAMED}


def _carried(facts: Facts, number: int) -> list[ItemFacts]:
    return [item for item in facts.items if any(each.attempt == number for each in item.attempts)]


def _as_reading(whole: Reading, item: ItemReading) -> Reading:
    return replace(
        whole,
        effect=item.effect,
        proof=item.proof,
        failure_class=item.failure_class,
        code=item.code,
        rule=item.rule,
        remedy=item.remedy,
        field=item.field,
        owner_code=item.owner_code,
        hint=None,
        retry_after_ms=item.retry_after_ms if item.retry_after_ms is not None else whole.retry_after_ms,
    )


def _account(reading: Reading, carried: Sequence[ItemFacts]) -> dict[str, Any]:
    """The count check."""
    named = _named(reading, carried)
    missing = [item.key for item in carried if item.key not in named] if reading.items else []
    foreign = _foreign(reading, carried)
    told: dict[str, Any] = {
        "submitted": len(carried),
        "accounted": len(carried) - len(missing) if reading.items else None,
        "unaccounted": missing[:SHOWN],
        "foreign": foreign[:SHOWN],
    }
    return {name: value for name, value in told.items() if value not in (None, [])}


def _violations(reading: Reading, carried: Sequence[ItemFacts]) -> tuple[str, ...]:
    if not reading.items:
        return ()
    found = []
    foreign = _foreign(reading, carried)
    if foreign:
        found.append(f"The answer names {len(foreign):,} items that were not sent with it.")
    accounted = len(_named(reading, carried))
    if accounted < len(carried):
        found.append(f"The answer accounts for {accounted:,} of {len(carried):,} items.")
    return tuple(found)


def _foreign(reading: Reading, carried: Sequence[ItemFacts]) -> list[str]:
    keys = {item.key for item in carried}
    return [item.key for item in reading.items if item.key not in keys and item.key != "*"]
