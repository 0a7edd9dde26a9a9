"""The ledger's way to its database: one statement, one round trip, one durable transaction.

Hot paths skip the ORM: a data-modifying statement outside a transaction block is its own transaction, so
open-with-permit costs one commit and one round trip.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from django.db import connection


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
