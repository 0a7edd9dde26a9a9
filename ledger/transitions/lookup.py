"""Record what the owner answered when Ascertain itself asked."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ledger.errors import LawBroken
from ledger.identifiers import new_id
from ledger.queries.facts import Held
from ledger.rules.attempts import covered
from ledger.rules.decision import Decision
from ledger.rules.evidence import Grade, join_effects, may_assert
from ledger.rules.facts import LookupFacts
from ledger.rules.payload import digest_of, raw
from ledger.rules.vocabulary import Effect, Speaker
from ledger.transitions.change import Change, write
from ledger.transitions.settle import after


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One graded answer of the owner."""

    lookup: LookupFacts
    grade: Grade
    body: str
    """The answer as text, redacted by the contract; empty when there was none."""
    detail: Mapping[str, Any]
    receipt: Mapping[str, Any] = field(default_factory=dict)
    """The contract's receipt members that the answer showed."""


def effect_with(*, held: Held, grade: Grade) -> Effect:
    """The operation's effect with the grade counted in."""
    attempts = held.facts.attempts
    if grade.effect is not None:
        attempts = covered(attempts, effect=grade.effect, proof=grade.proof)
    return join_effects(
        attempts=attempts, absence_since=grade.absence_since if grade.absent else None, kind=held.facts.kind
    )


def record_lookup(*, held: Held, answer: Answer, decision: Decision, at: datetime, actor: str = "worker") -> int | None:
    """Keep the evidence with its grade and take the decision's step. One transaction.

    `at` is the database's clock after the answer came. Returns the new version; None when the operation moved since
    `held` was read.

    Raises:
        LawBroken: the grade asserts what its speaker may not.
    """
    facts, grade, lookup = held.facts, answer.grade, answer.lookup
    speaker = Speaker.OWNER_STATUS if lookup.authoritative else Speaker.OWNER_INDEX
    if grade.effect is not None and not may_assert(speaker=speaker, effect=grade.effect, proof=grade.proof):
        raise LawBroken(f"{speaker} may not assert {grade.effect} with proof {grade.proof}")
    effect = effect_with(held=held, grade=grade)
    moved, next_check_at = after(held=held, decision=decision, effect=effect, now=at)
    polls = facts.budgets.get("polls")
    columns: dict[str, Any] = {
        **moved,
        "polls": (int(polls.used) if polls else 0) + 1,
        "clean_reads": grade.clean_reads,
        "absence_since": grade.absence_since,
    }
    if answer.receipt and dict(answer.receipt) != dict(held.receipt):
        columns["receipt"] = {**held.receipt, **answer.receipt}
    original = new_id() if answer.body else None
    body = answer.body or lookup.reason
    change = Change(
        id=held.id,
        held=held,
        version=facts.version,
        at=at,
        verb="record_lookup",
        actor=actor,
        set=columns,
        next_check_at=next_check_at,
        said={"lookup": lookup.source, "rule": decision.rule},
        covers=_covers(grade),
        originals=({"id": original, "kind": "answer", "body": answer.body},) if original else (),
        evidence=(
            {
                "id": new_id(),
                "attempt": None,
                "source": lookup.source,
                "speaker": speaker.value,
                "outcome": grade.outcome.value,
                "effect": grade.effect.value if grade.effect else None,
                "proof": grade.proof.value if grade.proof else None,
                "revision": lookup.revision,
                "digest": raw(digest_of(body.encode())),
                "query": lookup.query,
                "principal": lookup.principal,
                "event_at": lookup.event_at,
                "observed_at": lookup.observed_at,
                "coverage": "complete" if lookup.complete else "partial",
                "original": original,
                "detail": dict(answer.detail),
            },
        ),
    )
    return write(change)


def _covers(grade: Grade) -> dict[str, Any] | None:
    if grade.effect is None:
        return None
    return {"effect": grade.effect.value, "proof": grade.proof.value if grade.proof else None}
