"""Workspaces, the people in them, and the tokens that harnesses carry."""

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db import transaction

from ledger.database import execute
from ledger.identifiers import new_id
from ledger.rules.vocabulary import Role, Scope

PREFIX = "asc"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    """A token as it is shown once. Only its hash is kept."""

    id: UUID
    token: str


def ensure_workspace(*, slug: str, name: str, now: datetime) -> UUID:
    """The workspace with this slug, created if there was none."""
    execute(
        "INSERT INTO workspace (id, slug, name, created_at) VALUES (%s, %s, %s, %s) ON CONFLICT (slug) DO NOTHING",
        [new_id(), slug, name, now],
    )
    return UUID(str(execute("SELECT id FROM workspace WHERE slug = %s", [slug])[0][0]))


def ensure_owner(
    *,
    workspace_id: UUID,
    name: str,
    base_url: str,
    hosts: Sequence[str] = (),
    private_hosts: Sequence[str] = (),
    most_at_once: int = 4,
    per_second: float | None = None,
) -> UUID:
    """The owner system of this name, at this address and with these limits from now on.

    `hosts`: further hosts that may be asked. `private_hosts`: those among all of them that may resolve to loopback or
    private addresses; without an entry such an address is refused. `most_at_once`: questions open at the same time.
    `per_second`: questions a second at most; None: not limited.
    """
    rows = execute(
        "INSERT INTO owner (id, workspace_id, name, base_url, hosts, private_hosts, most_at_once, per_second) "
        "VALUES (%s, %s, %s, %s, %s, %s, %s, %s) "
        "ON CONFLICT ON CONSTRAINT an_owner_has_one_name_in_its_workspace "
        "DO UPDATE SET base_url = EXCLUDED.base_url, hosts = EXCLUDED.hosts, private_hosts = EXCLUDED.private_hosts, "
        "most_at_once = EXCLUDED.most_at_once, per_second = EXCLUDED.per_second RETURNING id",
        [new_id(), workspace_id, name, base_url, list(hosts), list(private_hosts), most_at_once, per_second],
    )
    return UUID(str(rows[0][0]))


def ensure_person(*, username: str, name: str, password: str) -> int:
    """The person of this username, with this password and name from now on. Returns their id."""
    with transaction.atomic():
        person, _ = get_user_model().objects.get_or_create(username=username, defaults={"first_name": name})
        person.first_name = name
        person.set_password(password)
        person.save()
    return int(person.pk)


def ensure_role(*, workspace_id: UUID, person_id: int, role: Role) -> None:
    """The person holds the role in the workspace."""
    execute(
        "INSERT INTO membership (workspace_id, person_id, role) VALUES (%s, %s, %s) "
        "ON CONFLICT ON CONSTRAINT a_person_holds_a_role_once DO NOTHING",
        [workspace_id, person_id, role.value],
    )


def create_token(
    *,
    workspace_id: UUID,
    name: str,
    scopes: Sequence[Scope],
    now: datetime,
    expires_at: datetime,
    principals: Sequence[str] = (),
    created_by: int | None = None,
) -> NewToken:
    """Make an API token. What is returned is the only copy of it."""
    prefix = secrets.token_hex(6)
    token = f"{PREFIX}_{prefix}_{secrets.token_urlsafe(30)}"
    id = new_id()
    execute(
        "INSERT INTO api_token (id, workspace_id, name, prefix, hash, scopes, principals, created_by_id, created_at, expires_at) "
        "VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
        [
            id,
            workspace_id,
            name,
            prefix,
            hashlib.sha256(token.encode()).digest(),
            [scope.value for scope in scopes],
            list(principals),
            created_by,
            now,
            expires_at,
        ],
    )
    return NewToken(id=id, token=token)


def revoke_token(*, id: UUID, now: datetime) -> None:
    """Refuse the token from now on."""
    execute("UPDATE api_token SET revoked_at = %s WHERE id = %s AND revoked_at IS NULL", [now, id])
