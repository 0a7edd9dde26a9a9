"""What did a read bring, as far as its harness reported it?

| the operation                            | stop_reason |
| ---------------------------------------- | ----------- |
| is to be read again, or is still running | null        |
| was answered                             | answered    |
| ended for want of repeats or requests    | budget      |
| ended with its time                      | deadline    |
| was refused, or its target is not there  | refused     |

A component tells the tool's own word only where that is one that may pass (`timeout`). What was refused and what is not
there are both `unavailable`.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from ledger.queries.facts import Held
from ledger.queries.run import ReadReport, read_reports
from ledger.rules.read_budget import Stop
from ledger.rules.reads import Part, ReadResult, not_answered, seen_so_far, weigh_result, whole
from ledger.rules.stored import decision_from
from ledger.rules.vocabulary import Action, FailureClass
from recovery.api.envelope import rfc3339
from recovery.judgement.codes import Code

_ENDED: Final = MappingProxyType(
    {
        Code.RETRIES_ENDED.value: Stop.BUDGET,
        Code.REPAIRS_ENDED.value: Stop.BUDGET,
        Code.DEADLINE_PASSED.value: Stop.DEADLINE,
    }
)

_GOES_ON: Final = frozenset({Action.RETRY, Action.WAIT, Action.RECONCILE, Action.VERIFY})


def result_of(held: Held) -> dict[str, Any] | None:
    """The `result` of an operation's data: everything that its reports showed, the last of each part. None for a
    write, and for a read of which nothing was reported yet. One query; never for lists."""
    if not held.facts.is_read or all(attempt.closed_at is None for attempt in held.facts.attempts):
        return None
    reports = read_reports(ids=[held.id])
    if not reports:
        return None
    parts = seen_so_far([_dated(report) for report in reports])
    return {
        "outcome": whole(parts),
        "stop_reason": _stop(held),
        "components": [_component(part) for part in parts],
    }


def weighed(report: ReadReport) -> ReadResult:
    """What a reported read entitles to. Whatever kept it from being answered looks alike from here on."""
    body = _body(report.observation) if report.observation is not None else None
    if body is None:
        said = "unavailable" if report.failure_class is FailureClass.TRANSIENT else "refused"
        return not_answered(tool=report.tool, arguments=report.arguments, said=said)
    if not isinstance(body, Mapping) or not _is_read_result(body):
        # A plain answer names no source and no time of reading, so it is seen and not established.
        body = {"outcome": "ok", **body} if _is_page(body) else {"outcome": "ok", "value": body}
    return weigh_result(body, tool=report.tool, arguments=report.arguments)


def _dated(report: ReadReport) -> ReadResult:
    """The result with the time of the report where the answer names none: when it was read at the latest. That
    establishes nothing without a source."""
    result = weighed(report)
    return replace(
        result, parts=tuple(replace(part, observed_at=part.observed_at or report.at) for part in result.parts)
    )


def _component(part: Part) -> dict[str, Any]:
    value: Any = dict(part.values) | dict.fromkeys(part.unavailable) if part.values else None
    if isinstance(value, dict) and list(value) == ["value"]:
        value = value["value"]
    return {
        "name": part.name,
        # The tool's own word only where it tells nothing of what is protected and what is absent.
        "outcome": part.said if part.may_pass else part.outcome,
        "value": value,
        "source_id": part.source_id,
        "revision": part.revision,
        "event_at": rfc3339(part.event_at),
        "observed_at": rfc3339(part.observed_at),
    }


def _stop(held: Held) -> Stop | None:
    decision = decision_from(held.decision)
    if decision is None or decision.recovery_action in _GOES_ON:
        return None
    if decision.recovery_action is Action.DONE:
        return Stop.ANSWERED
    return _ENDED.get(decision.code, Stop.REFUSED)


def _body(observation: Mapping[str, Any]) -> Any:
    """The result that an observation carries; None when it carries none, or a refusal."""
    kind = observation.get("kind")
    if kind == "http":
        status = observation.get("status")
        return observation.get("body") if isinstance(status, int) and 200 <= status < 300 else None
    if kind == "mcp":
        result = observation.get("result")
        answered = isinstance(result, Mapping) and result.get("isError") is not True
        return result.get("structuredContent") if answered and isinstance(result, Mapping) else None
    if kind != "envelope":
        return None
    body = observation.get("body")
    if not isinstance(body, Mapping) or body.get("ok") is False or "error" in body or "error_class" in body:
        return None
    return body.get("data") if body.get("ok") is True else body


def _is_read_result(body: Mapping[str, Any]) -> bool:
    told = isinstance(body.get("outcome"), str) or isinstance(body.get("components"), list)
    return told or any(isinstance(each, Mapping) and isinstance(each.get("outcome"), str) for each in body.values())


def _is_page(body: Any) -> bool:
    return isinstance(body, Mapping) and isinstance(body.get("items"), list) and "next_cursor" in body
