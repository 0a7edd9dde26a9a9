"""What does a structured result prove, whoever carried it: an HTTP body, a tool's structuredContent, a program's output?

| in this order                              | proves                                                           |
| ------------------------------------------ | ---------------------------------------------------------------- |
| an envelope that says what kind of failure | what that kind means, after its consistency was checked          |
| the contract's success rule                | done, unless the result itself reports a failure                 |
| an error in it                             | what a documented code means; without one, nothing               |
| items, for a batch                         | each its own                                                     |
| an unfinished state                        | accepted and running                                             |
| structured members, nothing against success | done, for a tool whose contract has no success rule             |
| text, or nothing                           | nothing: the outcome has to be checked                           |
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ledger.rules.contract_sections import PayloadMismatch
from ledger.rules.expressions import Context
from ledger.rules.vocabulary import Action, Effect, EffectKind, FailureClass, Proof, Speaker
from recovery.judgement.codes import Code
from recovery.judgement.documented import (
    CONTRADICTS,
    DONE,
    ERROR_INSIDE,
    INVALID,
    JSONRPC_CODES,
    JSONRPC_OTHER,
    NOT_PROCESSED,
    PARTIAL,
    TO_BE_CHECKED,
    UNACCOUNTED,
    UNFINISHED,
    Meaning,
    code_meaning,
)
from recovery.judgement.envelopes import Dialect, Envelope, read_envelope
from recovery.judgement.error_bodies import ErrorBody, Tells, read_body
from recovery.judgement.item_results import Items, items_of
from recovery.judgement.readers.conclude import Seen, conclude
from recovery.judgement.reading import Reading, Scalar

_INCOMPLETE = replace(PARTIAL, remedy=Action.RETRY)
_UNKNOWN_ITEMS = replace(UNACCOUNTED, rule="batch.unknown", failure_class=FailureClass.UNKNOWN_OUTCOME)


def of_result(value: Any, seen: Seen, context: Context) -> Reading:
    """The reading for a structured result that came without a refusal around it."""
    envelope = read_envelope(value)
    if envelope is not None:
        return of_envelope(envelope, seen, context)
    error = read_body(body=value, unreadable=False, headers={})
    seen = with_error(seen, error)
    if seen.contract.is_read:
        return conclude(_of_a_read(error), seen)
    matched = by_success_rule(error.tells, seen, context)
    if matched is not None:
        return matched
    if seen.contract.effect is EffectKind.BATCH:
        items = items_of(body=value, request={}, ours_is_open=seen.ours_is_open)
        if items is not None:
            return of_items(items, seen, context)
    if error.tells is Tells.ERROR:
        return conclude(inside(error, meaning_of(error)), seen)
    if error.tells is Tells.PARTIAL and not error.among_entries:
        return conclude(UNACCOUNTED, seen)
    if error.tells is Tells.UNFINISHED:
        return conclude(UNFINISHED, seen)
    plain = error.tells is Tells.NOTHING and isinstance(value, Mapping) and value
    if plain and seen.contract.compiled.success is None and seen.contract.effect is EffectKind.WRITE:
        return done(replace(DONE, rule="answer.done_by_default"), seen, context)
    return conclude(TO_BE_CHECKED, seen)


def of_envelope(envelope: Envelope, seen: Seen, context: Context) -> Reading:
    """The reading for an envelope. Its class is believed as far as a refusal goes; its orders never are."""
    seen = with_envelope(seen, envelope)
    if envelope.meaning is None:
        return _of_data(envelope.data, seen, context)
    if envelope.dialect is Dialect.READ_RESULT and not seen.contract.is_read:
        # What was read says nothing of what a write did.
        return conclude(TO_BE_CHECKED, seen)
    if envelope.claimed_by_harness:
        seen = replace(seen, speaker=Speaker.HARNESS)
    return conclude(envelope.meaning, seen)


def with_envelope(seen: Seen, envelope: Envelope) -> Seen:
    """What an envelope names of itself, for the reading, whichever rule then says what it means."""
    return replace(
        seen,
        field=envelope.field or seen.field,
        owner_code=envelope.owner_code or seen.owner_code,
        wait=envelope.wait or seen.wait,
        quoted=envelope.quoted or seen.quoted,
        violations=(*seen.violations, *envelope.violations),
    )


def _of_data(data: Any, seen: Seen, context: Context) -> Reading:
    """`ok: true`: what stands in `data` may still tell of a failure or of work that is not finished."""
    if isinstance(data, Mapping) and data:
        return of_result(data, seen, context)
    if seen.contract.is_read:
        return conclude(DONE, seen)
    matched = by_success_rule(Tells.NOTHING, seen, context)
    if matched is not None:
        return matched
    plain = seen.contract.compiled.success is None and seen.contract.effect is EffectKind.WRITE
    return done(replace(DONE, rule="envelope.ok"), seen, context) if plain else conclude(TO_BE_CHECKED, seen)


def with_error(seen: Seen, error: ErrorBody) -> Seen:
    """What a body names of itself, for the reading."""
    return replace(
        seen,
        body=error,
        owner_code=error.codes[0] if error.codes else seen.owner_code,
        quoted=error.quoted or seen.quoted,
    )


def meaning_of(error: ErrorBody) -> Meaning | None:
    """What the codes of a body mean together: a key in use first, then any word of not knowing, then the first."""
    if error.jsonrpc is not None:
        if error.not_processed:
            return JSONRPC_CODES.get(error.jsonrpc, NOT_PROCESSED)
        return JSONRPC_CODES.get(error.jsonrpc, JSONRPC_OTHER)
    known = [meaning for code in error.codes if (meaning := code_meaning(code)) is not None]
    for effect in (Effect.PENDING, Effect.UNKNOWN):
        for meaning in known:
            if meaning.effect is effect:
                return meaning
    return known[0] if known else None


def inside(error: ErrorBody, said: Meaning | None) -> Meaning:
    """An error inside a success: what the owner's code proves, and nothing when no documented code is there."""
    if error.partly_done:
        return replace(UNACCOUNTED, rule="answer.error_beside_data", code=Code.ERROR_IN_ANSWER)
    if said is not None:
        return said
    return INVALID if error.refused_input else ERROR_INSIDE


