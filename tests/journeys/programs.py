"""A running Ascertain for tests: a web server, worker nodes and beat (recovery/benchmarks/programs.py)."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from recovery.benchmarks.programs import HOST, Program, beat, environment, free_port, node, reaches_its_database, until
from recovery.benchmarks.programs import web as web_program

__all__ = ["HOST", "Program", "Workers", "environment", "free_port", "until", "web", "workers"]


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


@contextmanager
def web(*, env: Mapping[str, str], folder: Path, workers: int = 2) -> Iterator[str]:
    """A web server on a port of its own: its address."""
    port = free_port()
    program = web_program(env=env, folder=folder, port=port, workers=workers)
    program.start()
    try:
        address = f"http://{HOST}:{port}"
        until(lambda: program.ended or reaches_its_database(address), seconds=60, what=program.said)
        assert not program.ended, program.said()
        yield address
    finally:
        program.stop()


def workers(*, env: Mapping[str, str], folder: Path, nodes: int = 2, concurrency: int = 2) -> Workers:
    """Worker nodes and beat, not started yet."""
    gates = folder / "gates"
    gates.mkdir(exist_ok=True)
    env = {**env, "ASCERTAIN_OWNER_ADAPTERS": "tests.journeys.gates", "ASCERTAIN_TEST_GATES": str(gates)}
    return Workers(
        nodes=[
            node(env=env, folder=folder, name=f"node{number}", concurrency=concurrency)
            for number in range(1, nodes + 1)
        ],
        beat=beat(env=env, folder=folder),
        gates=gates,
    )
