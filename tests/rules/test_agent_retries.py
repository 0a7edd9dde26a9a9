"""May an agent try the same intent again under another name: a row a reason."""

import pytest

from ledger.rules.agent_retries import Step, Tries, may_try_again, step_of
from ledger.rules.contract import parse_stated_contract

WRITE = {"effect": "write", "idempotency": {"guarantee": "none"}}
NEVER = {**WRITE, "budgets": {"agent_retries": 0}}
TWICE = {**WRITE, "budgets": {"agent_retries": 2}}

ROWS = [
    (WRITE, "3", 0, None, None, "the first time"),
    (WRITE, "3", 1, None, None, "the one retry that a step has"),
    (WRITE, "3", 2, None, "AGENT_RETRIES_ENDED", "a second retry"),
    (WRITE, "3", 9, None, "AGENT_RETRIES_ENDED", "and every further one"),
    (NEVER, "3", 1, None, "AGENT_RETRIES_ENDED", "the contract allows none"),
    (TWICE, "3", 2, None, None, "the contract allows two"),
    (TWICE, "3", 3, None, "AGENT_RETRIES_ENDED", "not three"),
    (WRITE, "3", 1, "op-1", "DONE_IN_THIS_STEP", "it is done: nothing is left to try"),
    (TWICE, "3", 2, "op-1", "DONE_IN_THIS_STEP", "whatever allowance is left"),
    (WRITE, None, 0, None, None, "a run without steps, for the first time"),
    (WRITE, None, 1, None, "AGENT_RETRIES_ENDED", "nobody can tell a retry from the next step"),
]  # fmt: skip


@pytest.mark.parametrize(("contract", "step", "sent", "done", "code", "why"), ROWS, ids=[row[5] for row in ROWS])
def test_may_try_again(contract, step, sent, done, code, why):
    tries = Tries(step=Step(run="run-1", step=step), sent=sent, done=done)
    refusal = may_try_again(tries=tries, contract=parse_stated_contract(contract))
    assert (refusal.code if refusal else None) == code, why
    assert refusal is None or done is None or done in refusal.sentence


STEPS = [
    (None, None, "no agent"),
    ({"name": "a"}, None, "an agent without a run"),
    ({"step": "3"}, None, "a step of no run"),
    ({"run": "r"}, Step(run="r", step=None), "a run without steps"),
    ({"run": "r", "step": "3"}, Step(run="r", step="3"), "both"),
]


@pytest.mark.parametrize(("agent", "step", "why"), STEPS)
def test_which_step(agent, step, why):
    assert step_of(agent) == step, why
