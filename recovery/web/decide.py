"""What may this person say of an operation now? Each choice with whether and why not, and what it would come to."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from django.utils.html import format_html
from django.utils.safestring import SafeString

from ledger.queries.access import Seat
from ledger.queries.facts import Held
from ledger.queries.operations import EvidenceRow
from ledger.queries.people import names_with_role
from ledger.rules.contract import idempotency_key
from ledger.rules.licences import Refusal, may_repeat
from ledger.rules.resolutions import Answer, Offer
from ledger.rules.vocabulary import Role, State
from ledger.transitions.person import FirstSignature
from recovery.web.access import DECIDES
from recovery.web.forms import Typed, is_link
from recovery.web.moments import moment
from recovery.web.sentences import ANSWERS, LOOKUPS, AnswerLook

_KEYS = {answer: number for number, answer in enumerate(Answer, start=1)}
"""The same key opens the same answer on every operation."""
NOT_YET = "Nothing yet. Once the second person has signed: {told}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One answer on the decide card."""

    answer: Answer
    key: int
    look: AnswerLook
    allowed: bool
    why_not: str
    second: bool
    """It counts only once another person has signed it."""
    records: str
    agent: str
    open: bool
    by_items: bool
    """It is given in the table of the items."""
    later: bool
    """It may be put to sleep or handed over with the answer."""
    sends: tuple[tuple[str, SafeString | str], ...] = ()
    """What would be sent once more, by name."""
    reason: str = ""
    evidence_url: str = ""
    wrong_reason: str = ""
    wrong_link: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A first person's answer that waits for a second."""

    username: str
    is_me: bool
    look: AnswerLook
    reason: str
    link: str
    reference: str
    when: SafeString
    sign: Choice | None
    """The form for another person's signature; None for whoever may not sign."""
    why_not: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """The decide card."""

    version: int
    choices: tuple[Choice, ...]
    waiting: Waiting | None
    why_none: str
    """Why this person is offered nothing at all."""
    settled: bool
    unrecorded: Typed | None = None
    """What somebody typed that found no form to stand in any more."""
    admins: tuple[str, ...] = field(default=())


def decide_card(
    *,
    held: Held,
    offers: Sequence[Offer],
    evidence: Sequence[EvidenceRow],
    waiting: FirstSignature | None,
    seat: Seat,
    person_id: int,
    typed: Typed | None,
    holder: str | None,
) -> Card:
    """What this person may say now, each choice with whether and why not, and what they had typed."""
    settled = held.facts.state is State.SETTLED
    decides = bool(seat.roles & DECIDES)
    mine = waiting is not None and waiting.person_id == person_id
    by_items = bool(held.facts.items and held.facts.attempts)
    choices = [
        _choice(offer, held, evidence, typed)
        for offer in offers
        if _is_shown(offer.answer, by_items, holder is not None)
    ]
    sign: Choice | None = None
    if waiting is not None:
        signed = Answer.PARTIALLY_APPLIED if by_items and waiting.answer in _OF_ITEMS else waiting.answer
        same = next((choice for choice in choices if choice.answer is signed), None)
        choices = [choice for choice in choices if choice is not same]
        if same is not None and same.allowed and decides and not mine:
            sign = _signing(same)
    taken = any(choice.open and choice.allowed for choice in choices) or bool(sign and sign.open)
    admins: tuple[str, ...] = ()
    why_none = ""
    if not decides:
        admins = names_with_role(workspace_id=seat.workspace_id, role=Role.ADMIN)
        asks = f" {' or '.join(admins)} can give it to you." if admins else ""
        why_none = f"You can read this, but not answer: that needs the role operator or admin in {seat.name}.{asks}"
    return Card(
        version=held.facts.version,
        choices=tuple(choices) if decides and not settled else (),
        waiting=_waiting(waiting, mine, sign, decides, held) if waiting else None,
        why_none=why_none,
        settled=settled,
        unrecorded=typed
        if typed and (typed.reason or typed.evidence_url) and not (taken and decides and not settled)
        else None,
        admins=admins,
    )


_OF_ITEMS = frozenset({Answer.APPLIED, Answer.NOT_APPLIED, Answer.PARTIALLY_APPLIED})


def _is_shown(answer: Answer, by_items: bool, held_back: bool) -> bool:
    if answer is Answer.DISTINCT_INTENT:
        return held_back
    return by_items or answer is not Answer.PARTIALLY_APPLIED


def _choice(offer: Offer, held: Held, evidence: Sequence[EvidenceRow], typed: Typed | None) -> Choice:
    look = ANSWERS[offer.answer]
    here = typed if typed and typed.answer is offer.answer else None
    risk = offer.answer is Answer.ACCEPT_DUPLICATE_RISK and offer.allowed
    return Choice(
        answer=offer.answer,
        key=_KEYS[offer.answer],
        look=look,
        allowed=offer.allowed,
        why_not=offer.why_not,
        second=offer.needs_second_person,
        records=look.records_first if offer.needs_second_person else look.records,
        agent=NOT_YET.format(told=look.agent) if offer.needs_second_person else look.agent,
        open=here is not None,
        by_items=offer.answer is Answer.PARTIALLY_APPLIED,
        later=offer.answer is Answer.CANNOT_TELL,
        sends=_sends(held, evidence) if risk else (),
        reason=here.reason if here else "",
        evidence_url=here.evidence_url if here else "",
        wrong_reason=here.wrong_reason if here else "",
        wrong_link=here.wrong_link if here else "",
    )


def _sends(held: Held, evidence: Sequence[EvidenceRow]) -> tuple[tuple[str, SafeString | str], ...]:
    """What a person who accepts a duplicate should have before them: the request, its key, what is known and how old."""
    facts = held.facts
    key = idempotency_key(held.contract, operation_id=facts.operation_id, revision=facts.revision)
    repeat = may_repeat(facts=facts, contract=held.contract, now=held.now)
    looked = next((piece for piece in reversed(evidence) if piece.outcome in LOOKUPS), None)
    last = "Nobody has asked the owner yet."
    if looked is not None:
        last = format_html("{}, {}.", LOOKUPS[looked.outcome].capitalize(), moment(at=looked.observed_at, now=held.now))
    return (
        ("Payload", f"revision {facts.revision}, {facts.payload_digest}"),
        ("Key", key or "none: nothing lets the owner tell the two requests apart"),
        ("Last look at the owner", last),
        ("Why a repeat is locked", repeat.sentence if isinstance(repeat, Refusal) else ""),
    )


def _signing(choice: Choice) -> Choice:
    """The same answer as a countersignature: with it, it counts."""
    return replace(choice, second=False, records=choice.look.records, agent=choice.look.agent)


def _waiting(first: FirstSignature, mine: bool, sign: Choice | None, decides: bool, held: Held) -> Waiting:
    why_not = ""
    if mine:
        why_not = "You gave this answer. Somebody else has to sign it; “Cannot tell” takes it back."
    elif not decides:
        why_not = "An operator or an admin can sign it."
    return Waiting(
        username=first.username,
        is_me=mine,
        look=ANSWERS[first.answer],
        reason=first.reason,
        link=first.evidence_url if is_link(first.evidence_url) else "",
        reference=first.evidence_url,
        when=moment(at=first.at, now=held.now),
        sign=sign,
        why_not=why_not,
    )
