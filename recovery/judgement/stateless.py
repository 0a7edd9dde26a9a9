"""What would be decided for this observation, with this contract and history, and no ledger?

| not stated             | assumed                                                                        |
| ---------------------- | ------------------------------------------------------------------------------ |
| when an attempt began  | its `request.age_s` or `elapsed_ms` before it was observed; else then          |
| the payload's digest   | that of `request.body`; requests that show no body are taken to be the same    |
| the principal          | `request.principal`; else the same throughout                                  |
| the key                | `request.idempotency_key`; without one no key was sent                         |
| whose poll it is       | a poll speaks of the last attempt that is pending; a lookup of the last open one;  |
|                        | a check of none                                                                |
| the budgets            | the contract's, with one retry used for each attempt of the history            |

Nothing is stored, and the speaker that an observation states is trusted.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from ledger.rules.attempts import Word, attempt_after, covered, running
from ledger.rules.budgets import limits
from ledger.rules.contract import Contract
from ledger.rules.decision import Decision
from ledger.rules.evidence import join_effects
from ledger.rules.facts import AttemptFacts, Budget, Facts
from ledger.rules.vocabulary import Effect, FailureClass, Request, State, Verification
from recovery.judgement.codes import Code
from recovery.judgement.decide import decide, rules_looked_at
from recovery.judgement.envelopes import marks_all_retryable
from recovery.judgement.read import read_observation
from recovery.judgement.readers import envelope
from recovery.judgement.reading import ObservationInvalid, Reading
from recovery.judgement.rule_table import Rule
from recovery.judgement.waits import moment

LONGEST_HISTORY: Final = 100
_OPEN: Final = frozenset({Effect.UNKNOWN, Effect.PENDING, Effect.PARTIAL})
_PENDING: Final = frozenset({Effect.PENDING})
_LARGEST_BODY: Final = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A reading, the effect that it leaves the operation with, and the decision."""

    reading: Reading
    effect: Effect
    decision: Decision
    rules: tuple[tuple[Rule, bool], ...] = ()
    """Every rule that was looked at, in its order, with whether it holds; only when it was asked for (`explain`)."""


def judge(
    *,
    contract: Contract,
    history: Sequence[Mapping[str, Any]],
    observation: Mapping[str, Any],
    now: datetime,
    operation_id: str = "",
    roll: float = 0.5,
    explain: bool = False,
) -> Judgement:
    """Judges one observation after a history of earlier ones of the same operation, oldest first.

    Raises:
        ObservationInvalid: as `read_observation`; for the history, `field` begins with `history[n]`.
    """
    if len(history) > LONGEST_HISTORY:
        raise ObservationInvalid("history", f"at most {LONGEST_HISTORY} observations are read.")
    attempts: list[AttemptFacts] = []
    for index, before in enumerate(history):
        try:
            earlier = read_observation(before, contract=contract, earlier=attempts, now=now, trusted=True)
        except ObservationInvalid as error:
            raise ObservationInvalid(f"history[{index}].{error.field}".rstrip("."), error.message) from None
        attempts = _joined(attempts, before, earlier, now=now)
    reading = read_observation(observation, contract=contract, earlier=attempts, now=now, trusted=True)
    if marks_all_retryable([seen["body"] for seen in (*history, observation) if _is_envelope(seen)]):
        reading = replace(reading, violations=(*reading.violations, "Every failure of this tool is marked retryable."))
    attempts = _joined(attempts, observation, reading, now=now)
    if reading.code == Code.KEY_IN_USE:
        attempts = list(running(attempts, key=attempts[-1].idempotency_key))
    effect = join_effects(attempts=attempts, absence_since=None, kind=contract.effect)
    stated = _keyed(contract)
    facts = _facts(stated, attempts, operation_id=attempts[-1].idempotency_key or operation_id)
    decision = decide(reading=reading, facts=facts, effect=effect, contract=stated, now=now, roll=roll)
    if _went_through_in_part(reading, attempts):
        decision = replace(decision, effect_status=Effect.PARTIAL)
    rules: tuple[tuple[Rule, bool], ...] = ()
    if explain:
        rules = rules_looked_at(reading=reading, facts=facts, effect=effect, contract=stated, now=now)
    return Judgement(reading=reading, effect=effect, decision=decision, rules=rules)


def _joined(
    attempts: Sequence[AttemptFacts], observation: Mapping[str, Any], reading: Reading, *, now: datetime
) -> list[AttemptFacts]:
    """The attempts with one more observation: a new one, or what a poll, a lookup or a check says of those before."""
    known = list(attempts)
    if known and reading.word is Word.ASIDE:
        return known
    if known and reading.word is Word.FOUND:
        if reading.effect is Effect.NONE:
            return list(covered(tuple(known), effect=Effect.NONE, proof=reading.proof))
        if any(attempt.effect in _OPEN for attempt in known):
            return _told_of_last(known, reading, now=now, among=_OPEN)
    if known and reading.word is Word.POLL:
        pending = any(attempt.effect is Effect.PENDING for attempt in known)
        return _told_of_last(known, reading, now=now, among=_PENDING if pending else _OPEN)
    return [*known, _attempt(observation, reading, number=len(known) + 1, now=now)]


