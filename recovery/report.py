"""A harness reports what it saw: read it, join it with what was known, decide, record. One transition."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from ledger.queries.facts import Held, held_by_name
from ledger.rules.attempts import Word
from ledger.rules.decision import Decision
from ledger.rules.facts import AttemptFacts
from ledger.rules.payload import canonical, raw, redact
from ledger.rules.stored import decision_from
from ledger.rules.vocabulary import Effect, Outcome, Proof, Sender, State
from ledger.transitions.report import Report, attempts_with, effect_with, record_observation
from recovery.batches import BatchTold, earlier_attempts, of_the_batch, told_by_report, with_carried_keys
from recovery.judgement.codes import Code
from recovery.judgement.decide import decide, decide_contradiction
from recovery.judgement.read import read_observation
from recovery.judgement.reading import Reading
from recovery.judgement.waits import moment

WORKER = "worker"
"""The actor of reports on what Ascertain itself sent."""
MOST_TRIES = 50
"""Each lost race means that somebody else's change was recorded, so this many in a row do not happen."""


class Contended(RuntimeError):
    """The operation kept moving while this was being recorded. Nothing was recorded; send it again."""


class NoSuchAttempt(LookupError):
    """The operation has no such attempt."""


class NotTheSender(ValueError):
    """Ascertain sent this attempt itself, so a harness saw nothing of its request. Nothing was recorded."""


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
        NotTheSender: it speaks of a request that somebody else sent; nothing was recorded.
        Contended: the operation kept moving; nothing was recorded.
    """
    number = attempt_number(attempt_id)
    for _ in range(MOST_TRIES):
        attempt = next((each for each in held.facts.attempts if each.number == number), None)
        if attempt is None:
            raise NoSuchAttempt(attempt_id)
        if held.known_digest:
            return Reported(held=held, decision=decision_from(held.decision), attempt_id=attempt_id)
        roll = random.random()  # noqa: S311 - spreads waits, guards nothing
        reading, batch = _read(held=held, number=number, observation=observation, roll=roll)
        if attempt.sender is Sender.WORKER and actor != WORKER and reading.word is Word.ANSWER:
            raise NotTheSender(attempt_id)
        said = _report(held=held, attempt=attempt, reading=reading, observation=observation, digest=digest)
        if batch is not None:
            said = replace(said, items=batch.items, detail={**said.detail, "items": dict(batch.detail)})
        attempts = attempts_with(held=held, report=said)
        effect = effect_with(held=held, report=said, attempts=attempts)
        decision = _decision(held=held, reading=reading, report=said, attempts=attempts, effect=effect, roll=roll)
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


def _read(*, held: Held, number: int, observation: Mapping[str, Any], roll: float) -> tuple[Reading, BatchTold | None]:
    """The observation's reading, and for a batch what it says of each item."""
    facts, contract = held.facts, held.contract
    if not facts.items:
        earlier = tuple(each for each in facts.attempts if each.number < number)
        return read_observation(observation, contract=contract, earlier=earlier, now=held.now), None
    seen = with_carried_keys(observation, facts=facts, number=number)
    earlier = earlier_attempts(facts=facts, number=number)
    reading = read_observation(seen, contract=contract, earlier=earlier, now=held.now)
    batch = told_by_report(facts=facts, number=number, reading=reading, contract=contract, now=held.now, roll=roll)
    return batch.reading, batch


def _decision(
    *, held: Held, reading: Reading, report: Report, attempts: tuple[AttemptFacts, ...], effect: Effect, roll: float
) -> Decision:
    facts = held.facts
    if facts.state is State.SETTLED:
        return _late(held=held, effect=effect, said=reading)
    decision = decide(
        reading=reading,
        facts=replace(facts, attempts=attempts, items=report.items),
        effect=effect,
        contract=held.contract,
        now=held.now,
        roll=roll,
    )
    return of_the_batch(decision, items=report.items)


def _late(*, held: Held, effect: Effect, said: Reading) -> Decision:
    """A report on a settled operation: it is kept, and only a proof against the outcome reopens it."""
    standing = decision_from(held.decision)
    contradicted = (held.facts.outcome is Outcome.NOT_APPLIED and effect is Effect.APPLIED) or (
        held.facts.outcome is Outcome.APPLIED and effect is Effect.NONE and said.proof is Proof.OWNER_RESULT
    )
    if held.facts.items:
        contradicted = held.facts.outcome is not Outcome.WRITTEN_OFF and effect is not held.facts.effect
    if not contradicted and standing is not None:
        return standing
    return decide_contradiction(
        facts=held.facts,
        effect=effect,
        says=f"A late report contradicts the outcome {held.facts.outcome}; a person has to look at both.",
    )


def _report(
    *, held: Held, attempt: AttemptFacts, reading: Reading, observation: Mapping[str, Any], digest: str
) -> Report:
    cost = observation.get("cost")
    return Report(
        attempt=attempt,
        source=f"{attempt.sender.value}/{reading.kind}",
        speaker=reading.speaker,
        effect=reading.effect,
        proof=reading.proof,
        failure_class=reading.failure_class,
        word=reading.word,
        key_in_use=reading.code == Code.KEY_IN_USE and attempt.idempotency_key is not None,
        stored=reading.replayed,
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
