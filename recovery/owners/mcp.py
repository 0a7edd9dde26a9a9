"""`lookup.by: mcp_tool` and `lookup.by: mcp_task`: one question to the owner's MCP server, and its answer.

The owner's address is the server's streamable HTTP endpoint; a server on standard input and output is bridged to HTTP
by whoever deploys it. The operation's id travels in `_meta` as `ascertain/operation-id`.

`mcp_tool`: the contract's word is what permits the tool; an administrator published it. `body` is `structuredContent`,
without it the JSON of the only text, without that the text.

| the server                                         | outcome                                                       |
| -------------------------------------------------- | ------------------------------------------------------------- |
| lists the tool with `readOnlyHint: false`          | lookup_failed, not called: it says that this changes things   |
| does not list the tool                             | lookup_failed, not called                                     |
| answers with a result                              | what the contract's conditions say of it                      |
| answers `isError`                                  | inconclusive: a tool's failure is never an absence            |
| begins a task, or answers with an unknown kind     | inconclusive                                                  |
| asks for input (`input_required`, elicitation, −32042) | inconclusive, and a person is needed; nothing is answered |
| refuses the question (−32600 to −32602, −32700)    | inconclusive: the contract's question has to be corrected     |
| any other JSON-RPC error                           | lookup_failed                                                 |

`mcp_task`: the contract's `effect` conditions come first (`body` is the task, with its `result` or `error` inside);
where none holds:

| status         | 2025-11-25 (`tasks/get`, `tasks/result`)   | 2026-07-28 (extension, `tasks/get`)         |
| -------------- | ------------------------------------------ | ------------------------------------------- |
| working        | pending                                    | pending                                     |
| input_required | pending, and a person is needed            | pending, and a person is needed             |
| completed      | applied; with `isError` inconclusive       | applied; with `isError` inconclusive        |
| failed         | inconclusive: it may have acted before     | inconclusive: likewise                      |
| cancelled      | inconclusive: cancelling undoes nothing    | inconclusive: likewise                      |
| −32602         | inconclusive: expired, or another's        | inconclusive: likewise                      |

The next question waits for the task's poll interval. A task lives in the revision that began it: where a server speaks
both, `mcp.mode` names that one. Some servers of 2025-11-25 show a task only in the session that began it: `mcp.session`
joins that one, and a harness hands its id over as it does a transaction's (`receipt: {session: request.session_id}`).
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from ledger.rules.templates import NotRendered, render_value
from ledger.rules.vocabulary import Effect, LookupOutcome
from recovery.judgement.waits import wait_in
from recovery.owners.answers import (
    Told,
    context_of,
    missing,
    not_asked,
    of_answer,
    of_items,
    of_state,
    values_of,
    with_page,
)
from recovery.owners.base import Question, Reply
from recovery.owners.credentials import CredentialMissing, headers_for
from recovery.owners.mcp_wire import (
    INVALID_PARAMS,
    TASKS,
    URL_ELICITATION_REQUIRED,
    Conversation,
    NotAnswered,
    Refused,
    mirrored_arguments,
)

SLOWEST: Final = 5.0
"""Seconds for the whole conversation."""
_MOST_PAGES: Final = 20
"""Pages of a server's tools that are looked through."""
_NOT_A_QUESTION: Final = frozenset({-32700, -32600, -32601, INVALID_PARAMS})


class McpToolLookup:
    """Asks one read-only tool of an owner's MCP server."""

    def ask(self, question: Question) -> Reply:
        """The server's tools, then one call of the contract's. Nothing is repeated."""
        rule = question.lookup.rule
        if rule.mcp is None or rule.mcp.tool is None:
            return not_asked("The contract names no tool")
        told = Told(
            query=f"tools/call {rule.mcp.tool}({', '.join(rule.mcp.arguments)})"[:600], principal=rule.credential or ""
        )
        try:
            arguments = render_value(rule.mcp.arguments, values=values_of(question))
            with _conversation(question) as server:
                tool = _tool(server, rule.mcp.tool)
                result = server.ask(
                    "tools/call",
                    {"name": rule.mcp.tool, "arguments": arguments},
                    name=rule.mcp.tool,
                    mirrored=mirrored_arguments(tool.get("inputSchema"), arguments),
                )
                told = replace(told, status=server.status)
        except _ToolRefused as error:
            return not_asked(str(error), told)
        except NotRendered as error:
            return missing(error.name, told)
        except (NotAnswered, Refused, CredentialMissing) as error:
            return _without_result(error, told)
        return _of_result(question, result, told)


