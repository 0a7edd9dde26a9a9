"""Every adapter in every situation: conformance.py says what must come of it."""

import pytest

from tests.owners.conformance import Situation, Stage, conforms

KINDS = [
    *("status", "search", "list", "operation"),
    *("mcp_tool", "mcp_tool_2026", "mcp_tool_2025", "mcp_task_2026", "mcp_task_2025"),
    *("sql", "postgres_xact"),
]


@pytest.mark.parametrize("situation", Situation)
@pytest.mark.parametrize("kind", KINDS)
def test_an_adapter_holds_to_the_table(kind: str, situation: Situation, request: pytest.FixtureRequest) -> None:
    stage: Stage = request.getfixturevalue(f"{kind}_stage")
    if situation in stage.cannot:
        assert stage.cannot[situation], "a reason stands there"
        return
    conforms(stage, situation)
