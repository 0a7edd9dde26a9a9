"""What does an HTTP answer prove about the request that it answers?

| in this order                                   | because                                                          |
| ----------------------------------------------- | ---------------------------------------------------------------- |
| the contract's error rules                      | the tool's contract knows more than the standard                 |
| the contract's sign of a key still in use       | our own earlier request is running                               |
| a redirect that changed the method              | the answer belongs to another request                            |
| a gateway's documented mark                     | it can speak for itself alone                                    |
| lists of successes beside failures              | some went through, whatever the status                           |
| a status below 400: the success rule, then body | HTTP 200 proves nothing by itself                                |
| the owner's code, then the status               | a structured field goes before the status, prose decides nothing |

Without a success rule in the contract, 200, 201 and 204 count as done when the body is structured (or absent), holds
no error and names no unfinished state; a batch never does.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from ledger.rules.contract import Contract
from ledger.rules.expressions import MISSING, Context, lower_cased
from ledger.rules.facts import AttemptFacts
from ledger.rules.vocabulary import Action, Effect, EffectKind, FailureClass, Phase, Speaker
from recovery.judgement.codes import Code
from recovery.judgement.documented import (
    DONE,
    GATEWAY_STATUSES,
    IN_FLIGHT,
    KEY_EXPIRED,
    KEY_REUSED,
    LIMITED,
    NO_ROUTE,
    NOT_LISTED,
    PARTIAL,
    SESSION_EXPIRED,
    STATUSES,
    UNACCOUNTED,
    UNFINISHED,
    UNREADABLE,
    Meaning,
    gateway_meaning,
    refusal_kind,
)
from recovery.judgement.error_bodies import ErrorBody, Tells, parsed, read_body
from recovery.judgement.item_results import items_of
from recovery.judgement.readers import members
from recovery.judgement.readers.conclude import Seen, by_contract, conclude
from recovery.judgement.readers.results import by_success_rule, done, inside, meaning_of, of_items
from recovery.judgement.reading import ObservationInvalid, Reading
from recovery.judgement.waits import moment, wait_of

KIND = "http"
_KNOWN = members.COMMON | {"status", "headers", "body", "redirects", "elapsed_ms"}
_KEEPS_THE_METHOD = frozenset({307, 308})
_KIND_BY_CODE = frozenset({400, 402, 403, 409, 422})
_NO_BODY_NEEDED = frozenset({200, 201, 204})

_REDIRECTED = replace(NOT_LISTED, rule="answer.redirected", code=Code.REDIRECTED, source="RFC 9110 15.4")
_LAPSED_GATEWAY = replace(STATUSES[502], rule="gateway.unrecognised")


@dataclass(slots=True, kw_only=True)
class _Answer:
    """Nothing writes to it; like `Seen` it lives for one reading, and freezing such values costs a tenth of it."""

    status: int
    headers: Mapping[str, Any]
    body: Any
    has_body: bool
    error: ErrorBody
    meaning: Meaning | None
    """What the owner's codes mean together; None when nobody here knows one."""
    request: Mapping[str, Any]

    @property
    def request_headers(self) -> Mapping[str, Any]:
        """Of the request, in lower case."""
        headers = self.request.get("headers")
        return lower_cased(headers) if isinstance(headers, Mapping) else {}

    @property
    def method(self) -> str:
        return str(self.request.get("method", "")).upper()


