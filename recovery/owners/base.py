"""What is asked of an owner, and what comes back: values only, never rows of the ledger."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from ledger.rules.contract_compiled import CompiledLookup
from ledger.rules.expressions import Value
from ledger.rules.vocabulary import Effect, LookupOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Where requests on an owner's behalf may go."""

    base_url: str
    """The owner's own address; its host may always be asked."""
    hosts: frozenset[str] = frozenset()
    """Further hosts, such as the one that its operation addresses point to."""
    private_hosts: frozenset[str] = frozenset()
    """Hosts that may resolve to loopback, private or link-local addresses. Named one by one; metadata addresses are
    never asked, even so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One lookup at one owner, for one operation or one item of a batch."""

    owner: str
    reach: Reach
    lookup: CompiledLookup
    operation_id: str
    idempotency_key: str | None
    payload: Any
    """The current revision's payload; None when retention has destroyed it."""
    receipt: Mapping[str, Any]
    """What the contract read from earlier answers: ids, addresses of long-running operations, task ids."""
    receipts: Mapping[str, Value] = field(default_factory=dict)
    """How the contract reads receipt members from an answer."""
    started_at: datetime
    """The database's clock before asking."""
    time_left: float
    """Seconds that the answer may take at most."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Values of the `secret:name` references, decrypted for this question; `env:` ones are read when it is asked."""
    item: Mapping[str, Any] | None = None
    """The item of a batch that is looked up by itself: as the payload has it; None for the whole operation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the owner answered, before it is graded."""

    outcome: LookupOutcome
    effect: Effect | None = None
    """What a found object says of the effect."""
    matches: int = 0
    complete: bool = True
    differs: tuple[tuple[str, Any, Any], ...] = ()
    """(payload member, intended, found) where the object is not what we meant."""
    found: tuple[Mapping[str, Any], ...] = ()
    """The contract's receipt members of each object that matched, at most twenty: what to link when there are several."""
    receipt: Mapping[str, Any] = field(default_factory=dict)
    """Receipt members that this answer added."""
    status: int | None = None
    revision: str | None = None
    event_at: datetime | None = None
    pages: int = 1
    stop_reason: str = ""
    """Why reading pages ended early; empty when it did not."""
    retry_after_ms: int | None = None
    """How long the owner asks us to wait before the next question."""
    refused_credential: bool = False
    """The owner no longer accepts who we are (401, or its own word for it): asking again with it is useless."""
    overloaded: bool = False
    """The owner is down or asks for fewer questions: this counts for its circuit."""
    needs_person: bool = False
    """The owner wants something that only a person may give, such as an answer to an elicitation."""
    query: str = ""
    """What was asked, without credentials."""
    principal: str = ""
    """Whose credential asked: the reference's name, never its value."""
    reason: str = ""
    """Why it failed or settles nothing, in words."""
    body: str = ""
    """The answer's body as text, at most the size limit."""


class OwnerAdapter(Protocol):
    """Asks one kind of owner. It changes nothing there, never raises for what an owner does, and keeps to its time."""

    def ask(self, question: Question) -> Reply:
        """One lookup. A lookup that failed is `lookup_failed`, never `no_match`."""
        ...
