"""The ticket desk behind MCP (mcp_program.py) as a running owner on loopback."""

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.owners.environments import python_environment
from tests.owners.running import Program, free_port, started

VERSION = "2.3.0"
_PROGRAM = Path(__file__).with_name("mcp_program.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """A running desk."""

    port: int

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
    desk = Desk(port=free_port())
    program = Program(
        name="mcp",
        command=[python, _PROGRAM, str(desk.port)],
        folder=folder,
        environ={"PYTHONDONTWRITEBYTECODE": "1", "DESK_TOKEN": token},
        is_up=desk.effects,
    )
    with started(program):
        yield desk
