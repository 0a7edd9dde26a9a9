"""The rows that a person has on the screen, wherever they stand now, and whether they still match the filter."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from ledger.database import execute
from ledger.queries.filters import Filter
from ledger.queries.operations import LISTED, ListedOperation, listed


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedOperation:
    """A listed row, and whether the filter that brought it here would still bring it."""

    row: ListedOperation
    matches: bool


def watched_operations(*, workspace_id: UUID, ids: Sequence[UUID], filter: Filter) -> tuple[WatchedOperation, ...]:
    """Those of `ids` that are in this workspace, by primary key, in no particular order."""
    if not ids:
        return ()
    where, params = filter.where()
    selected = LISTED.replace("now()", f"now(), (true{where})", 1)
    rows = execute(
        f"{selected} AND o.id = ANY(%(ids)s::uuid[])", {"workspace": workspace_id, "ids": list(ids), **params}
    )
    return tuple(WatchedOperation(row=listed(row), matches=row[-1]) for row in rows)
