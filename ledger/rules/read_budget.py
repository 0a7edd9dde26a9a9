"""May this be read now, when, and how long may it take?

The first line that holds is the answer:

| no, because                                             | reason                 |
| ------------------------------------------------------- | ---------------------- |
| it would be read as somebody else, or in a wider scope  | another_account        |
| the time for all of it has ended                        | deadline               |
| the attempts for all of it are used up                  | budget                 |
| the same read is still out                              | in_flight              |
| the same read was answered in full                      | answered               |
| the same read was refused, or a repeat cannot mend it   | refused                |
| the same read was repeated already                      | retried                |
| the wait that the source asked for outlasts the time    | wait_outlasts_deadline |

Otherwise yes: after the wait, with a timeout that ends with the time. A wait is never shortened, and every real
request counts, an SDK's own repeats too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from ledger.rules.payload import digest
from ledger.rules.reads import ReadOutcome, ReadResult


class Stop(StrEnum):
    """Why nothing more is read."""

    ANOTHER_ACCOUNT = "another_account"
    DEADLINE = "deadline"
    BUDGET = "budget"
    IN_FLIGHT = "in_flight"
    ANSWERED = "answered"
    REFUSED = "refused"
    RETRIED = "retried"
    WAIT_OUTLASTS_DEADLINE = "wait_outlasts_deadline"


class Came(StrEnum):
    """What came of one dispatch."""

    NOTHING_YET = "nothing_yet"
    ALL = "all"
    """Everything that was asked for, or a completed lookup with no match."""
    TEMPORARY = "temporary"
    """Nothing or a part, for a reason that may pass: a timeout."""
    FINAL = "final"
    """Nothing or a part, for a reason that another try does not mend: refused, malformed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """For one task, over all its reads."""

    attempts: int = 6
    within: timedelta = timedelta(seconds=45)
    retries: int = 1
    """Of one logical read."""
    timeout: timedelta = timedelta(seconds=10)
    """Of one dispatch, while time is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One logical read: the same tool with the same arguments. A page with another cursor is another read."""

    tool: str
    arguments_digest: str

    @classmethod
    def of(cls, *, tool: str, arguments: Mapping[str, Any]) -> "Read":
        """The read of a tool with these arguments, whatever the order of their names."""
        return cls(tool=tool, arguments_digest=digest(dict(arguments)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatched:
    """One dispatch of the trace. It stays as it was, whatever a later one brings."""

    read: Read
    came: Came
    requests: int = 1
    """Real requests behind it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Everything that was read for one task, oldest first."""

    began_at: datetime
    principal: str
    scope: str
    """Whose data may be read. Neither changes while the task lasts."""
    limits: Limits = Limits()
    dispatched: tuple[Dispatched, ...] = ()

    @property
    def attempts_left(self) -> int:
        return max(self.limits.attempts - sum(each.requests for each in self.dispatched), 0)

    @property
    def ends_at(self) -> datetime:
        return self.began_at + self.limits.within


@dataclass(frozen=True, slots=True, kw_only=True)
class Go:
    """It may be read."""

    not_before: datetime
    timeout: timedelta
    """Of this dispatch; it ends with the time for all of it at the latest."""
    repeats: bool


def may_read(
    *, trace: Trace, read: Read, principal: str, scope: str, now: datetime, asked_wait: timedelta | None = None
) -> Go | Stop:
    """Asked before every dispatch, a repeat and a page too. `asked_wait` is what the source asked for, if it did."""
    if principal != trace.principal or scope != trace.scope:
        return Stop.ANOTHER_ACCOUNT
    if now >= trace.ends_at:
        return Stop.DEADLINE
    if trace.attempts_left == 0:
        return Stop.BUDGET
    earlier = [each for each in trace.dispatched if each.read == read]
    if earlier and (refusal := _refused_repeat(earlier, retries=trace.limits.retries)) is not None:
        return refusal
    at = now + max(asked_wait or timedelta(0), timedelta(0))
    if at >= trace.ends_at:
        return Stop.WAIT_OUTLASTS_DEADLINE
    return Go(not_before=at, timeout=min(trace.limits.timeout, trace.ends_at - at), repeats=bool(earlier))


def came_of(result: ReadResult) -> Came:
    """What came of a dispatch, by its result."""
    if result.outcome in (ReadOutcome.OK, ReadOutcome.NO_MATCH):
        return Came.ALL
    return Came.TEMPORARY if result.may_pass else Came.FINAL


def _refused_repeat(earlier: list[Dispatched], *, retries: int) -> Stop | None:
    last = earlier[-1].came
    if last is Came.NOTHING_YET:
        return Stop.IN_FLIGHT
    if last is Came.ALL:
        return Stop.ANSWERED
    if last is Came.FINAL:
        return Stop.REFUSED
    return Stop.RETRIED if len(earlier) > retries else None
