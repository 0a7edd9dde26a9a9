"""What an owner's notification means: the table, and the laws that no order of messages breaks."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.rules.facts import AttemptFacts, Facts
from ledger.rules.notices import Known, NoticeFacts, Weight, reaches, weigh
from ledger.rules.vocabulary import Effect, EffectKind, Outcome, Request, State, Verification

NOW = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
BEFORE, AFTER = NOW - timedelta(minutes=5), NOW + timedelta(minutes=5)
APPLIED, NONE, PENDING, PARTIAL, UNKNOWN = (
    Effect.APPLIED, Effect.NONE, Effect.PENDING, Effect.PARTIAL, Effect.UNKNOWN,
)  # fmt: skip
W = Weight


def attempt(number: int = 1, effect: Effect = UNKNOWN, **more: Any) -> AttemptFacts:
    opened = NOW - timedelta(minutes=10 - number)
    values: dict[str, Any] = {
        "attempt_id": f"attempt-{number:02d}",
        "number": number,
        "revision": 1,
        "digest": "sha256:00",
        "principal": "",
        "idempotency_key": "t-1",
        "licence": None,
        "opened_at": opened,
        "dispatch_by": opened,
        "lapses_at": opened,
        "closed_at": opened,
        "effect": effect,
        **more,
    }
    return AttemptFacts(**values)


def facts(
    effect: Effect = UNKNOWN,
    *,
    outcome: Outcome | None = None,
    attempts: Any = None,
    kind: EffectKind = EffectKind.WRITE,
) -> Facts:
    return Facts(
        operation_id="t-1",
        tool="tickets.create",
        kind=kind,
        version=3,
        state=State.SETTLED if outcome else State.RECONCILING,
        request=Request.ACCEPTED,
        effect=effect,
        verification=Verification.NOT_REQUIRED,
        outcome=outcome,
        revision=1,
        payload_digest="sha256:00",
        attempts=(attempt(effect=effect),) if attempts is None else attempts,
    )


def said(effect: Effect | None, at: datetime | None = None, **more: Any) -> NoticeFacts:
    return NoticeFacts(effect=effect, event_at=at, **more)


SINCE = Known(since=NOW)
DIFFERS = (("title", "a", "b"),)
TWO = (attempt(1), attempt(2))
ROWS: list[tuple[Facts, NoticeFacts, Weight, str]] = [
    # Nothing is known yet.
    (facts(), said(APPLIED), W.COUNTS, "the owner says that it happened"),
    (facts(), said(APPLIED, BEFORE), W.COUNTS, "what has happened has happened, whenever"),
    (facts(), said(PENDING), W.COUNTS, "it took it"),
    (facts(), said(NONE), W.COUNTS, "one attempt, which is over: nothing else can be meant"),
    (facts(), said(None), W.SETTLES_NOTHING, "no condition of the contract holds"),
    (facts(), said(APPLIED, differs=DIFFERS), W.CONFLICT, "something else than was meant"),
    (facts(), said(NONE, differs=DIFFERS), W.SETTLES_NOTHING, "the refusal of something else"),
    (facts(kind=EffectKind.READ), said(APPLIED), W.SETTLES_NOTHING, "a read has no effect"),
    (facts(NONE, attempts=()), said(APPLIED), W.CONFLICT, "nothing was ever permitted"),
    (facts(NONE, attempts=()), said(NONE), W.SETTLES_NOTHING, "and nothing is what it says"),
    # It is running.
    (facts(PENDING), said(APPLIED, BEFORE), W.COUNTS, "done, told late"),
    (facts(PENDING), said(NONE, AFTER), W.COUNTS, "it failed after all"),
    (facts(PENDING), said(NONE, BEFORE), W.OUT_OF_ORDER, "an earlier failure undoes no later start"),
    (facts(PENDING), said(NONE), W.COUNTS, "undated, of the only attempt"),
    (facts(PARTIAL), said(PENDING, BEFORE), W.OUT_OF_ORDER, "an earlier stage"),
    # Several attempts.
    (facts(attempts=TWO), said(NONE), W.SETTLES_NOTHING, "perhaps of the first one"),
    (facts(attempts=TWO), said(NONE, NOW), W.COUNTS, "after both were opened, with one key"),
    (facts(attempts=TWO), said(NONE, TWO[0].opened_at), W.SETTLES_NOTHING, "before the second was opened"),
    (facts(attempts=TWO), said(APPLIED), W.COUNTS, "whichever of them it was"),
    (
        facts(attempts=(attempt(1), attempt(2, idempotency_key="t-1#r2"))),
        said(NONE, NOW, key="t-1#r2"),
        W.SETTLES_NOTHING,
        "the other key's request stays open",
    ),
    (
        facts(attempts=(attempt(1, NONE), attempt(2, idempotency_key="t-1#r2"))),
        said(NONE, NOW, key="t-1#r2"),
        W.COUNTS,
        "the first is proved none already",
    ),
    (
        facts(attempts=(attempt(1, NONE), attempt(2, idempotency_key="t-1#r2"))),
        said(NONE, NOW, key="t-1"),
        W.SETTLES_NOTHING,
        "a late word on the first key",
    ),
    (facts(attempts=(attempt(closed_at=None),)), said(NONE), W.SETTLES_NOTHING, "it may still be sending"),
    (facts(attempts=(attempt(network_attempts=3),)), said(NONE), W.SETTLES_NOTHING, "one of three requests"),
    # It is known.
    (facts(APPLIED), said(APPLIED), W.CONFIRMS, "as it is known"),
    (facts(APPLIED), said(PENDING, AFTER), W.OUT_OF_ORDER, "a stage before"),
    (facts(APPLIED, outcome=Outcome.APPLIED), said(APPLIED), W.CONFIRMS, "late, and it agrees"),
    (facts(APPLIED, outcome=Outcome.APPLIED), said(NONE, BEFORE), W.OUT_OF_ORDER, "the failure came first"),
    (facts(APPLIED, outcome=Outcome.APPLIED), said(NONE, AFTER), W.CONTRADICTS, "undone, or never done"),
    (facts(APPLIED, outcome=Outcome.APPLIED), said(NONE), W.CONTRADICTS, "undated: a person looks"),
    (facts(APPLIED, outcome=Outcome.APPLIED), said(APPLIED, differs=DIFFERS), W.CONTRADICTS, "not what was meant"),
    (facts(NONE, outcome=Outcome.NOT_APPLIED), said(NONE), W.CONFIRMS, "late, and it agrees"),
    (facts(NONE, outcome=Outcome.NOT_APPLIED), said(APPLIED, BEFORE), W.CONTRADICTS, "it happened after all"),
    (facts(NONE, outcome=Outcome.NOT_APPLIED), said(PENDING, BEFORE), W.OUT_OF_ORDER, "it had begun, and ended"),
    (facts(NONE, outcome=Outcome.NOT_APPLIED), said(PENDING, AFTER), W.CONTRADICTS, "it has begun after all"),
    (facts(NONE), said(APPLIED), W.COUNTS, "not settled yet: the effect outranks the absence"),
    (facts(UNKNOWN, outcome=Outcome.WRITTEN_OFF), said(APPLIED), W.CONTRADICTS, "now it can be told"),
    (facts(UNKNOWN, outcome=Outcome.WRITTEN_OFF), said(NONE), W.CONTRADICTS, "now it can be told"),
    (facts(PARTIAL, outcome=Outcome.PARTIALLY_APPLIED), said(PARTIAL), W.CONFIRMS, "as it is known"),
    (facts(PARTIAL, outcome=Outcome.PARTIALLY_APPLIED), said(APPLIED), W.CONTRADICTS, "all of it after all"),
]


@pytest.mark.parametrize(
    ("before", "notice", "weight", "why"), ROWS, ids=[f"{i} {row[-1]}" for i, row in enumerate(ROWS)]
)
def test_the_table_of_notifications(before: Facts, notice: NoticeFacts, weight: Weight, why: str) -> None:
    known = Known(since=None) if before.effect is UNKNOWN else SINCE
    found = weigh(notice=notice, facts=before, known=known)
    assert found.weight is weight, why
    assert found.reason.endswith(".")


def test_a_key_guarantee_makes_many_requests_one() -> None:
    before = facts(attempts=(attempt(network_attempts=3),))
    found = weigh(notice=said(NONE), facts=before, known=Known(since=None, one_effect_a_key=True))
    assert found.weight is W.COUNTS


effects = st.sampled_from(Effect)
moments = st.none() | st.sampled_from([BEFORE, NOW, AFTER])
attempts = st.lists(
    st.builds(
        attempt,
        number=st.integers(1, 5),
        effect=effects,
        idempotency_key=st.sampled_from(["t-1", "t-1#r2"]),
        closed_at=st.sampled_from([None, BEFORE]),
        network_attempts=st.integers(0, 2),
    ),
    min_size=1,
    max_size=4,
).map(tuple)


@given(effect=effects, notice=st.builds(said, st.none() | effects, moments), tries=attempts, since=moments)
def test_no_notification_turns_applied_into_anything_else(
    effect: Effect, notice: NoticeFacts, tries: Any, since: datetime | None
) -> None:
    found = weigh(notice=notice, facts=facts(APPLIED, attempts=tries), known=Known(since=since))
    assert found.effect is None, "what happened stays what happened; only a person is asked"


@given(notice=st.builds(said, st.just(NONE), moments, key=st.none() | st.just("t-1")), tries=attempts, since=moments)
def test_none_never_counts_while_something_else_may_have_been_sent(
    notice: NoticeFacts, tries: Any, since: datetime | None
) -> None:
    found = weigh(notice=notice, facts=facts(UNKNOWN, attempts=tries), known=Known(since=since))
    if found.weight is W.COUNTS:
        open_tries = [each for each in tries if each.effect is not NONE]
        assert all(each.closed_at is not None for each in tries)
        assert len({each.idempotency_key for each in open_tries}) <= 1
        assert reaches(notice=notice, attempts=tries, one_effect_a_key=False)


@given(effect=st.sampled_from([NONE, PENDING, PARTIAL]), tries=attempts)
def test_the_older_of_two_words_never_undoes_the_newer(effect: Effect, tries: Any) -> None:
    found = weigh(notice=said(effect, BEFORE), facts=facts(PENDING, attempts=tries), known=SINCE)
    assert found.weight is not W.COUNTS