def _told_of_last(
    attempts: list[AttemptFacts], reading: Reading, *, now: datetime, among: frozenset[Effect]
) -> list[AttemptFacts]:
    """The attempts when something more was said of the last one whose effect is among these."""
    last = next((index for index in reversed(range(len(attempts))) if attempts[index].effect in among), None)
    if last is None:
        # Nothing is open: what was found is still a fact, and belongs to the last attempt.
        last = len(attempts) - 1
    told = attempt_after(
        attempts[last],
        effect=reading.effect,
        proof=reading.proof,
        failure_class=reading.failure_class,
        network_attempts=reading.network_attempts,
        now=now,
        word=reading.word,
    )
    return [*attempts[:last], told, *attempts[last + 1 :]]


def _went_through_in_part(reading: Reading, attempts: Sequence[AttemptFacts]) -> bool:
    """Whether some items are proved applied, and nothing but the others is open.

    A ledger follows each item and calls such a batch unknown until every item is accounted for. Here one word has to
    do, and `partial` keeps the whole from being sent again; the items stand beside it with their own effects.
    """
    unaccounted = reading.failure_class is FailureClass.PARTIAL and reading.effect is Effect.UNKNOWN
    applied = any(item.effect is Effect.APPLIED for item in reading.items)
    return unaccounted and applied and all(attempt.effect is Effect.NONE for attempt in attempts[:-1])


def _is_envelope(observation: Mapping[str, Any]) -> bool:
    return observation.get("kind") == envelope.KIND and isinstance(observation.get("body"), Mapping)


def _keyed(contract: Contract) -> Contract:
    """The contract with the key as it was seen: here the observations say which key was sent, not a template."""
    promised = contract.idempotency.model_copy(update={"key": "{operation_id}", "repair_key": "same"})
    return contract.model_copy(update={"idempotency": promised})


def _facts(contract: Contract, attempts: Sequence[AttemptFacts], *, operation_id: str) -> Facts:
    used = {"retries": len(attempts) - 1, "network_attempts": sum(attempt.network_attempts for attempt in attempts)}
    last = attempts[-1]
    return Facts(
        operation_id=operation_id,
        tool=contract.contract,
        kind=contract.effect,
        version=0,
        state=State.DISPATCHED,
        request=Request.ACCEPTED,
        effect=join_effects(attempts=attempts[:-1], absence_since=None, kind=contract.effect),
        verification=Verification.DUE if contract.verify is not None else Verification.NOT_REQUIRED,
        outcome=None,
        revision=1,
        payload_digest=last.digest,
        principal=last.principal,
        attempts=tuple(attempts),
        budgets={name: Budget(used=used.get(name, 0), limit=limit) for name, limit in limits(contract).items()},
        first_sent_at=min(attempt.opened_at for attempt in attempts),
    )


def _attempt(observation: Mapping[str, Any], reading: Reading, *, number: int, now: datetime) -> AttemptFacts:
    request = observation.get("request")
    request = request if isinstance(request, Mapping) else {}
    seen_at = moment(observation.get("observed_at")) or now
    age = _seconds(request.get("age_s")) or _seconds(observation.get("elapsed_ms")) / 1000
    opened_at = min(seen_at, now) - timedelta(seconds=min(age, 1e8))
    key = request.get("idempotency_key")
    principal = request.get("principal")
    return AttemptFacts(
        attempt_id=f"attempt-{number:02d}",
        number=number,
        revision=1,
        digest=_digest(request.get("body")),
        principal=principal if isinstance(principal, str) else "",
        idempotency_key=key if isinstance(key, str) and key else None,
        licence=None,
        opened_at=opened_at,
        dispatch_by=opened_at,
        lapses_at=max(seen_at, opened_at),
        closed_at=max(seen_at, opened_at),
        effect=reading.effect,
        proof=reading.proof,
        failure_class=reading.failure_class,
        network_attempts=reading.network_attempts,
        key_expired=reading.code == Code.KEY_EXPIRED,
    )


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1e12:
        return 0.0
    return float(value)


def _digest(body: Any) -> str:
    """Whether two requests are the same; what cannot be compared counts as one that shows no body."""
    try:
        text = json.dumps(body, sort_keys=True)[:_LARGEST_BODY] if body is not None else ""
    except (TypeError, ValueError, RecursionError):
        text = ""
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
