"""How is a span of time written, and what does it come to?

| written | means |
| --- | --- |
| `500ms` | half a second |
| `30s` `15m` `72h` `31d` | seconds, minutes, hours, days of 24 hours |
| `1h30m` | parts add up; each unit once, largest first |
"""

import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

LONGEST = timedelta(days=3660)
"""No wait, window or deadline of a contract is longer than ten years; longer is a slip of the keyboard."""

_WRITTEN = re.compile(
    r"(?:(?P<days>\d{1,6})d)?(?:(?P<hours>\d{1,8})h)?(?:(?P<minutes>\d{1,10})m(?!s))?"
    r"(?:(?P<seconds>\d{1,12})s)?(?:(?P<milliseconds>\d{1,15})ms)?",
    re.ASCII,
)
_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1))


def parse_duration(text: str) -> timedelta:
    """Reads `30s`, `15m`, `72h`, `500ms`, `7d` or a sum such as `1h30m`.

    Raises ValueError, with a sentence that shows the form, for anything else and for more than ten years.
    """
    written = _WRITTEN.fullmatch(text.strip())
    if written is None or not any(written.groups()):
        raise ValueError("write a duration such as 500ms, 30s, 15m, 72h or 7d")
    parts = {unit: int(amount) for unit, amount in written.groupdict().items() if amount is not None}
    try:
        span = timedelta(**parts)
    except OverflowError:
        span = timedelta.max
    if span > LONGEST:
        raise ValueError("a duration of more than ten years is not accepted")
    return span


def format_duration(span: timedelta) -> str:
    """Writes a span the way `parse_duration` reads it, to the millisecond: `1h30m`, `72h`, `31d`, `500ms`, `0s`."""
    left = span // timedelta(milliseconds=1)
    parts = []
    # Up to a few days people think in hours: 24h and 72h stay what they are.
    for unit, size in _UNITS if span >= timedelta(days=7) else _UNITS[1:]:
        amount, left = divmod(left, size)
        if amount:
            parts.append(f"{amount}{unit}")
    return "".join(parts) or "0s"


def _read(value: Any) -> Any:
    return parse_duration(value) if isinstance(value, str) else value


def _not_negative(value: Any) -> Any:
    if not isinstance(value, timedelta):
        raise ValueError("write a duration such as 500ms, 30s, 15m, 72h or 7d")
    if value < timedelta(0):
        raise ValueError("a duration cannot be negative")
    return value


Duration = Annotated[
    timedelta,
    BeforeValidator(_not_negative),
    BeforeValidator(_read),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^(\d+d)?(\d+h)?(\d+m(?!s))?(\d+s)?(\d+ms)?$",
            "minLength": 2,
            "examples": ["500ms", "30s", "15m", "1h30m", "72h", "31d"],
        }
    ),
]
"""A pydantic field that reads the written form and holds a timedelta that is never negative."""
