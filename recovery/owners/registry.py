"""Which adapter asks which kind of lookup, and how to add one.

An adapter is a class with one method, `ask(question) -> Reply` (recovery/owners/base.py: `OwnerAdapter`). It changes
nothing at the owner, keeps to `question.time_left`, goes out only through recovery/owners/outgoing.py (or checks its
addresses with recovery/owners/addresses.py), never raises for what an owner does, and never answers `no_match` for a
lookup that failed. tests/owners/conformance.py holds every adapter to that: give it a stage for yours.

A module with `register(adapters)` adds or replaces adapters in the table below. It is found in one of two ways:

| where                                                              | for                                   |
| ------------------------------------------------------------------ | ------------------------------------- |
| an entry point of the group `ascertain.owner_adapters`, in a package that is installed beside ours | third parties |
| the environment variable ASCERTAIN_OWNER_ADAPTERS, a dotted path   | one deployment, and tests; it is asked last |

    [project.entry-points."ascertain.owner_adapters"]
    warehouse = "warehouse_ascertain:register"

One that cannot be imported stops the worker with its own error: an owner that is asked in another way than was meant is
worse than one that is not asked.
"""

import importlib
import os
from functools import cache
from importlib.metadata import entry_points
from typing import Final

from ledger.rules.contract_sections import LookupBy
from recovery.owners.base import OwnerAdapter
from recovery.owners.mcp import McpTaskLookup, McpToolLookup
from recovery.owners.operation import OperationLookup
from recovery.owners.search import SearchLookup
from recovery.owners.sql import PostgresXactLookup, SqlLookup
from recovery.owners.status import StatusLookup

GROUP: Final = "ascertain.owner_adapters"


@cache
def adapters() -> dict[LookupBy, OwnerAdapter]:
    """Every adapter of this process, by the kind of lookup that it carries out."""
    table: dict[LookupBy, OwnerAdapter] = {
        LookupBy.STATUS: StatusLookup(),
        LookupBy.SEARCH: SearchLookup(),
        LookupBy.LIST: SearchLookup(),
        LookupBy.OPERATION: OperationLookup(),
        LookupBy.MCP_TOOL: McpToolLookup(),
        LookupBy.MCP_TASK: McpTaskLookup(),
        LookupBy.SQL: SqlLookup(),
        LookupBy.POSTGRES_XACT: PostgresXactLookup(),
    }
    for found in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        found.load()(table)
    if added := os.environ.get("ASCERTAIN_OWNER_ADAPTERS"):
        importlib.import_module(added).register(table)
    return table
