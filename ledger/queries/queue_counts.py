"""How much is there to do? Every number over the queue, in one statement.

Each number is counted up to a limit and shown as `1,000+` beyond it: an exact large number is worth no slow page.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from uuid import UUID

from ledger.database import execute
from ledger.queries.filters import Filter


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCounts:
    """What the head of the queue says, and when it was true."""

    views: Mapping[str, int]
    """By the view's name, up to the limit."""
    tools: int
    """With anything unsettled."""
    oldest: datetime | None
    """When the oldest unsettled operation was opened."""
    reconciler_at: datetime | None
    """When the reconciler was last seen; None when it never was."""
    as_of: datetime


def queue_counts(*, workspace_id: UUID, views: Mapping[str, Filter], most: int) -> QueueCounts:
    """All numbers, each up to `most`."""
    names = tuple(views)
    params: dict[str, object] = {"workspace": workspace_id, "most": most}
    wheres: list[str] = []
    for number, name in enumerate(names):
        where, bound = views[name].where(prefix=f"v{number}_")
        wheres.append(where)
        params |= bound
    [row] = execute(_statement(tuple(wheres)), params)
    return QueueCounts(
        as_of=row[0],
        reconciler_at=row[1],
        oldest=row[2],
        tools=row[3],
        views=dict(zip(names, row[4:], strict=True)),
    )


@cache
def _statement(wheres: tuple[str, ...]) -> str:
    counts = "".join(
        f", (SELECT count(*) FROM (SELECT 1 FROM operation o WHERE o.workspace_id = %(workspace)s{where} "  # noqa: S608 - names are ours
        f"LIMIT %(most)s) counted)"
        for where in wheres
    )
    return (
        "SELECT now(), (SELECT at FROM heartbeat WHERE part = 'reconciler'), "  # noqa: S608 - names are ours
        "(SELECT created_at FROM operation WHERE workspace_id = %(workspace)s AND state <> 'settled' "
        "ORDER BY created_at, id LIMIT 1), "
        "(SELECT count(*) FROM tool t WHERE t.workspace_id = %(workspace)s AND EXISTS (SELECT 1 FROM operation o "
        f"WHERE o.workspace_id = t.workspace_id AND o.tool_id = t.id AND o.state <> 'settled')){counts}"
    )
