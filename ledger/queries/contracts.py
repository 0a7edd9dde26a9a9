"""Published contracts. A version never changes, so each is parsed once per process."""

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
