"""What a decision makes of an operation: its next state, its columns, and when to look again. Computed here only."""

from datetime import datetime, timedelta
from typing import Any

from ledger.errors import LawBroken
from ledger.queries.facts import Held
from ledger.rules.decision import Decision
from ledger.rules.lifecycle import state_after
from ledger.rules.vocabulary import Effect, Outcome, State, Verification
from ledger.transitions.change import stored_decision


def after(
    *, held: Held, decision: Decision, effect: Effect, now: datetime, next_look_at: datetime | None = None
) -> tuple[dict[str, Any], datetime | None]:
    """The operation's columns after a decision, and its next entry in the schedule (None: none).

    `next_look_at` is when the owner can be asked again while a person has the operation.

    Raises:
        LawBroken: the decision names another effect than its evidence entitles to.
    """
    if decision.effect_status is not effect:
        raise LawBroken(f"decided for effect {decision.effect_status}, but the evidence says {effect}")
    facts = held.facts
    state, outcome = state_after(
        action=decision.recovery_action, effect=effect, kind=facts.kind, not_before=decision.not_before, now=now
    )
    columns: dict[str, Any] = {
        "state": state,
        "outcome": outcome,
        "request": decision.request,
        "effect": effect,
        "decision": stored_decision(decision),
        "settled_at": now if state is State.SETTLED else None,
        "escalated_at": (held.escalated_at or now) if state is State.ESCALATED else None,
    }
    if state is State.SETTLED:
        columns["awaits_signature_id"] = None
        columns["holds_identity"] = held.holds_identity and outcome is Outcome.WRITTEN_OFF
        if facts.verification is Verification.DUE and outcome is not Outcome.APPLIED:
            columns["verification"] = Verification.NOT_REQUIRED
    return columns, _next_check(held=held, state=state, decision=decision, next_look_at=next_look_at, now=now)


def _next_check(
    *, held: Held, state: State, decision: Decision, next_look_at: datetime | None, now: datetime
) -> datetime | None:
    deadline = held.facts.deadline_at
    if state is State.SETTLED:
        return None
    if state is State.ESCALATED:
        return next_look_at
    if state in (State.RECONCILING, State.VERIFYING, State.WAITING):
        return decision.not_before or now
    # Open and blocked wait for somebody; the deadline is what happens if nobody comes.
    return max(deadline, now + timedelta(seconds=1)) if deadline else None
