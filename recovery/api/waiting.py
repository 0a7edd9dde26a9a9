"""Requests that wait for an operation to move, without holding a database connection and without starving others.

One thread per process listens on one PostgreSQL channel; a waiter registers the operation it waits for, reads
the version once more (a change may have come in between), and then sleeps on an event. It looks again every few
seconds all the same, so a lost notification costs time, never the answer. Past the limit of waiters a request is
answered at once.
"""

import threading
from collections import defaultdict
from contextlib import suppress
from uuid import UUID

import psycopg
from django.db import connection

from ledger.queries.operations import version_of
from ledger.transitions.change import CHANNEL

MOST_WAITERS = 100
"""Per process. Each blocks one of the server's threads; the rest stay free for others."""
LOOK_AGAIN = 5.0
"""Seconds between looks without a notification."""
LONGEST = 60.0
"""Seconds; a longer `wait` is cut to this."""


_places = threading.BoundedSemaphore(MOST_WAITERS)
_lock = threading.Lock()
_waiters: dict[str, set[threading.Event]] = defaultdict(set)
_listener: threading.Thread | None = None


class Full(RuntimeError):
    """As many requests wait as may. Ask again later instead of waiting."""


def wait_for_change(*, id: UUID, version: int, seconds: float) -> bool:
    """Sleep until the operation's version passes `version` or time is up. True when it has passed.

    The caller's database connection is given back to the pool first.

    Raises:
        Full: the limit of waiters is reached; nothing was waited for.
    """
    if not _places.acquire(blocking=False):
        raise Full
    event = threading.Event()
    key = str(id)
    try:
        _listen()
        with _lock:
            _waiters[key].add(event)
        left = min(seconds, LONGEST)
        while True:
            moved = version_of(id=id) > version
            connection.close()
            if moved or left <= 0:
                return moved
            nap = min(LOOK_AGAIN, left)
            event.wait(nap)
            event.clear()
            left -= nap
    finally:
        with _lock:
            _waiters[key].discard(event)
            if not _waiters[key]:
                del _waiters[key]
        _places.release()


def _listen() -> None:
    global _listener
    with _lock:
        if _listener is None or not _listener.is_alive():
            _listener = threading.Thread(target=_hear, name="operation-changes", daemon=True)
            _listener.start()


def _hear() -> None:
    """Wake the waiters of every operation that changed, until the connection breaks; the next waiter starts anew."""
    with suppress(psycopg.Error):
        params = {k: v for k, v in connection.get_connection_params().items() if k in _CONNECT}
        with psycopg.connect(**params, autocommit=True) as listening:
            listening.execute(f"LISTEN {CHANNEL}")
            for notice in listening.notifies():
                with _lock:
                    for event in _waiters.get(notice.payload, ()):
                        event.set()


_CONNECT = frozenset({"host", "port", "dbname", "user", "password", "sslmode", "sslrootcert"})
