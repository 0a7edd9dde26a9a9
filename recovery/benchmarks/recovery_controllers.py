"""What does a controller do with a failure, told in each of three formats?

| format              | transient            | validation                        | permission | not found | no answer          |
| ------------------- | -------------------- | --------------------------------- | ---------- | --------- | ------------------ |
| generic message     | repeat               | repeat                            | repeat     | repeat    | repeat             |
| error code only     | repeat               | repair                            | stop       | stop      | TRANSIENT: repeat  |
| actionable envelope | repeat if retryable  | repair if field and suggestion, else stop | authorize | stop  | TRANSIENT, retryable: repeat |

Each makes one recovery attempt at most and then says "done" or "failed"; none of them can say "unknown". Two careful
variants of the envelope are run beside them where answers get lost: one that marks a timeout as not retryable, and one
that looks once at the owner before it repeats.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from recovery.benchmarks.recovery_cases import (
    ANSWER_TAKES,
    PERMANENT,
    TIMEOUT,
    Answer,
    Failure,
    Operation,
    Owner,
    Repair,
)

WAIT: Final = 1.0
"""Seconds before a repeat."""


class Strategy(StrEnum):
    """Who decides, by what it is told."""

    GENERIC = "generic message"
    CODE = "error code only"
    ENVELOPE = "actionable envelope"
    NO_REPEAT = "envelope, no repeat after a timeout"
    READ_BACK = "envelope, one look before a repeat"
    OURS = "Ascertain"


class Said(StrEnum):
    """What is reported of the operation in the end."""

    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How one operation ended under one strategy."""

    said: Said
    requests: int
    failed_repeats: int
    """Recovery attempts that failed as well, or whose answer was lost."""
    permanent_repeats: int
    """Of failures that no repeat could mend."""
    effects: int
    lost: bool
    """Whether a request or an answer was lost on the way."""
    seconds: float
    """From the first request to the last word."""
    asked_a_person: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolError:
    """The actionable envelope, as far as the router reads it."""

    code: Failure
    retryable: bool
    field: str | None = None
    suggestion: str | None = None


class Route(StrEnum):
    """Where the envelope's router sends a failure."""

    RETRY = "retry"
    REPAIR = "repair"
    AUTHORIZE = "authorize"
    STOP = "stop"


def route(error: ToolError) -> Route:
    """The router of the actionable envelope."""
    if error.code is Failure.TRANSIENT and error.retryable:
        return Route.RETRY
    if error.code is Failure.VALIDATION and error.field and error.suggestion:
        return Route.REPAIR
    return Route.AUTHORIZE if error.code is Failure.PERMISSION else Route.STOP


def control(strategy: Strategy, operation: Operation, *, loses: bool) -> Ended:
    """Runs one operation under one of the formats."""
    owner = Owner(operation, loses=loses)
    first = owner.receive(at=0.0)
    clock = _took(first)
    if not first.lost and first.failure is None:
        return _ended(owner, Said.DONE, clock)
    step = _next(strategy, first)
    if step is Route.RETRY and first.lost and strategy is Strategy.READ_BACK:
        found = owner.asked(at=clock)
        clock += ANSWER_TAKES
        if found:
            return _ended(owner, Said.DONE, clock)
    if step not in (Route.RETRY, Route.REPAIR):
        return _ended(owner, Said.FAILED, clock)
    clock += WAIT
    repair = None
    if step is Route.REPAIR:
        repair = Repair.CODE if strategy is Strategy.CODE else Repair.FIELD_AND_HINT
    second = owner.receive(at=clock, repair=repair)
    clock += _took(second)
    well = not second.lost and second.failure is None
    permanent = first.failure in PERMANENT
    return _ended(owner, Said.DONE if well else Said.FAILED, clock, failed=not well, permanent=permanent)


def _next(strategy: Strategy, seen: Answer) -> Route:
    if strategy is Strategy.GENERIC:
        return Route.RETRY
    # A tool that speaks in codes has none but TRANSIENT for "no answer came".
    code = seen.failure or Failure.TRANSIENT
    if strategy is Strategy.CODE:
        return {Failure.TRANSIENT: Route.RETRY, Failure.VALIDATION: Route.REPAIR}.get(code, Route.STOP)
    told = code is Failure.VALIDATION
    return route(
        ToolError(
            code=code,
            retryable=code is Failure.TRANSIENT and not (seen.lost and strategy is Strategy.NO_REPEAT),
            field="due" if told else None,
            suggestion="2026-12-04" if told else None,
        )
    )


def _took(answer: Answer) -> float:
    return TIMEOUT if answer.lost else ANSWER_TAKES


def _ended(owner: Owner, said: Said, clock: float, *, failed: bool = False, permanent: bool = False) -> Ended:
    return Ended(
        said=said,
        requests=owner.requests,
        failed_repeats=int(failed),
        permanent_repeats=int(permanent),
        effects=owner.effects,
        lost=owner.lost > 0,
        seconds=clock,
    )
