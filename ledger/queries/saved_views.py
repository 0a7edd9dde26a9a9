"""Filters that people kept under a name: their own, and those of the whole workspace."""

from dataclasses import dataclass
from uuid import UUID

from ledger.database import execute
from ledger.queries.operation_groups import Grouping

MOST_VIEWS = 50
"""Of one person and their workspace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A filter under a name."""

    id: UUID
    name: str
    query: str
    grouping: Grouping
    is_team: bool
    """Everybody's in the workspace; otherwise one person's own."""


def saved_views(*, workspace_id: UUID, person_id: int) -> tuple[View, ...]:
    """What a person sees beside the built-in views: the team's, then their own, by name."""
    rows = execute(
        "SELECT id, name, query, grouping, person_id IS NULL FROM saved_view WHERE workspace_id = %s "
        "AND (person_id = %s OR person_id IS NULL) ORDER BY person_id IS NOT NULL, lower(name), id LIMIT %s",
        [workspace_id, person_id, 2 * MOST_VIEWS],
    )
    return tuple(
        View(id=id, name=name, query=query, grouping=Grouping(grouping), is_team=is_team)
        for id, name, query, grouping, is_team in rows
    )
