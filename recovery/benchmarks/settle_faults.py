"""2,000 operations with mixed faults against an owner with lag: is every one settled as the owner knows it, and once?

The harness side is `recovery.client`, the server side the real programs on a PostgreSQL of their own. What came of it
is compared with the owner's own account.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx2

from ledger.database import execute
from recovery.benchmarks import programs
from recovery.benchmarks.programs import HOST, Program, until
from recovery.benchmarks.rounds import VoidRunError
from recovery.benchmarks.settle_harness import DESKS, LAG, Harness, make_workspace
from recovery.benchmarks.settle_verdict import judge, kept_operations
from recovery.benchmarks.stage import Stage, stage
from recovery.local import broker

SEED: Final = 20261201
THREADS: Final = 8
SECONDS: Final = 600
"""For all of it; afterwards what is open counts as unfinished."""
SHARES: Final = {"status": 0.45, "key": 0.35, "index": 0.20}


class BrokenPromiseError(RuntimeError):
    """An effect was there twice, an outcome was wrong, or an operation was forgotten."""


def run(*, operations: int = 2_000) -> Iterator[dict[str, Any]]:
    """A line a desk, and one for all.

    Raises:
        BrokenPromiseError: see there; the lines have been yielded by then.
        VoidRunError: the owner was later than it promises, or what was sent and recorded is not the same number.
    """
    with stage() as here, tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        port, dead_port = programs.free_port(), programs.free_port()
        workspace = make_workspace(owner_port=port, slug="settle")
        names = names_of(operations)
        with owner(port=port, folder=folder, faults="mixed"), running(here, folder=folder) as address:
            harness = Harness(address=address, token=workspace.token, owner_port=port, dead_port=dead_port, seed=SEED)
            began = time.monotonic()
            harness.begin(names)
            harness.start(threads=THREADS)
            while harness.open() and time.monotonic() < began + SECONDS:
                time.sleep(0.5)
            harness.stop()
            seconds = time.monotonic() - began
            truth = truth_of(port)
        kept = kept_operations(workspace_id=workspace.id)
        if harness.troubles:
            raise VoidRunError(f"the harness met {harness.troubles[0]}")
        if truth["longest_lag"] > LAG.total_seconds():
            raise VoidRunError(f"the owner needed {truth['longest_lag']:.1f} s for an effect and promises {LAG}")
        if {one.name for one in kept} != set(names):
            raise VoidRunError(f"sent {len(names)}, recorded {len(kept)}")
        holds = True
        for desk in (*DESKS, ""):
            verdict = judge([one for one in kept if one.name.startswith(desk)], effects=truth["effects"])
            holds = holds and verdict.holds
            asked = sum(count for what, count in truth["asked"].items() if what.startswith(desk) and "lookups" in what)
            yield {
                "name": f"settle.faults/{desk}" if desk else "settle.faults",
                **verdict.told(),
                "lookups_per_settlement": round((asked + verdict.by_us) / max(verdict.by_machine, 1), 2),
                **({} if desk else {"seconds": round(seconds), "longest_lag": round(truth["longest_lag"], 2)}),
                "target": "0 duplicates, 0 wrong, 0 unfinished",
                "met": verdict.holds,
            }
        if not holds:
            raise BrokenPromiseError("an outcome is not what the owner did; the lines above say which")


def names_of(operations: int) -> list[str]:
    """Names of operations, the desks mixed evenly."""
    names = [
        (number / count, f"{desk}-{number:05d}")
        for desk, share in SHARES.items()
        for count in [max(round(operations * share), 1)]
        for number in range(count)
    ]
    return [name for _, name in sorted(names)]


@contextmanager
def owner(*, port: int, folder: Path, faults: str, seed: int = SEED) -> Iterator[Program]:
    """The made-up owner, serving at `port` of loopback."""
    command = [sys.executable, "-m", "recovery.benchmarks.settle_owner", "--port", str(port), "--faults", faults]
    program = Program(
        name="owner", command=[*command, "--seed", str(seed)], env=programs.plain(), log=folder / "owner.log"
    )
    program.start()
    try:
        until(lambda: program.ended or programs.listens(port), seconds=20, what=program.said)
        yield program
    finally:
        program.stop()


def truth_of(port: int) -> dict[str, Any]:
    """The owner's own account."""
    told: dict[str, Any] = httpx2.get(f"http://{HOST}:{port}/truth", timeout=30, trust_env=False).json()
    return told


@contextmanager
def running(here: Stage, *, folder: Path, broker_url: str | None = None, include: str = "") -> Iterator[str]:
    """Web server, one worker node and beat on a stage, over PGMQ unless told otherwise: the server's address."""
    if broker_url is None:
        broker.install_as_superuser(url=here.superuser_url)
        broker_url = broker.celery_url(url=here.cluster.url("ascertain_broker", "ascertain"))
    env = programs.environment(database_url=here.app_url, broker_url=broker_url)
    port = programs.free_port()
    address = f"http://{HOST}:{port}"
    started = [
        programs.web(env=env, folder=folder, port=port),
        programs.node(env=env, folder=folder, include=include),
        programs.beat(env=env, folder=folder),
    ]
    try:
        for program in started:
            program.start()
        until(lambda: programs.reaches_its_database(address), seconds=60, what=started[0].said)
        until(swept, seconds=60, what=lambda: "\n".join(program.said() for program in started))
        yield address
    finally:
        for program in reversed(started):
            program.terminate()
        for program in reversed(started):
            program.stop()


def swept() -> bool:
    """Whether a worker has swept within the last seconds."""
    return bool(execute("SELECT 1 FROM heartbeat WHERE part = 'reconciler' AND at > now() - interval '3 seconds'"))
