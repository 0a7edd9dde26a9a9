"""What was seen of one call, in the shapes of the wire (`http` and `exception`).

Credentials stay with the harness: of the request only its method, path and the headers that shape its meaning are told.
"""

import errno
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from recovery.client.passage import Passage, Phase

BODY_LIMIT = 256 * 1024
"""Bytes of the owner's answer that a report carries; the API takes bodies up to 1 MiB."""

_TOLD_REQUEST_HEADERS = frozenset(
    {
        "content-type",
        "accept",
        "idempotency-key",
        "if-match",
        "if-none-match",
        "if-modified-since",
        "if-unmodified-since",
        "prefer",
        "content-length",
        "traceparent",
    }
)
_KEPT_BACK_ANSWER_HEADERS = frozenset({"set-cookie", "authorization", "proxy-authorization", "authentication-info"})
_LARGEST_EXACT = 2**53 - 1
"""Integers beyond this are not the same number in every JSON reader (RFC 8785, section 3.2.2.3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What went out, as far as a report tells it."""

    method: str
    path: str
    headers: Mapping[str, str]
    idempotency_key: str | None

    def told(self, *, permit_headers: Mapping[str, str]) -> dict[str, Any]:
        """The request for a report. A query string may hold secrets and stays here."""
        allowed = _TOLD_REQUEST_HEADERS | {name.lower() for name in permit_headers}
        headers = {name.lower(): value for name, value in self.headers.items() if name.lower() in allowed}
        return {
            "method": self.method,
            "path": self.path,
            "headers": headers,
            "idempotency_key": self.idempotency_key,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back, perhaps cut."""

    status: int
    headers: Mapping[str, str]
    content: bytes
    truncated: bool = False
    """We stopped reading; the owner did not cut it."""

    def told(self) -> dict[str, Any]:
        """Status, headers and body for a report."""
        headers = {
            name.lower(): value for name, value in self.headers.items() if name.lower() not in _KEPT_BACK_ANSWER_HEADERS
        }
        told: dict[str, Any] = {"status": self.status, "headers": headers, "body": readable(self.content[:BODY_LIMIT])}
        if self.truncated or len(self.content) > BODY_LIMIT:
            told["body_truncated"] = True
        return told


def http(
    *, answer: Answer, request: Mapping[str, Any], elapsed_ms: int, observed_at: str, network_attempts: int
) -> dict[str, Any]:
    """The owner, or somebody on the way, answered."""
    return {
        "kind": "http",
        "request": dict(request),
        **answer.told(),
        "redirects": [],
        "elapsed_ms": elapsed_ms,
        "observed_at": observed_at,
        "network_attempts": network_attempts,
    }


def failure(
    *,
    error: BaseException,
    passage: Passage | None,
    request: Mapping[str, Any] | None,
    answer: Answer | None,
    observed_at: str,
    phase: Phase | None = None,
    network_attempts: int | None = None,
) -> dict[str, Any]:
    """The call ended with an exception. With a passage, phase and bytes are measured; else only what is stated."""
    told: dict[str, Any] = {
        "kind": "exception",
        "exception": type(error).__name__,
        "message": _safe_text(str(error))[:500],
        "phase": phase,
        "observed_at": observed_at,
    }
    causes = list(_causes(error))
    number = next((one.errno for one in causes if isinstance(one, OSError) and one.errno in errno.errorcode), None)
    if number is not None:
        told["errno"] = errno.errorcode[number]
    if len(causes) > 1:
        told["cause"] = type(causes[-1]).__name__
    if isinstance(error, KeyboardInterrupt):
        told["cancelled_by"] = "user"
    elif not isinstance(error, Exception):
        # Cancelled from outside: asyncio, trio, a generator's close, an exiting interpreter.
        told["cancelled_by"] = "caller"
    if passage is not None:
        told["phase"] = passage.phase
        told["request_bytes"] = passage.request_bytes
        if passage.bytes_sent is not None:
            told["bytes_sent"] = passage.bytes_sent
        told["reused_socket"] = passage.reused_socket
        network_attempts = max(passage.requests, 0)
    elif phase is Phase.BEFORE_DISPATCH:
        told["bytes_sent"] = 0
        network_attempts = 0
    if network_attempts is not None:
        told["network_attempts"] = network_attempts
    if request is not None:
        told["request"] = dict(request)
    if answer is not None:
        told["response"] = answer.told()
    return told


def readable(content: bytes) -> Any:
    """The body as JSON where that is exact and acceptable to the API, else as text.

    Integers beyond 2^53−1 become their decimal text; a body with NaN, duplicate members or lone surrogates stays text.
    """
    text = content.decode("utf-8", errors="replace")
    if not text.strip():
        return None if not content else text
    try:
        value = json.loads(
            text, parse_int=_exact_integer, parse_constant=_refuse_constant, object_pairs_hook=_distinct_members
        )
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return _safe_text(text)
    return value


def _exact_integer(digits: str) -> int | str:
    if len(digits) > 17:
        return digits
    number = int(digits)
    return number if abs(number) <= _LARGEST_EXACT else digits


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _distinct_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("duplicate members")
    return members


def _safe_text(text: str) -> str:
    return text.encode("utf-8", errors="replace").decode().replace("\x00", "�")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The exception and what lies behind it, outermost first; of a group, its first member."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        if isinstance(current, BaseExceptionGroup):
            current = current.exceptions[0]
        else:
            # httpcore raises "from None" and so hides the socket's own error, which is the one worth telling.
            current = current.__cause__ or current.__context__
