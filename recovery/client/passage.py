"""How far did the bytes of one call get?

| phase            | reached when                                                 | a failure here proves that |
| ---------------- | ------------------------------------------------------------ | -------------------------- |
| before_dispatch  | nothing was tried                                            | nothing was sent           |
| resolve, connect | the owner's name or address was asked for                    | nothing was sent           |
| tls              | the handshake began                                          | nothing was sent           |
| send             | the first byte of the request was about to be written        | nothing, once bytes_sent > 0 |
| await            | the whole request was written, no answer yet                 | nothing                    |
| after_response   | the answer's head arrived                                    | nothing                    |

`bytes_sent` never says less than what may have left, so that 0 is a proof.
"""

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from recovery.client.errors import TooLateError


class Phase(StrEnum):
    """The words of the wire for how far a call got."""

    BEFORE_DISPATCH = "before_dispatch"
    RESOLVE = "resolve"
    CONNECT = "connect"
    TLS = "tls"
    SEND = "send"
    AWAIT = "await"
    AFTER_RESPONSE = "after_response"


_ORDER = {phase: place for place, phase in enumerate(Phase)}

_REACHED = {
    "connect_tcp.started": Phase.CONNECT,
    "connect_unix_socket.started": Phase.CONNECT,
    "start_tls.started": Phase.TLS,
    "send_request_headers.started": Phase.SEND,
    "send_request_body.complete": Phase.AWAIT,
    "receive_response_headers.complete": Phase.AFTER_RESPONSE,
}
"""Trace events of the HTTP engine, without the prefix that names its part (httpcore2 2.16, `extensions["trace"]`)."""


@dataclass(slots=True, kw_only=True)
class Passage:
    """One call's way to the owner and back, as it happens. Times are monotonic seconds."""

    clock: Callable[[], float]
    dispatch_by: float
    """After this no first byte is written."""
    timeout: float
    """Seconds for the whole call, counted from `started_at`."""
    request_bytes: int
    """Head and body as they go on the wire."""
    started_at: float
    phase_reached: Phase = Phase.BEFORE_DISPATCH
    bytes_counted: bool = False
    """True when our own transport counts what is written; a foreign one tells only the phases."""
    written: int = 0
    requests: int = 0
    connections: int = 0

    @property
    def phase(self) -> Phase | None:
        """The furthest phase; None when several requests went out and no single answer is true."""
        return self.phase_reached if self.requests <= 1 else None

    @property
    def bytes_sent(self) -> int | None:
        """Bytes that may have left; None when they went out uncounted."""
        if self.bytes_counted or self.nothing_sent:
            return self.written
        return None

    @property
    def nothing_sent(self) -> bool:
        """True only when not one byte of the request can have left."""
        if self.bytes_counted:
            return self.written == 0
        return self.requests == 0

    @property
    def reused_socket(self) -> bool:
        """A request went out on a connection that was there before this call."""
        return self.requests > self.connections

    def reach(self, phase: Phase) -> None:
        """Move on, never back."""
        if _ORDER[phase] > _ORDER[self.phase_reached]:
            self.phase_reached = phase

    def refuse_when_late(self) -> None:
        """Raise TooLateError unless the first byte may still be written."""
        if self.requests == 0 and self.clock() >= self.dispatch_by:
            raise TooLateError("The permit's time to send has passed; nothing was sent.")

    def remaining(self) -> float:
        """Seconds left of the whole call, never below zero."""
        return max(self.started_at + self.timeout - self.clock(), 0.0)

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Note one event of the HTTP engine."""
        name = event.partition(".")[2]
        if name in ("connect_tcp.complete", "connect_unix_socket.complete"):
            self.connections += 1
        if name == "send_request_headers.started":
            self.refuse_when_late()
            self.requests += 1
        # A name that does not resolve fails inside connect_tcp; the engine has no event of its own for it.
        if name in _REACHED:
            self.reach(_REACHED[name])
        if name == "connect_tcp.failed" and _unresolved(info.get("exception")):
            self.phase_reached = Phase.RESOLVE

    async def atrace(self, event: str, info: Mapping[str, Any]) -> None:
        """`trace` in the form that the asynchronous engine calls."""
        self.trace(event, info)


def _unresolved(exception: BaseException | None) -> bool:
    while exception is not None:
        if isinstance(exception, socket.gaierror):
            return True
        exception = exception.__cause__ or exception.__context__
    return False
