"""Does every row of the ledger follow from its history, and is every history whole?

Reads the ledger once, in the order of operation ids, through server-side cursors: the memory that it takes is that of
one operation, however many there are. All of it is one snapshot, so changes that go on meanwhile make no difference.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import chain
from typing import Any, Final
from uuid import UUID

import orjson
from django.db import connection, transaction

from ledger.rules.evidence import join_effects
from ledger.rules.facts import AttemptFacts, ItemFacts
from ledger.rules.history import HistoryBroken, HistoryRow, Replayed
from ledger.rules.items import join_items
from ledger.rules.payload import digest, shown
from ledger.rules.vocabulary import Effect, EffectKind

ROWS_AT_A_TIME: Final = 500
CENT_OF_A_CENT: Final = Decimal("0.0001")
"""Costs are kept to four places and told in full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """One operation whose rows are what its history says."""

    id: UUID
    seq: int
    hash: bytes
    """Of its newest history row: the chain's head."""
    history: int
    evidence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The newest link of an operation's chain as it was seen once."""

    seq: int
    hash: bytes


class Differs(RuntimeError):
    """The ledger is not what its history says. `operation` is the first one found; the sentence says what differs."""

    def __init__(self, operation: UUID, sentence: str) -> None:
        super().__init__(f"Operation {operation}: {sentence}")
        self.operation = operation
        self.sentence = sentence


def verified(*, heads: Iterable[tuple[UUID, Head]] = ()) -> Iterator[Verified]:
    """Every operation in the order of its id, each verified; opens a read-only transaction of its own.

    `heads` are earlier chain heads in the order of their operations: each must still be in its operation's chain.

    Raises:
        Differs: at the first difference.
    """
    with transaction.atomic(), ExitStack() as stack:
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        streams = {name: _Stream(_rows(stack, sql), name) for name, sql in _STREAMS.items()}
        anchors = _Stream(iter(heads), "an anchored chain head")
        for row in _rows(stack, _OPERATIONS):
            id = row[0]
            yield _verify(
                dict(zip(_OPERATION_COLUMNS, row, strict=True)),
                anchored=[head for _, head in anchors.of(id)],
                **{name: stream.of(id) for name, stream in streams.items()},
            )
        for stream in (*streams.values(), anchors):
            stream.end()


class _Stream:
    """Rows that begin with an operation's id, in that order, taken one operation at a time."""

    def __init__(self, rows: Iterator[Any], name: str) -> None:
        self._rows = rows
        self._name = name
        self._ahead: Any = None

    def of(self, id: UUID) -> Iterator[Any]:
        """The rows of this operation; those of another before it belong to none."""
        for row in self._all():
            if row[0] < id:
                raise Differs(row[0], f"There is {self._name} of it, but no operation.")
            if row[0] > id:
                self._ahead = row
                return
            yield row

    def end(self) -> None:
        """No row is left over."""
        for row in self._all():
            raise Differs(row[0], f"There is {self._name} of it, but no operation.")

    def _all(self) -> Iterator[Any]:
        if self._ahead is not None:
            ahead, self._ahead = self._ahead, None
            return chain((ahead,), self._rows)
        return self._rows


def _rows(stack: ExitStack, sql: str) -> Iterator[Any]:
    cursor = stack.enter_context(connection.chunked_cursor())
    cursor.execute(sql)
    return chain.from_iterable(iter(lambda: cursor.fetchmany(ROWS_AT_A_TIME), []))


