"""Who is calling about which operation: token and operation in one round trip, for the calls that harnesses make most."""

from ledger.database import execute
from ledger.queries.access import CALLER, Caller, Refused, caller_from, prefix_of
from ledger.queries.facts import COLUMNS, JOINS, Held, from_row

_ARRIVAL = f"""
    SELECT {CALLER}, {COLUMNS}, EXISTS (
        SELECT 1 FROM evidence e WHERE e.operation = o.id AND e.attempt = %(attempt)s AND e.digest = %(digest)s)
    FROM api_token k LEFT JOIN operation o ON o.workspace_id = k.workspace_id AND o.operation_id = %(name)s
    {JOINS}
    WHERE k.prefix = %(prefix)s
"""  # noqa: S608 - names are ours
_CALLER_COLUMNS = 9


def arrival(
    *, token: str, operation_id: str, attempt: int = 0, digest: bytes = b""
) -> tuple[Caller | Refused, Held | None]:
    """The caller behind a token, and the operation of that name in the token's workspace, None when there is none.

    `attempt` and `digest` ask whether that observation is evidence already (`Held.known_digest`).
    """
    prefix = prefix_of(token)
    if prefix is None:
        return Refused.UNKNOWN, None
    rows = execute(_ARRIVAL, {"prefix": prefix, "name": operation_id, "attempt": attempt, "digest": digest})
    if not rows:
        return Refused.UNKNOWN, None
    row = rows[0]
    found = caller_from((*row[:_CALLER_COLUMNS], None, None, None), token=token)
    there = isinstance(found, Caller) and row[_CALLER_COLUMNS] is not None
    return found, from_row(row[_CALLER_COLUMNS:]) if there else None
