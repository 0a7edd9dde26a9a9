"""The ticket desk behind MCP (mcp_program.py) as a running owner on loopback."""

import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.owners.environments import python_environment

VERSION = "2.3.0"
_PROGRAM = Path(__file__).with_name("mcp_program.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """A running desk."""

    port: int
    pid: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def effects(self) -> list[str]:
        """The key of every ticket that was made, asked past any proxy."""
        found: list[str] = self._get("/effects")
        return found

    def seen(self) -> list[dict[str, Any]]:
        """Every message that arrived, with its headers and `_meta`."""
        found: list[dict[str, Any]] = self._get("/seen")
        return found

    def _get(self, path: str) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
            return json.load(answer)


@contextmanager
def running(folder: Path, *, token: str) -> Iterator[Desk]:
    """A fresh desk that lets in who has the token, stopped at the end. `folder` holds its output."""
    python = python_environment(name=f"mcp-{VERSION}", requirements=(f"mcp=={VERSION}",)) / "python"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    with (folder / "mcp.log").open("wb") as output:
        process = subprocess.Popen(
            [python, _PROGRAM, str(port)],
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env={"PATH": os.environ.get("PATH", ""), "PYTHONDONTWRITEBYTECODE": "1", "DESK_TOKEN": token},
        )
    desk = Desk(port=port, pid=process.pid)
    try:
        _until_up(desk, process, folder / "mcp.log")
        yield desk
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)


def _until_up(desk: Desk, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        try:
            desk.effects()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"The desk did not start:\n{log.read_text()[-2000:]}")
