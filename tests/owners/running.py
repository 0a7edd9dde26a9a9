"""An owner's program on loopback, which may die and come back on the same port."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

START_SECONDS = 180
"""How long an owner may take to come up; on a busy machine some need long."""


class Program:
    """A program in a process group of its own."""

    def __init__(
        self,
        *,
        name: str,
        command: Sequence[str | Path],
        folder: Path,
        is_up: Callable[[], object],
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """`is_up` raises OSError as long as the program does not answer; `folder` holds its output."""
        self._name = name
        self._command = command
        self._log = folder / f"{name}.log"
        self._is_up = is_up
        self._environ = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder), **(environ or {})}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when it answers.

        Raises:
            RuntimeError: it did not come up; with the end of what it said.
        """
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env=self._environ,
                cwd=self._log.parent,
            )
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until and self._process.poll() is None:
            try:
                self._is_up()
            except OSError:
                time.sleep(0.1)
            else:
                return
        said = self._log.read_text(errors="replace")[-2000:]
        self.kill()
        raise RuntimeError(f"{self._name} did not start:\n{said}")

    def kill(self) -> None:
        """It ends at once, as in a crash, and whatever it started with it."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(10)
        self._process = None


@contextmanager
def started(program: Program) -> Iterator[Program]:
    """It runs while the block does, whatever happens inside."""
    try:
        program.start()
        yield program
    finally:
        program.kill()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def connects(port: int) -> None:
    """Raises OSError when nobody listens."""
    socket.create_connection(("127.0.0.1", port), timeout=5).close()
