"""What a decision makes of an operation: its next state, its columns, and when to look again. Computed here only."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from ledger.errors import LawBroken
from ledger.queries.facts import Held
from ledger.rules.decision import Decision
from ledger.rules.facts import AttemptFacts
from ledger.rules.lifecycle import state_after
from ledger.rules.senders import sender_of
from ledger.rules.vocabulary import Effect, FailureClass, Outcome, State, Verification
from ledger.transitions.change import stored_decision

LONGEST_CAUSE = 160
_FOUND_OUT = frozenset({FailureClass.STATE_CONFLICT, FailureClass.VERIFICATION})
"""What finding out brings to light, whatever went wrong before: it becomes the cause."""


def cause_of(*, failure_class: FailureClass, code: str, owner_code: str | None = None) -> str:
    """What went wrong, as operations are grouped by it: `class/code/owner's code`. Empty where nothing did."""
    if failure_class is FailureClass.SUCCESS:
        return ""
    # The owner's code is foreign: one line of it, and no half character at the cut.
    said = " ".join((owner_code or "").replace("\x00", "").split())
    return "/".join(filter(None, (failure_class.value, code, said)))[:LONGEST_CAUSE]


def after(
    *, held: Held, decision: Decision, effect: Effect, now: datetime, closes_as: Outcome | None = None
) -> tuple[dict[str, Any], datetime | None]:
    """The operation's columns after a decision, and its next entry in the schedule (None: none). `closes_as`: people
    close it with this outcome, which no decision of ours could.

    Raises:
        LawBroken: the decision names another effect than its evidence entitles to.
    """
    if decision.effect_status is not effect:
        raise LawBroken(f"decided for effect {decision.effect_status}, but the evidence says {effect}")
    facts = held.facts
    state, outcome = state_after(
        action=decision.recovery_action,
        effect=effect,
        kind=facts.kind,
        not_before=decision.not_before,
        now=now,
        sender=sender_of(facts=facts, contract=held.contract, decision=decision),
    )
    if closes_as is not None:
        state, outcome = State.SETTLED, closes_as
    columns: dict[str, Any] = {
        "state": state,
        "outcome": outcome,
        "request": decision.request,
        "effect": effect,
        "decision": stored_decision(decision),
        "settled_at": now if state is State.SETTLED else None,
        "escalated_at": (held.escalated_at or now) if state is State.ESCALATED else None,
    }
    if state is State.ESCALATED and decision.failure_class in _FOUND_OUT:
        columns["cause"] = cause_of(failure_class=decision.failure_class, code=decision.code)
    sla = held.contract.escalation.sla
    if sla is not None and (state is State.ESCALATED) is not (facts.state is State.ESCALATED):
        columns["sla_at"] = now + sla if state is State.ESCALATED else None
    if state is State.SETTLED:
        columns["awaits_signature_id"] = None
        columns["holds_identity"] = held.holds_identity and outcome is Outcome.WRITTEN_OFF
        if facts.verification is Verification.DUE and outcome is not Outcome.APPLIED:
            columns["verification"] = Verification.NOT_REQUIRED
    return columns, _next_check(held=held, state=state, decision=decision, now=now)


def moved(
    *,
    held: Held,
    version: int,
    columns: Mapping[str, Any],
    attempts: tuple[AttemptFacts, ...],
    next_check_at: datetime | None,
) -> Held:
    """The operation as it stands once the columns are written, without reading it again."""
    facts = held.facts
    words = ("state", "request", "effect", "verification", "outcome")
    told = {name: columns[name] for name in words if name in columns}
    used = {
        name: replace(budget, used=columns[name]) if name in columns else budget
        for name, budget in facts.budgets.items()
    }
    return replace(
        held,
        facts=replace(facts, version=version, attempts=attempts, budgets=used, **{name: told[name] for name in told}),
        decision=columns.get("decision", held.decision),
        next_check_at=next_check_at,
        changed_at=held.now,
    )


def _next_check(*, held: Held, state: State, decision: Decision, now: datetime) -> datetime | None:
    deadline = held.facts.deadline_at
    if state is State.SETTLED:
        return None
    if state is State.ESCALATED:
        return decision.not_before  # lookups go on at their slowest pace; None once nobody can be asked any more
    if state in (State.RECONCILING, State.VERIFYING, State.WAITING):
        return decision.not_before or now
    # Open and blocked wait for somebody; the deadline is what happens if nobody comes.
    return max(deadline, now + timedelta(seconds=1)) if deadline else None
