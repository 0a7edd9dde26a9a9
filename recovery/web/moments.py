"""How is a time shown to a person? Relative in words, absolute in their zone, with its name, in the title.

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
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from django.utils import timezone
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
    """`1 Dec 2026, 12:04:31 UTC`, in the zone of the person who looks (recovery/web/access.py sets it)."""
    local = at.astimezone(timezone.get_current_timezone())
    return f"{local.day} {local:%b %Y, %H:%M:%S} {_name(local)}"


def clock(at: datetime) -> SafeString:
    """A `<time>` element that shows the time of day alone, in the person's zone."""
    local = at.astimezone(timezone.get_current_timezone())
    return format_html(
        '<time datetime="{}" title="{}" data-shape="clock">{}</time>',
        at.astimezone(UTC).isoformat(),
        absolute(at),
        f"{local:%H:%M:%S}",
    )


def zone_of(name: str) -> ZoneInfo:
    """The zone of a preference. Empty, the browser's, is UTC here: only the browser knows it (static/console.js)."""
    return ZoneInfo(name) if name and is_zone(name) else ZoneInfo("UTC")


def is_zone(name: str) -> bool:
    """Whether the machine knows an IANA zone of this name."""
    return name in zone_names()


@cache
def zone_names() -> frozenset[str]:
    """Every zone that a person may choose."""
    return frozenset(available_timezones())


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


def _name(local: datetime) -> str:
    """`CET`; a zone without letters of its own is `UTC+03`."""
    name = local.tzname() or "UTC"
    return f"UTC{name}" if name[0] in "+-" else name
