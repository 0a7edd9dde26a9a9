"""Credentials that are kept here, sealed. The ledger never sees a value: it is sealed before it comes and opened after it
leaves (recovery/sealing.py)."""

from collections.abc import Callable
from datetime import datetime
from uuid import UUID

from ledger.database import execute
from ledger.identifiers import new_id
from ledger.transitions.owners import wake_waiting

SEALED_COLUMNS = (
    ("secret", "sealed"),
    ("destination", "sealed_address"),
    ("destination", "sealed_secret"),
    ("notice_endpoint", "sealed_secrets"),
)
"""Every column that holds sealed values: what a change of keys has to seal anew."""


def set_secret(*, workspace_id: UUID, name: str, sealed: bytes, expires_at: datetime | None = None) -> bool:
    """Keep a credential under a name; another value under the same name replaces it. What waits because an owner refused
    the earlier value is looked at again. Returns whether the name is new."""
    rows = execute(
        "INSERT INTO secret (id, workspace_id, name, sealed, created_at, changed_at, expires_at) "
        "VALUES (%(id)s, %(workspace)s, %(name)s, %(sealed)s, now(), now(), %(expires)s) "
        "ON CONFLICT ON CONSTRAINT a_secret_has_one_name_in_its_workspace DO UPDATE SET sealed = EXCLUDED.sealed, "
        "changed_at = EXCLUDED.changed_at, expires_at = EXCLUDED.expires_at RETURNING id = %(id)s",
        {"id": new_id(), "workspace": workspace_id, "name": name, "sealed": sealed, "expires": expires_at},
    )
    refused = execute(
        "SELECT l.owner FROM credential_latch l JOIN owner ow ON ow.id = l.owner "
        "WHERE ow.workspace_id = %s AND l.reference = %s",
        [workspace_id, f"secret:{name}"],
    )
    for (owner_id,) in refused:
        wake_waiting(owner_id=owner_id)
    return bool(rows[0][0])


def remove_secret(*, workspace_id: UUID, name: str) -> bool:
    """Forget a credential. Lookups that need it fail from now on and say so. False when there was none."""
    return bool(execute("DELETE FROM secret WHERE workspace_id = %s AND name = %s RETURNING id", [workspace_id, name]))


def seal_anew(*, anew: Callable[[bytes], bytes | None], batch: int = 200) -> dict[str, tuple[int, int]]:
    """Seal whatever is not sealed with the newest key, `batch` rows at a time, each on its own. It may be interrupted and
    begun again at any time, beside running workers: a value that was changed meanwhile stays as it was set.

    `anew` gives the value under the newest key, or None where it is already. Returns, by column, how many were sealed anew
    and how many were found.
    """
    counted = {}
    for table, column in SEALED_COLUMNS:
        changed = found = 0
        after = UUID(int=0)
        while rows := execute(
            f"SELECT id, {column} FROM {table} WHERE id > %s AND {column} IS NOT NULL ORDER BY id LIMIT %s",  # noqa: S608 - names are ours
            [after, batch],
        ):
            for id, sealed in rows:
                found += 1
                fresh = anew(bytes(sealed))
                if fresh is not None:
                    changed += len(
                        execute(
                            f"UPDATE {table} SET {column} = %s WHERE id = %s AND {column} = %s RETURNING id",  # noqa: S608
                            [fresh, id, bytes(sealed)],
                        )
                    )
            after = rows[-1][0]
        counted[f"{table}.{column}"] = (changed, found)
    return counted
