"""What a person may say of an operation, and whether it counts at once: a row a reason."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.rules.contract import parse_contract
from ledger.rules.facts import AttemptFacts, Budget, Facts, ItemAttempt, ItemFacts
from ledger.rules.resolutions import Answer, needs_second_person, offers
from ledger.rules.vocabulary import Effect, EffectKind, Guarantee, Outcome, Request, State, Verification

T0 = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
SOON = T0 + timedelta(minutes=5)
LATER = T0 + timedelta(hours=24)


def contract(second_person_for=(), **idempotency):
    document = {"contract": "t", "owner": "o", "effect": "write", "idempotency": idempotency}
    if second_person_for:
        document["resolution"] = {"second_person_for": list(second_person_for)}
    return parse_contract(document)


NONE = contract()
NATURAL = contract(guarantee="natural")
KEY = contract(guarantee="key", field="header:K", retention="24h")
KEY_FOREVER = contract(guarantee="key", field="header:K")
NATURAL_STRICT = contract(("not_applied",), guarantee="natural")
APPLIED_STRICT = contract(("applied",))


def attempt(effect=Effect.UNKNOWN, **changes):
    known = {
        "attempt_id": "attempt-01",
        "number": 1,
        "revision": 1,
        "digest": "sha256:a",
        "principal": "svc",
        "idempotency_key": "op-1",
        "licence": None,
        "opened_at": T0,
        "dispatch_by": T0 + timedelta(seconds=30),
        "lapses_at": T0 + timedelta(seconds=62),
        "closed_at": T0 + timedelta(seconds=62),
        "effect": effect,
    }
    return AttemptFacts(**{**known, **changes})


def facts(*attempts, **changes):
    known = {
        "operation_id": "op-1",
        "tool": "t",
        "kind": EffectKind.WRITE,
        "version": 3,
        "state": State.ESCALATED,
        "request": Request.ACCEPTED,
        "effect": Effect.UNKNOWN,
        "verification": Verification.NOT_REQUIRED,
        "outcome": None,
        "revision": 1,
        "payload_digest": "sha256:a",
        "principal": "svc",
        "attempts": attempts or (attempt(),),
        "first_sent_at": T0,
    }
    return Facts(**{**known, **changes})


def offer(answer, known, *, of=NONE, now=SOON, twin=False):
    return next(
        each for each in offers(facts=known, contract=of, now=now, blocked_by_identity=twin) if each.answer is answer
    )


READ = facts(kind=EffectKind.READ, effect=Effect.NONE)
NEVER_SENT = facts(attempts=(), effect=Effect.NONE, state=State.OPEN)
SETTLED = facts(state=State.SETTLED, outcome=Outcome.APPLIED, effect=Effect.APPLIED)
FLYING = facts(attempt(closed_at=None), state=State.DISPATCHED)
HAPPENED, NOT_SO, CANNOT, DISTINCT = Answer.APPLIED, Answer.NOT_APPLIED, Answer.CANNOT_TELL, Answer.DISTINCT_INTENT
PARTLY, OFF, RISK = Answer.PARTIALLY_APPLIED, Answer.WRITTEN_OFF, Answer.ACCEPT_DUPLICATE_RISK
APPLIED = facts(attempt(Effect.APPLIED), effect=Effect.APPLIED)
NONE_OF_IT = facts(attempt(Effect.NONE), effect=Effect.NONE, state=State.OPEN)
BATCH = facts(
    kind=EffectKind.BATCH,
    items=tuple(
        ItemFacts(number=n, key=f"i{n}", effect=effect, attempts=(ItemAttempt(attempt=1, effect=effect),))
        for n, effect in enumerate((Effect.APPLIED, Effect.UNKNOWN), start=1)
    ),
)


def spent(name):
    return facts(budgets={name: Budget(used=3, limit=3)})


OFFERS = [
    (HAPPENED, facts(), False, "", "an unknown effect is what a person is asked about"),
    (NOT_SO, facts(), False, "", "either way"),
    (CANNOT, facts(), False, "", "or neither"),
    (DISTINCT, facts(), False, "No other unsettled operation", "nobody stands in its way"),
    (DISTINCT, NEVER_SENT, True, "", "a twin stands in its way"),
    (HAPPENED, NEVER_SENT, False, "Nothing was ever permitted", "what was never sent has not happened through us"),
    (NOT_SO, NEVER_SENT, False, "", "it may be closed as not done"),
    (CANNOT, NEVER_SENT, False, "already says none", "there is nothing to look for"),
    (HAPPENED, facts(attempt(Effect.NONE), effect=Effect.NONE, state=State.OPEN), False, "", "a person may know better"),
    (CANNOT, facts(attempt(Effect.APPLIED), effect=Effect.APPLIED), False, "already says applied", "it is known"),
    (HAPPENED, READ, False, "A read has no effect", "nothing to have happened"),
    (NOT_SO, READ, False, "A read has no effect", "nor not to have"),
    (NOT_SO, APPLIED, False, "proved that it happened", "a person takes no proof back"),
    (PARTLY, facts(), False, "It is no batch", "one effect has no parts"),
    (PARTLY, BATCH, False, "", "each item has its own"),
    (HAPPENED, BATCH, False, "item by item", "and the whole has none"),
    (OFF, facts(), False, "", "two people may close what nobody will know"),
    (OFF, facts(effect=Effect.PENDING), False, "", "also what is said to be running for ever"),
    (OFF, BATCH, False, "", "and what is left of a batch"),
    (OFF, NONE_OF_IT, False, "did not happen: nothing is in doubt", "what is known is not written off"),
    (OFF, APPLIED, False, "happened: nothing is in doubt", "nor what is done"),
    (OFF, READ, False, "A read has no effect", "nor what has none"),
    (RISK, facts(), False, "", "the owner promises nothing, and it is still wanted"),
    (RISK, facts(effect=Effect.PENDING), False, "", "also where it is said to be running"),
    (RISK, NONE_OF_IT, False, "nothing is in doubt", "there is no risk in what is proved absent"),
    (RISK, APPLIED, False, "nothing is in doubt", "nor any sense in what is done"),
    (RISK, NEVER_SENT, False, "nothing is in doubt", "a first dispatch needs no licence"),
    (RISK, READ, False, "A read has no effect", "a read may be repeated"),
    (RISK, BATCH, False, "never sent again as a whole", "its items have licences of their own"),
    (RISK, facts(deadline_at=SOON), False, "has ended", "no permit could follow"),
    (RISK, spent("retries"), False, "retries is used up", "nor without a retry left"),
    (RISK, spent("network_attempts"), False, "network attempts is used up", "nor without a request left"),
    *[(answer, FLYING, True, "in flight", "nobody answers for what is under way") for answer in Answer],
    *[(answer, SETTLED, True, "It is settled", "only evidence reopens it") for answer in Answer],
    *[(NOT_SO, facts(state=state), False, "", f"a person may answer while it is {state}")
      for state in (State.OPEN, State.WAITING, State.RECONCILING, State.VERIFYING, State.BLOCKED, State.ESCALATED)],
]  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "known", "twin", "why_not", "why"), OFFERS, ids=[f"{row[0]}: {row[4]}" for row in OFFERS]
)
def test_what_is_open_to_a_person(answer, known, twin, why_not, why):
    made = offer(answer, known, twin=twin)
    assert made.allowed is (why_not == ""), why
    assert why_not in made.why_not
    assert made.allowed or made.why_not.endswith(".")


SAFER = [
    (NATURAL, SOON, "repeating it changes nothing", "the contract licenses it already"),
    (KEY, SOON, "still knows the key", "the key does"),
    (KEY, LATER, "", "it no longer does"),
    (KEY_FOREVER, SOON, "", "nobody says how long it does"),
]


@pytest.mark.parametrize(("of", "now", "why_not", "why"), SAFER, ids=[row[3] for row in SAFER])
def test_no_risk_is_accepted_where_none_has_to_be(of, now, why_not, why):
    made = offer(RISK, facts(), of=of, now=now)
    assert made.allowed is (why_not == ""), why
    assert why_not in made.why_not


def test_a_risk_is_accepted_once_until_it_is_used():
    known = facts(state=State.OPEN)
    [made] = [
        each
        for each in offers(facts=known, contract=NONE, now=SOON, blocked_by_identity=False, risk_accepted=True)
        if each.answer is RISK
    ]
    assert not made.allowed
    assert "already" in made.why_not


SECOND = [
    (OFF, facts(), NATURAL, SOON, True, "nobody gives up alone, whatever the guarantee"),
    (RISK, facts(), NONE, SOON, True, "nor takes the risk alone"),
    (NOT_SO, facts(), NONE, SOON, True, "a wrong 'it did not happen' would be repeated"),
    (NOT_SO, facts(), NATURAL, SOON, False, "a repeat would be harmless"),
    (NOT_SO, facts(), KEY, SOON, False, "the owner would recognise the key"),
    (NOT_SO, facts(), KEY, LATER, True, "the owner may have forgotten the key"),
    (NOT_SO, facts(), KEY_FOREVER, SOON, True, "nobody says how long the key is remembered"),
    (NOT_SO, facts(), NATURAL_STRICT, SOON, True, "the contract asks for more"),
    (NOT_SO, facts(effect=Effect.PENDING), NONE, SOON, True, "also while it is said to be running"),
    (NOT_SO, facts(attempts=(), effect=Effect.NONE), NONE, SOON, False, "nothing was ever sent"),
    (NOT_SO, READ, NONE, SOON, False, "a read has no effect to double"),
    (HAPPENED, facts(), NONE, SOON, False, "a wrong 'it happened' repeats nothing"),
    (HAPPENED, facts(), APPLIED_STRICT, SOON, True, "the contract asks for more"),
    (CANNOT, facts(), NONE, SOON, False, "it claims nothing"),
    (DISTINCT, facts(), NONE, SOON, False, "each operation still has its own laws"),
]


@pytest.mark.parametrize(
    ("answer", "known", "of", "now", "second", "why"), SECOND, ids=[f"{row[0]}: {row[5]}" for row in SECOND]
)
def test_when_a_second_person_must_sign(answer, known, of, now, second, why):
    assert needs_second_person(answer=answer, facts=known, contract=of, now=now) is second, why
    assert offer(answer, known, of=of, now=now).needs_second_person is second


@settings(max_examples=300, deadline=None)
@given(
    state=st.sampled_from(list(State)),
    effect=st.sampled_from(list(Effect)),
    kind=st.sampled_from(list(EffectKind)),
    attempts=st.lists(st.sampled_from(list(Effect)).map(attempt), max_size=3).map(tuple),
    of=st.sampled_from([NONE, NATURAL, KEY, KEY_FOREVER, NATURAL_STRICT, APPLIED_STRICT]),
    minutes=st.integers(0, 3000),
    twin=st.booleans(),
)
def test_every_answer_is_offered_or_refused_in_words(state, effect, kind, attempts, of, minutes, twin):
    known = facts(state=state, effect=effect, kind=kind, attempts=attempts)
    now = T0 + timedelta(minutes=minutes)
    made = offers(facts=known, contract=of, now=now, blocked_by_identity=twin)
    assert [each.answer for each in made] == list(Answer)
    for each in made:
        assert each.allowed is not bool(each.why_not)
        if each.allowed:
            assert state not in (State.SETTLED, State.DISPATCHED)
        if each.answer is NOT_SO and kind is not EffectKind.READ and attempts and not each.needs_second_person:
            assert of.idempotency.guarantee is not Guarantee.NONE, "one person never ends what could be doubled"
