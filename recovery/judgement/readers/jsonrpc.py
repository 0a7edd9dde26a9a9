"""What does a JSON-RPC error prove about the request that it answers?

| in this order                                  | proves                                                           |
| ---------------------------------------------- | ---------------------------------------------------------------- |
| the contract's error rules                     | what they say                                                    |
| made by our own SDK, or no answer had come     | none before any byte left, else unknown: the number is ours      |
| passed on by a proxy                           | unknown: it may stand for any failure further on                 |
| an error of asking for a task, not of the call | nothing of the call                                              |
| `data.notProcessed`                            | none: the peer guarantees it                                     |
| a refusal before anything ran (−32602 …)       | none, unless another number is wrapped in it                     |
| every other number (−32603, −32000 …)          | unknown: it has no fixed meaning                                 |
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from ledger.rules.contract import Contract
from ledger.rules.expressions import Context
from ledger.rules.facts import AttemptFacts
from ledger.rules.vocabulary import Effect, Phase, Speaker
from recovery.judgement.codes import Code
from recovery.judgement.documented import (
    BEFORE_ANY_BYTE,
    JSONRPC_CODES,
    JSONRPC_OTHER,
    LOST,
    NO_ANSWER,
    NOT_PROCESSED,
    NOT_SENT,
    Meaning,
)
from recovery.judgement.error_bodies import field_of
from recovery.judgement.readers import members
from recovery.judgement.readers.conclude import begin, by_contract, conclude
from recovery.judgement.readers.exceptions import phase_of
from recovery.judgement.reading import ObservationInvalid, Reading
from recovery.judgement.waits import wait_in

KIND = "jsonrpc"
_KNOWN = members.COMMON | {"error", "raised_by", "phase"}
_SPEAKERS: Final[Mapping[str | None, Speaker]] = {
    None: Speaker.OWNER_ANSWER,
    "server": Speaker.OWNER_ANSWER,
    "proxy": Speaker.GATEWAY,
    "client_sdk": Speaker.HARNESS,
}
_LOCAL: Final[Mapping[int, Meaning]] = {-32001: NO_ANSWER, -32000: LOST}
"""What the MCP SDKs make up themselves: request timed out, connection closed."""
_OTHER_HANDS = replace(JSONRPC_OTHER, rule="answer.passed_on", code=Code.GATEWAY_ERROR)
_OTHER_REQUEST = replace(JSONRPC_OTHER, rule="answer.to_another_request", code=Code.POLL_FAILED)
_WRAPPED = re.compile(r"MCP error (-\d{5})\b", re.ASCII)
"""The TypeScript SDK writes an error's number in front of its message, once for each hand that it passed."""
_AFTER_THE_CALL = re.compile(r"\boutput validation error\b|\boutput schema\b", re.IGNORECASE)
"""How the SDKs word a result that did not fit the tool's output schema: the tool had run by then."""


def read(
    observation: Mapping[str, Any], *, contract: Contract, earlier: Sequence[AttemptFacts], now: datetime
) -> Reading:
    """Reads a `jsonrpc` observation.

    Raises:
        ObservationInvalid: no error, a `raised_by` or phase that does not exist, or a member of the wrong type.
    """
    error = members.mapping(observation, "error")
    if not error:
        raise ObservationInvalid("error", "a JSON-RPC failure has an error.")
    number = members.whole_number(error, "code", least=-(2**53), most=2**53, inside="error.")
    message = members.text(error, "message", inside="error.") or ""
    raised_by = members.text(observation, "raised_by")
    if raised_by not in _SPEAKERS:
        raise ObservationInvalid("raised_by", "must be client_sdk, proxy, server or null.")
    phase = phase_of(observation)
    method = members.text(members.mapping(observation, "request"), "method", inside="request.")
    data = error.get("data")
    seen = begin(
        observation,
        kind=KIND,
        known=_KNOWN,
        contract=contract,
        earlier=earlier,
        now=now,
        speaker=Speaker.HARNESS if phase in _NO_ANSWER_YET else _SPEAKERS[raised_by],
        phase=phase,
    )
    seen = replace(
        seen,
        owner_code=None if number is None else str(number),
        quoted=(message[:300],) if message else (),
        wait=wait_in({"error": error}),
        field=field_of(data) if isinstance(data, Mapping) else None,
    )
    context = Context.answer(speaker=seen.speaker, phase=phase, code=number, error=dict(error))
    ruled = by_contract(context, seen)
    if ruled is not None:
        return ruled
    if seen.speaker is Speaker.HARNESS:
        return conclude(NOT_SENT if phase in BEFORE_ANY_BYTE else _LOCAL.get(number or 0, JSONRPC_OTHER), seen)
    if seen.speaker is Speaker.GATEWAY:
        return conclude(_OTHER_HANDS, seen)
    if method is not None and method != "tools/call" and not contract.is_read:
        return conclude(_OTHER_REQUEST, seen)
    return conclude(_by_number(number, message, data), seen)


_NO_ANSWER_YET: Final = BEFORE_ANY_BYTE | {Phase.SEND, Phase.AWAIT}


def _by_number(number: int | None, message: str, data: Any) -> Meaning:
    meaning = JSONRPC_CODES.get(number or 0, JSONRPC_OTHER)
    if isinstance(data, Mapping) and data.get("notProcessed") is True:
        return NOT_PROCESSED if meaning is JSONRPC_OTHER else meaning
    return narrowed(meaning, message)


def narrowed(meaning: Meaning, message: str) -> Meaning:
    """A refusal loses its force when its text, in a form that its SDK writes, tells of something later: a number from
    further on that proves nothing, or a result that did not fit."""
    if meaning.effect is not Effect.NONE:
        return meaning
    inner = [JSONRPC_CODES.get(int(found), JSONRPC_OTHER) for found in _WRAPPED.findall(message[:4_000])]
    if JSONRPC_OTHER in inner or _AFTER_THE_CALL.search(message[:4_000]) is not None:
        return JSONRPC_OTHER
    return meaning
