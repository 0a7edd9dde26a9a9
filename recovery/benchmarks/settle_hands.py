"""What the workers of `settle` bring with them: an owner that answers at once, and a task that does nothing.

Named in ASCERTAIN_OWNER_ADAPTERS and in `--include` of the measured workers. Both append eight bytes to a file that the
benchmark names, so that it can be known when something was done without asking a broker or a database.
"""

import os
import struct
import time
from collections.abc import MutableMapping
from functools import cache
from pathlib import Path
from typing import Final

from celery import shared_task

from ledger.rules.contract_sections import LookupBy
from ledger.rules.vocabulary import Effect, LookupOutcome
from recovery.owners.base import OwnerAdapter, Question, Reply

FOLDER: Final = "ASCERTAIN_BENCHMARK_FOLDER"
"""The environment variable that names the folder of these files."""
ASKED: Final = "asked"
DONE: Final = "done"
GATE: Final = "gate"
LONGEST: Final = 60.0
_ONE: Final = struct.Struct("d")


class Instant:
    """Holds whatever it is asked about."""

    def ask(self, question: Question) -> Reply:
        """Found, at once."""
        _append(ASKED, time.time() - question.payload["due_at"] if "due_at" in question.payload else -1.0)
        return Reply(
            outcome=LookupOutcome.FOUND,
            effect=Effect.APPLIED,
            matches=1,
            status=200,
            query=f"GET /tickets/by-key/{question.idempotency_key}",
            body='{"state": "open"}',
        )


def register(adapters: MutableMapping[LookupBy, OwnerAdapter]) -> None:
    """In place of the adapter that asks by status."""
    adapters[LookupBy.STATUS] = Instant()


@shared_task(name="recovery.benchmark.nothing")
def nothing(*, sent_at: float) -> None:
    """Take note of how long it took to begin."""
    _append(DONE, time.time() - sent_at)


@shared_task(name="recovery.benchmark.hold")
def hold() -> None:
    """Keep one process busy until the gate opens, so that what is measured afterwards stands in the queue already."""
    ends = time.monotonic() + LONGEST
    while not (Path(os.environ[FOLDER]) / GATE).exists() and time.monotonic() < ends:
        time.sleep(0.002)


def noted(folder: Path, name: str) -> list[float]:
    """What was appended so far."""
    file = folder / name
    return [one for (one,) in _ONE.iter_unpack(file.read_bytes())] if file.exists() else []


def count_of(folder: Path, name: str) -> int:
    """How much was appended so far."""
    file = folder / name
    return file.stat().st_size // _ONE.size if file.exists() else 0


def _append(name: str, value: float) -> None:
    os.write(_file(name), _ONE.pack(value))


@cache
def _file(name: str) -> int:
    return os.open(Path(os.environ[FOLDER]) / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
