"""The hands of one worker process: operations stand in a line before each owner, and threads work the lines off.

| the owner                                     | its line                                                        |
| --------------------------------------------- | --------------------------------------------------------------- |
| answers quickly                               | is worked off by as many threads as there are places            |
| answers slowly, or hangs                      | holds threads of its own and nobody else's time                 |
| has no place for us within a second and a half | is put back in the schedule, spread over what the owner needs  |
| has an open circuit, or is paused             | is put back to the circuit's end                                |
| would need over five seconds for those before | takes nobody more: put back at once                             |

So no line waits for another, and a task need not wait for a slow owner. What stands in a line is claimed; a process that
dies loses nothing but the time until the claims and its places lapse.
"""

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final
from uuid import UUID

import structlog
from django.db import Error, connection

from ledger.database import forget_broken
from ledger.transitions.owners import Admission, put_back, put_back_waiting
from ledger.transitions.schedule import release
from recovery.asking import SOON, Desk, Visit, desk_of
from recovery.reconcile import Done

THREADS: Final = 128
"""In one process, over all owners. They wait for owners; the database's pool limits what they do beside."""
SIDE_BY_SIDE: Final = 8
"""Of one owner, in one process. More would only wait for the interpreter where the owner is quick."""
UNASKED: Final = 4
"""Threads for operations that need no owner: permits that lapse, waits that end."""
PATIENCE: Final = 1.5
"""Seconds that a line waits for its first place."""
LONGEST_LINE: Final = 5.0
"""Seconds that an owner may need for those who stand before it."""
SLOW: Final = 0.3
"""Seconds for an answer, from which on nobody need wait for it."""
IN_HAND: Final = 200
"""Operations before quick owners, with which a process has enough for the moment."""
WIDENED_EVERY: Final = 0.1
SHORTEST: Final = 6.0
"""Seconds; with less time left nothing is begun. An owner has its full time to answer, or it would seem slower than it is."""
FLOOD: Final = 100
"""Operations that are due for an owner which takes no more: then all of them are put back, not a batch at a time."""
FLOODED_EVERY: Final = 5.0
"""Seconds between two such steps of this process for one owner."""
log = structlog.get_logger()

Look = Callable[[UUID, float, Visit | None], Done]
"""Looks at one operation: its id, how many seconds it may take, and the visit that has a place (none: by itself)."""


@dataclass(frozen=True, slots=True)
class _Work:
    id: UUID
    ends: float
    """By the monotonic clock."""
    done: "Future[Done]"


@dataclass(slots=True)
class _Line:
    desk: Desk | None
    """None for operations that ask nobody."""
    work: deque[_Work] = field(default_factory=deque)
    threads: int = 0
    widened_at: float = 0.0
    flooded_at: float = float("-inf")

    @property
    def slow(self) -> bool:
        """Its owner takes its time. Do something else meanwhile."""
        return self.desk is not None and self.desk.answer_seconds > SLOW

    @property
    def seconds(self) -> float:
        """How long those who stand in it will take."""
        return 0.0 if self.desk is None else len(self.work) * self.desk.answer_seconds / max(self.threads, 1)


