"""`footprint`: what one operation costs the database, the disk and the memory. Counts, not times."""

import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
from django.conf import settings

from ledger.queries.clock import database_now
from ledger.queries.facts import Held, held_by_name
from ledger.rules.evidence import grade_lookup
from ledger.rules.facts import LookupFacts
from ledger.transitions.lookup import Answer, effect_with, record_lookup
from ledger.transitions.open import Intent, open_operation
from ledger.transitions.passing_of_time import lapse_attempt
from recovery.benchmarks.captured import one_operation, pgbench_script, run_pgbench
from recovery.benchmarks.intake import drive
from recovery.benchmarks.rounds import VoidRunError
from recovery.benchmarks.stage import Stage, stage, web
from recovery.judgement.decide import decide_lookup

SETTLED = 2_000
WAITING = 150
"""Requests; a worker holds at most 100 and the system spreads them unevenly over two."""
ANSWER = '{"id": "T-1", "state": "open", "title": "Export broken"}'


def run(*, rounds: int = 5) -> Iterator[dict[str, Any]]:  # noqa: ARG001 - counts need no rounds
    """A line for each figure."""
    with stage() as here:
        one_operation(token=here.token, name="first")  # reads the contract once per process
        opened, reported = one_operation(token=here.token, name="second")
        trips = len(opened.statements) + len(reported.statements)
        yield _line("footprint/round-trips", trips, unit="statements an operation", target="≤ 4", met=trips <= 4)
        commits, wal = _through_http(here)
        yield _line("footprint/commits", commits, unit="an operation", target="2", met=round(commits, 1) <= 2)
        bare = _bare_wal(here)
        yield _line(
            "footprint/wal",
            wal,
            reference=bare,
            unit="bytes an operation",
            target="≤ 1.25 × the bare SQL's",
            met=wal <= 1.25 * bare,
        )
    with stage() as here:
        size, tables = _on_disk(here)
        yield _line(
            "footprint/disk", size, unit="bytes a settled operation", target="≤ 3072", met=size <= 3072, tables=tables
        )
    yield from _memory()


def _through_http(here: Stage) -> tuple[float, float]:
    """Commits and WAL bytes an operation, over the real server; reads commit too, but write no WAL record."""
    with web(here.app_url) as (port, _):
        drive(here, port=port, seconds=2, prefix="warm")
        with psycopg.connect(here.superuser_url, autocommit=True) as watching:
            before = _counters(watching)
            told = drive(here, port=port, seconds=5, prefix="counted")
            after = _counters(watching)
    done = told["operations"]
    return (after[0] - before[0]) / done, (after[1] - before[1]) / done


def _counters(watching: "psycopg.Connection[Any]") -> tuple[int, int]:
    """How many transactions got an id (each is one durable commit), and where the WAL ends."""
    [(transactions, wal)] = watching.execute(
        "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint, (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint"
    ).fetchall()
    return transactions, wal


def _bare_wal(here: Stage) -> float:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "two-transactions.sql"
        script.write_text(pgbench_script(here))
        run_pgbench(here, script=script, callers=8, seconds=2)
        with psycopg.connect(here.superuser_url, autocommit=True) as watching:
            before, began = _counters(watching), _operations(watching)
            run_pgbench(here, script=script, callers=8, seconds=5)
            after, ended = _counters(watching), _operations(watching)
    return (after[1] - before[1]) / (ended - began)


def _operations(watching: "psycopg.Connection[Any]") -> int:
    return int(watching.execute("SELECT count(*) FROM operation").fetchall()[0][0])


def _on_disk(here: Stage) -> tuple[float, dict[str, float]]:
    """Bytes of tables and indexes a settled operation: a 300-byte payload, one attempt, two lookups."""
    before = _sizes(here)
    for number in range(SETTLED):
        _settled(here, number)
    after = _sizes(here)
    grown = {name: (size - before[name]) / SETTLED for name, size in after.items()}
    return sum(grown.values()), {name: round(size) for name, size in grown.items() if round(size)}


def _sizes(here: Stage) -> dict[str, int]:
    with psycopg.connect(here.superuser_url, autocommit=True) as watching:
        watching.execute("VACUUM FULL")
        rows = watching.execute(
            "SELECT relname, pg_total_relation_size(oid) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
        ).fetchall()
    return dict(rows)


def _settled(here: Stage, number: int) -> None:
    """One operation through the transitions themselves: opened long ago, lapsed, not found once, found then."""
    from recovery.benchmarks.load import intent

    one = intent_of(here, intent(f"disk-{number}"))
    opened = open_operation(intent=one, now=one.deadline_at - timedelta(hours=1))
    if opened is None:
        raise RuntimeError("the operation was there already")
    _lapse(_held(here, one.operation_id))
    for found in (False, True):
        _looked_at(_held(here, one.operation_id), found=found)


def intent_of(here: Stage, body: str) -> Intent:
    """The intent of a request body, as the API makes it, but with a permit that lapsed an hour ago."""
    import orjson

    from ledger.queries.access import Caller, caller
    from ledger.queries.contracts import contract_by_id
    from ledger.rules.payload import canonical, digest, digest_of

    told = orjson.loads(body)
    who = caller(token=here.token, tool=told["tool"])
    if not isinstance(who, Caller) or who.tool_id is None or who.contract_id is None or who.contract_number is None:
        raise RuntimeError("the benchmark's token is not accepted")
    payload = canonical(told["payload"])
    return Intent(
        workspace_id=here.workspace_id,
        token_id=who.token_id,
        actor=who.actor,
        tool_id=who.tool_id,
        tool=told["tool"],
        contract_id=who.contract_id,
        contract_number=who.contract_number,
        contract=contract_by_id(who.contract_id),
        operation_id=told["operation_id"],
        payload=payload,
        payload_digest=digest_of(payload),
        identity_digest=digest({"members": {"reference": told["payload"]["reference"]}}),
        principal="",
        agent=None,
        trace_id=None,
        deadline_at=who.now + timedelta(minutes=15),
        reconcile_until=who.now + timedelta(hours=72),
        wants_permit=True,
    )


