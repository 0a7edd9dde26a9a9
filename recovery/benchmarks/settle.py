"""`settle`: 2,000 operations with mixed faults against an owner with lag, then how fast an instant owner's are settled."""

from collections.abc import Iterator
from typing import Any

from recovery.benchmarks import settle_faults, settle_rate


def run(*, rounds: int = 5, operations: int = 2_000) -> Iterator[dict[str, Any]]:
    """Lines of settle_faults.py (none without `operations`), then of settle_rate.py.

    Raises:
        BrokenPromiseError: an effect was there twice, an outcome was wrong, or an operation was forgotten.
        VoidRunError: too few rounds count, or what was sent, recorded and judged is not the same number.
    """
    if operations:
        yield from settle_faults.run(operations=operations)
    yield from settle_rate.run(rounds=rounds)
