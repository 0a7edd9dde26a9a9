"""How the items of a batch come together, and which of them may be sent again: a row a reason."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from ledger.rules.batch_payload import ItemsInvalid, carrying, items_in, with_items
from ledger.rules.contract import parse_contract
from ledger.rules.decision import Decision
from ledger.rules.facts import AttemptFacts, Facts, ItemAttempt, ItemFacts
from ledger.rules.items import (
    Carry,
    attempt_effect,
    join_items,
    looks_next,
    recoverable_at,
    settled,
    to_carry,
    to_look_up,
    to_recover,
)
from ledger.rules.vocabulary import (
    Action,
    Effect,
    EffectKind,
    FailureClass,
    Licence,
    Outcome,
    Proof,
    Request,
    State,
    Verification,
)

T0 = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
NOW = T0 + timedelta(minutes=5)
U, P, N, A, PART = Effect.UNKNOWN, Effect.PENDING, Effect.NONE, Effect.APPLIED, Effect.PARTIAL


def contract(**parts):
    return parse_contract(
        {
            "contract": "t",
            "owner": "o",
            "effect": "batch",
            "items": {"path": "payload.tickets", "key": "ref"},
            "idempotency": {"guarantee": "none"},
            **parts,
        }
    )


NONE = contract()
NATURAL = contract(idempotency={"guarantee": "natural"})
KEY = contract(idempotency={"guarantee": "key", "field": "header:K", "retention": "24h"})


def decision(action, *, at=None):
    return Decision(
        recovery_action=action,
        failure_class=FailureClass.TRANSIENT,
        effect_status=U,
        request=Request.ACCEPTED,
        rule="test",
        code="TEST",
        hint="",
        message="",
        not_before=at,
    )


def item(number, effect, action=None, *, at=None, attempts=(1,), **changes):
    proof = Proof.OWNER_RESULT if effect in (N, A) else None
    return ItemFacts(
        number=number,
        key="abcdefgh"[number - 1],
        effect=effect,
        attempts=tuple(ItemAttempt(attempt=each, effect=effect, proof=proof) for each in attempts),
        decision=decision(action, at=at) if action else None,
        **changes,
    )


def attempt(number=1, *, revision=None, effect=U, closed=True):
    return AttemptFacts(
        attempt_id=f"attempt-{number:02d}",
        number=number,
        revision=revision or number,
        digest=f"sha256:{revision or number}",
        principal="",
        idempotency_key="op" if (revision or number) == 1 else f"op#r{revision or number}",
        licence=None,
        opened_at=T0,
        dispatch_by=T0 + timedelta(seconds=30),
        lapses_at=T0 + timedelta(seconds=60),
        closed_at=T0 + timedelta(seconds=5) if closed else None,
        effect=effect,
    )


ONCE = (attempt(),)


def facts(*items, attempts=ONCE, revision=1, carries=None, **changes):
    return Facts(
        operation_id="op",
        tool="t",
        kind=EffectKind.BATCH,
        version=3,
        state=State.OPEN,
        request=Request.ACCEPTED,
        effect=join_items(items),
        verification=Verification.NOT_REQUIRED,
        outcome=None,
        revision=revision,
        payload_digest=f"sha256:{revision}",
        attempts=attempts,
        first_sent_at=T0 if attempts else None,
        items=items,
        carries=frozenset(carries if carries is not None else (each.number for each in items)),
        **changes,
    )


@pytest.mark.parametrize(
    ("effects", "joined", "why"),
    [
        ((), N, "nothing is nothing"),
        ((A, A), A, "all of it happened"),
        ((N, N), N, "none of it did"),
        ((A, N), PART, "partial: every item is accounted for"),
        ((A, N, U), U, "an item of which nobody knows makes the batch unknown"),
        ((A, U), U, "however many others are done"),
        ((A, P, N), P, "still running"),
        ((U, P), U, "the least certain word counts"),
        ((A, PART), U, "a part of one item is not accounted for"),
    ],
)
def test_the_batch_is_its_items(effects, joined, why):
    items = [item(number, effect) for number, effect in enumerate(effects, 1)]
    assert join_items(items) is joined, why
    assert join_items(reversed(items)) is joined, "in whatever order"


def test_an_attempt_did_what_it_did_to_the_items_that_it_carried():
    items = (item(1, A), item(2, N, attempts=(1, 2)), item(3, U, attempts=(2,)))
    assert attempt_effect(items, number=1) == (PART, Proof.OWNER_RESULT)
    assert attempt_effect(items, number=2) == (U, None)
    assert attempt_effect(items, number=3) == (N, None), "it carried none of them"


LATER = NOW + timedelta(minutes=1)
PROVED, KEYED, HARMLESS = Licence.EFFECT_NONE_PROVED, Licence.KEY_IN_WINDOW, Licence.NATURAL_IDEMPOTENCY
RETRY, TWICE = Action.RETRY, (attempt(), attempt(2))
CARRIED = [
    (NONE, facts(item(1, N, attempts=()), item(2, N, attempts=()), attempts=()), {1: None, 2: None}, True, "first"),
    (NONE, facts(item(1, A), item(2, N, RETRY)), {2: PROVED}, False, "the one that did not"),
    (NONE, facts(item(1, N, RETRY), item(2, N, RETRY)), {1: PROVED, 2: PROVED}, True, "all of them: the same request"),
    (NONE, facts(item(1, U, Action.RECONCILE), item(2, N, RETRY)), {2: PROVED}, False, "an unknown one stays out"),
    (NONE, facts(item(1, N, Action.STOP, outcome=Outcome.NOT_APPLIED), item(2, N, RETRY)), {2: PROVED}, False, "a bad one does not hold the other"),
    (NONE, facts(item(1, N, RETRY, at=LATER), item(2, N, RETRY)), {2: PROVED}, False, "nor does one that has to wait"),
    (NONE, facts(item(1, N, RETRY, at=LATER), item(2, A)), "NO_ITEM_LICENSED", None, "a wait is waited for"),
    (NONE, facts(item(1, U, Action.RECONCILE), item(2, A)), "NO_ITEM_LICENSED", None, "nothing is known of it"),
    (NONE, facts(item(1, N, Action.REPAIR), item(2, A)), "ITEMS_NEED_CHANGES", None, "it would be refused again"),
    (NONE, facts(item(1, U), item(2, A)), "NO_ITEM_LICENSED", None, "nothing was said of it since it was sent"),
    (NATURAL, facts(item(1, U, RETRY), item(2, A)), {1: HARMLESS}, False, "repeats are harmless, item by item"),
    (KEY, facts(item(1, U, RETRY), item(2, U, RETRY)), {1: KEYED, 2: KEYED}, True, "the whole request under its key"),
    (KEY, facts(item(1, U, RETRY), item(2, A)), "NO_ITEM_LICENSED", None, "a part of it has another key"),
    (KEY, facts(item(1, U, RETRY), item(2, N, RETRY)), {2: PROVED}, False, "what did not happen needs no key"),
    (NONE, facts(item(1, A), item(2, N, Action.REPAIR), revision=2, carries={2}), {2: PROVED}, True, "a revision that was not sent yet"),
    (NATURAL, facts(item(1, A), item(2, U, RETRY), revision=2, carries={2}), "ITEM_NOT_PROVED_NONE", None, "harmless repeats are of the same thing"),
    (NONE, facts(item(1, A), item(2, N, RETRY, attempts=(1, 2)), attempts=TWICE, revision=2, carries={2}), {2: PROVED}, True, "the part again"),
    (NONE, facts(item(1, N, RETRY), item(2, N, RETRY, attempts=(1, 2)), attempts=TWICE, revision=2, carries={2}),
     {1: PROVED, 2: PROVED}, False, "what was found absent meanwhile goes with it"),
]  # fmt: skip


@pytest.mark.parametrize(("of", "held", "carried", "same", "why"), CARRIED, ids=[row[-1] for row in CARRIED])
def test_what_the_next_request_carries(of, held, carried, same, why):
    found = to_carry(facts=held, contract=of, now=NOW)
    if isinstance(found, Carry):
        assert (found.licences, found.same_request) == (carried, same), why
    else:
        assert found.code == carried, why


def test_the_request_names_the_licence_of_which_least_is_certain():
    both = {1: Licence.EFFECT_NONE_PROVED, 2: Licence.NATURAL_IDEMPOTENCY}
    assert Carry(licences=both, same_request=False).licence is Licence.NATURAL_IDEMPOTENCY
    assert Carry(licences={1: None}, same_request=True).licence is None


def test_who_is_looked_up_and_when():
    soon, later = NOW + timedelta(seconds=1), NOW + timedelta(seconds=9)
    items = (
        item(1, U, Action.RECONCILE, at=later),
        item(2, U, Action.RECONCILE, at=soon),
        item(3, A),
        item(4, U, Action.RECONCILE, at=soon, attempts=(1, 2)),
        item(5, N, Action.RETRY),
        item(6, U),
        item(7, U, attempts=()),
        item(8, U, Action.ESCALATE, at=later, outcome=Outcome.WRITTEN_OFF),
    )
    known = facts(*items, attempts=(attempt(), attempt(2, closed=False)))
    assert [each.number for each in to_look_up(known)] == [6, 2, 1], "the longest waiting first; none in flight"
    assert looks_next(known) == soon
    assert looks_next(facts(item(1, A))) is None


def test_what_is_left_for_the_harness():
    items = (item(1, N, Action.RETRY, at=LATER), item(2, N, Action.REPAIR), item(3, U, Action.RECONCILE), item(4, A))
    assert to_recover(items) == 2
    assert to_recover([replace(each, outcome=Outcome.NOT_APPLIED) for each in items]) == 0
    assert recoverable_at(items) == LATER
    assert recoverable_at((*items, item(5, N, Action.RETRY))) is None, "one may go now"


def test_a_settled_batch_settles_its_items():
    items = settled((item(1, A), item(2, N), item(3, U), item(4, P)), verification=Verification.VERIFIED)
    assert [each.outcome for each in items] == ["applied", "not_applied", "written_off", "written_off"]
    assert [each.verification for each in items] == ["verified", *["not_required"] * 3]


def test_items_are_found_by_their_keys():
    payload = {"tickets": [{"ref": "a", "n": 1}, {"ref": 7}, "c", 9], "tenant": "t"}
    assert items_in(NONE, payload) == {"a": {"ref": "a", "n": 1}, "7": {"ref": 7}, "c": "c", "9": 9}
    assert carrying(NONE, payload, ["c"]) == {"tickets": ["c"], "tenant": "t"}
    assert payload["tickets"][0] == {"ref": "a", "n": 1}, "and the payload stays as it was"


@pytest.mark.parametrize(
    ("payload", "field", "why"),
    [
        ({}, "payload.tickets", "no list"),
        ({"tickets": {}}, "payload.tickets", "no list either"),
        ({"tickets": []}, "payload.tickets", "no items"),
        ({"tickets": ["x"] * 10_001}, "payload.tickets", "too many"),
        ({"tickets": [{"ref": "a"}, {"ref": "a"}]}, "payload.tickets[1]", "a key twice"),
        ({"tickets": [{"ref": 1}, {"ref": "1"}]}, "payload.tickets[1]", "keys are text: 1 is 1"),
        ({"tickets": [{"ref": "a"}, {}]}, "payload.tickets[1].ref", "no key"),
        ({"tickets": [{"ref": None}]}, "payload.tickets[0].ref", "nothing is no key"),
        ({"tickets": [{"ref": True}]}, "payload.tickets[0].ref", "nor is a truth"),
        ({"tickets": [{"ref": ""}]}, "payload.tickets[0].ref", "an empty key"),
        ({"tickets": [{"ref": "x" * 201}]}, "payload.tickets[0].ref", "a key that is too long"),
        ({"tickets": [1.5]}, "payload.tickets[0]", "a fraction names nothing"),
        (None, "payload.tickets", "no payload"),
    ],
)
def test_items_that_cannot_be_told_apart(payload, field, why):
    with pytest.raises(ItemsInvalid) as refused:
        items_in(NONE, payload)
    assert refused.value.field == field, why


def test_items_beside_the_payload_are_put_into_it():
    assert with_items(NONE, {"tenant": "t"}, ["a"]) == {"tenant": "t", "tickets": ["a"]}
    assert with_items(NONE, {"tickets": ["a"]}, ["a"]) == {"tickets": ["a"]}
    with pytest.raises(ItemsInvalid, match="differ"):
        with_items(NONE, {"tickets": ["a"]}, ["b"])
    with pytest.raises(ItemsInvalid):
        with_items(NONE, [], ["b"])
    deep = contract(items={"path": "payload.a.b", "key": "ref"})
    assert with_items(deep, {}, ["x"]) == {"a": {"b": ["x"]}}


@pytest.mark.parametrize(
    ("parts", "path", "why"),
    [
        ({"items": None}, "items", "a batch says where its items are"),
        ({"items": {"path": "payload", "key": "ref"}}, "items.path", "a part must be able to stand there"),
        ({"items": {"path": "payload.a[0]", "key": "ref"}}, "items.path", "a member, no expression"),
    ],
)
def test_contracts_of_batches(parts, path, why):
    document = {
        "contract": "t",
        "owner": "o",
        "effect": "batch",
        "items": {"path": "payload.tickets", "key": "ref"},
        **parts,
    }
    with pytest.raises(ValueError) as refused:
        parse_contract({name: value for name, value in document.items() if value is not None})
    assert path in [problem.path for problem in refused.value.problems], why