def _held(here: Stage, operation_id: str) -> Held:
    found = held_by_name(workspace_id=here.workspace_id, operation_id=operation_id)
    if found is None:
        raise RuntimeError("the operation is gone")
    return found


def _lapse(held: Held) -> None:
    from ledger.rules.evidence import join_effects
    from recovery.judgement.decide import decide_lapse

    effect = join_effects(attempts=held.facts.attempts, absence_since=None, kind=held.facts.kind)
    decision = decide_lapse(facts=held.facts, effect=effect, contract=held.contract, now=held.now)
    if lapse_attempt(held=held, decision=decision) is None:
        raise RuntimeError("the attempt had not lapsed")


def _looked_at(held: Held, *, found: bool) -> None:
    from ledger.rules.vocabulary import Effect

    rule = held.contract.lookup[0]
    now = database_now()
    lookup = LookupFacts(
        source="helpdesk/status",
        by="status",
        answer="found" if found else "no_match",
        started_at=now,
        observed_at=now,
        exact_key=True,
        authoritative=True,
        complete=found,
        sees="all",
        matches=int(found),
        effect=Effect.APPLIED if found else None,
        query="GET /tickets/by-key/disk-1000",
        status=200 if found else 404,
    )
    grade = grade_lookup(lookup=lookup, rule=rule, facts=held.facts)
    effect = effect_with(held=held, grade=grade)
    decision = decide_lookup(
        grade=grade, lookup=lookup, facts=held.facts, effect=effect, contract=held.contract, now=now
    )
    detail = {
        "reasons": list(grade.reasons),
        "status": lookup.status,
        "clean_reads": grade.clean_reads,
        "rule": decision.rule,
    }
    answer = Answer(lookup=lookup, grade=grade, body=ANSWER if found else "", detail=detail)
    if record_lookup(held=held, answer=answer, decision=decision, at=now) is None:
        raise RuntimeError("the operation moved")


def _memory() -> Iterator[dict[str, Any]]:
    """Resident memory of a web worker and of the task worker, and how long the web takes to be ready."""
    with stage() as here:
        began = time.monotonic()
        with web(here.app_url) as (port, pid):
            ready = time.monotonic() - began
            drive(here, port=port, seconds=3, prefix="memory")
            resident = max(_resident(child) for child in _children(pid))
            grown = _grown_by_waiting(here, port=port, workers=_children(pid))
        yield _line("footprint/start", ready, unit="seconds from start to ready", target="≤ 10", met=ready <= 10)
        yield _line("footprint/web", resident, unit="MB resident in a web worker", target="≤ 130", met=resident <= 130)
        yield _line(
            "footprint/waiting",
            grown,
            unit=f"MB more in all web workers with {WAITING} waiting",
            target="≤ 20",
            met=grown <= 20,
        )
        resident = _worker_memory(here)
        yield _line(
            "footprint/worker", resident, unit="MB resident in a task worker", target="≤ 130", met=resident <= 130
        )


def _grown_by_waiting(here: Stage, *, port: int, workers: list[int]) -> float:
    """Megabytes that the workers take more while requests wait for an operation to move."""
    one_operation(token=here.token, name="awaited")
    ask = (
        "GET /api/v1/operations/awaited?wait=20 HTTP/1.1\r\n"
        f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {here.token}\r\n\r\n"
    ).encode()
    before = sum(_resident(worker) for worker in workers)
    with ExitStack() as stack:
        waiting = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(WAITING)]
        for connection in waiting:
            connection.sendall(ask)
        time.sleep(5)
        grown = sum(_resident(worker) for worker in workers) - before
        answered, _, _ = select.select(waiting, [], [], 0)
    if answered:
        raise VoidRunError(f"{len(answered)} of {WAITING} requests did not wait")
    return grown


def _worker_memory(here: Stage) -> float:
    import os

    from recovery.local import broker

    broker.install_as_superuser(url=here.superuser_url)
    env = {
        **os.environ,
        "DATABASE_URL": here.app_url,
        "CELERY_BROKER_URL": broker.celery_url(url=here.cluster.url("ascertain_broker", "ascertain")),
        "PYTHONWARNINGS": "ignore:You're running the worker with superuser",
    }
    command = [sys.executable, "-m", "celery", "--quiet", "-A", "recovery", "worker", "--concurrency", "2"]
    command += ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "ERROR"]
    process = subprocess.Popen(command, env=env, cwd=settings.BASE_DIR)
    try:
        time.sleep(8)
        return max(_resident(pid) for pid in [process.pid, *_children(process.pid)])
    finally:
        process.terminate()
        process.wait(timeout=30)


def _children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _resident(pid: int) -> float:
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def _line(
    name: str, ours: float, *, unit: str, target: str, met: bool, reference: float | None = None, **more: Any
) -> dict[str, Any]:
    told = {"name": name, "ours": float(f"{ours:.4g}"), "reference": reference and float(f"{reference:.4g}")}
    ratio = float(f"{ours / reference:.3g}") if reference else None
    return {**told, "ratio": ratio, "unit": unit, "n": 1, "target": target, "met": met, **more}
