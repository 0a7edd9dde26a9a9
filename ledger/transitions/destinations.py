"""Where events go, and where owners send their notifications. Addresses and secrets arrive sealed."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import orjson

from ledger.database import execute
from ledger.identifiers import new_id


def ensure_destination(
    *,
    workspace_id: UUID,
    name: str,
    kind: str,
    sealed_address: bytes,
    sealed_secret: bytes | None,
    kinds: Sequence[str],
    now: datetime,
) -> UUID:
    """The destination of this name, with this address and these kinds from now on, and switched on.

    `kind`: email, apprise or webhook. A webhook that exists keeps its secret when none is given.
    """
    rows = execute(
        "INSERT INTO destination (id, workspace_id, name, kind, sealed_address, sealed_secret, kinds, created_at) "
        "VALUES (%(id)s, %(workspace)s, %(name)s, %(kind)s, %(address)s, %(secret)s, %(kinds)s, %(now)s) "
        "ON CONFLICT ON CONSTRAINT a_destination_has_one_name_in_its_workspace DO UPDATE SET kind = EXCLUDED.kind, "
        "sealed_address = EXCLUDED.sealed_address, kinds = EXCLUDED.kinds, disabled_at = NULL, "
        "sealed_secret = coalesce(EXCLUDED.sealed_secret, destination.sealed_secret) RETURNING id",
        {
            "id": new_id(),
            "workspace": workspace_id,
            "name": name,
            "kind": kind,
            "address": sealed_address,
            "secret": sealed_secret,
            "kinds": orjson.dumps(list(kinds)).decode(),
            "now": now,
        },
    )
    return UUID(str(rows[0][0]))


def disable_destination(*, id: UUID, now: datetime) -> bool:
    """Send nothing there any more; what is on its way is given up at its next try. False when it was off already."""
    rows = execute(
        "UPDATE destination SET disabled_at = %s WHERE id = %s AND disabled_at IS NULL RETURNING 1", [now, id]
    )
    return bool(rows)


def add_endpoint(
    *, workspace_id: UUID, owner_id: UUID, endpoint_id: UUID, sealed_secrets: bytes, now: datetime
) -> None:
    """An address for one owner's notifications. Its id is random: it is the address's last part."""
    execute(
        "INSERT INTO notice_endpoint (id, workspace_id, owner_id, sealed_secrets, created_at) VALUES (%s, %s, %s, %s, %s)",
        [endpoint_id, workspace_id, owner_id, sealed_secrets, now],
    )


def change_endpoint_secrets(*, id: UUID, sealed_secrets: bytes) -> None:
    """Accept other secrets from now on."""
    execute("UPDATE notice_endpoint SET sealed_secrets = %s WHERE id = %s", [sealed_secrets, id])


def disable_endpoint(*, id: UUID, now: datetime) -> bool:
    """Accept nothing there any more. False when it was off already."""
    rows = execute(
        "UPDATE notice_endpoint SET disabled_at = %s WHERE id = %s AND disabled_at IS NULL RETURNING 1", [now, id]
    )
    return bool(rows)
