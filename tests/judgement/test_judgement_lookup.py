"""What a reported lookup and a check of the outcome say: a row a signal, with its reason."""

from datetime import timedelta

import pytest
from stated import KEYED, LOOKUP, NOW, READ, WRITE, answer, broke, judged

from ledger.rules.contract import parse_stated_contract
from recovery.judgement.read import read_observation
from recovery.judgement.reading import ObservationInvalid

UNKNOWN = ("unknown_outcome", "unknown", "reconcile")
GRADED = {**WRITE, "lookup": [{**LOOKUP, "clean_reads": 1}]}


def looked(way="by_key", /, *, matches=0, **more):
    return {"kind": "lookup", "lookup": way, "exact_key": True, "matches": matches, "complete": True, **more}


ROWS = [
    (looked(matches=1), ("success", "applied", "done"), "an exact match"),
    (looked("search", matches=1), ("success", "applied", "done"), "an index shows what is there"),
    (looked(matches=1, exact_key=False), UNKNOWN, "it may be another's"),
    (looked(matches=2), ("verification", "applied", "reconcile"), "more than one of what was to be made once"),
    (looked("search"), UNKNOWN, "an index lags"),
    (looked("list"), UNKNOWN, "likewise"),
    (looked(age_s=10**6), UNKNOWN, "no contract says how long the owner may still be working"),
    (looked(failed={"status": 503}), UNKNOWN, "a failed lookup found nothing out"),
    (looked(matches=None), UNKNOWN, "it does not say what it found"),
]  # fmt: skip


@pytest.mark.parametrize(("seen", "expected", "why"), ROWS)
def test_a_write(seen, expected, why):
    judgement = judged(seen)
    decision = judgement.decision
    assert (decision.failure_class, judgement.reading.effect, decision.recovery_action) == expected, why


PAGES = [{"cursor": None, "next_cursor": "c2", "count": 0}, {"cursor": "c2", "next_cursor": None, "count": 0}]
ABSENCES = [
    (looked(age_s=600), GRADED, "none", "every condition holds"),
    (looked(age_s=60), GRADED, "unknown", "the attempt could still be running"),
    (looked(), GRADED, "unknown", "nobody says when it began"),
    (looked(age_s=600, exact_key=False), GRADED, "unknown", "not by the exact key"),
    (looked(age_s=600, complete=False), GRADED, "unknown", "not everything was read"),
    (looked("search", age_s=600), GRADED, "unknown", "an index"),
    (looked(age_s=600), {**WRITE, "lookup": [LOOKUP]}, "unknown", "the contract asks for two reads in a row"),
    (looked(age_s=600), {**WRITE, "lookup": [{**LOOKUP, "clean_reads": 1, "sees": "unproved"}]}, "unknown",
     "nobody knows what the asker can see"),
    (looked(age_s=600, pages=PAGES), GRADED, "none", "every page was read"),
    (looked(age_s=600, pages=PAGES[:1]), GRADED, "unknown", "an empty page with a cursor is not the end"),
    (looked(age_s=600, pages=[*PAGES[:1], *PAGES[:1]]), GRADED, "unknown", "the last page names another"),
    (looked(age_s=600, pages=[{"cursor": "a", "next_cursor": "a"}, {"cursor": "a"}]), GRADED, "unknown",
     "a cursor came back"),
    (looked(age_s=600, pages=[{"truncated": True}]), GRADED, "unknown", "cut short"),
]  # fmt: skip


@pytest.mark.parametrize(("seen", "contract", "effect", "why"), ABSENCES)
def test_an_absence_needs_its_grade(seen, contract, effect, why):
    decision = judged(seen, contract=contract, history=[broke(phase="await")]).decision
    assert decision.effect_status == effect, why
    assert decision.recovery_action == ("retry" if effect == "none" else "reconcile"), why


