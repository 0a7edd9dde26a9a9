"""Who sends a repeat, and what is learnt by sending the same request again: a row a reason; and the laws over the rest."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.rules.contract import parse_contract
from ledger.rules.decision import Decision
from ledger.rules.facts import AttemptFacts, Budget, Facts
from ledger.rules.licences import Refusal, key_window_ends, may_repeat
from ledger.rules.permits import WORKER_BEGINS_WITHIN, Asker, Granted, may_dispatch
from ledger.rules.replays import KeyWord, may_replay
from ledger.rules.senders import sender_of
from ledger.rules.vocabulary import (
    Action,
    Effect,
    EffectKind,
    FailureClass,
    Licence,
    Request,
    Sender,
    State,
    Verification,
)

T0 = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
NOW = T0 + timedelta(minutes=5)
U, P, N, A = Effect.UNKNOWN, Effect.PENDING, Effect.NONE, Effect.APPLIED
SEND = {"http": {"method": "POST", "path": "/things"}}
KEYED = {"guarantee": "key", "field": "header:K", "retention": "24h"}


def contract(dispatch=SEND, effect="write", idempotency=KEYED, **more):
    known = {"contract": "t", "owner": "o", "effect": effect, "idempotency": idempotency, "deadline": "15m"}
    return parse_contract({**known, **({"dispatch": dispatch} if dispatch else {}), **more})


OURS = contract()
ANOTHERS = contract({**SEND, "principal": "svc-b"})
THE_SAME = contract({**SEND, "as": "env:TOKEN", "principal": "svc"})
NOBODY_SAYS = contract({**SEND, "as": "env:TOKEN"})
THEIRS = contract(None)
NATURAL = contract(idempotency={"guarantee": "natural"})
NONE = contract(idempotency={"guarantee": "none"})
STORES = contract(idempotency={**KEYED, "caches_errors": True})
READ = contract(None, effect="read", idempotency={})
REMEMBERED, PROVED = Licence.KEY_IN_WINDOW, Licence.EFFECT_NONE_PROVED


def attempt(effect=U, **changes):
    known = {
        "attempt_id": "attempt-01", "number": 1, "revision": 1, "digest": "sha256:a", "principal": "svc",
        "idempotency_key": "op-1", "licence": None, "opened_at": T0, "dispatch_by": T0 + timedelta(seconds=30),
        "lapses_at": T0 + timedelta(seconds=52), "closed_at": T0 + timedelta(seconds=52), "effect": effect,
    }  # fmt: skip
    return AttemptFacts(**{**known, **changes})


def facts(*attempts, **changes):
    known = {
        "operation_id": "op-1", "tool": "t", "kind": EffectKind.WRITE, "version": 3, "state": State.RECONCILING,
        "request": Request.ACCEPTED, "effect": U, "verification": Verification.NOT_REQUIRED, "outcome": None,
        "revision": 1, "payload_digest": "sha256:a", "principal": "svc", "attempts": attempts,
        "first_sent_at": T0 if attempts else None, "deadline_at": T0 + timedelta(minutes=15),
    }  # fmt: skip
    return Facts(**{**known, **changes})


def decided(action, licence=None, effect=N):
    return Decision(
        recovery_action=action, failure_class=FailureClass.TRANSIENT, effect_status=effect, request=Request.REJECTED,
        rule="a.rule", code="A_CODE", hint="Do.", message="Done.", licence=licence,
    )  # fmt: skip


SENT = facts(attempt(N), effect=N)
UNKNOWN = facts(attempt())

WHO = [
    (SENT, OURS, decided(Action.RETRY, PROVED), Sender.WORKER, "the contract lets us"),
    (SENT, OURS, decided(Action.RECOVER_ITEMS, PROVED), Sender.WORKER, "items as well"),
    (SENT, THEIRS, decided(Action.RETRY, PROVED), Sender.HARNESS, "the contract does not say how"),
    (facts(effect=N), OURS, decided(Action.RETRY, PROVED), Sender.HARNESS, "a first dispatch is never ours"),
    (SENT, OURS, decided(Action.REPAIR, PROVED), Sender.HARNESS, "another payload is the harness's to make"),
    (SENT, OURS, decided(Action.RECONCILE), Sender.HARNESS, "nothing is licensed"),
    (SENT, ANOTHERS, decided(Action.RETRY, PROVED), Sender.HARNESS, "accounts are never switched"),
    (SENT, THE_SAME, decided(Action.RETRY, REMEMBERED), Sender.WORKER, "the same principal, and it is stated"),
    (SENT, NOBODY_SAYS, decided(Action.RETRY, PROVED), Sender.WORKER, "nothing happened: no key is relied on"),
    (SENT, NOBODY_SAYS, decided(Action.RETRY, REMEMBERED), Sender.HARNESS, "the key may be another principal's"),
    (replace(SENT, principal=""), NOBODY_SAYS, decided(Action.RETRY, REMEMBERED), Sender.WORKER, "neither states one"),
    (replace(SENT, principal=""), THE_SAME, decided(Action.RETRY, PROVED), Sender.HARNESS, "the harness stated none"),
    (facts(attempt(N), effect=N, kind=EffectKind.READ), READ, decided(Action.RETRY), Sender.HARNESS,
     "whoever reads needs the answer"),
]  # fmt: skip


@pytest.mark.parametrize(("held", "of", "decision", "who", "why"), WHO)
def test_who_sends(held, of, decision, who, why):
    assert sender_of(facts=held, contract=of, decision=decision) is who, why


def word(code="", status=None, effect=U, number=2):
    return KeyWord(attempt=number, code=code, status=status, effect=effect)


LOST, BUSY, IN_USE = word("CONNECTION_LOST"), word("RATE_LIMITED", 429, N), word("KEY_IN_USE", 409, P)
BROKEN = word("SERVER_ERROR", 500)

REPLAYS = [
    (UNKNOWN, OURS, (), NOW, None, "the same key, payload and principal, and the owner remembers"),
    (facts(attempt(P), effect=P), OURS, (), NOW, None, "to see whether it has finished"),
    (UNKNOWN, OURS, (LOST, LOST, BUSY, IN_USE), NOW, None, "nobody has said a last word"),
    (UNKNOWN, OURS, (word("UNAUTHENTICATED", 401, N),), NOW, None, "a credential can be renewed"),
    (UNKNOWN, OURS, (BROKEN, BROKEN, BROKEN), NOW, None, "failures are executed anew here"),
    (UNKNOWN, STORES, (BROKEN,), NOW, None, "once may be new"),
    (UNKNOWN, STORES, (BROKEN, LOST, BROKEN), NOW, "STORED_FAILURE", "the same failure twice, and it is kept"),
    (UNKNOWN, STORES, (word("SERVER_ERROR", 503), BROKEN), NOW, None, "another failure each time"),
    (UNKNOWN, OURS, (word("STORED_FAILURE", 500), LOST), NOW, "STORED_FAILURE", "the owner says that it is kept"),
    (UNKNOWN, OURS, (word("KEY_REUSED", 422),), NOW, "KEY_REUSED", "other contents stay other contents"),
    (UNKNOWN, OURS, (word("CARD_DECLINED", 402, N),), NOW, "REFUSED_UNDER_KEY", "refused for good"),
    (UNKNOWN, OURS, (word("PRECONDITION_FAILED", 412),), NOW, "REFUSED_UNDER_KEY", "the owner says that it is too late"),
    (UNKNOWN, OURS, (), T0 + timedelta(hours=24), "KEY_WINDOW_OVER", "the owner may have forgotten"),
    (UNKNOWN, NONE, (), NOW, "EFFECT_UNKNOWN", "nothing is guaranteed"),
    (UNKNOWN, NATURAL, (), NOW, "NO_KEY_LICENCE", "harmless, but nothing is learnt from it"),
    (SENT, OURS, (), NOW, "NO_KEY_LICENCE", "nothing happened: that is a retry"),
    (facts(attempt(A), effect=A), OURS, (), NOW, "ALREADY_APPLIED", "it is known"),
    (facts(attempt(digest="sha256:b")), OURS, (), NOW, "PAYLOAD_CHANGED", "another payload"),
    (facts(attempt(principal="svc-b")), OURS, (), NOW, "PRINCIPAL_CHANGED", "sent as somebody else"),
    (facts(attempt(idempotency_key="k-2")), OURS, (), NOW, "KEY_CHANGED", "another key"),
    (UNKNOWN, ANOTHERS, (), NOW, "ANOTHER_PRINCIPAL", "ours is somebody else's key"),
    (UNKNOWN, NOBODY_SAYS, (), NOW, "PRINCIPAL_UNPROVED", "or may be"),
    (UNKNOWN, THEIRS, (), NOW, "NO_DISPATCH", "nobody says how"),
]  # fmt: skip


@pytest.mark.parametrize(("held", "of", "words", "now", "code", "why"), REPLAYS)
def test_a_replay(held, of, words, now, code, why):
    refusal = may_replay(facts=held, contract=of, words=words, now=now)
    assert (refusal.code if refusal is not None else None) == code, why


WORKER = Asker(sender=Sender.WORKER, at_most=timedelta(seconds=12))
REPLAY = replace(WORKER, replay=True)
WAITED = replace(SENT, state=State.WAITING)

PERMITS = [
    (WAITED, OURS, decided(Action.RETRY, PROVED), WORKER, ("retry", PROVED), "its wait is over"),
    (UNKNOWN, OURS, decided(Action.RECONCILE, effect=U), REPLAY, ("replay", REMEMBERED), "to learn the truth"),
    (replace(WAITED, budgets={"retries": Budget(used=3, limit=3)}), OURS, decided(Action.RETRY, PROVED), WORKER,
     "RETRIES_BUDGET_ENDED", "like a harness's"),
    (replace(UNKNOWN, budgets={"retries": Budget(used=3, limit=3)}), OURS, decided(Action.RECONCILE, effect=U), REPLAY,
     ("replay", REMEMBERED), "a replay is a poll, not a retry"),
    (replace(UNKNOWN, budgets={"network_attempts": Budget(used=3, limit=3)}), OURS, decided(Action.RECONCILE, effect=U),
     REPLAY, "NETWORK_ATTEMPTS_BUDGET_ENDED", "but a request it is"),
    (WAITED, OURS, decided(Action.RETRY, PROVED), REPLAY, "NO_KEY_LICENCE", "what did not happen is no replay's matter"),
    (UNKNOWN, NATURAL, decided(Action.RECONCILE, effect=U), REPLAY, "NO_KEY_LICENCE", "nothing would be learnt"),
    (facts(effect=N, state=State.WAITING), OURS, None, WORKER, "THE_HARNESS_SENDS", "a first dispatch is never ours"),
    (replace(SENT, state=State.OPEN), OURS, decided(Action.RETRY, PROVED), WORKER, "THE_HARNESS_SENDS",
     "what is open is the harness's"),
    (replace(WAITED, deadline_at=NOW), OURS, decided(Action.RETRY, PROVED), WORKER, "DEADLINE_PASSED", "too late"),
]  # fmt: skip


@pytest.mark.parametrize(("held", "of", "decision", "asker", "expected", "why"), PERMITS)
def test_a_workers_permit(held, of, decision, asker, expected, why):
    terms = may_dispatch(facts=held, contract=of, decision=decision, holder=None, now=NOW, asker=asker)
    told = (terms.kind, terms.licence) if isinstance(terms, Granted) else terms.code
    assert told == expected, why


def test_a_workers_permit_is_short():
    terms = may_dispatch(
        facts=WAITED, contract=OURS, decision=decided(Action.RETRY, PROVED), holder=None, now=NOW, asker=WORKER
    )
    assert isinstance(terms, Granted)
    assert (terms.dispatch_by, terms.timeout_ms) == (NOW + WORKER_BEGINS_WITHIN, 12_000)


EFFECTS = st.sampled_from(list(Effect))
ATTEMPTS = st.lists(
    st.builds(
        attempt,
        effect=EFFECTS,
        digest=st.sampled_from(["sha256:a", "sha256:b"]),
        principal=st.sampled_from(["svc", "svc-b"]),
        idempotency_key=st.sampled_from(["op-1", "op-2", None]),
        opened_at=st.integers(0, 200).map(lambda minutes: T0 + timedelta(minutes=minutes)),
        closed_at=st.sampled_from([None, T0 + timedelta(minutes=1)]),
    ),
    max_size=3,
)
OPERATIONS = st.builds(
    lambda attempts, state, effect, deadline: facts(
        *(replace(each, number=number, attempt_id=f"attempt-{number:02d}") for number, each in enumerate(attempts, 1)),
        state=state,
        effect=effect,
        deadline_at=T0 + timedelta(minutes=deadline),
    ),
    ATTEMPTS,
    st.sampled_from(list(State)),
    EFFECTS,
    st.integers(0, 300),
)
CONTRACTS = st.sampled_from([OURS, ANOTHERS, THE_SAME, NOBODY_SAYS, THEIRS, NATURAL, NONE, STORES])
DECISIONS = st.one_of(st.none(), st.builds(decided, st.sampled_from(list(Action)), effect=EFFECTS))


@settings(max_examples=400, deadline=None)
@given(
    held=OPERATIONS, of=CONTRACTS, decision=DECISIONS, minutes=st.integers(0, 400), replays=st.booleans(),
    seconds=st.integers(1, 60),
)  # fmt: skip
def test_nothing_is_sent_without_a_licence_or_after_the_deadline(held, of, decision, minutes, replays, seconds):
    now = T0 + timedelta(minutes=minutes)
    asker = Asker(sender=Sender.WORKER, replay=replays, at_most=timedelta(seconds=seconds))
    terms = may_dispatch(facts=held, contract=of, decision=decision, holder=None, now=now, asker=asker)
    if not isinstance(terms, Granted):
        return
    licence = may_repeat(facts=held, contract=of, now=now)
    assert held.attempts, "a first dispatch is never ours"
    assert all(each.closed_at is not None for each in held.attempts), "one attempt in flight at most"
    assert terms.licence is licence
    assert not isinstance(licence, Refusal)
    assert now < held.deadline_at
    assert terms.dispatch_by <= held.deadline_at
    assert now + timedelta(milliseconds=terms.timeout_ms) <= max(held.deadline_at, now + timedelta(milliseconds=1))
    assert terms.timeout_ms <= seconds * 1000
    if replays:
        assert (terms.kind, licence) == ("replay", REMEMBERED)
        ends = key_window_ends(facts=held, contract=of)
        assert ends is not None
        assert now < ends
        assert terms.dispatch_by < ends + timedelta(minutes=1), "the margin is larger than the time to begin"
        for each in held.attempts:
            if each.effect is not N:
                told = (each.idempotency_key, each.digest, each.principal)
                assert told == ("op-1", held.payload_digest, held.principal), "another request than ours"
