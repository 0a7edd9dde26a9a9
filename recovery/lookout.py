"""Sweep when something comes due, rather than at beat's next tick: one thread of one worker process.

| what happens                                      | the lookout                                              |
| ------------------------------------------------- | -------------------------------------------------------- |
| an operation comes due                            | sweeps in that moment                                    |
| an operation changes (a notification says so)     | looks whether something comes due sooner than it thought |
| nothing                                           | looks all the same, as often as beat ticks               |
| its process, its connection or the broker is gone | ends; the next tick of beat finds its place free         |

It holds an advisory lock for as long as its connection lives, so there is one. Beat goes on ticking: the lookout saves
time, and nothing depends on it.
"""

import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import Final

import psycopg
import structlog
from django.db import connection

from ledger.database import execute, forget_broken
from ledger.queries.clock import database_now
from ledger.queries.schedule import next_due
from ledger.transitions.change import CHANNEL

PLACE: Final = 0x617365
"""The advisory lock."""
LONGEST_NAP: Final = 0.5
SHORTEST_NAP: Final = 0.01
"""Seconds; operations may change thousands of times in one."""
PACE: Final = 0.2
"""Seconds between two sweeps that found as much as a sweep takes."""
log = structlog.get_logger()


class Lookout:
    """Sweeps from a thread of this process, if nobody else does."""

    def __init__(self, *, sweep: Callable[[], int], most: int) -> None:
        self._sweep, self._most = sweep, most
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def stand(self) -> None:
        """Begin, unless somebody does it already. One statement; returns at once."""
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return
            # Held for this statement alone: the thread takes it for its own connection.
            if execute("SELECT pg_try_advisory_xact_lock(%s)", [PLACE])[0][0]:
                self._thread = threading.Thread(target=self._look_out, name="lookout", daemon=True)
                self._thread.start()

    def _look_out(self) -> None:
        try:
            params = {name: value for name, value in connection.get_connection_params().items() if name in _CONNECT}
            with psycopg.connect(**params, autocommit=True) as listening:
                row = listening.execute("SELECT pg_try_advisory_lock(%s)", [PLACE]).fetchone()
                if row is not None and row[0]:
                    listening.execute(f"LISTEN {CHANNEL}")
                    since = database_now()
                    while True:
                        since = self._one_look(listening, since)
        except Exception as error:  # noqa: BLE001 - beat's next tick starts another
            log.warning("lookout_ended", error=type(error).__name__)
            forget_broken()
        finally:
            connection.close()

    def _one_look(self, listening: "psycopg.Connection[tuple[object, ...]]", since: datetime) -> datetime:
        """Sweep, and sleep until something is due again. `since`: the database's clock before the sweep; returns the next."""
        if self._sweep() >= self._most:
            time.sleep(PACE)
            return since
        ends = time.monotonic() + LONGEST_NAP
        while True:
            seconds, now = next_due(since=since)
            nap = ends - time.monotonic()
            nap = nap if seconds is None else min(nap, seconds)
            if nap <= 0 or not list(listening.notifies(timeout=nap, stop_after=1)):
                return now
            time.sleep(SHORTEST_NAP)  # whatever else changes meanwhile is looked at together


_CONNECT = frozenset({"host", "port", "dbname", "user", "password", "sslmode", "sslrootcert"})