def test_a_harness_never_proves_an_absence():
    contract = parse_stated_contract(GRADED)
    reading = read_observation(looked(age_s=600), contract=contract, earlier=(), now=NOW)
    assert reading.effect == "unknown"
    assert read_observation(looked(matches=1), contract=contract, earlier=(), now=NOW).effect == "applied"


def test_an_absence_that_began_after_the_last_attempts_end():
    lost = broke(phase="await", observed_at="2026-12-01T08:00:00Z")
    late = looked(started_at="2026-12-01T08:30:00Z")
    assert judged(late, contract=GRADED, history=[lost]).decision.effect_status == "none"
    soon = looked(started_at="2026-12-01T08:00:20Z")
    assert judged(soon, contract=GRADED, history=[lost]).decision.effect_status == "unknown"


def test_a_lookup_is_no_attempt_of_its_own():
    found = judged(looked(matches=1), contract=WRITE, history=[broke(phase="await")]).decision
    assert (found.effect_status, found.recovery_action) == ("applied", "done")
    nothing = judged(looked("search"), contract=WRITE, history=[answer(429)]).decision
    assert nothing.effect_status == "none", "the refusal stands"


READS = [
    (looked(), "done", "nothing matches, and that is an answer"),
    (looked(complete=False), "retry", "an incomplete reading is no answer"),
    (looked(failed={"status": 500}), "retry", "asked again"),
]


@pytest.mark.parametrize(("seen", "action", "why"), READS)
def test_a_read(seen, action, why):
    assert judged(seen, contract=READ).decision.recovery_action == action, why


def check(*pairs, **more):
    return {
        "kind": "verification",
        "checks": [{"path": "a", "expected": one, "seen": two} for one, two in pairs],
        **more,
    }


MADE, LOST = answer(201, {"id": 1}), broke(phase="await")
CHECKS = [
    (check((5, 5)), [MADE], "verified", "applied", "done", "done and checked"),
    (check((5, 4)), [MADE], "failed", "applied", "reconcile", "look at the present state before any write"),
    (check((5, None)), [MADE], "unavailable", "applied", "verify", "null was not seen"),
    (check((True, 1)), [MADE], "failed", "applied", "reconcile", "true is not 1"),
    (check(), [MADE], "unavailable", "applied", "verify", "nothing was checked"),
    (check((5, 5), failed={"status": 500}), [MADE], "unavailable", "applied", "verify", "the check broke off"),
    (check((5, 5)), [LOST], "verified", "unknown", "reconcile", "a check speaks of the check, not of the effect"),
    (check((5, 4)), [], "failed", "unknown", "reconcile", "nor without any history"),
    (check((5, 4)), [answer(202)], "failed", "pending", "reconcile", "it may be that it has not finished"),
]  # fmt: skip


@pytest.mark.parametrize(("seen", "history", "verification", "effect", "action", "why"), CHECKS)
def test_a_check_of_the_outcome(seen, history, verification, effect, action, why):
    judgement = judged(seen, history=history)
    decision = judgement.decision
    assert judgement.reading.verification == verification, why
    assert (decision.effect_status, decision.recovery_action) == (effect, action), why


@pytest.mark.parametrize(("seen", "member"), [
    (looked("guess"), "lookup"), (looked(exact_key="yes"), "exact_key"), (looked(matches=-1), "matches"),
    (looked(pages={}), "pages"), (looked(pages=[1]), "pages"), (looked(age_s="1"), "age_s"), (looked(failed=1), "failed"),
    ({"kind": "verification", "checks": {}}, "checks"), ({"kind": "verification", "checks": [{"seen": 1}]}, "checks[0]"),
])  # fmt: skip
def test_a_wrong_shape_names_the_member(seen, member):
    with pytest.raises(ObservationInvalid) as caught:
        judged(seen)
    assert caught.value.field == member


def test_a_key_that_was_lost_stays_with_its_attempt():
    lost = broke(phase="await", request={"idempotency_key": "k"})
    decision = judged(looked("search"), contract=KEYED, history=[lost]).decision
    assert decision.effect_status == "unknown"
    assert timedelta(0) <= decision.not_before - NOW
