"""Look at one operation whose time has come: load, ask the owner outside any transaction, weigh, decide, record.

| the operation                                | what is done                                                     |
| -------------------------------------------- | ---------------------------------------------------------------- |
| dispatched, its permit has lapsed            | the attempt is closed; a write's effect stays unknown            |
| waiting before a licensed repeat             | it is opened again for the harness; or sent, where the contract  |
|                                              | lets Ascertain send (sending.py)                                 |
| reconciling, pending or escalated            | the owner is asked; its answer is graded and recorded            |
| a batch with items that are open and landed  | each is asked about by itself, some at a time                    |
| verifying; or escalated, done and unchecked  | the outcome is compared with what was intended                   |
| open or blocked, and the deadline has passed | what is known settles it; what is not goes to a person           |
| to be asked for, and its owner is not asked  | put back, unspent; its deadline still ends with a person         |
| now (asking.py)                              |                                                                  |
| anything else, or it moved meanwhile         | nothing; the row's next moment stands                            |

A worker may die between any two of these lines: the claim on the schedule row lapses and the next sweep comes back.
Asking changes nothing at the owner, and what is recorded is conditional on the version that was read.
"""

import random
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

import orjson

from ledger.queries.clock import database_now
from ledger.queries.facts import Held, held, payload_of
from ledger.rules.contract_compiled import CompiledLookup
from ledger.rules.contract_sections import PAGED, LookupBy
from ledger.rules.decision import Decision
from ledger.rules.evidence import Grade, grade_lookup, join_effects
from ledger.rules.facts import LookupFacts
from ledger.rules.items import join_items, of_item, to_look_up
from ledger.rules.lifecycle import ASKED
from ledger.rules.lookup_keys import asks_exactly
from ledger.rules.payload import redact, redact_differences
from ledger.rules.senders import REPEATS, sender_of
from ledger.rules.stored import decision_from
from ledger.rules.vocabulary import Effect, LookupOutcome, Sender, State, Verification
from ledger.transitions.check import Check, record_check
from ledger.transitions.item_lookup import ItemAnswer, record_item_answers
from ledger.transitions.lookup import Answer, effect_with, record_lookup
from ledger.transitions.owners import put_back
from ledger.transitions.passing_of_time import end_by_limit, end_wait, lapse_attempt
from recovery.asking import NotNow, Visit, visiting
from recovery.batches import (
    ITEMS_A_LOOK,
    LEAST_SECONDS,
    AskedItem,
    ItemQuestion,
    decide_after_items,
    due_items,
    item_bodies,
    of_the_batch,
    told_by_lapse,
    told_by_lookup,
)
from recovery.judgement.decide import (
    decide_check,
    decide_lapse,
    decide_limits,
    decide_lookup,
    decide_nobody_to_ask,
)
from recovery.judgement.read import read_observation
from recovery.owners.base import Question, Reach, Reply
from recovery.owners.verify import Inspection
from recovery.sending import Came, replay, send_again

MOST_TRIES = 5


class Done(StrEnum):
    """What a look at an operation came to."""

    LAPSED = "lapsed"
    WOKEN = "woken"
    ASKED = "asked"
    CHECKED = "checked"
    SENT = "sent"
    """Ascertain itself sent a licensed repeat, or a request that was to learn the truth."""
    PUT_BACK = "put_back"
    """The owner is not asked now; nothing was spent."""
    ENDED = "ended"
    NOTHING = "nothing"


_CAME: Final = {
    Came.SENT: Done.SENT,
    Came.HANDED_OVER: Done.WOKEN,
    Came.ENDED: Done.ENDED,
    Came.PUT_BACK: Done.PUT_BACK,
    Came.NOTHING: Done.NOTHING,
}


