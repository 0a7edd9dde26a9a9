"""Traffic with faults for minutes, while programs are killed, the database stops and the queue is emptied, at random.

    python -m tests.chaos.soak --seconds 600

| what happens, every few seconds                     | what makes good for it                              |
| --------------------------------------------------- | --------------------------------------------------- |
| a worker node, or one of its processes, is killed   | claims, places and permits lapse                    |
| beat is killed                                      | it is started again                                 |
| the web server is killed                            | harnesses come back with the same operation         |
| the database stops at once and is started again     | what was committed is there; everything else is not |
| every queue is emptied                              | the schedule is the queue                           |

Beside that every write and every lookup can meet a fault at its owner (settle_owner.py). At the end all programs run for
as long as there is something to settle. Exit 0: every operation is settled as its owner knows it or is with a person, no
effect is there twice, and the whole ledger verifies. What was done is printed as one line of JSON.
"""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import django
import psycopg

RATE = 6
"""New operations a second."""
MOST_OPEN = 400
"""More are not begun while so many wait."""
LONGEST_END = 300.0
"""Seconds that everything may take to settle once nothing is broken any more."""


@dataclass(slots=True)
class Chaos:
    """Breaks one thing after the other. Main thread only: it starts programs."""

    stage: Any
    programs: dict[str, Any]
    seed: int
    done: Counter[str] = field(default_factory=Counter)
    ended_alone: Counter[str] = field(default_factory=Counter)
    roll: random.Random = field(init=False)
    deck: list[Callable[[], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.roll = random.Random(self.seed)

    def one(self) -> None:
        """Break one thing; it works again within a few seconds. Each way has its turn before one comes again."""
        if not self.deck:
            self.deck = [
                self.kill_node,
                self.kill_process_of_node,
                self.kill_beat,
                self.kill_web,
                self.stop_database,
                self.empty_queues,
            ]
            self.roll.shuffle(self.deck)
        way = self.deck.pop()
        self.done[way.__name__] += 1
        way()

    def kill_node(self) -> None:
        self._kill(self.roll.choice(["node1", "node2"]), away=self.roll.uniform(0.1, 3))

    def kill_process_of_node(self) -> None:
        node = self.programs[self.roll.choice(["node1", "node2"])]
        if node.process is None or node.ended:
            return
        children = _children(node.process.pid)
        if children:
            with suppress(ProcessLookupError):
                os.kill(self.roll.choice(children), signal.SIGKILL)

    def kill_beat(self) -> None:
        self._kill("beat", away=self.roll.uniform(0.1, 2))

    def kill_web(self) -> None:
        self._kill("web", away=self.roll.uniform(0.1, 1.5))

    def stop_database(self) -> None:
        from recovery.benchmarks.stage import SETTINGS
        from recovery.local.postgres import crash, start_again

        crash(self.stage.cluster)
        time.sleep(self.roll.uniform(0.1, 1.5))
        start_again(_root(), cluster=self.stage.cluster, settings=SETTINGS)

    def empty_queues(self) -> None:
        with psycopg.connect(self.stage.superuser_url, autocommit=True) as superuser:
            superuser.execute("SELECT pgmq.purge_queue(queue_name) FROM pgmq.list_queues()")

    def mend(self) -> None:
        """Start whatever ended, as a supervisor would."""
        for name, program in self.programs.items():
            if program.ended:
                self.ended_alone[name] += 1
                program.start()

    def _kill(self, name: str, *, away: float) -> None:
        self.programs[name].kill()
        time.sleep(away)
        self.programs[name].start()


def soak(*, seconds: float, seed: int, claim_seconds: int) -> dict[str, Any]:
    """Run it. What was done and what came of it; `holds` is False when a law was broken."""
    from django.db import connections

    from recovery.benchmarks import programs, settle_faults
    from recovery.benchmarks.settle_harness import LAG, Harness, make_workspace
    from recovery.benchmarks.settle_verdict import judge, kept_operations
    from recovery.benchmarks.stage import stage
    from recovery.local import broker

    with stage() as here, tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        owner_port, dead_port, web_port = programs.free_port(), programs.free_port(), programs.free_port()
        workspace = make_workspace(owner_port=owner_port, slug="soak")
        connections["default"].close()
        broker.install_as_superuser(url=here.superuser_url)
        env = programs.environment(
            database_url=here.app_url,
            broker_url=broker.celery_url(url=here.cluster.url("ascertain_broker", "ascertain")),
            ASCERTAIN_CLAIM_SECONDS=str(claim_seconds),
        )
        ours = {
            "web": programs.web(env=env, folder=folder, port=web_port),
            "node1": programs.node(env=env, folder=folder, name="node1"),
            "node2": programs.node(env=env, folder=folder, name="node2"),
            "beat": programs.beat(env=env, folder=folder),
        }
        chaos = Chaos(stage=here, programs=ours, seed=seed)
        address = f"http://{programs.HOST}:{web_port}"
        try:
            with settle_faults.owner(port=owner_port, folder=folder, faults="mixed", seed=seed):
                for program in ours.values():
                    program.start()
                programs.until(lambda: programs.reaches_its_database(address), seconds=90, what=ours["web"].said)
                harness = Harness(
                    address=address, token=workspace.token, owner_port=owner_port, dead_port=dead_port, seed=seed
                )
                harness.start(threads=8)
                sent = _make_traffic(harness, chaos, seconds=seconds)
                ends = time.monotonic() + LONGEST_END
                while harness.open() and time.monotonic() < ends:
                    chaos.mend()
                    time.sleep(0.5)
                took = LONGEST_END - (ends - time.monotonic())
                harness.stop()
                truth = settle_faults.truth_of(owner_port)
        finally:
            for program in ours.values():
                program.terminate()
            for program in ours.values():
                program.stop()
        # Its connections did not outlive the database's first stop.
        connections["default"].close_pool()  # type: ignore[attr-defined] # PostgreSQL's wrapper has it
        kept = kept_operations(workspace_id=workspace.id)
        verdict = judge(kept, effects=truth["effects"])
        whole = verdict.operations == sent and truth["longest_lag"] <= LAG.total_seconds()
        clean = _verifies()
        return {
            "name": "soak",
            "seconds": round(seconds),
            "seed": seed,
            **verdict.told(),
            "sent": sent,
            "states": dict(Counter(one.state for one in kept)),
            "asked": truth["asked"],
            "longest_lag": round(truth["longest_lag"], 2),
            "broken": dict(chaos.done),
            "ended_by_themselves": dict(chaos.ended_alone),
            "seconds_to_the_end": round(took, 1),
            "troubles": harness.troubles[:5],
            "ledger_verifies": clean,
            "holds": verdict.holds and whole and clean and not harness.troubles,
            **({} if verdict.holds else {"said": {name: one.said()[-1500:] for name, one in ours.items()}}),
        }


def _make_traffic(harness: Any, chaos: Chaos, *, seconds: float) -> int:
    """Begin operations evenly and break things meanwhile; how many were begun."""
    from recovery.benchmarks.settle_faults import names_of

    began = time.monotonic()
    names = names_of(max(round(seconds * RATE), 10))
    sent, breaks_at = 0, began + 3
    while (now := time.monotonic()) < began + seconds:
        wanted = min(round((now - began) * RATE), len(names))
        if wanted > sent and harness.open() < MOST_OPEN:
            harness.begin(names[sent:wanted])
            sent = wanted
        chaos.mend()
        if now >= breaks_at:
            chaos.one()
            breaks_at = time.monotonic() + chaos.roll.uniform(2, 6)
        time.sleep(0.1)
    return sent


def _verifies() -> bool:
    from django.core.management import call_command

    try:
        call_command("verify_ledger", stdout=sys.stderr)
    except SystemExit:
        return False
    return True


def _children(pid: int) -> list[int]:
    """The processes that a process started and that still run."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, IndexError):
                if int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1]) == pid:
                    found.append(int(entry.name))
    return found


def _root() -> Path:
    return Path(__file__).parents[2]


def main() -> None:
    """Run it, print what came of it, and exit 1 when a law was broken."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--claim-seconds", type=int, default=30, help="how long a claim lasts")
    parser.add_argument("--seed", type=int, default=None, help="the order in which things break; told in the output")
    chosen = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "recovery.settings")
    django.setup()
    seed = chosen.seed if chosen.seed is not None else random.SystemRandom().randrange(1_000_000)
    told = soak(seconds=chosen.seconds, seed=seed, claim_seconds=chosen.claim_seconds)
    print(json.dumps(told, ensure_ascii=False), flush=True)
    sys.exit(0 if told["holds"] else 1)


if __name__ == "__main__":
    main()
