"""Record what the owner answered when Ascertain asked about items of a batch one by one."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from ledger.identifiers import new_id
from ledger.queries.facts import Held
from ledger.rules.decision import Decision
from ledger.rules.evidence import Grade
from ledger.rules.facts import ItemFacts, LookupFacts
from ledger.rules.items import join_items, settled
from ledger.rules.payload import digest_of, raw
from ledger.rules.vocabulary import Speaker, State
from ledger.transitions.change import Change, write
from ledger.transitions.items import changed_items, check_assertions, next_look
from ledger.transitions.settle import after


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemAnswer:
    """One graded answer about one item."""

    item: ItemFacts
    """As it stands with the answer."""
    lookup: LookupFacts
    grade: Grade
    body: str
    """The answer as text, redacted by the contract; empty when there was none."""
    detail: Mapping[str, Any]

    @property
    def speaker(self) -> Speaker:
        return Speaker.OWNER_STATUS if self.lookup.authoritative else Speaker.OWNER_INDEX


def with_answers(items: tuple[ItemFacts, ...], answers: tuple[ItemAnswer, ...]) -> tuple[ItemFacts, ...]:
    """All items, those that were asked about as their answers leave them."""
    told = {answer.item.number: answer.item for answer in answers}
    return tuple(told.get(item.number, item) for item in items)


def record_item_answers(
    *,
    held: Held,
    answers: tuple[ItemAnswer, ...],
    decision: Decision,
    at: datetime,
    round_over: bool,
    next_check_at: datetime | None = None,
    actor: str = "worker",
) -> int | None:
    """Keep each answer as evidence of its item and take the decision's step; while an attempt with other items is in
    flight, only what is known changes. One transaction.

    `round_over`: every item that was due has been asked about, which counts as one poll. `next_check_at`: look again
    then, whatever the items say. Returns the new version; None when the operation moved since `held` was read.

    Raises:
        LawBroken: an answer asserts what its speaker may not.
    """
    facts = held.facts
    items = with_answers(facts.items, answers)
    for answer in answers:
        before = next(item for item in facts.items if item.number == answer.item.number)
        check_assertions((before,), (answer.item,), speaker=answer.speaker)
    effect = join_items(items)
    columns: dict[str, Any] = {}
    state, looks_at = facts.state, facts.last_attempt.lapses_at if facts.last_attempt else None
    if state is State.DISPATCHED:
        columns["effect"] = effect
    else:
        step, looks_at = after(held=held, decision=decision, effect=effect, now=at)
        columns |= step
        state = step["state"]
    if state is State.SETTLED:
        items = settled(items, verification=columns.get("verification", facts.verification))
    polls = facts.budgets.get("polls")
    columns["polls"] = (int(polls.used) if polls else 0) + (1 if round_over else 0)
    next_at = next_check_at or next_look(replace(facts, items=items), state=state, next_check_at=looks_at)
    bodies = [(new_id() if answer.body else None, answer) for answer in answers]
    return write(
        Change(
            id=held.id,
            held=held,
            version=facts.version,
            at=at,
            verb="record_item_answers",
            actor=actor,
            set=columns,
            next_check_at=next_at if state is not State.SETTLED else None,
            said={"items_asked": [answer.item.key for answer in answers], "rule": decision.rule},
            **changed_items(facts.items, items),
            originals=tuple(
                {"id": original, "kind": "answer", "body": answer.body} for original, answer in bodies if original
            ),
            evidence=tuple(_evidence(answer, original) for original, answer in bodies),
        )
    )


def _evidence(answer: ItemAnswer, original: Any) -> dict[str, Any]:
    grade, lookup = answer.grade, answer.lookup
    return {
        "id": new_id(),
        "attempt": None,
        "source": lookup.source,
        "speaker": answer.speaker.value,
        "outcome": grade.outcome.value,
        "effect": grade.effect.value if grade.effect else None,
        "proof": grade.proof.value if grade.proof else None,
        "revision": lookup.revision,
        "digest": raw(digest_of((answer.body or lookup.reason).encode())),
        "query": lookup.query,
        "principal": lookup.principal,
        "event_at": lookup.event_at,
        "observed_at": lookup.observed_at,
        "coverage": "complete" if lookup.complete else "partial",
        "original": original,
        "detail": {**answer.detail, "keys": [answer.item.key]},
    }
