"""A real PostgreSQL of its own for every test process, and the few things that most tests begin with.

The database is migrated by the owning role and used by the application's role: as the owner, an UPDATE of the
journal would be refused by the trigger alone, and a test of the grants would prove nothing. Nothing is ever
flushed; a test that commits uses a fresh workspace.
"""

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import pytest
from django.conf import settings

ROOT = Path(__file__).parent.parent
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "recovery.settings")
os.environ.setdefault("ASCERTAIN_SECRET_KEY", "only-for-tests-" + "x" * 40)
os.environ.setdefault("ASCERTAIN_FIELD_KEYS", "b25seS1mb3ItdGVzdHMtb25seS1mb3ItdGVzdHMtMTI=")
os.environ.setdefault("DATABASE_URL", "postgresql://ascertain_app@127.0.0.1:1/not-started-yet")
os.environ.setdefault("ASCERTAIN_OWNER_DATABASE_URL", os.environ["DATABASE_URL"])
settings.ASCERTAIN_FIELD_KEYS = os.environ["ASCERTAIN_FIELD_KEYS"]  # pytest-django may have read the settings already

TICKETS = {
    "contract": "tickets.create",
    "title": "Create a support ticket",
    "effect": "write",
    "owner": "helpdesk",
    "identity": ["customer", "title"],
    "arguments": {
        "type": "object",
        "required": ["title"],
        "properties": {"title": {"type": "string", "minLength": 1}, "customer": {"type": "string"}},
    },
    "idempotency": {"guarantee": "none", "field": "header:Idempotency-Key"},
    "success": "status in [200, 201]",
    "lookup": [
        {
            "by": "status",
            "http": {"method": "GET", "path": "/tickets/by-key/{idempotency_key}"},
            "found": "status == 200",
            "no_match": "status == 404",
            "same": {"title": "body.title"},
            "authoritative": True,
            "sees": "all",
            "lag": "0s",
            "clean_reads": 2,
        }
    ],
    "timeout": "1s",
    "dispatch_within": "1s",
    "poll": {"first": "100ms", "factor": 1.5, "max": "1s", "jitter": 0.1},
    "retry": {"first": "100ms", "factor": 2, "max": "1s", "jitter": "full"},
    "deadline": "5m",
}
"""A write without a key guarantee, with an authoritative lookup; quick, so that tests are."""


@dataclass(frozen=True, slots=True)
class Database:
    """Where this test process's PostgreSQL is."""

    app_url: str
    owner_url: str
    retention_url: str
    broker_url: str
    superuser_url: str


@pytest.fixture(scope="session")
def database(django_db_blocker: Any) -> Iterator[Database]:
    """A migrated database, used as the application's role."""
    from django.core.management import call_command
    from django.db import connections

    from recovery.local import broker
    from recovery.local.postgres import temporary_cluster

    with temporary_cluster(ROOT, settings={"max_connections": "200"}) as cluster, django_db_blocker.unblock():
        urls = Database(
            app_url=cluster.url("ascertain_app", "ascertain"),
            owner_url=cluster.url("ascertain_owner", "ascertain"),
            retention_url=cluster.url("ascertain_retention", "ascertain"),
            broker_url=broker.celery_url(url=cluster.url("ascertain_broker", "ascertain")),
            superuser_url=cluster.url("postgres", "ascertain"),
        )
        for alias, url in (("default", urls.app_url), ("owner", urls.owner_url)):
            parts = urlsplit(url)
            connections.settings[alias].update(
                NAME=parts.path.lstrip("/"),
                USER=parts.username,
                PASSWORD=parts.password,
                HOST=parts.hostname,
                PORT=str(parts.port),
            )
        call_command("migrate", database="owner", verbosity=0, interactive=False)
        connections["owner"].close()
        yield urls
        connections["default"].close()
        connections["default"].close_pool()


@dataclass(frozen=True, slots=True)
class Bench:
    """A fresh workspace with a token, an owner and, once published, tools."""

    id: UUID
    slug: str
    token: str
    owner_id: UUID

    def publish(self, document: dict[str, Any]) -> UUID:
        """Publish a contract and return its version's id."""
        from ledger.queries.clock import database_now
        from ledger.rules.contract import parse_contract
        from ledger.transitions.contracts import publish_contract

        version, _ = publish_contract(
            workspace_id=self.id, contract=parse_contract(document), owner_id=self.owner_id, now=database_now()
        )
        return version


def make_bench(*, owner_url: str = "http://127.0.0.1:1") -> Bench:
    """A fresh workspace."""
    from ledger.queries.clock import database_now
    from ledger.rules.vocabulary import Scope
    from ledger.transitions.workspace import create_token, ensure_owner, ensure_workspace

    now = database_now()
    slug = f"w-{uuid.uuid4().hex[:12]}"
    workspace = ensure_workspace(slug=slug, name=f"Workspace {slug}", now=now)
    owner = ensure_owner(workspace_id=workspace, name="helpdesk", base_url=owner_url, private_hosts=["127.0.0.1"])
    token = create_token(
        workspace_id=workspace, name="tests", scopes=list(Scope), now=now, expires_at=now + timedelta(days=1)
    )
    return Bench(id=workspace, slug=slug, token=token.token, owner_id=owner)


@pytest.fixture
def bench(database: Database) -> Bench:
    """A fresh workspace with tickets.create published."""
    made = make_bench()
    made.publish(TICKETS)
    return made


@pytest.fixture
def other_bench(database: Database) -> Bench:
    """Another workspace."""
    made = make_bench()
    made.publish(TICKETS)
    return made


class Api:
    """The HTTP API as a harness calls it, through Django's own handler."""

    def __init__(self, token: str) -> None:
        from django.test import Client

        self.client = Client(raise_request_exception=False)
        self.token = token

    def post(self, path: str, body: Any, *, raw: bytes | None = None) -> Any:
        import json

        return self.client.post(
            f"/api/v1{path}",
            data=raw if raw is not None else json.dumps(body),
            content_type="application/json",
            headers={"Authorization": f"Bearer {self.token}"},
        )

    def get(self, path: str) -> Any:
        return self.client.get(f"/api/v1{path}", headers={"Authorization": f"Bearer {self.token}"})


@pytest.fixture
def api(bench: Bench) -> Api:
    """The API with the bench's token."""
    return Api(bench.token)
