"""The ledger's way to its database: one statement, one round trip, one durable transaction.

Hot paths skip the ORM: a data-modifying statement outside a transaction block is its own transaction, so
open-with-permit costs one commit and one round trip.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any

from django.db import Error, OperationalError, connection, transaction
from psycopg.errors import QueryCanceled
from psycopg_pool import PoolClosed, PoolTimeout


class TookTooLong(RuntimeError):
    """The database gave a question up after the time that it may take. Ask a narrower one."""


def execute(sql: str, params: Mapping[str, Any] | Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Run one statement and return its rows.

    Raises:
        django.db.IntegrityError: a constraint refused it; its name is in `ledger.errors`.
        django.db.OperationalError: the database could not be reached or the connection broke.
    """
    with closing(connection.cursor()) as wrapped:
        wrapped.execute(sql, params)
        # psycopg's own cursor has the rows already. Its `description` would build an object a column to say so.
        cursor = wrapped.cursor
        return cursor.fetchall() if cursor.rownumber is not None else []


def forget_broken() -> None:
    """After an error: this thread's connection and whatever lies broken in the pool are replaced, so that a database that was
    restarted fails one question and not one for every connection. Raises nothing."""
    with suppress(Error, PoolTimeout, PoolClosed):
        connection.close()
        connection.pool.check()  # type: ignore[attr-defined] # PostgreSQL's wrapper has one


@contextmanager
def within(*, milliseconds: int) -> Iterator[None]:
    """Every statement in this block may take so long, and no longer. One transaction, so all see the same moment.

    Raises:
        TookTooLong: one of them took longer.
    """
    try:
        with transaction.atomic():
            execute("SELECT set_config('statement_timeout', %s, true)", [str(milliseconds)])
            yield
    except OperationalError as error:
        if isinstance(error.__cause__, QueryCanceled):
            raise TookTooLong from error
        raise
