"""`intake`: durable operations through HTTP by 8 callers ÷ pgbench of our own captured SQL as two plain transactions."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.conf import settings

from ledger.database import execute
from recovery.benchmarks.captured import pgbench_script, run_pgbench
from recovery.benchmarks.rounds import Side, VoidRunError, compare, line, own_cpu
from recovery.benchmarks.stage import Stage, gather_statistics, stage, web

CALLERS = 8
SECONDS = 6
CALLERS_MOST = 0.7
"""Cores. They run in one Python process, so near one they would be what is measured."""


def run(*, rounds: int = 5) -> Iterator[dict[str, Any]]:
    """One line.

    Raises:
        VoidRunError: too few rounds count, or what was sent, recorded and judged is not the same number.
    """
    with stage() as here, tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "two-transactions.sql"
        script.write_text(pgbench_script(here))
        with web(here.app_url) as (port, _):
            drive(here, port=port, seconds=2, prefix="warm")
            gather_statistics(here)
            sent = 0
            turn = 0

            def ours() -> Side:
                nonlocal sent, turn
                turn += 1
                before = own_cpu()
                told = drive(here, port=port, seconds=SECONDS, prefix=f"round-{turn}")
                sent += told["operations"]
                return Side(
                    figure=told["operations"] / told["seconds"],
                    p50=told["p50"],
                    p99=told["p99"],
                    cpu_ms=(own_cpu() - before) * 1000 / told["operations"],
                )

            def reference() -> Side:
                return Side(figure=run_pgbench(here, script=script, callers=CALLERS, seconds=SECONDS))

            done = compare(ours=ours, reference=reference, rounds=rounds)
            _identical(sent)
            yield line(name="intake", rounds=done, unit="operations/s", target="≥ 0.60", met=lambda ratio: ratio >= 0.6)


def drive(here: Stage, *, port: int, seconds: float, prefix: str) -> dict[str, Any]:
    """The callers' own account of one run.

    Raises:
        VoidRunError: a caller met an answer that it did not expect, or the callers were the bottleneck.
    """
    command = [
        sys.executable,
        "-m",
        "recovery.benchmarks.load",
        str(port),
        here.token,
        str(CALLERS),
        str(seconds),
        prefix,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=settings.BASE_DIR)
    told: dict[str, Any] = json.loads(done.stdout)
    if told["wrong"] or not told["operations"]:
        raise VoidRunError(f"a caller met {told['wrong']}")
    if told["callers_cores"] > CALLERS_MOST:
        raise VoidRunError(f"the callers took {told['callers_cores']:.2f} cores themselves")
    return told


def _identical(sent: int) -> None:
    [(recorded, judged)] = execute(
        "SELECT count(*), count(*) FILTER (WHERE outcome = 'applied') FROM operation WHERE operation_id LIKE 'round-%%'"
    )
    # A caller whose time is up leaves nothing half done, so the three numbers are the same.
    if not sent == recorded == judged:
        raise VoidRunError(f"sent {sent}, recorded {recorded}, judged {judged}")
