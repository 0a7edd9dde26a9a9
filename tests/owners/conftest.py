"""Fixtures for tests beside this file; others import them: `from tests.owners.fixtures import kinto, fault_proxy`."""

from tests.owners.fixtures import collection, fault_proxy, kinto
from tests.owners.stages_http import elsewhere, list_stage, operation_stage, owner, search_stage, status_stage

__all__ = [
    "collection",
    "elsewhere",
    "fault_proxy",
    "kinto",
    "list_stage",
    "operation_stage",
    "owner",
    "search_stage",
    "status_stage",
]
