"""Keep a filter under a name, and drop it again. Nothing of an operation depends on it."""

from datetime import datetime
from uuid import UUID

from django.db import IntegrityError

from ledger.database import execute
from ledger.errors import constraint_of
from ledger.identifiers import new_id
from ledger.queries.operation_groups import Grouping
from ledger.queries.saved_views import MOST_VIEWS


class NameTaken(ValueError):
    """A view of this name is kept already. Choose another name, or delete the old one first."""


class TooManyViews(ValueError):
    """As many views are kept as one person or one workspace may have. Delete one that nobody uses."""


def keep_view(
    *, workspace_id: UUID, person_id: int | None, name: str, query: str, grouping: Grouping, now: datetime
) -> UUID:
    """Keeps a view: a person's own, or with `person_id` None everybody's in the workspace.

    Raises:
        NameTaken: nothing was kept.
        TooManyViews: nothing was kept.
    """
    id = new_id()
    try:
        kept = execute(
            "INSERT INTO saved_view (id, workspace_id, person_id, name, query, grouping, created_at) "
            "SELECT %(id)s, %(workspace)s, %(person)s::bigint, %(name)s, %(query)s, %(grouping)s, %(now)s "
            "WHERE (SELECT count(*) FROM saved_view WHERE workspace_id = %(workspace)s "
            "AND person_id IS NOT DISTINCT FROM %(person)s::bigint) < %(most)s RETURNING id",
            {
                "id": id,
                "workspace": workspace_id,
                "person": person_id,
                "name": name,
                "query": query,
                "grouping": grouping.value,
                "now": now,
                "most": MOST_VIEWS,
            },
        )
    except IntegrityError as error:
        if constraint_of(error) == "a_view_has_one_name_among_its_persons":
            raise NameTaken(name) from error
        raise
    if not kept:
        raise TooManyViews(name)
    return id


def drop_view(*, workspace_id: UUID, person_id: int, id: UUID, also_teams: bool) -> str | None:
    """Drops a view of the person's, or with `also_teams` one of the workspace's. Its name; None when there is none such."""
    rows = execute(
        "DELETE FROM saved_view WHERE id = %s AND workspace_id = %s AND (person_id = %s OR (%s AND person_id IS NULL)) "
        "RETURNING name",
        [id, workspace_id, person_id, also_teams],
    )
    return rows[0][0] if rows else None
