"""Celery over PGMQ with a role of its own: a real worker takes a real task."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from recovery.local import broker
from recovery.local.postgres import Cluster, temporary_cluster
from recovery.local.roles import DATABASE, Role

REPOSITORY = Path(__file__).resolve().parents[2]
APP = """
import os, sys
sys.path.insert(0, {repository!r})
from celery import Celery
from recovery.local.broker import celery_settings

app = Celery("tried")
app.conf.update(celery_settings(url=os.environ["CELERY_BROKER_URL"]), worker_enable_remote_control=False)

@app.task(ignore_result=True)
def touch(name):
    open(name, "x").close()
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with temporary_cluster(REPOSITORY) as made:
        assert broker.install_as_superuser(url=made.url(Role.SUPERUSER, DATABASE)) is True
        yield made


def answer(url: str, statement: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(statement).fetchone()
        return row[0] if row else None


def test_the_schema_is_installed_once_and_its_role_keeps_no_further_right(cluster: Cluster) -> None:
    url = cluster.url(Role.SUPERUSER, DATABASE)
    assert broker.install_as_superuser(url=url) is False
    owners = "SELECT string_agg(DISTINCT tableowner, ',') FROM pg_tables WHERE schemaname = 'pgmq'"
    assert answer(url, owners) == Role.BROKER
    assert answer(url, f"SELECT has_database_privilege('{Role.BROKER}', '{DATABASE}', 'CREATE')") is False


def test_on_a_server_of_ones_own_a_role_installs_it_for_itself(cluster: Cluster) -> None:
    with psycopg.connect(cluster.url(Role.SUPERUSER, "postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE own OWNER {Role.OWNER}")
    url = cluster.url(Role.OWNER, "own")
    assert (broker.install(url=url), broker.install(url=url)) == (True, False)


def test_other_brokers_pass_through() -> None:
    assert broker.celery_settings(url="redis://localhost:6379/1") == {"broker_url": "redis://localhost:6379/1"}


def test_a_worker_takes_a_task_as_the_brokers_role_and_senders_do_not_wait(cluster: Cluster, tmp_path: Path) -> None:
    """DATABASE_URL is set, as in every real process: the queue must not be reached with it. The application's role has
    no right to the queue, so a connection under it would fail."""
    (tmp_path / "tried.py").write_text(APP.format(repository=str(REPOSITORY)))
    env = {
        **os.environ,
        "PYTHONWARNINGS": "ignore:You're running the worker with superuser",
        "DATABASE_URL": cluster.url(Role.APP),
        "CELERY_BROKER_URL": broker.celery_url(url=cluster.url(Role.BROKER)),
    }
    command = [sys.executable, "-m", "celery", "-A", "tried", "worker", "--pool", "solo", "--hostname", "w@localhost"]
    log = (tmp_path / "worker.log").open("wb")
    worker = subprocess.Popen(command, cwd=tmp_path, env=env, stdout=log, stderr=log)
    try:
        send = "import sys, tried; tried.touch.delay(name=sys.argv[1])"
        for name in ("first", "second"):
            begun = time.monotonic()
            subprocess.run([sys.executable, "-c", send, str(tmp_path / name)], cwd=tmp_path, env=env, check=True)
            while not (tmp_path / name).exists() and time.monotonic() < begun + 15:
                time.sleep(0.02)
            took_s = time.monotonic() - begun
            assert (tmp_path / name).exists(), (tmp_path / "worker.log").read_text()
        assert took_s < 4, f"a new sender's task took {took_s:.1f} s: it waited behind the worker's poll"
    finally:
        worker.terminate()
        try:
            worker.wait(timeout=15)
        finally:
            worker.kill()
            worker.wait()
            log.close()
    owners = "SELECT tableowner FROM pg_tables WHERE schemaname = 'pgmq' AND tablename = 'q_celery'"
    assert answer(cluster.url(Role.SUPERUSER, DATABASE), owners) == Role.BROKER
