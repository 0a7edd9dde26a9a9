"""Measure: `manage.py benchmark NAME`. One JSON object a line; ratios of two things run in turn in one run."""

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from recovery.benchmarks import decide, digest, footprint, intake, notice, recovery
from recovery.benchmarks.rounds import VoidRunError

BENCHMARKS: dict[str, Callable[..., Iterator[dict[str, Any]]]] = {
    "decide": decide.run,
    "digest": digest.run,
    "footprint": footprint.run,
    "intake": intake.run,
    "notice": notice.run,
    "recovery": recovery.run,
}


class Command(BaseCommand):
    help = "Run a benchmark on a database of its own. Exit 3 when too few rounds count to say anything."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """The benchmark's name and the number of rounds."""
        parser.add_argument("name", choices=sorted(BENCHMARKS))
        parser.add_argument("--rounds", type=int, default=5)

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002 (Django's signature)
        """Print each figure as it is known."""
        try:
            for line in BENCHMARKS[options["name"]](rounds=max(options["rounds"], 1)):
                self.stdout.write(json.dumps(line, ensure_ascii=False))
                self.stdout.flush()
        except VoidRunError as void:
            self.stdout.write(json.dumps({"name": options["name"], "VOID": str(void)}, ensure_ascii=False))
            sys.exit(3)
