"""Record what a harness saw of one of its attempts."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.db import IntegrityError

from ledger.errors import LawBroken, constraint_of
from ledger.identifiers import new_id
from ledger.queries.facts import Held
from ledger.rules.attempts import Word, attempt_after, covered, running, stored_for_all
from ledger.rules.decision import Decision
from ledger.rules.evidence import join_effects, may_assert
from ledger.rules.facts import AttemptFacts, ItemFacts
from ledger.rules.items import attempt_effect, join_items, settled
from ledger.rules.payload import raw
from ledger.rules.vocabulary import Effect, EffectKind, FailureClass, Proof, Speaker, State, Verification
from ledger.transitions.change import Change
from ledger.transitions.items import changed_items, check_assertions, next_look
from ledger.transitions.reopen import write_evidence
from ledger.transitions.settle import after, cause_of, moved


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What an observation established, in the ledger's words, and the observation itself."""

    attempt: AttemptFacts
    source: str
    speaker: Speaker
    effect: Effect
    """Of this attempt."""
    proof: Proof | None
    failure_class: FailureClass
    network_attempts: int
    cost: float
    digest: str
    body: str
    """The observation as canonical JSON, redacted by the contract; kept as a restricted original."""
    observed_at: datetime
    detail: Mapping[str, Any]
    verification: Verification | None = None
    """What a reported check says of the outcome; None when the report is none."""
    receipt: Mapping[str, Any] = field(default_factory=dict)
    """The contract's receipt members that the answer showed."""
    word: Word = Word.ANSWER
    """How it belongs to the attempt."""
    items: tuple[ItemFacts, ...] = ()
    """Of a batch: every item as it stands with the report."""
    key_in_use: bool = False
    """The owner says that a request with the attempt's key is running."""
    stored: bool = False
    """The owner says that it keeps this answer under the attempt's key: it is the answer to each request with it."""


def attempts_with(*, held: Held, report: Report) -> tuple[AttemptFacts, ...]:
    """The operation's attempts with the report counted in."""
    told = attempt_after(
        report.attempt,
        effect=report.effect,
        proof=report.proof,
        failure_class=report.failure_class,
        network_attempts=report.network_attempts,
        now=held.now,
        word=report.word,
    )
    if report.items:
        effect, proof = attempt_effect(report.items, number=told.number)
        told = replace(told, effect=effect, proof=proof)
    attempts = tuple(told if attempt.number == told.number else attempt for attempt in held.facts.attempts)
    if _answers_all(held=held, report=report):
        return covered(attempts, effect=report.effect, proof=report.proof)
    return running(attempts, key=told.idempotency_key) if report.key_in_use else attempts


def effect_with(*, held: Held, report: Report, attempts: tuple[AttemptFacts, ...]) -> Effect:
    """The operation's effect with the report counted in, which `attempts` have already."""
    if report.items:
        return join_items(report.items)
    # Absence that has been graded stands in the attempts already; one still being counted proves nothing yet.
    return join_effects(attempts=attempts, absence_since=None, kind=held.facts.kind)


