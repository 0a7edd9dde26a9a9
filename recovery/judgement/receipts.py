"""Which of the contract's receipt members does an observation show?

| the reading      | members that are taken                                                                    |
| ---------------- | ----------------------------------------------------------------------------------------- |
| a proved success | all, from the owner's answer (readers/results.py)                                         |
| pending          | all, from the owner's answer: a handle by which the end of the work is learnt             |
| anything         | those that the contract reads from `request`: what the harness knew before it sent, such  |
|                  | as a transaction's id (`receipt: {xact: request.xact_id}`)                                |

An answer that refuses shows no handle: the `id` in an error names the error.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from ledger.rules.contract import Contract
from ledger.rules.expressions import Context, lower_cased
from ledger.rules.vocabulary import Effect
from recovery.judgement.error_bodies import parsed
from recovery.judgement.reading import Reading, Scalar

LONGEST: Final = 2_000
"""Characters of a member; longer text is no handle."""
_REQUEST: Final = frozenset({"request"})


def with_receipt(reading: Reading, observation: Mapping[str, Any], *, contract: Contract) -> Reading:
    """The reading with the members that it does not have yet."""
    members = contract.compiled.receipt
    if not members:
        return reading
    shown: dict[str, Scalar] = {}
    sent = Context({"request": observation.get("request")})
    answer = _answer(observation) if reading.effect is Effect.PENDING and not reading.receipt else None
    for name, value in members.items():
        context = sent if value.variables <= _REQUEST else answer
        found = value.read(context) if context is not None else None
        if isinstance(found, str | int | float) and not isinstance(found, bool) and len(str(found)) <= LONGEST:
            shown[name] = found
    return replace(reading, receipt={**shown, **reading.receipt}) if shown else reading


def _answer(observation: Mapping[str, Any]) -> Context:
    """The owner's answer as the contract's conditions see it, whatever kind of observation carries it."""
    held = observation.get("response")
    holder = held if isinstance(held, Mapping) else observation
    headers = holder.get("headers")
    lowered = lower_cased(headers) if isinstance(headers, Mapping) else {}
    result = holder.get("result")
    if isinstance(result, Mapping):
        structured = result.get("structuredContent")
        body = structured if isinstance(structured, Mapping) else result
    else:
        shown = next((holder[name] for name in ("task", "operation", "body") if holder.get(name) is not None), None)
        body, _ = parsed(body=shown, headers=lowered)
    return Context.answer(status=holder.get("status"), headers=lowered, body=body, lowered=True)
