"""What a JSON-RPC error proves: a row a signal, with its reason."""

import pytest
from stated import READ, WRITE, broke, judged

from recovery.judgement.reading import ObservationInvalid

UNKNOWN = ("unknown_outcome", "unknown", "reconcile")
REPAIR = ("invalid_request", "none", "repair")


def rpc(code, message="", /, *, data=None, **more):
    error = {"code": code, "message": message} | ({} if data is None else {"data": data})
    return {"kind": "jsonrpc", "error": error, **more}


ROWS = [
    (rpc(-32602, "Unknown tool", raised_by="server"), REPAIR, "the peer refused the arguments"),
    (rpc(-32602, "Invalid params"), REPAIR, "nobody said that another raised it"),
    (rpc(-32600), REPAIR, "no valid request"),
    (rpc(-32700), REPAIR, "not even readable"),
    (rpc(-32601), ("not_found", "none", "repair"), "no such method"),
    (rpc(-32020), REPAIR, "MCP 2026-07-28: refused before it ran"),
    (rpc(-32002), ("not_found", "none", "repair"), "the old number for a resource that is not there"),
    (rpc(-32042), ("authorization", "none", "authorize"), "a person has to open a page first"),
    (rpc(-32603), UNKNOWN, "an internal error may come after the effect"),
    (rpc(-32000, "Connection closed"), UNKNOWN, "no fixed meaning"),
    (rpc(-32010, raised_by="server"), UNKNOWN, "the old range: no meaning may be assumed"),
    (rpc(-1), UNKNOWN, "a number of the server's own"),
    (rpc(-32001, "Request timed out", raised_by="client_sdk"), UNKNOWN, "made by our own side"),
    (rpc(-32602, "bad output", raised_by="client_sdk"), UNKNOWN, "our SDK checks results too, after the call"),
    (rpc(-32000, raised_by="client_sdk", phase="connect"), ("transient", "none", "retry"), "nothing had left"),
    (rpc(-32602, raised_by="proxy"), UNKNOWN, "a proxy wraps whatever went wrong behind it"),
    (rpc(-32602, phase="await"), UNKNOWN, "there was no answer, so the number is ours"),
    (rpc(-32602, "MCP error -32602: MCP error -32001: Request timed out"), UNKNOWN, "a timeout is wrapped in it"),
    (rpc(-32602, "MCP error -32602: Invalid arguments"), REPAIR, "the same number, wrapped once"),
    (rpc(-32602, "Output validation error: no structured content"), UNKNOWN, "the tool had run by then"),
    (rpc(-32602, request={"method": "tasks/get"}), UNKNOWN, "the task is not known, which says nothing of the call"),
    (rpc(-32005, data={"notProcessed": True}), ("transient", "none", "retry"), "the peer guarantees it"),
    (rpc(-32005, data={"notProcessed": True}, raised_by="client_sdk"), UNKNOWN, "our own side cannot"),
]  # fmt: skip


@pytest.mark.parametrize(("seen", "expected", "why"), ROWS)
def test_a_write(seen, expected, why):
    judgement = judged(seen)
    decision = judgement.decision
    assert (decision.failure_class, judgement.reading.effect, decision.recovery_action) == expected, why


def test_a_read_is_asked_again():
    assert judged(rpc(-32603), contract=READ).decision.recovery_action == "retry"
    assert judged(rpc(-32602), contract=READ).decision.recovery_action == "repair"


def test_a_refusal_closes_no_earlier_attempt():
    assert judged(rpc(-32602), history=[broke(phase="await")]).decision.effect_status == "unknown"


def test_the_wait_in_the_data():
    assert judged(rpc(-32005, data={"retryAfterMs": 40, "notProcessed": True})).decision.retry_after_ms == 40


def test_the_numbers_meaning_can_be_the_contracts():
    rule = {"when": "code == -32023", "class": "transient", "effect": "none"}
    assert judged(rpc(-32023), contract={**WRITE, "errors": [rule]}).decision.recovery_action == "retry"


@pytest.mark.parametrize(("seen", "member"), [
    ({"kind": "jsonrpc"}, "error"), (rpc("x"), "error.code"), (rpc(1, raised_by="moon"), "raised_by"),
    (rpc(1, phase="later"), "phase"), (rpc(1, 5), "error.message"), (rpc(1, request={"method": 5}), "request.method"),
])  # fmt: skip
def test_a_wrong_shape_names_the_member(seen, member):
    with pytest.raises(ObservationInvalid) as caught:
        judged(seen)
    assert caught.value.field == member
