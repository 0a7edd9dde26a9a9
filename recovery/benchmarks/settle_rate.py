"""How fast are operations of an instant owner settled, beside the same broker's tasks that do nothing?

| line                 | ours                                                       | reference                                   |
| -------------------- | ---------------------------------------------------------- | ------------------------------------------- |
| settle.rate/BROKER   | operations settled a second: evidence and outcome durable  | tasks a second that do nothing, queued already |
| settle.start/BROKER  | from due to the owner's being asked, p99, few at a time    | from sent to begun of such a task, p50      |

One node with two processes, beat, and the database of their own, as `make up` has them.
"""

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Any, Final

from celery import Celery
from django.test import Client

from ledger.database import execute
from ledger.queries.clock import database_now
from ledger.rules.contract import parse_contract
from ledger.transitions.contracts import publish_contract
from ledger.transitions.workspace import ensure_owner
from recovery.benchmarks import brokers, programs
from recovery.benchmarks.programs import until
from recovery.benchmarks.rounds import Round, Side, VoidRunError, compare, line
from recovery.benchmarks.settle_faults import swept
from recovery.benchmarks.settle_hands import ASKED, DONE, FOLDER, GATE, count_of, noted
from recovery.benchmarks.stage import CONTRACT, TOOL, Stage, gather_statistics, stage
from recovery.local import broker

OPERATIONS: Final = 1_000
TASKS: Final = 1_000
STARTS: Final = 60
LOST: Final = json.dumps(
    {"kind": "exception", "exception": "ReadTimeout", "phase": "await", "bytes_sent": 300, "request_bytes": 300}
)
TARGETS: Final = {"redis": 5.0, "rabbitmq": 2.0}
INCLUDED: Final = "recovery.benchmarks.settle_hands"


def run(*, rounds: int = 5) -> Iterator[dict[str, Any]]:
    """Two lines a broker that is on this machine.

    Raises:
        VoidRunError: too few rounds count, or not all that was due was settled.
    """
    others: dict[str, Callable[[Path], AbstractContextManager[str]]] = {
        "redis": brokers.redis,
        "rabbitmq": brokers.rabbitmq,
    }
    servers = {"redis": "redis-server", "rabbitmq": "rabbitmq-server"}
    with stage() as here:
        owner_id = ensure_owner(
            workspace_id=here.workspace_id, name="helpdesk", base_url="http://127.0.0.1:1", most_at_once=16
        )
        contract = parse_contract({**CONTRACT, "poll": {"first": "1h", "max": "1h"}})
        publish_contract(workspace_id=here.workspace_id, contract=contract, owner_id=owner_id, now=database_now())
        broker.install_as_superuser(url=here.superuser_url)
        queue = broker.celery_url(url=here.cluster.url("ascertain_broker", "ascertain"))
        for name in ("pgmq", *others):
            if name in others and brokers.found(servers[name]) is None:
                continue
            with tempfile.TemporaryDirectory() as made:
                folder = Path(made)
                with others[name](folder) if name in others else nullcontext(queue) as url:
                    yield from _lines(here, name=name, folder=folder, url=url, rounds=rounds)


def _lines(here: Stage, *, name: str, folder: Path, url: str, rounds: int) -> Iterator[dict[str, Any]]:
    env = programs.environment(
        database_url=here.app_url,
        broker_url=url,
        ASCERTAIN_OWNER_ADAPTERS=INCLUDED,
        **{FOLDER: str(folder)},
    )
    sender = Celery()
    sender.conf.update(broker.celery_settings(url=url))
    with ExitStack() as stack:
        stack.enter_context(sender)
        node = programs.node(env=env, folder=folder, include=INCLUDED)
        for program in (node, programs.beat(env=env, folder=folder)):
            program.start()
            stack.callback(program.stop)
        until(lambda: node.ended or swept(), seconds=60, what=node.said)
        _nothing(sender, folder=folder, tasks=50)
        _settle(here, name=f"{name}-warm", operations=100)
        gather_statistics(here)
        turns = iter(range(2 * rounds))
        target = TARGETS.get(name)
        rate = compare(
            ours=lambda: _settle(here, name=f"{name}-{next(turns)}", operations=OPERATIONS),
            reference=lambda: _nothing(sender, folder=folder, tasks=TASKS),
            rounds=rounds,
        )
        yield line(
            name=f"settle.rate/{name}",
            rounds=rate,
            unit="settled/s ÷ no-op tasks/s",
            target=f"≥ {target:g}" if target else "none",
            met=lambda ratio: target is None or ratio >= target,
        )
        start: list[Round] = compare(
            ours=lambda: _starts(here, folder=folder, name=f"{name}-start-{next(turns)}"),
            reference=lambda: _begins(sender, folder=folder),
            rounds=rounds,
        )
        yield line(
            name=f"settle.start/{name}",
            rounds=start,
            unit="ms, p99 ÷ p50",
            target="≤ 5",
            met=lambda ratio: ratio <= 5,
        )


