"""What does the result of an MCP tool call prove?

| in this order                                       | proves                                                      |
| --------------------------------------------------- | ----------------------------------------------------------- |
| the contract's error rules                          | what they say                                               |
| a task instead of a result                          | what the task's status says (2025-11-25 and 2026-07-28)     |
| `resultType: input_required`                        | none: it goes on with the answer of a person                |
| another `resultType` than `complete`                | unknown: the specification calls it invalid                 |
| `isError`, and the tool is not listed               | none: there is nothing that could have run                  |
| `isError` with a structured refusal                 | what its documented code means                              |
| `isError` with text                                 | unknown: text proves nothing                                |
| a structured result                                 | what it says of itself                                      |
| text alone                                          | nothing: the outcome has to be checked                      |

A contract's rules see `structuredContent` as `body` (the whole result when there is none), the result as `error`
when it is one. A single text block that is JSON counts as structured, as the specification asks servers to send it.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from ledger.rules.contract import Contract
from ledger.rules.expressions import Context
from ledger.rules.facts import AttemptFacts
from ledger.rules.vocabulary import Phase, Speaker
from recovery.judgement.codes import Code
from recovery.judgement.documented import (
    DONE,
    ERROR_INSIDE,
    INPUT_REQUIRED,
    JSONRPC_CODES,
    NOT_FOUND,
    NOT_LISTED,
    TASK_STATUSES,
    TO_BE_CHECKED,
    UNREADABLE,
    Meaning,
    code_meaning,
    looks_like_a_code,
)
from recovery.judgement.envelopes import read_envelope
from recovery.judgement.error_bodies import LARGEST_TEXT, ErrorBody, Tells, read_body
from recovery.judgement.readers import members
from recovery.judgement.readers.conclude import Seen, begin, by_contract, conclude
from recovery.judgement.readers.jsonrpc import narrowed
from recovery.judgement.readers.results import by_success_rule, meaning_of, of_envelope, of_result, with_error
from recovery.judgement.reading import Reading
from recovery.judgement.waits import wait_in

KIND = "mcp"
_KNOWN = members.COMMON | {"result", "tool", "tool_listed", "protocol_version"}
_TOOL_FAILED = replace(ERROR_INSIDE, rule="mcp.tool_failed", code=Code.TOOL_FAILED, source="MCP tools, Error Handling")
_NOT_OFFERED = replace(
    NOT_FOUND,
    rule="mcp.tool_not_listed",
    source="MCP tools: a tool that is not listed cannot be called",
    foreign_only=False,
)
_NO_SUCH_TYPE = replace(NOT_LISTED, rule="mcp.result_type_unknown", source="MCP 2026-07-28, resultType")
_CALL_CODE = re.compile(r"\s*MCP error (-\d{5}):", re.ASCII)
"""The TypeScript SDK's own prefix. For a write it licenses nothing; for a read it tells which step helps."""
_MOST_BLOCKS: Final = 200


def read(
    observation: Mapping[str, Any], *, contract: Contract, earlier: Sequence[AttemptFacts], now: datetime
) -> Reading:
    """Reads an `mcp` observation.

    Raises:
        ObservationInvalid: a member of the wrong type.
    """
    result = members.mapping(observation, "result")
    members.text(observation, "tool")
    members.text(observation, "protocol_version")
    listed = members.flag(observation, "tool_listed")
    seen = begin(
        observation,
        kind=KIND,
        known=_KNOWN,
        contract=contract,
        earlier=earlier,
        now=now,
        speaker=Speaker.OWNER_ANSWER,
        phase=Phase.AFTER_RESPONSE,
    )
    return of_tool_result(result, seen, listed=listed)


def of_tool_result(result: Mapping[str, Any], seen: Seen, *, listed: bool | None = None) -> Reading:
    """The reading for one tool result, wherever it was found.

    Raises:
        ObservationInvalid: `isError` is neither true nor false.
    """
    failed = members.flag(result, "isError", inside="result.") is True
    texts = _texts(result)
    structured = _structured(result, texts)
    task = _task(result)
    seen = replace(
        seen,
        quoted=tuple(text[:300] for text in texts[:5]),
        wait=wait_in(task or structured),
    )
    context = Context.answer(
        body=structured if structured is not None else dict(result),
        error=dict(result) if failed else None,
        speaker=seen.speaker,
        phase=seen.phase,
    )
    ruled = by_contract(context, seen)
    if ruled is not None:
        return ruled
    if task is not None:
        status = task.get("status", "working")
        known = TASK_STATUSES.get(status) if isinstance(status, str) else None
        return conclude(known or NOT_LISTED, seen)
    kind = result.get("resultType")
    if kind == "input_required":
        return conclude(INPUT_REQUIRED, seen)
    if kind not in (None, "complete"):
        return conclude(_NO_SUCH_TYPE, seen)
    if failed:
        return _failed(structured, texts, seen, context, listed=listed)
    if structured is not None:
        return of_result(structured, seen, context)
    if not result:
        return conclude(UNREADABLE, seen)
    if seen.contract.is_read:
        return conclude(DONE, seen)
    return by_success_rule(Tells.NOTHING, seen, context) or conclude(TO_BE_CHECKED, seen)


def _failed(structured: Any, texts: Sequence[str], seen: Seen, context: Context, *, listed: bool | None) -> Reading:
    if listed is False:
        return conclude(_NOT_OFFERED, seen)
    envelope = read_envelope(structured)
    if envelope is not None and envelope.meaning is not None:
        return of_envelope(envelope, seen, context)
    if structured is not None:
        error = read_body(body=structured, unreadable=False, headers={})
        seen = with_error(seen, error)
        said = meaning_of(error) if error.tells is Tells.ERROR else _own_code(structured, error)
        if said is not None and not error.partly_done:
            return conclude(said, seen)
    return conclude(_of_a_read(texts) if seen.contract.is_read else _TOOL_FAILED, seen)


def _own_code(structured: Any, error: ErrorBody) -> Meaning | None:
    """What a plain `code` beside `isError` means, where nothing in the result speaks against a refusal."""
    if error.tells is not Tells.NOTHING or not isinstance(structured, Mapping):
        return None
    codes = [structured.get(name) for name in ("code", "error_code", "errorCode", "error_type", "errorType")]
    return next((code_meaning(str(code)) for code in codes if looks_like_a_code(code)), None)


def _of_a_read(texts: Sequence[str]) -> Meaning:
    found = _CALL_CODE.match(texts[0]) if texts else None
    meaning = JSONRPC_CODES.get(int(found[1])) if found is not None else None
    return narrowed(meaning, texts[0]) if meaning is not None else _TOOL_FAILED


def _task(result: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The task that stands in for a result: inside `task` (2025-11-25), or the result itself (2026-07-28)."""
    inner = result.get("task")
    if isinstance(inner, Mapping) and "taskId" in inner:
        return inner
    if result.get("resultType") == "task" or ("taskId" in result and "content" not in result):
        return result
    return None


def _texts(result: Mapping[str, Any]) -> tuple[str, ...]:
    content = result.get("content")
    if not isinstance(content, list):
        return ()
    blocks = [block for block in content[:_MOST_BLOCKS] if isinstance(block, Mapping)]
    return tuple(text for block in blocks if isinstance(text := block.get("text"), str))


def _structured(result: Mapping[str, Any], texts: Sequence[str]) -> Any:
    structured = result.get("structuredContent")
    if structured is not None:
        return structured if isinstance(structured, Mapping | list) else None
    text = texts[0].strip() if len(texts) == 1 else ""
    if not text.startswith("{") or len(text) > LARGEST_TEXT:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
