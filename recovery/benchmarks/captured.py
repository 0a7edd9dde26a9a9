"""The statements that one operation really sent to PostgreSQL, and the same as two plain transactions for pgbench."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from django.conf import settings
from django.db import connection
from django.test import Client

from recovery.benchmarks.load import OBSERVED, intent
from recovery.benchmarks.stage import Stage
from recovery.local.binaries import programs
from recovery.local.places import place

_TEXT = re.compile(r" ?(E?)'((?:[^']|\'\')*)'")
_UUID = re.compile(r"'([0-9a-f]{32})'::uuid")


@dataclass(slots=True)
class Captured:
    """Statements with their parameters, in the order in which they were sent."""

    statements: list[tuple[str, Any]] = field(default_factory=list)


@contextmanager
def capturing() -> Iterator[Captured]:
    """Every statement that Django sends on this thread meanwhile."""
    kept = Captured()

    def keep(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        kept.statements.append((sql, params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(keep):
        yield kept


def one_operation(*, token: str, name: str) -> tuple[Captured, Captured]:
    """Record and report one operation in process; the statements of each of the two requests."""
    client = Client()
    headers = {"Authorization": f"Bearer {token}"}
    with capturing() as opened:
        answer = client.post("/api/v1/operations", intent(name), content_type="application/json", headers=headers)
    if answer.status_code != 201:
        raise RuntimeError(answer.content.decode())
    with capturing() as reported:
        path = f"/api/v1/operations/{name}/attempts/attempt-01/observations"
        answer = client.post(path, OBSERVED, content_type="application/json", headers=headers)
    if answer.status_code != 200:
        raise RuntimeError(answer.content.decode())
    return opened, reported


def pgbench_script(stage: Stage) -> str:
    """One operation as two plain transactions, with fresh names and ids for each run of the script."""
    one_operation(
        token=stage.token, name="warm-up"
    )  # contracts and the like are read once per process; that is not per operation
    name = "captured-operation"
    opened, reported = one_operation(token=stage.token, name=name)
    with psycopg.connect(stage.app_url) as plain:
        texts = [[_literal(plain, sql, params) for sql, params in part.statements] for part in (opened, reported)]
        [(kept, digest, identity)] = plain.execute(
            "SELECT replace(id::text, '-', ''), encode(payload_digest, 'hex'), encode(identity_digest, 'hex') FROM operation "
            "WHERE operation_id = %s",
            [name],
        ).fetchall()
        kinds = ("workspace", "tool", "contract_version", "api_token")
        fixed = {row[0].hex for kind in kinds for row in plain.execute(f"SELECT id FROM {kind}")}  # noqa: S608
    fresh: dict[str, str] = {kept: _id(0)}
    for text in (text for part in texts for text in part):
        for found in _UUID.findall(text):
            if found not in fixed and found not in fresh:
                fresh[found] = _id(len(fresh))
    lines = ["\\set n random(1, 9000000000000000)"]
    for part in texts:
        lines.append("BEGIN;")
        for text in part:
            text = _TEXT.sub(_without_colons, text)
            for value, expression in fresh.items():
                text = text.replace(f"'{value}'::uuid", expression)
            for value in (digest, identity):
                text = text.replace(f"'\\x{value}'::bytea", f"sha256(int8send(:n::bigint + {len(value)}))")
            text = text.replace(f"'{name}'", "('b-' || :n::bigint)")
            lines.append(" ".join(text.split()) + ";")
        lines.append("COMMIT;")
    return "\n".join(lines) + "\n"


def run_pgbench(stage: Stage, *, script: Path, callers: int, seconds: int) -> float:
    """Operations a second of the script by that many callers."""
    binary = programs(place(Path(settings.BASE_DIR))) / "pgbench"
    url = stage.app_url
    done = subprocess.run(
        [binary, "-n", "-M", "prepared", "-c", str(callers), "-j", "2", "-T", str(seconds), "-f", script, "-d", url],
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r"tps = ([0-9.]+)", done.stdout)
    if done.returncode != 0 or found is None:
        raise RuntimeError(f"pgbench failed: {done.stderr[-2000:]}")
    return float(found[1])


def _without_colons(found: re.Match[str]) -> str:
    """pgbench takes `:name` for a variable even inside a literal; an escape keeps it from that."""
    if ":" not in found[2]:
        return found[0]
    kept = found[2] if found[1] else found[2].replace("\\", "\\\\")
    return f" E'{kept.replace(':', chr(92) + 'x3a')}'"


def _literal(plain: "psycopg.Connection[Any]", sql: str, params: Any) -> str:
    with psycopg.ClientCursor(plain) as cursor:
        return cursor.mogrify(sql, params or None)


def _id(number: int) -> str:
    """A fresh uuid for each run, made from :n by the server."""
    return f"(lpad(to_hex(:n::bigint), 30, '0') || '{number:02x}')::uuid"