def by_success_rule(tells: Tells, seen: Seen, context: Context) -> Reading | None:
    """The reading when the contract's success rule holds; None when it does not, or there is none. A body that says
    otherwise still keeps it from counting."""
    contract = seen.contract
    success = contract.compiled.success
    if success is None or success.matches(context) is not True:
        return None
    if tells in (Tells.ERROR, Tells.UNREADABLE):
        return conclude(CONTRADICTS, seen)
    marker = contract.compiled.replay_marker
    replayed = marker is not None and marker.matches(context) is True
    payloads = {attempt.digest for attempt in seen.earlier}
    if replayed and contract.idempotency.on_payload_mismatch is not PayloadMismatch.REJECT and len(payloads) > 1:
        # The stored answer may be to another payload of ours.
        return conclude(replace(CONTRADICTS, rule="answer.replayed_for_another_payload"), seen)
    return done(replace(DONE, rule="contract.success"), seen, context)


def done(meaning: Meaning, seen: Seen, context: Context) -> Reading:
    """The reading for a proved success, with the contract's receipt."""
    receipt: dict[str, Scalar] = {}
    for name, value in seen.contract.compiled.receipt.items():
        found = value.read(context)
        if isinstance(found, str | int | float):
            receipt[name] = found[:1_000] if isinstance(found, str) else found
    return conclude(meaning, replace(seen, receipt=receipt))


def of_items(items: Items, seen: Seen, context: Context) -> Reading:
    """The reading for a batch whose items were told one by one."""
    told = items.told if seen.network_attempts <= 1 else items.doubted()
    seen = replace(seen, items=told, wait=seen.wait or items.wait)
    effects = {item.effect for item in told}
    if seen.contract.is_read:
        whole = effects <= {Effect.APPLIED}
        return conclude(DONE if whole else PARTIAL, seen, remedy=None if whole else Action.RETRY)
    if effects == {Effect.APPLIED}:
        return done(replace(DONE, rule="batch.all_done"), seen, context)
    if effects == {Effect.UNKNOWN}:
        return conclude(_UNKNOWN_ITEMS, seen)
    if effects == {Effect.NONE}:
        return conclude(_all_refused(items, seen), seen)
    if Effect.UNKNOWN in effects:
        return conclude(UNACCOUNTED, seen)
    return conclude(UNFINISHED if Effect.PENDING in effects else PARTIAL, seen)


def _all_refused(items: Items, seen: Seen) -> Meaning:
    first = items.told[0]
    alike = all((item.failure_class, item.remedy) == (first.failure_class, first.remedy) for item in seen.items)
    not_sent = all(item.proof is Proof.NOT_SENT for item in seen.items)
    return Meaning(
        rule="batch.all_refused",
        failure_class=first.failure_class if alike else FailureClass.PARTIAL,
        effect=Effect.NONE,
        code=Code(first.code) if alike else Code.PARTIAL_RESULT,
        source="law 10",
        proof=Proof.NOT_SENT if not_sent else Proof.OWNER_RESULT,
        remedy=first.remedy if alike else Action.RECOVER_ITEMS,
        field=first.field if alike else None,
    )


def _of_a_read(error: ErrorBody) -> Meaning:
    if error.tells is Tells.ERROR:
        return inside(error, meaning_of(error))
    return _INCOMPLETE if error.tells is Tells.PARTIAL and not error.among_entries else DONE
