"""Operations that a test changes behind the ledger's back are gone after it: other tests verify the whole ledger."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from ledger.identifiers import new_id
from tests.conftest import Database

_TABLES = """
    SELECT DISTINCT c.conrelid::regclass::text, a.attname FROM pg_constraint c
    JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
    WHERE c.contype = 'f' AND c.confrelid = 'operation'::regclass
"""


@contextmanager
def forgotten(database: Database) -> Iterator[None]:
    """Whatever is opened within is removed at its end, with all that points at it. Ids grow with time."""
    first = new_id()
    yield
    with psycopg.connect(database.superuser_url, autocommit=True) as connection:
        tables = connection.execute(_TABLES).fetchall()
        connection.execute("SET session_replication_role = replica")
        for table, column in [*tables, ("operation", "id")]:
            connection.execute(f"DELETE FROM {table} WHERE {column} >= %s", [first])
