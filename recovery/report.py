"""A harness reports what it saw: read it, join it with what was known, decide, record. One transition."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from ledger.queries.facts import Held, held_by_name
from ledger.rules.decision import Decision
from ledger.rules.evidence import join_effects
from ledger.rules.facts import AttemptFacts
from ledger.rules.payload import canonical, raw, redact
from ledger.rules.stored import decision_from
from ledger.rules.vocabulary import Action, Effect, FailureClass, Outcome, Proof, State
from ledger.transitions.report import Report, attempts_with, record_observation
from recovery.judgement.codes import Code
from recovery.judgement.decide import decide
from recovery.judgement.read import read_observation
from recovery.judgement.reading import Reading
from recovery.judgement.waits import moment

MOST_TRIES = 50
"""Each lost race means that somebody else's change was recorded, so this many in a row do not happen."""


class Contended(RuntimeError):
    """The operation kept moving while this was being recorded. Nothing was recorded; send it again."""


class NoSuchAttempt(LookupError):
    """The operation has no such attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """The operation as it stands with the report, and the decision."""

    held: Held
    decision: Decision | None
    attempt_id: str


def report(*, held: Held, attempt_id: str, observation: Mapping[str, Any], digest: str, actor: str) -> Reported:
    """Record one observation of one attempt and take the decision's step. The same observation again changes nothing
    and is answered with the decision that stands.

    `held` was read with the observation's attempt and `digest`, so that it says whether this is known already.

    Raises:
        NoSuchAttempt: nothing was recorded.
        ObservationInvalid: with the member that is wrong; nothing was recorded.
        Contended: the operation kept moving; nothing was recorded.
    """
    number = attempt_number(attempt_id)
    for _ in range(MOST_TRIES):
        attempt = next((each for each in held.facts.attempts if each.number == number), None)
        if attempt is None:
            raise NoSuchAttempt(attempt_id)
        if held.known_digest:
            return Reported(held=held, decision=decision_from(held.decision), attempt_id=attempt_id)
        earlier = tuple(each for each in held.facts.attempts if each.number < number)
        reading = read_observation(observation, contract=held.contract, earlier=earlier, now=held.now)
        said = _report(held=held, attempt=attempt, reading=reading, observation=observation, digest=digest)
        attempts = attempts_with(held=held, report=said)
        effect = join_effects(attempts=attempts, absence_since=None, kind=held.facts.kind)
        decision = _decision(held=held, reading=reading, attempts=attempts, effect=effect)
        recorded = record_observation(held=held, report=said, decision=decision, actor=actor)
        if recorded is not None:
            return Reported(held=recorded, decision=decision, attempt_id=attempt_id)
        again = held_by_name(
            workspace_id=held.workspace_id,
            operation_id=held.facts.operation_id,
            attempt=number,
            digest=raw(digest),
        )
        if again is None:
            raise Contended(held.facts.operation_id)
        held = again
    raise Contended(held.facts.operation_id)


def attempt_number(attempt_id: str) -> int:
    """The number in `attempt-03`; 0 for anything else, which no attempt has."""
    prefix, _, digits = attempt_id.partition("-")
    number = int(digits) if prefix == "attempt" and digits.isascii() and digits.isdigit() and len(digits) < 4 else 0
    return number if attempt_id == f"attempt-{number:02d}" else 0


def _decision(*, held: Held, reading: Reading, attempts: tuple[AttemptFacts, ...], effect: Effect) -> Decision:
    facts = held.facts
    if facts.state is State.SETTLED:
        return _late(held=held, effect=effect, said=reading)
    return decide(
        reading=reading,
        facts=replace(facts, attempts=attempts),
        effect=effect,
        contract=held.contract,
        now=held.now,
        roll=random.random(),  # noqa: S311 - spreads waits, guards nothing
    )


def _late(*, held: Held, effect: Effect, said: Reading) -> Decision:
    """A report on a settled operation: it is kept, and only a proof against the outcome reopens it."""
    standing = decision_from(held.decision)
    contradicted = (held.facts.outcome is Outcome.NOT_APPLIED and effect is Effect.APPLIED) or (
        held.facts.outcome is Outcome.APPLIED and effect is Effect.NONE and said.proof is Proof.OWNER_RESULT
    )
    if not contradicted and standing is not None:
        return standing
    sentence = f"A late report contradicts the outcome {held.facts.outcome}; a person has to look at both."
    return Decision(
        recovery_action=Action.ESCALATE,
        failure_class=FailureClass.VERIFICATION,
        effect_status=effect,
        request=held.facts.request,
        rule="late.contradicts_outcome",
        code="OUTCOME_CONTRADICTED",
        hint="The outcome is in doubt. Do not repeat the call; an operator is asked.",
        message=sentence,
        not_before=None,
    )


def _report(
    *, held: Held, attempt: AttemptFacts, reading: Reading, observation: Mapping[str, Any], digest: str
) -> Report:
    cost = observation.get("cost")
    return Report(
        attempt=attempt,
        source=f"harness/{reading.kind}",
        speaker=reading.speaker,
        effect=reading.effect,
        proof=reading.proof,
        failure_class=reading.failure_class,
        word=reading.word,
        key_in_use=reading.code == Code.KEY_IN_USE and attempt.idempotency_key is not None,
        network_attempts=reading.network_attempts,
        cost=float(cost) if isinstance(cost, int | float) else 0.0,
        digest=digest,
        body=canonical(redact(observation, paths=_redacted(held))).decode(),
        observed_at=_seen_at(observation, now=held.now),
        verification=reading.verification,
        receipt=reading.receipt,
        detail=_detail(reading, observation),
    )


def _redacted(held: Held) -> list[str]:
    """The contract's redactions, wherever the payload's members may reappear in an observation."""
    return [
        f"{place}{path}" for path in held.contract.redact for place in ("", "body.", "request.body.", "response.body.")
    ]


def _detail(reading: Reading, observation: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {
        "rule": reading.rule,
        "code": reading.code,
        "class": reading.failure_class.value,
    }
    optional: dict[str, Any] = {
        "phase": reading.phase.value if reading.phase else None,
        "status": _whole(observation.get("status")),
        "bytes_sent": _whole(observation.get("bytes_sent")),
        "request_bytes": _whole(observation.get("request_bytes")),
        "field": reading.field,
        "owner_code": reading.owner_code,
        "wait": reading.retry_after_raw,
        "quoted": list(reading.quoted),
        "unread": list(reading.unread),
        "violations": list(reading.violations),
        "receipt": dict(reading.receipt),
    }
    # Zero bytes sent is a proof, so only what is absent is left out.
    return kept | {name: value for name, value in optional.items() if value not in (None, "", [], {})}


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None


def _seen_at(observation: Mapping[str, Any], *, now: datetime) -> datetime:
    """When the harness says it saw this; never later than when we were told."""
    stated = moment(observation.get("observed_at"))
    return min(stated, now) if stated is not None else now
