"""What is the one next step, and which named rule chose it?"""

from dataclasses import dataclass
from datetime import datetime

from ledger.rules.vocabulary import Action, Effect, FailureClass, Licence, Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One recovery action for one operation. Exactly one action; the rule that chose it is named."""

    recovery_action: Action
    failure_class: FailureClass
    effect_status: Effect
    """The operation's effect: the join over all its attempts."""
    request: Request
    rule: str
    """The rule's name in the rule table, for example `write.no_answer_after_send`."""
    code: str
    """`[A-Z][A-Z0-9_]*`, stable, never reused."""
    hint: str
    """One or two sentences of ours, for the agent's next step. Never an owner's prose."""
    message: str
    """One sentence of ours for people reading logs."""
    retry_after_ms: int | None = None
    """The normalised wait that the answer asked for; None when it asked for none."""
    not_before: datetime | None = None
    """When the action may be taken at the earliest."""
    field: str | None = None
    """The rejected member, as a JSON path into the call."""
    licence: Licence | None = None
    """Why a repeat is safe; None when this decision licenses no repeat."""
    alternatives: tuple[str | int | float | bool, ...] = ()
    """The nearest legal alternatives, at most five scalars."""