def _verify(
    row: dict[str, Any],
    *,
    anchored: list[Head],
    history: Iterator[Any],
    attempts: Iterator[Any],
    revisions: Iterator[Any],
    evidence: Iterator[Any],
    answers: Iterator[Any],
    items: Iterator[Any],
    item_attempts: Iterator[Any],
) -> Verified:
    id: UUID = row["id"]
    replayed = Replayed(id)
    left = {head.seq: head.hash for head in anchored}
    try:
        for _, seq, at, verb, actor, entry, hash in history:
            line = HistoryRow(seq=seq, at=at, verb=verb, actor=actor, entry=entry, hash=bytes(hash))
            replayed.follow(line)
            if left.pop(seq, line.hash) != line.hash:
                raise Differs(id, f"History row {seq} is not the one that was anchored: its past was rewritten.")
    except HistoryBroken as broken:
        raise Differs(id, str(broken)) from broken
    if left:
        raise Differs(id, f"The anchored history row {min(left)} is gone.")
    if not replayed.seq:
        raise Differs(id, "It has no history.")
    _same_operation(row, replayed)
    _same_rows(id, "attempt", attempts, _ATTEMPT_COLUMNS, replayed.attempts, by="number")
    _same_rows(id, "revision", revisions, _REVISION_COLUMNS, replayed.revisions, by="number")
    _same_rows(id, "evidence", evidence, _EVIDENCE_COLUMNS, replayed.evidence, by="id")
    told = {answer["seen"]: answer for answer in replayed.answers}
    _same_rows(id, "answer on version", answers, _ANSWER_COLUMNS, told, by="seen")
    keys: list[str] = []
    _same_rows(id, "item", _noting(items, keys), _ITEM_COLUMNS, replayed.items, by="number")
    _same_rows(id, "item attempt", item_attempts, _ITEM_ATTEMPT_COLUMNS, replayed.item_attempts, by="name")
    if keys and digest(keys) != replayed.keys:
        raise Differs(id, "The keys of its items are not those that its history was begun with.")
    _joined(row, replayed)
    return Verified(id=id, seq=replayed.seq, hash=replayed.hash, history=replayed.seq, evidence=len(replayed.evidence))


def _same_operation(row: dict[str, Any], replayed: Replayed) -> None:
    id = row["id"]
    told = {
        **replayed.columns,
        **replayed.opened,
        "version": replayed.seq,
        "created_at": replayed.opened_at,
        "changed_at": replayed.changed_at,
    }
    for name, value in told.items():
        if name not in row:
            raise Differs(id, f"Its history sets {name}, which an operation does not have.")
        if not _same(value, row[name]):
            raise Differs(id, f"Its {name} is {_plain(row[name])}, but its history says {_plain(value)}.")


def _same_rows(
    id: UUID,
    kind: str,
    rows: Iterator[Any],
    columns: tuple[str, ...],
    told: Mapping[Any, Mapping[str, Any]],
    *,
    by: str,
) -> None:
    left = dict(told)
    for values in rows:
        row = dict(zip(columns, values[1:], strict=True))
        key = str(row[by]) if isinstance(row[by], UUID) else row[by]
        expected = left.pop(key, None)
        if expected is None:
            raise Differs(id, f"There is {kind} {key}, of which its history says nothing.")
        for name, value in expected.items():
            if name in row and not _same(value, row[name]):
                raise Differs(
                    id, f"The {name} of {kind} {key} is {_plain(row[name])}, but its history says {_plain(value)}."
                )
        body = row.get("body_digest")
        if body is not None and bytes(body) != bytes(row["digest"]):
            raise Differs(id, f"The payload of {kind} {key} is not the one that its digest was made of.")
    for key in left:
        raise Differs(id, f"Its history tells of {kind} {key}, which is not there.")


def _noting(rows: Iterator[Any], keys: list[str]) -> Iterator[Any]:
    """The same rows of items, with their keys noted on the way."""
    for row in rows:
        keys.append(row[1 + _ITEM_COLUMNS.index("key")])
        yield row


def _joined(row: dict[str, Any], replayed: Replayed) -> None:
    """The effect is the join over the attempts, unless a person's answer stands above them."""
    if not replayed.attempts or replayed.effect_by_person:
        return
    attempts = [_attempt_facts(attempt) for attempt in replayed.attempts.values()]
    joined = join_effects(attempts=attempts, absence_since=None, kind=EffectKind(row["kind"]))
    if replayed.items:
        joined = join_items(
            ItemFacts(number=number, key="", effect=Effect(item["effect"])) for number, item in replayed.items.items()
        )
    if joined.value != row["effect"]:
        raise Differs(row["id"], f"Its effect is {row['effect']}, but its attempts join to {joined}.")


def _attempt_facts(attempt: Mapping[str, Any]) -> AttemptFacts:
    closed = attempt["closed_at"]
    return AttemptFacts(
        attempt_id=f"attempt-{attempt['number']:02d}",
        number=attempt["number"],
        revision=attempt["revision"],
        digest="",
        principal=attempt["principal"],
        idempotency_key=attempt["idempotency_key"],
        licence=None,
        opened_at=_moment(attempt["opened_at"]),
        dispatch_by=_moment(attempt["dispatch_by"]),
        lapses_at=_moment(attempt["lapses_at"]),
        closed_at=_moment(closed) if closed else None,
        effect=Effect(attempt["effect"]),
    )


