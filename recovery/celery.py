"""Celery, configured: hands for the ledger's schedule and nothing else. Lose the broker and nothing is lost."""

import os

from celery import Celery
from celery.signals import task_postrun, worker_process_shutdown
from celery.states import FAILURE

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "recovery.settings")

from django.conf import settings

from recovery.local.broker import celery_settings

SWEEP_SECONDS = 0.5
TELL_SECONDS = 2.0
"""How soon people and other systems hear of an event, at most, while the worker keeps up."""
WAKE_SECONDS = 5.0
"""How late a snooze may end."""
BULK_SECONDS = 1.0
"""How soon a job in bulk is taken up, and taken up again when its worker died and its hold has lapsed."""

app = Celery("ascertain")
app.conf.update(celery_settings(url=settings.CELERY_BROKER_URL))
app.conf.update(
    # A task carries ids and is acknowledged early: recovery is the lapsed claim, never redelivery.
    task_acks_late=False,
    task_ignore_result=True,
    result_backend=None,
    task_serializer="json",
    accept_content=["json"],
    task_time_limit=30,
    # A task only puts its batch before this process's hands, and PGMQ reads no more until it is woken again: with one task a
    # child ahead, four tasks a second would be all.
    worker_prefetch_multiplier=16,
    worker_enable_remote_control=False,
    worker_send_task_events=False,
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
    timezone="UTC",
    beat_schedule={
        "sweep": {"task": "recovery.sweep", "schedule": SWEEP_SECONDS, "options": {"expires": 5}},
        "wake": {"task": "recovery.wake", "schedule": WAKE_SECONDS, "options": {"expires": 10}},
        "bulk": {"task": "recovery.bulk", "schedule": BULK_SECONDS, "options": {"expires": 5}},
        "tell": {"task": "recovery.tell", "schedule": TELL_SECONDS, "options": {"expires": 10}},
    },
    beat_scheduler="celery.beat:Scheduler",
)
# Celery would close the pool of connections before and after every task, under the hands that go on (recovery/hands.py).
# Each thread gives its connection back by itself, and so does each task.
app.conf["CELERY_DB_REUSE_MAX"] = 1_000_000_000
app.autodiscover_tasks(["recovery"])

LAST_SECONDS = 10.0
"""A process that ends gives back what it has not begun, and lets questions that are open end within this."""


@task_postrun.connect
def _give_back(*, state: str | None = None, **_: object) -> None:
    from django.db import connection

    from ledger.database import forget_broken

    if state == FAILURE:
        forget_broken()
    connection.close()


@worker_process_shutdown.connect
def _put_down(**_: object) -> None:
    from recovery.sweeps import hands

    hands().close(seconds=LAST_SECONDS)
