"""What an observation leaves behind to ask by later."""

from datetime import UTC, datetime
from typing import Any

import pytest

from ledger.rules.contract import parse_contract
from ledger.rules.vocabulary import Effect
from recovery.judgement.read import read_observation

NOW = datetime(2026, 11, 30, 10, tzinfo=UTC)


def receipt(observation: dict[str, Any], **members: str) -> tuple[Effect, dict[str, Any]]:
    contract = parse_contract(
        {"contract": "t", "owner": "o", "effect": "write", "success": "status == 201", "receipt": members}
    )
    reading = read_observation(observation, contract=contract, earlier=(), now=NOW)
    return reading.effect, dict(reading.receipt)


ACCEPTED = {"kind": "http", "status": 202, "headers": {"Location": "/operations/7"}, "body": {"state": "running"}}
LOST = {"kind": "exception", "exception": "OperationalError", "phase": "await", "bytes_sent": 40}


@pytest.mark.parametrize(
    ("observation", "members", "effect", "kept", "why"),
    [
        (
            {"kind": "http", "status": 201, "headers": {}, "body": {"id": "T-1"}},
            {"id": "body.id"},
            Effect.APPLIED,
            {"id": "T-1"},
            "a proved success shows what it made",
        ),
        (
            ACCEPTED,
            {"at": "headers['location']", "id": "body.id"},
            Effect.PENDING,
            {"at": "/operations/7"},
            "work that runs is asked by its address",
        ),
        (
            {**ACCEPTED, "body": '{"id": "O-7"}', "headers": {"content-type": "application/json"}},
            {"id": "body.id"},
            Effect.PENDING,
            {"id": "O-7"},
            "a body that came as text is read",
        ),
        (
            {"kind": "mcp", "result": {"resultType": "task", "taskId": "k-1", "status": "working"}},
            {"task": "body.taskId"},
            Effect.PENDING,
            {"task": "k-1"},
            "a task of 2026-07-28 is asked by its id",
        ),
        (
            {"kind": "mcp", "result": {"task": {"taskId": "k-1", "status": "working"}}},
            {"task": "body.task.taskId"},
            Effect.PENDING,
            {"task": "k-1"},
            "so is one of 2025-11-25",
        ),
        (
            {"kind": "mcp_task", "task": {"taskId": "k-1", "status": "working"}},
            {"task": "body.taskId"},
            Effect.PENDING,
            {"task": "k-1"},
            "told by a poll",
        ),
        (
            {"kind": "lro", "status": 200, "operation": {"name": "operations/7", "done": False}},
            {"operation": "body.name"},
            Effect.PENDING,
            {"operation": "operations/7"},
            "likewise",
        ),
        (
            {"kind": "http", "status": 500, "headers": {}, "body": {"id": "err-1"}},
            {"id": "body.id"},
            Effect.UNKNOWN,
            {},
            "the id in an error names the error",
        ),
        (
            {"kind": "http", "status": 422, "headers": {}, "body": {"id": "err-1"}},
            {"id": "body.id"},
            Effect.NONE,
            {},
            "the id in a refusal likewise",
        ),
        (
            {**LOST, "request": {"xact_id": "771"}},
            {"xact": "request.xact_id", "id": "body.id"},
            Effect.UNKNOWN,
            {"xact": "771"},
            "what the harness knew before it sent is not lost with the answer",
        ),
        (
            {**LOST, "request": {"xact_id": 771}},
            {"xact": "request.xact_id"},
            Effect.UNKNOWN,
            {"xact": 771},
            "as a number too",
        ),
        (LOST, {"xact": "request.xact_id"}, Effect.UNKNOWN, {}, "it did not say"),
        ({**LOST, "request": {"xact_id": True}}, {"xact": "request.xact_id"}, Effect.UNKNOWN, {}, "no handle"),
        ({**LOST, "request": {"xact_id": "7" * 3_000}}, {"xact": "request.xact_id"}, Effect.UNKNOWN, {}, "too long"),
        (
            {"kind": "http", "status": 201, "headers": {}, "body": {"id": "T-1"}, "request": {"call": "c-1"}},
            {"id": "body.id", "call": "request.call"},
            Effect.APPLIED,
            {"id": "T-1", "call": "c-1"},
            "both",
        ),
        (
            {"kind": "lro", "operation": {"status": "running"}, "request": {"xact_id": "771"}},
            {"xact": "request.xact_id"},
            Effect.PENDING,
            {"xact": "771"},
            "told before the work ends, so that it outlives the harness",
        ),
    ],
)
def test_what_is_kept(
    observation: dict[str, Any], members: dict[str, str], effect: Effect, kept: dict[str, Any], why: str
) -> None:
    assert receipt(observation, **members) == (effect, kept), why
