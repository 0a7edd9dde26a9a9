"""Times in words: each row of the table, and its edges."""

from datetime import UTC, datetime, timedelta

import pytest

from recovery.web.moments import Shape, absolute, length, moment, relative

NOW = datetime(2026, 12, 1, 12, 4, 31, tzinfo=UTC)


@pytest.mark.parametrize(
    ("shape", "seconds", "words", "reason"),
    [
        (Shape.AGO, -2, "just now", "nobody counts the first seconds"),
        (Shape.AGO, -180, "3 m ago", "past"),
        (Shape.AGO, 30, "just now", "a clock that is ahead is no reason to write nonsense"),
        (Shape.AGE, -90_000, "25 h", "hours up to two days"),
        (Shape.AGE, -180_000, "2 d", "then days"),
        (Shape.AGE, 5, "0 s", "nothing is younger than now"),
        (Shape.IN, 240, "in 4 m", "future"),
        (Shape.IN, -1, "now", "what is due happens now, not in the past"),
        (Shape.DUE, 240, "in 4 m", "a deadline ahead"),
        (Shape.DUE, -180, "passed 3 m ago", "a deadline behind"),
    ],
)
def test_relative(shape, seconds, words, reason):
    assert relative(at=NOW + timedelta(seconds=seconds), now=NOW, shape=shape) == words, reason


def test_length_changes_unit_at_the_whole_one():
    assert [length(s) for s in (59, 60, 3599, 3600, 172_799, 172_800)] == ["59 s", "1 m", "59 m", "1 h", "47 h", "2 d"]


def test_the_element_carries_the_absolute_time_with_its_zone():
    written = moment(at=NOW, now=NOW)
    assert 'title="1 Dec 2026, 12:04:31 UTC"' in written
    assert 'datetime="2026-12-01T12:04:31+00:00"' in written
    assert absolute(NOW) in written
