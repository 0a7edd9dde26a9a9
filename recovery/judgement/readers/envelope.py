"""What does an answer in one of the agents' dialects prove, and where does it contradict itself?

`envelopes.py` holds the dialects and their consistency. Here an envelope becomes a reading:

| it says                                     | proves                                                             |
| ------------------------------------------- | ------------------------------------------------------------------ |
| a refusal (validation, permission, business rule, not found) | none, with the field that it names                |
| transient                                   | unknown for a write, unless its code is a limiter's                |
| fatal, or a class that does not exist       | unknown for a write                                                |
| outcome unknown, pending, partial, unverified | just that                                                        |
| ok, with data                               | what the data says                                                 |
| a JSON-RPC answer or an MCP result          | what that says                                                     |
| the harness's own attempt record            | nothing: its own word needs a proof                                |
| none of the dialects                        | what such a structured result says                                 |
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from ledger.rules.contract import Contract
from ledger.rules.expressions import MISSING, Context
from ledger.rules.facts import AttemptFacts
from ledger.rules.vocabulary import Phase, Speaker
from recovery.judgement.documented import TO_BE_CHECKED, UNREADABLE
from recovery.judgement.envelopes import read_envelope
from recovery.judgement.error_bodies import parsed
from recovery.judgement.readers import jsonrpc, members
from recovery.judgement.readers.conclude import begin, by_contract, conclude
from recovery.judgement.readers.mcp import of_tool_result
from recovery.judgement.readers.results import of_envelope, of_result, with_envelope
from recovery.judgement.reading import Reading

KIND = "envelope"
_KNOWN = members.COMMON | {"body"}


def read(
    observation: Mapping[str, Any], *, contract: Contract, earlier: Sequence[AttemptFacts], now: datetime
) -> Reading:
    """Reads an `envelope` observation.

    Raises:
        ObservationInvalid: a member of the wrong type.
    """
    body, unreadable = parsed(body=observation.get("body"), headers={})
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
    shown = isinstance(body, Mapping)
    error = body.get("error") if isinstance(body, Mapping) else None
    context = Context.answer(
        body=body if shown else MISSING,
        error=error,
        code=error.get("code") if isinstance(error, Mapping) else None,
        speaker=seen.speaker,
        phase=seen.phase,
    )
    envelope = read_envelope(body) if isinstance(body, Mapping) and body else None
    ruled = by_contract(context, with_envelope(seen, envelope) if envelope is not None else seen)
    if ruled is not None:
        return ruled
    if unreadable:
        return conclude(UNREADABLE, seen)
    if not isinstance(body, Mapping) or not body:
        return conclude(TO_BE_CHECKED, seen)
    if envelope is not None:
        return of_envelope(envelope, seen, context)
    if "jsonrpc" in body:
        return _of_jsonrpc(body, observation, contract=contract, earlier=earlier, now=now)
    if isinstance(body.get("isError"), bool) or isinstance(body.get("content"), list):
        return of_tool_result(body, seen)
    return of_result(body, seen, context)


def _of_jsonrpc(
    body: Mapping[str, Any],
    observation: Mapping[str, Any],
    *,
    contract: Contract,
    earlier: Sequence[AttemptFacts],
    now: datetime,
) -> Reading:
    common = {name: observation[name] for name in ("network_attempts", "cost", "observed_at") if name in observation}
    if isinstance(body.get("error"), Mapping) and body["error"]:
        inner = {"kind": jsonrpc.KIND, "error": body["error"], **common}
        return jsonrpc.read(inner, contract=contract, earlier=earlier, now=now)
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
    result = body.get("result")
    return of_tool_result(result, seen) if isinstance(result, Mapping) else conclude(UNREADABLE, seen)
