"""An owner tells us something by itself: find the operation that it names, weigh it, decide, record.

| the message                                          | comes to                                                    |
| ---------------------------------------------------- | ----------------------------------------------------------- |
| its id was received here before                      | nothing new                                                 |
| names no operation of this owner in this workspace   | kept as `no_operation`                                      |
| says nothing of the effect that could be used        | evidence, `settles_nothing`                                 |
| anything else                                        | evidence, and the step that `ledger.rules.notices` allows   |

An operation is recorded before anything is sent for it, so a notification that comes before the harness's own report
finds it all the same. All of this is one transaction: after a crash the message was never received, and comes again.
"""

import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final

import orjson
import structlog
from django.db import transaction

from ledger.queries.clock import database_now
from ledger.queries.facts import Held, held_by_name, payload_of
from ledger.queries.notices import Endpoint, contracts_with_notice, since
from ledger.rules.contract import Contract
from ledger.rules.contract_compiled import CompiledNotice
from ledger.rules.decision import Decision
from ledger.rules.evidence import Grade
from ledger.rules.expressions import MISSING, Context, Value
from ledger.rules.notices import STEPS, Known, NoticeFacts, Weighed, Weight, weigh
from ledger.rules.payload import alike, digest_of, redact, redact_differences
from ledger.rules.vocabulary import Effect, Guarantee, LookupOutcome, Proof
from ledger.transitions.notice import (
    Notice,
    effect_with,
    notice_came_to,
    record_notice,
    take_notice,
    waits_for_its_attempt,
)
from recovery.judgement.decide import decide_contradiction, decide_notice
from recovery.owners.answers import member_of, moment_of

MOST_TRIES: Final = 20
"""Each lost race means that somebody else's change was recorded, so this many in a row do not happen."""
MOST_NAMES: Final = 20
_AHEAD: Final = timedelta(minutes=5)
_SAFE_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@~-]{0,199}", re.ASCII)
log = structlog.get_logger()


class CameTo(StrEnum):
    """What a message came to."""

    KNOWN = "known"
    RECORDED = "recorded"
    NO_OPERATION = "no_operation"
    SETTLES_NOTHING = "settles_nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A notification whose signature was right."""

    id: str
    headers: Mapping[str, str]
    """By lower-case name."""
    body: Any
    """Parsed JSON."""
    raw: bytes


class Contended(RuntimeError):
    """The operation kept moving while this was being recorded. Nothing was recorded; let the owner send it again."""


def receive(*, endpoint: Endpoint, message: Message) -> CameTo:
    """Act on one accepted message, once. One transaction.

    Raises:
        Contended: nothing was recorded.
    """
    with transaction.atomic():
        now = database_now()
        if not take_notice(endpoint_id=endpoint.id, message_id=message.id, now=now):
            return CameTo.KNOWN
        context = Context.answer(headers=message.headers, body=message.body, speaker="owner")
        held = _find(endpoint, context)
        came_to = _record(endpoint, message, context, held) if held is not None else CameTo.NO_OPERATION
        if came_to is not CameTo.RECORDED:
            notice_came_to(endpoint_id=endpoint.id, message_id=message.id, came_to=came_to.value)
    if came_to is CameTo.NO_OPERATION:
        log.info("notice_names_no_operation", owner=endpoint.owner, endpoint=str(endpoint.id), message=message.id)
    return came_to


def _find(endpoint: Endpoint, context: Context) -> Held | None:
    """The operation of this owner and workspace that the message names, by the contract that it is pinned to."""
    names = dict.fromkeys(
        name
        for contract in contracts_with_notice(owner_id=endpoint.owner_id)
        for name in _names(contract, context)
        if _SAFE_ID.fullmatch(name)
    )
    for name in list(names)[:MOST_NAMES]:
        held = held_by_name(workspace_id=endpoint.workspace_id, operation_id=name)
        if held is not None and held.owner.id == endpoint.owner_id and _is_named(held, context):
            return held
    return None


def _names(contract: Contract, context: Context) -> Iterator[str]:
    """The operation_ids that a contract reads in the message, straight or behind our key."""
    reading = contract.compiled.notice
    if reading is None:
        return
    if (name := _text(reading.operation_id, context)) is not None:
        yield name
    if (key := _text(reading.idempotency_key, context)) is not None and (
        found := _key_pattern(contract.idempotency.key).fullmatch(key)
    ):
        yield found["operation"]
        if found["revision"]:  # an operation's own name may end like a revision's key
            yield found["operation"] + found["revision"]


def _key_pattern(template: str) -> re.Pattern[str]:
    parts = [re.escape(part) for part in template.replace("{revision}", "\x00").split("{operation_id}")]
    pattern = "(?P<operation>.+?)".join(parts[:2]) + "".join(f"(?P=operation){part}" for part in parts[2:])
    return re.compile(pattern.replace("\x00", r"\d+") + r"(?P<revision>#r\d+)?", re.DOTALL)


