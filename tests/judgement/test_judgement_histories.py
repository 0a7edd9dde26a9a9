"""What a history of one operation does to a decision: a row a story, with its reason."""

import pytest
from stated import KEYED, NATURAL, WRITE, answer, broke, judged

LOST = broke(phase="await")
CANCELLED = broke("CancelledError", cancelled_by="host")


def tool(structured, **more):
    return {"kind": "mcp", "result": {"isError": False, "structuredContent": structured}, **more}


def found(matches, way="by_key"):
    return {"kind": "lookup", "lookup": way, "exact_key": True, "matches": matches, "complete": True}


def check(expected, seen):
    return {"kind": "verification", "checks": [{"path": "value", "expected": expected, "seen": seen}]}


MADE_UP = {"kind": "mcp", "synthetic": True, "result": {"isError": True, "content": []}}
LOOKS_DONE = {"kind": "http", "synthetic": True, "status": 201, "body": {"id": 1}}

STORIES = [
    ([CANCELLED], {"kind": "lro", "operation": {"done": True, "response": {"id": 1}}}, WRITE, "applied", "done",
     "an owner's late answer to the cancelled call is kept, and wins"),
    ([MADE_UP], {"kind": "lro", "operation": {"done": True, "response": {"id": 1}}}, WRITE, "applied", "done",
     "a placeholder of the harness does not stand against a receipt, in whatever order they came"),
    ([], MADE_UP, WRITE, "unknown", "reconcile", "a made-up failure is no refusal"),
    ([], LOOKS_DONE, WRITE, "unknown", "reconcile", "nor is a made-up success one"),
    ([MADE_UP], answer(400), WRITE, "unknown", "reconcile", "the call behind the placeholder is still open"),
    ([answer(201, {"id": 1})], LOST, WRITE, "applied", "done", "what was proved is not unsaid by a later silence"),
    ([], answer(201, {"id": 2}, network_attempts=2), WRITE, "applied", "reconcile",
     "an SDK sent it twice without a key: perhaps two were made"),
    ([], answer(201, {"id": 2}, network_attempts=2), NATURAL, "applied", "done", "twice is once when repeats are harmless"),
    ([tool({"id": 1})], found(2), WRITE, "applied", "reconcile", "the owner holds two of what was to be made once"),
    ([answer(503)], answer(202), WRITE, "unknown", "reconcile", "the first was never proved absent"),
    ([answer(429), answer(429)], answer(202), WRITE, "pending", "wait", "both were refused before acting"),
    ([LOST], found(1), WRITE, "applied", "done", "found by its key: the loss was of the answer alone"),
    ([LOST], found(0, "search"), WRITE, "unknown", "reconcile", "an index shows no absence"),
    ([answer(402, {"error": {"code": "card_declined"}})], found(1), WRITE, "applied", "reconcile",
     "the owner refused it and holds it: two words, both are kept"),
    ([tool({"id": 1})], check(5.0, 4.2), WRITE, "applied", "reconcile", "another value came to stand there"),
    ([tool({"id": 1})], check("new", "new"), WRITE, "applied", "done", "and it was checked"),
    ([LOST], check("new", "new"), WRITE, "unknown", "reconcile", "a check of the state does not say who made it"),
    ([broke(phase="connect")], LOST, WRITE, "unknown", "reconcile", "the first never left, the second may have"),
    ([LOST], broke(phase="connect"), WRITE, "unknown", "reconcile", "a repeat that never left says nothing of the first"),
    ([broke(phase="await", request={"idempotency_key": "k"})], answer(429, request={"idempotency_key": "k"}), KEYED,
     "unknown", "retry", "the same key asks the same question again"),
    ([broke(phase="await", request={"idempotency_key": "k"})],
     answer(409, {"code": "idempotency_key_in_use"}, request={"idempotency_key": "k"}), KEYED, "pending", "wait",
     "the owner says that our first is running"),
    ([broke(phase="await", request={"idempotency_key": "k"})],
     answer(412, headers={"Repeatability-Result": "rejected"}, request={"idempotency_key": "k"}), KEYED,
     "unknown", "reconcile", "the owner no longer remembers the key, so it licenses nothing"),
    ([broke(phase="await", request={"idempotency_key": "k"}),
      answer(400, {"code": "idempotency_key_expired"}, request={"idempotency_key": "k"})],
     broke(phase="await", request={"idempotency_key": "k"}), KEYED, "unknown", "reconcile",
     "nor does it later, however recent it is"),
    ([answer(400, {"__type": "OutOfCapacity"}, request={"idempotency_key": "k"})],
     answer(400, {"__type": "IdempotentParameterMismatch"}, request={"idempotency_key": "k"}), KEYED, "none", "repair",
     "the first was refused, so the mismatch is our changed request"),
    ([LOST], answer(400, {"__type": "IdempotentParameterMismatch"}), WRITE, "unknown", "reconcile",
     "the owner knows the key from a request of ours that may have worked"),
]  # fmt: skip


@pytest.mark.parametrize(("history", "seen", "contract", "effect", "action", "why"), STORIES)
def test_a_story(history, seen, contract, effect, action, why):
    decision = judged(seen, contract=contract, history=history).decision
    assert (decision.effect_status, decision.recovery_action) == (effect, action), why


@pytest.mark.parametrize("order", [[LOST, answer(201, {"id": 1})], [answer(201, {"id": 1}), LOST]])
def test_the_order_of_arrival_does_not_matter_to_what_is_proved(order):
    assert judged(order[1], history=order[:1]).effect == "applied"