def _settle(here: Stage, *, name: str, operations: int) -> Side:
    """Operations of which all become due in the same moment."""
    _lose(here, name=name, payloads=[{} for _ in range(operations)])
    execute(
        "UPDATE schedule SET next_check_at = now() FROM operation o WHERE o.id = schedule.operation AND o.operation_id LIKE %s",
        [f"{name}:%"],
    )
    began = time.time()
    until(lambda: _settled(name)[0] == operations, seconds=120, what=lambda: f"{_settled(name)} of {operations}")
    return Side(figure=operations / (_settled(name)[1] - began))


def _starts(here: Stage, *, folder: Path, name: str) -> Side:
    """Operations of which one becomes due after the other, 20 a second."""
    begins = time.time() + STARTS * 0.03 + 1
    dues = [begins + number * 0.05 for number in range(STARTS)]
    _lose(here, name=name, payloads=[{"due_at": due} for due in dues])
    before = count_of(folder, ASKED)
    for number, due in enumerate(dues):
        execute(
            "UPDATE schedule SET next_check_at = to_timestamp(%s) FROM operation o "
            "WHERE o.id = schedule.operation AND o.operation_id = %s",
            [due, f"{name}:{number}"],
        )
    if time.time() > begins:
        raise VoidRunError("operations were due before all of them were made")
    until(lambda: _settled(name)[0] == STARTS, seconds=60, what=lambda: f"{_settled(name)} of {STARTS}")
    return _side([waited * 1000 for waited in noted(folder, ASKED)[before:]], figure=0.99)


def _nothing(sender: Celery, *, folder: Path, tasks: int) -> Side:
    """Tasks that all stand in the queue when the first begins."""
    (folder / GATE).unlink(missing_ok=True)
    before = count_of(folder, DONE)
    for _ in range(2):
        sender.send_task("recovery.benchmark.hold")
    for _ in range(tasks):
        sender.send_task("recovery.benchmark.nothing", kwargs={"sent_at": time.time()})
    began = time.monotonic()
    (folder / GATE).touch()
    until(lambda: count_of(folder, DONE) - before == tasks, seconds=120, what="tasks were lost")
    return Side(figure=tasks / (time.monotonic() - began))


def _begins(sender: Celery, *, folder: Path) -> Side:
    """Tasks that are sent one at a time to idle processes."""
    before = count_of(folder, DONE)
    for _ in range(STARTS):
        sender.send_task("recovery.benchmark.nothing", kwargs={"sent_at": time.time()})
        time.sleep(0.05)
    until(lambda: count_of(folder, DONE) - before == STARTS, seconds=60, what="tasks were lost")
    return _side([waited * 1000 for waited in noted(folder, DONE)[before:]], figure=0.5)


def _lose(here: Stage, *, name: str, payloads: list[dict[str, Any]]) -> None:
    """Operations whose answer was lost, and which nobody looks at within the hour."""
    client = Client(headers={"authorization": f"Bearer {here.token}"})
    for number, payload in enumerate(payloads):
        operation_id = f"{name}:{number}"
        body = {
            "operation_id": operation_id,
            "tool": TOOL,
            "payload": {"reference": operation_id, **payload},
            "attempt": True,
        }
        opened = client.post("/api/v1/operations", json.dumps(body), content_type="application/json")
        path = f"/api/v1/operations/{operation_id}/attempts/attempt-01/observations"
        lost = client.post(path, LOST, content_type="application/json")
        if (opened.status_code, lost.status_code) != (201, 200):
            raise VoidRunError(f"{operation_id}: {opened.content!r} {lost.content!r}")


def _settled(name: str) -> tuple[int, float]:
    """How many were found to be applied, and when the last one was."""
    [(count, at)] = execute(
        "SELECT count(*), coalesce(extract(epoch FROM max(changed_at)), 0)::float8 FROM operation "
        "WHERE operation_id LIKE %s AND outcome = 'applied'",
        [f"{name}:%"],
    )
    return count, at


def _side(milliseconds: list[float], *, figure: float) -> Side:
    ordered = sorted(milliseconds)
    shares = {share: ordered[min(int(len(ordered) * share), len(ordered) - 1)] for share in (0.5, 0.99)}
    return Side(figure=shares[figure], p50=statistics.median(ordered), p99=shares[0.99])
