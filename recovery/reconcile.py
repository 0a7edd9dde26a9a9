"""Look at one operation whose time has come: load, ask the owner outside any transaction, weigh, decide, record.

| the operation                                | what is done                                                     |
| -------------------------------------------- | ---------------------------------------------------------------- |
| dispatched, its permit has lapsed            | the attempt is closed; a write's effect stays unknown            |
| waiting before a licensed retry              | it is opened again                                               |
| reconciling, pending or escalated            | the owner is asked; its answer is graded and recorded            |
| verifying; or escalated, done and unchecked  | the outcome is compared with what was intended                   |
| open or blocked, and the deadline has passed | what is known settles it; what is not goes to a person           |
| anything else, or it moved meanwhile         | nothing; the row's next moment stands                            |

A worker may die between any two of these lines: the claim on the schedule row lapses and the next sweep comes back.
Asking changes nothing at the owner, and what is recorded is conditional on the version that was read.
"""

import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

import orjson

from ledger.queries.clock import database_now
from ledger.queries.facts import Held, held, payload_of
from ledger.rules.contract_compiled import CompiledLookup
from ledger.rules.evidence import Grade, grade_lookup, join_effects
from ledger.rules.facts import LookupFacts
from ledger.rules.lifecycle import ASKED
from ledger.rules.payload import redact
from ledger.rules.stored import decision_from
from ledger.rules.vocabulary import Action, Effect, LookupOutcome, State, Verification
from ledger.transitions.check import Check, record_check
from ledger.transitions.lookup import Answer, effect_with, record_lookup
from ledger.transitions.passing_of_time import end_by_limit, end_wait, lapse_attempt
from recovery.judgement.decide import decide_check, decide_lapse, decide_limits, decide_lookup
from recovery.judgement.read import read_observation
from recovery.owners.base import Question, Reach, Reply
from recovery.owners.registry import adapters
from recovery.owners.verify import Inspection, check_outcome

MOST_TRIES = 5


class Done(StrEnum):
    """What a look at an operation came to."""

    LAPSED = "lapsed"
    WOKEN = "woken"
    ASKED = "asked"
    CHECKED = "checked"
    ENDED = "ended"
    NOTHING = "nothing"


def reconcile(*, id: UUID, time_left: float) -> Done:
    """Do what is due for one operation. `time_left` is how many seconds the owner's answer may take at most."""
    known = held(id=id)
    if known is None or known.next_check_at is None or known.next_check_at > known.now:
        return Done.NOTHING
    facts = known.facts
    if facts.state is State.DISPATCHED:
        return _lapse(known)
    decision = decision_from(known.decision)
    if facts.state is State.WAITING and decision is not None and decision.recovery_action is Action.RETRY:
        ended = _end(known)
        return ended if ended is not Done.NOTHING else _wake(known)
    if facts.state in (State.OPEN, State.BLOCKED):
        return _end(known)
    if _to_be_checked(known):
        return _check(known, time_left=time_left)
    if facts.state in ASKED:
        if not known.contract.lookup or not facts.attempts:
            return _end(known)
        return _ask(known, time_left=time_left)
    return Done.NOTHING


def _lapse(known: Held) -> Done:
    effect = join_effects(attempts=known.facts.attempts, absence_since=None, kind=known.facts.kind)
    decision = decide_lapse(facts=known.facts, effect=effect, contract=known.contract, now=known.now, roll=_roll())
    return Done.LAPSED if lapse_attempt(held=known, decision=decision) is not None else Done.NOTHING


def _wake(known: Held) -> Done:
    return Done.WOKEN if end_wait(held=known) is not None else Done.NOTHING


def _end(known: Held) -> Done:
    decision = decide_limits(
        facts=known.facts, effect=known.facts.effect, contract=known.contract, now=known.now, roll=_roll()
    )
    if decision is None:
        return Done.NOTHING
    return Done.ENDED if end_by_limit(held=known, decision=decision) is not None else Done.NOTHING


