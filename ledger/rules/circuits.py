"""May an owner be asked now, and what does its answer, or its silence, change?

| circuit   | what happens                                            | then                                              |
| --------- | ------------------------------------------------------- | ------------------------------------------------- |
| closed    | it answers                                              | closed, nothing counted                           |
| closed    | overloaded, fewer than five times in a row              | closed, one more counted                          |
| closed    | overloaded for the fifth time in a row                  | open                                              |
| any       | it says itself how long nobody should ask               | open until then, and never for less               |
| open      | before its moment                                       | nobody asks                                       |
| open      | its moment has come                                     | half_open: one question finds out                 |
| half_open | that question is answered                               | closed; what waits comes back spread over time    |
| half_open | that question meets an overloaded owner                 | open, for twice as long                           |
| half_open | whoever asked died                                      | its place lapses, and another question finds out  |
| open      | an answer comes to a question from before               | stays open: its moment shows                      |

"Overloaded" is: it cannot be reached, does not answer in time, answers 5xx or 429. That an owner knows nothing of an
operation, or refuses who we are, is an answer. Whatever the circuit says, no operation's budget is touched by it.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

OPENS_AFTER: Final = 5
"""Overloaded replies in a row."""
FIRST_WAIT: Final = timedelta(seconds=2)
LONGEST_WAIT: Final = timedelta(minutes=2)
"""Between two questions that find out, when the owner does not say."""
LONGEST_ASKED: Final = timedelta(hours=24)
"""An owner that asks for more is asked once a day."""
PROVEN_FOR: Final = timedelta(seconds=60)
"""So long after an answer an owner is taken to be well, and asked up to its limit at once. Later, one question goes ahead
of the others."""


class CircuitState(StrEnum):
    """Whether an owner is asked."""

    CLOSED = "closed"
    """It is asked."""
    OPEN = "open"
    """Nobody asks until its moment."""
    HALF_OPEN = "half_open"
    """One question at a time finds out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Circuit:
    """What asking an owner has shown lately."""

    state: CircuitState = CircuitState.CLOSED
    failures: int = 0
    """Overloaded replies in a row."""
    opened_at: datetime | None = None
    asks_again_at: datetime | None = None
    """Of an open circuit: when one question finds out."""
    last_success_at: datetime | None = None
    paused_until: datetime | None = None
    """Until when a person has paused it."""


CLOSED: Final = Circuit()


def after_reply(
    circuit: Circuit, *, overloaded: bool, now: datetime, roll: float, asked: timedelta | None = None
) -> Circuit:
    """The circuit after one question. `asked`: how long the owner wants nobody to ask, which counts only when it is
    overloaded. `roll` in [0, 1) spreads the wait by a fifth to either side, so that several of us do not come at once."""
    if not overloaded:
        if circuit.state is CircuitState.OPEN:
            return replace(circuit, last_success_at=now)
        return replace(
            circuit, state=CircuitState.CLOSED, failures=0, opened_at=None, asks_again_at=None, last_success_at=now
        )
    if circuit.state is CircuitState.OPEN:
        # A question from before it opened. It tells nothing new, but a longer wait that it brings is kept.
        until = now + min(asked, LONGEST_ASKED) if asked else None
        later = until is not None and (circuit.asks_again_at is None or until > circuit.asks_again_at)
        return replace(circuit, asks_again_at=until) if later else circuit
    failures = circuit.failures + 1
    if circuit.state is CircuitState.CLOSED and failures < OPENS_AFTER and asked is None:
        return replace(circuit, failures=failures)
    wait = max(_wait(failures=failures, roll=roll), min(asked, LONGEST_ASKED) if asked else timedelta(0))
    return replace(
        circuit,
        state=CircuitState.OPEN,
        failures=failures,
        opened_at=circuit.opened_at or now,
        asks_again_at=now + wait,
    )


def at_most(circuit: Circuit, *, most_at_once: int, now: datetime) -> int:
    """How many questions may be open at the owner now: 0 while it is paused or its circuit open; 1 while one question
    finds out, and when nothing was heard from it for a while."""
    if not_before(circuit, now=now) is not None:
        return 0
    proven = circuit.last_success_at is not None and now - circuit.last_success_at < PROVEN_FOR
    if circuit.state is not CircuitState.CLOSED or not proven:
        return min(1, most_at_once)
    return most_at_once


def not_before(circuit: Circuit, *, now: datetime) -> datetime | None:
    """Until when nobody may ask; None when it may be asked now."""
    ends = [circuit.paused_until, circuit.asks_again_at if circuit.state is CircuitState.OPEN else None]
    later = [end for end in ends if end is not None and end > now]
    return max(later, default=None)


def asked_now(circuit: Circuit, *, now: datetime) -> Circuit:
    """The circuit when a question is about to be asked: an open one whose moment has come is half open."""
    if circuit.state is CircuitState.OPEN and not_before(circuit, now=now) is None:
        return replace(circuit, state=CircuitState.HALF_OPEN)
    return circuit


def spread_over(*, waiting: int, most_at_once: int, per_second: float | None, answer_seconds: float) -> timedelta:
    """Over how long `waiting` questions are spread so that the owner meets no more at a time than it can answer: each
    takes about `answer_seconds`, `most_at_once` run side by side, and no more than `per_second` begin in a second.
    At least a second, at most five minutes."""
    seconds = waiting * answer_seconds / max(most_at_once, 1)
    if per_second:
        seconds = max(seconds, waiting / per_second)
    return timedelta(seconds=min(max(seconds, 1.0), 300.0))


def _wait(*, failures: int, roll: float) -> timedelta:
    step = max(failures - OPENS_AFTER, 0)
    # 2^20 s is far above the longest wait; a larger exponent would only overflow.
    wait = min(FIRST_WAIT * (1 << min(step, 20)), LONGEST_WAIT)
    return wait * (0.8 + 0.4 * roll)
