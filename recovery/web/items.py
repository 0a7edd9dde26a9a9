"""The items of a batch as the operation page shows them, and what a person typed about them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.http import QueryDict

from ledger.queries.access import Seat
from ledger.queries.facts import Held
from ledger.queries.operations import EvidenceRow
from ledger.rules.facts import ItemFacts
from ledger.rules.resolutions import ITEM_ANSWERS, TOLD_OF_ITEMS, Answer, item_offer, items_need_second_person
from ledger.rules.vocabulary import Effect, State
from ledger.transitions.item_answers import first_item_answers
from ledger.transitions.person import FirstSignature
from recovery.web.access import DECIDES
from recovery.web.forms import Typed
from recovery.web.sentences import ITEM_EFFECTS, LICENCES

SHOWN = 200
"""Items that a page lists; those that are open come first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemLine:
    """One item."""

    number: int
    key: str
    word: str
    tone: str
    icon: str
    settled: bool
    licence: str
    says: str
    attempts: int
    evidence: tuple[str, ...]
    """Anchors on the page."""
    open: bool
    """A person may answer for it now."""
    chosen: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemsView:
    """The items' table, and the form where a person may answer."""

    lines: tuple[ItemLine, ...]
    total: int
    more: int
    counts: tuple[tuple[str, str, int], ...]
    """(tone, word, how many)."""
    check: str
    """The count check of the last answer that told items apart; empty without one."""
    check_tone: str
    may_answer: bool
    closes: bool
    """No item is open: the answer closes the batch as its items say."""
    why_not: str
    signs: str
    """Whose answers a second person would sign; empty without one."""
    second: bool
    """Some answers count only with a second person's signature."""
    told: tuple[str, ...]
    """What the agent may come to be told, once no item is open."""
    version: int
    typed: Typed | None


def items_view(
    *,
    held: Held,
    evidence: Sequence[EvidenceRow],
    seat: Seat,
    person_id: int,
    waiting: FirstSignature | None,
    typed: Typed | None,
    chosen: Mapping[str, Answer],
) -> ItemsView | None:
    """The items of a batch; None where the operation is none."""
    facts = held.facts
    if not facts.items:
        return None
    offer = item_offer(facts=facts)
    first = first_item_answers(id=held.id) if waiting is not None else {}
    signs = waiting is not None and waiting.person_id != person_id
    chosen = chosen or (first if signs else {})
    open_ = {item.number for item in offer.open} if offer.allowed else set()
    ordered = sorted(facts.items, key=lambda item: (item.number not in open_, item.number))[:SHOWN]
    decides = bool(seat.roles & DECIDES) and facts.state is not State.SETTLED
    check, tone = _count_check(evidence)
    risky = {item.key: Answer.NOT_APPLIED for item in offer.open}
    return ItemsView(
        lines=tuple(_line(item, evidence, item.number in open_, chosen) for item in ordered),
        total=len(facts.items),
        more=max(len(facts.items) - SHOWN, 0),
        counts=_counts(facts.items),
        check=check,
        check_tone=tone,
        may_answer=offer.allowed and decides,
        closes=not offer.open,
        why_not=offer.why_not if decides else "",
        signs=waiting.username if waiting is not None and signs else "",
        second=items_need_second_person(answers=risky, facts=facts, contract=held.contract, now=held.now),
        told=tuple(TOLD_OF_ITEMS.values()) if offer.open else (TOLD_OF_ITEMS[Effect.PARTIAL],),
        version=facts.version,
        typed=typed,
    )


def read_item_answers(post: QueryDict, *, held: Held) -> dict[str, Answer]:
    """The answers that were chosen, by the items' keys; what is left open is left out."""
    chosen: dict[str, Answer] = {}
    for item in held.facts.items:
        answer = post.get(f"item-{item.number}", "")
        if answer in {each.value for each in ITEM_ANSWERS}:
            chosen[item.key] = Answer(answer)
    return chosen


def _line(item: ItemFacts, evidence: Sequence[EvidenceRow], open_: bool, chosen: Mapping[str, Answer]) -> ItemLine:
    look = ITEM_EFFECTS[item.effect]
    carried = {each.attempt for each in item.attempts}
    anchors = [row.evidence_id for row in evidence if row.attempt in carried or item.key in row.detail.get("keys", ())]
    return ItemLine(
        number=item.number,
        key=item.key,
        word=look.word,
        tone=look.tone,
        icon=look.icon,
        settled=item.outcome is not None,
        licence=LICENCES[item.licence] if item.licence is not None else "",
        says=item.decision.message if item.decision is not None else "",
        attempts=len(item.attempts),
        evidence=tuple(anchors[-3:]),
        open=open_,
        chosen=chosen[item.key].value if item.key in chosen else "",
    )


def _counts(items: Sequence[ItemFacts]) -> tuple[tuple[str, str, int], ...]:
    found: list[tuple[str, str, int]] = []
    for effect in (Effect.UNKNOWN, Effect.PARTIAL, Effect.PENDING, Effect.NONE, Effect.APPLIED):
        count = sum(item.effect is effect for item in items)
        if count:
            found.append((ITEM_EFFECTS[effect].tone, ITEM_EFFECTS[effect].word.lower(), count))
    return tuple(found)


def _count_check(evidence: Sequence[EvidenceRow]) -> tuple[str, str]:
    for row in reversed(evidence):
        told = row.detail.get("items")
        if isinstance(told, Mapping) and isinstance(told.get("accounted"), int):
            submitted, accounted = told["submitted"], told["accounted"]
            foreign = len(told.get("foreign", ()))
            text = f"Submitted {submitted:,}, accounted for {accounted:,}"
            if foreign:
                text += f"; {foreign:,} named that were not sent"
            return f"{text}.", "green" if accounted == submitted and not foreign else "amber"
    return "", "gray"
