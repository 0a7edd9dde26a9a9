"""Which operations stand next to one in a filtered list, newest first?"""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from ledger.database import execute
from ledger.queries.filters import Filter


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """The rows above and below."""

    previous: UUID | None
    """The next newer one."""
    next: UUID | None
    """The next older one."""


def neighbours(*, workspace_id: UUID, filter: Filter, id: UUID, created_at: datetime) -> Neighbours:
    """The neighbours of an operation in a list, whether or not it is in the list itself by now. One statement."""
    where, params = filter.where()
    [(previous, following)] = execute(
        "SELECT (SELECT o.id FROM operation o WHERE o.workspace_id = %(workspace)s"  # noqa: S608 - conditions are ours
        f"{where} AND (o.created_at, o.id) > (%(here_at)s, %(here)s) ORDER BY o.created_at, o.id LIMIT 1), "
        f"(SELECT o.id FROM operation o WHERE o.workspace_id = %(workspace)s{where} "
        "AND (o.created_at, o.id) < (%(here_at)s, %(here)s) ORDER BY o.created_at DESC, o.id DESC LIMIT 1)",
        {**params, "workspace": workspace_id, "here": id, "here_at": created_at},
    )
    return Neighbours(previous=previous, next=following)
