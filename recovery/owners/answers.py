"""What does an owner's answer say, by the contract's conditions?

One object (`body` is the answer, or the one item that matched):

| the object                                                  | outcome                                  |
| ----------------------------------------------------------- | ---------------------------------------- |
| `found` holds, or is not stated; an `effect` condition holds | found, with that effect                 |
| `found` holds, but no `effect` condition does               | inconclusive                             |
| a `same` member of something applied cannot be read         | inconclusive                             |
| a `same` member is another than was meant                   | found, with the difference: a conflict   |
| `no_match` holds                                            | no_match                                 |
| neither holds                                               | inconclusive; 403, 407: lookup_failed    |

Several objects (`items`), of which `match` chooses:

| how many match         | outcome                                                                      |
| ---------------------- | ---------------------------------------------------------------------------- |
| none                   | no_match; not complete where an item could not be compared                   |
| one                    | as one object                                                                |
| several                | found so many times, each with what names it: there may be a duplicate       |
| `match` needs what this operation does not have | inconclusive                                        |

Grading (ledger/rules/evidence.py) says afterwards what of this counts.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, TypeGuard

from ledger.rules.expressions import MISSING, Absent, Condition, Context
from ledger.rules.payload import alike
from ledger.rules.vocabulary import Effect, LookupOutcome
from recovery.judgement.waits import moment
from recovery.owners.base import Question, Reply

MOST_FOUND: Final = 20
"""Objects that are named when several match."""
_LONGEST_RECEIPT: Final = 2_000
_NAMING: Final = ("id", "key", "name", "number", "url", "href")
"""Members that commonly name an object, for when the contract's receipt reads nothing from it."""
_FORBIDDEN: Final = frozenset({403, 407})


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What is known of a question and its answer, whatever it turns out to say."""

    query: str = ""
    principal: str = ""
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""
    """As text, for the record."""
    complete: bool = True
    revision: str | None = None
    pages: int = 1
    stop_reason: str = ""
    retry_after_ms: int | None = None

    @property
    def is_success(self) -> bool:
        """Whether the status is one of success; answers without one count as such."""
        return self.status is None or 200 <= self.status < 300

    def reply(self, outcome: LookupOutcome, **more: Any) -> Reply:
        """A reply with everything that is known; `more` are the other members of Reply."""
        known: dict[str, Any] = {
            "query": self.query,
            "principal": self.principal,
            "status": self.status,
            "body": self.body,
            "complete": self.complete,
            "revision": self.revision,
            "pages": self.pages,
            "stop_reason": self.stop_reason,
            "retry_after_ms": self.retry_after_ms,
        }
        return Reply(outcome=outcome, **known | more)


def of_answer(question: Question, value: Any, told: Told) -> Reply:
    """What one answer says; `value` is its body, parsed where it is JSON."""
    context = context_of(value, told)
    told = with_page(question, context, told)
    return of_object(question, context, told)


def of_state(question: Question, value: Any, told: Told, *, otherwise: Effect | None, reason: str = "") -> Reply:
    """What the state behind a handle says: the first `effect` condition of the contract that holds, else `otherwise`,
    which is the protocol's own meaning. None of either: inconclusive, with `reason`."""
    context = context_of(value, told)
    told = with_page(question, context, told)
    stated = question.lookup.effect_of(context) if question.lookup.effects else None
    effect = stated or otherwise
    if effect is None:
        return told.reply(LookupOutcome.INCONCLUSIVE, reason=reason, matches=1)
    return _compared(question, context, effect, told)


def of_items(question: Question, items: Sequence[Any], told: Told, *, ends: float = math.inf) -> Reply:
    """What the objects of a list say. The caller has judged the pages: `told.complete` and `told.stop_reason`.

    `ends`: when comparing must end, by the monotonic clock; what was not compared until then counts as undecided.
    """
    match = question.lookup.match
    chosen, undecided = list(items), 0
    if match is not None:
        if (lacking := _lacking(question, match.variables)) is not None:
            return missing(lacking, told)
        judged = [_matches(match, question, item, ends) for item in items]
        chosen = [item for item, matches in zip(items, judged, strict=True) if matches]
        undecided = judged.count(None)
    if not chosen:
        if undecided:
            reason = f"{undecided} of {len(items)} objects could not be compared with this operation"
            return told.reply(LookupOutcome.NO_MATCH, complete=False, reason=reason)
        return told.reply(LookupOutcome.NO_MATCH)
    if len(chosen) > 1:
        found = tuple(_named(question, item, told) for item in chosen[:MOST_FOUND])
        return told.reply(LookupOutcome.FOUND, matches=len(chosen), found=found)
    return of_object(question, context_of(chosen[0], told), told)


def context_of(value: Any, told: Told) -> Context:
    """What the contract's conditions see of an answer, or of one object of it."""
    return Context.answer(status=told.status, headers=told.headers, body=value, speaker="owner", lowered=True)


def with_page(question: Question, context: Context, told: Told) -> Told:
    """What an answer says of itself: whether it was cut short, and which revision of the owner's data it shows."""
    lookup = question.lookup
    if lookup.truncated is not None and lookup.truncated.matches(context) is not False:
        told = replace(told, complete=False, stop_reason=told.stop_reason or "truncated")
    if lookup.revision is not None and isinstance(revision := lookup.revision.read(context), str | int):
        told = replace(told, revision=str(revision)[:200])
    return told


