"""How long did the answer ask us to wait?

| where | written as | source |
| --- | --- | --- |
| `Retry-After`, `Backoff` | seconds, or an HTTP date (past = 0) | RFC 9110 10.2.3; Kinto |
| `retry-after-ms`, `x-ms-retry-after-ms` | milliseconds | Azure SDK guidelines |
| body `retry_after`, `retryAfter` | seconds | Discord, Slack, Telegram |
| body `retry_after_ms`, `retryAfterMs` | milliseconds | Matrix; MCP draft registry |
| body `pollIntervalMs`, a task's `pollInterval` | milliseconds | MCP tasks |
| body `details.retryAfterSeconds` | seconds | Kubernetes Status |
| body `retryDelay` of google.rpc.RetryInfo | `3.5s` | google.rpc |
| `x-ratelimit-reset` and its kin | epoch seconds, or seconds when small | GitHub; RateLimit drafts |
| `RateLimit: …;t=30` | seconds, where nothing is left (`r=0`) | RateLimit draft |

The rows above the last two say how long to wait; of several of them the longest counts. The last two only describe a
limit, so they count when the limiter refused and no row above speaks. An HTTP date is read by the owner's own `Date`
when it sent one, since our clock may be off. A wait is never negative and never shortened.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

LONGEST_MS: Final = 365 * 24 * 3600 * 1000
"""A wait of more than a year is not a wait but a slip; it is taken as a year."""

_WAIT_MEMBERS: Final = (("retry_after", 1000), ("retryAfter", 1000), ("retry_after_ms", 1), ("retryAfterMs", 1))
_WAITS_IN_MEMBERS: Final = frozenset(
    {"pollIntervalMs", "pollInterval", "details", *(name for name, _ in _WAIT_MEMBERS)}
)
_WAITS_IN_HEADERS: Final = frozenset({"retry-after", "backoff", "retry-after-ms", "x-ms-retry-after-ms"})
_LIMIT_RESETS: Final = ("x-ratelimit-reset", "x-rate-limit-reset", "ratelimit-reset")
_RATELIMIT_LEFT = re.compile(r";\s*r=(\d{1,15})")
_RATELIMIT_RESET = re.compile(r";\s*t=(\d{1,15})")
_PLAIN_NUMBER = re.compile(r"\s*-?\d+(\.\d+)?\s*", re.ASCII)
_PLACES: Final = ("error", "data", "parameters", "extensions", "task")
"""Objects inside a body in which a wait may stand (Telegram: `parameters`; JSON-RPC: `error.data`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A wait as we understood it, and as it was written."""

    milliseconds: int
    raw: str


def wait_of(
    *,
    headers: Mapping[str, Any],
    body: Any,
    observed_at: datetime | None,
    now: datetime,
    refused_by_limiter: bool = False,
) -> Wait | None:
    """The wait that an answer asks for, or None. Header names are in lower case. Malformed values are passed over."""
    said = [] if _WAITS_IN_HEADERS.isdisjoint(headers) else list(_in_headers(headers, observed_at or now))
    if isinstance(body, dict):
        said += _in_body(body)
    if not said and refused_by_limiter:
        said = list(_limit_resets(headers, observed_at or now))[:1]
    return _longest(said)


def wait_in(body: Any, *, headers: Mapping[str, Any] | None = None) -> Wait | None:
    """The wait that one object asks for in its own members, or beside them in its headers (seconds alone)."""
    said = list(_in_body(body))
    for name, value in list((headers or {}).items())[:100]:
        if str(name).lower() == "retry-after" and (seconds := _number(value)) is not None:
            said.append(_wait(seconds * 1000, f"retry-after: {value}"))
    return _longest(said)


def _longest(said: list[Wait]) -> Wait | None:
    return said[0] if len(said) == 1 else max(said, key=lambda wait: wait.milliseconds, default=None)


def moment(value: Any) -> datetime | None:
    """An RFC 3339 time with an offset, or None."""
    if not isinstance(value, str) or len(value) > 64:
        return None
    try:
        at = datetime.fromisoformat(value)
        # The ends of the calendar have no UTC form.
        return at.astimezone(UTC) if at.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def _here(headers: Mapping[str, Any], otherwise: datetime) -> datetime:
    """The owner's own clock, where it told the time."""
    return _date(headers.get("date")) or otherwise


def _in_headers(headers: Mapping[str, Any], otherwise: datetime) -> Iterator[Wait]:
    for name in ("retry-after", "backoff"):
        written = headers.get(name)
        if written is None:
            continue
        seconds = _number(written)
        if seconds is not None:
            yield _wait(seconds * 1000, f"{name}: {written}")
        elif (at := _date(written)) is not None:
            yield _wait((at - _here(headers, otherwise)).total_seconds() * 1000, f"{name}: {written}")
    for name in ("retry-after-ms", "x-ms-retry-after-ms"):
        written = headers.get(name)
        milliseconds = _number(written)
        if milliseconds is not None:
            yield _wait(milliseconds, f"{name}: {written}")


def _in_body(body: Any) -> Iterator[Wait]:
    for place, holder in _holders(body):
        if _WAITS_IN_MEMBERS.isdisjoint(holder):
            continue
        for name, factor in _WAIT_MEMBERS:
            written = holder.get(name)
            if written is None:
                continue
            amount = _number(written)
            if amount is not None:
                yield _wait(amount * factor, f"{place}{name}: {written}")
        poll = holder.get("pollIntervalMs", holder.get("pollInterval") if "taskId" in holder else None)
        if (milliseconds := _number(poll)) is not None:
            yield _wait(milliseconds, f"{place}pollInterval: {poll}")
        details = holder.get("details")
        if isinstance(details, dict) and (seconds := _number(details.get("retryAfterSeconds"))) is not None:
            yield _wait(seconds * 1000, f"{place}details.retryAfterSeconds: {details['retryAfterSeconds']}")
        if isinstance(details, list):
            for detail in details[:20]:
                delay = (
                    _delay(detail.get("retryDelay", detail.get("retry_delay"))) if isinstance(detail, dict) else None
                )
                if delay is not None:
                    yield _wait(delay * 1000, f"{place}details.retryDelay: {delay}s")


def _delay(value: Any) -> float | None:
    """The seconds of a protobuf Duration, in its JSON form or by its fields."""
    if isinstance(value, dict):
        seconds, nanos = _number(value.get("seconds", 0)), _number(value.get("nanos", 0))
        return None if seconds is None or nanos is None else seconds + nanos / 1e9
    return _number(value[:-1]) if isinstance(value, str) and value.endswith("s") else None


def _holders(body: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if not isinstance(body, dict):
        return
    yield "body.", body
    for name in _PLACES:
        inner = body.get(name)
        if isinstance(inner, dict):
            yield f"body.{name}.", inner
            deeper = inner.get("data")
            if isinstance(deeper, dict):
                yield f"body.{name}.data.", deeper
    errors = body.get("errors")
    if isinstance(errors, list) and errors and isinstance(errors[0], dict):
        yield "body.errors[0].", errors[0]
        extensions = errors[0].get("extensions")
        if isinstance(extensions, dict):
            yield "body.errors[0].extensions.", extensions


def _limit_resets(headers: Mapping[str, Any], otherwise: datetime) -> Iterator[Wait]:
    for name in _LIMIT_RESETS:
        written = headers.get(name)
        value = _number(written)
        if value is None:
            continue
        if value > 1e11:  # epoch milliseconds
            value /= 1000
        seconds = value - _here(headers, otherwise).timestamp() if value > 1e9 else value
        yield _wait(seconds * 1000, f"{name}: {written}")
    written = headers.get("ratelimit")
    if isinstance(written, str):
        left, reset = _RATELIMIT_LEFT.search(written[:500]), _RATELIMIT_RESET.search(written[:500])
        if reset is not None and (left is None or int(left[1]) == 0):
            yield _wait(int(reset[1]) * 1000, f"ratelimit: {written[:200]}")


def _wait(milliseconds: float, raw: str) -> Wait:
    return Wait(milliseconds=max(0, min(math.ceil(milliseconds), LONGEST_MS)), raw=raw[:200])


def _number(value: Any) -> float | None:
    if value is None or isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    if isinstance(value, str):
        if value.isascii() and value.isdigit() and len(value) < 16:
            return float(value)
        if len(value) > 32 or _PLAIN_NUMBER.fullmatch(value) is None:
            return None
    try:
        number = float(value)
    except OverflowError:
        return None
    # Huge values stay finite in what follows; they are clamped anyway.
    return max(-1e15, min(number, 1e15)) if math.isfinite(number) else None


def _date(value: Any) -> datetime | None:
    if not isinstance(value, str) or not 8 <= len(value) <= 64:
        return None
    try:
        at = parsedate_to_datetime(value)
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
