"""Celery's entry points: keyword arguments only, one call each."""

from uuid import UUID

from recovery.bulk import hand_out_jobs, run
from recovery.celery import app
from recovery.deliveries import deliver, hand_out_deliveries
from recovery.sweeps import hands, look_out, sweep, take_in_hand, wake_snoozed

PATIENCE = 0.3
"""Seconds that a task waits at most while its process has enough in hand. No task waits for a slow owner."""


@app.task(name="recovery.sweep")
def sweep_due() -> int:
    """Hand out what is due, and see to it that somebody looks out for what comes due before the next tick. Beat's tick; a
    late one expires instead of piling up."""
    handed_out = sweep(hand_out=_hand_out)
    look_out(hand_out=_hand_out)
    return handed_out


def _hand_out(ids: list[str]) -> None:
    reconcile_batch.apply_async(kwargs={"ids": ids})


@app.task(name="recovery.reconcile")
def reconcile_batch(*, ids: list[str]) -> None:
    """Take a batch in hand. Its operations are looked at by the threads of this process, which outlive the task."""
    take_in_hand(ids=[UUID(id) for id in ids])
    hands().wait_for_room(seconds=PATIENCE)


@app.task(name="recovery.tell")
def tell() -> int:
    """Spread new events and hand out the deliveries that are due. Beat's tick."""
    return hand_out_deliveries(hand_out=_hand_out_deliveries)


def _hand_out_deliveries(ids: list[str]) -> None:
    deliver_batch.apply_async(kwargs={"ids": ids})


@app.task(name="recovery.deliver")
def deliver_batch(*, ids: list[str]) -> dict[str, int]:
    """Try each delivery of a batch."""
    return deliver(ids=[UUID(id) for id in ids])


@app.task(name="recovery.wake")
def wake() -> int:
    """Wake what people had put to sleep. Beat's tick."""
    return wake_snoozed()


@app.task(name="recovery.bulk")
def bulk() -> int:
    """Hand out the jobs in bulk that run and that nobody has in hand. Beat's tick."""
    return hand_out_jobs(hand_out=_hand_out_job)


def _hand_out_job(job_id: str) -> None:
    bulk_slice.apply_async(kwargs={"job_id": job_id}, expires=5)  # a late one would only find another at work


@app.task(name="recovery.bulk_slice")
def bulk_slice(*, job_id: str) -> None:
    """Work on a job for a moment, and hand it on while there is more to do."""
    if run(job_id=UUID(job_id)):
        _hand_out_job(job_id)
