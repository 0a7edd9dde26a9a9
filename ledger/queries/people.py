"""Who may do something about it: the people of a workspace by role."""

from uuid import UUID

from ledger.database import execute
from ledger.rules.vocabulary import Role


def names_with_role(*, workspace_id: UUID, role: Role, most: int = 5) -> tuple[str, ...]:
    """The names of up to `most` people who hold a role in a workspace, for telling somebody whom to ask."""
    rows = execute(
        "SELECT COALESCE(NULLIF(TRIM(CONCAT_WS(' ', p.first_name, p.last_name)), ''), p.username) "
        "FROM membership m JOIN person p ON p.id = m.person_id "
        "WHERE m.workspace_id = %s AND m.role = %s AND p.is_active ORDER BY p.username LIMIT %s",
        [workspace_id, role.value, most],
    )
    return tuple(row[0] for row in rows)
