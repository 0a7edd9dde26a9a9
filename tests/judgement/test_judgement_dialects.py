"""How a decision is told."""

import json
from datetime import timedelta

import pytest
from stated import NATURAL, NOW, READ, WRITE, answer, broke, judged

from recovery.judgement.dialects import Dialect, for_agent, record

LOST = broke(phase="await", message="Please try again.")

ROWS = [
    (LOST, WRITE, "fatal", "OUTCOME_UNKNOWN", "OUTCOME_UNKNOWN", "unknown is never transient"),
    (
        LOST,
        NATURAL,
        "fatal",
        "OUTCOME_UNKNOWN",
        "OUTCOME_UNKNOWN",
        "not even with a licence: the harness asks a permit",
    ),
    (answer(202), WRITE, "fatal", "PENDING", "PENDING", "running is no failure to retry"),
    (answer(429), WRITE, "transient", "RATE_LIMITED", "TRANSIENT", "nothing happened, and a licence"),
    (LOST, READ, "transient", "TRANSPORT_TIMEOUT", "TRANSIENT", "a read"),
    (answer(400), WRITE, "validation", "INVALID_REQUEST", "VALIDATION", "repair"),
    (answer(403), WRITE, "permission", "FORBIDDEN", "PERMISSION", "authorize"),
    (answer(404), WRITE, "business_rule", "NOT_FOUND", "NOT_FOUND", "replace"),
    (answer(409), WRITE, "business_rule", "STATE_CONFLICT", "STATE_CONFLICT", "stop"),
    (answer(402), WRITE, "business_rule", "BUSINESS_RULE", "BUSINESS_RULE", "stop"),
    (answer(200, {"success": [1], "failed": [2]}), WRITE, "fatal", "PARTIAL", "PARTIAL", "item by item"),
]


@pytest.mark.parametrize(("seen", "contract", "five", "code", "four", "why"), ROWS)
def test_the_two_envelopes(seen, contract, five, code, four, why):
    decision = judged(seen, contract=contract).decision
    told = for_agent(decision, operation_id="op-1", ask_again_at=NOW)["error"]
    assert (told["class"], told["code"], told["retryable"]) == (five, code, five == "transient"), why
    other = for_agent(decision, operation_id="op-1", ask_again_at=NOW, dialect=Dialect.FOUR_CODE, trace_id="t")
    assert (other["code"], other["retryable"], other["traceId"]) == (four, five == "transient", "t"), why


def test_an_unknown_outcome_says_four_things():
    decision = judged(LOST).decision
    told = for_agent(decision, operation_id="ticket:7", ask_again_at=NOW + timedelta(seconds=30))["error"]
    assert told["message"] == (
        "Whether this happened is unknown (operation ticket:7). Do not repeat the call. "
        "Ask again for this operation at 2026-12-01T09:00:30Z."
    )
    assert "Please try again" not in json.dumps(told)


def test_done_is_ok():
    decision = judged(answer(201, {"id": 1})).decision
    assert for_agent(decision, operation_id="op-1", ask_again_at=None, data={"id": 1}) == {
        "ok": True,
        "data": {"id": 1},
    }


def test_the_attempt_record():
    decision = judged(LOST).decision
    told = record(decision, operation_id="op-1", attempt_id="attempt-01", evidence_ref="ev-1")
    assert told == {
        "operation_id": "op-1",
        "attempt_id": "attempt-01",
        "error_class": "transport_timeout",
        "effect_status": "unknown",
        "safe_message": decision.message,
        "recovery_action": "reconcile",
        "evidence_ref": "ev-1",
    }


def test_mcp_keeps_the_structure_beside_the_text():
    told = for_agent(judged(answer(403)).decision, operation_id="op-1", ask_again_at=None, dialect=Dialect.MCP)
    assert told["isError"] is True
    assert told["structuredContent"]["error"]["class"] == "permission"
    assert told["content"][0]["text"].endswith("Do not try another way around it.")