def reconcile(*, id: UUID, time_left: float, visit: Visit | None = None) -> Done:
    """Do what is due for one operation. `time_left` is how many seconds the owner's answer may take at most; `visit` is a
    place at its owner that the caller holds (none: one is taken for this question)."""
    known = held(id=id)
    if known is None or known.next_check_at is None or known.next_check_at > known.now:
        return Done.NOTHING
    facts = known.facts
    decision = decision_from(known.decision)
    if decision is not None and _is_time_to_repeat(known, decision):
        ended = _end(known)
        return ended if ended is not Done.NOTHING else _repeat(known, decision, time_left=time_left, visit=visit)
    if decision is not None and _waits_to_repeat(known, decision) and not facts.items:
        # Somebody wanted a look; there is nothing to learn, and a wait is never shortened.
        put_back(ids=[known.id], over=timedelta(0), not_before=decision.not_before, past_deadline=True)
        return Done.PUT_BACK
    if facts.items and _looks_at_items(known):
        return _ask_items(known, time_left=time_left, visit=visit)
    if facts.state is State.DISPATCHED:
        return _lapse(known)
    if facts.state in (State.OPEN, State.BLOCKED):
        return _end(known)
    if _to_be_checked(known):
        return _check(known, time_left=time_left, visit=visit)
    if facts.state in ASKED:
        if not known.contract.lookup or not facts.attempts or facts.items:
            return _end(known)
        return _ask(known, time_left=time_left, visit=visit)
    return Done.NOTHING


def _lapse(known: Held) -> Done:
    facts, roll, items = known.facts, _roll(), known.facts.items
    effect = join_effects(attempts=facts.attempts, absence_since=None, kind=facts.kind)
    if items and facts.last_attempt is not None:
        items = told_by_lapse(
            facts=facts, number=facts.last_attempt.number, contract=known.contract, now=known.now, roll=roll
        )
        effect = join_items(items)
    decision = decide_lapse(
        facts=replace(facts, items=items), effect=effect, contract=known.contract, now=known.now, roll=roll
    )
    decision = of_the_batch(decision, items=items)
    return Done.LAPSED if lapse_attempt(held=known, decision=decision, items=items) is not None else Done.NOTHING


def _waits_to_repeat(known: Held, decision: Decision) -> bool:
    return known.facts.state is State.WAITING and decision.recovery_action in REPEATS


def _is_time_to_repeat(known: Held, decision: Decision) -> bool:
    """Whether the wait before a licensed repeat is over."""
    over = decision.not_before is None or known.now >= decision.not_before
    return over and _waits_to_repeat(known, decision)


def _repeat(known: Held, decision: Decision, *, time_left: float, visit: Visit | None) -> Done:
    """Send it, where the contract lets Ascertain send; else the harness may ask for its permit again."""
    if sender_of(facts=known.facts, contract=known.contract, decision=decision) is Sender.HARNESS:
        return Done.WOKEN if end_wait(held=known) is not None else Done.NOTHING
    try:
        with visiting(known, visit=visit) as asks:
            return _CAME[send_again(known=known, visit=asks, time_left=time_left)]
    except NotNow as not_now:
        return _put_back(known, not_now)


def _end(known: Held) -> Done:
    decision = decide_limits(
        facts=known.facts, effect=known.facts.effect, contract=known.contract, now=known.now, roll=_roll()
    )
    if decision is None:
        return Done.NOTHING
    return Done.ENDED if end_by_limit(held=known, decision=decision) is not None else Done.NOTHING


def _put_back(known: Held, not_now: NotNow) -> Done:
    """The owner is not asked now. Limits end all the same; else the operation waits in the schedule and spends nothing."""
    ended = _end(known)
    if ended is not Done.NOTHING:
        return ended
    put_back(ids=[known.id], over=not_now.over, not_before=not_now.until, at_least=not_now.at_least, past_deadline=True)
    return Done.PUT_BACK


