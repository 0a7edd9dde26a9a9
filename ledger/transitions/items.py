"""How items reach the database: as groups that become alike, within their operation's transition."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict

import orjson

from ledger.errors import LawBroken
from ledger.identifiers import new_id
from ledger.queries.facts import Held, payloads_of
from ledger.rules.batch_payload import carrying, items_in
from ledger.rules.evidence import may_assert
from ledger.rules.facts import Facts, ItemFacts
from ledger.rules.items import Carry, join_items, looks_next
from ledger.rules.payload import canonical, digest_of, raw
from ledger.rules.vocabulary import Effect, Speaker, State
from ledger.transitions.change import stored_decision


class ItemGroups(TypedDict):
    """The parts of a `Change` that tell what became of items."""

    items: tuple[Mapping[str, Any], ...]
    item_attempts: tuple[Mapping[str, Any], ...]


def changed_items(before: Sequence[ItemFacts], after: Sequence[ItemFacts]) -> ItemGroups:
    """The groups of a `Change`: `items` whose rows differ, and `item_attempts` that are known to have done otherwise."""
    rows: list[tuple[int, dict[str, Any]]] = []
    attempts: list[tuple[int, dict[str, Any]]] = []
    known: dict[int, dict[str, Any]] = {}
    for was, now in zip(before, after, strict=True):
        if was is now:
            continue
        if (row := _row(now, known)) != _row(was, known):
            rows.append((now.number, row))
        held = {each.attempt: each for each in was.attempts}
        for each in now.attempts:
            if each.attempt in held and held[each.attempt] != each:
                proof = each.proof.value if each.proof else None
                attempts.append((now.number, {"attempt": each.attempt, "effect": each.effect.value, "proof": proof}))
    return {"items": _grouped(rows), "item_attempts": _grouped(attempts)}


def carried_items(carry: Carry) -> tuple[Mapping[str, Any], ...]:
    """The groups of items that a new attempt carries."""
    return _grouped(
        [
            (number, {"licence": licence.value if licence is not None else None})
            for number, licence in carry.licences.items()
        ]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryRevision:
    """The request that carries only the items which may be sent again, as the next revision."""

    number: int
    payload: Any
    keys: tuple[str, ...]
    row: Mapping[str, Any]
    original: Mapping[str, Any]

    @property
    def digest(self) -> bytes:
        return bytes(self.row["digest"])


def recovery_revision(*, held: Held, carry: Carry, now: datetime) -> RecoveryRevision | None:
    """The next revision for these items: the current one's request with each item as it was last meant, in the
    batch's order. None when retention has destroyed what it would be made of."""
    payloads = payloads_of(id=held.id)
    number = held.facts.revision + 1
    bodies: dict[str, Any] = {}
    for payload in payloads.values():
        bodies |= items_in(held.contract, payload)
    keys = tuple(item.key for item in held.facts.items if item.number in carry.licences)
    if held.facts.revision not in payloads or any(key not in bodies for key in keys):
        return None
    payload = carrying(held.contract, payloads[held.facts.revision], [bodies[key] for key in keys])
    body = canonical(payload)
    original = new_id()
    return RecoveryRevision(
        number=number,
        payload=payload,
        keys=keys,
        row={
            "number": number,
            "digest": raw(digest_of(body)),
            "original": original,
            "kind": "recovery",
            "reason": f"{len(keys)} of {len(held.facts.items)} items are sent again by themselves.",
            "field": None,
            "keys": orjson.dumps(keys).decode(),
            "created_at": now,
        },
        original={"id": original, "kind": "payload", "body": body.decode()},
    )


def next_look(facts: Facts, *, state: State, next_check_at: datetime | None) -> datetime | None:
    """When to look at a batch again that is in `state` now: when its decision says, or when an item is to be looked up,
    whichever comes first. A person who was asked needs no look but for open items. What is no batch is left as it is."""
    if not facts.items or state is State.SETTLED:
        return next_check_at
    looks_at = looks_next(facts)
    if state is State.ESCALATED and join_items(facts.items) is not Effect.APPLIED:
        return looks_at
    return sooner(next_check_at, looks_at)


def sooner(one: datetime | None, other: datetime | None) -> datetime | None:
    """The earlier of two moments, of which either may be missing."""
    return min((moment for moment in (one, other) if moment is not None), default=None)


def check_assertions(before: Sequence[ItemFacts], after: Sequence[ItemFacts], *, speaker: Speaker) -> None:
    """Every item's new effect is one that the speaker may assert.

    Raises:
        LawBroken: it is not.
    """
    for was, now in zip(before, after, strict=True):
        held = {each.attempt: each for each in was.attempts}
        for each in now.attempts:
            if held.get(each.attempt) == each:
                continue
            if not may_assert(speaker=speaker, effect=each.effect, proof=each.proof):
                raise LawBroken(f"{speaker} may not assert {each.effect} of the item {now.key} with proof {each.proof}")


def _row(item: ItemFacts, known: dict[int, dict[str, Any]]) -> dict[str, Any]:
    decision: dict[str, Any] = {}
    if item.decision is not None:
        # Thousands of items often share one decision; it is written out once.
        decision = known.get(id(item.decision)) or known.setdefault(id(item.decision), stored_decision(item.decision))
    return {
        "effect": item.effect.value,
        "verification": item.verification.value,
        "outcome": item.outcome.value if item.outcome else None,
        "failure_class": item.failure_class.value if item.failure_class else None,
        "code": item.code,
        "licence": item.licence.value if item.licence else None,
        "decision": decision,
        "clean_reads": item.clean_reads,
        "absence_since": item.absence_since,
    }


def _grouped(rows: Iterable[tuple[int, dict[str, Any]]]) -> tuple[Mapping[str, Any], ...]:
    groups: list[tuple[dict[str, Any], list[int]]] = []
    by_text: dict[str, list[int]] = {}
    for number, row in rows:
        text = repr(row)
        if text not in by_text:
            by_text[text] = []
            groups.append((row, by_text[text]))
        by_text[text].append(number)
    return tuple({**row, "numbers": numbers} for row, numbers in groups)
