"""The real programs of a running Ascertain, for tests: a web server, workers, beat. Each in a process group of its own.

The commands are those of `make up` (recovery/management/commands/up.py). All end with the test process: the kernel
tells them, and `stop` kills what is left of each group whatever happened.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx2

from recovery.local import children

ROOT = Path(__file__).parents[2]
HOST = "127.0.0.1"
QUIET = "ignore:You're running the worker with superuser"


@dataclass(slots=True, kw_only=True)
class Program:
    """One program and everything that it started."""

    name: str
    command: Sequence[str]
    env: Mapping[str, str]
    log: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, unless it runs. Main thread only."""
        if self.process is not None and self.process.poll() is None:
            return
        with self.log.open("ab") as output:
            self.process = children.start(command=self.command, env=self.env, cwd=ROOT, output=output)

    def kill(self) -> None:
        """SIGKILL to it and all that it started."""
        if self.process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)

    def terminate(self) -> None:
        """TERM, without waiting."""
        if self.process is not None and not self.ended:
            self.process.terminate()

    def stop(self) -> None:
        """TERM, and after ten seconds KILL; nothing of its group is left."""
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(10)
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)

    @property
    def ended(self) -> bool:
        """It was started and runs no more."""
        return self.process is not None and self.process.poll() is not None

    def said(self) -> str:
        """The end of what it printed."""
        return self.log.read_text(errors="replace")[-3000:] if self.log.exists() else ""


@dataclass(slots=True, kw_only=True)
class Workers:
    """Worker nodes and beat on one queue."""

    nodes: list[Program]
    beat: Program
    gates: Path
    """The folder of `tests/journeys/gates.py`."""

    def start(self) -> None:
        """Start whichever does not run."""
        for program in (*self.nodes, self.beat):
            program.start()

    def stop(self) -> None:
        """End all of them, at the same time: each node looks up from its queue only every few seconds."""
        for program in (self.beat, *self.nodes):
            program.terminate()
        for program in (self.beat, *self.nodes):
            program.stop()

    def node_of(self, pid: int) -> Program:
        """The node to which a process belongs."""
        group = os.getpgid(pid)
        return next(node for node in self.nodes if node.process is not None and node.process.pid == group)

    def hold(self, *, place: str, operation_id: str) -> None:
        """Hold the first worker that comes `before` or `after` asking the owner for this operation."""
        (self.gates / f"{place}.{operation_id}").touch()

    def held_at(self, *, operation_id: str, seconds: float = 30) -> int:
        """The process number of the worker that is held for this operation."""
        file = self.gates / f"held.{operation_id}"
        until(file.exists, seconds=seconds, what=f"no worker came for {operation_id}:\n{self.said()}")
        return int(file.read_text())

    def said(self) -> str:
        """What they printed."""
        return "\n".join(f"{one.name}: {one.said()}" for one in (*self.nodes, self.beat))


def until(true: Callable[[], bool], *, seconds: float, what: str | Callable[[], str] = "it did not come true") -> None:
    """Look every 50 ms until it is true; fail with `what` when the time is up."""
    ends = time.monotonic() + seconds
    while not true():
        if time.monotonic() > ends:
            raise AssertionError(what() if callable(what) else what)
        time.sleep(0.05)


def free_port() -> int:
    """A port that nobody listens at now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def environment(*, database_url: str, broker_url: str, **more: str) -> dict[str, str]:
    """What every program of ours gets."""
    kept = {name: value for name, value in os.environ.items() if name != "ASCERTAIN_OWNER_DATABASE_URL"}
    return {
        **kept,
        "DATABASE_URL": database_url,
        "CELERY_BROKER_URL": broker_url,
        "PYTHONUNBUFFERED": "1",
        "PYTHONWARNINGS": QUIET,
        **more,
    }


@contextmanager
def web(*, env: Mapping[str, str], folder: Path, workers: int = 2) -> Iterator[str]:
    """A web server on a port of its own: its address."""
    port = free_port()
    command = [sys.executable, "-m", "granian", "--interface", "wsgi", "--no-ws", "--log-level", "error"]
    command += ["--workers", str(workers), "--blocking-threads", "128", "--host", HOST, "--port", str(port)]
    program = Program(
        name="web", command=[*command, "recovery.wsgi:application"], env=env, log=folder / f"web-{port}.log"
    )
    program.start()
    try:
        address = f"http://{HOST}:{port}"
        until(lambda: program.ended or _answers(address), seconds=60, what=program.said)
        assert not program.ended, program.said()
        yield address
    finally:
        program.stop()


def workers(*, env: Mapping[str, str], folder: Path, nodes: int = 2, concurrency: int = 2) -> Workers:
    """Worker nodes and beat, not started yet."""
    gates = folder / "gates"
    gates.mkdir(exist_ok=True)
    env = {**env, "ASCERTAIN_OWNER_ADAPTERS": "tests.journeys.gates", "ASCERTAIN_TEST_GATES": str(gates)}
    celery = [sys.executable, "-m", "celery", "--quiet", "-A", "recovery"]
    node = [*celery, "worker", "--concurrency", str(concurrency), "--without-gossip", "--without-mingle"]
    node += ["--without-heartbeat", "--loglevel", "WARNING"]
    beat = [*celery, "beat", "--schedule", str(folder / "beat-schedule"), "--pidfile", "", "--loglevel", "WARNING"]
    return Workers(
        nodes=[
            Program(
                name=f"node{number}",
                command=[*node, "--hostname", f"node{number}@localhost"],
                env=env,
                log=folder / f"node{number}.log",
            )
            for number in range(1, nodes + 1)
        ],
        beat=Program(name="beat", command=beat, env=env, log=folder / "beat.log"),
        gates=gates,
    )


def _answers(address: str) -> bool:
    try:
        # Not whether it is ready: that takes workers too. That it reaches its database.
        return httpx2.get(f"{address}/readyz", timeout=5, trust_env=False).json()["database"] is True
    except httpx2.HTTPError:
        return False
