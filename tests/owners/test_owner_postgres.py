"""What an owner's database may be asked and what its answers come to, before a real PostgreSQL."""

import time
import uuid
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from ledger.rules.contract import ContractInvalid, parse_contract
from ledger.rules.vocabulary import Effect, LookupOutcome
from recovery.owners.base import Reply
from recovery.owners.sql import PostgresXactLookup, SqlLookup
from tests.conftest import ROOT, Database
from tests.owners.conformance import OPERATION_ID, question
from tests.owners.stages_sql import OURS, Warehouse
from tests.owners.standby import standby_of
from tests.owners.wire_proxy import WireProxy

FAILED, SETTLES_NOTHING = LookupOutcome.LOOKUP_FAILED, LookupOutcome.INCONCLUSIVE
FOUND, NO_MATCH = LookupOutcome.FOUND, LookupOutcome.NO_MATCH
BY_KEY = "SELECT * FROM ticket WHERE key = %(key)s"


@pytest.fixture
def tickets(warehouse: Warehouse) -> Warehouse:
    """The warehouse with our ticket in it."""
    insert(warehouse, OURS)
    return warehouse


def insert(warehouse: Warehouse, *rows: dict[str, Any]) -> None:
    with warehouse.connect() as admin:
        admin.cursor().executemany(
            "INSERT INTO ticket VALUES (%(id)s, %(key)s, %(title)s, %(customer)s, %(state)s)", rows
        )


def sql(
    warehouse: Warehouse,
    statement: str = BY_KEY,
    *,
    parameters: dict[str, str] | None = None,
    address: str | None = None,
    asked: dict[str, Any] | None = None,
    **more: Any,
) -> Reply:
    """One statement at the warehouse, as its reading role unless an address is given."""
    rule = {
        "by": "sql",
        "sql": {"statement": statement, "parameters": parameters or {"key": "{operation_id}"}},
        "authoritative": True,
        "as": "secret:warehouse",
        **more,
    }
    secrets = {"warehouse": warehouse.address() if address is None else address}
    reach = {"base_url": f"postgresql://127.0.0.1:{warehouse.port}", **(asked or {})}
    return SqlLookup().ask(question(rule, secrets=secrets, **reach))


def xact(warehouse: Warehouse, id: Any, **more: Any) -> Reply:
    """What became of one transaction."""
    rule = {"by": "postgres_xact", "xact": "{receipt.xact}", "authoritative": True, "as": "secret:warehouse", **more}
    return PostgresXactLookup().ask(
        question(
            rule,
            base_url=f"postgresql://127.0.0.1:{warehouse.port}",
            receipt={"xact": id},
            secrets={"warehouse": warehouse.address()},
        )
    )


@pytest.mark.parametrize(
    ("statement", "more", "outcome", "why"),
    [
        (BY_KEY, {}, FOUND, "one row is a found object"),
        (f"{BY_KEY} ; ", {}, FOUND, "a semicolon at the end is no second statement"),
        (f"{BY_KEY} -- ours", {}, FOUND, "nor is a comment"),
        (f"WITH mine AS ({BY_KEY}) SELECT * FROM mine", {}, FOUND, "a query with names for its parts"),
        ("SELECT * FROM ticket WHERE key LIKE 'nothing%%' AND key <> %(key)s", {}, NO_MATCH, "no row"),
        (
            "SELECT count(*) AS n FROM ticket WHERE title = %(key)s",
            {"found": "body.n == 1", "no_match": "body.n == 0", "lag": "0s"},
            NO_MATCH,
            "a count is one row, and the contract says what it means",
        ),
        (BY_KEY, {"found": "body.state == 'closed'"}, SETTLES_NOTHING, "a row that the contract does not know"),
        (BY_KEY, {"effect": {"pending": "body.state == 'new'"}}, SETTLES_NOTHING, "nor its state"),
        (BY_KEY, {"truncated": "true == (body.id == 1)"}, FOUND, "what is there is there"),
    ],
)
def test_a_statement(
    tickets: Warehouse, statement: str, more: dict[str, Any], outcome: LookupOutcome, why: str
) -> None:
    reply = sql(tickets, statement, **more)
    assert reply.outcome is outcome, (why, reply)


