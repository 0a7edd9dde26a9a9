"""The one clock that decides: the database's."""

from datetime import datetime

from ledger.database import execute


def database_now() -> datetime:
    """The database's time at the start of the current transaction (UTC)."""
    moment: datetime = execute("SELECT now()")[0][0]
    return moment
