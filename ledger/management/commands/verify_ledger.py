"""`manage.py verify_ledger [--anchor FILE]`: is every history whole, and is every row what its history says?"""

import os
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError

from ledger.queries.verification import Differs, Head, verified

FIRST_LINE = "ascertain chain heads 1"


class Command(BaseCommand):
    """Exit 0 and the counts when all is well; exit 1 and the first difference when not."""

    help = (
        "Replays every operation's history against its rows and its hash chain. With --anchor FILE, also checks that "
        "every chain head kept in FILE is still in the ledger, and then writes the present heads there."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """One option."""
        parser.add_argument(
            "--anchor",
            type=Path,
            metavar="FILE",
            help="chain heads kept outside the database: checked when FILE exists, then renewed",
        )

    def handle(self, *_: Any, **options: Any) -> None:
        """Verify, then renew the anchor. A ledger with a difference leaves the anchor as it was."""
        anchor: Path | None = options["anchor"]
        try:
            counts = self._verify() if anchor is None else self._verify_and_anchor(anchor)
        except Differs as difference:
            self.stdout.write(str(difference))
            raise SystemExit(1) from difference
        except OperationalError as error:
            raise CommandError(f"The ledger's database cannot be reached or read: {error}") from error
        operations, history, evidence, held = counts
        self.stdout.write(
            f"{operations} operations, {history} history rows, {evidence} pieces of evidence: each follows from its "
            "history, and every chain is whole." + (f" {held} chain heads were anchored before." if anchor else "")
        )

    def _verify(self) -> tuple[int, int, int, int]:
        operations = history = evidence = 0
        for each in verified():
            operations, history, evidence = operations + 1, history + each.history, evidence + each.evidence
        return operations, history, evidence, 0

    def _verify_and_anchor(self, anchor: Path) -> tuple[int, int, int, int]:
        operations = history = evidence = 0
        renewed = anchor.with_name(f"{anchor.name}.new")
        heads = _Heads(anchor)
        try:
            with renewed.open("w") as written:
                written.write(f"{FIRST_LINE}\n")
                for each in verified(heads=heads):
                    written.write(f"{each.id} {each.seq} {each.hash.hex()}\n")
                    operations, history, evidence = operations + 1, history + each.history, evidence + each.evidence
                written.flush()
                os.fsync(written.fileno())
            renewed.replace(anchor)
        except OSError as error:
            raise CommandError(f"The anchor {anchor} cannot be read or written: {error.strerror}.") from error
        finally:
            with suppress(OSError):
                renewed.unlink()
        return operations, history, evidence, heads.read


class _Heads:
    """The chain heads of an anchor file, in the order of their operations; none when there is no file yet."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.read = 0

    def __iter__(self) -> Iterator[tuple[UUID, Head]]:
        try:
            lines = self.file.open()
        except FileNotFoundError:
            return
        with lines:
            yield from self._parsed(lines)

    def _parsed(self, lines: TextIO) -> Iterator[tuple[UUID, Head]]:
        if lines.readline().rstrip("\n") != FIRST_LINE:
            raise CommandError(f"{self.file} is not a file of chain heads; its first line is not “{FIRST_LINE}”.")
        last: UUID | None = None
        for number, line in enumerate(lines, start=2):
            try:
                id, seq, hash = line.split()
                head = UUID(id), Head(seq=int(seq), hash=bytes.fromhex(hash))
            except ValueError as error:
                raise CommandError(f"{self.file}, line {number}, is not a chain head.") from error
            if last is not None and head[0] <= last:
                raise CommandError(f"{self.file}, line {number}, is out of order: the file was changed.")
            last = head[0]
            self.read += 1
            yield head
