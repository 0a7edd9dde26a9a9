"""The controller benchmark: its router, its expectation, and that our own judgement never makes a second effect."""

import json

import pytest

from ledger.rules.vocabulary import EffectKind
from recovery.benchmarks.recovery import PUBLISHED, ends, expected, lines, readable
from recovery.benchmarks.recovery_cases import FAILS, OPERATIONS, Failure, Operation, Owner, Repair, operations
from recovery.benchmarks.recovery_controllers import Route, Said, Strategy, ToolError, control, route
from recovery.benchmarks.recovery_desk import judged, tool

DELIVERED, LOST_REQUEST, LOST_ANSWER = 0.9, 0.01, 0.05


def operation(failure: Failure | None = None, **changes) -> Operation:
    usual = {
        "name": "ticket:create:1",
        "number": 0,
        "failure": failure,
        "retry_roll": 0.1,
        "repair_roll": 0.1,
        "fates": (DELIVERED,) * 4,
        "commit_roll": 0.9,
        "sight_roll": 0.9,
        "asking_roll": 0.5,
        "seed": 7,
    }
    return Operation(**{**usual, **changes})


ROUTES = [
    (Failure.TRANSIENT, True, None, None, Route.RETRY, "retryable, and says so"),
    (Failure.TRANSIENT, False, None, None, Route.STOP, "transient only when retryable"),
    (Failure.VALIDATION, False, "due", "2026-12-04", Route.REPAIR, "what to change and into what"),
    (Failure.VALIDATION, False, "due", None, Route.STOP, "without a suggestion the repair would be a guess"),
    (Failure.VALIDATION, False, None, "2026-12-04", Route.STOP, "without a field likewise"),
    (Failure.VALIDATION, True, None, None, Route.STOP, "retryable counts for transient alone"),
    (Failure.PERMISSION, True, None, None, Route.AUTHORIZE, "whatever it says of itself"),
    (Failure.NOT_FOUND, True, None, None, Route.STOP, "nothing to repeat"),
]


@pytest.mark.parametrize(("code", "retryable", "field", "suggestion", "to", "why"), ROUTES)
def test_the_envelopes_router(code, retryable, field, suggestion, to, why):
    assert route(ToolError(code=code, retryable=retryable, field=field, suggestion=suggestion)) is to, why


EXPECTED = [
    (Strategy.GENERIC, 67.0, 16_800, 3_960, 2_400),
    (Strategy.CODE, 71.5, 14_400, 1_020, 0),
    (Strategy.ENVELOPE, 76.0, 14_400, 480, 0),
    (Strategy.OURS, 76.0, 14_400, 480, 0),
]


@pytest.mark.parametrize(("strategy", "resolved", "attempts", "failed", "permanent"), EXPECTED)
def test_the_expectation_comes_from_the_assumptions(strategy, resolved, attempts, failed, permanent):
    hopes = expected(strategy)
    assert round(100 * hopes.resolved, 6) == resolved
    assert round(12_000 * (1 + hopes.repeats), 6) == attempts
    assert round(12_000 * hopes.failed_repeats, 6) == failed
    assert round(12_000 * hopes.permanent_repeats, 6) == permanent


def test_the_published_figures_lie_within_the_same_bounds():
    """They are of another implementation with other rolls: the design is the same when both fit one expectation."""
    for strategy, told in PUBLISHED.items():
        hopes = expected(strategy)
        assert abs(told.resolved_percent - 100 * hopes.resolved) <= 1, strategy
        assert abs(told.failed_repeats - 12_000 * hopes.failed_repeats) <= 155, strategy


def test_a_run_is_the_same_each_time_and_no_two_runs_are_alike():
    assert operations(1) == operations(1)
    assert operations(1) != operations(2)
    assert len(operations(1)) == OPERATIONS


def test_about_two_in_five_fail_in_four_even_classes():
    made = [each.failure for run in range(1, 61) for each in operations(run)]
    failed = [failure for failure in made if failure is not None]
    assert abs(len(failed) / len(made) - FAILS) < 0.015
    for kind in Failure:
        assert abs(failed.count(kind) / len(failed) - 0.25) < 0.02, kind


OUTCOMES = [
    (None, {}, Said.DONE, 1, 0, "it went well"),
    (Failure.TRANSIENT, {}, Said.DONE, 2, 0, "documented as refused, so it is repeated, and is gone"),
    (Failure.TRANSIENT, {"retry_roll": 0.9}, Said.FAILED, 2, 1, "and once more is all there is"),
    (Failure.VALIDATION, {}, Said.DONE, 2, 0, "the named field is repaired"),
    (Failure.VALIDATION, {"repair_roll": 0.8}, Said.DONE, 2, 0, "90 %, with field and hint"),
    (Failure.VALIDATION, {"repair_roll": 0.95}, Said.FAILED, 2, 1, "the repair was wrong as well"),
    (Failure.PERMISSION, {}, Said.FAILED, 1, 0, "a person's matter: never sent again"),
    (Failure.NOT_FOUND, {}, Said.FAILED, 1, 0, "never sent again either"),
]


