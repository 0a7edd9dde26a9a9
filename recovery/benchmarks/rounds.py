"""Two things in turn, and which rounds count.

A round is void when other processes took over 0.3 of a core while it ran, or when a fixed `json.loads` loop beside it
was off by more than 10 % from the median of all rounds: the machine was not the same for both sides then.
"""

import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LEAST_VALID = 3
OTHERS_MOST = 0.3
"""Cores."""
LOOP_MOST = 0.10
_TICKS = os.sysconf("SC_CLK_TCK")
_LOOP_TEXT = json.dumps({"ok": False, "error": {"code": "X", "hint": "y" * 120, "list": list(range(20))}})


class VoidRunError(RuntimeError):
    """Too few rounds count. Nothing can be said; run it again on a quieter machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of one round."""

    figure: float
    """What is compared: operations a second, microseconds, …"""
    p50: float | None = None
    p99: float | None = None
    """Milliseconds."""
    cpu_ms: float | None = None
    """Processor time per operation, of all our processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Both sides, and whether they may be compared."""

    ours: Side
    reference: Side
    others: float
    """Cores that other processes took."""
    loop: float
    """Seconds of the fixed loop."""


def compare(*, ours: Callable[[], Side], reference: Callable[[], Side], rounds: int) -> list[Round]:
    """Run both sides in turn, `rounds` times."""
    done = []
    for _ in range(rounds):
        loop = _loop()
        with _watched() as others:
            one = ours()
            other = reference()
        done.append(Round(ours=one, reference=other, others=others(), loop=loop))
    return done


def valid(rounds: list[Round]) -> list[Round]:
    """The rounds that count."""
    usual = statistics.median(round.loop for round in rounds)
    return [round for round in rounds if round.others <= OTHERS_MOST and abs(round.loop - usual) <= LOOP_MOST * usual]


def line(*, name: str, rounds: list[Round], unit: str, target: str, met: Callable[[float], bool]) -> dict[str, Any]:
    """The JSON line of a comparison.

    Raises:
        VoidRunError: under three rounds count.
    """
    counted = valid(rounds)
    if len(counted) < LEAST_VALID:
        detail = ", ".join(f"others {round.others:.2f} cores, loop {round.loop * 1000:.0f} ms" for round in rounds)
        raise VoidRunError(f"{name}: {len(counted)} of {len(rounds)} rounds count ({detail})")
    ratios = [round.ours.figure / round.reference.figure for round in counted]
    ratio = statistics.median(ratios)
    return {
        "name": name,
        "ours": _middle(round.ours.figure for round in counted),
        "reference": _middle(round.reference.figure for round in counted),
        "ratio": _rounded(ratio),
        "ratios": [_rounded(one) for one in ratios],
        "unit": unit,
        "n": len(counted),
        "void": len(rounds) - len(counted),
        "p50": _middle(round.ours.p50 for round in counted if round.ours.p50 is not None),
        "p99": _middle(round.ours.p99 for round in counted if round.ours.p99 is not None),
        "cpu_ms": _middle(round.ours.cpu_ms for round in counted if round.ours.cpu_ms is not None),
        "target": target,
        "met": met(ratio),
    }


def own_cpu() -> float:
    """Processor seconds of this process and everything below it, dead children included."""
    parents: dict[int, int] = {}
    spent: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue
        pid = int(entry.name)
        parents[pid] = int(fields[1])
        spent[pid] = sum(int(ticks) for ticks in fields[11:15]) / _TICKS
    me = os.getpid()
    return sum(seconds for pid, seconds in spent.items() if _descends(pid, me, parents))


def _descends(pid: int, top: int, parents: dict[int, int]) -> bool:
    while pid > 1:
        if pid == top:
            return True
        pid = parents.get(pid, 0)
    return False


@contextmanager
def _watched() -> Iterator[Callable[[], float]]:
    """How many cores other processes took meanwhile; ask after the block."""
    began, busy, own = time.monotonic(), _busy(), own_cpu()
    told: list[float] = []
    yield lambda: told[0]
    seconds = time.monotonic() - began
    told.append(max((_busy() - busy) - (own_cpu() - own), 0.0) / seconds)


def _busy() -> float:
    fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    ticks = [int(field) for field in fields]
    idle = ticks[3] + ticks[4]
    return (sum(ticks[:8]) - idle) / _TICKS


def _loop() -> float:
    began = time.perf_counter()
    for _ in range(20_000):
        json.loads(_LOOP_TEXT)
    return time.perf_counter() - began


def _middle(values: Any) -> float | None:
    listed = list(values)
    return _rounded(statistics.median(listed)) if listed else None


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
