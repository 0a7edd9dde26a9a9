"""The PostgreSQL kinds on the stage of the conformance suite, before a scratch database of the test process's server."""

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from recovery.owners.base import Reply
from recovery.owners.sql import PostgresXactLookup, SqlLookup
from tests.conftest import Database
from tests.owners.conformance import OPERATION_ID, SECRET, Situation, question
from tests.owners.scripted import ScriptedOwner
from tests.owners.stages_http import garbage
from tests.owners.wire_proxy import WireProxy

SQL = {
    "by": "sql",
    "sql": {
        "statement": "SELECT id, key, title, customer, state FROM ticket WHERE customer = %(customer)s ORDER BY id",
        "parameters": {"customer": "{payload.customer}"},
    },
    "match": "item.key == operation_id",
    "effect": {"applied": "body.state == 'open'", "pending": "body.state == 'creating'"},
    "same": {"title": "body.title", "customer": "body.customer"},
    "authoritative": True,
    "sees": "all",
    "as": "secret:warehouse",
}
XACT = {"by": "postgres_xact", "xact": "{receipt.xact}", "authoritative": True, "as": "secret:warehouse"}
OURS = {"id": 1, "key": OPERATION_ID, "title": "Export broken", "customer": "c-19", "state": "open"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Warehouse:
    """A database of its own, with a role that may read its tickets."""

    admin_url: str
    host: str
    port: int
    name: str
    role: str

    def address(self, *, password: str = SECRET, port: int | None = None) -> str:
        """Where the reading role connects."""
        return f"host={self.host} port={port or self.port} dbname={self.name} user={self.role} password={password}"

    def connect(self) -> psycopg.Connection[Any]:
        """As its owner."""
        return psycopg.connect(self.admin_url, autocommit=True)


@pytest.fixture(scope="session")
def warehouse_server(database: Database) -> Iterator[Warehouse]:
    """The database, for this test process."""
    name = f"warehouse_{uuid.uuid4().hex[:8]}"
    parts = urlsplit(database.superuser_url)
    with psycopg.connect(database.superuser_url, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
        admin.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{SECRET}'")
        admin.execute(f"GRANT CONNECT ON DATABASE {name} TO {name}")
    found = Warehouse(
        admin_url=parts._replace(path=f"/{name}").geturl(),
        host=parts.hostname or "",
        port=parts.port or 0,
        name=name,
        role=name,
    )
    with found.connect() as admin:
        admin.execute("CREATE TABLE ticket (id int PRIMARY KEY, key text, title text, customer text, state text)")
        admin.execute("CREATE TABLE effect (id bigserial PRIMARY KEY, key text)")
        admin.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {name}")
    yield found
    with psycopg.connect(database.superuser_url, autocommit=True) as admin:
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
        admin.execute(f"DROP ROLE {name}")


@pytest.fixture
def warehouse(warehouse_server: Warehouse) -> Warehouse:
    """The database, empty."""
    with warehouse_server.connect() as admin:
        admin.execute("TRUNCATE ticket, effect RESTART IDENTITY")
    return warehouse_server


class _Stage:
    """What both kinds share: the ways in which a database cannot be asked."""

    cannot: Mapping[Situation, str] = {}

    def __init__(self, warehouse: Warehouse, elsewhere: ScriptedOwner) -> None:
        self._warehouse = warehouse
        self._elsewhere = elsewhere

    def _asked(self, adapter: Any, rule: Mapping[str, Any], situation: Situation, **more: Any) -> Reply:
        warehouse, port = self._warehouse, self._warehouse.port
        self._elsewhere.answer = garbage
        if situation is Situation.MALFORMED:
            port = self._elsewhere.port
        if situation is Situation.FAILED:
            port = 1
        password = "wrong" if situation is Situation.WRONG_PRINCIPAL else SECRET

        def ask(port: int) -> Reply:
            reply: Reply = adapter.ask(
                question(
                    dict(rule),
                    base_url=f"postgresql://127.0.0.1:{port}",
                    secrets={"warehouse": warehouse.address(port=port, password=password)},
                    **more,
                )
            )
            return reply

        if situation is not Situation.SLOW:
            return ask(port)
        with WireProxy(upstream_port=port) as silent:
            silent.hold()
            return ask(silent.port)


class SqlStage(_Stage):
    """`by: sql`."""

    cannot: Mapping[Situation, str] = {
        Situation.REDIRECTED: "the protocol sends nobody elsewhere",
        Situation.REPEATED_CURSOR: "one statement has no pages",
        Situation.WITHOUT_HANDLE: "it is asked by our own key",
    }
    _ROWS: Mapping[Situation, list[dict[str, Any]]] = {
        Situation.NO_MATCH: [{**OURS, "key": "another"}],
        Situation.PENDING: [{**OURS, "state": "creating"}],
        Situation.DIFFERENT: [{**OURS, "title": "Something else"}],
        Situation.SEVERAL: [OURS, {**OURS, "id": 2}],
        Situation.HUGE: [{**OURS, "title": "x" * 3_000_000}],
        Situation.TRUNCATED: [{**OURS, "id": number, "key": "another"} for number in range(150)]
        + [{**OURS, "id": 151}],
    }

    def ask(self, situation: Situation) -> Reply:
        """As the reconciler asks."""
        with self._warehouse.connect() as admin:
            admin.cursor().executemany(
                "INSERT INTO ticket VALUES (%(id)s, %(key)s, %(title)s, %(customer)s, %(state)s)",
                self._ROWS.get(situation, [OURS]),
            )
        return self._asked(SqlLookup(), SQL, situation)


class XactStage(_Stage):
    """`by: postgres_xact`."""

    cannot: Mapping[Situation, str] = {
        Situation.REDIRECTED: "the protocol sends nobody elsewhere",
        Situation.REPEATED_CURSOR: "one status has no pages",
        Situation.NO_MATCH: "an id that is not known is too old or another's: it is no absence",
        Situation.DIFFERENT: "a status shows no object",
        Situation.SEVERAL: "an id is one transaction's",
        Situation.HUGE: "a status is a word",
        Situation.TRUNCATED: "a status is a word",
    }

    def ask(self, situation: Situation) -> Reply:
        """As the reconciler asks, about a transaction that was committed, or is open still."""
        with psycopg.connect(self._warehouse.admin_url) as writer:
            writer.execute("INSERT INTO effect (key) VALUES (%s)", [OPERATION_ID])
            told = writer.execute("SELECT pg_current_xact_id()::text").fetchone()
            if situation is not Situation.PENDING:
                writer.commit()
            receipt = {} if situation is Situation.WITHOUT_HANDLE else {"xact": told[0] if told else ""}
            return self._asked(PostgresXactLookup(), XACT, situation, receipt=receipt)


@pytest.fixture
def sql_stage(warehouse: Warehouse, elsewhere: ScriptedOwner) -> SqlStage:
    """`by: sql`."""
    return SqlStage(warehouse, elsewhere)


@pytest.fixture
def postgres_xact_stage(warehouse: Warehouse, elsewhere: ScriptedOwner) -> XactStage:
    """`by: postgres_xact`."""
    return XactStage(warehouse, elsewhere)
