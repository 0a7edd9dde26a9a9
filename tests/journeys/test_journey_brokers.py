"""Any broker is only hands: the same journey over Redis and over RabbitMQ."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from recovery.benchmarks import brokers
from tests.journeys import programs
from tests.journeys.laws import assert_lawful
from tests.journeys.programs import Workers
from tests.journeys.running import Journey

BROKERS: dict[str, tuple[str, Callable[[Path], AbstractContextManager[str]]]] = {
    "redis": ("redis-server", brokers.redis),
    "rabbitmq": ("rabbitmq-server", brokers.rabbitmq),
}


@pytest.fixture(params=list(BROKERS))
def other_workers(
    request: pytest.FixtureRequest,
    environment: dict[str, str],
    fleet: Workers,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Workers]:
    """Workers over another broker; those over PostgreSQL rest meanwhile, or they would do the work."""
    program, broker = BROKERS[request.param]
    if brokers.found(program) is None:
        sentence = f"{program} is not on this machine (Debian: apt-get install {program})"
        if os.environ.get("CI"):
            pytest.fail(sentence)
        pytest.skip(sentence)
    fleet.stop()
    folder = tmp_path_factory.mktemp("brokers")
    with broker(folder) as url:
        workers = programs.workers(env={**environment, "CELERY_BROKER_URL": url}, folder=folder, nodes=1)
        try:
            workers.start()
            yield workers
        finally:
            workers.stop()


def test_a_lost_answer_is_looked_up_over_any_broker(journey: Journey, other_workers: Workers) -> None:
    journey.owner.fail("drop_after", match="PUT ", times=1)
    with journey.begin() as operation:
        journey.send(operation)
        settled = operation.wait(timeout=40)
    assert (settled.state, settled.outcome) == ("settled", "applied"), other_workers.said()
    assert (journey.writes(), journey.records.count()) == (1, 1)
    verbs = assert_lawful(workspace_id=journey.bench.id, operation_id=journey.operation_id)
    assert verbs == ["open_operation", "record_observation", "record_lookup"]
