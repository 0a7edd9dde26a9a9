"""A PostgreSQL of its own for a benchmark, migrated and with one workspace; and the web server before it."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit
from uuid import UUID

import httpx2
import psycopg
from django.conf import settings
from django.core.management import call_command
from django.db import connections

from ledger.queries.clock import database_now
from ledger.rules.contract import parse_contract
from ledger.rules.vocabulary import Scope
from ledger.transitions.contracts import publish_contract
from ledger.transitions.workspace import create_token, ensure_owner, ensure_workspace
from recovery.local.postgres import Cluster, temporary_cluster

SETTINGS = {"max_connections": "200"}
"""Of its PostgreSQL, beside those of every embedded one."""
TOOL = "tickets.create"
CONTRACT = {
    "contract": TOOL,
    "effect": "write",
    "owner": "helpdesk",
    "identity": ["reference"],
    "idempotency": {"guarantee": "key", "field": "header:Idempotency-Key", "retention": "24h"},
    "success": "status in [200, 201]",
    "lookup": [
        {
            "by": "status",
            "http": {"method": "GET", "path": "/tickets/by-key/{idempotency_key}"},
            "found": "status == 200",
            "no_match": "status == 404",
            "authoritative": True,
            "sees": "all",
            "lag": "1s",
        }
    ],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Where a benchmark plays."""

    cluster: Cluster
    app_url: str
    superuser_url: str
    workspace_id: UUID
    token: str


@contextmanager
def stage() -> Iterator[Stage]:
    """A fresh database with fsync on, removed afterwards. Django's connections lead there meanwhile."""
    with temporary_cluster(Path(settings.BASE_DIR), settings=SETTINGS) as cluster:
        app_url = cluster.url("ascertain_app", "ascertain")
        _point("default", app_url)
        _point("owner", cluster.url("ascertain_owner", "ascertain"))
        call_command("migrate", database="owner", verbosity=0, interactive=False)
        connections["owner"].close()
        now = database_now()
        workspace_id = ensure_workspace(slug="benchmark", name="Benchmark", now=now)
        owner_id = ensure_owner(
            workspace_id=workspace_id, name="helpdesk", base_url="http://127.0.0.1:1", private_hosts=["127.0.0.1"]
        )
        publish_contract(workspace_id=workspace_id, contract=parse_contract(CONTRACT), owner_id=owner_id, now=now)
        token = create_token(
            workspace_id=workspace_id,
            name="benchmark",
            scopes=list(Scope),
            now=now,
            expires_at=now + timedelta(days=1),
        ).token
        try:
            yield Stage(
                cluster=cluster,
                app_url=app_url,
                superuser_url=cluster.url("postgres", "ascertain"),
                workspace_id=workspace_id,
                token=token,
            )
        finally:
            connections["default"].close()
            connections["default"].close_pool()  # type: ignore[attr-defined] # PostgreSQL's wrapper has it


def gather_statistics(stage: Stage) -> None:
    """What autovacuum does within a minute of work. Plans made on empty tables say nothing of an installation in use."""
    with psycopg.connect(stage.superuser_url, autocommit=True) as superuser:
        superuser.execute("ANALYZE")


@contextmanager
def web(app_url: str) -> Iterator[tuple[int, int]]:
    """The web server as `make up` runs it. Yields (port, process id)."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "granian", "--interface", "wsgi", "--workers", "2", "--no-ws"]
    command += ["--blocking-threads", "128", "--host", "127.0.0.1", "--port", str(port), "--log-level", "error"]
    env = {**os.environ, "DATABASE_URL": app_url}
    process = subprocess.Popen([*command, "recovery.wsgi:application"], env=env, cwd=settings.BASE_DIR)
    try:
        _await(port, process)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait(timeout=20)


def _await(port: int, process: "subprocess.Popen[bytes]") -> None:
    ends = time.monotonic() + 30
    while time.monotonic() < ends and process.poll() is None:
        try:
            if httpx2.get(f"http://127.0.0.1:{port}/healthz", timeout=1).status_code == 200:
                return
        except httpx2.HTTPError:
            time.sleep(0.05)
    raise RuntimeError("the web server did not answer")


def _point(alias: str, url: str) -> None:
    parts = urlsplit(url)
    connections.settings[alias].update(
        NAME=parts.path.lstrip("/"),
        USER=parts.username,
        PASSWORD=parts.password,
        HOST=parts.hostname,
        PORT=str(parts.port),
    )
