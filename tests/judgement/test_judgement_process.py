"""What the end of a program proves: a row a signal, with its reason."""

import json

import pytest
from stated import NATURAL, READ, WRITE, judged

from recovery.judgement.reading import ObservationInvalid

UNKNOWN = ("unknown_outcome", "unknown", "reconcile")
CHECK = ("verification", "unknown", "verify")


def ran(exit_code=None, /, **more):
    return {"kind": "process", **({} if exit_code is None else {"exit_code": exit_code}), **more}


def printed(value, exit_code=0):
    return ran(exit_code, stdout=json.dumps(value))


ROWS = [
    (ran(0), CHECK, "that it ran is not that it worked"),
    (ran(0, stdout="done!"), CHECK, "what it prints is prose"),
    (ran(1, stderr="rejected"), UNKNOWN, "it may have acted before it failed"),
    (ran(None, stderr="! [rejected] main (fetch first)"), UNKNOWN, "prose, and no exit code"),
    (ran(127), UNKNOWN, "a script that got this far may have acted"),
    (ran(timed_out=True), UNKNOWN, "our clock ends nothing there"),
    (ran(0, timed_out=True), UNKNOWN, "likewise"),
    (printed({"id": 7}), ("success", "applied", "done"), "a structured result"),
    (printed({"id": 7}, 1), UNKNOWN, "a result and a failing exit code contradict each other"),
    (printed({"error": {"code": "AccessDenied"}}, 255), ("authorization", "none", "authorize"), "a documented refusal"),
    (printed({"isError": True, "content": []}), UNKNOWN, "a tool's error in spite of exit code 0"),
    (printed({"ok": False, "error": {"code": "X", "class": "permission", "retryable": False}}),
     ("authorization", "none", "authorize"), "an envelope"),
    (printed({"state": "queued"}), ("success", "pending", "wait"), "taken, not finished"),
    (ran(timed_out=True, facts={"local_sha": "ab12", "remote_sha": "ab12"}), ("success", "applied", "done"),
     "the owner holds exactly what we have"),
    (ran(1, facts={"local_sha": "ab12", "remote_sha": "cd34"}), UNKNOWN, "it does not, which proves no absence"),
    (ran(1, facts={"local_count": "3", "remote_count": "3"}), UNKNOWN, "a count is no digest"),
    (ran(1, facts={"local_sha": "", "remote_sha": ""}), UNKNOWN, "nothing was read"),
]  # fmt: skip


@pytest.mark.parametrize(("seen", "expected", "why"), ROWS)
def test_a_write(seen, expected, why):
    judgement = judged(seen)
    decision = judgement.decision
    assert (decision.failure_class, judgement.reading.effect, decision.recovery_action) == expected, why


def test_a_read_and_a_harmless_write():
    assert judged(ran(1), contract=READ).decision.recovery_action == "retry"
    assert judged(ran(0, stdout="x"), contract=READ).decision.recovery_action == "done"
    assert judged(ran(timed_out=True), contract=NATURAL).decision.licence == "natural_idempotency"


def test_a_contract_may_say_what_an_exit_code_means():
    rule = {"when": "code == 75", "class": "transient", "effect": "none"}
    assert judged(ran(75), contract={**WRITE, "errors": [rule]}).decision.recovery_action == "retry"


@pytest.mark.parametrize(("seen", "member"), [
    (ran("1"), "exit_code"), (ran(0, stdout=1), "stdout"), (ran(0, facts=[]), "facts"), (ran(0, timed_out="x"), "timed_out"),
    (ran(0, cmd=5), "cmd"),
])  # fmt: skip
def test_a_wrong_shape_names_the_member(seen, member):
    with pytest.raises(ObservationInvalid) as caught:
        judged(seen)
    assert caught.value.field == member
