"""The real programs of a running Ascertain: web server, workers, beat, each in a process group of its own.

The commands are those of `make up` (recovery/management/commands/up.py). All end with the process that started them: the
kernel tells them, and `stop` kills what is left of each group whatever happened.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
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


def until(true: Callable[[], bool], *, seconds: float, what: str | Callable[[], str] = "it did not come true") -> None:
    """Look every 50 ms until it is true.

    Raises:
        AssertionError: the time is up; `what` says what did not come true.
    """
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


def listens(port: int) -> bool:
    """Whether somebody takes connections at a port of loopback."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0


def environment(*, database_url: str, broker_url: str, **more: str) -> dict[str, str]:
    """What every program of ours gets."""
    return {
        **plain(),
        "DATABASE_URL": database_url,
        "CELERY_BROKER_URL": broker_url,
        "PYTHONUNBUFFERED": "1",
        "PYTHONWARNINGS": QUIET,
        **more,
    }


def plain() -> dict[str, str]:
    """Our own environment, without the way to the tables' owner."""
    return {name: value for name, value in os.environ.items() if name != "ASCERTAIN_OWNER_DATABASE_URL"}


def web(*, env: Mapping[str, str], folder: Path, port: int, workers: int = 2) -> Program:
    """A web server, not started yet. It answers at `port` of loopback."""
    command = [sys.executable, "-m", "granian", "--interface", "wsgi", "--no-ws", "--log-level", "error"]
    command += ["--workers", str(workers), "--blocking-threads", "128", "--host", HOST, "--port", str(port)]
    return Program(name="web", command=[*command, "recovery.wsgi:application"], env=env, log=folder / f"web-{port}.log")


def reaches_its_database(address: str) -> bool:
    """Whether a web server answers and has its database. (Whether it is ready would take workers too.)"""
    try:
        return httpx2.get(f"{address}/readyz", timeout=5, trust_env=False).json()["database"] is True
    except (httpx2.HTTPError, ValueError, KeyError):
        return False


def node(
    *, env: Mapping[str, str], folder: Path, name: str = "node1", concurrency: int = 2, include: str = ""
) -> Program:
    """A worker node, not started yet. `include` names a module with further tasks."""
    command = [sys.executable, "-m", "celery", "--quiet", "-A", "recovery"]
    command += ["worker", "--concurrency", str(concurrency), "--without-gossip", "--without-mingle"]
    command += ["--without-heartbeat", "--loglevel", "WARNING", "--hostname", f"{name}@localhost"]
    command += ["--include", include] if include else []
    return Program(name=name, command=command, env=env, log=folder / f"{name}.log")


def beat(*, env: Mapping[str, str], folder: Path) -> Program:
    """Beat, not started yet."""
    command = [sys.executable, "-m", "celery", "--quiet", "-A", "recovery", "beat", "--loglevel", "WARNING"]
    command += ["--schedule", str(folder / "beat-schedule"), "--pidfile", ""]
    return Program(name="beat", command=command, env=env, log=folder / "beat.log")
