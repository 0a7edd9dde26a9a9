"""Prefect's server, a real third-party scheduler, as an owner on loopback: a key that finds the first run again."""

import json
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.owners.environments import python_environment
from tests.owners.running import Program, free_port, started

VERSION = "3.9.1"
CONTRACT = """\
contract: reports.run
effect: write
owner: helpdesk
preset: prefect
with: {lag: 0s, sees: all}
verify:
  # By the key, because the run's id may have been lost with the answer.
  http:
    method: POST
    path: /api/flow_runs/filter
    body: {flow_runs: {idempotency_key: {any_: ["{idempotency_key}"]}}}
  expect: {title: "body[0].parameters.title"}
"""
RUNS = "/api/flow_runs/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefect:
    """A running server. Its runs outlive it: they lie in SQLite in its folder."""

    port: int
    program: Program = field(repr=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def new_flow(self) -> str:
        """The id of a flow without runs."""
        flow = self.ask("/api/flows/", {"name": uuid.uuid4().hex})
        return str(flow["id"])

    def runs(self, flow: str) -> list[dict[str, Any]]:
        """Every run of a flow, asked past any proxy."""
        found: list[dict[str, Any]] = self.ask("/api/flow_runs/filter", {"flows": {"id": {"any_": [flow]}}})
        return found

    def move(self, run: str, state: str) -> None:
        """As Prefect's own worker reports what became of a run."""
        self.ask(f"/api/flow_runs/{run}/set_state", {"state": {"type": state}, "force": True})

    def ask(self, path: str, body: Any) -> Any:
        """POST past any proxy."""
        request = urllib.request.Request(
            self.url + path, data=json.dumps(body).encode(), headers={"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)


@contextmanager
def running(folder: Path) -> Iterator[Prefect]:
    """A fresh server, stopped at the end."""
    command = python_environment(name=f"prefect-{VERSION}", requirements=(f"prefect=={VERSION}",)) / "prefect"
    port = free_port()
    program = Program(
        name="prefect",
        command=[command, "server", "start", "--host", "127.0.0.1", "--port", str(port), "--no-ui"],
        folder=folder,
        environ={
            "PREFECT_HOME": str(folder / "home"),
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "DO_NOT_TRACK": "1",
        },
        is_up=lambda: urllib.request.urlopen(f"http://127.0.0.1:{port}/api/health", timeout=5).close(),
    )
    with started(program):
        server = Prefect(port=port, program=program)
        # The first run after a start takes seconds, which no harness waits for.
        server.ask(RUNS, {"flow_id": server.new_flow()})
        yield server
