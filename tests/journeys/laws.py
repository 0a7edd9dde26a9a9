"""Do the laws hold of one operation? Read from the tables themselves, with the rules written down a second time."""

import hashlib
import itertools
import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from ledger.database import execute

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TOLD = ("state", "effect", "request", "outcome", "revision")


def assert_lawful(*, workspace_id: UUID, operation_id: str) -> list[str]:
    """Assert the laws that a finished journey must show. Returns the verbs of its history, oldest first."""
    [row] = execute(
        f"SELECT id, version, {', '.join(_TOLD)} FROM operation WHERE workspace_id = %s AND operation_id = %s",
        [workspace_id, operation_id],
    )
    id, version, *told = row
    history = execute(
        "SELECT seq, at, verb, actor, entry, hash FROM journal WHERE operation = %s ORDER BY seq",
        [id],
    )
    assert [seq for seq, *_ in history] == list(range(1, version + 1)), "the history has a gap"
    _assert_chained(id, history)
    _assert_replayed(history, dict(zip(_TOLD, told, strict=True)))
    _assert_attempts(id)
    return [verb for _, _, verb, *_ in history]


def _assert_chained(id: UUID, history: list[Any]) -> None:
    previous = id.bytes
    for seq, at, verb, actor, entry, hash in history:
        span = at - _EPOCH
        micros = (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds
        text = "\x1f".join([str(seq), str(micros), verb, actor, entry])
        previous = hashlib.sha256(previous + text.encode()).digest()
        assert previous == bytes(hash), f"the chain breaks at {seq}"


def _assert_replayed(history: list[Any], row: dict[str, Any]) -> None:
    """Law 5: whatever the row says was said in the history."""
    replayed: dict[str, Any] = {}
    for *_, entry, _hash in history:
        replayed |= json.loads(entry)["set"]
    assert {name: replayed.get(name) for name in row} == row, "the row says what its history does not"


def _assert_attempts(id: UUID) -> None:
    attempts = execute(
        "SELECT number, opened_at, closed_at, effect, proof, licence, repeats_a_write FROM attempt "
        "WHERE operation = %s ORDER BY number",
        [id],
    )
    assert [number for number, *_ in attempts] == list(range(1, len(attempts) + 1))
    assert sum(closed is None for _, _, closed, *_ in attempts) <= 1, "two attempts in flight"
    for (_, _, closed, *_), (number, opened, *_) in itertools.pairwise(attempts):
        assert closed is not None, f"attempt {number} began while the one before it was in flight"
        assert closed <= opened, f"attempt {number} began while the one before it was in flight"
    for number, _, _, effect, proof, licence, repeats in attempts:
        assert effect not in ("none", "applied") or proof is not None, f"attempt {number} is {effect} without a proof"
        assert licence is not None or not repeats, f"attempt {number} repeats a write without a licence"
