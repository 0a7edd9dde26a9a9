"""A contract's samples: read by its own rules, each way they can disagree, and what no sample can tell."""

import pytest

from ledger.rules.contract import ContractInvalid, check_contract, parse_contract

LEAST = {"contract": "t", "owner": "o", "effect": "write"}
STATUS = {
    "by": "status",
    "http": {"path": "/x"},
    "found": "status == 200",
    "no_match": "status == 404",
    "lag": "1s",
    "effect": {"applied": "body.state == 'open'", "pending": "body.state == 'new'", "none": "body.state == 'refused'"},
    "same": {"title": "body.title"},
}
SEARCH = {
    "by": "search",
    "http": {"path": "/x?q={operation_id}&after={cursor}"},
    "items": "body.items",
    "next": "body.next",
    "match": "item.ref == operation_id && item.title == payload.title",
    "truncated": "has(body.cut) && body.cut",
    "effect": {"applied": "body.state == 'open'", "pending": "body.state == 'new'"},
}
VERIFY = {"http": {"path": "/x/{receipt.id}"}, "expect": {"title": "body.title"}}
NOTICE = {"operation_id": "body.ref", "effect": {"applied": "body.type == 'made'"}}
WHOLE = {
    **LEAST,
    "success": "status == 201",
    "idempotency": {"in_flight": "status == 409"},
    "errors": [{"when": "status == 422", "class": "invalid_request", "effect": "none"}],
    "lookup": [STATUS, SEARCH],
    "verify": VERIFY,
    "notice": NOTICE,
}


def answer(status=None, body=None):
    return {key: value for key, value in (("status", status), ("body", body)) if value is not None}


OPEN = {"state": "open", "title": "a"}
MATCHING = {"items": [{"ref": "op-9", "title": "a", "state": "new"}, {"ref": "op-8", "title": "a", "state": "open"}]}
TWICE = {"items": [MATCHING["items"][0], MATCHING["items"][0]]}
AGREE = [
    ({"to": "request", "answer": answer(201), "effect": "applied"}, "success"),
    ({"to": "request", "answer": answer(409), "effect": "pending"}, "a key in use"),
    ({"to": "request", "answer": answer(422), "effect": "none"}, "an error rule"),
    ({"to": "request", "answer": answer(418), "effect": "none"}, "no rule reads it: the defaults decide"),
    ({"to": "lookup[0]", "answer": answer(200, OPEN), "effect": "applied"}, "found"),
    ({"to": "lookup[0]", "answer": answer(200, OPEN), "outcome": "found"}, "found, whatever it says"),
    ({"to": "lookup[0]", "answer": answer(200, OPEN), "payload": {"title": "a"}, "effect": "applied"}, "and the same"),
    ({"to": "lookup[0]", "answer": answer(200, OPEN), "payload": {"title": "b"}, "outcome": "inconclusive"}, "another"),
    ({"to": "lookup[0]", "answer": answer(404), "outcome": "no_match"}, "not there"),
    ({"to": "lookup[0]", "answer": answer(403), "outcome": "inconclusive"}, "who may not see is told nothing"),
    ({"to": "lookup[0]", "answer": answer(200, {"state": "odd"}), "effect": "unknown"}, "a state that is not known"),
    ({"to": "lookup", "answer": answer(200, {"state": "new"}), "effect": "pending"}, "any of the lookups"),
    (
        {"to": "lookup[1]", "answer": answer(200, MATCHING), "operation_id": "op-9", "payload": {"title": "a"}, "effect": "pending"},
        "the item that matches says what it is",
    ),
    (
        {"to": "lookup[1]", "answer": answer(200, TWICE), "operation_id": "op-9", "payload": {"title": "a"}, "outcome": "found"},
        "two of them: found, and for a person",
    ),
    ({"to": "lookup[1]", "answer": answer(200, {"items": []}), "payload": {}, "outcome": "no_match"}, "an empty list"),
    ({"to": "lookup[1]", "answer": answer(200, {"items": [], "next": "c2"}), "outcome": "inconclusive"}, "a further page"),
    ({"to": "lookup[1]", "answer": answer(200, {"items": [], "cut": True}), "outcome": "inconclusive"}, "cut short"),
    ({"to": "lookup[1]", "answer": answer(500), "outcome": "inconclusive"}, "no list at all"),
    ({"to": "verify", "answer": answer(200, OPEN), "payload": {"title": "a"}, "verification": "verified"}, "as meant"),
    ({"to": "verify", "answer": answer(200, OPEN), "payload": {"title": "b"}, "verification": "failed"}, "differs"),
    ({"to": "verify", "answer": answer(200, {}), "payload": {"title": "b"}, "verification": "failed"}, "not shown"),
    ({"to": "notice", "answer": answer(body={"ref": "op-1", "type": "made"}), "effect": "applied"}, "told"),
    ({"to": "notice", "answer": answer(body={"ref": "op-1", "type": "seen"}), "effect": "unknown"}, "told nothing"),
]  # fmt: skip


@pytest.mark.parametrize(("sample", "why"), AGREE, ids=[why for _, why in AGREE])
def test_samples_that_agree(sample, why):
    assert parse_contract({**WHOLE, "samples": [sample]}).samples, why