def read(
    observation: Mapping[str, Any], *, contract: Contract, earlier: Sequence[AttemptFacts], now: datetime
) -> Reading:
    """Reads an `http` observation.

    Raises:
        ObservationInvalid: no status, or a member of the wrong type.
    """
    answer, redirects = _parse(observation)
    error = answer.error
    gateway = gateway_meaning(status=answer.status, headers=answer.headers)
    limited = answer.status == 429 or _limiter_said_403(answer)
    looked_at, unread = members.split(observation, _KNOWN)
    observed_at = members.text(observation, "observed_at")
    seen_at = moment(observed_at)
    seen = Seen(
        kind=KIND,
        contract=contract,
        earlier=earlier,
        speaker=Speaker.GATEWAY if _gateway_speaks(answer.status, gateway) else Speaker.OWNER_ANSWER,
        phase=Phase.AFTER_RESPONSE,
        network_attempts=members.network_attempts(observation),
        wait=wait_of(
            headers=answer.headers,
            body=answer.body,
            observed_at=seen_at,
            now=now,
            refused_by_limiter=limited,
        ),
        body=error,
        owner_code=error.codes[0] if error.codes else None,
        quoted=error.quoted,
        read=looked_at,
        unread=unread,
        violations=("observed_at is not a time with an offset.",) if observed_at and seen_at is None else (),
    )
    context = Context.answer(
        status=answer.status,
        headers=answer.headers,
        body=answer.body if answer.has_body else MISSING,
        error=answer.body.get("error") if isinstance(answer.body, Mapping) else None,
        code=error.jsonrpc if error.jsonrpc is not None else seen.owner_code,
        speaker=seen.speaker,
        phase=seen.phase,
        lowered=True,
    )
    if not contract.is_read and _replayed(answer, contract, context):
        seen = replace(seen, replayed=True)
    ruled = by_contract(context, seen)
    if ruled is not None:
        return ruled
    compiled = contract.compiled
    if compiled.in_flight is not None and compiled.in_flight.matches(context):
        return conclude(replace(IN_FLIGHT, rule="contract.in_flight"), seen)
    if redirects and not contract.is_read:
        return conclude(_REDIRECTED, seen)
    if gateway is not None:
        return conclude(gateway, seen)
    if contract.is_read:
        meaning, remedy = _of_a_read(answer, limited=limited)
        return conclude(meaning, seen, remedy=remedy)
    if contract.effect is EffectKind.BATCH and answer.status < 500:
        items = items_of(
            body=answer.body,
            request=answer.request,
            ours_is_open=seen.ours_is_open,
            in_order=contract.items is not None and contract.items.in_order,
        )
        if items is not None:
            return of_items(items, seen, context)
    if error.tells is Tells.PARTIAL and (contract.effect is EffectKind.BATCH or not error.among_entries):
        return conclude(PARTIAL if _accounted_for(answer) else UNACCOUNTED, seen)
    if answer.status < 400:
        return _below_400(answer, seen, context)
    meaning = _refusal(answer, limited=limited)
    if seen.replayed and answer.status >= 500 and meaning.effect is Effect.UNKNOWN:
        # The same key would bring it back for ever, so the owner's records are asked.
        return conclude(replace(meaning, code=Code.STORED_FAILURE), seen, remedy=Action.RECONCILE)
    return conclude(meaning, seen, remedy=_remedy(answer))


def _parse(observation: Mapping[str, Any]) -> tuple[_Answer, bool]:
    status = members.whole_number(observation, "status", least=100, most=999)
    if status is None:
        raise ObservationInvalid("status", "an HTTP answer has a status.")
    headers = lower_cased(members.mapping(observation, "headers"))
    request = members.mapping(observation, "request")
    elapsed = observation.get("elapsed_ms")
    if elapsed is not None and (isinstance(elapsed, bool) or not isinstance(elapsed, int | float)):
        raise ObservationInvalid("elapsed_ms", "must be a number of milliseconds.")
    hops = observation.get("redirects")
    if hops is not None and not isinstance(hops, list):
        raise ObservationInvalid("redirects", "must be a list.")
    body, unreadable = parsed(body=observation.get("body"), headers=headers)
    error = read_body(body=body, unreadable=unreadable, headers=headers)
    answer = _Answer(
        status=status,
        headers=headers,
        body=body,
        has_body="body" in observation,
        error=error,
        meaning=meaning_of(error),
        request=request,
    )
    return answer, any(not _keeps_the_method(hop) for hop in (hops or ())[:100])


def _keeps_the_method(hop: Any) -> bool:
    status = hop.get("status") if isinstance(hop, Mapping) else hop
    return isinstance(status, int) and status in _KEEPS_THE_METHOD


def _gateway_speaks(status: int, gateway: Meaning | None) -> bool:
    return gateway is not None or status in GATEWAY_STATUSES or (status >= 500 and status not in STATUSES)


def _accounted_for(answer: _Answer) -> bool:
    """Whether the lists hold every item that was asked for, as far as the request says how many there were."""
    error = answer.error
    if error.succeeded is None or error.failed is None:
        return error.rest_is_done
    asked = _asked(answer)
    return asked is None or asked == error.succeeded + error.failed


def _all_went_through(answer: _Answer) -> bool:
    """Every item that was asked for stands in the owner's list of successes, and none in its list of failures."""
    error = answer.error
    return bool(error.succeeded) and error.failed == 0 and error.succeeded == _asked(answer)


