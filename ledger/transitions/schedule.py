"""The schedule row is the queue: take what is due, hold it for a while, let it lapse.

A claim is a moment in the future. Nothing is ever released by hand: a worker that dies leaves a claim that ends
by itself, and the next sweep takes the row again.
"""

import os
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from ledger.database import execute
from ledger.queries.facts import Held
from ledger.rules.lifecycle import ASKED
from ledger.transitions.change import Change, write

CLAIM = timedelta(seconds=float(os.environ.get("ASCERTAIN_CLAIM_SECONDS", "30")))
"""How long a worker may take for one batch. A task finishes within 20 s; a claim that ends sooner (tests of kills
wait for its end) only lets two workers ask the owner for the same operation, and one of them records."""


SEEN = 4
"""Times as many due rows are seen as are claimed, so that owners take turns."""


RESCANNED_EVERY = 5.0
"""Seconds between two claims that look from the beginning: a claim that lapsed is as old as when it was taken."""
SLACK = timedelta(seconds=2)
"""A transaction may commit a moment that is earlier than what was claimed meanwhile."""


@dataclass(slots=True)
class Watermark:
    """From where a process looks for what is due. Before it lies what was claimed and has moved on since: entries of the
    index that nobody needs, and that stay to be walked over for as long as any session holds an older snapshot."""

    at: datetime | None = None
    rescanned_at: float = float("-inf")
    """By the monotonic clock."""

    def start(self) -> datetime | None:
        """Where to look from now; None: from the beginning."""
        if time.monotonic() - self.rescanned_at < RESCANNED_EVERY:
            return self.at
        self.rescanned_at = time.monotonic()
        return None

    def saw(self, earliest: datetime) -> None:
        """The earliest moment at which something was due and free."""
        self.at = earliest - SLACK


def claim_due(*, most: int, claim: timedelta = CLAIM, watermark: Watermark | None = None) -> list[UUID]:
    """Take up to `most` operations whose time has come and that nobody holds, those of one owner together.

    One statement, SKIP LOCKED: two sweeps never take the same row, and neither waits for the other. Where more are due
    than are taken, owners take turns: the flood of one does not keep another's waiting. With a `watermark`, what lies
    before it is looked at only every few seconds.
    """
    mark = watermark or Watermark()
    rows = execute(
        "WITH seen AS MATERIALIZED (SELECT operation, next_check_at FROM schedule WHERE next_check_at <= now() "
        "AND next_check_at >= coalesce(%(start)s::timestamptz, '-infinity') "
        "AND (claimed_until IS NULL OR claimed_until <= now()) ORDER BY next_check_at LIMIT %(seen)s), "
        "turns AS (SELECT seen.operation, t.owner_id, row_number() OVER (PARTITION BY t.owner_id ORDER BY next_check_at) AS turn "
        "FROM seen JOIN operation o ON o.id = seen.operation JOIN tool t ON t.id = o.tool_id), "
        "chosen AS MATERIALIZED (SELECT operation, owner_id FROM turns ORDER BY turn LIMIT %(most)s), "
        "due AS MATERIALIZED (SELECT s.operation, chosen.owner_id FROM schedule s JOIN chosen ON chosen.operation = s.operation "
        "WHERE s.next_check_at <= now() AND (s.claimed_until IS NULL OR s.claimed_until <= now()) FOR UPDATE OF s SKIP LOCKED) "
        "UPDATE schedule SET claimed_until = now() + %(claim)s FROM due WHERE schedule.operation = due.operation "
        "RETURNING schedule.operation, due.owner_id, (SELECT min(next_check_at) FROM seen)",
        {"most": most, "seen": most * SEEN, "claim": claim, "start": mark.start()},
    )
    if rows:
        mark.saw(rows[0][2])
    return [row[0] for row in sorted(rows, key=lambda row: str(row[1]))]


def release(*, ids: list[UUID]) -> None:
    """Give back claims that were not used, so that the next sweep need not wait for them to lapse."""
    execute("UPDATE schedule SET claimed_until = NULL WHERE operation = ANY(%s)", [ids])


def look_again(*, held: Held, actor: str) -> int | None:
    """Somebody wants the owner asked now rather than at the next interval. Recorded in the history.

    Returns the new version; None when the operation moved since `held` was read, or is in no state in which the owner
    is asked.
    """
    if held.facts.state not in ASKED:
        return None
    return write(
        Change(
            id=held.id,
            version=held.facts.version,
            at=held.now,
            verb="look_again",
            actor=actor,
            set={},
            next_check_at=held.now,
        )
    )


def beat(*, part: str) -> None:
    """Note that one of our own parts is alive, by the database's clock."""
    execute(
        "INSERT INTO heartbeat (part, at) VALUES (%s, clock_timestamp()) "
        "ON CONFLICT (part) DO UPDATE SET at = EXCLUDED.at",
        [part],
    )