class McpTaskLookup:
    """Asks an owner's MCP server how far a task is."""

    def ask(self, question: Question) -> Reply:
        """One `tasks/get`, and for a finished task of 2025-11-25 its result."""
        rule = question.lookup.rule
        told = Told(query="tasks/get", principal=rule.credential or "")
        try:
            task_id = str(render_value(rule.task or "", values=values_of(question)))
            told = replace(told, query=f"tasks/get {task_id}"[:600])
            with _conversation(question) as server:
                task = dict(server.ask("tasks/get", {"taskId": task_id}, name=task_id, extension=TASKS))
                if task.get("status") == "completed" and not server.modern:
                    task["result"] = dict(server.ask("tasks/result", {"taskId": task_id}))
                told = replace(told, status=server.status)
        except Refused as error:
            if error.code == INVALID_PARAMS:
                reason = "The server does not know the task: it has expired, or belongs to somebody else"
                return replace(told, status=error.status).reply(LookupOutcome.INCONCLUSIVE, reason=reason)
            return _without_result(error, told)
        except NotRendered as error:
            return missing(error.name, told)
        except (NotAnswered, CredentialMissing) as error:
            return _without_result(error, told)
        return _of_task(question, task, replace(told, body=_recorded(task)))


class _ToolRefused(Exception):
    """The tool may not be called; the message says why."""


@contextmanager
def _conversation(question: Question) -> Iterator[Conversation]:
    asked = question.lookup.rule.mcp
    joined = asked.session if asked is not None else None
    server = Conversation(
        reach=question.reach,
        authorization=headers_for(question.lookup.rule.credential, secrets=question.secrets),
        operation_id=question.operation_id,
        now=question.started_at,
        seconds=min(SLOWEST, question.time_left),
        session=None if joined is None else str(render_value(joined, values=values_of(question))),
    )
    try:
        server.open(mode=asked.mode if asked is not None else "auto")
        yield server
    finally:
        server.close()


def _tool(server: Conversation, name: str) -> Mapping[str, Any]:
    """The tool as the server lists it.

    Raises:
        _ToolRefused: it is not listed, or the server says that it changes things.
    """
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page = server.ask("tools/list", {} if cursor is None else {"cursor": cursor})
        tools = page.get("tools")
        for tool in tools if isinstance(tools, list) else ():
            if not isinstance(tool, Mapping) or tool.get("name") != name:
                continue
            said = tool.get("annotations")
            if isinstance(said, Mapping) and said.get("readOnlyHint") is False:
                raise _ToolRefused(f"The server says that the tool {name} changes things; it was not called")
            return tool
        following = page.get("nextCursor")
        if not isinstance(following, str) or following == cursor:
            break
        cursor = following
    raise _ToolRefused(f"The server lists no tool {name}; it was not called")


def _of_result(question: Question, result: Mapping[str, Any], told: Told) -> Reply:
    body = _body(result)
    # Without the text blocks, which repeat it as prose: what the contract redacts can be found in it.
    told = replace(told, body=json.dumps(body, ensure_ascii=False))
    kind = result.get("resultType", "complete")
    if kind == "input_required":
        reason = "The tool asks for something that only a person may give; nothing was answered"
        return told.reply(LookupOutcome.INCONCLUSIVE, complete=False, needs_person=True, reason=reason)
    if kind != "complete":
        reason = "The tool began a task in place of an answer" if kind == "task" else "The answer is of an unknown kind"
        return told.reply(LookupOutcome.INCONCLUSIVE, complete=False, reason=reason)
    if result.get("isError") not in (None, False):
        reason = "The tool says that it failed, which says nothing of the effect"
        return told.reply(LookupOutcome.INCONCLUSIVE, complete=False, reason=reason)
    lookup = question.lookup
    if lookup.items is None:
        return of_answer(question, body, told)
    page = context_of(body, told)
    items = lookup.items.read(page)
    if not isinstance(items, list):
        reason = "The answer does not hold the list that the contract names"
        return told.reply(LookupOutcome.INCONCLUSIVE, complete=False, reason=reason)
    return of_items(question, items, with_page(question, page, told))


