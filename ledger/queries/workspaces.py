"""Which workspace is meant?"""

from uuid import UUID

from ledger.database import execute


def workspace_by_slug(*, slug: str) -> UUID | None:
    """The workspace of this slug, if there is one. For commands; the API and the pages know theirs by token and seat."""
    rows = execute("SELECT id FROM workspace WHERE slug = %s", [slug])
    return UUID(str(rows[0][0])) if rows else None
