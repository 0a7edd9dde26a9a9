"""What does the state of an MCP task say of the tool call that began it?

| status           | 2025-11-25                                | 2026-07-28 (tasks extension)                      |
| ---------------- | ----------------------------------------- | ------------------------------------------------- |
| working          | pending, and asked again at `pollInterval` | pending, and asked again at `pollIntervalMs`     |
| input_required   | pending: a person has to answer           | likewise                                          |
| completed        | what the result says (`isError` is failed) | what the result says (`isError` may stand in it) |
| failed           | unknown: it may have acted before         | unknown: likewise                                 |
| cancelled        | unknown: cancelling undoes nothing        | unknown: likewise                                 |
| any other        | unknown                                   | unknown                                           |

A completed task whose result is not here has to be looked at. Progress is shown and proves nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from ledger.rules.contract import Contract
from ledger.rules.expressions import Context
from ledger.rules.facts import AttemptFacts
from ledger.rules.vocabulary import Phase, Speaker
from recovery.judgement.documented import NOT_LISTED, TASK_STATUSES
from recovery.judgement.readers import members
from recovery.judgement.readers.conclude import begin, by_contract, conclude
from recovery.judgement.readers.mcp import of_tool_result
from recovery.judgement.reading import ObservationInvalid, Reading
from recovery.judgement.waits import wait_in

KIND = "mcp_task"
_KNOWN = members.COMMON | {"task", "progress", "protocol_version", "tool"}


def read(
    observation: Mapping[str, Any], *, contract: Contract, earlier: Sequence[AttemptFacts], now: datetime
) -> Reading:
    """Reads an `mcp_task` observation.

    Raises:
        ObservationInvalid: no task, or a member of the wrong type.
    """
    task = members.mapping(observation, "task")
    if not task:
        raise ObservationInvalid("task", "a task has at least an id and a status.")
    status = members.text(task, "status", inside="task.") or ""
    message = members.text(task, "statusMessage", inside="task.")
    result = members.mapping(task, "result", inside="task.")
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
    if status == "completed" and result:
        return of_tool_result(result, seen)
    seen = replace(seen, wait=wait_in(task), quoted=(message[:300],) if message else ())
    context = Context.answer(body=dict(task), error=task.get("error"), speaker=seen.speaker, phase=seen.phase)
    return by_contract(context, seen) or conclude(TASK_STATUSES.get(status, NOT_LISTED), seen)
