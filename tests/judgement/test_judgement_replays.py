"""What an answer from an owner's memory of a key says: of its own attempt, and of the earlier ones with the same key."""

from dataclasses import replace

import pytest

from ledger.rules.attempts import running
from ledger.rules.contract import parse_contract
from ledger.rules.evidence import join_effects
from ledger.rules.vocabulary import Action, Effect, FailureClass, State
from recovery.judgement.decide import decide, decide_nobody_to_ask
from recovery.judgement.read import read_observation
from tests.judgement.stated import NOW, answer, attempt, facts

U, N, A, P = Effect.UNKNOWN, Effect.NONE, Effect.APPLIED, Effect.PENDING
MARK = {"idempotent-replayed": "true"}
KEYED = {
    "contract": "t", "owner": "o", "effect": "write", "success": "status == 201",
    "idempotency": {
        "guarantee": "key", "field": "header:K", "retention": "24h", "replay_marker": "headers['x-hit'] == 'yes'",
        "in_flight": "status == 409",
    },
    "errors": [{"when": "body.error.code == 'declined'", "class": "business_rule", "effect": "none"}],
    "dispatch": {"http": {"path": "/t"}},
}  # fmt: skip
REPLAY = {"by": "replay"}
STATUS = {"by": "status", "http": {"path": "/x/{idempotency_key}"}, "found": "status == 200"}

ROWS = [
    (answer(201, {"id": 1}, headers=MARK), A, True, None, "the stored success"),
    (answer(201, {"id": 1}), A, False, None, "executed now, or a success without a mark: done either way"),
    (answer(402, {"error": {"code": "declined"}}, headers=MARK), N, True, None, "the stored refusal"),
    (answer(402, {"error": {"code": "declined"}}, headers={"x-hit": "yes"}), N, True, None, "by the contract's own mark"),
    (answer(402, {"error": {"code": "declined"}}, headers={"x-hit": "no"}), N, False, None, "this one was refused"),
    (answer(409, {"error": {"code": "card_declined"}}, headers={"x-hit": "yes"}), P, True, "KEY_IN_USE",
     "the contract's word for a key in use goes before the mark"),
    (answer(500, {"error": "broken"}, headers=MARK), U, True, "STORED_FAILURE", "a stored failure settles nothing"),
    (answer(500, {"error": "broken"}), U, False, "SERVER_ERROR", "a failure settles nothing"),
    (answer(400, {"error": {"type": "idempotency_error"}}, headers=MARK), U, False, "KEY_REUSED",
     "other contents under the key: no earlier request's answer, whatever the header says"),
    (answer(422, {"error": {"code": "idempotency_error"}}), U, False, "KEY_REUSED", "likewise without it"),
    (answer(502, None, headers={"server": "cloudfront"}), U, False, None, "a gateway remembers no keys"),
]  # fmt: skip


@pytest.mark.parametrize(("seen", "effect", "replayed", "code", "why"), ROWS)
def test_an_answer_from_memory(seen, effect, replayed, code, why):
    reading = read_observation(seen, contract=parse_contract(KEYED), earlier=(attempt(1),), now=NOW)
    assert (reading.effect, reading.replayed) == (effect, replayed), why
    if code is not None:
        assert reading.code == code, why


DECISIONS = [
    ([REPLAY], answer(422, {"error": {"code": "idempotency_error"}}), Action.ESCALATE, "CONFLICT", "nobody else to ask"),
    ([REPLAY, STATUS], answer(422, {"error": {"code": "idempotency_error"}}), Action.RECONCILE, "KEY_REUSED",
     "the owner's own record decides"),
    ([REPLAY], answer(500, {"error": "broken"}, headers=MARK), Action.ESCALATE, "STORED_FAILURE", "it would stay so"),
    ([REPLAY, STATUS], answer(500, {"error": "broken"}, headers=MARK), Action.RECONCILE, "STORED_FAILURE",
     "the owner's own record decides"),
    ([REPLAY], answer(500, {"error": "broken"}), Action.RECONCILE, None, "the next one may say more"),
    ([REPLAY], answer(409, {"error": "busy"}), Action.WAIT, "KEY_IN_USE", "it is running"),
]  # fmt: skip


@pytest.mark.parametrize(("lookup", "seen", "action", "code", "why"), DECISIONS)
def test_the_next_step_after_a_replay(lookup, seen, action, code, why):
    contract = parse_contract({**KEYED, "lookup": lookup})
    first, second = attempt(1), attempt(2, closed_at=None)
    reading = read_observation(seen, contract=contract, earlier=(first,), now=NOW)
    told = replace(second, effect=reading.effect, proof=reading.proof, closed_at=NOW)
    attempts = (first, told)
    if reading.code == "KEY_IN_USE":
        attempts = running(attempts, key=told.idempotency_key)
    effect = join_effects(attempts=attempts, absence_since=None, kind=contract.effect)
    decision = decide(reading=reading, facts=facts(contract, *attempts), effect=effect, contract=contract, now=NOW)
    assert decision.recovery_action is action, (why, decision.rule)
    assert code is None or decision.code == code, why


@pytest.mark.parametrize(("effect", "action"), [(U, Action.ESCALATE), (P, Action.ESCALATE), (A, Action.DONE)])
def test_with_nobody_left_to_ask_a_person_is(effect, action):
    contract = parse_contract({**KEYED, "lookup": [REPLAY]})
    held = facts(contract, attempt(1, effect=effect), state=State.RECONCILING)
    decision = decide_nobody_to_ask(facts=held, effect=effect, contract=contract, now=NOW)
    assert decision.recovery_action is action
    if action is Action.ESCALATE:
        assert (decision.code, decision.failure_class) == ("NOBODY_TO_ASK", FailureClass.UNKNOWN_OUTCOME)
        assert decision.not_before is None, "a replay is no question that can be asked once a person has it"