@pytest.mark.parametrize(
    ("statement", "state", "why"),
    [
        ("DELETE FROM ticket WHERE key = %(key)s RETURNING *", "42601", "only what can stand in FROM (…)"),
        ("WITH gone AS (DELETE FROM ticket RETURNING *) SELECT * FROM gone", "0A000", "nor hidden in a part"),
        ("SELECT 1 WHERE %(key)s = '') AS t; DELETE FROM ticket; SELECT * FROM (SELECT 1", "42601", "nor behind it"),
        ("SELECT nextval('effect_id_seq') AS id WHERE %(key)s <> ''", "", "nor in a function"),
        ("SELECT set_config('transaction_read_only', 'off', false) AS a WHERE %(key)s <> ''", "25001", "nor let in"),
        ("SELECT lo_create(0) AS id WHERE %(key)s <> ''", "", "a large object is a change too"),
        ("SELEC", "42601", "what is no SQL"),
        ("SELECT * FROM nothing WHERE key = %(key)s", "42P01", "what is not there"),
        ("SELECT * FROM ticket WHERE id = %(key)s", "22P02", "a value of another type"),
    ],
)
def test_a_statement_changes_nothing_whoever_asks(tickets: Warehouse, statement: str, state: str, why: str) -> None:
    reply = sql(tickets, statement, address=tickets.admin_url)
    assert reply.outcome is FAILED, why
    assert state in reply.reason
    assert OPERATION_ID not in reply.reason, "the database's own words may hold values"
    with tickets.connect() as admin:
        assert admin.execute("SELECT count(*) FROM ticket").fetchone() == (1,)
        assert admin.execute("SELECT is_called FROM effect_id_seq").fetchone() == (False,)
        assert admin.execute("SELECT count(*) FROM pg_largeobject_metadata").fetchone() == (0,)


def test_values_travel_beside_the_statement(tickets: Warehouse) -> None:
    hostile = "x' OR '1'='1"
    reply = sql(
        tickets,
        "SELECT * FROM ticket WHERE key = %(key)s",
        parameters={"key": "{payload.title}"},
        asked={"base_url": f"postgresql://127.0.0.1:{tickets.port}"},
    )
    assert reply.outcome is NO_MATCH
    insert(tickets, {**OURS, "id": 2, "key": hostile})
    found = sql(tickets, "SELECT * FROM ticket WHERE key = %(key)s", parameters={"key": hostile})
    assert (found.matches, found.found) == (1, ({"id": 2},))


@pytest.mark.parametrize(
    ("value", "type"),
    [
        ("{receipt.object}", "jsonb"),
        ("{payload.title}", "text"),
        ("{receipt.number}", "bigint"),
        ("{receipt.list}", "int[]"),
    ],
)
def test_a_value_keeps_its_type(warehouse: Warehouse, value: str, type: str) -> None:
    reply = sql(
        warehouse,
        f"SELECT pg_typeof(%(value)s::{type})::text AS id, to_jsonb(%(value)s::{type}) AS value",
        parameters={"value": value},
        asked={"receipt": {"number": 7, "list": [1, 2], "object": {"a": 1}}},
    )
    assert reply.outcome is FOUND, reply


def test_what_the_answer_tells_beside_the_object(tickets: Warehouse) -> None:
    reply = sql(
        tickets,
        "SELECT *, 'r8' AS version, timestamptz '2026-11-30 10:00Z' AS at FROM ticket WHERE key = %(key)s",
        revision="body.version",
        event_at="body.at",
        same={"title": "body.title"},
    )
    assert (reply.revision, reply.receipt, reply.found) == ("r8", {"id": 1}, ({"id": 1},))
    assert reply.event_at is not None
    assert reply.event_at.isoformat() == "2026-11-30T10:00:00+00:00"
    assert "%(key)s" in reply.query
    assert OPERATION_ID not in reply.query
    assert reply.principal == "secret:warehouse"


