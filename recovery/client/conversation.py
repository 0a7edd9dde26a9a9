"""The conversation with Ascertain about one operation, without any I/O.

Each exchange is a generator that yields what to do next (`Ask` or `Pause`) and is given the `Reply`, or has
`LostReplyError` thrown in; the blocking and the asynchronous client only carry these out. So repeats, waits and the
reading of answers stand here once.
"""

import json
import random
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Literal, TypeVar
from urllib.parse import quote

from pydantic import ValidationError

from recovery.client.clock import Clock
from recovery.client.errors import (
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
    UnreachableError,
)
from recovery.client.models import Attempt, Decision, Operation, Permit

T = TypeVar("T")

LONGEST_WAIT = 30
"""Seconds that one long poll asks the server to hold."""

_DICE = random.SystemRandom()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request to Ascertain's API. Every one of them may be sent again unchanged."""

    method: str
    path: str
    body: bytes | None = None
    params: Mapping[str, str] | None = None
    timeout: float
    """Seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Wait before going on."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer of Ascertain's API."""

    status: int
    headers: Mapping[str, str]
    body: Any
    """Parsed JSON, None when there was none."""
    asked_at: float
    """Monotonic seconds just before the request was sent."""


class LostReplyError(Exception):
    """No answer came back. Thrown into a flow by the client that carries it out; never seen outside."""


Flow = Generator[Ask | Pause, Reply | None, T]


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long and how often Ascertain is asked."""

    timeout: float = 10.0
    """Seconds for one request."""
    tries: int = 4
    first_pause: float = 0.25
    """Seconds before the second try; doubled each time, at most `longest_pause`."""
    longest_pause: float = 5.0

    def pause_after(self, *, tries: int, asked_ms: int | None = None) -> float:
        """Seconds to wait after so many tries, never shorter than the server asked within our longest pause."""
        own = min(self.first_pause * 2.0 ** (tries - 1), self.longest_pause) * _DICE.uniform(0.5, 1.0)
        return min(max(own, (asked_ms or 0) / 1000), self.longest_pause)


HURRIED = Patience(timeout=3.0, tries=2)
"""For reports on the way out of a block that ends with the caller's own exception."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What the harness is about to do."""

    operation_id: str
    tool: str
    payload: Any
    principal: str | None = None
    agent: Mapping[str, Any] | None = None
    deadline_at: datetime | str | None = None
    items: Any = None
    trace_id: str | None = None

    def body(self) -> bytes:
        """The JSON body of `POST /operations`; asks for the first permit in the same transaction."""
        deadline = self.deadline_at
        if isinstance(deadline, datetime):
            deadline = deadline.astimezone(UTC).isoformat().replace("+00:00", "Z")
        members = {
            "principal": self.principal,
            "agent": dict(self.agent) if self.agent is not None else None,
            "deadline_at": deadline,
            "items": self.items,
            "trace_id": self.trace_id,
        }
        stated = {name: value for name, value in members.items() if value is not None}
        return encode(
            {
                "operation_id": self.operation_id,
                "tool": self.tool,
                "payload": self.payload,
                "attempt": True,
                **stated,
            }
        )


