"""When a permit is given, and what is said instead: a row a reason; and the laws over everything else."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.rules.agent_retries import Step, Tries
from ledger.rules.contract import parse_contract
from ledger.rules.decision import Decision
from ledger.rules.facts import AttemptFacts, Budget, Facts
from ledger.rules.permits import A_HARNESS, SKEW, Asker, Granted, may_dispatch
from ledger.rules.vocabulary import (
    Action,
    Effect,
    EffectKind,
    FailureClass,
    Guarantee,
    Licence,
    Outcome,
    Request,
    Sender,
    State,
    Verification,
)

T0 = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
NOW = T0 + timedelta(minutes=5)
U, P, N, A, PART = Effect.UNKNOWN, Effect.PENDING, Effect.NONE, Effect.APPLIED, Effect.PARTIAL


def contract(effect="write", **idempotency):
    return parse_contract(
        {
            "contract": "t",
            "owner": "o",
            "effect": effect,
            "idempotency": idempotency,
            "dispatch_within": "30s",
            "timeout": "20s",
            "deadline": "15m",
        }
    )


NONE = contract()
NATURAL = contract(guarantee="natural")
KEY = contract(guarantee="key", field="header:K", retention="24h")
READING = contract(effect="read")


def attempt(effect=U, **changes):
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
        "lapses_at": T0 + timedelta(seconds=52),
        "closed_at": T0 + timedelta(seconds=52),
        "effect": effect,
    }
    return AttemptFacts(**{**known, **changes})


def facts(*attempts, **changes):
    known = {
        "operation_id": "op-1",
        "tool": "t",
        "kind": EffectKind.WRITE,
        "version": 3,
        "state": State.RECONCILING,
        "request": Request.ACCEPTED,
        "effect": U,
        "verification": Verification.NOT_REQUIRED,
        "outcome": None,
        "revision": 1,
        "payload_digest": "sha256:a",
        "principal": "svc",
        "attempts": attempts,
        "first_sent_at": T0 if attempts else None,
        "deadline_at": T0 + timedelta(minutes=15),
    }
    return Facts(**{**known, **changes})


def decided(action, effect=U, **changes):
    known = {
        "recovery_action": action,
        "failure_class": FailureClass.TRANSIENT,
        "effect_status": effect,
        "request": Request.ACCEPTED,
        "rule": "a.rule",
        "code": "A_CODE",
        "hint": "Do.",
        "message": "Done.",
    }
    return Decision(**{**known, **changes})


def budget(**left):
    return {name: Budget(used=3 - more, limit=3) for name, more in left.items()}


FRESH = facts(state=State.OPEN, effect=N)
REFUSED = facts(attempt(N), state=State.OPEN, effect=N)
LOST = facts(attempt())
RETRY, RETRY_LATER = decided(Action.RETRY, N), decided(Action.RETRY, N, not_before=NOW + timedelta(seconds=7))
RECONCILE = decided(Action.RECONCILE)
SECOND = replace(REFUSED, revision=2, payload_digest="sha256:b")
READ = facts(attempt(), state=State.OPEN, effect=N, kind=EffectKind.READ)
NONE_PROVED, HARMLESS, REMEMBERED = Licence.EFFECT_NONE_PROVED, Licence.NATURAL_IDEMPOTENCY, Licence.KEY_IN_WINDOW

GIVEN = [
    (FRESH, NONE, None, "dispatch", None, False, "the first dispatch needs no licence"),
    (REFUSED, NONE, RETRY, "retry", NONE_PROVED, True, "proved that nothing happened"),
    (SECOND, NONE, None, "dispatch", NONE_PROVED, True, "a repaired payload's first dispatch repeats the write too"),
    (LOST, NATURAL, RECONCILE, "retry", HARMLESS, True, "a repeat is harmless"),
    (LOST, KEY, RECONCILE, "retry", REMEMBERED, True, "the owner recognises the key"),
    (facts(attempt(P), effect=P, state=State.WAITING), KEY, decided(Action.WAIT, P), "retry", REMEMBERED, True,
     "also while it is said to be running"),
    (READ, READING, RETRY, "retry", None, False, "a read has no effect to lose"),
    (facts(state=State.OPEN, effect=N, kind=EffectKind.READ), READING, None, "dispatch", None, False, "a first read"),
    (replace(REFUSED, budgets=budget(retries=1, network_attempts=1)), NONE, RETRY, "retry", NONE_PROVED, True,
     "the last of each budget"),
    (replace(SECOND, budgets=budget(retries=0)), NONE, None, "dispatch", NONE_PROVED, True, "a new revision spends no retry"),
    (REFUSED, NONE, replace(RETRY_LATER, not_before=NOW), "retry", NONE_PROVED, True, "the wait has just ended"),
    (replace(FRESH, deadline_at=None), NONE, None, "dispatch", None, False, "without a deadline of its own"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("known", "of", "last", "kind", "licence", "repeats", "why"), GIVEN, ids=[row[6] for row in GIVEN]
)
def test_a_permit_is_given(known, of, last, kind, licence, repeats, why):
    terms = may_dispatch(facts=known, contract=of, decision=last, holder=None, now=NOW)
    assert isinstance(terms, Granted), why
    assert (terms.kind, terms.licence, terms.repeats_a_write) == (kind, licence, repeats)


TAKEN = decided(Action.RETRY, licence=Licence.ACCEPTED_DUPLICATE_RISK)
OPEN_RISK = facts(attempt(), state=State.OPEN)
AT_RISK = [
    (OPEN_RISK, NONE, TAKEN, A_HARNESS, Licence.ACCEPTED_DUPLICATE_RISK, "two people accepted it"),
    (replace(OPEN_RISK, effect=P), NONE, TAKEN, A_HARNESS, Licence.ACCEPTED_DUPLICATE_RISK, "also while it is running"),
    (OPEN_RISK, NATURAL, TAKEN, A_HARNESS, HARMLESS, "where a safer licence holds, that one is named"),
    (OPEN_RISK, NONE, decided(Action.RETRY), A_HARNESS, None, "a decision without it licenses nothing"),
    (replace(OPEN_RISK, effect=A), NONE, TAKEN, A_HARNESS, None, "it has come to light that it happened"),
    (replace(OPEN_RISK, effect=PART), NONE, TAKEN, A_HARNESS, None, "or that a part did"),
    (replace(OPEN_RISK, state=State.RECONCILING), NONE, TAKEN, A_HARNESS, None, "it is being found out again"),
    (
        replace(OPEN_RISK, state=State.WAITING),
        NONE,
        TAKEN,
        Asker(sender=Sender.WORKER),
        None,
        "it is the harness's to act on",
    ),
    (OPEN_RISK, NONE, TAKEN, Asker(replay=True), None, "a replay is to learn, not to risk"),
    (replace(OPEN_RISK, budgets=budget(retries=0)), NONE, TAKEN, A_HARNESS, None, "budgets hold all the same"),
    (replace(OPEN_RISK, deadline_at=NOW), NONE, TAKEN, A_HARNESS, None, "and so does the deadline"),
]


@pytest.mark.parametrize(("known", "of", "last", "asker", "licence", "why"), AT_RISK, ids=[row[5] for row in AT_RISK])
def test_what_two_people_accepted_licenses_one_permit(known, of, last, asker, licence, why):
    terms = may_dispatch(facts=known, contract=of, decision=last, holder=None, now=NOW, asker=asker)
    assert (terms.licence if isinstance(terms, Granted) else None) is licence, why


TRIES = [
    (FRESH, 1, None, None, "one retry of the agent"),
    (FRESH, 2, None, "AGENT_RETRIES_ENDED", "a second"),
    (FRESH, 1, "op-0", "DONE_IN_THIS_STEP", "it is done"),
]


@pytest.mark.parametrize(("known", "sent", "done", "code", "why"), TRIES, ids=[row[4] for row in TRIES])
def test_an_agents_tries_are_counted(known, sent, done, code, why):
    tries = Tries(step=Step(run="run-1", step="3"), sent=sent, done=done)
    terms = may_dispatch(facts=known, contract=NONE, decision=None, holder=None, now=NOW, tries=tries)
    assert (terms.code if isinstance(terms, Decision) else None) == code, why
    if isinstance(terms, Decision):
        assert terms.recovery_action is Action.STOP
        assert terms.alternatives == ((done,) if done else ())


def settled(outcome, effect):
    return facts(attempt(effect), state=State.SETTLED, outcome=outcome, effect=effect)


NO = [
    (settled(Outcome.APPLIED, A), NATURAL, None, None, "ALREADY_SETTLED", Action.DONE, "it has happened"),
    (settled(Outcome.NOT_APPLIED, N), NATURAL, None, None, "ALREADY_SETTLED", Action.STOP, "it was closed undone"),
    (settled(Outcome.WRITTEN_OFF, U), NATURAL, None, None, "ALREADY_SETTLED", Action.STOP, "it was given up"),
    (settled(Outcome.PARTIALLY_APPLIED, PART), NATURAL, None, None, "ALREADY_SETTLED", Action.STOP, "it was half done"),
    (facts(state=State.SETTLED, outcome=Outcome.READ, effect=N, kind=EffectKind.READ), READING, None, None,
     "ALREADY_SETTLED", Action.DONE, "it was read"),
    (facts(attempt(closed_at=None), state=State.DISPATCHED), NATURAL, None, None, "ATTEMPT_IN_FLIGHT", Action.WAIT,
     "one at a time"),
    (facts(attempt(N), attempt(closed_at=None), state=State.OPEN), NATURAL, None, None, "ATTEMPT_IN_FLIGHT", Action.WAIT,
     "one at a time, whatever the state says"),
    (replace(FRESH, deadline_at=NOW), NONE, None, None, "DEADLINE_PASSED", Action.STOP, "too late, and nothing was sent"),
    (replace(LOST, deadline_at=NOW), NATURAL, RECONCILE, None, "DEADLINE_PASSED", Action.ESCALATE,
     "too late, and it may have happened"),
    (FRESH, NONE, None, "op-0", "POSSIBLE_DUPLICATE", Action.WAIT, "another operation has the same intent"),
    (REFUSED, NONE, RETRY, "op-0", "POSSIBLE_DUPLICATE", Action.WAIT, "also for a repeat"),
    (replace(FRESH, state=State.BLOCKED), NONE, decided(Action.AUTHORIZE, N), None, "A_CODE", Action.AUTHORIZE,
     "an approver has it, before anything is sent"),
    (replace(REFUSED, state=State.BLOCKED), NONE, decided(Action.AUTHORIZE, N), None, "A_CODE", Action.AUTHORIZE,
     "an approver has it"),
    (replace(LOST, state=State.ESCALATED), NATURAL, decided(Action.ESCALATE), None, "A_CODE", Action.ESCALATE,
     "an operator has it, even where a repeat would be harmless"),
    (replace(REFUSED, state=State.VERIFYING), NONE, decided(Action.VERIFY, N), None, "A_CODE", Action.VERIFY,
     "it is being checked"),
    (REFUSED, NONE, decided(Action.REPAIR, N), None, "A_CODE", Action.REPAIR, "the identical call would be refused again"),
    (REFUSED, NONE, decided(Action.STOP, N), None, "A_CODE", Action.STOP, "the answer said to stop"),
    (REFUSED, NONE, decided(Action.REFRESH, N), None, "A_CODE", Action.REFRESH, "it must be read again first"),
    (REFUSED, NONE, RETRY_LATER, None, "WAIT_NOT_OVER", Action.WAIT, "the wait is not over"),
    (replace(REFUSED, budgets=budget(retries=0)), NONE, RETRY, None, "RETRIES_BUDGET_ENDED", Action.STOP, "no retry left"),
    (replace(LOST, budgets=budget(retries=0)), NATURAL, RECONCILE, None, "RETRIES_BUDGET_ENDED", Action.ESCALATE,
     "no retry left, and it may have happened"),
    (replace(SECOND, budgets=budget(network_attempts=0)), NONE, None, None, "NETWORK_ATTEMPTS_BUDGET_ENDED", Action.STOP,
     "no request left, not even for a repaired payload"),
    (replace(READ, budgets=budget(retries=0)), READING, RETRY, None, "RETRIES_BUDGET_ENDED", Action.STOP, "reads end too"),
    (LOST, NONE, RECONCILE, None, "EFFECT_UNKNOWN", Action.RECONCILE, "it may have happened"),
    (LOST, NONE, None, None, "EFFECT_UNKNOWN", Action.RECONCILE, "also when nobody has decided anything"),
    (facts(attempt(P), effect=P), NONE, decided(Action.WAIT, P), None, "EFFECT_UNKNOWN", Action.WAIT, "it is running"),
    (facts(attempt(N), attempt(U), effect=U), NONE, RECONCILE, None, "EFFECT_UNKNOWN", Action.RECONCILE,
     "a later refusal says nothing of an earlier attempt"),
    (facts(attempt(A), effect=A), NATURAL, None, None, "ALREADY_APPLIED", Action.STOP, "there is nothing to repeat"),
    (facts(attempt(PART), effect=PART), NATURAL, None, None, "PARTLY_APPLIED", Action.RECONCILE, "part of it is done"),
]  # fmt: skip


@pytest.mark.parametrize(("known", "of", "last", "holder", "code", "action", "why"), NO, ids=[row[6] for row in NO])
def test_a_permit_is_refused(known, of, last, holder, code, action, why):
    answer = may_dispatch(facts=known, contract=of, decision=last, holder=holder, now=NOW)
    assert isinstance(answer, Decision), why
    assert (answer.code, answer.recovery_action) == (code, action)
    assert answer.effect_status is known.effect, "a refusal changes nothing"
    assert answer.licence is None
    assert answer.message
    assert answer.hint


def test_a_duplicate_is_named():
    answer = may_dispatch(facts=FRESH, contract=NONE, decision=None, holder="op-0", now=NOW)
    assert isinstance(answer, Decision)
    assert answer.alternatives == ("op-0",)


def test_a_wait_says_how_long_it_is():
    answer = may_dispatch(facts=REFUSED, contract=NONE, decision=RETRY_LATER, holder=None, now=NOW)
    assert isinstance(answer, Decision)
    assert (answer.not_before, answer.retry_after_ms) == (NOW + timedelta(seconds=7), 7000)
    flying = facts(attempt(closed_at=None, lapses_at=NOW + timedelta(seconds=9)), state=State.DISPATCHED)
    answer = may_dispatch(facts=flying, contract=NONE, decision=None, holder=None, now=NOW)
    assert isinstance(answer, Decision)
    assert answer.not_before == NOW + timedelta(seconds=9)


TERMS = [
    (15 * 60, 30, 20_000, "the contract's times"),
    (25, 25, 20_000, "the deadline comes before the permit would end"),
    (10, 10, 10_000, "the deadline comes before the timeout"),
    (0.0001, 0.0001, 1, "a permit of a moment has a timeout of a moment"),
]


@pytest.mark.parametrize(("left", "within", "timeout", "why"), TERMS, ids=[row[3] for row in TERMS])
def test_a_permits_times_end_with_the_deadline(left, within, timeout, why):
    known = replace(FRESH, deadline_at=NOW + timedelta(seconds=left))
    terms = may_dispatch(facts=known, contract=NONE, decision=None, holder=None, now=NOW)
    assert isinstance(terms, Granted)
    assert terms.dispatch_by == NOW + timedelta(seconds=within), why
    assert terms.timeout_ms == timeout
    assert terms.lapses_at == terms.dispatch_by + min(timedelta(seconds=20), timedelta(seconds=left)) + SKEW


EFFECTS = st.sampled_from(list(Effect))
MAYBE_DECIDED = st.none() | st.builds(
    decided,
    st.sampled_from(list(Action)),
    EFFECTS,
    not_before=st.none() | st.integers(-100, 100).map(lambda seconds: NOW + timedelta(seconds=seconds)),
)
ATTEMPTS = st.lists(
    st.builds(
        attempt,
        EFFECTS,
        revision=st.integers(1, 2),
        digest=st.sampled_from(["sha256:a", "sha256:b"]),
        idempotency_key=st.sampled_from(["op-1", "op-1#r2", None]),
        principal=st.sampled_from(["svc", "other"]),
        closed_at=st.sampled_from([T0 + timedelta(seconds=52)] * 4 + [None]),
    ),
    max_size=3,
).map(tuple)
HELD = st.builds(
    lambda attempts, **changes: facts(*attempts, **changes),
    ATTEMPTS,
    state=st.sampled_from(list(State)),
    effect=EFFECTS,
    outcome=st.none() | st.sampled_from(list(Outcome)),
    revision=st.integers(1, 2),
    payload_digest=st.sampled_from(["sha256:a", "sha256:b"]),
    deadline_at=st.sampled_from([None, NOW - timedelta(seconds=1), NOW + timedelta(minutes=9)]),
    absence_since=st.none() | st.integers(0, 300).map(lambda seconds: T0 + timedelta(seconds=seconds)),
    touched_since=st.booleans(),
    budgets=st.fixed_dictionaries(
        {}, optional={"retries": st.integers(0, 3), "network_attempts": st.integers(0, 3)}
    ).map(lambda left: budget(**left)),
)


@settings(max_examples=1000, deadline=None)
@given(
    known=HELD,
    of=st.sampled_from([NONE, NATURAL, KEY]),
    last=MAYBE_DECIDED,
    holder=st.none() | st.just("op-0"),
    now=st.integers(0, 48 * 60).map(lambda minutes: T0 + timedelta(minutes=minutes)),
)
def test_no_permit_for_a_write_that_was_sent_without_a_licence(known, of, last, holder, now):
    answer = may_dispatch(facts=known, contract=of, decision=last, holder=holder, now=now)
    if isinstance(answer, Decision):
        assert answer.recovery_action not in (Action.STOP, Action.DONE) or (
            answer is last or known.effect in (N, A) or known.state is State.SETTLED
        ), "what may have happened is not ended by a refusal"
        return
    assert known.state not in (State.SETTLED, State.DISPATCHED)
    assert all(attempt.closed_at is not None for attempt in known.attempts), "law 2: one at a time"
    assert holder is None, "law 11: one intent, one holder"
    assert known.deadline_at is None or now < known.deadline_at
    assert last is None or known.state not in (State.BLOCKED, State.ESCALATED, State.VERIFYING)
    assert now <= answer.dispatch_by < answer.lapses_at
    assert (answer.licence is not None) == answer.repeats_a_write == bool(known.attempts), "law 3: a licence, by name"
    if answer.licence is NONE_PROVED:
        assert known.effect is N, "§7: nothing less than proved"
    if answer.licence is HARMLESS:
        assert of.idempotency.guarantee is Guarantee.NATURAL
        assert not known.touched_since
    if answer.licence is REMEMBERED:
        assert of.idempotency.guarantee is Guarantee.KEY
        assert now < T0 + timedelta(hours=24)
    assert answer.licence is not Licence.ACCEPTED_DUPLICATE_RISK, "two people's decision, never a rule's"
    assert not (known.attempts and known.effect in (A, PART))
