"""The answers of Ascertain's API that a harness reads. Members added later are kept, not refused."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Answered(BaseModel):
    """Frozen; members that this version does not know stay readable in `model_extra`."""

    model_config = ConfigDict(frozen=True, extra="allow")


class Permit(Answered):
    """Leave to send one call once."""

    attempt_id: str
    idempotency_key: str | None = None
    headers: dict[str, str] = Field(default_factory=dict)
    """Send all of these with the call."""
    dispatch_by: datetime
    """By Ascertain's clock. After it the call must not be sent any more."""
    timeout_ms: int = Field(default=30_000, gt=0)
    """The whole call, from the first byte to the last of the answer."""
    items: list[str] | None = None
    """Of a batch: the keys of the items that the call carries."""
    payload: Any = None
    """Of a batch that is sent again in part: send this, not what the operation began with."""

    @property
    def timeout(self) -> float:
        """The whole call's time limit in seconds."""
        return self.timeout_ms / 1000


class Decision(Answered):
    """The one next recovery action, and the named rule that chose it."""

    recovery_action: str
    failure_class: str = "unknown_outcome"
    effect_status: str = "unknown"
    request: str | None = None
    retry_after_ms: int | None = None
    not_before: datetime | None = None
    code: str | None = None
    field: str | None = None
    """The member to correct, as a JSON path into the call."""
    hint: str | None = None
    rule: str | None = None
    licence: str | None = None
    ask_again: dict[str, Any] | None = None
    alternatives: list[Any] = Field(default_factory=list)
    retryable: bool = False
    record: dict[str, Any] | None = None
    for_agent: dict[str, Any] | None = None
    """What may be shown to a model."""

    @property
    def is_done(self) -> bool:
        """The effect is there, and nothing more is to be done."""
        return self.recovery_action == "done"


class Attempt(Answered):
    """One permitted call of an operation."""

    attempt_id: str
    opened_at: datetime | None = None
    lapses_at: datetime | None = None
    closed_at: datetime | None = None
    failure_class: str | None = None


class Operation(Answered):
    """One intended effect as the ledger holds it: three answers, who acts next, and what is left of each budget."""

    operation_id: str
    tool: str = ""
    version: int = 0
    state: str = "open"
    request: str = "not_sent"
    effect: str = "unknown"
    verification: str = "not_required"
    outcome: str | None = None
    revision: int = 1
    budgets: dict[str, Any] = Field(default_factory=dict)
    attempts: list[Attempt] = Field(default_factory=list)
    approval: dict[str, Any] | None = None
    evidence: list[dict[str, Any]] = Field(default_factory=list)
    permit: Permit | None = None
    decision: Decision | None = None

    @property
    def settled(self) -> bool:
        """Nobody has anything more to do, unless late evidence reopens it."""
        return self.state == "settled"
