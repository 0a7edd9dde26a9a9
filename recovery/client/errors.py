"""What can go wrong while a harness talks to Ascertain. Each docstring says what to do.

A failure of the outside call is not in this tree: it becomes an observation and a decision.
"""

from collections.abc import Mapping
from typing import Any

from recovery.client.models import Decision


class AscertainError(Exception):
    """Anything this client raises. Catch it to treat every cause alike: do not make the outside call on your own."""


class UnreachableError(AscertainError):
    """No usable answer from Ascertain, after repeats. Do not make the outside call; come back with the same
    `operation_id` and payload: recording twice is one operation."""


class RefusedError(AscertainError):
    """Ascertain answered with an error. Read `code`, `field` and `hint`; `decision` is there when one was made."""

    def __init__(
        self,
        *,
        status: int,
        code: str,
        message: str,
        error_class: str = "fatal",
        retryable: bool = False,
        retry_after_ms: int | None = None,
        field: str | None = None,
        hint: str | None = None,
        decision: Decision | None = None,
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.status = status
        self.code = code
        self.message = message
        self.error_class = error_class
        self.retryable = retryable
        self.retry_after_ms = retry_after_ms
        self.field = field
        self.hint = hint
        self.decision = decision


class NotAuthenticatedError(RefusedError):
    """The token is missing, wrong, expired or revoked. Get a valid token; nothing was recorded."""


class NotAllowedError(RefusedError):
    """The token may not do this: a scope is missing, or it may not state that principal. Ask for a token that may."""


class OperationNotFoundError(RefusedError):
    """This workspace has no operation of that id. Check the id and the token's workspace."""


class OperationMismatchError(RefusedError):
    """The id already names an operation with another tool, principal or payload. Nothing was changed.
    Use a new id for a new intent, or `op.revise` to repair the old one."""


class InvalidError(RefusedError):
    """The request was malformed or an argument is not what the contract asks. `field` names it: correct that member."""


class ConflictError(RefusedError):
    """The ledger's state does not allow this now. Read the operation again and follow its decision."""


class BusyError(RefusedError):
    """Ascertain is overloaded or not ready. Wait `retry_after_ms` and come back with the same request."""


class NoPermitError(AscertainError):
    """There is no permit to send. Do not make the call: follow `decision`; `op.retry()` asks for a permit again."""

    def __init__(self, message: str, *, decision: Decision | None = None) -> None:
        super().__init__(message)
        self.decision = decision


class PermitSpentError(NoPermitError):
    """This permit was used already; one permit is one call. Follow the decision; `op.retry()` asks for another."""


class TooLateError(AscertainError):
    """The permit's `dispatch_by` passed before the first byte left, so nothing was sent. `op.retry()` for a new one."""


class ReportNotDeliveredError(AscertainError):
    """The call was made, but Ascertain did not take the report. Do not repeat the call. Deliver `observation` later
    with `op.observe`; without it the permit lapses and Ascertain asks the owner itself. The owner's answer, when
    there was one, is `op.response`."""

    def __init__(self, message: str, *, observation: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.observation = observation
