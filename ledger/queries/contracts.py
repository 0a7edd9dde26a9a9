"""Published contracts. A version never changes, so each is parsed once per process."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedDocument:
    """One published version as it stands in the ledger."""

    tool: str
    number: int
    document: dict[str, Any]
    digest: str
    """`sha256:…` of its canonical form."""

    @property
    def label(self) -> str:
        """`tickets.create@3`."""
        return f"{self.tool}@{self.number}"


def published_documents(
    *, workspace_id: UUID, tool: str | None = None, number: int | None = None
) -> tuple[PublishedDocument, ...]:
    """The current contracts of a workspace by name, or one tool's; with `number`, that version of it."""
    rows = execute(
        "SELECT t.name, cv.number, cv.document, cv.digest FROM contract_version cv JOIN tool t ON t.id = cv.tool_id "
        "WHERE t.workspace_id = %s AND (%s::text IS NULL OR t.name = %s) "
        "AND CASE WHEN %s::integer IS NULL THEN cv.id = t.current_id ELSE cv.number = %s END ORDER BY t.name",
        [workspace_id, tool, tool, number, number],
    )
    return tuple(
        PublishedDocument(
            tool=name, number=version, document=orjson.loads(document), digest=f"sha256:{bytes(digest).hex()}"
        )
        for name, version, document, digest in rows
    )
