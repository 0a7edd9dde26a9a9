"""What did the ledger hold when it was asked?

Plain values that rules reason about: read from the database by queries, or built from a
stateless request. Nothing here can be saved, and nothing here knows what time it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ledger.rules.decision import Decision
from ledger.rules.vocabulary import (
    Effect,
    EffectKind,
    FailureClass,
    Licence,
    Outcome,
    Proof,
    Request,
    Sender,
    State,
    Verification,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFacts:
    """One permitted dispatch and what is known of it, and of it alone."""

    attempt_id: str
    """`attempt-01`, unique in its operation."""
    number: int
    revision: int
    digest: str
    """The payload's digest, `sha256:…`, that this attempt was permitted to send."""
    principal: str
    """Who the harness acted as at the owner; scopes an idempotency key."""
    idempotency_key: str | None
    licence: Licence | None
    """Why it may repeat an earlier one; None for the first dispatch."""
    opened_at: datetime
    dispatch_by: datetime
    """The client refuses to send after this moment."""
    lapses_at: datetime
    """Its possible end by the database's clock: dispatch_by + timeout + skew; a late report moves it later."""
    closed_at: datetime | None
    """None while in flight."""
    effect: Effect
    """The join of everything said about this attempt; UNKNOWN until somebody who may has spoken."""
    proof: Proof | None = None
    failure_class: FailureClass | None = None
    network_attempts: int = 1
    key_expired: bool = False
    """The owner said that it no longer remembers this attempt's key. Known where the answer itself is at hand."""
    kind: str = "dispatch"
    """`dispatch` for a revision's first, `retry` for a repeat, `replay` for one that was to learn the truth."""
    sender: Sender = Sender.HARNESS


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemAttempt:
    """What one attempt that carried an item is known to have done to it, and to it alone."""

    attempt: int
    """The attempt's number."""
    effect: Effect
    proof: Proof | None = None
    licence: Licence | None = None
    """Why it might carry the item again; None for the first that carried it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemFacts:
    """One item of a batch as the ledger holds it."""

    number: int
    """Its place in revision 1, from 1."""
    key: str
    effect: Effect
    """The join over the attempts that carried it."""
    attempts: tuple[ItemAttempt, ...] = ()
    verification: Verification = Verification.NOT_REQUIRED
    outcome: Outcome | None = None
    """Set once the item is settled, which it may be while others are not."""
    failure_class: FailureClass | None = None
    code: str = ""
    licence: Licence | None = None
    """What licensed a repeat of it when it was last decided on; None when nothing did."""
    decision: Decision | None = None
    """Its own next step; None until something has been said of it since it was last sent."""
    clean_reads: int = 0
    absence_since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """One counter and its limit."""

    used: int | float
    limit: int | float

    @property
    def left(self) -> int | float:
        return max(self.limit - self.used, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One operation as the ledger holds it, before the observation or lookup that is being judged."""

    operation_id: str
    tool: str
    kind: EffectKind
    version: int
    state: State
    request: Request
    effect: Effect
    verification: Verification
    outcome: Outcome | None
    revision: int
    payload_digest: str
    payload: Any = None
    principal: str = ""
    attempts: tuple[AttemptFacts, ...] = ()
    clean_reads: int = 0
    """Graded `no_match` answers in a row since the last dispatch's possible end."""
    absence_since: datetime | None = None
    """When the first lookup of that row started; None without one."""
    budgets: Mapping[str, Budget] = field(default_factory=dict)
    """By name: repairs retries polls replans network_attempts cost."""
    deadline_at: datetime | None = None
    reconcile_until: datetime | None = None
    first_sent_at: datetime | None = None
    """When the first attempt with the current idempotency key may have left; its window counts from here."""
    touched_since: bool = False
    """A later operation of ours touched the same identity; ends `natural_idempotency`."""
    escalated: bool = False
    """It waits for a person already; lookups go on."""
    items: tuple[ItemFacts, ...] = ()
    """Of a batch: every item, in its order; empty for what is no batch."""
    carries: frozenset[int] = frozenset()
    """Of a batch: the numbers of the items that the current revision carries."""
    whole_request: bool = True
    """Whether the same request may go again as it was; not so for an item whose request holds others that may not."""

    @property
    def last_attempt(self) -> AttemptFacts | None:
        return self.attempts[-1] if self.attempts else None

    @property
    def is_read(self) -> bool:
        return self.kind is EffectKind.READ


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupFacts:
    """What one lookup at the owner answered, as Ascertain itself (or a harness) read it."""

    source: str
    """`owner/by`, for example `helpdesk/status`."""
    by: str
    """status, search, list, operation, replay, mcp_tool, mcp_task, sql or postgres_xact."""
    answer: str
    """The raw outcome before grading: found, no_match, lookup_failed or inconclusive."""
    started_at: datetime
    observed_at: datetime
    exact_key: bool
    authoritative: bool
    complete: bool
    """Every page read, not truncated, no cursor repeated."""
    sees: str
    """all, own or unproved."""
    matches: int = 0
    effect: Effect | None = None
    """What a found object says of the effect; None when nothing was found."""
    differs: tuple[tuple[str, Any, Any], ...] = ()
    """(payload member, intended, found) where a found object is not what we meant: a conflict."""
    query: str = ""
    principal: str = ""
    revision: str | None = None
    event_at: datetime | None = None
    status: int | None = None
    reason: str = ""
    """Why it failed or was inconclusive, in words."""
    by_ascertain: bool = True
    """False when a harness reported it: then it never proves absence."""