def _ask(known: Held, *, time_left: float, visit: Visit | None) -> Done:
    try:
        with visiting(known, visit=visit) as asks:
            learnt = _learnt(known, asks, time_left=time_left)
    except NotNow as not_now:
        return _put_back(known, not_now)
    except NobodyToAsk:
        return _ask_a_person(known)
    if learnt is None:
        return Done.SENT
    known, lookup, reply = learnt
    started_at, at = known.now, database_now()
    for _ in range(MOST_TRIES):
        told = _facts(known, lookup=lookup, reply=reply, started_at=started_at, observed_at=at)
        grade = grade_lookup(lookup=told, rule=lookup.rule, facts=known.facts)
        effect = effect_with(held=known, grade=grade)
        decision = decide_lookup(
            grade=grade,
            lookup=told,
            facts=known.facts,
            effect=effect,
            contract=known.contract,
            now=at,
            roll=_roll(),
        )
        answer = Answer(
            lookup=told,
            grade=grade,
            body=_kept(known, reply.body),
            detail=_detail(known, grade, reply, effect, decision.rule),
            receipt=reply.receipt,
        )
        if record_lookup(held=known, answer=answer, decision=decision, at=at) is not None:
            return Done.ASKED
        # Somebody else moved it while the owner was answering. What was read is still true: weigh it anew, unless
        # the operation is settled or was sent again since; then the next look asks afresh.
        again = held(id=known.id)
        if again is None or again.facts.state not in ASKED:
            return Done.NOTHING
        if len(again.facts.attempts) != len(known.facts.attempts):
            return Done.NOTHING
        known = replace(again, now=known.now)
    return Done.NOTHING


def _ask_a_person(known: Held) -> Done:
    """Nothing is left to ask; the operation leaves the schedule until somebody answers or tells us."""
    facts = known.facts
    decision = decide_nobody_to_ask(
        facts=facts, effect=facts.effect, contract=known.contract, now=known.now, roll=_roll()
    )
    return Done.ENDED if end_by_limit(held=known, decision=decision) is not None else Done.NOTHING


def _looks_at_items(known: Held) -> bool:
    """Whether the owner is asked about single items now, rather than a permit or a deadline ended."""
    facts = known.facts
    if not known.contract.lookup or not to_look_up(facts):
        return False
    if facts.state is State.DISPATCHED:
        return facts.last_attempt is not None and known.now < facts.last_attempt.lapses_at
    late = facts.deadline_at is not None and known.now >= facts.deadline_at
    return facts.state in ASKED or (facts.state is State.OPEN and not late)


def _ask_items(known: Held, *, time_left: float, visit: Visit | None) -> Done:
    """Ask about the open items that are due, some at a time; those that waited longest come first. One that fails ends
    the look: an owner in trouble is not asked about the next one at once."""
    asked: list[AskedItem] = []
    due = due_items(known.facts, now=known.now)
    bodies = item_bodies(known)
    ends = time.monotonic() + time_left
    try:
        with visiting(known, visit=visit) as asks:
            for item in due[:ITEMS_A_LOOK]:
                left = ends - time.monotonic()
                if asked and (left < LEAST_SECONDS or asked[-1].reply.outcome is LookupOutcome.LOOKUP_FAILED):
                    break
                now = replace(known, now=database_now() if asked else known.now)
                of = ItemQuestion(item=item, key=item.key, payload=bodies.request, body=bodies.of(item.key))
                lookup, reply = _answered(now, asks, ways=known.contract.compiled.lookups, time_left=left, of=of)
                asked.append(AskedItem(number=item.number, lookup=lookup, reply=reply, started_at=now.now))
    except NotNow as not_now:
        if not asked:
            return _put_back(known, not_now)
    at, roll = database_now(), _roll()
    failed = asked[-1].reply.outcome is LookupOutcome.LOOKUP_FAILED
    round_over = failed or len(asked) >= len(due)
    for _ in range(MOST_TRIES):
        answers = tuple(_item_answer(known, each, at=at, roll=roll) for each in asked)
        decision = decide_after_items(
            facts=known.facts, answers=answers, contract=known.contract, now=at, roll=roll, round_over=round_over
        )
        # The rest of a round is asked at once, unless the owner is in trouble: then it waits as the failed one does.
        waits_until = answers[-1].item.decision.not_before if failed and answers[-1].item.decision else None
        looks_at = waits_until if failed else None if round_over else at
        recorded = record_item_answers(
            held=known, answers=answers, decision=decision, at=at, round_over=round_over, next_check_at=looks_at
        )
        if recorded is not None:
            return Done.ASKED
        again = held(id=known.id)
        if again is None or len(again.facts.attempts) != len(known.facts.attempts):
            return Done.NOTHING
        if again.facts.state not in (*ASKED, State.OPEN, State.DISPATCHED):
            return Done.NOTHING
        known = replace(again, now=known.now)
    return Done.NOTHING


