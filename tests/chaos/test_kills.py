"""A worker is killed at a named place, with certainty: the next one finishes, and nothing was sent.

| killed                                     | what was asked of the owner before | what the next worker finds          |
| ------------------------------------------ | ---------------------------------- | ----------------------------------- |
| the whole node, between claim and question | nothing                            | a claim that lapses                 |
| the whole node, between answer and record  | one lookup                         | the same, and asks again            |
| only the process that does the work        | one lookup                         | the same; its node goes on          |
"""

import os
import signal

import pytest

from ledger.database import execute
from tests.journeys.laws import assert_lawful
from tests.journeys.programs import Workers, until
from tests.journeys.running import CLAIM_SECONDS, Journey


@pytest.mark.parametrize(
    ("place", "whole_node"), [("before", True), ("after", True), ("after", False)], ids=["claimed", "asked", "child"]
)
def test_a_killed_worker_loses_nothing_and_sends_nothing(
    journey: Journey, workers: Workers, place: str, whole_node: bool
) -> None:
    journey.owner.fail("drop_after", match="PUT ", times=1)
    workers.hold(place=place, operation_id=journey.operation_id)
    with journey.begin() as operation:
        journey.send(operation)
        pid = workers.held_at(operation_id=journey.operation_id)
        before = journey.read()
        asked = journey.owner.forwarded("GET ")
        assert (before.state, asked) == ("reconciling", 1 if place == "after" else 0)
        assert _claimed(before.model_extra["id"]), "it is claimed while a worker works on it"
        if whole_node:
            workers.node_of(pid).kill()
        else:
            os.kill(pid, signal.SIGKILL)
        until(lambda: not _alive(pid), seconds=10, what="the worker outlived SIGKILL")
        assert journey.read().version == before.version, "what it had in its hands is not recorded"
        settled = operation.wait(timeout=CLAIM_SECONDS + 30)
    assert (settled.state, settled.outcome) == ("settled", "applied"), workers.said()
    assert journey.owner.forwarded("GET ") == asked + 1
    assert len(settled.attempts) == 1
    assert (journey.writes(), journey.records.count()) == (1, 1), "nothing was sent after the harness's own call"
    verbs = assert_lawful(workspace_id=journey.bench.id, operation_id=journey.operation_id)
    assert verbs == ["open_operation", "record_observation", "record_lookup"]


@pytest.mark.parametrize("contract", [{"dispatch_within": "1s", "timeout": "1s"}], ids=[""])
def test_all_workers_are_gone_and_a_permit_still_lapses_when_they_return(journey: Journey, workers: Workers) -> None:
    """The harness dies in the middle too: nobody reports, nobody looks. The schedule survives all of them."""
    for program in (*workers.nodes, workers.beat):
        program.kill()
    operation = journey.begin()
    operation.__enter__()
    assert operation.permit is not None
    assert journey.read().state == "dispatched"
    workers.start()
    until(
        lambda: journey.read().state not in ("dispatched", "reconciling", "waiting"),
        seconds=40,
        what=lambda: f"{journey.read()}\n{workers.said()}",
    )
    known = journey.read()
    assert (known.state, known.effect) == ("open", "none"), known
    assert (journey.writes(), journey.records.count()) == (0, 0)
    verbs = assert_lawful(workspace_id=journey.bench.id, operation_id=journey.operation_id)
    assert verbs[:2] == ["open_operation", "lapse_attempt"]


def _claimed(id: str) -> bool:
    return bool(execute("SELECT claimed_until > now() FROM schedule WHERE operation = %s", [id])[0][0])


def _alive(pid: int) -> bool:
    """Running, not merely waiting for its parent to take note of its end."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
