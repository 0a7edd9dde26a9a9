"""Who is calling, and what are they calling for: token, workspace, tool and its current contract in one round trip."""

import hashlib
import hmac
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from ledger.database import execute
from ledger.rules.vocabulary import Role


class Refused(StrEnum):
    """Why a token was not accepted."""

    UNKNOWN = "unknown"
    EXPIRED = "expired"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The token behind an API request."""

    token_id: UUID
    token_name: str
    workspace_id: UUID
    scopes: frozenset[str]
    principals: frozenset[str]
    """Who it may state; empty: anyone."""
    now: datetime
    """The database's clock when the token was looked up."""
    tool_id: UUID | None
    contract_id: UUID | None
    contract_number: int | None

    @property
    def actor(self) -> str:
        return f"token:{self.token_name}"


CALLER = "k.id, k.name, k.workspace_id, k.scopes, k.principals, k.hash, k.expires_at, k.revoked_at, now()"
"""Columns of `api_token k` that `caller_from` reads."""


def caller(*, token: str, tool: str | None = None) -> Caller | Refused:
    """The caller behind a bearer token, with the tool's id and current contract when `tool` names one it can see."""
    prefix = prefix_of(token)
    if prefix is None:
        return Refused.UNKNOWN
    rows = execute(
        f"SELECT {CALLER}, t.id, t.current_id, cv.number "  # noqa: S608 - names are ours
        "FROM api_token k LEFT JOIN tool t ON t.workspace_id = k.workspace_id AND t.name = %s "
        "LEFT JOIN contract_version cv ON cv.id = t.current_id WHERE k.prefix = %s",
        [tool, prefix],
    )
    return caller_from(rows[0], token=token) if rows else Refused.UNKNOWN


def prefix_of(token: str) -> str | None:
    """The part of a token by which it is looked up; None when it is not shaped like one."""
    parts = token.split("_", 2)
    return parts[1] if len(parts) == 3 else None


def caller_from(row: tuple[Any, ...], *, token: str) -> Caller | Refused:
    """The caller of one row: CALLER's columns, then the tool's id, its contract and that version's number."""
    id, name, workspace_id, scopes, principals, kept, expires_at, revoked_at, now, tool_id, contract_id, number = row
    if not hmac.compare_digest(bytes(kept), hashlib.sha256(token.encode()).digest()):
        return Refused.UNKNOWN
    if revoked_at is not None:
        return Refused.REVOKED
    if now >= expires_at:
        return Refused.EXPIRED
    return Caller(
        token_id=id,
        token_name=name,
        workspace_id=workspace_id,
        scopes=frozenset(scopes),
        principals=frozenset(principals),
        now=now,
        tool_id=tool_id,
        contract_id=contract_id,
        contract_number=number,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """A signed-in person's place in one workspace."""

    workspace_id: UUID
    slug: str
    name: str
    roles: frozenset[Role]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preference:
    """How a person likes their pages."""

    zone: str = ""
    """An IANA zone, `UTC`, or empty for the browser's."""
    density: str = "normal"
    theme: str = "system"
    single_keys: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """A signed-in person: where they may sit, and how they like their pages."""

    seats: tuple[Seat, ...]
    preference: Preference


def visitor(*, person_id: int) -> Visitor:
    """Every workspace that the person belongs to, by name, with the roles held there, and their preferences. One statement."""
    rows = execute(
        "SELECT w.id, w.slug, w.name, array_agg(m.role), pr.zone, pr.density, pr.theme, pr.single_keys "
        "FROM membership m JOIN workspace w ON w.id = m.workspace_id LEFT JOIN preference pr ON pr.person_id = m.person_id "
        "WHERE m.person_id = %s GROUP BY w.id, pr.person_id ORDER BY w.name",
        [person_id],
    )
    places = tuple(
        Seat(workspace_id=id, slug=slug, name=name, roles=frozenset(Role(role) for role in roles))
        for id, slug, name, roles, *_ in rows
    )
    kept = rows[0][4:] if rows and rows[0][7] is not None else None
    if kept is None:
        return Visitor(seats=places, preference=Preference())
    zone, density, theme, single_keys = kept
    return Visitor(
        seats=places, preference=Preference(zone=zone, density=density, theme=theme, single_keys=single_keys)
    )


def seats(*, person_id: int) -> tuple[Seat, ...]:
    """Every workspace that the person belongs to, by name, with the roles held there."""
    return visitor(person_id=person_id).seats
