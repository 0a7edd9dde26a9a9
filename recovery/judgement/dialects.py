"""How is a decision told, in each dialect that harnesses speak?

The effect is told before the class: while it is open nobody may read the answer as leave to try again.

| the decision holds                              | five-class    | code              | four-code             |
| ----------------------------------------------- | ------------- | ----------------- | --------------------- |
| done                                            | `ok: true`    |                   | `ok: true`            |
| effect unknown                                  | fatal         | OUTCOME_UNKNOWN   | OUTCOME_UNKNOWN: stop |
| effect pending                                  | fatal         | PENDING           | PENDING: stop         |
| effect or class partial                         | fatal         | PARTIAL           | PARTIAL: stop         |
| class verification                              | fatal         | UNVERIFIED        | UNVERIFIED: stop      |
| transient, and a repeat is licensed (or a read) | transient     | the decision's    | TRANSIENT: retry      |
| transient, and Ascertain itself sends it again  | fatal         | PENDING           | PENDING: stop         |
| invalid_request                                 | validation    | the decision's    | VALIDATION: repair    |
| authorization                                   | permission    | the decision's    | PERMISSION: authorize |
| not_found                                       | business_rule | the decision's    | NOT_FOUND: replace    |
| business_rule, state_conflict                   | business_rule | the decision's    | the decision's: stop  |
| fatal, or a transient that is not repeated      | fatal         | the decision's    | the decision's: stop  |
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from ledger.rules.decision import Decision
from ledger.rules.vocabulary import Action, Effect, FailureClass, Licence


class Dialect(StrEnum):
    """A way to tell a decision; `?dialect=` on the API."""

    FIVE_CLASS = "five_class"
    FOUR_CODE = "four_code"
    RECORD = "record"
    MCP = "mcp"


OUTCOME_UNKNOWN: Final = "OUTCOME_UNKNOWN"

_OPEN_CODES: Final[Mapping[Effect, str]] = {
    Effect.UNKNOWN: OUTCOME_UNKNOWN,
    Effect.PENDING: "PENDING",
    Effect.PARTIAL: "PARTIAL",
}
_WHAT: Final[Mapping[Effect, str]] = {
    Effect.UNKNOWN: "Whether this happened is unknown",
    Effect.PENDING: "This is accepted and still running",
    Effect.PARTIAL: "Only a part of this happened",
}
_FIVE: Final[Mapping[FailureClass, str]] = {
    FailureClass.INVALID_REQUEST: "validation",
    FailureClass.AUTHORIZATION: "permission",
    FailureClass.BUSINESS_RULE: "business_rule",
    FailureClass.STATE_CONFLICT: "business_rule",
    FailureClass.NOT_FOUND: "business_rule",
}
_FOUR: Final[Mapping[str, str]] = {
    "transient": "TRANSIENT",
    "validation": "VALIDATION",
    "permission": "PERMISSION",
}


def for_agent(
    decision: Decision,
    *,
    operation_id: str,
    ask_again_at: datetime | None,
    dialect: Dialect = Dialect.FIVE_CLASS,
    attempt_id: str | None = None,
    evidence_ref: str | None = None,
    trace_id: str | None = None,
    data: Any = None,
) -> dict[str, Any]:
    """What an agent is told, as JSON-ready values. Only our own words, the decision's codes and typed values.

    `data` is the result that goes with a decision of `done`; `ask_again_at` is when a harness may ask for this
    operation again.
    """
    if dialect is Dialect.RECORD:
        return record(decision, operation_id=operation_id, attempt_id=attempt_id, evidence_ref=evidence_ref)
    told = _envelope(decision, operation_id=operation_id, ask_again_at=ask_again_at, data=data)
    if dialect is Dialect.FOUR_CODE:
        return _four_code(told, decision, trace_id=trace_id)
    if dialect is Dialect.MCP:
        text = "Done." if told["ok"] else f"{told['error']['message']} {told['error']['hint']}"
        return {"isError": not told["ok"], "content": [{"type": "text", "text": text}], "structuredContent": told}
    return told


def five_classes() -> frozenset[str]:
    """Every class of the five-class envelope."""
    return frozenset({"fatal", *_FIVE.values(), *_FOUR})


def open_codes() -> frozenset[str]:
    """The codes that say that it may have happened, or is not settled."""
    return frozenset({*_OPEN_CODES.values(), "UNVERIFIED"})


def record(
    decision: Decision, *, operation_id: str, attempt_id: str | None, evidence_ref: str | None = None
) -> dict[str, Any]:
    """The attempt record of a decision, as JSON-ready values."""
    return {
        "operation_id": operation_id,
        "attempt_id": attempt_id,
        "error_class": decision.code.lower(),
        "effect_status": decision.effect_status.value,
        "safe_message": decision.message,
        "recovery_action": decision.recovery_action.value,
        "evidence_ref": evidence_ref,
    }


def _envelope(decision: Decision, *, operation_id: str, ask_again_at: datetime | None, data: Any) -> dict[str, Any]:
    if decision.recovery_action is Action.DONE:
        return {"ok": True, "data": data}
    five = _five_class(decision)
    return {
        "ok": False,
        "error": {
            "code": _code(decision),
            "class": five,
            "retryable": five == "transient",
            "retry_after_ms": decision.retry_after_ms,
            "field": decision.field,
            "hint": decision.hint,
            "message": _message(decision, operation_id=operation_id, ask_again_at=ask_again_at),
        },
    }


def _open(decision: Decision) -> bool:
    return decision.effect_status in _OPEN_CODES


def _five_class(decision: Decision) -> str:
    if _open(decision):
        return "fatal"
    if decision.failure_class is FailureClass.TRANSIENT:
        # A read needs no licence; a write's retry always names one.
        return "transient" if decision.recovery_action is Action.RETRY else "fatal"
    return _FIVE.get(decision.failure_class, "fatal")


def _code(decision: Decision) -> str:
    if _open(decision):
        return _OPEN_CODES[decision.effect_status]
    if decision.failure_class is FailureClass.VERIFICATION:
        return "UNVERIFIED"
    if decision.failure_class is FailureClass.TRANSIENT and decision.recovery_action is Action.WAIT:
        return "PENDING"
    return "PARTIAL" if decision.failure_class is FailureClass.PARTIAL else decision.code


def _message(decision: Decision, *, operation_id: str, ask_again_at: datetime | None) -> str:
    """The decision's sentence; for an open effect: that it is open, the id, not to repeat it (unless two people
    accepted that), and when to ask."""
    if not _open(decision) or decision.licence is Licence.ACCEPTED_DUPLICATE_RISK:
        return decision.message
    what = _WHAT[decision.effect_status]
    when = f"at {_written(ask_again_at)}" if ask_again_at is not None else "later"
    which = f" (operation {operation_id})" if operation_id else ""
    return f"{what}{which}. Do not repeat the call. Ask again for this operation {when}."


def _written(at: datetime) -> str:
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


def _four_code(told: dict[str, Any], decision: Decision, *, trace_id: str | None) -> dict[str, Any]:
    if told["ok"]:
        return told
    error = told["error"]
    code = _FOUR.get(error["class"], error["code"])
    if error["class"] == "business_rule" and decision.failure_class is FailureClass.NOT_FOUND:
        code = "NOT_FOUND"
    answer = {
        "code": code,
        "message": error["message"],
        "retryable": error["retryable"],
        "suggestion": error["hint"],
        "traceId": trace_id or "",
    }
    if error["field"] is not None:
        answer["field"] = error["field"]
    if error["retry_after_ms"] is not None:
        answer["retryAfterMs"] = error["retry_after_ms"]
    return answer
