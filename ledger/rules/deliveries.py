"""When is a delivery tried again, and when is it given up?

| the try                                              | then                                                        |
| ---------------------------------------------------- | ----------------------------------------------------------- |
| was taken                                            | delivered                                                   |
| was refused for good (410 Gone)                      | given up, and nothing is sent to this destination any more  |
| came to nothing, and tries are left                  | again after a wait, with jitter, or later where asked       |
| came to nothing, and it was the last one             | given up                                                    |

Eight tries over about a day: a receiver may be down for a night and still hear of everything.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

WAITS: Final = (
    timedelta(seconds=10),
    timedelta(minutes=1),
    timedelta(minutes=5),
    timedelta(minutes=30),
    timedelta(hours=2),
    timedelta(hours=6),
    timedelta(hours=15),
)
"""Between one try and the next."""
MOST_TRIES: Final = len(WAITS) + 1
LONGEST_ASKED: Final = timedelta(hours=6)
"""What a receiver's `Retry-After` may ask at most."""
JITTER: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What one try came to."""

    taken: bool
    said: str
    """What happened, in words of ours."""
    status: int | None = None
    gone: bool = False
    """The receiver says that it is gone for good."""
    asked: timedelta | None = None
    """How long it asks us to wait."""


def next_try(*, tried: Tried, tries: int, now: datetime, roll: float) -> datetime | None:
    """When to try again after the `tries`-th try came to nothing; None: no more. `roll` in [0, 1) spreads them."""
    if tried.gone or tries >= MOST_TRIES:
        return None
    wait = WAITS[max(tries, 1) - 1] * (1 + JITTER * (2 * roll - 1))
    return now + max(wait, min(tried.asked or wait, LONGEST_ASKED))
