"""A ticket desk behind MCP, built with the official SDK. Runs in an environment of its own: `python mcp_program.py PORT`.

`create_ticket` has an effect, counted at `/effects`; `find_ticket` looks one up by its key. Some keys behave oddly, as
the tests of lookups need it. Tasks are offered as the extension of 2026-07-28 and as the core feature of 2025-11-25.
`/seen` lists the headers and the `_meta` of every request.
"""

import asyncio
import json
import os
import sys
from typing import Any
from urllib.parse import parse_qs

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

TICKETS: dict[str, dict[str, Any]] = {}
EFFECTS: list[str] = []
SEEN: list[dict[str, Any]] = []
TOKEN = f"Bearer {os.environ['DESK_TOKEN']}"
READS = types.ToolAnnotations(read_only_hint=True)
WRITES = types.ToolAnnotations(read_only_hint=False)


class TaskParams(types.RequestParams):
    task_id: str


class Tasks(Extension):
    """Tasks whose id says what they come to: `done-1`, `error-1`, `working-1` …"""

    identifier = "io.modelcontextprotocol/tasks"

    def methods(self) -> list[MethodBinding]:
        return [
            MethodBinding("tasks/get", TaskParams, self.get),
            MethodBinding("tasks/result", TaskParams, self.result, frozenset({"2025-11-25"})),
        ]

    async def intercept_tool_call(self, params: Any, ctx: ServerRequestContext[Any, Any], call_next: Any) -> Any:
        if params.name == "find_asking" and ctx.protocol_version == "2026-07-28":
            form = {"type": "object", "properties": {"sure": {"type": "boolean"}}}
            asked = {"mode": "form", "message": "Are you sure?", "requestedSchema": form}
            return {
                "resultType": "input_required",
                "inputRequests": {"sure": {"method": "elicitation/create", "params": asked}},
            }
        if params.name == "find_later":
            return {"resultType": "task", "taskId": "working-1", "status": "working"}
        return await call_next(ctx)

    async def get(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> dict[str, Any]:
        modern = ctx.protocol_version == "2026-07-28"
        kind = params.task_id.partition("-")[0]
        task: dict[str, Any] = {
            "taskId": params.task_id,
            "status": {"working": "working", "asks": "input_required", "failed": "failed", "gone": "cancelled"}.get(
                kind, "completed"
            ),
            "createdAt": "2026-11-30T10:00:00Z",
            "lastUpdatedAt": "2026-11-30T10:00:05Z",
        }
        task |= {"ttlMs": 60_000, "pollIntervalMs": 5_000} if modern else {"ttl": 60_000, "pollInterval": 5_000}
        if kind == "unknown":
            raise MCPError(code=types.INVALID_PARAMS, message=f"Task {params.task_id} not found")
        if kind == "slow":
            await asyncio.sleep(30)
        if modern:
            task["resultType"] = "complete"
            if task["status"] == "completed":
                task["result"] = _result(kind)
            if task["status"] == "failed":
                task["error"] = {"code": -32603, "message": "It broke."}
        elif kind == "error":
            task["status"] = "failed"
        return task

    async def result(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> dict[str, Any]:
        return _result(params.task_id.partition("-")[0])


def _result(kind: str) -> dict[str, Any]:
    title = {"different": "Something else", "huge": "x" * 2_000_000}.get(kind, "Export broken")
    return {
        "content": [{"type": "text", "text": title}],
        "structuredContent": {"id": "T-1", "title": title, "customer": "c-19"},
        "isError": kind in ("error", "late"),
    }


server = MCPServer("desk", extensions=[Tasks()])


@server.tool(annotations=WRITES)
def create_ticket(key: str, title: str) -> dict[str, Any]:
    """Create a ticket."""
    EFFECTS.append(key)
    TICKETS[key] = {"id": f"T-{len(EFFECTS)}", "key": key, "title": title, "state": "open"}
    return TICKETS[key]


@server.tool(annotations=READS)
async def find_ticket(key: str, ctx: Context) -> dict[str, Any]:
    """Find a ticket by its key."""
    kind, _, rest = key.partition("-")
    ours = {"id": "T-9", "key": rest, "title": "Export broken", "customer": "c-19", "state": "open"}
    odd: dict[str, list[dict[str, Any]]] = {
        "found": [ours],
        "pending": [{**ours, "state": "creating"}],
        "different": [{**ours, "title": "Something else"}],
        "twice": [ours, {**ours, "id": "T-10"}],
        "huge": [{**ours, "title": "x" * 2_000_000}],
        "truncated": [],
    }
    if kind == "slow":
        await asyncio.sleep(30)
    if kind == "broken":
        raise ToolError("The desk is closed.")
    if kind == "crash":
        raise MCPError(code=types.INTERNAL_ERROR, message="The desk fell over.")
    if kind == "later":
        raise MCPError(code=-32023, message="Slow down.", data={"retryAfterMs": 7_000})
    if kind == "person":
        raise MCPError(code=-32042, message="Sign in first.", data={"elicitations": []})
    held = [TICKETS[key]] if key in TICKETS else []
    return {"tickets": odd.get(kind, held), "truncated": kind == "truncated"}


@server.tool(annotations=READS, structured_output=False)
def find_as_text(key: str) -> str:
    """Find a ticket, told as JSON in text."""
    return json.dumps({"tickets": [TICKETS[key]] if key in TICKETS else []})


@server.tool(annotations=READS, structured_output=False)
def find_as_prose(key: str) -> str:
    """Find a ticket, told in prose."""
    return f"There is no ticket {key}."


@server.tool()
def find_unsaid(key: str) -> dict[str, Any]:
    """Find a ticket; nothing is said of what this changes."""
    return {"tickets": [TICKETS[key]] if key in TICKETS else []}


class Sure(BaseModel):
    sure: bool


@server.tool(annotations=READS)
async def find_asking(key: str, ctx: Context) -> dict[str, Any]:
    """Find a ticket, after asking somebody."""
    answer = await ctx.elicit("Are you sure?", Sure)
    return {"tickets": [], "answer": str(answer)}


@server.tool(annotations=READS)
def find_later(key: str) -> dict[str, Any]:
    """Find a ticket, as a task."""
    return {}


@server.custom_route("/effects", methods=["GET"])
async def effects(_: Request) -> JSONResponse:
    return JSONResponse(EFFECTS)


@server.custom_route("/seen", methods=["GET"])
async def seen(_: Request) -> JSONResponse:
    return JSONResponse(SEEN)


class Doorkeeper:
    """Lets in who has the token, sends `/moved` elsewhere, and remembers what it saw."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in ("/effects", "/seen"):
            await self.app(scope, receive, send)
            return
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        if headers.get("authorization") != TOKEN:
            refusal = PlainTextResponse("no", 401, {"www-authenticate": 'Bearer error="invalid_token"'})
            await refusal(scope, receive, send)
            return
        if scope["path"] == "/moved":
            to = parse_qs(scope["query_string"].decode())["to"][0]
            await PlainTextResponse("", 307, {"location": to})(scope, receive, send)
            return
        if scope["path"] == "/busy":
            await PlainTextResponse("", 429, {"retry-after": "3"})(scope, receive, send)
            return
        if scope["path"] == "/malformed":
            await PlainTextResponse("<html>hello</html>")(scope, receive, send)
            return
        body = b""
        while scope["method"] == "POST":
            part = await receive()
            body += part.get("body", b"")
            if not part.get("more_body"):
                break
        message = json.loads(body) if body else {}
        SEEN.append(
            {
                "method": message.get("method", scope["method"]),
                "name": headers.get("mcp-name"),
                "version": headers.get("mcp-protocol-version"),
                "meta": (message.get("params") or {}).get("_meta"),
            }
        )
        given = False

        async def again() -> Any:
            nonlocal given
            if given or scope["method"] != "POST":
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self.app(scope, again, send)


if __name__ == "__main__":
    import uvicorn

    app = Doorkeeper(server.streamable_http_app())
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
