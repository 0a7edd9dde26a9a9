"""The items of a batch with what each attempt did to them, in one round trip. Never for lists."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from ledger.database import execute
from ledger.rules.facts import ItemAttempt, ItemFacts
from ledger.rules.stored import decision_from
from ledger.rules.vocabulary import Effect, FailureClass, Licence, Outcome, Proof, Verification


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldItems:
    """Every item, in order, and which of them the current revision carries."""

    items: tuple[ItemFacts, ...]
    carries: frozenset[int]


def items_of(*, id: UUID, revision: int) -> HeldItems:
    """The items of one operation; `revision` is the one that it stands at."""
    rows = execute(
        "SELECT (SELECT keys::text FROM revision WHERE operation = %(id)s AND number = %(revision)s), "
        "json_agg(json_build_array(i.number, i.key, i.effect, i.verification, i.outcome, i.failure_class, i.code, i.licence, "
        "i.decision, i.clean_reads, i.absence_since, a.attempts) ORDER BY i.number)::text "
        "FROM item i LEFT JOIN (SELECT number, json_agg(json_build_array(attempt, effect, proof, licence) "
        "ORDER BY attempt) AS attempts FROM item_attempt WHERE operation = %(id)s GROUP BY number) a "
        "ON a.number = i.number WHERE i.operation = %(id)s",
        {"id": id, "revision": revision},
    )
    keys, listed = rows[0]
    items = tuple(_item(values) for values in orjson.loads(listed or "[]"))
    carried = None if keys is None else set(orjson.loads(keys))
    return HeldItems(
        items=items,
        carries=frozenset(item.number for item in items if carried is None or item.key in carried),
    )


def _item(values: list[Any]) -> ItemFacts:
    (
        number, key, effect, verification, outcome, failure, code, licence, decision, clean_reads, since, attempts,
    ) = values  # fmt: skip
    return ItemFacts(
        number=number,
        key=key,
        effect=Effect(effect),
        verification=Verification(verification),
        outcome=Outcome(outcome) if outcome else None,
        failure_class=FailureClass(failure) if failure else None,
        code=code,
        licence=Licence(licence) if licence else None,
        decision=decision_from(decision),
        clean_reads=clean_reads,
        absence_since=datetime.fromisoformat(since) if since else None,
        attempts=tuple(
            ItemAttempt(
                attempt=attempt,
                effect=Effect(did),
                proof=Proof(proof) if proof else None,
                licence=Licence(why) if why else None,
            )
            for attempt, did, proof, why in attempts or ()
        ),
    )
