"""What the result of an MCP tool call proves, and what a task says of it: a row a signal, with its reason."""

import json

import pytest
from stated import KEYED, NATURAL, READ, WRITE, answer, broke, judged

from recovery.judgement.reading import ObservationInvalid

UNKNOWN = ("unknown_outcome", "unknown", "reconcile")
CHECK = ("verification", "unknown", "verify")


def tool(result, /, **more):
    return {"kind": "mcp", "result": result, **more}


def said(*texts, failed=False, **more):
    return {"isError": failed, "content": [{"type": "text", "text": text} for text in texts], **more}


def made(structured, *, failed=False):
    return {"isError": failed, "content": [], "structuredContent": structured}


ROWS = [
    (tool(made({"id": "t-1"})), ("success", "applied", "done"), "a structured result with nothing against success"),
    (tool(said("Created t-1")), CHECK, "text proves no success"),
    (tool(said("Error: no such element")), CHECK, "and no failure"),
    (tool(said(json.dumps({"id": "t-1"}))), ("success", "applied", "done"), "a result that is sent as JSON text"),
    (tool(said(json.dumps({"success": False, "code": "PERMISSION_DENIED"}))), ("authorization", "none", "authorize"),
     "likewise a refusal"),
    (tool({}), UNKNOWN, "an empty result is none"),
    (tool(made({"deleted": 0})), CHECK, "nothing was counted as done"),
    (tool(made({"saved": False})), CHECK, "it denies it"),
    (tool(made({"created": 1, "updated": 0})), ("success", "applied", "done"), "something was"),
    (tool(made({"id": None})), CHECK, "an empty place where the result should be"),
    (tool(made({"ok": True, "dryRun": True})), CHECK, "it was only tried out"),
    (tool(made({"status": "queued", "job": "j-1"})), ("success", "pending", "wait"), "taken, not finished"),
    (tool(made({"success": False, "error_type": "permission_denied"})), ("authorization", "none", "authorize"),
     "a structured denial outranks the missing flag"),
    (tool(made({"success": False, "reason": "weather"})), UNKNOWN, "an error without a documented code"),
    (tool(made({"ok": False, "error": {"code": "BAD", "class": "validation", "field": "due", "retryable": False}})),
     ("invalid_request", "none", "repair"), "an envelope inside"),
    (tool(said("request timed out", failed=True)), UNKNOWN, "an error's text proves nothing"),
    (tool(said("Invalid date", failed=True)), UNKNOWN, "not even when it sounds like a refusal"),
    (tool(said("MCP error -32602: Unknown tool: x", failed=True)), UNKNOWN, "a prefix in text licenses nothing"),
    (tool(said("Unknown tool: x", failed=True), tool_listed=False), ("not_found", "none", "repair"),
     "a tool that is not listed cannot have run"),
    (tool(said("Unknown tool: x", failed=True), tool_listed=True), UNKNOWN, "it is listed, so the text is doubtful"),
    (tool(made({"code": "RATE_LIMITED"}, failed=True)), ("transient", "none", "retry"), "a limiter's documented code"),
    (tool(made({"code": "INTERNAL_ERROR"}, failed=True)), UNKNOWN, "a code that does not know"),
    (tool(made({"status": "queued"}, failed=True)), UNKNOWN, "failed and queued at once"),
    (tool({"resultType": "task", "taskId": "t", "status": "working", "pollIntervalMs": 700}),
     ("success", "pending", "wait"), "2026-07-28: a handle instead of a result"),
    (tool({"task": {"taskId": "t", "status": "working", "pollInterval": 700}}), ("success", "pending", "wait"),
     "2025-11-25: the same inside task"),
    (tool({"resultType": "input_required", "inputRequests": {}}), ("authorization", "none", "authorize"),
     "it goes on with a person's answer"),
    (tool({"resultType": "later", **made({"id": 1})}), UNKNOWN, "an unknown result type is invalid"),
    (tool({"resultType": "complete", **made({"id": 1})}), ("success", "applied", "done"), "the usual one"),
]  # fmt: skip


@pytest.mark.parametrize(("seen", "expected", "why"), ROWS)
def test_a_write(seen, expected, why):
    judgement = judged(seen)
    decision = judgement.decision
    assert (decision.failure_class, judgement.reading.effect, decision.recovery_action) == expected, why


READS = [
    (tool(said("the weather is fine")), "success", "done", "text is an answer to a read"),
    (tool(said("timed out", failed=True)), "transient", "retry", "no effect to lose"),
    (tool(said("MCP error -32602: Invalid arguments for tool x", failed=True)), "invalid_request", "repair",
     "the SDK's own number: the same call would fail again"),
    (tool(made({"partial": True, "items": [1]})), "partial", "retry", "incomplete, and harmless to repeat"),
]  # fmt: skip


