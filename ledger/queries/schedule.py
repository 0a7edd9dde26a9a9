"""When does something come due next?"""

from datetime import datetime

from ledger.database import execute


def next_due(*, since: datetime) -> tuple[float | None, datetime]:
    """Seconds until the next operation comes due that nobody holds, of those due after `since` (negative: it is due by
    now; None: there is none); and the database's clock."""
    rows = execute(
        "SELECT (SELECT extract(epoch FROM next_check_at - clock_timestamp())::float8 FROM schedule "
        "WHERE next_check_at > %s AND (claimed_until IS NULL OR claimed_until <= now()) "
        "ORDER BY next_check_at LIMIT 1), now()",
        [since],
    )
    seconds, now = rows[0]
    return seconds, now
