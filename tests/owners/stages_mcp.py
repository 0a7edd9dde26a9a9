"""The MCP kinds on the stage of the conformance suite, before the ticket desk (mcp_program.py)."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from recovery.owners.base import OwnerAdapter, Reply
from recovery.owners.mcp import McpTaskLookup, McpToolLookup
from tests.owners import mcp_desk
from tests.owners.conformance import OPERATION_ID, SECRET, Situation, question
from tests.owners.mcp_desk import Desk
from tests.owners.scripted import ScriptedOwner
from tests.owners.stages_http import said

TOOL = {
    "by": "mcp_tool",
    "items": "body.tickets",
    "match": "item.key == operation_id",
    "truncated": "body.truncated",
    "effect": {"applied": "body.state == 'open'", "pending": "body.state == 'creating'"},
    "same": {"title": "body.title", "customer": "body.customer"},
    "authoritative": True,
    "sees": "all",
    "as": "secret:desk",
}
TASK = {
    "by": "mcp_task",
    "task": "{receipt.task}",
    "same": {"title": "body.result.structuredContent.title"},
    "as": "secret:desk",
}
_KEYS = {
    Situation.FOUND: "found",
    Situation.NO_MATCH: "nothing",
    Situation.PENDING: "pending",
    Situation.DIFFERENT: "different",
    Situation.SEVERAL: "twice",
    Situation.FAILED: "broken",
    Situation.SLOW: "slow",
    Situation.HUGE: "huge",
    Situation.TRUNCATED: "truncated",
}
_TASKS = {**_KEYS, Situation.FOUND: "done", Situation.PENDING: "working", Situation.FAILED: "failed"}
_PATHS = {Situation.MALFORMED: "/malformed", Situation.REDIRECTED: "/moved?to="}


@pytest.fixture(scope="session")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """The desk, for this test process."""
    with mcp_desk.running(tmp_path_factory.mktemp("desk"), token=SECRET) as running:
        yield running


class McpStage:
    """One MCP adapter before the desk, in one revision."""

    def __init__(
        self,
        *,
        adapter: OwnerAdapter,
        rule: Mapping[str, Any],
        desk: Desk,
        elsewhere: ScriptedOwner,
        mode: str,
        cannot: Mapping[Situation, str],
    ) -> None:
        self.cannot = cannot
        self._adapter = adapter
        self._rule = rule
        self._desk = desk
        self._elsewhere = elsewhere
        self._mode = mode

    def ask(self, situation: Situation) -> Reply:
        """As the reconciler asks."""
        self._elsewhere.answer = said({"jsonrpc": "2.0", "id": 1, "result": {}})
        arguments = {"key": f"{_KEYS.get(situation, 'found')}-{{operation_id}}"}
        url = self._desk.url
        if situation in _PATHS:
            url = url.replace("/mcp", _PATHS[situation]) + (
                f"{self._elsewhere.url}/mcp" if situation is Situation.REDIRECTED else ""
            )
        task = {} if situation is Situation.WITHOUT_HANDLE else {"task": f"{_TASKS.get(situation, 'done')}-1"}
        asked = question(
            {**self._rule, "mcp": {"tool": "find_ticket", "arguments": arguments, "mode": self._mode}},
            base_url=url,
            receipt=task if self._rule["by"] == "mcp_task" else {},
            secrets={"desk": "wrong" if situation is Situation.WRONG_PRINCIPAL else SECRET},
        )
        before = len(self._desk.seen())
        reply = self._adapter.ask(asked)
        assert self._elsewhere.received == [], "nobody else was asked"
        assert self._desk.effects() == [], "nothing was changed"
        self._check_what_was_sent(self._desk.seen()[before:])
        return reply

    def _check_what_was_sent(self, seen: list[dict[str, Any]]) -> None:
        calls = [message["method"] for message in seen if message["method"] in ("tools/call", "tasks/get")]
        assert len(calls) <= 1, "the question was put once"
        for message in seen:
            if message["method"] in calls:
                assert message["meta"]["ascertain/operation-id"] == OPERATION_ID


_NO_PAGES = {Situation.REPEATED_CURSOR: "a tool's answer has no pages"}
_OF_A_TOOL = {**_NO_PAGES, Situation.WITHOUT_HANDLE: "it is asked by our own key"}
_OF_A_TASK = {
    **_NO_PAGES,
    Situation.NO_MATCH: "a task that is not known may have expired: it is no absence",
    Situation.SEVERAL: "an id is one task's",
    Situation.TRUNCATED: "a task is told whole or not at all",
}


def _tool(desk: Desk, elsewhere: ScriptedOwner, mode: str) -> McpStage:
    return McpStage(adapter=McpToolLookup(), rule=TOOL, desk=desk, elsewhere=elsewhere, mode=mode, cannot=_OF_A_TOOL)


def _task(desk: Desk, elsewhere: ScriptedOwner, mode: str) -> McpStage:
    return McpStage(adapter=McpTaskLookup(), rule=TASK, desk=desk, elsewhere=elsewhere, mode=mode, cannot=_OF_A_TASK)


@pytest.fixture
def mcp_tool_stage(desk: Desk, elsewhere: ScriptedOwner) -> McpStage:
    """`by: mcp_tool`; the server is asked what it speaks."""
    return _tool(desk, elsewhere, "auto")


@pytest.fixture
def mcp_tool_2026_stage(desk: Desk, elsewhere: ScriptedOwner) -> McpStage:
    """`by: mcp_tool` in the revision without a handshake."""
    return _tool(desk, elsewhere, "2026-07-28")


@pytest.fixture
def mcp_tool_2025_stage(desk: Desk, elsewhere: ScriptedOwner) -> McpStage:
    """`by: mcp_tool` after a handshake, answered on event streams."""
    return _tool(desk, elsewhere, "legacy")


@pytest.fixture
def mcp_task_2026_stage(desk: Desk, elsewhere: ScriptedOwner) -> McpStage:
    """`by: mcp_task` as the extension of 2026-07-28."""
    return _task(desk, elsewhere, "2026-07-28")


@pytest.fixture
def mcp_task_2025_stage(desk: Desk, elsewhere: ScriptedOwner) -> McpStage:
    """`by: mcp_task` as the core feature of 2025-11-25."""
    return _task(desk, elsewhere, "legacy")
