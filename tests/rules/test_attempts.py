"""What is known of one attempt once more has been said: a row a reason."""

import itertools
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.rules.attempts import Word, attempt_after, covered, running
from ledger.rules.facts import AttemptFacts
from ledger.rules.vocabulary import Effect, FailureClass, Proof

T0 = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
ENDS = T0 + timedelta(seconds=62)


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
        "lapses_at": ENDS,
        "closed_at": None,
        "effect": effect,
        "network_attempts": 0,
    }
    return AttemptFacts(**{**known, **changes})


def said(held, effect, *, proof=None, failure=FailureClass.UNKNOWN_OUTCOME, network=1, now=T0):
    return attempt_after(held, effect=effect, proof=proof, failure_class=failure, network_attempts=network, now=now)


U, P, N, A, PART = Effect.UNKNOWN, Effect.PENDING, Effect.NONE, Effect.APPLIED, Effect.PARTIAL
PROOFS = {N: Proof.NOT_SENT, A: Proof.OWNER_RESULT, PART: Proof.OWNER_RESULT, U: None, P: None}

ROWS = [
    (U, N, N, "a proof settles what was open"),
    (U, A, A, "so does a receipt"),
    (U, P, P, "accepted, still running"),
    (U, PART, PART, "part of it"),
    (U, U, U, "nothing new"),
    (P, U, U, "the latest word of somebody who may say it: it is no longer known to be running"),
    (P, N, N, "it ended without effect"),
    (P, A, A, "it ended well"),
    (P, PART, PART, "it ended half way"),
    (PART, N, N, "what was partly done was undone, says somebody who may"),
    (PART, P, P, "it goes on"),
    (PART, A, A, "the rest came"),
    (PART, U, U, "what was partly done is in doubt again"),
    (N, A, A, "a late receipt outranks a proof of absence"),
    (N, U, N, "a later timeout unsays no proof"),
    (N, P, N, "nor does a claim that it runs"),
    (N, PART, N, "nor a part"),
    (A, N, A, "a proved effect is not unsaid by a later refusal"),
    (A, U, A, "nor by a timeout"),
    (A, P, A, "nor by a claim that it still runs"),
    (A, PART, A, "nor by a part"),
]  # fmt: skip


@pytest.mark.parametrize(("held", "new", "then", "why"), ROWS, ids=[row[3] for row in ROWS])
def test_effect_after_one_more_reading(held, new, then, why):
    after = said(attempt(held, proof=PROOFS[held]), new, proof=PROOFS[new], failure=FailureClass.FATAL)
    assert after.effect is then, why
    assert after.proof is PROOFS[then], "a proof stays with the effect that it proves"
    assert after.failure_class is (FailureClass.FATAL if held not in (A, N) or new is A else None)


def test_the_table_has_every_pair():
    told = {(held, new) for held, new, *_ in ROWS} | {(held, held) for held in Effect}
    assert told == set(itertools.product(Effect, Effect))


REPORTED, IN_FLIGHT = T0, None
WORDS = [
    (Word.POLL, P, REPORTED, U, U, "the owner says that the running work ended badly: what it left is unknown"),
    (Word.POLL, P, REPORTED, N, N, "or that it ended without an effect"),
    (Word.POLL, P, REPORTED, A, A, "or that it is done"),
    (Word.POLL, U, REPORTED, N, U, "whose work failed is not known, so it does not clear a request that got no answer"),
    (Word.POLL, U, REPORTED, A, A, "what is there is there"),
    (Word.POLL, U, REPORTED, P, P, "likewise what runs"),
    (Word.POLL, U, IN_FLIGHT, N, N, "nothing else was reported: the poll is how the request is known to be taken"),
    (Word.FOUND, U, REPORTED, A, A, "an exact match"),
    (Word.FOUND, P, REPORTED, A, A, "also of what was running"),
    (Word.FOUND, U, REPORTED, N, U, "absence is graded elsewhere, never taken from a report"),
    (Word.ASIDE, P, REPORTED, U, P, "a lookup that found nothing out does not stop what runs"),
    (Word.ASIDE, A, REPORTED, U, A, "nor undo what is done"),
    (Word.ASIDE, PART, REPORTED, U, PART, "nor what is done in part"),
    (Word.ASIDE, U, IN_FLIGHT, U, U, "and of an open one it says nothing either"),
]  # fmt: skip