def _asked(answer: _Answer) -> int | None:
    """How many items the request held, where it says so."""
    for name in ("items", "ids", "keys", "count"):
        value = answer.request.get(name)
        if isinstance(value, list | Mapping):
            return len(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def _below_400(answer: _Answer, seen: Seen, context: Context) -> Reading:
    error, status = answer.error, answer.status
    success = seen.contract.compiled.success
    matched = None if success is None else success.matches(context)
    if success is not None and matched is None:
        seen = replace(seen, violations=(*seen.violations, "The contract's success rule could not be computed."))
    if matched:
        told = by_success_rule(error.tells, seen, context)
        if told is not None:
            return told
    if not 200 <= status < 300:
        return conclude(STATUSES.get(status, _REDIRECTED if status >= 300 else NOT_LISTED), seen)
    if error.tells is Tells.ERROR:
        meaning = inside(answer.error, answer.meaning)
        if meaning.failure_class is FailureClass.PARTIAL and seen.contract.effect is EffectKind.WRITE:
            meaning = replace(meaning, failure_class=FailureClass.UNKNOWN_OUTCOME)
        return conclude(meaning, seen)
    if error.tells is Tells.UNREADABLE:
        return conclude(UNREADABLE, seen)
    if status == 202 or error.tells is Tells.UNFINISHED:
        return conclude(UNFINISHED, seen)
    if success is None and status == 200 and _all_went_through(answer):
        return done(replace(DONE, rule="answer.all_items_done"), seen, context)
    plain = success is None and error.tells is Tells.NOTHING and status in _NO_BODY_NEEDED
    if plain and seen.contract.effect is EffectKind.WRITE:
        return done(replace(DONE, rule="answer.done_by_default"), seen, context)
    return conclude(NOT_LISTED, seen)


def _refusal(answer: _Answer, *, limited: bool) -> Meaning:
    status, error, said = answer.status, answer.error, answer.meaning
    if status >= 500:
        return _five_hundred(status, said, jsonrpc=error.is_jsonrpc)
    base = STATUSES.get(status, NOT_LISTED)
    if status == 412 and str(answer.headers.get("repeatability-result", "")).strip().lower() == "rejected":
        return KEY_EXPIRED
    if status == 404 and "mcp-session-id" in answer.request_headers and error.jsonrpc not in (-32601, -32602):
        return SESSION_EXPIRED
    if limited:
        business = said is not None and said.failure_class is FailureClass.BUSINESS_RULE
        return said if business and said is not None else LIMITED
    if base is NOT_LISTED:
        return base
    if said is None:
        known = refusal_kind(error.codes[0]) if error.codes and status in _KIND_BY_CODE else None
        return known or base
    if status in (401, 407):
        # Whoever asks for a credential has not looked at the rest.
        return said if said.failure_class is FailureClass.AUTHORIZATION else base
    return said


def _five_hundred(status: int, said: Meaning | None, *, jsonrpc: bool) -> Meaning:
    """A 5xx of a write proves nothing, but for a documented code: a limiter's at 503, a JSON-RPC peer's refusal."""
    base = STATUSES.get(status, _LAPSED_GATEWAY)
    if said is None or said.effect is not Effect.NONE:
        return base
    if status == 503 and said is LIMITED:
        return said
    return said if jsonrpc and status in (500, 501) else base


def _replayed(answer: _Answer, contract: Contract, context: Context) -> bool:
    """By the contract's marker, or by the header that several owners document. That the key holds other contents is the
    answer to this request, whatever its headers say."""
    if answer.meaning is KEY_REUSED:
        return False
    if str(answer.headers.get("idempotent-replayed", "")).strip().lower() == "true":
        return True
    marker = contract.compiled.replay_marker
    return marker is not None and marker.matches(context) is True


def _remedy(answer: _Answer) -> Action | None:
    """A delete of what is not there: somebody must look whether that was the goal or the wrong address."""
    not_there = answer.status in (404, 410) and answer.error.jsonrpc is None
    return Action.VERIFY if not_there and answer.method == "DELETE" else None


def _of_a_read(answer: _Answer, *, limited: bool) -> tuple[Meaning, Action | None]:
    error, status = answer.error, answer.status
    if status == 304:
        return DONE, None
    if status < 300:
        if error.tells is Tells.ERROR:
            return inside(answer.error, answer.meaning), None
        if error.tells is Tells.PARTIAL and not error.among_entries:
            return PARTIAL, Action.RETRY
        return (UNREADABLE, None) if error.tells is Tells.UNREADABLE else (DONE, None)
    if status < 400:
        return STATUSES.get(status, _REDIRECTED), None
    asked_jsonrpc = isinstance(answer.request.get("jsonrpc_method"), str) or "jsonrpc" in _keys(answer.request)
    if status == 404 and asked_jsonrpc and not error.is_jsonrpc and "mcp-session-id" not in answer.request_headers:
        return NO_ROUTE, None
    return _refusal(answer, limited=limited), None


def _keys(request: Mapping[str, Any]) -> frozenset[str]:
    body = request.get("body")
    return frozenset(map(str, body)) if isinstance(body, Mapping) and len(body) < 100 else frozenset()


def _limiter_said_403(answer: _Answer) -> bool:
    """GitHub's primary and secondary limits answer 403; only the limiter's own headers tell them from a refusal."""
    if answer.status != 403:
        return False
    left = answer.headers.get("x-ratelimit-remaining")
    return re.fullmatch(r"\s*0\s*", str(left)[:20]) is not None or "retry-after" in answer.headers
