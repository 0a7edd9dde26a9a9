"""Workers and senders that begin in the same moment all get their queue."""

import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from recovery.local import broker
from tests.conftest import Database

PROCESSES = 8


@pytest.mark.parametrize("queue", ["race_new", "race_there"])
def test_many_begin_to_use_a_queue_at_once(database: Database, queue: str) -> None:
    """As kombu's PGMQ transport does in each process: make the queue, ask for its notifications."""
    broker.install_as_superuser(url=database.superuser_url)
    url = broker.postgres_url(url=database.broker_url)
    line = threading.Barrier(PROCESSES)

    def begin(_: int) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            for _ in range(5 if queue == "race_there" else 1):
                line.wait(30)
                connection.execute("SELECT pgmq.create(%s)", [queue])
                connection.execute("SELECT pgmq.enable_notify_insert(%s, 250)", [queue])

    with ThreadPoolExecutor(PROCESSES) as pool:
        list(pool.map(begin, range(PROCESSES)))
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_trigger WHERE tgname = 'trigger_notify_queue_insert_listeners' "
            "AND tgrelid = to_regclass(%s)",
            [f"pgmq.q_{queue}"],
        ).fetchone()
    assert row == (1,)