@pytest.mark.parametrize(("seen", "failure", "action", "why"), READS)
def test_a_read(seen, failure, action, why):
    decision = judged(seen, contract=READ).decision
    assert (decision.failure_class, decision.recovery_action) == (failure, action), why


def test_the_pace_that_a_task_asks_for():
    seen = tool({"resultType": "task", "taskId": "t", "status": "working", "pollIntervalMs": 700})
    assert judged(seen).decision.retry_after_ms == 700


def test_a_success_rule_makes_text_count_and_a_failure_inside_keeps_it_from_counting():
    trusted = {**WRITE, "success": "body.isError == false"}
    assert judged(tool(said("Created t-1")), contract=trusted).decision.recovery_action == "done"
    by_member = {**WRITE, "success": "body.kind == 'made'"}
    assert judged(tool(made({"kind": "made", "error": "x"})), contract=by_member).effect == "unknown"


def task(status, /, **more):
    return {"kind": "mcp_task", "task": {"taskId": "t-1", "status": status, **more}}


TASKS = [
    (task("working", pollInterval=1000), ("success", "pending", "wait"), "it runs"),
    (task("input_required"), ("authorization", "pending", "authorize"), "a person has to answer"),
    (task("completed", result=made({"id": 1})), ("success", "applied", "done"), "its result says so"),
    (task("completed", result=said("no", failed=True)), UNKNOWN, "2026-07-28: completed with an error inside"),
    (task("completed"), CHECK, "2025-11-25: the result has to be fetched first"),
    (task("failed"), UNKNOWN, "it may have acted before it failed"),
    (task("failed", error={"code": -32602}), UNKNOWN, "it had begun"),
    (task("cancelled"), UNKNOWN, "cancelling undoes nothing"),
    (task("cancelled", progress="0/10"), UNKNOWN, "progress proves nothing"),
    (task("sleeping"), UNKNOWN, "a status that does not exist"),
]  # fmt: skip


@pytest.mark.parametrize(("seen", "expected", "why"), TASKS)
def test_a_task(seen, expected, why):
    judgement = judged(seen)
    decision = judgement.decision
    assert (decision.failure_class, judgement.reading.effect, decision.recovery_action) == expected, why


ACCEPTED = tool({"resultType": "task", "taskId": "t-1", "status": "working"})
FOLLOWED = [
    (task("completed", result=made({"id": 1})), [ACCEPTED], "applied", "done", "the poll speaks of what was pending"),
    (task("failed"), [ACCEPTED], "unknown", "reconcile", "pending no longer, and nobody knows what it left"),
    (task("working"), [ACCEPTED], "pending", "wait", "still"),
    (task("completed", result=made({"code": "RATE_LIMITED"}, failed=True)), [broke(phase="await")], "unknown",
     "reconcile", "a refusal closes no attempt but its own"),
]  # fmt: skip


@pytest.mark.parametrize(("seen", "history", "effect", "action", "why"), FOLLOWED)
def test_a_poll_speaks_of_the_attempt_that_is_pending(seen, history, effect, action, why):
    decision = judged(seen, history=history).decision
    assert (decision.effect_status, decision.recovery_action) == (effect, action), why


def test_a_question_that_comes_back_after_a_lost_answer_closes_nothing():
    asks = tool({"resultType": "input_required", "requestState": "x"})
    assert judged(asks, history=[broke(phase="await")]).decision.effect_status == "unknown"


def test_a_repeat_with_the_same_key_stays_licensed_after_a_tools_error():
    sent = {"request": {"idempotency_key": "k"}}
    seen = {**tool(said("upstream failed", failed=True)), **sent}
    assert judged(seen, contract=KEYED).decision.licence == "key_in_window"
    assert judged(tool(said("x", failed=True)), contract=NATURAL).decision.licence == "natural_idempotency"
    assert judged(answer(500), contract=WRITE).decision.licence is None


@pytest.mark.parametrize(("seen", "member"), [
    (tool([]), "result"), (tool({"isError": "no"}), "result.isError"), (tool({}, tool_listed=1), "tool_listed"),
    (tool({}, tool=3), "tool"), ({"kind": "mcp_task"}, "task"), ({"kind": "mcp_task", "task": {"status": 1}}, "task.status"),
])  # fmt: skip
def test_a_wrong_shape_names_the_member(seen, member):
    with pytest.raises(ObservationInvalid) as caught:
        judged(seen)
    assert caught.value.field == member
