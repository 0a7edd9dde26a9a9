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


def test_a_request_lost_before_the_owner_is_sent_again_once_its_absence_is_proved(
    journey: Journey, workers: Workers
) -> None:
    journey.owner.fail("drop_before", match="PUT ", times=1)
    with journey.begin() as operation:
        decision = journey.send(operation)
        assert (decision.recovery_action, decision.effect_status) == ("reconcile", "unknown")
        assert not operation.retry(), "no permit while the effect is unknown"
        ends = time.monotonic() + 40
        while operation.wait(timeout=5).state != "open" and time.monotonic() < ends:
            assert not operation.retry()
        known = journey.read()
        assert (known.state, known.effect) == ("open", "none"), f"{known}\n{workers.said()}"
        assert operation.retry(), operation.decision
        assert operation.permit is not None
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
    assert_lawful(workspace_id=journey.bench.id, operation_id=journey.operation_id)
