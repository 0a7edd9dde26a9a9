"""Bounded batches of what is due: claim, hand out, do. One sweep at a time; Celery is only hands."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from functools import cache
from uuid import UUID

from django.db import close_old_connections, transaction

from ledger.database import execute
from ledger.queries.owners import owners_to_ask
from ledger.transitions.desk import wake_due
from ledger.transitions.schedule import Watermark, beat, claim_due, release
from recovery.asking import Visit
from recovery.hands import Hands
from recovery.lookout import Lookout
from recovery.reconcile import Done, reconcile

BATCH = 20
"""Operations a task carries."""
MOST = 400
"""Operations a sweep hands out."""
TASK_SECONDS = 18.0
"""Nothing is begun later; claims last longer (ledger.transitions.schedule.CLAIM)."""
_SWEEP = 0x617363  # one advisory lock for sweeping, on any worker
_WAKING = 0x617364  # and one for waking
ALIVE_EVERY = 0.4
"""Seconds."""
_watermark = Watermark()
_said_alive_at = float("-inf")


def sweep(*, hand_out: Callable[[list[str]], None]) -> int:
    """Claim what is due and hand it out in batches of ids. Returns how many; 0 at once when another sweep runs."""
    with transaction.atomic():
        if not execute("SELECT pg_try_advisory_xact_lock(%s)", [_SWEEP])[0][0]:
            return 0
        due = claim_due(most=MOST, watermark=_watermark)
    for start in range(0, len(due), BATCH):
        try:
            hand_out([str(id) for id in due[start : start + BATCH]])
        except Exception:
            # The broker is away: nothing is lost, and the next sweep need not wait for these claims to lapse.
            release(ids=due[start:])
            raise
    _say_alive()
    return len(due)


def look_out(*, hand_out: Callable[[list[str]], None]) -> None:
    """From now on sweep when something comes due, unless another process does it already. Returns at once."""
    _lookout(hand_out).stand()


@cache
def _lookout(hand_out: Callable[[list[str]], None]) -> Lookout:
    return Lookout(sweep=lambda: sweep(hand_out=hand_out), most=MOST)


def _say_alive() -> None:
    """Not with every sweep: there may be many in a second."""
    global _said_alive_at
    if time.monotonic() - _said_alive_at > ALIVE_EVERY:
        _said_alive_at = time.monotonic()
        beat(part="reconciler")


def wake_snoozed() -> int:
    """End the snoozes whose time or rule has come, on operations and groups. Returns how many; 0 at once when another sweep
    runs."""
    with transaction.atomic():
        if not execute("SELECT pg_try_advisory_xact_lock(%s)", [_WAKING])[0][0]:
            return 0
        return wake_due()


def look_at(*, ids: Sequence[UUID]) -> dict[Done, int]:
    """Do what is due for each operation of a batch, several at once, and wait for all of it. One that fails does not hold
    the others: it is logged and left to its claim's lapse."""
    done = take_in_hand(ids=ids)
    wait(done)
    return dict(Counter(future.result() for future in done))


def take_in_hand(*, ids: Sequence[UUID]) -> list["Future[Done]"]:
    """As `look_at`, without waiting: the operations stand in the lines of this process. Nothing is begun after
    TASK_SECONDS; what is left then is put back."""
    return hands().give(owners_to_ask(ids=ids), ends=time.monotonic() + TASK_SECONDS)


@cache
def hands() -> Hands:
    """The hands of this process."""
    return Hands(look=_look)


def _look(id: UUID, time_left: float, visit: Visit | None) -> Done:
    close_old_connections()
    return reconcile(id=id, time_left=time_left, visit=visit)