class Hands:
    """Threads that work lines off. One for a process."""

    def __init__(self, *, look: Look) -> None:
        self._look = look
        self._lines: dict[UUID | None, _Line] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="asks")
        self._closed = False

    def give(self, owners: Mapping[UUID, UUID | None], *, ends: float) -> list["Future[Done]"]:
        """Put operations in the lines of their owners. Each future tells what was done."""
        given: list[Future[Done]] = []
        by_owner: dict[UUID | None, list[UUID]] = {}
        for id, owner in owners.items():
            by_owner.setdefault(owner, []).append(id)
        for owner, ids in by_owner.items():
            given += self._stand(owner, ids, ends=ends)
        return given

    def wait_for_room(self, *, seconds: float) -> None:
        """Until less than IN_HAND stands before quick owners, or the time is up: others may take the next batch."""
        ends = time.monotonic() + seconds
        while sum(len(line.work) for line in list(self._lines.values()) if not line.slow) > IN_HAND:
            if time.monotonic() > ends:
                return
            time.sleep(0.01)

    def close(self, *, seconds: float) -> None:
        """Begin nothing more, give back what nobody has begun, and let what runs end within `seconds`."""
        with self._lock:
            self._closed = True
            left = [work for line in self._lines.values() for work in line.work]
            for line in self._lines.values():
                line.work.clear()
        for work in left:
            work.done.set_result(Done.NOTHING)
        if left:
            release(ids=[work.id for work in left])
        ends = time.monotonic() + seconds
        while time.monotonic() < ends and any(line.threads for line in self._lines.values()):
            time.sleep(0.05)

    def _stand(self, owner: UUID | None, ids: Sequence[UUID], *, ends: float) -> list["Future[Done]"]:
        works = [_Work(id, ends, Future()) for id in ids]
        with self._lock:
            line = self._lines.get(owner)
            if line is None:
                line = self._lines[owner] = _Line(desk_of(owner) if owner is not None else None)
            takes = not self._closed and line.seconds <= LONGEST_LINE
            if takes:
                line.work.extend(works)
                starts = min(UNASKED, len(line.work)) - line.threads if line.desk is None else 1 - line.threads
                for _ in range(max(starts, 0)):
                    line.threads += 1
                    self._pool.submit(self._thread, line, None)
        if not takes:
            self._put_back(line, works, None)
        return [work.done for work in works]

    def _thread(self, line: _Line, visit: Visit | None) -> None:
        """Work a line off until nobody stands in it."""
        try:
            while not self._left(line):
                if line.desk is not None and visit is None:
                    visit = self._enter(line, line.desk)
                    if visit is None:
                        continue
                visit = self._one(line, visit)
        except Exception as error:
            # The database is away, most likely. Whoever stands in the line is claimed again, by us or by another.
            log.error("line_failed", error=type(error).__name__, exc_info=error)
            forget_broken()
            with self._lock:
                line.threads -= 1
                left, line.work = list(line.work), deque()
            _quietly(lambda: release(ids=[work.id for work in left]))
            for work in left:
                work.done.set_result(Done.NOTHING)
        finally:
            if visit is not None:
                _quietly(visit.leave)
            connection.close()

    def _left(self, line: _Line) -> bool:
        """Leave a line in which nobody stands; decided under the lock, so that nobody is left standing."""
        with self._lock:
            if line.work:
                return False
            line.threads -= 1
            return True

    def _enter(self, line: _Line, desk: Desk) -> Visit | None:
        """A place at the owner, and further threads where there are more; None when the line was put back, or is gone."""
        ends = time.monotonic() + PATIENCE
        while True:
            # Half at first, so that two processes share an owner; `_widen` takes what nobody wants.
            wanted = min(len(line.work), SIDE_BY_SIDE, max(desk.most_at_once // 2, 1)) - (line.threads - 1)
            admission = desk.admit(wanted=max(wanted, 1))
            if admission.places:
                first, *more = [Visit(desk=desk, place=place) for place in admission.places]
                self._join(line, more)
                return first
            if admission.not_before is not None or time.monotonic() > ends:
                break
            connection.close()
            time.sleep(random.uniform(0.03, 0.12))  # noqa: S311 - spreads waits, guards nothing
            if not line.work:
                return None
        with self._lock:
            left, line.work = list(line.work), deque()
        self._put_back(line, left, admission)
        return None

    def _widen(self, line: _Line, desk: Desk) -> None:
        """Further threads while many stand in the line and the owner has places that nobody takes."""
        with self._lock:
            room = min(len(line.work), min(SIDE_BY_SIDE, desk.most_at_once) - line.threads)
            if room <= 0 or time.monotonic() - line.widened_at < WIDENED_EVERY:
                return
            line.widened_at = time.monotonic()
        self._join(line, [Visit(desk=desk, place=place) for place in desk.admit(wanted=room).places])

    def _join(self, line: _Line, visits: Sequence[Visit]) -> None:
        with self._lock:
            line.threads += len(visits)
        for visit in visits:
            self._pool.submit(self._thread, line, visit)

    def _one(self, line: _Line, visit: Visit | None) -> Visit | None:
        """Look at whoever stands first. Returns the visit, or None when its place is gone."""
        with self._lock:
            if not line.work:
                return visit
            work = line.work.popleft()
        left = work.ends - time.monotonic()
        if left <= SHORTEST:
            self._put_back(line, [work], None)
            return visit
        if visit is not None and not visit.lasts(seconds=left + 1):
            with self._lock:
                line.work.appendleft(work)
            visit.leave()
            return None
        try:
            work.done.set_result(self._look(work.id, left, visit))
        except Exception as error:
            log.error("reconcile_failed", operation=str(work.id), error=type(error).__name__, exc_info=error)
            if isinstance(error, Error):
                # Not its own fault: it need not wait for its claim to lapse.
                forget_broken()
                _quietly(lambda: release(ids=[work.id]))
            work.done.set_result(Done.NOTHING)
        if visit is None or line.desk is None:
            return visit
        if visit.shut:
            visit.leave()
            return None
        self._widen(line, line.desk)
        return visit

    def _put_back(self, line: _Line, works: Sequence[_Work], admission: Admission | None) -> None:
        """In one statement. Those whose deadline is over stay due, and are looked at: a person is asked."""
        if not works:
            return
        until = admission.not_before if admission is not None else None
        over = line.desk.spread() if line.desk is not None else timedelta(seconds=1)
        try:
            due = put_back(ids=[work.id for work in works], over=over, not_before=until, at_least=SOON)
            if (
                line.desk is not None
                and line.desk.waiting > FLOOD
                and time.monotonic() > line.flooded_at + FLOODED_EVERY
            ):
                line.flooded_at = time.monotonic()
                put_back_waiting(owner_id=line.desk.owner_id, over=over, not_before=until, at_least=SOON)
        finally:
            for work in works:
                work.done.set_result(Done.PUT_BACK)
        if due and not self._closed:
            self._stand(None, due, ends=time.monotonic() + 2 * SHORTEST)


def _quietly(call: Callable[[], None]) -> None:
    """A place or claim that cannot be given back lapses."""
    try:
        call()
    except Exception as error:  # noqa: BLE001 - whatever it is, what was held ends by itself
        log.warning("not_given_back", error=type(error).__name__)