def test_a_hundred_rows_are_read_and_more_are_not_all(tickets: Warehouse) -> None:
    insert(tickets, *({**OURS, "id": number} for number in range(2, 152)))
    reply = sql(tickets)
    assert (reply.matches, reply.complete, len(reply.found)) == (100, False, 20)
    with tickets.connect() as admin:
        admin.execute("DELETE FROM ticket WHERE id > 100")
    assert (sql(tickets).matches, sql(tickets).complete) == (100, True)


def test_a_locked_table_and_a_slow_statement_are_given_up(tickets: Warehouse) -> None:
    with psycopg.connect(tickets.admin_url) as other:
        other.execute("LOCK TABLE ticket")
        reply = sql(tickets)
    assert (reply.outcome, reply.overloaded) == (FAILED, True)
    reply = sql(tickets, "SELECT pg_sleep(20)::text AS id WHERE %(key)s <> ''")
    assert (reply.outcome, reply.overloaded) == (FAILED, True)
    with tickets.connect() as admin:
        left = admin.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchone()
    assert left == (0,), "nothing of ours goes on there"


def test_a_database_that_goes_silent_in_the_middle_is_given_up(tickets: Warehouse) -> None:
    with WireProxy(upstream_port=tickets.port) as proxy:
        proxy.go_silent_after(b"row_to_json")
        reply = sql(
            tickets,
            address=tickets.address(port=proxy.port),
            asked={"base_url": f"postgresql://127.0.0.1:{proxy.port}"},
        )
    assert (reply.outcome, reply.overloaded) == (FAILED, True)
    assert "too long" in reply.reason


def test_what_the_role_may_not_read_is_the_credentials_fault(tickets: Warehouse) -> None:
    reply = sql(tickets, "SELECT rolpassword AS id FROM pg_authid WHERE rolname = %(key)s")
    assert (reply.outcome, reply.refused_credential) == (FAILED, True)


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("", "no address at all"),
        ("hello", "no address"),
        ("dbname=x", "libpq would look for a socket, or into its environment"),
        ("host=/var/run/postgresql dbname=x", "a socket of the worker's machine"),
        ("host=@abstract dbname=x", "likewise"),
        ("host=127.0.0.1,10.0.0.1 dbname=x", "several hosts"),
        ("host=127.0.0.1 port=5432,5433", "several ports"),
        ("host=127.0.0.1 hostaddr=10.0.0.1", "an address beside the one that is checked"),
        ("service=x", "a file of the worker names the host"),
        ("host=127.0.0.1 passfile=/etc/passwd", "a file of the worker"),
        ("host=127.0.0.1 sslkey=/etc/ssl/private/key", "likewise"),
        ("host=127.0.0.1 options='-c statement_timeout=0'", "what is set here"),
        ("host=127.0.0.1 dbname=x", "another port than the owner's"),
        ("host=db.example.com dbname=x", "another host"),
        ("host=169.254.169.254 dbname=x", "a cloud's metadata"),
    ],
)
def test_where_nobody_is_asked(warehouse: Warehouse, address: str, why: str) -> None:
    reply = sql(warehouse, address=address)
    assert (reply.outcome, reply.overloaded) == (FAILED, False), why
    assert reply.reason


@pytest.mark.parametrize("mode", ["", "disable", "prefer", "require", "verify-ca"])
def test_a_host_that_is_not_private_is_asked_over_verified_tls_only(warehouse: Warehouse, mode: str) -> None:
    said = f"host=127.0.0.1 port={warehouse.port} dbname=x" + (f" sslmode={mode}" if mode else "")
    reply = sql(warehouse, address=said, asked={"private_hosts": frozenset()})
    assert reply.outcome is FAILED
    assert ("sslmode=verify-full" in reply.reason) is bool(mode)
    assert mode or "loopback" in reply.reason


def test_what_became_of_a_transaction(warehouse: Warehouse) -> None:
    with psycopg.connect(warehouse.admin_url) as writer:
        id = _begin(writer)
        assert (xact(warehouse, id).outcome, xact(warehouse, id).effect) == (FOUND, Effect.PENDING)
        writer.commit()
        assert xact(warehouse, id).effect is Effect.APPLIED
        assert xact(warehouse, int(id)).effect is Effect.APPLIED, "as a number too"
        gone = _begin(writer)
        writer.rollback()
    assert xact(warehouse, gone).effect is Effect.NONE
    with psycopg.connect(warehouse.admin_url) as writer:
        lost = _begin(writer)
        writer.close()
    assert xact(warehouse, lost).effect is Effect.NONE, "closed without COMMIT"