@pytest.mark.parametrize("number", range(4), ids=["read/envelope", "read/http", "write/envelope", "write/http"])
@pytest.mark.parametrize(("failure", "changes", "said", "requests", "failed", "why"), OUTCOMES)
def test_our_judgement_where_every_answer_arrives(number, failure, changes, said, requests, failed, why):
    end = judged(operation(failure, number=number, **changes), loses=False)
    assert (end.said, end.requests, end.failed_repeats, end.permanent_repeats) == (said, requests, failed, 0), why


def test_the_four_tools_are_two_reads_and_two_writes_of_the_same_owner():
    assert {
        tool(reads=reads, envelopes=envelopes).effect for reads in (True, False) for envelopes in (True, False)
    } == {
        EffectKind.READ,
        EffectKind.WRITE,
    }


LOSSES = [
    (Strategy.GENERIC, LOST_ANSWER, Said.DONE, 2, "the repeat made a second ticket"),
    (Strategy.CODE, LOST_ANSWER, Said.DONE, 2, "so did a code that has no word for it"),
    (Strategy.ENVELOPE, LOST_ANSWER, Said.DONE, 2, "and an envelope that calls a timeout retryable"),
    (Strategy.READ_BACK, LOST_ANSWER, Said.DONE, 2, "it looked before the owner showed it"),
    (Strategy.NO_REPEAT, LOST_ANSWER, Said.FAILED, 1, "no second one, but it says failed of what was done"),
    (Strategy.OURS, LOST_ANSWER, Said.DONE, 1, "found at the owner"),
    (Strategy.OURS, LOST_REQUEST, Said.DONE, 1, "proved absent, then sent once more"),
]


@pytest.mark.parametrize(("strategy", "fate", "said", "effects", "why"), LOSSES)
def test_one_lost_answer(strategy, fate, said, effects, why):
    case = operation(fates=(fate, DELIVERED, DELIVERED, DELIVERED))
    end = judged(case, loses=True) if strategy is Strategy.OURS else control(strategy, case, loses=True)
    assert (end.said, end.effects) == (said, effects), why


def test_where_the_owner_cannot_be_asked_a_person_is_and_nothing_is_sent_again():
    end = judged(operation(fates=(LOST_ANSWER, DELIVERED, DELIVERED, DELIVERED), asking_roll=0.001), loses=True)
    assert (end.said, end.requests, end.asked_a_person) == (Said.UNKNOWN, 1, True)


def test_no_lost_request_is_repeated_before_its_possible_end_and_the_owners_lag():
    """30 s to send, 30 s to answer, 2 s for the clocks, 30 s for the owner."""
    end = judged(operation(fates=(LOST_REQUEST, DELIVERED, DELIVERED, DELIVERED)), loses=True)
    assert end.requests == 2
    assert end.seconds > 92


def test_no_second_effect_and_no_wrong_word_at_any_seed():
    """Seeds that the benchmark itself does not use, too."""
    for seed in (*range(1, 21), 1_001, 2_002, 3_003, 99_999, 2**31):
        for end in ends(Strategy.OURS, seeds=[seed], loses=True):
            assert end.effects <= 1, seed
            assert end.said is not Said.FAILED or end.effects == 0, seed
            assert end.said is not Said.DONE or end.effects == 1, seed


def test_a_late_commit_is_seen_later_than_the_timeout():
    owner = Owner(operation(fates=(LOST_ANSWER,) * 4), loses=True)
    assert owner.receive(at=0.0, repair=Repair.CODE).lost
    assert owner.effects == 1
    assert owner.seen_from[0] > 30


def test_the_lines_are_json_each_with_its_figures_and_the_tables_say_what_they_are():
    told = list(lines(runs=2))
    for line in told:
        json.dumps(line)
        assert line["name"].startswith("recovery/")
    figures = [line for line in told if line["name"].startswith("recovery/figures/")]
    assert len(figures) == 16
    assert all({"ours", "reference", "ratio", "unit", "n", "published", "met"} <= set(line) for line in figures)
    assert told[-1]["model_called"] is False
    assert told[-1]["measured"] is False
    text = readable(told)
    assert "no model was called" in text
    assert "all probabilities are assumptions" in text


def test_the_benchmarks_own_runs_keep_to_the_expectation():
    figures = [line for line in lines(runs=60) if line["name"].startswith("recovery/figures/")]
    assert [line["name"] for line in figures if not line["met"]] == []