def _item_answer(known: Held, asked: AskedItem, *, at: datetime, roll: float) -> ItemAnswer:
    facts = known.facts
    item = next(each for each in facts.items if each.number == asked.number)
    lookup = _facts(known, lookup=asked.lookup, reply=asked.reply, started_at=asked.started_at, observed_at=at)
    grade = grade_lookup(lookup=lookup, rule=asked.lookup.rule, facts=of_item(facts, item))
    told = told_by_lookup(
        facts=facts, item=item, grade=grade, lookup=lookup, contract=known.contract, now=at, roll=roll
    )
    rule = told.decision.rule if told.decision is not None else ""
    return ItemAnswer(
        item=told,
        lookup=lookup,
        grade=grade,
        body=_kept(known, asked.reply.body),
        detail=_detail(known, grade, asked.reply, told.effect, rule),
    )


def _to_be_checked(known: Held) -> bool:
    facts = known.facts
    if known.contract.verify is None or facts.verification is Verification.VERIFIED:
        return False
    return facts.state is State.VERIFYING or (facts.state is State.ESCALATED and facts.effect is Effect.APPLIED)


def _check(known: Held, *, time_left: float, visit: Visit | None) -> Done:
    """Compare what the owner shows with what was intended. It speaks of the verification alone."""
    facts, contract = known.facts, known.contract
    inspection = Inspection(
        owner=known.owner.name,
        reach=_reach(known),
        contract=contract,
        operation_id=facts.operation_id,
        idempotency_key=facts.last_attempt.idempotency_key if facts.last_attempt else None,
        payload=payload_of(id=known.id, revision=facts.revision),
        receipt=known.receipt,
        now=known.now,
        time_left=time_left,
    )
    try:
        with visiting(known, visit=visit) as asks:
            seen = asks.check(known, inspection)
    except NotNow as not_now:
        return _put_back(known, not_now)
    at = database_now()
    observation = {
        "kind": "verification",
        "checks": [{"path": member, "expected": expected, "seen": found} for member, expected, found in seen.checks],
        **({"failed": {"reason": seen.reason}} if seen.reason else {}),
    }
    reading = read_observation(observation, contract=contract, earlier=facts.attempts, now=at)
    decision = decide_check(reading=reading, facts=facts, effect=facts.effect, contract=contract, now=at, roll=_roll())
    check = Check(
        source=f"{known.owner.name}/verify",
        outcome=reading.verification or Verification.UNAVAILABLE,
        query=seen.query[:600],
        principal=seen.principal,
        body=_kept(known, seen.body),
        reason=seen.reason,
        observed_at=at,
        detail={
            "reasons": list(seen.sentences),
            "status": seen.status,
            "differs": redact_differences(seen.differs, paths=known.contract.redact),
            "rule": decision.rule,
        },
    )
    return Done.CHECKED if record_check(held=known, check=check, decision=decision, at=at) is not None else Done.NOTHING


def _reach(known: Held) -> Reach:
    owner = known.owner
    return Reach(base_url=owner.base_url, hosts=owner.hosts, private_hosts=owner.private_hosts)


class NobodyToAsk(LookupError):
    """No way to learn the truth is left: the only one was to send it again, and that is licensed no more."""


def _learnt(known: Held, asks: Visit, *, time_left: float) -> tuple[Held, CompiledLookup, Reply] | None:
    """What the contract's ways to learn the truth come to, taken in its order. A replay among them is recorded at once,
    as the attempt that it is; None: it was the last word.

    Raises:
        NotNow: none of them is taken now.
        NobodyToAsk: none of them is left.
    """
    ways = known.contract.compiled.lookups
    at = next((index for index, way in enumerate(ways) if way.rule.by is LookupBy.REPLAY), None)
    if at is None:
        return known, *_answered(known, asks, ways=ways, time_left=time_left)
    ends = time.monotonic() + time_left
    told: tuple[CompiledLookup, Reply] | None = None
    not_now: NotNow | None = None
    sent = False
    for part in (ways[:at], (ways[at],), tuple(way for way in ways[at + 1 :] if way.rule.by is not LookupBy.REPLAY)):
        left = max(ends - time.monotonic(), 0.0)
        try:
            if part == (ways[at],):
                came = replay(known=known, visit=asks, time_left=left)
                if isinstance(came, Held):
                    known, told, sent = came, None, True
                    if came.facts.effect is not Effect.UNKNOWN or came.facts.state not in ASKED:
                        return None
            elif part:
                told = _answered(known, asks, ways=part, time_left=left)
        except NotNow as refused:
            not_now = not_now or refused
        if told is not None and _may_settle(told[1], told[0]):
            break
    if told is not None:
        return known, *told
    if sent:
        return None
    raise not_now or NobodyToAsk


