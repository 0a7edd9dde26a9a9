"""Each way to be licensed, and each thing that takes the licence away."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.rules.contract import parse_contract
from ledger.rules.facts import AttemptFacts, Facts
from ledger.rules.licences import Refusal, key_window_ends, margin, may_repeat
from ledger.rules.vocabulary import Effect, EffectKind, Licence, Outcome, Request, State, Verification

T0 = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
DAY = timedelta(hours=24)
SOON = T0 + timedelta(minutes=5)


def contract(**idempotency):
    return parse_contract({"contract": "t", "owner": "o", "effect": "write", "idempotency": idempotency})


NONE = contract()
NATURAL = contract(guarantee="natural")
KEY = contract(guarantee="key", field="header:K", retention="24h")
KEY_KEPT = contract(guarantee="key", field="header:K", retention="24h", repair_key="same")
KEY_FOREVER = contract(guarantee="key", field="header:K")
KEY_SILENT = contract(
    guarantee="key", field="header:K", retention="24h", on_payload_mismatch="silent_original", repair_key="same"
)


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
        "state": State.RECONCILING,
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


U, N = Effect.UNKNOWN, Effect.NONE
PROVED, HARMLESS, REMEMBERED = Licence.EFFECT_NONE_PROVED, Licence.NATURAL_IDEMPOTENCY, Licence.KEY_IN_WINDOW
LAST_MOMENT = T0 + DAY - timedelta(minutes=14, seconds=24)

ROWS = [
    (NONE, facts(attempt(N), effect=N), SOON, PROVED, "proved that it did not happen"),
    (NONE, facts(attempt(N), attempt(N), effect=N), SOON, PROVED, "every attempt"),
    (NONE, facts(attempts=(), effect=N), SOON, PROVED, "nothing was ever sent"),
    (NONE, facts(kind=EffectKind.READ, effect=N), SOON, PROVED, "a read has no effect to lose"),
    (NONE, facts(effect=N), SOON, "EFFECT_UNKNOWN", "the sum says none, an attempt of it does not"),
    (
        NONE,
        facts(effect=N, absence_since=T0 + timedelta(minutes=3)),
        SOON,
        PROVED,
        "an absence after its end covers it",
    ),
    (
        NONE,
        facts(attempt(closed_at=None), effect=N, absence_since=T0 + timedelta(minutes=3)),
        SOON,
        "EFFECT_UNKNOWN",
        "never while one is in flight",
    ),
    (NONE, facts(), SOON, "EFFECT_UNKNOWN", "no promise, no repeat"),
    (NONE, facts(), T0 + timedelta(days=900), "EFFECT_UNKNOWN", "time is no licence"),
    (NONE, facts(attempt(N), attempt(U)), SOON, "EFFECT_UNKNOWN", "one unknown is enough"),
    (NONE, facts(effect=Effect.PENDING), SOON, "EFFECT_UNKNOWN", "still running"),
    (NATURAL, facts(), SOON, HARMLESS, "repeats are harmless"),
    (NATURAL, facts(payload_digest="sha256:b"), SOON, "PAYLOAD_CHANGED", "another payload is another request"),
    (NATURAL, facts(touched_since=True), SOON, "TOUCHED_SINCE", "it would undo a later operation"),
    (NATURAL, facts(attempt(N), effect=N, payload_digest="sha256:b"), SOON, PROVED, "a repair of what was refused"),
    (NATURAL, facts(effect=Effect.APPLIED), SOON, "ALREADY_APPLIED", "nothing to repeat"),
    (KEY, facts(), SOON, REMEMBERED, "the owner knows the key"),
    (KEY, facts(attempt(), attempt()), SOON, REMEMBERED, "twice already"),
    (KEY, facts(), LAST_MOMENT - timedelta(seconds=1), REMEMBERED, "just inside the window"),
    (KEY, facts(), LAST_MOMENT, "KEY_WINDOW_OVER", "the margin: one hundredth of a day"),
    (KEY, facts(), T0 + DAY * 2, "KEY_WINDOW_OVER", "it would run again"),
    (KEY, facts(first_sent_at=T0 - DAY), SOON, "KEY_WINDOW_OVER", "counted from the first send"),
    (KEY, facts(attempt(key_expired=True)), SOON, "KEY_EXPIRED", "the owner says that it has forgotten it already"),
    (KEY, facts(first_sent_at=SOON), LAST_MOMENT, "KEY_WINDOW_OVER", "the earliest that may have been sent"),
    (KEY, facts(payload_digest="sha256:b"), SOON, "PAYLOAD_CHANGED", "same key, other payload"),
    (KEY, facts(principal="svc-2"), SOON, "PRINCIPAL_CHANGED", "keys belong to whoever sent them"),
    (KEY, facts(revision=2), SOON, "KEY_CHANGED", "a new key is no licence"),
    (KEY, facts(attempt(idempotency_key=None)), SOON, "KEY_CHANGED", "an attempt without the key"),
    (
        KEY,
        facts(attempt(N, digest="sha256:z", idempotency_key="op-0"), attempt()),
        SOON,
        REMEMBERED,
        "an attempt proved none under another key is no matter",
    ),
    (
        KEY_KEPT,
        facts(attempt(N, digest="sha256:z"), attempt()),
        SOON,
        "PAYLOAD_CHANGED",
        "a refused payload may still be stored under this key",
    ),
    (KEY_SILENT, facts(payload_digest="sha256:b"), SOON, "PAYLOAD_CHANGED", "it would answer for the first payload"),
    (KEY_FOREVER, facts(), SOON, "KEY_RETENTION_UNKNOWN", "a promise without an end is none"),
    (KEY, facts(attempt(N), effect=U), SOON, REMEMBERED, "the key is known, whatever the sum says"),
    (KEY, facts(attempt(N, idempotency_key="op-0"), effect=U), SOON, "NO_EARLIER_KEY", "nobody carried this key"),
    (KEY, facts(effect=Effect.PARTIAL), SOON, "PARTLY_APPLIED", "items need their own licences"),
    (KEY, facts(outcome=Outcome.WRITTEN_OFF), SOON, "WRITTEN_OFF", "closed with its effect unknown"),
    (NATURAL, facts(outcome=Outcome.WRITTEN_OFF), SOON, "WRITTEN_OFF", "that never licenses a repeat"),
]


@pytest.mark.parametrize(("promise", "known", "now", "expected", "why"), ROWS)
def test_may_repeat(promise, known, now, expected, why):
    found = may_repeat(facts=known, contract=promise, now=now)
    if isinstance(found, Refusal):
        assert found.code == expected, why
        assert found.sentence.endswith(".")
    else:
        assert found is expected, why


def test_the_margin():
    assert margin(timedelta(minutes=10)) == timedelta(minutes=1)
    assert margin(timedelta(days=30)) == timedelta(hours=7, minutes=12)


def test_a_window_shorter_than_its_margin_is_empty():
    short = contract(guarantee="key", field="header:K", retention="30s")
    found = may_repeat(facts=facts(), contract=short, now=T0)
    assert isinstance(found, Refusal)
    assert found.code == "KEY_WINDOW_OVER"


WINDOWS = [
    (NONE, facts(), None, "no key"),
    (NATURAL, facts(), None, "no key"),
    (KEY_FOREVER, facts(), None, "no retention"),
    (KEY, facts(attempts=(), first_sent_at=None), None, "nothing sent"),
    (KEY, facts(), LAST_MOMENT, "from the first send"),
    (KEY, facts(first_sent_at=None), LAST_MOMENT, "from the attempt, when nothing else is known"),
]


@pytest.mark.parametrize(("promise", "known", "ends", "why"), WINDOWS)
def test_the_window(promise, known, ends, why):
    assert key_window_ends(facts=known, contract=promise) == ends, why


FACTS = st.builds(
    facts,
    st.builds(
        attempt,
        st.sampled_from(Effect),
        digest=st.sampled_from(["sha256:a", "sha256:b"]),
        principal=st.sampled_from(["svc", "other"]),
        idempotency_key=st.sampled_from([None, "op-1", "op-1#r2"]),
        closed_at=st.sampled_from([None, T0 + timedelta(seconds=62)]),
    ),
    effect=st.sampled_from(Effect),
    revision=st.integers(1, 2),
    touched_since=st.booleans(),
    absence_since=st.sampled_from([None, SOON]),
    outcome=st.sampled_from([None, *Outcome]),
)


@given(known=FACTS, minutes=st.integers(0, 3_000))
@settings(deadline=None)
def test_doubt_is_never_licensed_without_a_promise(known, minutes):
    now = T0 + timedelta(minutes=minutes)
    if known.effect is not Effect.NONE:
        assert isinstance(may_repeat(facts=known, contract=NONE, now=now), Refusal)
        for promise in (NATURAL, KEY, KEY_KEPT):
            found = may_repeat(facts=known, contract=promise, now=now)
            assert found is not Licence.EFFECT_NONE_PROVED
            if isinstance(found, Licence):
                (one,) = known.attempts
                assert one.effect is Effect.NONE or one.digest == known.payload_digest
                assert known.outcome is not Outcome.WRITTEN_OFF
    if minutes >= 24 * 60:
        for promise in (KEY, KEY_KEPT):
            assert may_repeat(facts=known, contract=promise, now=now) is not Licence.KEY_IN_WINDOW
