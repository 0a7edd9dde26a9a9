"""Record what a check of the outcome showed. It speaks of the verification alone, never of the effect."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ledger.identifiers import new_id
from ledger.queries.facts import Held
from ledger.rules.decision import Decision
from ledger.rules.payload import digest_of, raw
from ledger.rules.vocabulary import Speaker, Verification
from ledger.transitions.change import Change, write
from ledger.transitions.settle import after


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check that Ascertain itself made."""

    source: str
    """`helpdesk/verify`."""
    outcome: Verification
    query: str
    principal: str
    body: str
    """The owner's answer as text, redacted by the contract; empty when there was none."""
    reason: str
    """Why it could not be made; empty when it was."""
    observed_at: datetime
    detail: Mapping[str, Any]


def record_check(*, held: Held, check: Check, decision: Decision, at: datetime, actor: str = "worker") -> int | None:
    """Keep the check as evidence and take the decision's step. One transaction.

    Returns the new version; None when the operation moved since `held` was read.
    """
    facts = held.facts
    step, next_check_at = after(held=held, decision=decision, effect=facts.effect, now=at)
    checks = facts.budgets.get("checks")
    original = new_id() if check.body else None
    change = Change(
        id=held.id,
        held=held,
        version=facts.version,
        at=at,
        verb="record_check",
        actor=actor,
        set={**step, "verification": check.outcome, "checks": (int(checks.used) if checks else 0) + 1},
        next_check_at=next_check_at,
        said={"check": check.source, "rule": decision.rule},
        originals=({"id": original, "kind": "answer", "body": check.body},) if original else (),
        evidence=(
            {
                "id": new_id(),
                "attempt": None,
                "source": check.source,
                "speaker": Speaker.VERIFIER.value,
                "outcome": check.outcome.value,
                "effect": None,
                "proof": None,
                "digest": raw(digest_of((check.body or check.reason).encode())),
                "query": check.query,
                "principal": check.principal,
                "observed_at": check.observed_at,
                "coverage": "",
                "original": original,
                "detail": dict(check.detail),
            },
        ),
    )
    return write(change)
