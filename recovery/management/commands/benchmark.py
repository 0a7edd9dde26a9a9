"""Measure: `manage.py benchmark NAME`. One JSON object a line; ratios of two things run in turn in one run."""

import inspect
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from recovery.benchmarks import claim, decide, digest, footprint, intake, notice, recovery, settle
from recovery.benchmarks.rounds import VoidRunError
from recovery.benchmarks.settle_faults import BrokenPromiseError

BENCHMARKS: dict[str, Callable[..., Iterator[dict[str, Any]]]] = {
    "claim": claim.run,
    "decide": decide.run,
    "digest": digest.run,
    "footprint": footprint.run,
    "intake": intake.run,
    "notice": notice.run,
    "recovery": recovery.run,
    "settle": settle.run,
}


class Command(BaseCommand):
    help = (
        "Run a benchmark on a database of its own. Exit 3 when too few rounds count to say anything, 1 when something was "
        "seen that must never be: an effect twice, or an outcome that is not what the owner did."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """The benchmark's name and how much is measured."""
        parser.add_argument("name", choices=sorted(BENCHMARKS))
        parser.add_argument("--rounds", type=int, default=5)
        parser.add_argument("--operations", type=int, help="settle: how many operations meet faults (2,000)")
        parser.add_argument("--rows", type=int, help="claim: rows of the larger schedule (1,000,000)")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002 (Django's signature)
        """Print each figure as it is known."""
        name = options["name"]
        run = BENCHMARKS[name]
        sizes = {"rounds": max(options["rounds"], 1)}
        for size in ("operations", "rows"):
            if options[size] is None:
                continue
            if size not in inspect.signature(run).parameters:
                raise CommandError(f"{name} takes no --{size}.")
            sizes[size] = max(options[size], 0)
        try:
            for line in run(**sizes):
                self._print(line)
        except VoidRunError as void:
            self._print({"name": name, "VOID": str(void)})
            sys.exit(3)
        except BrokenPromiseError as broken:
            self._print({"name": name, "BROKEN": str(broken)})
            sys.exit(1)

    def _print(self, line: dict[str, Any]) -> None:
        self.stdout.write(json.dumps(line, ensure_ascii=False))
        self.stdout.flush()