def _ask(known: Held, *, time_left: float) -> Done:
    lookup, reply = _answered(known, time_left=time_left)
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


def _to_be_checked(known: Held) -> bool:
    facts = known.facts
    if known.contract.verify is None or facts.verification is Verification.VERIFIED:
        return False
    return facts.state is State.VERIFYING or (facts.state is State.ESCALATED and facts.effect is Effect.APPLIED)


def _check(known: Held, *, time_left: float) -> Done:
    """Compare what the owner shows with what was intended. It speaks of the verification alone."""
    facts, contract = known.facts, known.contract
    seen = check_outcome(
        Inspection(
            owner=known.owner.name,
            reach=_reach(known),
            contract=contract,
            operation_id=facts.operation_id,
            idempotency_key=facts.last_attempt.idempotency_key if facts.last_attempt else None,
            payload=payload_of(id=known.id, revision=facts.revision),
            receipt=known.receipt,
            time_left=time_left,
        )
    )
    at = database_now()
    observation = {
        "kind": "verification",
        "checks": [{"path": member, "expected": expected, "seen": found} for member, expected, found in seen.checks],
        **({"failed": {"reason": seen.reason}} if seen.reason else {}),
    }
    reading = read_observation(observation, contract=contract, earlier=facts.attempts, now=at)
    decision = decide_check(
        reading=reading, facts=facts, effect=facts.effect, contract=contract, now=at, roll=_roll()
    )
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
            "differs": _shown(known, [each for each in seen.checks if each[1] != each[2]]),
            "rule": decision.rule,
        },
    )
    return Done.CHECKED if record_check(held=known, check=check, decision=decision, at=at) is not None else Done.NOTHING


def _reach(known: Held) -> Reach:
    owner = known.owner
    return Reach(base_url=owner.base_url, hosts=owner.hosts, private_hosts=owner.private_hosts)


def _shown(known: Held, differs: Sequence[tuple[str, Any, Any]]) -> list[list[Any]]:
    """Differences as they may be kept: what the contract redacts is compared, never shown."""
    shown = []
    for member, *values in differs:
        paths = [path for path in known.contract.redact if path == member or path.startswith(f"{member}.")]
        hidden = any(member == path or member.startswith(f"{path}.") for path in known.contract.redact)
        inner = [path.removeprefix(f"{member}.") for path in paths]
        shown.append([member, *("[redacted]" if hidden else redact(value, paths=inner) for value in values)])
    return shown


def _answered(known: Held, *, time_left: float) -> tuple[CompiledLookup, Reply]:
    """The first lookup that settles something, or the last one's word; asked in the contract's order."""
    facts = known.facts
    payload = payload_of(id=known.id, revision=facts.revision)
    last = facts.last_attempt
    for lookup in known.contract.compiled.lookups:
        reply = adapters()[lookup.rule.by].ask(
            Question(
                owner=known.owner.name,
                reach=_reach(known),
                lookup=lookup,
                operation_id=facts.operation_id,
                idempotency_key=last.idempotency_key if last else None,
                payload=payload,
                receipt=known.receipt,
                started_at=known.now,
                time_left=time_left,
            )
        )
        if reply.outcome in (LookupOutcome.FOUND, LookupOutcome.NO_MATCH):
            break
    return lookup, reply


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
        exact_key=True,
        authoritative=rule.authoritative,
        complete=reply.complete,
        sees=rule.sees.value,
        matches=reply.matches,
        effect=reply.effect,
        differs=reply.differs,
        query=reply.query[:600],
        principal=reply.principal,
        revision=reply.revision,
        status=reply.status,
        reason=reply.reason,
    )


def _detail(known: Held, grade: Grade, reply: Reply, effect: Effect, rule: str) -> dict[str, object]:
    return {
        "reasons": list(grade.reasons),
        "status": reply.status,
        "clean_reads": grade.clean_reads,
        "conflict": grade.conflict,
        "differs": _shown(known, reply.differs),
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
