"""What does an operation's history, read from its first row on, say that the operation is?

| a history row has | then the replayed operation                                                          |
| ----------------- | ------------------------------------------------------------------------------------ |
| `set`             | has these columns                                                                    |
| `opens`           | has one more attempt, in flight                                                      |
| `closes`          | has that attempt with these columns                                                  |
| `covers`          | has every attempt that was unknown, pending or partial with this effect and proof    |
| `running`         | has the other closed and unknown attempts with this key pending                      |
| `batch`           | has so many items, with keys of this digest; nothing has happened to them yet        |
| `items`           | has the items of these numbers with these columns                                    |
| `carries`         | has the items of these numbers in the attempt that it opens, and nothing known of them |
| `item_attempts`   | has an attempt's effect and proof for the items of these numbers                     |
| `revision`        | has one more payload; the first row brings revision 1                                |
| `evidence`        | has these pieces, each with its digest                                               |
| `answer`          | has one more answer of a person                                                      |

Each row's hash is SHA-256 over the hash before it, and the row's own text; the first row hangs on the operation's
id. This is the same sum as in ledger/sql/laws.sql, written down a second time, so that neither proves itself.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import orjson

from ledger.rules.vocabulary import Effect

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_OPEN: Final = frozenset({Effect.UNKNOWN, Effect.PENDING, Effect.PARTIAL})
_PERSONS: Final = frozenset({"attest", "countersign"})
_FRESH: Final[Mapping[str, Any]] = {
    "outcome": None,
    "distinct_intent": False,
    "repairs": 0,
    "retries": 0,
    "polls": 0,
    "replans": 0,
    "network_attempts": 0,
    "cost": 0,
    "clean_reads": 0,
    "absence_since": None,
    "first_sent_at": None,
    "escalated_at": None,
    "sla_at": None,
    "settled_at": None,
    "awaits_signature_id": None,
    "checks": 0,
    "receipt": None,
}
"""What a new operation's row holds without saying so in its history."""
_FRESH_ITEM: Final[Mapping[str, Any]] = {
    "outcome": None,
    "failure_class": None,
    "code": "",
    "licence": None,
    "decision": {},
    "clean_reads": 0,
    "absence_since": None,
}
"""Likewise a new item's row."""


