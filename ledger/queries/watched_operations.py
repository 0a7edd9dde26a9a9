"""The rows that a person has on the screen: which of them read differently now, and what has come beside them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from ledger.database import execute
from ledger.queries.filters import Filter
from ledger.queries.operations import LISTED_FROM, MARK


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedOperation:
    """A row as it is compared with the screen, and whether the filter that brought it there still would."""

    id: UUID
    created_at: datetime
    mark: str
    """As in ListedOperation."""
    matches: bool


def watched_operations(*, workspace_id: UUID, ids: Sequence[UUID], filter: Filter) -> tuple[WatchedOperation, ...]:
    """Those of `ids` that are in this workspace, by primary key, in no particular order."""
    if not ids:
        return ()
    where, params = filter.where()
    rows = execute(
        f"SELECT o.id, o.created_at, {MARK}, (true{where}) IS TRUE {LISTED_FROM} AND o.id = ANY(%(ids)s::uuid[])",
        {"workspace": workspace_id, "ids": list(ids), **params},
    )
    return tuple(WatchedOperation(id=id, created_at=at, mark=mark, matches=matches) for id, at, mark, matches in rows)


def newer_operations(
    *, workspace_id: UUID, filter: Filter, watched: Sequence[WatchedOperation], most: int
) -> tuple[UUID, ...]:
    """Up to `most` operations that the filter finds above the last watched row, and that are not on the screen. What only
    moved up from the next page is none of them."""
    where, params = filter.where()
    if watched:
        last = min((row.created_at, row.id) for row in watched)
        where += " AND (o.created_at, o.id) > (%(last_at)s, %(last_id)s) AND o.id <> ALL(%(known)s::uuid[])"
        params |= {"last_at": last[0], "last_id": last[1], "known": [row.id for row in watched]}
    rows = execute(
        f"SELECT o.id FROM operation o WHERE o.workspace_id = %(workspace)s{where} "  # noqa: S608 - names are ours
        "ORDER BY o.created_at DESC, o.id DESC LIMIT %(most)s",
        {"workspace": workspace_id, "most": most, **params},
    )
    return tuple(row[0] for row in rows)