def _body(result: Mapping[str, Any]) -> Any:
    """What the contract's conditions see of a tool's result."""
    if result.get("structuredContent") is not None:
        return result["structuredContent"]
    content = result.get("content")
    texts = [
        text
        for block in (content if isinstance(content, list) else ())
        if isinstance(block, Mapping) and isinstance(text := block.get("text"), str)
    ]
    if len(texts) != 1:
        return "\n".join(texts)
    try:
        return json.loads(texts[0])
    except (ValueError, RecursionError):
        return texts[0]


@dataclass(frozen=True, slots=True)
class _Meaning:
    """What a task's status says by the protocol."""

    effect: Effect | None
    reason: str = ""


_STATUSES: Final = {
    "working": _Meaning(Effect.PENDING),
    "input_required": _Meaning(Effect.PENDING),
    "completed": _Meaning(Effect.APPLIED),
    "failed": _Meaning(None, "The task failed, and may have acted before"),
    "cancelled": _Meaning(None, "The task was cancelled, which undoes nothing that it did before"),
}
_OTHER: Final = _Meaning(None, "The task's status is none that MCP knows")
_FAILED_INSIDE: Final = _Meaning(None, "The task ended with a failure of the tool, which says nothing of the effect")


def _of_task(question: Question, task: Mapping[str, Any], told: Told) -> Reply:
    status, result = task.get("status"), task.get("result")
    meaning = _STATUSES.get(status, _OTHER) if isinstance(status, str) else _OTHER
    if status == "completed" and (not isinstance(result, Mapping) or result.get("isError") not in (None, False)):
        meaning = _FAILED_INSIDE
    wait = wait_in(task)
    told = replace(told, retry_after_ms=None if wait is None else wait.milliseconds)
    reply = of_state(question, task, told, otherwise=meaning.effect, reason=meaning.reason)
    return replace(reply, needs_person=True) if status == "input_required" else reply


def _recorded(task: Mapping[str, Any]) -> str:
    """The task and its result side by side: what the contract redacts is found from the top of each."""
    result = task.get("result")
    parts = [{**task, "result": None}, _body(result)] if isinstance(result, Mapping) else [task]
    return json.dumps(parts, ensure_ascii=False)


def _without_result(error: NotAnswered | Refused | CredentialMissing, told: Told) -> Reply:
    if isinstance(error, CredentialMissing):
        return not_asked(str(error), told)
    told = replace(told, status=error.status, retry_after_ms=error.retry_after_ms)
    if isinstance(error, NotAnswered):
        return told.reply(
            LookupOutcome.INCONCLUSIVE if error.needs_person else LookupOutcome.LOOKUP_FAILED,
            complete=False,
            reason=error.reason.rstrip("."),
            refused_credential=error.refused_credential,
            overloaded=error.overloaded,
            needs_person=error.needs_person,
        )
    if error.code == URL_ELICITATION_REQUIRED:
        reason = "The server asks for something that only a person may give; nothing was answered"
        return told.reply(LookupOutcome.INCONCLUSIVE, complete=False, needs_person=True, reason=reason)
    if error.code in _NOT_A_QUESTION:
        reason = f"The server does not accept the contract's question ({error.code})"
        return told.reply(LookupOutcome.INCONCLUSIVE, complete=False, reason=reason)
    return told.reply(
        LookupOutcome.LOOKUP_FAILED,
        complete=False,
        reason=f"The server answered with the error {error.code}",
        overloaded=error.retry_after_ms is not None,
    )
