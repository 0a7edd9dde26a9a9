"""Named places in a worker at which a test can hold it, so that a kill is certain to find it there.

Named in ASCERTAIN_OWNER_ADAPTERS by the tests' workers. A test makes the file `before.OPERATION_ID` (claimed, the owner
not asked yet) or `after.OPERATION_ID` (asked, nothing recorded yet) in the folder GATES. The first worker that comes
there takes the file away, writes its process number to `held.OPERATION_ID` and goes no further; others pass.
"""

import os
import time
from collections.abc import MutableMapping
from pathlib import Path

from ledger.rules.contract_sections import LookupBy
from recovery.owners.base import OwnerAdapter, Question, Reply

FOLDER = "ASCERTAIN_TEST_GATES"
"""The environment variable that names the folder of gates."""
LONGEST_S = 60.0
"""A worker that nobody kills goes on after this, so that a test that failed leaves nothing behind."""


class Gated:
    """The real adapter between two gates."""

    def __init__(self, *, inner: OwnerAdapter, folder: Path) -> None:
        self._inner = inner
        self._folder = folder

    def ask(self, question: Question) -> Reply:
        """As the real one, unless a test holds it."""
        self._hold("before", question.operation_id)
        reply = self._inner.ask(question)
        self._hold("after", question.operation_id)
        return reply

    def _hold(self, place: str, operation_id: str) -> None:
        held = self._folder / f"held.{operation_id}"
        try:
            # Only one of several workers can rename it.
            (self._folder / f"{place}.{operation_id}").rename(self._folder / f"taken.{operation_id}")
        except FileNotFoundError:
            return
        part = held.with_suffix(".part")
        part.write_text(str(os.getpid()))
        part.rename(held)
        time.sleep(LONGEST_S)


def register(adapters: MutableMapping[LookupBy, OwnerAdapter]) -> None:
    """Put the gates around the adapter that asks by status."""
    adapters[LookupBy.STATUS] = Gated(inner=adapters[LookupBy.STATUS], folder=Path(os.environ[FOLDER]))