@pytest.mark.parametrize(
    ("id", "outcome", "why"),
    [
        ("3", SETTLES_NOTHING, "older than what the database remembers"),
        ("999999999999", SETTLES_NOTHING, "not given out yet: of another database, or restored from a backup"),
        ("0", FAILED, "no id"),
        ("12; DROP TABLE ticket", FAILED, "no id"),
        ("-5", FAILED, "no id"),
        ("", FAILED, "no id"),
        ("99999999999999999999999", FAILED, "no id"),
    ],
)
def test_an_id_that_says_nothing(warehouse: Warehouse, id: str, outcome: LookupOutcome, why: str) -> None:
    reply = xact(warehouse, id)
    assert (reply.outcome, reply.effect) == (outcome, None), why


def test_a_standby_is_believed_in_what_it_has_seen_happen_alone(database: Database, warehouse: Warehouse) -> None:
    with (
        standby_of(root=ROOT, superuser_url=database.superuser_url) as port,
        psycopg.connect(warehouse.admin_url, autocommit=True) as primary,
        psycopg.connect(_at(warehouse.admin_url, port), autocommit=True) as standby,
    ):
        elsewhere = replace(warehouse, port=port)
        with psycopg.connect(warehouse.admin_url) as writer:
            committed = _begin(writer)
            writer.commit()
            aborted = _begin(writer)
            writer.rollback()
        _catch_up(primary, standby)
        assert xact(elsewhere, committed).effect is Effect.APPLIED
        assert xact(elsewhere, aborted).outcome is SETTLES_NOTHING
        assert xact(warehouse, aborted).effect is Effect.NONE
        standby.execute("SELECT pg_wal_replay_pause()")
        with psycopg.connect(warehouse.admin_url) as writer:
            late = _begin(writer)
            writer.commit()
        assert xact(warehouse, late).effect is Effect.APPLIED
        assert xact(elsewhere, late).effect in (None, Effect.PENDING), "what it has not seen yet is no absence"


def _at(url: str, port: int) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=f"{parts.username}:{parts.password}@127.0.0.1:{port}").geturl()


def _catch_up(primary: psycopg.Connection[Any], standby: psycopg.Connection[Any]) -> None:
    at = primary.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
    until = time.monotonic() + 10
    while time.monotonic() < until:
        if standby.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", at).fetchone() == (True,):
            return
        time.sleep(0.05)
    raise AssertionError("the standby did not catch up")


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        ({"by": "sql", "sql": {"statement": "SELECT 1"}}, "as"),
        ({"by": "postgres_xact", "xact": "{receipt.xact}"}, "as"),
        ({"by": "sql", "sql": {"statement": "SELECT %(key)s"}, "as": "env:DB"}, "sql.statement"),
        ({"by": "sql", "sql": {"statement": "SELECT 'a%'"}, "as": "env:DB"}, "sql.statement"),
        ({"by": "mcp_tool", "mcp": {"tool": "find"}}, "found"),
        ({"by": "mcp_tool", "mcp": {}, "found": "body.ok"}, "mcp.tool"),
        ({"by": "mcp_task", "task": "{receipt.task}", "mcp": {"session": "{receipt.session}"}}, "mcp.mode"),
        ({"by": "mcp_tool", "mcp": {"tool": "find"}, "items": "body.items"}, "found"),
    ],
)
def test_what_cannot_be_published(rule: dict[str, Any], path: str) -> None:
    with pytest.raises(ContractInvalid) as refused:
        parse_contract({"contract": "t", "owner": "o", "effect": "write", "lookup": [rule]})
    assert f"lookup[0].{path}" in str(refused.value)


def _begin(writer: psycopg.Connection[Any]) -> str:
    writer.execute("INSERT INTO effect (key) VALUES (%s)", [uuid.uuid4().hex])
    told = writer.execute("SELECT pg_current_xact_id()::text").fetchone()
    assert told is not None
    return str(told[0])