DISAGREE = [
    ({"to": "request", "answer": answer(201), "effect": "none"}, "effect", "success says applied", "success"),
    ({"to": "request", "answer": answer(409), "effect": "applied"}, "effect", "in_flight says pending", "a key in use"),
    ({"to": "request", "answer": answer(422), "effect": "applied"}, "effect", "errors[0] says none", "an error rule"),
    ({"to": "lookup[0]", "answer": answer(404), "effect": "applied"}, "effect", "says no_match", "not there"),
    ({"to": "lookup[0]", "answer": answer(200, OPEN), "outcome": "no_match"}, "outcome", "says applied", "it is there"),
    ({"to": "lookup[7]", "answer": answer(200, OPEN), "effect": "applied"}, "to", "no such lookup", "a lookup too many"),
    ({"to": "lookup[1]", "answer": answer(200, MATCHING), "payload": {"title": "z"}, "outcome": "found"}, "outcome", "says no_match", "no item"),
    ({"to": "verify", "answer": answer(200, OPEN), "payload": {"title": "b"}, "verification": "verified"}, "verification", "title differs", "differs"),
    ({"to": "verify", "answer": answer(200), "verification": "verified"}, "payload", "compared with", "with what?"),
    ({"to": "verify", "answer": answer(200), "payload": {}}, "verification", "state which", "verified or failed?"),
    ({"to": "verify", "answer": answer(200), "payload": {}, "verification": "due"}, "verification", "state which", "no answer"),
    ({"to": "notice", "answer": answer(body={"type": "made"}), "effect": "applied"}, "answer", "names the operation", "of what?"),
    ({"to": "notice", "answer": answer(body={"ref": "op-1", "type": "made"}), "effect": "none"}, "effect", "says applied", "told"),
    ({"to": "request", "answer": answer(201)}, "effect", "State the effect", "no statement"),
    ({"answer": answer(404), "outcome": "no_match"}, "outcome", "to: lookup", "an outcome of a request"),
    ({"to": "lookups", "answer": answer(404), "outcome": "no_match"}, "to", "", "answers nothing"),
]  # fmt: skip


@pytest.mark.parametrize(("sample", "member", "says", "why"), DISAGREE, ids=[why for *_, why in DISAGREE])
def test_samples_that_disagree(sample, member, says, why):
    with pytest.raises(ContractInvalid) as invalid:
        parse_contract({**WHOLE, "samples": [sample]})
    found = {problem.path: problem.message for problem in invalid.value.problems}
    assert f"samples[0].{member}" in found, (why, found)
    assert says in found[f"samples[0].{member}"], why


def test_what_the_contract_has_not_cannot_be_answered():
    for sample in (
        {"to": "verify", "answer": answer(200), "payload": {}, "verification": "failed"},
        {"to": "notice", "answer": answer(200), "effect": "unknown"},
        {"to": "lookup", "answer": answer(200), "outcome": "found"},
    ):
        with pytest.raises(ContractInvalid, match="contract"):
            parse_contract({**LEAST, "samples": [sample]})


def test_a_condition_that_is_neither_true_nor_false():
    lookup = {**STATUS, "found": "body.there"}
    sample = {"to": "lookup", "answer": answer(200, {"there": "yes"}), "outcome": "inconclusive"}
    with pytest.raises(ContractInvalid, match=r"lookup\[0\].found.*true or false"):
        parse_contract({**LEAST, "lookup": [lookup], "samples": [sample]})
    elsewhere = {"to": "request", "answer": answer(200, {"there": "yes"}), "effect": "applied"}
    assert parse_contract({**LEAST, "lookup": [lookup], "samples": [elsewhere]}), "an answer to something else"


def notes(**changes):
    return {note.path: note.message for note in check_contract({**LEAST, **changes}).notes}


def test_what_no_sample_can_compute_is_named():
    made = {"answer": answer(201, {"id": "T-1", "state": "open"}), "effect": "applied"}
    assert notes(success="status == 201", receipt={"id": "body.id"}, samples=[made]) == {}
    assert set(notes(success="status == 201", receipt={"id": "body.Id"}, samples=[made])) == {"receipt.id"}
    misspelt = [{"when": "body.stat == 'closed'", "class": "fatal"}]
    assert set(notes(errors=misspelt, samples=[made])) == {"errors[0].when"}
    refused = {"answer": answer(409, {"stat": "closed"}), "effect": "unknown"}
    assert notes(errors=misspelt, samples=[made, refused]) == {}, "one sample that has it is enough"
    assert notes(errors=misspelt) == {}, "without samples nothing can be said"
    asked = {"to": "request", **made}
    assert notes(success="status == 201", lookup=[{**STATUS, "same": {}}], samples=[asked]) == {}, "of another part"


def test_an_answer_of_text_has_no_members():
    made = {"answer": {"status": 201, "body": "made"}, "effect": "applied"}
    assert set(notes(receipt={"id": "body.id"}, samples=[made])) == {"receipt.id"}


def test_what_does_nothing_is_named():
    key = {"guarantee": "key", "field": "header:Idempotency-Key"}
    assert set(notes(idempotency=key)) == {"idempotency.retention"}
    assert notes(idempotency={**key, "retention": "24h"}) == {}
    assert set(notes(items={"path": "payload.tickets", "key": "ref"})) == {"items"}