def values_of(question: Question) -> dict[str, Any]:
    """What the slots of templates are filled from."""
    values = {
        "operation_id": question.operation_id,
        "idempotency_key": question.idempotency_key,
        "payload": question.payload,
        "receipt": question.receipt,
    }
    return values if question.item is None else values | {"item": question.item}


def not_asked(reason: str, told: Told | None = None) -> Reply:
    """A question that was not put, or found no answer: nothing is known."""
    return (told or Told()).reply(LookupOutcome.LOOKUP_FAILED, complete=False, reason=reason.rstrip("."))


def missing(name: str, told: Told) -> Reply:
    """A question that cannot be put for this operation: the contract's next one is asked."""
    if name.startswith("receipt."):
        reason = f"The handle was lost: no answer of the owner has told {name}, so it cannot be asked this way"
    else:
        reason = f"The question needs {name}, which this operation does not have"
    return told.reply(LookupOutcome.INCONCLUSIVE, complete=False, reason=reason)


def of_object(question: Question, context: Context, told: Told) -> Reply:
    lookup = question.lookup
    if lookup.found is None or lookup.found.matches(context):
        if lookup.found is None and lookup.no_match is not None and lookup.no_match.matches(context):
            return told.reply(LookupOutcome.NO_MATCH)
        effect = lookup.effect_of(context)
        if effect is None:
            return told.reply(
                LookupOutcome.INCONCLUSIVE, reason="The object's state is none that the contract knows", matches=1
            )
        return _compared(question, context, effect, told)
    if lookup.no_match is not None and lookup.no_match.matches(context):
        return told.reply(LookupOutcome.NO_MATCH)
    return unknown_to_the_contract(told)


def unknown_to_the_contract(told: Told) -> Reply:
    """An answer that no condition of the contract knows."""
    if told.status in _FORBIDDEN:
        return told.reply(LookupOutcome.LOOKUP_FAILED, complete=False, reason=f"The owner answered {told.status}")
    said = f"The owner answered {told.status}, which" if told.status is not None else "The owner's answer is one that"
    return told.reply(LookupOutcome.INCONCLUSIVE, reason=f"{said} the contract does not know")


def _compared(question: Question, context: Context, effect: Effect, told: Told) -> Reply:
    differs = []
    meant_of = question.payload if question.item is None else question.item
    for member, place in question.lookup.same.items():
        seen, meant = place.read(context), member_of(meant_of, member)
        if seen is MISSING or meant is MISSING:
            # What is still being made, or was refused, may not show everything yet.
            if effect in (Effect.PENDING, Effect.NONE):
                continue
            return told.reply(
                LookupOutcome.INCONCLUSIVE, reason=f"{member} cannot be compared with what was meant", matches=1
            )
        if not alike(seen, meant):
            differs.append((member, meant, seen))
    receipt = {} if differs else _receipt(question, context)
    return told.reply(
        LookupOutcome.FOUND,
        effect=effect,
        matches=1,
        differs=tuple(differs),
        found=(_named_in(question, context),),
        receipt={name: value for name, value in receipt.items() if name not in question.receipt},
        event_at=_event_at(question, context),
    )


def _match_context(question: Question, item: Any) -> Context:
    return Context.match(
        item=item,
        operation_id=question.operation_id,
        payload=question.payload if question.item is None else question.item,
        idempotency_key=question.idempotency_key,
    )


def _matches(match: Condition, question: Question, item: Any, ends: float) -> bool | None:
    return match.matches(_match_context(question, item)) if time.monotonic() < ends else None


def _lacking(question: Question, variables: frozenset[str]) -> str | None:
    """What a match would compare with and this operation does not have: null must never equal an owner's null."""
    if "idempotency_key" in variables and question.idempotency_key is None:
        return "idempotency_key"
    if "payload" in variables and question.payload is None and question.item is None:
        return "payload"
    return None


def _receipt(question: Question, context: Context) -> dict[str, str | int | float]:
    read = {name: value.read(context) for name, value in question.receipts.items()}
    return {name: value for name, value in read.items() if _is_receipt(value)}


def _is_receipt(value: Any) -> TypeGuard[str | int | float]:
    if isinstance(value, str):
        return 0 < len(value) <= _LONGEST_RECEIPT
    return isinstance(value, int | float) and not isinstance(value, bool)


def _named(question: Question, item: Any, told: Told) -> Mapping[str, Any]:
    return _named_in(question, context_of(item, told))


def _named_in(question: Question, context: Context) -> Mapping[str, Any]:
    """What names an object: the contract's receipt members, else those that commonly do."""
    if receipt := _receipt(question, context):
        return receipt
    body = context.raw("body")
    if not isinstance(body, Mapping):
        return {}
    return {name: body[name] for name in _NAMING if _is_receipt(body.get(name))}


def _event_at(question: Question, context: Context) -> datetime | None:
    place = question.lookup.event_at
    return None if place is None else moment_of(place.read(context))


def moment_of(value: Any) -> datetime | None:
    """A moment as owners write it: RFC 3339 with an offset, or seconds or milliseconds since 1970; else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return moment(value)
    seconds = value / 1000 if abs(value) > 1e11 else float(value)
    try:
        return datetime.fromtimestamp(seconds, tz=UTC)
    except (OverflowError, OSError, ValueError):
        return None


def member_of(payload: Any, path: str) -> Any | Absent:
    for step in path.split("."):
        if not isinstance(payload, Mapping) or step not in payload:
            return MISSING
        payload = payload[step]
    return payload
