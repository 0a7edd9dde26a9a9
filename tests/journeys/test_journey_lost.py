"""What is lost on the way settles itself: a real harness, web server, workers and owner."""

import time

import pytest

from tests.journeys.laws import assert_lawful
from tests.journeys.programs import Workers
from tests.journeys.running import Journey


@pytest.mark.parametrize("fault", ["drop_after", "truncate", "hang_after", "502_after"])
def test_an_answer_lost_after_the_commit_is_looked_up_and_never_repeated(
    journey: Journey, workers: Workers, fault: str
) -> None:
    journey.owner.fail(fault, match="PUT ", times=1)
    with journey.begin() as operation:
        decision = journey.send(operation)
        assert (decision.recovery_action, decision.effect_status) == ("reconcile", "unknown")
        settled = operation.wait(timeout=30)
    assert (settled.state, settled.outcome) == ("settled", "applied"), workers.said()
    assert settled.evidence[-1]["proof"] == "lookup_match"
    assert len(settled.attempts) == 1
    assert (journey.writes(), journey.records.count()) == (1, 1)
    verbs = assert_lawful(workspace_id=journey.bench.id, operation_id=journey.operation_id)
    assert verbs == ["open_operation", "record_observation", "record_lookup"]


@pytest.mark.parametrize("contract", [{"dispatch_within": "5s"}], ids=[""])
def test_a_request_lost_before_the_owner_is_sent_again_once_its_absence_is_proved(
    journey: Journey, workers: Workers
) -> None:
    journey.owner.fail("drop_before", match="PUT ", times=1)
    with journey.begin() as operation:
        decision = journey.send(operation)
        assert (decision.recovery_action, decision.effect_status) == ("reconcile", "unknown")
        ends = time.monotonic() + 40
        while not operation.retry():
            assert time.monotonic() < ends, f"{journey.read()}\n{workers.said()}"
            time.sleep(0.2)
        assert journey.records.count() == 0
        again = journey.send(operation)
    assert again.is_done
    assert (journey.writes(), journey.records.count()) == (1, 1)
    told = journey.read()
    assert [attempt.model_extra["licence"] for attempt in told.attempts] == [None, "effect_none_proved"]
    clean = [piece for piece in told.evidence if piece["outcome"] == "no_match"]
    assert clean[-1]["proof"] == "graded_absence"
    lapsed = told.attempts[0].lapses_at
    assert lapsed is not None
    assert sum(piece["observed_at"] > lapsed.isoformat().replace("+00:00", "Z") for piece in clean) >= 2
    verbs = assert_lawful(workspace_id=journey.bench.id, operation_id=journey.operation_id)
    assert verbs[:2] == ["open_operation", "record_observation"]
    assert verbs.count("open_attempt") == 1
    assert verbs.index("open_attempt") > verbs.index("record_lookup")
