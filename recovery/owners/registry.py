"""Which adapter asks which kind of lookup.

A module named in ASCERTAIN_OWNER_ADAPTERS (a dotted path) may add or replace adapters: its `register(adapters)` is
called once per process with the table below.
"""

import importlib
import os
from functools import cache

from ledger.rules.contract_sections import LookupBy
from recovery.owners.base import OwnerAdapter
from recovery.owners.http import StatusLookup


@cache
def adapters() -> dict[LookupBy, OwnerAdapter]:
    """Every adapter of this process, by the kind of lookup that it carries out."""
    table: dict[LookupBy, OwnerAdapter] = {LookupBy.STATUS: StatusLookup()}
    if added := os.environ.get("ASCERTAIN_OWNER_ADAPTERS"):
        importlib.import_module(added).register(table)
    return table
