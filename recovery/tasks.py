"""Celery's entry points: keyword arguments only, one call each."""

from uuid import UUID

from recovery.celery import app
from recovery.deliveries import deliver, hand_out_deliveries
from recovery.sweeps import look_at, sweep

PATIENCE = 0.3
"""Seconds that a task waits for its batch. A slow owner's operations stand in the process's lines and hold up no task."""


@app.task(name="recovery.sweep")
def sweep_due() -> int:
    """Hand out what is due. Beat's tick; a late one expires instead of piling up."""
    return sweep(hand_out=_hand_out)


def _hand_out(ids: list[str]) -> None:
    reconcile_batch.apply_async(kwargs={"ids": ids})


@app.task(name="recovery.reconcile")
def reconcile_batch(*, ids: list[str]) -> dict[str, int]:
    """Look at each operation of a batch. Returns what was done so far; slow owners are still being asked then."""
    done = look_at(ids=[UUID(id) for id in ids], patience=PATIENCE)
    return {what.value: count for what, count in done.items()}


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
