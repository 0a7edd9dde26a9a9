"""What does a gRPC status prove about the call that it ended?

| in this order                     | proves                                                                    |
| --------------------------------- | ------------------------------------------------------------------------- |
| the contract's error rules        | what they say                                                             |
| a status that means refused       | none; ALREADY_EXISTS, ABORTED, NOT_FOUND, FAILED_PRECONDITION only when no earlier request of ours is open |
| RESOURCE_EXHAUSTED over a message that *we* could not take | unknown: the owner had answered already          |
| a documented code in the details  | the kind of refusal, or that it is not known                              |
| OK                                | done, as far as the contract's success rule agrees                        |
| every other status                | unknown: it may come after the effect, and from the library itself        |

A gRPC status is the owner's or the library's; the codes that the library makes by itself prove nothing here either
way, but for the refusals that it makes before it sends.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from ledger.rules.contract import Contract
from ledger.rules.expressions import Context
from ledger.rules.facts import AttemptFacts
from ledger.rules.vocabulary import Effect, EffectKind, FailureClass, Phase, Speaker
from recovery.judgement.documented import (
    DONE,
    GRPC_NAMES,
    LIMITED,
    TO_BE_CHECKED,
    Meaning,
    code_meaning,
    grpc_meaning,
    looks_like_a_code,
)
from recovery.judgement.error_bodies import Tells, field_of
from recovery.judgement.readers import members
from recovery.judgement.readers.conclude import Seen, begin, by_contract, conclude
from recovery.judgement.readers.results import by_success_rule, done
from recovery.judgement.reading import ObservationInvalid, Reading
from recovery.judgement.waits import wait_in

KIND = "grpc"
_KNOWN = members.COMMON | {"status", "call", "reason", "details"}
_TOO_LARGE_FOR_US = re.compile(r"\breceived message larger than max\b|\bmessage exceeds maximum size\b", re.IGNORECASE)
"""How the gRPC libraries word it when the answer, not the request, was too large. It makes us more careful only."""
_TOO_LARGE = replace(grpc_meaning("UNKNOWN"), rule="grpc.answer_too_large")


def read(
    observation: Mapping[str, Any], *, contract: Contract, earlier: Sequence[AttemptFacts], now: datetime
) -> Reading:
    """Reads a `grpc` observation.

    Raises:
        ObservationInvalid: no status, one that is neither a name nor a number from 0 to 16, or a wrong type.
    """
    seen = begin(
        observation,
        kind=KIND,
        known=_KNOWN,
        contract=contract,
        earlier=earlier,
        now=now,
        speaker=Speaker.OWNER_ANSWER,
        phase=Phase.AFTER_RESPONSE,
    )
    name = _name(observation)
    members.text(observation, "call")
    reason = members.text(observation, "reason")
    details = observation.get("details")
    if details is not None and not isinstance(details, list):
        raise ObservationInvalid("details", "must be a list.")
    shown = {"error": {"details": details or []}}
    codes = _codes(reason, details or [])
    seen = replace(
        seen,
        wait=wait_in(shown),
        field=field_of(shown),
        owner_code=codes[0] if codes else name,
        quoted=(reason[:300],) if reason and not looks_like_a_code(reason) else (),
    )
    context = Context.answer(
        speaker=seen.speaker, phase=seen.phase, code=name, error={"status": name, "details": details or []}
    )
    ruled = by_contract(context, seen)
    if ruled is not None:
        return ruled
    if name == "OK":
        return _ok(seen, context)
    return conclude(_meaning(name, reason, codes), seen)


def _name(observation: Mapping[str, Any]) -> str:
    value = observation.get("status")
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ObservationInvalid("status", "a gRPC status is a name such as ABORTED, or its number.")
    if isinstance(value, str) and not value.isdecimal():
        return value.strip().upper().rsplit(".", 1)[-1][:60]
    number = int(value) if len(str(value)) <= 3 else -1
    if not 0 <= number < len(GRPC_NAMES):
        raise ObservationInvalid("status", "the number of a gRPC status is from 0 to 16.")
    return GRPC_NAMES[number]


def _codes(reason: str | None, details: Sequence[Any]) -> tuple[str, ...]:
    """Codes of google.rpc.ErrorInfo, and of `reason` when it is written as one. PreconditionFailure has types."""
    found: list[str] = []
    for detail in details[:20]:
        if isinstance(detail, Mapping):
            found += [str(detail[name]) for name in ("reason", "type") if looks_like_a_code(detail.get(name))]
    if looks_like_a_code(reason):
        found.append(str(reason))
    return tuple(found)


def _meaning(name: str, reason: str | None, codes: Sequence[str]) -> Meaning:
    base = grpc_meaning(name)
    if base is LIMITED and reason and _TOO_LARGE_FOR_US.search(reason[:2_000]) is not None:
        return _TOO_LARGE
    if base.effect is not Effect.NONE:
        return base
    known = [said for code in codes if (said := code_meaning(code)) is not None]
    less_certain = next((said for said in known if said.effect is not Effect.NONE), None)
    if less_certain is not None:
        return less_certain
    # A detail tells the kind of a refusal; it never turns one that must change into one that is sent again.
    kinds = [said for said in known if said.failure_class is not FailureClass.TRANSIENT]
    return kinds[0] if kinds else base


def _ok(seen: Seen, context: Context) -> Reading:
    if seen.contract.is_read:
        return conclude(DONE, seen)
    matched = by_success_rule(Tells.NOTHING, seen, context)
    if matched is not None:
        return matched
    plain = seen.contract.compiled.success is None and seen.contract.effect is EffectKind.WRITE
    return done(replace(DONE, rule="grpc.ok"), seen, context) if plain else conclude(TO_BE_CHECKED, seen)
