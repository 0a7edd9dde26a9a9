"""The two clocks of this machine, as an argument: tests bring their own."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """`monotonic` measures spans; `wall` dates observations, and decides nothing while Ascertain's clock is known."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time

    def stamp(self) -> str:
        """The wall clock as RFC 3339 in UTC."""
        moment = datetime.fromtimestamp(self.wall(), UTC)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
