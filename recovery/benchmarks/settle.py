"""`settle`: 2,000 operations with mixed faults against an owner with lag, then how fast an instant owner's are settled."""

from collections.abc import Iterator
from typing import Any

from recovery.benchmarks import settle_faults


def run(*, rounds: int = 5, operations: int = 2_000) -> Iterator[dict[str, Any]]:
    """Lines of settle_faults.py."""
    if operations:
        yield from settle_faults.run(operations=operations)
