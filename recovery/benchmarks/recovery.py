"""`recovery`: what does each way of telling a failure let a controller do about it, and what does it do to the world?

| table          | what happens                                 | what is compared                                            |
| -------------- | -------------------------------------------- | ----------------------------------------------------------- |
| `figures`      | operations fail, every answer arrives        | the analytic expectation, and the figures published for it  |
| `lost_answers` | the same, and requests and answers get lost  | duplicate effects, wrong "failed", unresolved, time         |

The operations are made up, every probability is an assumption (`recovery_cases.py`), and no model is called. The
published figures are those of a benchmark of the same design; it left lost answers out. The seeds are the runs'
numbers.
"""

import math
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from recovery.benchmarks.recovery_cases import (
    ANSWER_TAKES,
    CANNOT_BE_ASKED,
    FAILS,
    LATEST_COMMIT,
    LATEST_SIGHT,
    LOOKUP_FAILS,
    LOST_ANSWER,
    LOST_REQUEST,
    OPERATIONS,
    REPAIR_IS_RIGHT,
    RUNS,
    TIMEOUT,
    TRANSIENT_GONE,
    Failure,
    Repair,
    operations,
)
from recovery.benchmarks.recovery_controllers import Ended, Said, Strategy, control
from recovery.benchmarks.recovery_desk import judged

DEVIATIONS: Final = 3.0
POINT: Final = 1.0
"""Percentage points that a rate may be off."""

_TOLD_APART: Final = (Strategy.GENERIC, Strategy.CODE, Strategy.ENVELOPE, Strategy.OURS)
_SHARE: Final = 1 / len(Failure)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What one strategy comes to, for one operation, when chance is taken out: probabilities."""

    resolved: float
    repeats: float
    failed_repeats: float
    permanent_repeats: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The figures published for one strategy, for 12,000 operations."""

    resolved_percent: float
    requests: int
    failed_repeats: int
    permanent_repeats: int


PUBLISHED: Final[Mapping[Strategy, Published]] = {
    Strategy.GENERIC: Published(resolved_percent=67.1, requests=16_823, failed_repeats=3_953, permanent_repeats=2_449),
    Strategy.CODE: Published(resolved_percent=71.2, requests=14_374, failed_repeats=1_005, permanent_repeats=0),
    Strategy.ENVELOPE: Published(resolved_percent=75.5, requests=14_374, failed_repeats=487, permanent_repeats=0),
}


def run(*, rounds: int = 5) -> Iterator[dict[str, Any]]:  # noqa: ARG001 - the same seeds come out the same each time
    """One line a strategy and measure of the first table, one a strategy of the second, and what was assumed. At the
    end both tables for people are written to standard error."""
    told: list[dict[str, Any]] = []
    for line in lines(runs=RUNS):
        told.append(line)
        yield line
    sys.stderr.write(f"{readable(told)}\n")


def lines(*, runs: int) -> Iterator[dict[str, Any]]:
    """The lines of `run` for so many runs."""
    seeds = range(1, runs + 1)
    for strategy in _TOLD_APART:
        yield from _figures(strategy, ends(strategy, seeds=seeds, loses=False))
    for strategy in Strategy:
        yield _lost_answers(strategy, ends(strategy, seeds=seeds, loses=True))
    yield {
        "name": "recovery/assumptions",
        "runs": runs,
        "operations_a_run": OPERATIONS,
        "seeds": f"1 to {runs}: a run's number",
        "fails": FAILS,
        "classes": [failure.value for failure in Failure],
        "transient_gone_at_the_repeat": TRANSIENT_GONE,
        "repair_is_right": {repair.value: rate for repair, rate in REPAIR_IS_RIGHT.items()},
        "request_lost": LOST_REQUEST,
        "answer_lost": LOST_ANSWER,
        "lookup_fails": LOOKUP_FAILS,
        "owner_cannot_be_asked": CANNOT_BE_ASKED,
        "timeout_s": TIMEOUT,
        "answer_takes_s": ANSWER_TAKES,
        "latest_commit_after_sending_s": LATEST_COMMIT,
        "latest_sight_after_commit_s": LATEST_SIGHT,
        "measured": False,
        "model_called": False,
    }


def ends(strategy: Strategy, *, seeds: Sequence[int], loses: bool) -> list[Ended]:
    """How every operation of these runs ended under one strategy."""
    made = (operation for seed in seeds for operation in operations(seed))
    if strategy is Strategy.OURS:
        return [judged(operation, loses=loses) for operation in made]
    return [control(strategy, operation, loses=loses) for operation in made]


def expected(strategy: Strategy) -> Expectation:
    """The expectation of the first table, from the assumptions alone."""
    each = FAILS * _SHARE
    permanent = 2 * each
    if strategy is Strategy.GENERIC:
        return Expectation(
            resolved=1 - FAILS + each * TRANSIENT_GONE,
            repeats=FAILS,
            failed_repeats=each * (1 - TRANSIENT_GONE) + each + permanent,
            permanent_repeats=permanent,
        )
    right = REPAIR_IS_RIGHT[Repair.CODE if strategy is Strategy.CODE else Repair.FIELD_AND_HINT]
    return Expectation(
        resolved=1 - FAILS + each * (TRANSIENT_GONE + right),
        repeats=2 * each,
        failed_repeats=each * (1 - TRANSIENT_GONE) + each * (1 - right),
        permanent_repeats=0.0,
    )