def _same(told: Any, kept: Any) -> bool:
    """Whether a column holds what the history told, in the types of JSON."""
    if told is None or kept is None:
        return told is kept
    if isinstance(kept, datetime):
        return _moment(told) == kept
    if isinstance(kept, Decimal):
        return isinstance(told, int | float) and abs(Decimal(str(told)) - kept) <= CENT_OF_A_CENT
    if isinstance(kept, bool) or isinstance(told, bool):
        return told is kept
    if isinstance(told, dict | list):
        return bool((orjson.loads(kept) if isinstance(kept, str | bytes) else kept) == told)
    return bool(_plain(kept) == told)


def _moment(told: Any) -> datetime:
    return told if isinstance(told, datetime) else datetime.fromisoformat(told)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | memoryview):
        return shown(value)
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return str(value) if isinstance(value, UUID) else value


_KEPT = (
    "version", "state", "request", "effect", "verification", "outcome", "decision", "revision", "payload_digest",
    "identity_digest", "holds_identity", "distinct_intent", "repairs", "retries", "polls", "replans",
    "network_attempts", "cost", "clean_reads", "absence_since", "first_sent_at", "created_at", "changed_at",
    "cause", "escalated_at", "sla_at", "settled_at", "awaits_signature_id", "operation_id", "checks", "receipt",
)  # fmt: skip
_OPERATION_COLUMNS = ("id", *_KEPT, "contract", "tool", "kind")
_OPERATIONS = (
    f"SELECT o.id, {', '.join(f'o.{name}' for name in _KEPT)}, o.contract_id, t.name, "  # noqa: S608 - names are ours
    "cv.document::json ->> 'effect' FROM operation o LEFT JOIN tool t ON t.id = o.tool_id "
    "LEFT JOIN contract_version cv ON cv.id = o.contract_id ORDER BY o.id"
)
_ATTEMPT_COLUMNS = (
    "number", "revision", "kind", "repeats_a_write", "licence", "principal", "idempotency_key", "timeout_ms",
    "opened_at", "dispatch_by", "lapses_at", "closed_at", "effect", "proof", "failure_class", "network_attempts",
)  # fmt: skip
_REVISION_COLUMNS = ("number", "digest", "kind", "reason", "keys", "body_digest")
_ITEM_COLUMNS = (
    "number", "key", "effect", "verification", "outcome", "failure_class", "code", "licence", "decision", "clean_reads",
    "absence_since",
)  # fmt: skip
_ITEM_ATTEMPT_COLUMNS = ("name", "effect", "proof", "licence")
_EVIDENCE_COLUMNS = ("id", "seq", "digest", "source", "speaker", "outcome", "effect")
_ANSWER_COLUMNS = ("seen", "answer", "reason", "evidence_url", "by", "signs")
_STREAMS: Final[Mapping[str, str]] = {
    "history": "SELECT operation, seq, at, verb, actor, entry, hash FROM journal ORDER BY operation, seq",
    "attempts": f"SELECT operation, {', '.join(_ATTEMPT_COLUMNS)} FROM attempt ORDER BY operation, number",  # noqa: S608
    # The payload as it is kept must be the one that the digest was made of, as long as retention has left it.
    "revisions": (
        "SELECT r.operation, r.number, r.digest, r.kind, r.reason, r.keys, sha256(convert_to(b.body, 'UTF8')) "
        "FROM revision r LEFT JOIN original b ON b.id = r.original ORDER BY r.operation, r.number"
    ),
    "evidence": f"SELECT operation, {', '.join(_EVIDENCE_COLUMNS)} FROM evidence ORDER BY operation, seq, id",  # noqa: S608
    "items": f"SELECT operation, {', '.join(_ITEM_COLUMNS)} FROM item ORDER BY operation, number",  # noqa: S608
    "item_attempts": (
        "SELECT operation, attempt || '/' || number, effect, proof, licence FROM item_attempt "
        "ORDER BY operation, attempt, number"
    ),
    "answers": (
        "SELECT a.operation, a.version_seen, a.answer, a.reason, a.evidence_url, 'person:' || p.username, "
        "a.signs_id IS NOT NULL FROM attestation a LEFT JOIN person p ON p.id = a.person_id "
        "ORDER BY a.operation, a.version_seen"
    ),
}
