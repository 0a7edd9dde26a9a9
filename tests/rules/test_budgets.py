"""How often, how long, and never beyond the time that is left."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.rules.budgets import backoff, cap, limits, next_poll, next_retry, spent
from ledger.rules.contract import parse_contract
from ledger.rules.facts import Budget, Facts
from ledger.rules.vocabulary import Effect, EffectKind, Request, State, Verification

NOW = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)


def s(seconds):
    return timedelta(seconds=seconds)


def contract(**changes):
    return parse_contract({"contract": "t", "owner": "o", "effect": "write", **changes})


LIMITS = [
    ({}, "retries", 3, "writes"),
    ({"effect": "read"}, "retries", 1, "reads have one by default"),
    ({"effect": "read", "budgets": {"retries": 5}}, "retries", 5, "unless stated"),
    ({"budgets": {"retries": 0}}, "retries", 0, "none is a number too"),
    ({}, "polls", 20, "before a person is asked"),
    ({}, "repairs", 1, ""),
    ({}, "replans", 1, ""),
    ({}, "network_attempts", 30, ""),
    ({}, "cost", 1.0, ""),
]


@pytest.mark.parametrize(("change", "name", "limit", "why"), LIMITS)
def test_limits(change, name, limit, why):
    assert limits(contract(**change))[name] == limit, why
    assert "agent_retries" not in limits(contract(**change)), "counted by a run's plan step"


def test_spent():
    known = Facts(
        operation_id="op-1",
        tool="t",
        kind=EffectKind.WRITE,
        version=1,
        state=State.OPEN,
        request=Request.NOT_SENT,
        effect=Effect.NONE,
        verification=Verification.NOT_REQUIRED,
        outcome=None,
        revision=1,
        payload_digest="sha256:a",
        budgets={
            "polls": Budget(used=20, limit=20),
            "retries": Budget(used=1, limit=3),
            "cost": Budget(used=1.2, limit=1),
        },
    )
    assert [spent(known, name) for name in ("polls", "retries", "cost", "repairs")] == [True, False, True, False]


WAITS = [
    (0, 0.2, 0.5, s(2), "the first, in the middle of its spread"),
    (1, 0.2, 0.5, s(4), "doubled"),
    (3, 0.2, 0.5, s(16), "and again"),
    (0, 0.2, 0.0, s(1.6), "a fifth less"),
    (0, 0.2, 0.999999, s(2.4), "a fifth more, nearly"),
    (50, 0.2, 0.5, s(600), "the longest"),
    (50, 0.2, 0.999, s(600), "never above the longest"),
    (10**9, 0.2, 0.5, s(600), "whatever the step"),
    (1, "full", 0.25, s(1), "full: anywhere below"),
    (1, "full", 0.0, s(0), "full: even at once"),
    (1, 0.0, 0.9, s(4), "no spread"),
    (-3, 0.0, 0.9, s(2), "no step before the first"),
]


@pytest.mark.parametrize(("step", "jitter", "roll", "wait", "why"), WAITS)
def test_backoff(step, jitter, roll, wait, why):
    found = backoff(first=s(2), factor=2, longest=s(600), jitter=jitter, step=step, roll=roll)
    assert abs(found - wait) < timedelta(milliseconds=1), why


SPANS = st.integers(0, 10**8).map(lambda ms: timedelta(milliseconds=ms))


@given(
    first=SPANS,
    longest=SPANS,
    factor=st.floats(1, 100),
    jitter=st.just("full") | st.floats(0, 1),
    step=st.integers(0, 10**6),
    roll=st.floats(0, 1, exclude_max=True),
)
@settings(deadline=None)
def test_a_wait_is_never_negative_and_never_longer_than_the_longest(first, longest, factor, jitter, step, roll):
    wait = backoff(first=first, factor=factor, longest=longest, jitter=jitter, step=step, roll=roll)
    assert timedelta(0) <= wait <= longest


@given(step=st.integers(0, 100), factor=st.floats(1, 100))
@settings(deadline=None)
def test_waits_do_not_shrink(step, factor):
    def wait(at):
        return backoff(first=s(1), factor=factor, longest=s(600), jitter=0.0, step=at, roll=0.5)

    assert wait(step) <= wait(step + 1)


def test_the_next_retry_never_shortens_what_the_owner_asked_for():
    assert next_retry(contract=contract(), step=1, now=NOW, roll=0.5) == NOW + s(1)
    assert next_retry(contract=contract(), step=1, now=NOW, roll=0.5, asked=s(90)) == NOW + s(90)


POLLS = [
    ({}, s(2), "the first wait"),
    ({"step": 2}, s(8), "the third"),
    ({"asked": s(30)}, s(30), "the owner asked for more"),
    ({"asked": s(1)}, s(2), "or for less"),
    ({"not_before": NOW + s(45)}, s(45), "an earlier answer could not count"),
    ({"not_before": NOW - s(45)}, s(2), "that time has passed"),
    ({"slow": True}, s(600), "a person has been asked: lookups go on slowly"),
]


@pytest.mark.parametrize(("change", "wait", "why"), POLLS)
def test_the_next_poll(change, wait, why):
    assert next_poll(**{"contract": contract(), "step": 0, "now": NOW, "roll": 0.5, **change}) == NOW + wait, why


CAPS = [
    (s(10), None, s(10), "no deadline"),
    (s(10), s(60), s(10), "well before it"),
    (s(90), s(60), s(60), "not after it"),
    (s(-5), s(60), s(0), "not in the past"),
    (s(10), s(-1), s(0), "it has passed"),
]


@pytest.mark.parametrize(("at", "deadline", "expected", "why"), CAPS)
def test_a_wait_is_capped_by_the_time_that_remains(at, deadline, expected, why):
    found = cap(at=NOW + at, now=NOW, deadline=None if deadline is None else NOW + deadline)
    assert found == NOW + expected, why
