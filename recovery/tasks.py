"""Celery's entry points: keyword arguments only, one call each."""

from uuid import UUID

from recovery.celery import app
from recovery.sweeps import look_at, sweep


@app.task(name="recovery.sweep")
def sweep_due() -> int:
    """Hand out what is due. Beat's tick; a late one expires instead of piling up."""
    return sweep(hand_out=_hand_out)


def _hand_out(ids: list[str]) -> None:
    reconcile_batch.apply_async(kwargs={"ids": ids})


@app.task(name="recovery.reconcile")
def reconcile_batch(*, ids: list[str]) -> dict[str, int]:
    """Look at each operation of a batch."""
    return {done.value: count for done, count in look_at(ids=[UUID(id) for id in ids]).items()}
