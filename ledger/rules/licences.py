"""Why may a write be sent again?

The first line that holds is the licence; without one there is no repeat:

| licence               | holds when                                                                              |
| --------------------- | --------------------------------------------------------------------------------------- |
| effect_none_proved    | every attempt is proved to have had no effect                                           |
| natural_idempotency   | the contract says that repeats are harmless; the payload is unchanged; no later         |
|                       | operation of ours has touched the same identity                                         |
| key_in_window         | the owner guarantees its keys; same key, payload and principal as every attempt that    |
|                       | may have had an effect; and the owner still remembers the key for certain               |

`accepted_duplicate_risk` is two people's decision: it stands in the operation's decision until the one permit that it
licenses, and is never found here.
A new key, a changed payload and the passing of time are no licence.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from ledger.rules.contract import Contract, idempotency_key
from ledger.rules.facts import AttemptFacts, Facts
from ledger.rules.vocabulary import Effect, Guarantee, Licence, Outcome

LEAST_MARGIN: Final = timedelta(minutes=1)
MARGIN_SHARE: Final = 0.01
"""A key is used no longer than its retention less one hundredth of it, and less at least a minute: two clocks differ,
and a permit is used some time after it is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why there is no licence."""

    code: str
    sentence: str


def may_repeat(*, facts: Facts, contract: Contract, now: datetime, joined: Effect | None = None) -> Licence | Refusal:
    """The licence under which this operation may be dispatched again, or why there is none.

    `joined` is the operation's effect with something that the facts do not hold yet; not given: the facts' own. A
    joined `none` covers every attempt: that is what the join means.
    """
    effect = facts.effect if joined is None else joined
    if facts.outcome is Outcome.WRITTEN_OFF:
        return Refusal(
            code="WRITTEN_OFF",
            sentence="Two people closed this with its effect unknown. That never permits a repeat.",
        )
    if facts.is_read:
        return Licence.EFFECT_NONE_PROVED
    covered = joined is Effect.NONE
    if effect is Effect.NONE and (covered or all(_proved_none(attempt, facts) for attempt in facts.attempts)):
        return Licence.EFFECT_NONE_PROVED
    if effect is Effect.APPLIED:
        return Refusal(code="ALREADY_APPLIED", sentence="It has happened. There is nothing to repeat.")
    if effect is Effect.PARTIAL:
        return Refusal(
            code="PARTLY_APPLIED", sentence="Part of it has happened. Only the items that did not may be sent again."
        )
    if contract.idempotency.guarantee is Guarantee.NATURAL:
        return _natural(facts)
    if contract.idempotency.guarantee is Guarantee.KEY:
        return _key(facts=facts, contract=contract, now=now)
    return Refusal(
        code="EFFECT_UNKNOWN",
        sentence="It may have happened, and the owner promises nothing about repeats. It must not be sent again "
        "until its effect is known.",
    )


def key_window_ends(*, facts: Facts, contract: Contract) -> datetime | None:
    """Until when a repeat with the same key is certain to meet the owner's memory of it.

    Counted from the first moment at which the key may have been sent, whatever the owner counts from: that is the
    earliest. None when the contract guarantees no key, states no retention, or nothing was sent.
    """
    retention = contract.idempotency.retention
    if contract.idempotency.guarantee is not Guarantee.KEY or retention is None:
        return None
    key = idempotency_key(contract, operation_id=facts.operation_id, revision=facts.revision)
    opened = [attempt.opened_at for attempt in facts.attempts if attempt.idempotency_key == key]
    first = min([*opened, facts.first_sent_at] if facts.first_sent_at is not None else opened, default=None)
    return None if first is None else first + retention - margin(retention)


def margin(retention: timedelta) -> timedelta:
    """How long before the end of the retention a key is no longer relied on."""
    return max(LEAST_MARGIN, retention * MARGIN_SHARE)


def _natural(facts: Facts) -> Licence | Refusal:
    if any(attempt.digest != facts.payload_digest for attempt in _open(facts)):
        return Refusal(
            code="PAYLOAD_CHANGED",
            sentence="The payload differs from an attempt that may have happened, so this is not the same request.",
        )
    if facts.touched_since:
        return Refusal(
            code="TOUCHED_SINCE",
            sentence="A later operation has touched the same thing; repeating this one could undo it.",
        )
    return Licence.NATURAL_IDEMPOTENCY


def _key(*, facts: Facts, contract: Contract, now: datetime) -> Licence | Refusal:
    if not facts.whole_request:
        return Refusal(
            code="KEY_IS_THE_WHOLE_REQUESTS",
            sentence="It may have happened, and the key stands for the whole request: a part of it would have another.",
        )
    key = idempotency_key(contract, operation_id=facts.operation_id, revision=facts.revision)
    # An attempt that was refused may still have left its payload with the owner under this key.
    concerned = [
        attempt for attempt in facts.attempts if attempt.effect is not Effect.NONE or attempt.idempotency_key == key
    ]
    if not concerned:
        return Refusal(
            code="NO_EARLIER_KEY",
            sentence="No attempt is known that carried this key, so a repeat cannot rely on it.",
        )
    if key is None or any(attempt.idempotency_key != key for attempt in concerned):
        return Refusal(
            code="KEY_CHANGED",
            sentence="An attempt that may have happened carried another key. A new key would make a second effect.",
        )
    if any(attempt.digest != facts.payload_digest for attempt in concerned):
        return Refusal(
            code="PAYLOAD_CHANGED",
            sentence="The payload differs from an attempt with the same key; the owner's answer would be to that one.",
        )
    if any(attempt.principal != facts.principal for attempt in concerned):
        return Refusal(
            code="PRINCIPAL_CHANGED",
            sentence="An attempt was made as somebody else; the owner may not know the key from this principal.",
        )
    if any(attempt.key_expired for attempt in concerned):
        return Refusal(
            code="KEY_EXPIRED",
            sentence="The owner says that it no longer remembers this key. A repeat could make a second effect.",
        )
    ends = key_window_ends(facts=facts, contract=contract)
    if ends is None:
        return Refusal(
            code="KEY_RETENTION_UNKNOWN",
            sentence="The contract does not say how long the owner remembers a key, so a repeat cannot rely on it.",
        )
    if now >= ends:
        return Refusal(
            code="KEY_WINDOW_OVER",
            sentence="The owner may have forgotten the key by now. A repeat could make a second effect.",
        )
    return Licence.KEY_IN_WINDOW


def _proved_none(attempt: AttemptFacts, facts: Facts) -> bool:
    """Proved by itself, or covered by the absence that made the operation's effect `none`. Never while in flight."""
    if attempt.effect is Effect.NONE:
        return True
    since = facts.absence_since
    return attempt.closed_at is not None and since is not None and since > attempt.lapses_at


def _open(facts: Facts) -> tuple[AttemptFacts, ...]:
    return tuple(attempt for attempt in facts.attempts if attempt.effect is not Effect.NONE)
