"""What is asked of an owner, and what comes back: values only, never rows of the ledger."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from ledger.rules.contract_compiled import CompiledLookup
from ledger.rules.vocabulary import Effect, LookupOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One lookup at one owner, for one operation."""

    owner: str
    base_url: str
    """The only host that may be asked."""
    lookup: CompiledLookup
    operation_id: str
    idempotency_key: str | None
    payload: Any
    """The current revision's payload; None when retention has destroyed it."""
    receipt: Mapping[str, Any]
    started_at: datetime
    """The database's clock before asking."""
    time_left: float
    """Seconds that the answer may take at most."""


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
    status: int | None = None
    revision: str | None = None
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
