"""What would be decided for this observation, with this contract and history, and no ledger?

| not stated             | assumed                                                                        |
| ---------------------- | ------------------------------------------------------------------------------ |
| when an attempt began  | its `request.age_s` or `elapsed_ms` before it was observed; else then          |
| the payload's digest   | that of `request.body`; requests that show no body are taken to be the same    |
| the principal          | `request.principal`; else the same throughout                                  |
| the key                | `request.idempotency_key`; without one no key was sent                         |
| the budgets            | the contract's, with one retry used for each attempt of the history            |

Nothing is stored, and the speaker that an observation states is trusted.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from ledger.rules.budgets import limits
from ledger.rules.contract import Contract
from ledger.rules.decision import Decision
from ledger.rules.evidence import join_effects
from ledger.rules.facts import AttemptFacts, Budget, Facts
from ledger.rules.vocabulary import Effect, Request, State, Verification
from recovery.judgement.codes import Code
from recovery.judgement.decide import decide
from recovery.judgement.read import read_observation
from recovery.judgement.reading import ObservationInvalid, Reading
from recovery.judgement.waits import moment

LONGEST_HISTORY: Final = 100
_LARGEST_BODY: Final = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A reading, the effect that it leaves the operation with, and the decision."""

    reading: Reading
    effect: Effect
    decision: Decision


def judge(
    *,
    contract: Contract,
    history: Sequence[Mapping[str, Any]],
    observation: Mapping[str, Any],
    now: datetime,
    operation_id: str = "",
    roll: float = 0.5,
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
            reading = read_observation(before, contract=contract, earlier=tuple(attempts), now=now)
        except ObservationInvalid as error:
            raise ObservationInvalid(f"history[{index}].{error.field}".rstrip("."), error.message) from None
        attempts.append(_attempt(before, reading, number=index + 1, now=now))
    reading = read_observation(observation, contract=contract, earlier=tuple(attempts), now=now)
    attempts.append(_attempt(observation, reading, number=len(attempts) + 1, now=now))
    if reading.code == Code.KEY_IN_USE:
        attempts = [_running(attempt, key=attempts[-1].idempotency_key) for attempt in attempts]
    effect = join_effects(attempts=attempts, absence_since=None, kind=contract.effect)
    stated = _keyed(contract)
    facts = _facts(stated, attempts, operation_id=attempts[-1].idempotency_key or operation_id)
    decision = decide(reading=reading, facts=facts, effect=effect, contract=stated, now=now, roll=roll)
    return Judgement(reading=reading, effect=effect, decision=decision)


def _running(attempt: AttemptFacts, *, key: str | None) -> AttemptFacts:
    """The owner says that a request with this key is running: that is every open attempt that carried it."""
    ours = attempt.effect is Effect.UNKNOWN and key is not None and attempt.idempotency_key == key
    return replace(attempt, effect=Effect.PENDING) if ours else attempt


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
