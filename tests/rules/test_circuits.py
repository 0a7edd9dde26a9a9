"""May an owner be asked, and what does its answer change? A row a reason."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.rules.circuits import (
    CLOSED,
    FIRST_WAIT,
    LONGEST_ASKED,
    LONGEST_WAIT,
    OPENS_AFTER,
    PROVEN_FOR,
    Circuit,
    CircuitState,
    after_reply,
    asked_now,
    at_most,
    not_before,
    spread_over,
)

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
MIDDLE = 0.5
"""A roll that spreads nothing."""


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


WELL = Circuit(last_success_at=NOW - seconds(1))
SHAKY = replace(WELL, failures=OPENS_AFTER - 1)
OPEN = Circuit(
    state=CircuitState.OPEN,
    failures=5,
    opened_at=NOW - seconds(9),
    asks_again_at=NOW + seconds(2),
    last_success_at=None,
)
DUE = replace(OPEN, asks_again_at=NOW)
HALF = replace(DUE, state=CircuitState.HALF_OPEN)
PAUSED = replace(WELL, paused_until=NOW + seconds(60))


@pytest.mark.parametrize(
    ("circuit", "overloaded", "asked", "state", "failures", "opens_for", "why"),
    [
        (CLOSED, False, None, "closed", 0, None, "an answer is an answer"),
        (CLOSED, True, None, "closed", 1, None, "once is no outage"),
        (SHAKY, False, None, "closed", 0, None, "an answer in between begins the count again"),
        (SHAKY, True, None, "open", 5, FIRST_WAIT, "five in a row are one"),
        (CLOSED, True, seconds(30), "open", 1, seconds(30), "the owner itself says how long: the first time counts"),
        (CLOSED, True, seconds(1), "open", 1, FIRST_WAIT, "never for less than our own wait"),
        (CLOSED, True, timedelta(days=400), "open", 1, LONGEST_ASKED, "whoever asks for a year is asked once a day"),
        (HALF, False, None, "closed", 0, None, "one question found out that it answers"),
        (HALF, True, None, "open", 6, FIRST_WAIT * 2, "it does not: twice as long"),
        (HALF, True, seconds(600), "open", 6, seconds(600), "its own wait goes before ours"),
        (replace(HALF, failures=40), True, None, "open", 41, LONGEST_WAIT, "never longer than the longest"),
        (OPEN, False, None, "open", 5, seconds(2), "an answer to a question from before: its moment shows"),
        (OPEN, True, None, "open", 5, seconds(2), "a failure from before tells nothing new"),
        (OPEN, True, seconds(90), "open", 5, seconds(90), "unless it brings a longer wait"),
        (OPEN, True, seconds(1), "open", 5, seconds(2), "a wait is never shortened"),
    ],
)
def test_what_a_reply_changes(
    circuit: Circuit,
    overloaded: bool,
    asked: timedelta | None,
    state: str,
    failures: int,
    opens_for: timedelta | None,
    why: str,
) -> None:
    after = after_reply(circuit, overloaded=overloaded, now=NOW, roll=MIDDLE, asked=asked)
    told = (after.state.value, after.failures, after.asks_again_at - NOW if after.asks_again_at else None)
    assert told == (state, failures, opens_for), why
    if not overloaded:
        assert after.last_success_at == NOW


@pytest.mark.parametrize(
    ("circuit", "allowed", "until", "why"),
    [
        (WELL, 4, None, "it answers: up to its limit"),
        (CLOSED, 1, None, "nobody has heard of it yet: one goes ahead"),
        (replace(WELL, last_success_at=NOW - PROVEN_FOR), 1, None, "nor for a while"),
        (SHAKY, 4, None, "failures that may be chance change nothing"),
        (OPEN, 0, OPEN.asks_again_at, "its circuit is open"),
        (DUE, 1, None, "its moment has come: one question finds out"),
        (HALF, 1, None, "that one may have died; its place is free again then"),
        (PAUSED, 0, PAUSED.paused_until, "somebody paused it"),
        (replace(PAUSED, paused_until=NOW), 4, None, "the pause has ended"),
        (replace(OPEN, paused_until=NOW + seconds(60)), 0, NOW + seconds(60), "the later of the two"),
    ],
)
def test_how_many_may_ask(circuit: Circuit, allowed: int, until: datetime | None, why: str) -> None:
    assert at_most(circuit, most_at_once=4, now=NOW) == allowed, why
    assert not_before(circuit, now=NOW) == until, why


def test_an_open_circuit_is_half_open_once_its_moment_has_come() -> None:
    assert asked_now(OPEN, now=NOW) == OPEN
    assert asked_now(DUE, now=NOW).state is CircuitState.HALF_OPEN
    assert asked_now(WELL, now=NOW) == WELL
    assert asked_now(replace(DUE, paused_until=NOW + seconds(1)), now=NOW).state is CircuitState.OPEN


@pytest.mark.parametrize(
    ("waiting", "most_at_once", "per_second", "answer", "expected", "why"),
    [
        (0, 4, None, 0.2, 1, "never all at once"),
        (100, 4, None, 0.2, 5, "100 × 0.2 s, four at a time"),
        (100, 4, 2.0, 0.2, 50, "its rate allows less"),
        (100, 4, 1000.0, 0.2, 5, "its rate allows more, its places do not"),
        (10_000, 1, None, 5.0, 300, "nobody waits longer than five minutes for the next look"),
    ],
)
def test_over_how_long_those_who_wait_come_back(
    waiting: int, most_at_once: int, per_second: float | None, answer: float, expected: float, why: str
) -> None:
    over = spread_over(waiting=waiting, most_at_once=most_at_once, per_second=per_second, answer_seconds=answer)
    assert over.total_seconds() == pytest.approx(expected), why


@given(
    replies=st.lists(st.tuples(st.booleans(), st.none() | st.integers(1, 100_000), st.floats(0, 0.999)), max_size=40)
)
def test_whatever_comes_it_is_asked_again(replies: list[tuple[bool, int | None, float]]) -> None:
    """An open circuit says when, within a day; an answer to the question that finds out closes it."""
    circuit, now = CLOSED, NOW
    for overloaded, asked, roll in replies:
        circuit = asked_now(circuit, now=now)
        circuit = after_reply(
            circuit, overloaded=overloaded, now=now, roll=roll, asked=seconds(asked) if asked else None
        )
        if circuit.state is CircuitState.OPEN:
            assert circuit.opened_at is not None
            assert circuit.asks_again_at is not None
            assert now < circuit.asks_again_at <= now + LONGEST_ASKED
            now = circuit.asks_again_at
        else:
            now += seconds(1)
        assert at_most(circuit, most_at_once=4, now=now) >= 1
    healed = after_reply(asked_now(circuit, now=now), overloaded=False, now=now, roll=0.5)
    assert (healed.state, healed.failures) == (CircuitState.CLOSED, 0)