def record_observation(*, held: Held, report: Report, decision: Decision, actor: str) -> Held | None:
    """Close the attempt, keep the evidence and its original, and take the decision's step. One transaction.

    Returns the operation as it then stands; None when it moved since `held` was read, or when the same observation
    was recorded in the same moment (read again: it is known then).

    Raises:
        LawBroken: the report asserts what its speaker may not, or the decision names another effect than the
            attempts join to.
    """
    facts = held.facts
    if not facts.is_read and not may_assert(speaker=report.speaker, effect=report.effect, proof=report.proof):
        raise LawBroken(f"{report.speaker} may not assert {report.effect} with proof {report.proof}")
    attempts = attempts_with(held=held, report=report)
    told = next(attempt for attempt in attempts if attempt.number == report.attempt.number)
    effect = effect_with(held=held, report=report, attempts=attempts)
    columns: dict[str, Any] = {
        "network_attempts": _counted(held, "network_attempts") + report.network_attempts,
        "cost": _counted(held, "cost") + report.cost,
    }
    if report.receipt and dict(report.receipt) != dict(held.receipt):
        columns["receipt"] = {**held.receipt, **report.receipt}
    if report.verification is not None:
        columns["verification"] = report.verification
    if facts.state is State.SETTLED and decision.recovery_action.value != "escalate":
        next_check_at = None  # late, and it says nothing new: evidence only
    elif _another_in_flight(attempts):
        # A late word on an earlier attempt while a later one is out: known, but the later one decides.
        columns["effect"] = effect
        next_check_at = max(attempt.lapses_at for attempt in attempts)
    else:
        step, next_check_at = after(held=held, decision=decision, effect=effect, now=held.now)
        columns |= _cause(held=held, report=report, decision=decision, effect=effect) | step
    items = report.items or facts.items
    check_assertions(facts.items, items, speaker=report.speaker)
    if columns.get("state") is State.SETTLED:
        items = settled(items, verification=columns.get("verification", facts.verification))
    next_check_at = next_look(
        replace(facts, attempts=attempts, items=items),
        state=columns.get("state", facts.state),
        next_check_at=next_check_at,
    )
    original = new_id()
    change = Change(
        id=held.id,
        held=held,
        version=facts.version,
        at=held.now,
        verb="record_observation",
        actor=actor,
        set=columns,
        next_check_at=next_check_at,
        said={"attempt": report.attempt.attempt_id, "rule": decision.rule},
        violations=tuple(report.detail.get("violations", ())),
        closes={
            "number": told.number,
            "closed_at": told.closed_at,
            "lapses_at": told.lapses_at,
            "effect": (Effect.UNKNOWN if facts.kind is EffectKind.READ and told.proof is None else told.effect).value,
            "proof": told.proof.value if told.proof else None,
            "failure_class": told.failure_class.value if told.failure_class else None,
            "network_attempts": told.network_attempts,
        },
        **changed_items(facts.items, items),
        running={"number": told.number, "idempotency_key": told.idempotency_key} if report.key_in_use else None,
        covers={"effect": report.effect.value, "proof": report.proof.value if report.proof else None}
        if _answers_all(held=held, report=report)
        else None,
        originals=({"id": original, "kind": "observation", "body": report.body},),
        evidence=(
            {
                "id": new_id(),
                "attempt": told.number,
                "source": report.source,
                "speaker": report.speaker.value,
                "outcome": "observed",
                "effect": None if facts.kind is EffectKind.READ else report.effect.value,
                "proof": report.proof.value if report.proof else None,
                "digest": raw(report.digest),
                "query": "",
                "principal": facts.principal,
                "observed_at": report.observed_at,
                "coverage": "",
                "original": original,
                "detail": dict(report.detail),
            },
        ),
    )
    try:
        version = write_evidence(change, held=held)
    except IntegrityError as error:
        if constraint_of(error) == "the_same_observation_is_evidence_once":
            return None
        raise
    if version is None:
        return None
    held = replace(held, facts=replace(facts, items=items))
    return moved(held=held, version=version, columns=columns, attempts=attempts, next_check_at=next_check_at)


def _cause(*, held: Held, report: Report, decision: Decision, effect: Effect) -> dict[str, Any]:
    """What went wrong, as far as this report changes it."""
    if report.word is Word.ASIDE or (effect is Effect.UNKNOWN and report.effect is not Effect.UNKNOWN):
        return {}  # it says nothing of a request, or an earlier one is what nobody knows: that one's cause stands
    said = report.detail
    cause = cause_of(
        failure_class=report.failure_class,
        code=str(said.get("code") or decision.code),
        owner_code=said.get("owner_code"),
    )
    if not cause and len(held.facts.attempts) == 1 and held.facts.state is State.DISPATCHED:
        return {}  # the first answer, and a good one: nothing stands there yet
    return {"cause": cause}


def _answers_all(*, held: Held, report: Report) -> bool:
    """A refusal that the owner kept under the key refused every request that carried it."""
    refused = report.stored and report.effect is Effect.NONE and not report.items
    return refused and stored_for_all(held.facts.attempts, told=report.attempt)


def _another_in_flight(attempts: tuple[AttemptFacts, ...]) -> bool:
    return any(attempt.closed_at is None for attempt in attempts)


def _counted(held: Held, name: str) -> int | float:
    budget = held.facts.budgets.get(name)
    return budget.used if budget else 0
