"""Published contracts. A version never changes, so each is parsed once per process."""

from dataclasses import dataclass
from functools import lru_cache
from uuid import UUID

import orjson

from ledger.database import execute
from ledger.rules.contract import Contract, parse_contract


@lru_cache(maxsize=2048)
def contract_by_id(contract_id: UUID) -> Contract:
    """The contract of one published version.

    Raises:
        LookupError: there is no such version; operations are pinned by a foreign key, so this means a broken database.
    """
    rows = execute("SELECT document FROM contract_version WHERE id = %s", [contract_id])
    if not rows:
        raise LookupError(f"contract version {contract_id} is not in the ledger")
    return parse_contract(orjson.loads(rows[0][0]))


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedContract:
    """A tool's contract as it holds now."""

    id: UUID
    label: str
    """`tickets.create@3`."""
    title: str


def published_contracts(*, workspace_id: UUID) -> tuple[PublishedContract, ...]:
    """The current contract of every tool of a workspace, by name."""
    rows = execute(
        "SELECT cv.id, t.name, cv.number FROM tool t JOIN contract_version cv ON cv.id = t.current_id "
        "WHERE t.workspace_id = %s ORDER BY t.name",
        [workspace_id],
    )
    return tuple(
        PublishedContract(id=id, label=f"{name}@{number}", title=contract_by_id(id).title) for id, name, number in rows
    )