@pytest.mark.parametrize(("word", "held", "closed", "new", "then", "why"), WORDS, ids=[row[5] for row in WORDS])
def test_whose_word_it_is_goes_first(word, held, closed, new, then, why):
    before = attempt(held, proof=PROOFS[held], closed_at=closed, failure_class=FailureClass.SUCCESS)
    after = attempt_after(
        before,
        effect=new,
        proof=PROOFS[new],
        failure_class=FailureClass.VERIFICATION,
        network_attempts=1,
        now=T0,
        word=word,
    )
    assert after.effect is then, why
    taken = (word, held, new) in [(Word.POLL, U, N), (Word.FOUND, U, N)] and closed is not None
    if word is Word.ASIDE or taken:
        assert (after.proof, after.failure_class) == (before.proof, before.failure_class)


SAME_KEY = [
    ([("op-1", U, REPORTED), ("op-1", P, REPORTED)], [P, P], "the one that was lost is running"),
    ([("op-1", N, REPORTED), ("op-1", P, REPORTED)], [N, P], "one that was refused is not"),
    ([("op-1#r2", U, REPORTED), ("op-1", P, REPORTED)], [U, P], "another key is another request"),
    ([(None, U, REPORTED), ("op-1", P, REPORTED)], [U, P], "without a key nobody could know it"),
    ([("op-1", P, REPORTED), ("op-1", U, IN_FLIGHT)], [P, U], "one in flight will say so itself"),
]


@pytest.mark.parametrize(("held", "then", "why"), SAME_KEY, ids=[row[2] for row in SAME_KEY])
def test_a_key_in_use_says_which_requests_run(held, then, why):
    attempts = [attempt(effect, idempotency_key=key, closed_at=closed) for key, effect, closed in held]
    assert [each.effect for each in running(attempts, key="op-1")] == then, why
    assert running(attempts, key=None) == tuple(attempts)


TIMES = [
    (None, T0, T0, ENDS, "a report closes it"),
    (T0, T0 + timedelta(seconds=5), T0, ENDS, "a second report does not close it again"),
    (None, ENDS + timedelta(minutes=1), ENDS + timedelta(minutes=1), ENDS + timedelta(minutes=1),
     "a report after the lapse moves the possible end: absence counts from there"),
    (T0, ENDS + timedelta(minutes=1), T0, ENDS + timedelta(minutes=1), "also when it had been closed before"),
    (None, ENDS, ENDS, ENDS, "at the very end nothing moves"),
]  # fmt: skip


@pytest.mark.parametrize(("closed", "now", "closed_then", "ends_then", "why"), TIMES, ids=[row[4] for row in TIMES])
def test_times_after_one_more_reading(closed, now, closed_then, ends_then, why):
    after = said(attempt(closed_at=closed), U, now=now)
    assert (after.closed_at, after.lapses_at) == (closed_then, ends_then), why


def test_requests_are_counted_by_the_largest_report():
    assert said(attempt(network_attempts=3), U, network=2).network_attempts == 3
    assert said(attempt(network_attempts=3), U, network=5).network_attempts == 5


COVERED = [
    ([U], A, [A], "a match by key speaks for the attempt"),
    ([U, P, PART], N, [N, N, N], "a graded absence covers every attempt that is open"),
    ([N, U], A, [N, A], "what is proved is not touched"),
    ([A, U], N, [A, N], "a proved effect stays"),
    ([U, U], U, [U, U], "a conflict leaves all of them in doubt"),
    ([P], U, [U], "also what was thought to be running"),
    ([], N, [], "nothing to cover"),
]


@pytest.mark.parametrize(("held", "new", "then", "why"), COVERED, ids=[row[3] for row in COVERED])
def test_what_covers_all_attempts(held, new, then, why):
    attempts = tuple(attempt(effect, number=n, proof=PROOFS[effect]) for n, effect in enumerate(held, start=1))
    after = covered(attempts, effect=new, proof=PROOFS[new])
    assert [each.effect for each in after] == then, why
    assert [each.proof for each in after] == [PROOFS[each.effect] for each in after]


EFFECTS = st.sampled_from(list(Effect))


@settings(max_examples=200, deadline=None)
@given(readings=st.lists(st.tuples(EFFECTS, st.integers(0, 300)), max_size=8))
def test_what_is_proved_is_never_forgotten(readings):
    held = attempt()
    applied = False
    opened = (held.opened_at, held.dispatch_by, held.number, held.revision, held.digest, held.idempotency_key)
    for effect, seconds in readings:
        before = held
        held = said(held, effect, proof=PROOFS[effect], now=T0 + timedelta(seconds=seconds))
        applied = applied or effect is A
        assert (held.effect is A) == applied, "applied once, applied for good; and never by itself"
        assert held.effect is not N or before.effect in (U, P, PART, N)
        assert held.lapses_at >= before.lapses_at, "the possible end never comes sooner"
        assert before.closed_at is None or held.closed_at == before.closed_at
        assert held.effect not in (N, A) or held.proof is not None
    assert opened == (held.opened_at, held.dispatch_by, held.number, held.revision, held.digest, held.idempotency_key)
