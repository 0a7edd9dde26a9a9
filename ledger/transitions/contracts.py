"""Publish a version of a tool's contract."""

from datetime import datetime
from uuid import UUID

from django.db import transaction

from ledger.database import execute
from ledger.identifiers import new_id
from ledger.rules.contract import Contract, ContractInvalid, unsupported
from ledger.rules.payload import canonical, digest, raw


def publish_contract(
    *, workspace_id: UUID, contract: Contract, owner_id: UUID, now: datetime, person_id: int | None = None
) -> tuple[UUID, int]:
    """Publish the next version for `contract.contract`; it holds for operations opened from now on.

    The same document again publishes nothing and returns the version that stands. One transaction.

    Raises:
        ContractInvalid: the document asks for something that this release cannot carry out.
    """
    if problems := unsupported(contract):
        raise ContractInvalid(problems)
    document = contract.model_dump(mode="json", by_alias=True, exclude_unset=True)
    body = canonical(document)
    with transaction.atomic():
        execute(
            "INSERT INTO tool (id, workspace_id, name, owner_id) VALUES (%s, %s, %s, %s) "
            "ON CONFLICT ON CONSTRAINT a_tool_has_one_name_in_its_workspace DO NOTHING",
            [new_id(), workspace_id, contract.contract, owner_id],
        )
        [(tool_id, current_id)] = execute(
            "SELECT id, current_id FROM tool WHERE workspace_id = %s AND name = %s FOR UPDATE",
            [workspace_id, contract.contract],
        )
        standing = execute(
            "SELECT id, number, digest FROM contract_version WHERE tool_id = %s ORDER BY number DESC LIMIT 1", [tool_id]
        )
        if standing and standing[0][0] == current_id and bytes(standing[0][2]) == raw(digest(document)):
            return standing[0][0], standing[0][1]
        number = standing[0][1] + 1 if standing else 1
        version_id = new_id()
        execute(
            "INSERT INTO contract_version (id, tool_id, number, document, digest, published_at, published_by_id) "
            "VALUES (%s, %s, %s, %s, %s, %s, %s)",
            [version_id, tool_id, number, body.decode(), raw(digest(document)), now, person_id],
        )
        execute("UPDATE tool SET current_id = %s, owner_id = %s WHERE id = %s", [version_id, owner_id, tool_id])
    return version_id, number