def readable(told: Sequence[Mapping[str, Any]]) -> str:
    """Both tables for people, from the lines of a run."""
    figures = [line for line in told if line["name"].startswith("recovery/figures/")]
    lost = [line for line in told if line["name"].startswith("recovery/lost_answers/")]
    first = [("strategy", "measure", "counted", "expected", "3 deviations", "published", "within")]
    for line in figures:
        off = line["allowed"]
        first.append(
            (
                line["strategy"],
                line["measure"],
                _number(line["ours"]),
                _number(line["reference"]),
                f"± {_number(off)}",
                "–" if line["published"] is None else _number(line["published"]),
                "yes" if line["met"] else "NO",
            )
        )
    second = [
        ("strategy", "duplicate effects", 'wrong "failed"', "unresolved", "asked a person", "resolved",
         "settled p50", "p95", "max"),
    ]  # fmt: skip
    second += [
        (
            line["strategy"],
            _number(line["ours"]),
            _number(line["wrong_failed"]),
            _number(line["unresolved"]),
            _number(line["asked_a_person"]),
            f"{line['resolved_percent']} %",
            *(f"{line[name]} s" for name in ("settle_p50_s", "settle_p95_s", "settle_max_s")),
        )
        for line in lost
    ]
    return "\n\n".join(
        (
            "Every answer arrives. Deviations are for counts; a rate may be off by one point.",
            _table(first),
            "Requests and answers get lost. Times: of operations that lost one and were settled, by a simulated clock.",
            _table(second),
            "The operations are made up, all probabilities are assumptions, and no model was called.",
        )
    )


def _figures(strategy: Strategy, ended: Sequence[Ended]) -> Iterator[dict[str, Any]]:
    hopes, told, n = expected(strategy), PUBLISHED.get(strategy), len(ended)
    requests = sum(end.requests for end in ended)
    yield {
        "name": f"recovery/figures/{strategy}/resolved",
        "strategy": strategy.value,
        "measure": "resolved, %",
        **_compared(100 * sum(end.said is Said.DONE for end in ended) / n, 100 * hopes.resolved, POINT),
        "published": told.resolved_percent if told else None,
        "unit": "%",
        "n": n,
        "target": "within one point of the expectation",
    }
    measures: tuple[tuple[str, int, float, float, Callable[[Published], int]], ...] = (
        ("attempts", requests, n + n * hopes.repeats, hopes.repeats, lambda figures: figures.requests),
        (
            "failed retries",
            sum(end.failed_repeats for end in ended),
            n * hopes.failed_repeats,
            hopes.failed_repeats,
            lambda figures: figures.failed_repeats,
        ),
        (
            "permanent-failure retries",
            sum(end.permanent_repeats for end in ended),
            n * hopes.permanent_repeats,
            hopes.permanent_repeats,
            lambda figures: figures.permanent_repeats,
        ),
    )
    for measure, count, mean, chance, published in measures:
        yield {
            "name": f"recovery/figures/{strategy}/{measure}",
            "strategy": strategy.value,
            "measure": measure,
            **_compared(count, mean, DEVIATIONS * math.sqrt(n * chance * (1 - chance))),
            "published": published(told) if told else None,
            **({"per_operation": round(count / n, 3)} if measure == "attempts" else {}),
            "unit": "attempts",
            "n": n,
            "target": "within three standard deviations of the expectation",
        }


def _compared(ours: float, reference: float, allowed: float) -> dict[str, Any]:
    return {
        "ours": round(ours, 2),
        "reference": round(reference, 2),
        "ratio": round(ours / reference, 4) if reference else None,
        "allowed": round(allowed, 1),
        "met": abs(ours - reference) <= allowed,
    }


def _lost_answers(strategy: Strategy, ended: Sequence[Ended]) -> dict[str, Any]:
    duplicates = sum(max(end.effects - 1, 0) for end in ended)
    settled = sorted(end.seconds for end in ended if end.lost and end.said is not Said.UNKNOWN)
    ours = strategy is Strategy.OURS
    return {
        "name": f"recovery/lost_answers/{strategy}",
        "strategy": strategy.value,
        "ours": duplicates,
        "reference": 0,
        "ratio": None,
        "unit": "duplicate effects",
        "n": len(ended),
        "operations_that_lost_one": sum(end.lost for end in ended),
        "wrong_failed": sum(end.said is Said.FAILED and end.effects > 0 for end in ended),
        "wrong_done": sum(end.said is Said.DONE and end.effects == 0 for end in ended),
        "unresolved": sum(end.said is Said.UNKNOWN for end in ended),
        "asked_a_person": sum(end.asked_a_person for end in ended),
        "resolved_percent": round(100 * sum(end.said is Said.DONE for end in ended) / len(ended), 1),
        "requests": sum(end.requests for end in ended),
        "settle_p50_s": round(statistics.median(settled), 1) if settled else None,
        "settle_p95_s": round(settled[int(0.95 * (len(settled) - 1))], 1) if settled else None,
        "settle_max_s": round(settled[-1], 1) if settled else None,
        "target": "no duplicate, no wrong failed" if ours else None,
        "met": _harmless(ended) if ours else None,
    }


def _harmless(ended: Sequence[Ended]) -> bool:
    return all(end.effects <= 1 and (end.effects == 0 or end.said is not Said.FAILED) for end in ended)


def _number(value: float) -> str:
    return f"{value:,.1f}" if value != int(value) else f"{int(value):,}"


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for index, row in enumerate(rows):
        cells = (
            cell.ljust(width) if column == 0 or not cell[:1].isdigit() else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("| " + " | ".join(cells) + " |")
        if index == 0:
            lines.append("| " + " | ".join("-" * width for width in widths) + " |")
    return "\n".join(lines)
