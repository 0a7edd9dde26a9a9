"""What one durable operation costs the database. Counts, which are the same on every machine."""

import psycopg
import pytest

from ledger.database import execute
from recovery.benchmarks.captured import one_operation
from recovery.benchmarks.stage import CONTRACT

TRIES = 5
"""Autovacuum takes transaction ids too, now and then."""
GROWING = ["operation", "journal", "attempt", "revision", "evidence", "original"]


@pytest.fixture
def token(database, bench) -> str:
    bench.publish(CONTRACT)
    one_operation(token=bench.token, name="first")  # a process reads each contract once
    return bench.token


def test_an_operation_with_its_permit_and_report_takes_four_round_trips(token):
    opened, reported = one_operation(token=token, name="second")
    assert [_kind(sql) for sql, _ in opened.statements] == ["reads", "writes"]
    assert [_kind(sql) for sql, _ in reported.statements] == ["reads", "writes"]


def test_an_operation_with_its_permit_and_report_is_two_durable_transactions(token, database):
    def taken(name: str) -> int:
        with psycopg.connect(database.superuser_url, autocommit=True) as watching:
            before = _next_transaction(watching)
            one_operation(token=token, name=name)
            return _next_transaction(watching) - before

    assert min(taken(f"counted-{number}") for number in range(TRIES)) == 2


def test_the_statements_do_not_change_from_operation_to_operation(token):
    """Else no server could prepare them once and run them often."""
    seen = [one_operation(token=token, name=f"same-{number}") for number in range(2)]
    texts = [[sql for part in parts for sql, _ in part.statements] for parts in seen]
    assert texts[0] == texts[1]


def test_no_statement_reads_the_ledger_from_end_to_end(token, database):
    """400 operations stand there already; one more touches a few dozen rows."""
    with psycopg.connect(database.superuser_url, autocommit=True) as watching:
        for number in range(400):
            one_operation(token=token, name=f"earlier-{number}")
        watching.execute("ANALYZE")
        before = _rows_read(watching)
        for number in range(20):
            one_operation(token=token, name=f"then-{number}")
        assert (_rows_read(watching) - before) / 20 < 50


def _kind(sql: str) -> str:
    return "writes" if "INSERT" in sql or "UPDATE" in sql else "reads"


def _next_transaction(watching) -> int:
    [(number,)] = watching.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint").fetchall()
    return number


def _rows_read(watching) -> int:
    execute("SELECT pg_stat_force_next_flush()")  # sessions tell their counts about once a second otherwise
    execute("SELECT 1")
    [(rows,)] = watching.execute(
        "SELECT sum(seq_tup_read + idx_tup_fetch) FROM pg_stat_user_tables WHERE relname = ANY(%s)", [GROWING]
    ).fetchall()
    return rows
