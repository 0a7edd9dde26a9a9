"""The demo's two workspaces: people who sign in, an owner, its contracts, and a token for the harness.

Run as often as you like: what is there stays, and passwords and tokens of `.local/demo.json` are kept while they
still hold.
"""

import json
import os
import secrets
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings

from ledger.queries.access import Caller, caller
from ledger.queries.clock import database_now
from ledger.rules.contract import parse_contract
from ledger.rules.vocabulary import Role, Scope
from ledger.transitions.contracts import publish_contract
from ledger.transitions.workspace import create_token, ensure_owner, ensure_person, ensure_role, ensure_workspace

CONTRACTS = Path(__file__).parent / "contracts"
OWNER = "demo-owner"
WORKSPACES = (("northwind-support", "Northwind Support"), ("harbor-billing", "Harbor Billing"))
PEOPLE = (
    ("olive", "Olive Operator", Role.OPERATOR),
    ("ada", "Ada Approver", Role.APPROVER),
    ("max", "Max Admin", Role.ADMIN),
    ("vic", "Vic Viewer", Role.VIEWER),
)
TOKEN_DAYS = 30


def prepare(*, url: str) -> dict[str, Any]:
    """Make or renew the demo. Returns what scripts need: the address, people's sign-ins, a token per workspace."""
    kept = _kept()
    owner_url = os.environ["ASCERTAIN_DEMO_OWNER_URL"]
    passwords = {person["name"]: person["password"] for person in kept.get("people", [])}
    tokens = {entry["workspace"]: entry["token"] for entry in kept.get("tokens", [])}
    workspaces = {slug: ensure_workspace(slug=slug, name=name, now=database_now()) for slug, name in WORKSPACES}
    people = [_person(username, name, role, passwords, workspaces.values()) for username, name, role in PEOPLE]
    for workspace_id in workspaces.values():
        owner_id = ensure_owner(workspace_id=workspace_id, name=OWNER, base_url=owner_url, private_hosts=["127.0.0.1"])
        for file in sorted(CONTRACTS.glob("*.yaml")):
            publish_contract(
                workspace_id=workspace_id,
                contract=parse_contract(file.read_text()),
                owner_id=owner_id,
                now=database_now(),
            )
    return {
        "url": url,
        "people": people,
        "tokens": [
            {"workspace": slug, "token": _token(workspace_id, tokens.get(slug, ""))}
            for slug, workspace_id in workspaces.items()
        ],
    }


def _person(username: str, name: str, role: Role, passwords: dict[str, str], workspaces: Any) -> dict[str, str]:
    password = passwords.get(username) or f"{username}-{secrets.token_urlsafe(9)}"
    person_id = ensure_person(username=username, name=name, password=password)
    for workspace_id in workspaces:
        ensure_role(workspace_id=workspace_id, person_id=person_id, role=role)
    return {"name": username, "role": role.value, "password": password}


def _token(workspace_id: UUID, token: str) -> str:
    found = caller(token=token)
    now = database_now()
    if isinstance(found, Caller) and found.workspace_id == workspace_id:
        return token
    return create_token(
        workspace_id=workspace_id,
        name="demo harness",
        scopes=list(Scope),
        now=now,
        expires_at=now + timedelta(days=TOKEN_DAYS),
    ).token


def _kept() -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((Path(settings.BASE_DIR) / ".local" / "demo.json").read_text())
    except (OSError, ValueError):
        return {}
    return found
