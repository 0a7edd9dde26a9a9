"""What does the answer to a batch prove, item by item and as a whole?

| in this order                          | proves                                                              |
| -------------------------------------- | ------------------------------------------------------------------- |
| the contract's error rules             | what they say of the whole                                          |
| an answer that tells its items apart   | each its own; `applied` when all are, `partial` when all are told   |
| an answer that does not                | what such an HTTP answer proves; a success never means all items    |
| neither answer nor items               | unknown: one lookup for each item                                   |

`item_results.py` holds the formats. A gateway's status speaks for itself alone, whatever stands below it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from ledger.rules.contract import Contract
from ledger.rules.expressions import MISSING, Context, lower_cased
from ledger.rules.facts import AttemptFacts
from ledger.rules.vocabulary import Phase, Speaker
from recovery.judgement.documented import LOST, UNREADABLE
from recovery.judgement.error_bodies import parsed
from recovery.judgement.item_results import items_of
from recovery.judgement.readers import http, members
from recovery.judgement.readers.conclude import begin, by_contract, conclude
from recovery.judgement.readers.results import of_items
from recovery.judgement.reading import ObservationInvalid, Reading
from recovery.judgement.waits import moment, wait_of

KIND = "batch"
_KNOWN = members.COMMON | {"status", "headers", "body", "items"}


def read(
    observation: Mapping[str, Any], *, contract: Contract, earlier: Sequence[AttemptFacts], now: datetime
) -> Reading:
    """Reads a `batch` observation.

    Raises:
        ObservationInvalid: a member of the wrong type.
    """
    status = members.whole_number(observation, "status", least=100, most=999)
    headers = lower_cased(members.mapping(observation, "headers"))
    request = members.mapping(observation, "request")
    reported = observation.get("items")
    if reported is not None and not isinstance(reported, list):
        raise ObservationInvalid("items", "must be a list.")
    body, unreadable = parsed(body=observation.get("body"), headers=headers)
    seen = begin(
        observation,
        kind=KIND,
        known=_KNOWN,
        contract=contract,
        earlier=earlier,
        now=now,
        speaker=Speaker.OWNER_ANSWER,
        phase=Phase.AFTER_RESPONSE if status is not None or body is not None else None,
    )
    seen = replace(
        seen, wait=wait_of(headers=headers, body=body, observed_at=moment(observation.get("observed_at")), now=now)
    )
    context = Context.answer(
        status=status,
        headers=headers,
        body=body if "body" in observation else MISSING,
        speaker=seen.speaker,
        phase=seen.phase,
    )
    ruled = by_contract(context, seen)
    if ruled is not None:
        return ruled
    items = None
    if not unreadable and (status is None or status < 500):
        items = items_of(
            body=body,
            request=request,
            reported=reported,
            ours_is_open=seen.ours_is_open,
            in_order=contract.items is not None and contract.items.in_order,
        )
    if items is not None:
        return of_items(items, seen, context)
    if status is not None:
        inner = {name: value for name, value in observation.items() if name != "items"}
        reading = http.read({**inner, "kind": http.KIND}, contract=contract, earlier=earlier, now=now)
        return replace(reading, kind=KIND, read=seen.read, unread=seen.unread)
    return conclude(UNREADABLE if body is not None else LOST, seen)