class HistoryBroken(ValueError):
    """A history row cannot be read or does not follow from the one before it. The sentence says how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow:
    """One row of the journal."""

    seq: int
    at: datetime
    verb: str
    actor: str
    entry: str
    hash: bytes


@dataclass(slots=True)
class Replayed:
    """An operation as its history tells it, and nothing else. `follow` takes it one row further."""

    id: UUID
    seq: int = 0
    hash: bytes = b""
    columns: dict[str, Any] = field(default_factory=dict)
    attempts: dict[int, dict[str, Any]] = field(default_factory=dict)
    revisions: dict[int, dict[str, Any]] = field(default_factory=dict)
    items: dict[int, dict[str, Any]] = field(default_factory=dict)
    item_attempts: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By `attempt/number`."""
    keys: str | None = None
    """The digest of the items' keys, in order; None where it is no batch."""
    evidence: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By id, in the order in which it was recorded."""
    answers: list[dict[str, Any]] = field(default_factory=list)
    opened: Mapping[str, Any] = field(default_factory=dict)
    """What the first row told beside the columns: operation_id, tool, contract."""
    opened_at: datetime | None = None
    changed_at: datetime | None = None
    effect_by_person: bool = False
    """The effect that stands is a person's answer, which may go against what attempts say."""

    def __post_init__(self) -> None:
        self.hash = self.id.bytes

    def follow(self, row: HistoryRow) -> None:
        """Take the next row into account.

        Raises:
            HistoryBroken: a row is missing or was changed, or it tells something impossible.
        """
        if row.seq != self.seq + 1:
            raise HistoryBroken(f"The history goes from row {self.seq} to row {row.seq}.")
        link = chained(previous=self.hash, row=row)
        if link != row.hash:
            raise HistoryBroken(f"The chain breaks at row {row.seq}: the row or one before it was changed.")
        self.seq, self.hash, self.changed_at = row.seq, row.hash, row.at
        try:
            told: dict[str, Any] = orjson.loads(row.entry)
            self._take(row, told)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise HistoryBroken(f"Row {row.seq} cannot be replayed ({type(error).__name__}: {error}).") from error

    def _take(self, row: HistoryRow, told: dict[str, Any]) -> None:
        if row.seq == 1:
            self.opened_at = row.at
            self.opened = {name: told[name] for name in ("operation_id", "tool", "contract")}
            self.columns = dict(_FRESH)
            self._revise({"number": 1, "digest": told["set"]["payload_digest"], "kind": "intent", "reason": ""}, row)
            if "opens" in told:
                self.columns["first_sent_at"] = told["opens"]["opened_at"]
            self._list(told)
        self.columns.update(told["set"])
        if "effect" in told["set"]:
            self.effect_by_person = row.verb in _PERSONS
        if "covers" in told:
            for attempt in self.attempts.values():
                if attempt["effect"] in _OPEN:
                    attempt.update(told["covers"])
        if "running" in told:
            self._run(told["running"])
        if "opens" in told:
            self._open(told["opens"])
        if "closes" in told:
            self.attempts[told["closes"]["number"]].update(told["closes"])
        self._items(told)
        if "revision" in told:
            self._revise(told["revision"], row)
        for piece in told.get("evidence", ()):
            if piece["id"] in self.evidence:
                raise HistoryBroken(f"Row {row.seq} tells of evidence ev-{piece['id']} a second time.")
            self.evidence[piece["id"]] = {**piece, "seq": row.seq}
        if row.verb in _PERSONS:
            self.answers.append(
                {
                    "seen": row.seq - 1,
                    "answer": told["answer"],
                    "reason": told["reason"],
                    "evidence_url": told["evidence_url"],
                    "by": row.actor,
                    "signs": row.verb == "countersign",
                }
            )

    def _list(self, told: Mapping[str, Any]) -> None:
        batch = told.get("batch", {"count": 0, "keys": None})
        self.keys = batch["keys"]
        fresh = {**_FRESH_ITEM, "effect": told["set"]["effect"], "verification": told["set"]["verification"]}
        self.items = {number: {"number": number, **fresh} for number in range(1, batch["count"] + 1)}

    def _items(self, told: Mapping[str, Any]) -> None:
        for group in told.get("items", ()):
            for number in group["numbers"]:
                self.items[number].update({name: value for name, value in group.items() if name != "numbers"})
        for group in told.get("carries", ()):
            for number in group["numbers"]:
                name = f"{told['opens']['number']}/{number}"
                carried = {"effect": Effect.UNKNOWN.value, "proof": None, "licence": group["licence"]}
                self.item_attempts[name] = {"name": name, **carried}
        for group in told.get("item_attempts", ()):
            for number in group["numbers"]:
                known = self.item_attempts[f"{group['attempt']}/{number}"]
                known.update(effect=group["effect"], proof=group["proof"])

    def _open(self, attempt: Mapping[str, Any]) -> None:
        number = attempt["number"]
        if number != len(self.attempts) + 1:
            raise HistoryBroken(f"Row {self.seq} opens attempt {number} after attempt {len(self.attempts)}.")
        self.attempts[number] = {"closed_at": None, "proof": None, "failure_class": None, **attempt}

    def _run(self, said: Mapping[str, Any]) -> None:
        for number, attempt in self.attempts.items():
            same = attempt["idempotency_key"] == said["idempotency_key"] and number != said["number"]
            if same and attempt["closed_at"] is not None and attempt["effect"] == Effect.UNKNOWN:
                attempt["effect"] = Effect.PENDING.value

    def _revise(self, revision: Mapping[str, Any], row: HistoryRow) -> None:
        number = revision["number"]
        if number != len(self.revisions) + 1:
            raise HistoryBroken(f"Row {row.seq} adds revision {number} after revision {len(self.revisions)}.")
        keys = revision.get("keys")
        self.revisions[number] = {name: revision[name] for name in ("number", "digest", "kind", "reason")}
        self.revisions[number]["keys"] = orjson.loads(keys) if keys is not None else None


def chained(*, previous: bytes, row: HistoryRow) -> bytes:
    """The hash that a row must carry after the row whose hash is `previous`."""
    span = row.at - _EPOCH
    microseconds = (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds
    text = "\x1f".join((str(row.seq), str(microseconds), row.verb, row.actor, row.entry))
    return hashlib.sha256(previous + text.encode()).digest()
