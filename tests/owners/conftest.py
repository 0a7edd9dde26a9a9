"""Fixtures for tests beside this file; others import them: `from tests.owners.fixtures import kinto, fault_proxy`."""

from tests.owners.fixtures import (
    collection,
    fault_proxy,
    kinto,
    localstripe,
    maildev,
    mcp_everything,
    mcp_git,
    mcp_memory,
    postgres_owner,
    prefect,
)
from tests.owners.play import subject_at
from tests.owners.stages_http import elsewhere, list_stage, operation_stage, owner, search_stage, status_stage
from tests.owners.stages_mcp import (
    desk,
    mcp_task_2025_stage,
    mcp_task_2026_stage,
    mcp_tool_2025_stage,
    mcp_tool_2026_stage,
    mcp_tool_stage,
)
from tests.owners.stages_sql import postgres_xact_stage, sql_stage, warehouse, warehouse_server

__all__ = [
    "collection",
    "desk",
    "elsewhere",
    "fault_proxy",
    "kinto",
    "list_stage",
    "localstripe",
    "maildev",
    "mcp_everything",
    "mcp_git",
    "mcp_memory",
    "mcp_task_2025_stage",
    "mcp_task_2026_stage",
    "mcp_tool_2025_stage",
    "mcp_tool_2026_stage",
    "mcp_tool_stage",
    "operation_stage",
    "owner",
    "postgres_owner",
    "postgres_xact_stage",
    "prefect",
    "search_stage",
    "sql_stage",
    "status_stage",
    "subject_at",
    "warehouse",
    "warehouse_server",
]
