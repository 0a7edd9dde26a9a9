"""Does what the owner shows match what was intended? One question at `verify.http`, compared member by member.

| the owner                                         | comes back                                       |
| ------------------------------------------------- | ------------------------------------------------ |
| answers 2xx and shows every expected member       | each member, intended and seen                   |
| answers 2xx and does not show one of them         | that member with nothing seen, and a reason      |
| answers anything else, or not at all              | nothing seen, and a reason                       |

What was not seen is unavailable, never a difference: `recovery.judgement.readers.verification` says so.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from ledger.rules.contract import Contract
from ledger.rules.expressions import MISSING, Context
from ledger.rules.payload import alike
from ledger.rules.templates import NotRendered
from recovery.judgement.waits import wait_of
from recovery.owners.answers import member_of
from recovery.owners.base import Reach
from recovery.owners.credentials import CredentialMissing
from recovery.owners.http import BUSY, DOWN, parsed
from recovery.owners.outgoing import Exchanged, NotExchanged, exchange
from recovery.owners.requests import rendered

SLOWEST = 5.0
"""Seconds for one answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """One check of one operation's outcome."""

    owner: str
    reach: Reach
    contract: Contract
    operation_id: str
    idempotency_key: str | None
    payload: Any
    """The current revision's; None when retention has destroyed it."""
    receipt: Mapping[str, Any]
    now: datetime
    """The database's clock before asking."""
    time_left: float
    """Seconds that the answer may take at most."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspected:
    """What was seen."""

    checks: tuple[tuple[str, Any, Any], ...] = ()
    """(payload member, intended, seen); seen is None where the owner does not show it."""
    reason: str = ""
    """Why the check could not be made; empty when it was."""
    status: int | None = None
    query: str = ""
    principal: str = ""
    body: str = ""
    overloaded: bool = False
    """The owner is down or asks for fewer questions."""
    retry_after_ms: int | None = None
    """How long it asks nobody to ask."""
    refused_credential: bool = False
    """It does not accept who we are."""

    @property
    def answered(self) -> bool:
        """The owner itself said something."""
        return self.status is not None

    @property
    def sentences(self) -> tuple[str, ...]:
        """What came of it, for people."""
        if self.reason:
            return (f"The outcome could not be checked: {self.reason}.",)
        said = []
        if self.differs:
            said.append(f"The owner shows something else in {', '.join(member for member, _, _ in self.differs)}.")
        if unseen := [member for member, intended, seen in self.checks if seen is None and intended is not None]:
            said.append(f"The owner does not show {', '.join(unseen)}, which says nothing.")
        return tuple(said) or ("The owner shows what was intended.",)

    @property
    def differs(self) -> tuple[tuple[str, Any, Any], ...]:
        """The checks that came out differently. What is not shown is no difference."""
        return tuple(
            (member, intended, seen)
            for member, intended, seen in self.checks
            if seen is not None and not alike(intended, seen)
        )


def check_outcome(inspection: Inspection) -> Inspected:
    """Ask once and compare. Changes nothing at the owner, never raises for what an owner does."""
    contract = inspection.contract
    verify = contract.verify
    if verify is None:
        return Inspected(reason="the contract names no check")
    principal = verify.credential or ""
    if inspection.payload is None:
        return Inspected(reason="what was intended is no longer kept", principal=principal)
    values = {
        "operation_id": inspection.operation_id,
        "idempotency_key": inspection.idempotency_key,
        "payload": inspection.payload,
        "receipt": inspection.receipt,
    }
    try:
        request, query = rendered(
            verify.http,
            values=values,
            reach=inspection.reach,
            credential=verify.credential,
            secrets=inspection.secrets,
        )
    except NotRendered as error:
        return Inspected(reason=f"the address needs {error.name}, which is not known", principal=principal)
    except CredentialMissing as error:
        return Inspected(reason=f"the credential {error} is not set where the worker runs", principal=principal)
    told = exchange(request, reach=inspection.reach, seconds=min(SLOWEST, inspection.time_left))
    if isinstance(told, NotExchanged):
        reason, down = told.reason, told.failure in DOWN
        return Inspected(reason=reason, status=told.status, query=query, principal=principal, overloaded=down)
    if not 200 <= told.status < 300:
        return Inspected(
            reason=f"the owner answered {told.status}",
            status=told.status,
            query=query,
            principal=principal,
            body=told.text,
            overloaded=told.status >= 500 or told.status in BUSY,
            retry_after_ms=_asked_wait(told, now=inspection.now),
            refused_credential=told.status == 401,
        )
    context = Context.answer(status=told.status, headers=dict(told.headers), body=parsed(told.text)[0], speaker="owner")
    checks = []
    for member, field_ in contract.compiled.expect.items():
        seen, intended = field_.read(context), member_of(inspection.payload, member)
        if intended is MISSING:
            continue
        checks.append((member, intended, None if seen is MISSING else seen))
    reason = "" if checks else "nothing that was intended can be compared"
    return Inspected(
        checks=tuple(checks), reason=reason, status=told.status, query=query, principal=principal, body=told.text
    )


def _asked_wait(told: Exchanged, *, now: datetime) -> int | None:
    wait = wait_of(
        headers=told.headers,
        body=parsed(told.text)[0],
        observed_at=None,
        now=now + timedelta(milliseconds=told.elapsed_ms),
        refused_by_limiter=told.status == 429,
    )
    return wait.milliseconds if wait is not None else None
