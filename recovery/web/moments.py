"""How is a time shown to a person? Relative in words, absolute with its zone in the title.

| shape | past              | future        | used for                   |
| ----- | ----------------- | ------------- | -------------------------- |
| ago   | 3 m ago, just now | 3 m ago       | when something was said    |
| age   | 3 m               | 0 s           | how old something is       |
| in    | now               | in 4 m        | when something will happen |
| due   | passed 3 m ago    | in 4 m        | deadlines                  |

`static/console.js` keeps the same words fresh while a page stands open; `tests/browser` compares the two.
"""

from datetime import UTC, datetime
from enum import StrEnum

from django.utils.html import format_html
from django.utils.safestring import SafeString


class Shape(StrEnum):
    """Which way a time is told."""

    AGO = "ago"
    AGE = "age"
    IN = "in"
    DUE = "due"


def moment(*, at: datetime, now: datetime, shape: Shape = Shape.AGO) -> SafeString:
    """A `<time>` element for `at`, as seen at `now`."""
    return format_html(
        '<time datetime="{}" title="{}" data-shape="{}">{}</time>',
        at.astimezone(UTC).isoformat(),
        absolute(at),
        shape.value,
        relative(at=at, now=now, shape=shape),
    )


def absolute(at: datetime) -> str:
    """`1 Dec 2026, 12:04:31 UTC`."""
    utc = at.astimezone(UTC)
    return f"{utc.day} {utc:%b %Y, %H:%M:%S} UTC"


def relative(*, at: datetime, now: datetime, shape: Shape) -> str:
    """The words of the table above."""
    seconds = int((at - now).total_seconds())
    span = length(abs(seconds))
    if shape is Shape.AGE:
        return length(max(-seconds, 0))
    if shape is Shape.AGO:
        return "just now" if seconds > -5 else f"{span} ago"
    if seconds > 0:
        return f"in {span}"
    return "now" if shape is Shape.IN else f"passed {span} ago"


def length(seconds: int) -> str:
    """A number of seconds in its largest whole unit: `12 s`, `4 m`, `3 h`, `2 d`."""
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} m"
    if seconds < 48 * 3600:
        return f"{seconds // 3600} h"
    return f"{seconds // 86400} d"
