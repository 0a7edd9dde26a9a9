"""When a delivery is tried again."""

from datetime import UTC, datetime, timedelta

import pytest

from ledger.rules.deliveries import MOST_TRIES, Tried, next_try

NOW = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
FAILED = Tried(taken=False, said="It answered 500.")

ROWS = [
    (FAILED, 1, timedelta(seconds=10), "a hiccup is over soon"),
    (FAILED, 4, timedelta(minutes=30), "a restart takes longer"),
    (FAILED, 7, timedelta(hours=15), "a night"),
    (FAILED, 8, None, "the last try"),
    (FAILED, 9, None, "and nothing after it"),
    (Tried(taken=False, said="gone", gone=True), 1, None, "it asked to hear nothing more"),
    (Tried(taken=False, said="", asked=timedelta(minutes=20)), 1, timedelta(minutes=20), "it asked for longer"),
    (Tried(taken=False, said="", asked=timedelta(seconds=1)), 1, timedelta(seconds=10), "never sooner than ours"),
    (Tried(taken=False, said="", asked=timedelta(days=40)), 1, timedelta(hours=6), "a bound to what may be asked"),
]


@pytest.mark.parametrize(("tried", "tries", "wait", "why"), ROWS)
def test_the_table_of_tries(tried: Tried, tries: int, wait: timedelta | None, why: str) -> None:
    at = next_try(tried=tried, tries=tries, now=NOW, roll=0.5)
    assert at == (None if wait is None else NOW + wait), why


def test_all_tries_together_take_about_a_day() -> None:
    waits = [next_try(tried=FAILED, tries=tries, now=NOW, roll=0.5) for tries in range(1, MOST_TRIES)]
    total = sum((at - NOW for at in waits if at), timedelta(0))
    assert timedelta(hours=23) < total < timedelta(hours=25)