def _is_named(held: Held, context: Context) -> bool:
    """Whether the message names this operation as its own contract reads it: by all that it states."""
    reading = held.contract.compiled.notice
    if reading is None:
        return False
    name, key = _text(reading.operation_id, context), _text(reading.idempotency_key, context)
    if name is None and key is None:
        return False
    keys = {attempt.idempotency_key for attempt in held.facts.attempts}
    return name in (None, held.facts.operation_id) and (key is None or key in keys)


def _record(endpoint: Endpoint, message: Message, context: Context, held: Held) -> CameTo:
    for _ in range(MOST_TRIES):
        reading = held.contract.compiled.notice
        if reading is None:  # the pinned contract never changes, so this is not met
            return CameTo.SETTLES_NOTHING
        said, why_not = _said(held, reading, context)
        known = Known(
            since=since(id=held.id, effect=held.facts.effect),
            one_effect_a_key=held.contract.idempotency.guarantee is Guarantee.KEY,
        )
        weighed = weigh(notice=said, facts=held.facts, known=known)
        if why_not and weighed.weight is not Weight.CONFLICT:
            weighed = Weighed(weight=Weight.SETTLES_NOTHING, effect=None, reason=why_not)
        if _recorded(endpoint, message, context, held, said, weighed):
            return CameTo.SETTLES_NOTHING if weighed.weight is Weight.SETTLES_NOTHING else CameTo.RECORDED
        again = held_by_name(workspace_id=held.workspace_id, operation_id=held.facts.operation_id)
        if again is None:
            break
        held = again
    raise Contended(held.facts.operation_id)


def _recorded(
    endpoint: Endpoint, message: Message, context: Context, held: Held, said: NoticeFacts, weighed: Weighed
) -> bool:
    at = held.now
    decision = _decision(held, said, weighed)
    reading = held.contract.compiled.notice
    revision = _text(reading.revision, context) if reading is not None else None
    notice = Notice(
        owner=endpoint.owner,
        message_id=message.id,
        facts=said,
        weighed=weighed,
        revision=revision[:200] if revision is not None else None,
        digest=digest_of(message.raw),
        body=_kept(held, message.body),
        received_at=at,
        detail={
            "reasons": [weighed.reason],
            "came_to": weighed.weight.value,
            "says": said.effect.value if said.effect is not None else None,
            "differs": redact_differences(said.differs, paths=held.contract.redact),
            "rule": decision.rule if decision is not None else None,
        },
    )
    return record_notice(held=held, notice=notice, decision=decision, at=at) is not None


def _said(held: Held, reading: CompiledNotice, context: Context) -> tuple[NoticeFacts, str]:
    """What the message says as the operation's contract reads it, and why it may not be used."""
    effect = reading.effect_of(context)
    key = _text(reading.idempotency_key, context)
    event_at = moment_of(reading.event_at.read(context)) if reading.event_at is not None else None
    if event_at is not None and event_at > held.now + _AHEAD:
        event_at = None  # a moment that has not come yet orders nothing
    differs, why_not = [], ""
    payload = payload_of(id=held.id, revision=held.facts.revision) if reading.same else None
    for member, place in reading.same.items():
        seen, meant = place.read(context), member_of(payload, member)
        if seen is MISSING or meant is MISSING:
            # What is still being made, or was refused, may not show everything.
            if effect not in (Effect.PENDING, Effect.NONE, None):
                why_not = f"{member} cannot be compared with what was meant."
        elif not alike(seen, meant):
            differs.append((member, meant, seen))
    return NoticeFacts(effect=effect, key=key, event_at=event_at, differs=tuple(differs)), why_not


def _decision(held: Held, said: NoticeFacts, weighed: Weighed) -> Decision | None:
    """The next step; None where the message is only kept."""
    if weighed.weight not in STEPS or waits_for_its_attempt(held=held, weighed=weighed):
        return None
    effect = effect_with(held=held, notice=said, weighed=weighed)
    if weighed.weight is Weight.CONTRADICTS:
        return decide_contradiction(facts=held.facts, effect=effect, says=weighed.reason)
    conflict = weighed.weight is Weight.CONFLICT
    grade = Grade(
        outcome=LookupOutcome.FOUND,
        effect=weighed.effect,
        proof=Proof.OWNER_RESULT if weighed.effect is not None else None,
        clean_reads=0,
        absence_since=None,
        absent=False,
        conflict=conflict,
        reasons=(weighed.reason,),
        earliest_useful_at=None,
    )
    decision = decide_notice(
        grade=grade,
        facts=held.facts,
        effect=effect,
        contract=held.contract,
        now=held.now,
        roll=random.random(),  # noqa: S311 - spreads waits, guards nothing
    )
    return replace(decision, message=f"{decision.message} {weighed.reason}") if conflict else decision


def _text(place: Value | None, context: Context) -> str | None:
    value = place.read(context) if place is not None else MISSING
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) and 0 < len(value) <= 400 else None


def _kept(held: Held, body: Any) -> str:
    """The message as it may be kept: the contract's redactions, also inside the envelopes that are common."""
    paths = [f"{place}{path}" for path in held.contract.redact for place in ("", "data.", "data.object.", "object.")]
    return orjson.dumps(redact(body, paths=paths)).decode().replace("\\u0000", "�")