def _answered(
    known: Held,
    asks: Visit,
    *,
    ways: Sequence[CompiledLookup],
    time_left: float,
    of: ItemQuestion | None = None,
) -> tuple[CompiledLookup, Reply]:
    """The first lookup that settles something, or the last one's word; asked in the contract's order. `of`: about one
    item of a batch alone.

    Raises:
        NotNow: none of them is asked now.
    """
    facts = known.facts if of is None else of_item(known.facts, of.item)
    payload = payload_of(id=known.id, revision=facts.revision) if of is None else of.payload
    last = facts.last_attempt
    compiled = known.contract.compiled
    ends = time.monotonic() + time_left
    answered: tuple[CompiledLookup, Reply] | None = None
    not_now: NotNow | None = None
    for lookup in ways:
        question = Question(
            owner=known.owner.name,
            reach=_reach(known),
            lookup=lookup,
            operation_id=facts.operation_id,
            idempotency_key=last.idempotency_key if last else None,
            payload=payload,
            item=of.body if of is not None else None,
            receipt=known.receipt,
            receipts=compiled.receipt,
            started_at=known.now,
            time_left=max(ends - time.monotonic(), 0.0),
        )
        try:
            reply = asks.lookup(known, question)
        except NotNow as refused:
            not_now = not_now or refused
            continue
        answered = lookup, reply
        if _may_settle(reply, lookup):
            break
    if answered is None:
        raise not_now or LookupError("the contract names no lookup")
    return answered


def _may_settle(reply: Reply, lookup: CompiledLookup) -> bool:
    """Whether the contract's next question is not needed. What an index does not show, another source may."""
    if reply.outcome is LookupOutcome.NO_MATCH:
        return lookup.rule.authoritative and lookup.rule.by not in PAGED
    return reply.outcome is LookupOutcome.FOUND


def _facts(
    known: Held, *, lookup: CompiledLookup, reply: Reply, started_at: datetime, observed_at: datetime
) -> LookupFacts:
    rule = lookup.rule
    return LookupFacts(
        source=f"{known.owner.name}/{rule.by.value}",
        by=rule.by.value,
        answer=reply.outcome.value,
        started_at=started_at,
        observed_at=observed_at,
        exact_key=asks_exactly(rule, contract=known.contract),
        authoritative=rule.authoritative,
        complete=reply.complete,
        sees=rule.sees.value,
        matches=reply.matches,
        effect=reply.effect,
        differs=reply.differs,
        query=reply.query[:600],
        principal=reply.principal,
        revision=reply.revision,
        event_at=reply.event_at,
        status=reply.status,
        reason=reply.reason,
    )


def _detail(known: Held, grade: Grade, reply: Reply, effect: Effect, rule: str) -> dict[str, object]:
    return {
        "reasons": list(grade.reasons),
        "status": reply.status,
        "clean_reads": grade.clean_reads,
        "conflict": grade.conflict,
        "differs": redact_differences(reply.differs, paths=known.contract.redact),
        "matches": reply.matches,
        "found": [dict(each) for each in reply.found],
        "pages": reply.pages,
        "stop_reason": reply.stop_reason,
        "effect": effect.value,
        "rule": rule,
    }


def _kept(known: Held, body: str) -> str:
    """The answer as it may be kept: redacted where it is JSON, NUL-free, cut to 64 KiB."""
    with suppress(orjson.JSONDecodeError):
        body = orjson.dumps(redact(orjson.loads(body), paths=list(known.contract.redact))).decode()
    return body.replace("\x00", "�")[: 64 * 1024]


def _roll() -> float:
    return random.random()  # noqa: S311 - spreads waits, guards nothing
