"""What a long-running operation says of its work: a row a signal, with its reason."""

import pytest
from stated import BATCH, READ, answer, broke, judged

from recovery.judgement.reading import ObservationInvalid

UNKNOWN = ("unknown_outcome", "unknown", "reconcile")
RUNNING = ("success", "pending", "wait")
DONE = ("success", "applied", "done")
CHECK = ("verification", "unknown", "verify")


def poll(operation=None, /, **more):
    return {"kind": "lro", **({} if operation is None else {"operation": operation}), **more}


def resource(generation, observed, *conditions):
    held = [{"type": kind, "status": "True"} for kind in conditions]
    return {"metadata": {"generation": generation}, "status": {"observedGeneration": observed, "conditions": held}}


ROWS = [
    (poll({"name": "o/1", "done": False}), RUNNING, "AIP-151: not done"),
    (poll({"name": "o/1", "done": False}, poll_limit_reached=True), RUNNING, "our patience ends nothing"),
    (poll({"name": "o/1", "done": True, "response": {"id": 1}}), DONE, "AIP-151: done, with a response"),
    (poll({"name": "o/1", "done": True, "error": {"code": 3}}), UNKNOWN, "it had begun"),
    (poll({"name": "o/1", "done": True, "error": {"code": 3}, "response": {}}), UNKNOWN, "both at once"),
    (poll({"name": "o/1", "done": True}), CHECK, "neither error nor response"),
    (poll({"status": "Running"}, status=200), RUNNING, "Azure"),
    (poll({"status": "NotStarted"}, status=200), RUNNING, "Azure"),
    (poll({"status": "Succeeded"}, status=200), DONE, "Azure"),
    (poll({"status": "Failed", "error": {"code": "X"}}, status=200), UNKNOWN, "200 is the poll's, Failed the work's"),
    (poll({"status": "Canceled"}, status=200), UNKNOWN, "cancelled is not undone"),
    (poll({"status": "Succeeded", "error": {"code": "X"}}), UNKNOWN, "both at once"),
    (poll({"properties": {"provisioningState": "Creating"}}), RUNNING, "Azure, on the resource"),
    (poll({"status": "Succeeded", "properties": {"provisioningState": "Creating"}}), RUNNING, "the less finished word"),
    (poll({"StackStatus": "CREATE_COMPLETE"}), DONE, "AWS: a state's own word"),
    (poll({"StackStatus": "UPDATE_ROLLBACK_COMPLETE"}), UNKNOWN, "rolled back, perhaps not all of it"),
    (poll({"status": "COMPLETED_WITH_ERRORS"}), UNKNOWN, "some of it failed"),
    (poll({"state": "zombie"}), UNKNOWN, "a word that nobody documents"),
    (poll({"state": "zombie"}, status=200), UNKNOWN, "and 200 does not explain it"),
    (poll({"id": "j-1"}, status=200), CHECK, "no state at all"),
    (poll(status=202), RUNNING, "RFC 9110 15.3.3"),
    (poll(status=429, headers={"Retry-After": "7"}), RUNNING, "the asking was refused; the work goes on"),
    (poll(status=500), RUNNING, "likewise"),
    (poll("<html>", status=502), RUNNING, "likewise"),
    (poll(status=404), UNKNOWN, "no such work, or not for us to see"),
    (poll(status=403), UNKNOWN, "likewise"),
    (poll(resource(3, 2, "Ready")), RUNNING, "Kubernetes: it speaks of the generation before"),
    (poll(resource(3, 3, "Ready")), DONE, "Kubernetes"),
    (poll(resource(3, 3)), RUNNING, "Kubernetes: nothing said yet"),
    (poll(resource(3, 3, "Ready", "Stalled")), UNKNOWN, "Kubernetes: stalled"),
]  # fmt: skip


@pytest.mark.parametrize(("seen", "expected", "why"), ROWS)
def test_a_write(seen, expected, why):
    judgement = judged(seen)
    decision = judgement.decision
    assert (decision.failure_class, judgement.reading.effect, decision.recovery_action) == expected, why


def test_the_pace_that_the_owner_asks_for():
    assert judged(poll({"done": False}, headers={"Retry-After": "7"})).decision.retry_after_ms == 7_000
    assert judged(poll(status=429, headers={"Retry-After": "7"})).decision.retry_after_ms == 7_000


FOLLOWED = [
    (poll({"done": True, "response": {}}), [answer(202)], "applied", "done", "it speaks of what was pending"),
    (poll({"done": True, "error": {"code": 9}}), [answer(202)], "unknown", "reconcile", "and ends the waiting"),
    (poll({"done": True, "response": {}}), [broke(phase="await")], "applied", "done", "a late result wins"),
    (poll({"done": False}), [answer(201, {"id": 1})], "applied", "done", "a proved effect is not unsaid"),
]  # fmt: skip


@pytest.mark.parametrize(("seen", "history", "effect", "action", "why"), FOLLOWED)
def test_a_poll_speaks_of_the_attempt_that_is_pending(seen, history, effect, action, why):
    decision = judged(seen, history=history).decision
    assert (decision.effect_status, decision.recovery_action) == (effect, action), why


def test_a_read_waits_and_a_batch_is_never_done_as_a_whole():
    assert judged(poll({"done": False}), contract=READ).decision.recovery_action == "wait"
    assert judged(poll({"done": True, "response": {}}), contract=READ).decision.recovery_action == "done"
    assert judged(poll({"done": True, "response": {}}), contract=BATCH).effect == "unknown"


@pytest.mark.parametrize(("seen", "member"), [
    (poll(), "operation"), (poll([]), "operation"), (poll({}, status="x"), "status"), (poll({}, headers=[]), "headers"),
    (poll({}, poll_limit_reached="yes"), "poll_limit_reached"),
])  # fmt: skip
def test_a_wrong_shape_names_the_member(seen, member):
    with pytest.raises(ObservationInvalid) as caught:
        judged(seen)
    assert caught.value.field == member
