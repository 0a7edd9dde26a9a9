"""Bounded batches of what is due: claim, hand out, do. One sweep at a time; Celery is only hands."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import structlog
from django.db import close_old_connections, connection, transaction

from ledger.database import execute
from ledger.transitions.schedule import beat, claim_due, release
from recovery.reconcile import Done, reconcile

BATCH = 20
"""Operations a task carries."""
MOST = 400
"""Operations a sweep hands out."""
TASK_SECONDS = 18.0
"""A task is finished by then; its claims last longer (ledger.transitions.schedule.CLAIM)."""
HANDS = 4
"""Owners asked at once by one task."""
_SWEEP = 0x617363  # one advisory lock for sweeping, on any worker
log = structlog.get_logger()


def sweep(*, hand_out: Callable[[list[str]], None]) -> int:
    """Claim what is due and hand it out in batches of ids. Returns how many; 0 at once when another sweep runs."""
    with transaction.atomic():
        if not execute("SELECT pg_try_advisory_xact_lock(%s)", [_SWEEP])[0][0]:
            return 0
        due = claim_due(most=MOST)
    for start in range(0, len(due), BATCH):
        try:
            hand_out([str(id) for id in due[start : start + BATCH]])
        except Exception:
            # The broker is away: nothing is lost, and the next sweep need not wait for these claims to lapse.
            release(ids=due[start:])
            raise
    beat(part="reconciler")
    return len(due)


def look_at(*, ids: Sequence[UUID]) -> dict[Done, int]:
    """Do what is due for each operation of a batch, several at once, within TASK_SECONDS.

    One that fails does not hold the others: it is logged and left to its claim's lapse.
    """
    ends = time.monotonic() + TASK_SECONDS
    came_to: dict[Done, int] = {}
    with ThreadPoolExecutor(max_workers=HANDS, thread_name_prefix="asks") as hands:
        for done in hands.map(lambda id: _one(id, ends=ends), ids):
            came_to[done] = came_to.get(done, 0) + 1
    return came_to


def _one(id: UUID, *, ends: float) -> Done:
    left = ends - time.monotonic()
    if left <= 0.5:
        return Done.NOTHING
    close_old_connections()
    try:
        return reconcile(id=id, time_left=left)
    except Exception as error:
        log.error("reconcile_failed", operation=str(id), error=type(error).__name__, exc_info=error)
        return Done.NOTHING
    finally:
        connection.close()