class Conversation:
    """What is known of one operation, and the exchanges that change it."""

    def __init__(self, *, intent: Intent, clock: Clock, patience: Patience) -> None:
        self._intent = intent
        self._clock = clock
        self._patience = patience
        self.operation: Operation | None = None
        self.decision: Decision | None = None
        self.permit: Permit | None = None
        self.dispatch_until = 0.0
        """Monotonic seconds: the permit's `dispatch_by`, told by this machine's steady clock, on the safe side."""
        self.spent = False
        """The permit was used for a call."""
        self.reported = False
        """Ascertain took a report for the permit."""

    def may_send(self) -> Permit:
        """The unused permit; raises NoPermitError or PermitSpentError."""
        if self.permit is None:
            action = f" Decision: {self.decision.recovery_action}." if self.decision is not None else ""
            hint = f" {self.decision.hint}" if self.decision is not None and self.decision.hint else ""
            raise NoPermitError(f"There is no permit to send this call.{action}{hint}", decision=self.decision)
        if self.spent:
            raise PermitSpentError("This permit was used already; ask for another.", decision=self.decision)
        return self.permit

    def open(self) -> Flow[None]:
        """Record the intent and ask for the first permit."""
        ask = self._ask("POST", "/operations", body=self._intent.body())
        yield from self._for_permit(ask)

    def ask_permit(self) -> Flow[None]:
        """Ask for a further permit."""
        ask = self._ask("POST", f"{self._path}/attempts", body=b"{}")
        yield from self._for_permit(ask)

    def revise(
        self, *, kind: Literal["repair", "refresh", "replan"], payload: Any, field: str | None, reason: str
    ) -> Flow[None]:
        """Record another payload for the same intent. Licenses nothing by itself: ask for a permit afterwards."""
        body = {"kind": kind, "payload": payload, "field": field, "reason": reason}
        ask = self._ask("POST", f"{self._path}/revisions", body=encode(body))
        data = accept((yield from _persist(ask, self._patience)))
        self._learn(data)

    def report(self, body: bytes, *, hurried: bool = False) -> Flow[Decision | None]:
        """Deliver an observation. The same bytes may be delivered any number of times: one answer."""
        if self.permit is None:
            raise NoPermitError("There is no attempt that this could be reported for.", decision=self.decision)
        path = f"{self._path}/attempts/{quote(self.permit.attempt_id, safe='')}/observations"
        patience = HURRIED if hurried else self._patience
        ask = self._ask("POST", path, body=body, timeout=patience.timeout)
        self._learn(accept((yield from _persist(ask, patience))))
        self.reported = True
        return self.decision

    def read(self) -> Flow[Operation]:
        """Read the operation as it stands."""
        operation = yield from read_operation(operation_id=self._intent.operation_id, patience=self._patience)
        self._take(operation)
        return operation

    def wait(self, *, seconds: float) -> Flow[Operation]:
        """Follow the operation until it is settled, the harness's own move (`open`), or the time is up.

        Lost answers and busy servers only cost time.
        """
        until = self._clock.monotonic() + seconds
        lost = 0
        while True:
            left = max(until - self._clock.monotonic(), 0.0)
            hold = int(min(left, LONGEST_WAIT))
            params = {"wait": str(hold)}
            if self.operation is not None:
                params["version"] = str(self.operation.version)
            ask = self._ask("GET", self._path, params=params, timeout=hold + self._patience.timeout)
            asked_ms: int | None = None
            try:
                operation = _operation(accept((yield from _once(ask))))
            except (LostReplyError, RefusedError, UnreachableError) as error:
                if isinstance(error, RefusedError):
                    if error.status < 500 and not isinstance(error, BusyError):
                        raise
                    asked_ms = error.retry_after_ms
                lost += 1
                if left <= 0 and self.operation is None:
                    raise UnreachableError("Ascertain gave no answer in the time allowed.") from error
            else:
                moved = self.operation is None or operation.version != self.operation.version
                self._take(operation)
                if operation.settled or operation.state == "open":
                    return operation
                # A server that answers at once though nothing changed must not be asked in a tight loop.
                lost = 0 if moved or hold > 0 else 1
                if moved:
                    continue
            left = until - self._clock.monotonic()
            if left <= 0:
                if self.operation is None:
                    raise UnreachableError("Ascertain gave no answer in the time allowed.")
                return self.operation
            yield Pause(seconds=min(self._patience.pause_after(tries=max(lost, 1), asked_ms=asked_ms), left))

    @property
    def _path(self) -> str:
        return operation_path(self._intent.operation_id)

    def _ask(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        params: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Ask:
        seconds = timeout if timeout is not None else self._patience.timeout
        return Ask(method=method, path=path, body=body, params=params, timeout=seconds)

    def _for_permit(self, ask: Ask) -> Flow[None]:
        self.permit = None
        self.spent = self.reported = False
        reply = yield from _persist(ask, self._patience)
        try:
            data = accept(reply)
        except RefusedError as refusal:
            if not isinstance(refusal, ConflictError):
                raise
            self.decision = refusal.decision
            if self.operation is None or self.decision is None:
                yield from self.read()
            return
        self._learn(data)
        permit = data.get("permit") if "permit" in data or "attempt_id" not in data else data
        if permit is None:
            return
        self.permit = _parsed(Permit, permit)
        opened_at = _opened_at(self.permit, data) if reply.status == 201 else None
        self.dispatch_until = send_window(permit=self.permit, opened_at=opened_at, reply=reply, clock=self._clock)

    def _learn(self, data: Mapping[str, Any]) -> None:
        """Take in what an answer tells of the operation and of the decision."""
        if "state" in data and "operation_id" in data:
            self._take(_operation(data))
        elif isinstance(data.get("operation"), Mapping):
            self._take(_operation(data["operation"]))
        decision = data if "recovery_action" in data else data.get("decision")
        if isinstance(decision, Mapping):
            self.decision = _parsed(Decision, decision)

    def _take(self, operation: Operation) -> None:
        self.operation = operation
        if operation.decision is not None:
            self.decision = operation.decision


def read_operation(*, operation_id: str, patience: Patience) -> Flow[Operation]:
    """Read one operation as it stands."""
    ask = Ask(method="GET", path=operation_path(operation_id), timeout=patience.timeout)
    return _operation(accept((yield from _persist(ask, patience))))


def operation_path(operation_id: str) -> str:
    """The operation's path below `/api/v1`."""
    return f"/operations/{quote(operation_id, safe=':@~')}"


def encode(value: Any) -> bytes:
    """JSON in ASCII; raises ValueError for NaN and for values that JSON does not have."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")


def send_window(*, permit: Permit, opened_at: datetime | None, reply: Reply, clock: Clock) -> float:
    """Until when may the first byte leave, in monotonic seconds?

    | known                                          | the permit's clock is read from                          |
    | ---------------------------------------------- | -------------------------------------------------------- |
    | when the attempt was opened, and it is new     | its span, counted from before we asked: exact and safe   |
    | the answer's `Date` header (whole seconds)     | that date plus one second, at the moment before we asked |
    | neither                                        | this machine's wall clock                                |
    """
    if opened_at is not None:
        return reply.asked_at + (permit.dispatch_by - opened_at).total_seconds()
    try:
        server_now = parsedate_to_datetime(reply.headers.get("date", ""))
    except (ValueError, TypeError):
        return clock.monotonic() + permit.dispatch_by.timestamp() - clock.wall()
    if server_now.tzinfo is None:
        server_now = server_now.replace(tzinfo=UTC)
    return reply.asked_at + (permit.dispatch_by - server_now - timedelta(seconds=1)).total_seconds()


def accept(reply: Reply) -> Mapping[str, Any]:
    """The `data` of a good answer; raises the exception that the envelope's error stands for."""
    body = reply.body if isinstance(reply.body, Mapping) else {}
    data = body.get("data")
    if 200 <= reply.status < 300 and body.get("ok") is True and isinstance(data, Mapping):
        return data
    error = body.get("error")
    if body.get("ok") is not False or not isinstance(error, Mapping):
        raise UnreachableError(f"Something answered {reply.status}, but not in the words of Ascertain's API.")
    raise _refusal(reply.status, error, data if isinstance(data, Mapping) else {})


def _refusal(status: int, error: Mapping[str, Any], data: Mapping[str, Any]) -> RefusedError:
    code = str(error.get("code", "UNNAMED"))
    kinds: dict[int, type[RefusedError]] = {
        400: InvalidError,
        401: NotAuthenticatedError,
        403: NotAllowedError,
        404: OperationNotFoundError,
        409: OperationMismatchError if code == "OPERATION_MISMATCH" else ConflictError,
        413: InvalidError,
        422: InvalidError,
        429: BusyError,
        503: BusyError,
    }
    decision = data.get("decision")
    retry_after_ms = error.get("retry_after_ms")
    return kinds.get(status, RefusedError)(
        status=status,
        code=code,
        message=str(error.get("message", "")),
        error_class=str(error.get("class", "fatal")),
        retryable=error.get("retryable") is True,
        retry_after_ms=retry_after_ms if isinstance(retry_after_ms, int) else None,
        field=error.get("field") if isinstance(error.get("field"), str) else None,
        hint=error.get("hint") if isinstance(error.get("hint"), str) else None,
        decision=_parsed(Decision, decision) if isinstance(decision, Mapping) else None,
    )


def _once(ask: Ask) -> Flow[Reply]:
    reply = yield ask
    if reply is None:
        raise LostReplyError("The client carried nothing back.")
    return reply


def _persist(ask: Ask, patience: Patience) -> Flow[Reply]:
    """Send the same request again while no answer or only a passing trouble comes back."""
    for tries in range(1, patience.tries + 1):
        asked_ms: int | None = None
        try:
            reply = yield from _once(ask)
        except LostReplyError as lost:
            if tries == patience.tries:
                raise UnreachableError(f"Ascertain gave no answer after {tries} tries: {lost}") from lost.__cause__
        else:
            if reply.status < 500 and reply.status != 429:
                return reply
            if tries == patience.tries:
                return reply
            if isinstance(reply.body, Mapping) and isinstance(reply.body.get("error"), Mapping):
                told = reply.body["error"].get("retry_after_ms")
                asked_ms = told if isinstance(told, int) else None
        yield Pause(seconds=patience.pause_after(tries=tries, asked_ms=asked_ms))
    raise UnreachableError("Ascertain was not asked at all: no tries are allowed.")


def _operation(data: Mapping[str, Any]) -> Operation:
    return _parsed(Operation, data)


M = TypeVar("M", Operation, Permit, Decision)


def _parsed(model: type[M], data: Any) -> M:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise UnreachableError(f"Ascertain's answer is not a {model.__name__.lower()} that we can read.") from error


def _opened_at(permit: Permit, data: Mapping[str, Any]) -> datetime | None:
    stated = (permit.model_extra or {}).get("opened_at")
    attempts = data.get("attempts")
    if stated is None and isinstance(attempts, list):
        for attempt in attempts:
            if isinstance(attempt, Mapping) and attempt.get("attempt_id") == permit.attempt_id:
                stated = attempt.get("opened_at")
    try:
        return Attempt(attempt_id=permit.attempt_id, opened_at=stated).opened_at
    except ValidationError:
        return None
