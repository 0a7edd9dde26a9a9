"""What a harness installs: record before the call, make the call once, report what was seen, follow the decision.

    with Ascertain(url, token) as ascertain:
        with ascertain.operation(tool="tickets.create", operation_id="ticket:create:case-8472", payload=ticket) as op:
            if op.permitted:
                decision = op.send("POST", "https://helpdesk.example/tickets", json=ticket)
            else:
                decision = op.decision

Needs httpx2 and pydantic alone.
"""

from recovery.client.asynchronous import AsyncAscertain, AsyncGuardedOperation
from recovery.client.blocking import Ascertain, GuardedOperation
from recovery.client.clock import Clock
from recovery.client.conversation import Patience
from recovery.client.errors import (
    AscertainError,
    BusyError,
    ConflictError,
    InvalidError,
    NoPermitError,
    NotAllowedError,
    NotAuthenticatedError,
    OperationMismatchError,
    OperationNotFoundError,
    PermitSpentError,
    RefusedError,
    ReportNotDeliveredError,
    TooLateError,
    UnreachableError,
)
from recovery.client.models import Attempt, Decision, Operation, Permit
from recovery.client.passage import Phase
from recovery.client.prompt import SYSTEM_PROMPT
from recovery.client.reader import (
    AsyncHttpPages,
    HttpPages,
    PageRequest,
    Pages,
    ReadFailed,
    ReadLimits,
    ReadOutcome,
    ReadStop,
    ReadTask,
    read_pages,
    read_pages_async,
)

__all__ = [
    "SYSTEM_PROMPT",
    "Ascertain",
    "AscertainError",
    "AsyncAscertain",
    "AsyncGuardedOperation",
    "AsyncHttpPages",
    "Attempt",
    "BusyError",
    "Clock",
    "ConflictError",
    "Decision",
    "GuardedOperation",
    "HttpPages",
    "InvalidError",
    "NoPermitError",
    "NotAllowedError",
    "NotAuthenticatedError",
    "Operation",
    "OperationMismatchError",
    "OperationNotFoundError",
    "PageRequest",
    "Pages",
    "Patience",
    "Permit",
    "PermitSpentError",
    "Phase",
    "ReadFailed",
    "ReadLimits",
    "ReadOutcome",
    "ReadStop",
    "ReadTask",
    "RefusedError",
    "ReportNotDeliveredError",
    "TooLateError",
    "UnreachableError",
    "read_pages",
    "read_pages_async",
]
