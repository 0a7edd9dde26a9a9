"""What does the answer to a batch say of each item?

| format | an item's key | how it says it went |
| --- | --- | --- |
| the harness's own `items[]` | `id` or `key` | `state`, with the phase of a failure |
| 207 (RFC 4918, XML or JSON) | `href`, `id` | `status` of each response or propstat |
| S3 DeleteObjects | `Key` | `Deleted[]`, `Errors[].Code`; in quiet mode what is not listed was deleted |
| SQS and its kin | `Id` | `Successful[]`, `Failed[].Code` |
| DynamoDB BatchWriteItem |  | `UnprocessedItems`: those were not processed, the rest were |
| Kinesis, EventBridge, Firehose | position | `ErrorCode` of each entry |
| Elasticsearch `_bulk` | `_id` | `items[].{index,create,…}.status` |
| Graph `$batch`, Kinto, Salesforce | `id`, `path`, `referenceId` | `status`, `httpStatusCode`, `statusCode`, `success` |
| JSON-RPC batch | `id` | `result` or `error`; order is free, an id that is missing is unknown |
| GraphQL aliases | the alias | its data, or `errors[].path[0]` |
| Lambda `batchItemFailures` | `itemIdentifier` | those failed, the rest did not |
| lists of successes beside failures | `id` and the like | the list in which it stands |

An item that the request names and the answer does not is unknown. Keys come from the answer first, else from the
request by position when both have the same length. An address stands for the item that its last step names. An
answer that names none of the request's keys is read by position only where the contract says that the owner keeps
the order.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import unquote

from ledger.rules.vocabulary import Effect, FailureClass, Phase, Proof
from recovery.judgement.codes import Code
from recovery.judgement.documented import (
    BEFORE_ANY_BYTE,
    ERROR_INSIDE,
    GATEWAY_STATUSES,
    JSONRPC_CODES,
    JSONRPC_OTHER,
    NOT_LISTED,
    ROLLED_BACK_WITH_OTHERS,
    STATUSES,
    Meaning,
    code_meaning,
    looks_like_a_code,
)
from recovery.judgement.error_bodies import Tells, codes_of, field_of, read_body, state_tells
from recovery.judgement.reading import ItemReading
from recovery.judgement.waits import Wait, wait_in

MOST_ITEMS: Final = 10_000
REST: Final = "*"
"""The key of all items that have no name of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """Every item of a batch, each told by itself."""

    told: tuple[ItemReading, ...]
    wait: Wait | None = None

    def doubted(self) -> tuple[ItemReading, ...]:
        """The items when several requests stand behind the answer: a refusal speaks for the last one alone."""
        return tuple(
            _item(item.key, NOT_LISTED, code=item.owner_code) if item.effect is Effect.NONE else item
            for item in self.told
        )


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_APPLIED: Final = Meaning(
    rule="item.done",
    failure_class=FailureClass.SUCCESS,
    effect=Effect.APPLIED,
    code=Code.DONE,
    source="the owner's own list",
    proof=Proof.OWNER_RESULT,
)
_RUNNING: Final = Meaning(
    rule="item.running",
    failure_class=FailureClass.SUCCESS,
    effect=Effect.PENDING,
    code=Code.IN_PROGRESS,
    source="the owner's own list",
    proof=Proof.OWNER_RESULT,
)
_FAILED: Final = Meaning(
    rule="item.listed_as_failed",
    failure_class=FailureClass.TRANSIENT,
    effect=Effect.NONE,
    code=Code.NOT_TAKEN,
    source="the owner's own list of what did not go through",
    proof=Proof.OWNER_RESULT,
)
_LEFT: Final = replace(_FAILED, rule="item.left", source="Amazon DynamoDB: UnprocessedItems")
_NOTHING_LEFT: Final = replace(_APPLIED, rule="item.not_left", source="Amazon DynamoDB: UnprocessedItems")
_NOT_SENT: Final = replace(_FAILED, rule="item.not_sent", code=Code.NOT_SENT, proof=Proof.NOT_SENT)
_UNKNOWN: Final = replace(NOT_LISTED, rule="item.unknown")
_NOT_NAMED: Final = replace(NOT_LISTED, rule="item.not_named", source="law 10")

_KEYS: Final = (
    "id", "Id", "ID", "key", "Key", "_id", "custom_id", "customId", "referenceId", "itemIdentifier", "href", "path",
    "ref", "external_id", "externalId", "name", "domain", "sku", "email", "index", "requestId",
)  # fmt: skip
_ASKED: Final = ("ids", "keys", "items", "entries", "records", "requests", "operations")
_LISTS: Final = (
    "responses", "compositeResponse", "results", "Responses", "RequestResponses", "Records", "Entries", "items",
    "records", "operations", "entries", "result", "value", "data", "Results", "tasks",
)  # fmt: skip
_GOOD_LISTS: Final = _words(
    """
    success successes succeeded successful accepted processed created completed deleted updated imported sent
    applied ok done
    """
)
_BAD_LISTS: Final = _words(
    """
    failed failures failure errors rejected unprocessed invalid skipped faileditems notfound batchitemfailures
    failedentries
    """
)
_ELASTIC: Final = frozenset({"index", "create", "update", "delete"})
_APPLIED_WORDS: Final = _words(
    """
    accepted applied ok done success succeeded successful sent created updated deleted completed complete processed
    imported written delivered upserted fulfilled
    """
)
_NOT_SENT_WORDS: Final = _words(
    """
    notsent unsent notattempted notstarted notdispatched neverdispatched
    """
)
_LEFT_WORDS: Final = _words(
    """
    skipped unprocessed notprocessed halted notexecuted aborted
    """
)
_FLAGS: Final = ("success", "ok", "succeeded", "isSuccess", "acknowledged")
_HTTP_LINE = re.compile(r"HTTP/\d(?:\.\d)?\s+(\d{3})\b", re.ASCII)
_MULTISTATUS = re.compile(r"<(?:[A-Za-z][\w.-]{0,40}:)?multistatus[\s>]")
_RESPONSE = re.compile(r"<(?:[A-Za-z][\w.-]{0,40}:)?response[\s>](.*?)</(?:[A-Za-z][\w.-]{0,40}:)?response>", re.S)
_HREF = re.compile(r"<(?:[A-Za-z][\w.-]{0,40}:)?href>\s*([^<]{1,500}?)\s*</")
_LARGEST_TEXT: Final = 256 * 1024


def items_of(
    *,
    body: Any,
    request: Mapping[str, Any],
    reported: Sequence[Any] | None = None,
    ours_is_open: bool = False,
    in_order: bool = False,
) -> Items | None:
    """Each item's own result, or None when the answer does not tell them apart.

    `reported` are items as a harness saw them. `ours_is_open`: an earlier request of this operation may have had an
    effect, so that what is in an item's way may be ours. `in_order`: the owner answers in the order of the request.
    """
    asked = _asked(request)
    if reported:
        found = list(_reported(reported))
    else:
        told = _told(body, request, asked)
        if told is None:
            return None
        found = told
    rest = _rest_of(body, request) if not reported else _NOT_NAMED
    if not found and (rest is _NOT_NAMED or not asked):
        return None
    found = _merged(_as_asked(found, asked, in_order=in_order))
    found += _not_named(found, request, asked, rest)
    if request.get("allOrNone", request.get("all_or_none")) is True:
        found = _all_or_none(found)
    if ours_is_open:
        found = [_perhaps_ours(item, meaning) for item, meaning in found]
    return Items(told=tuple(item for item, _ in found[:MOST_ITEMS]), wait=_longest(body, found))


_Found = tuple[ItemReading, Meaning]


def _item(key: str, meaning: Meaning, *, code: str | None = None, field: str | None = None) -> ItemReading:
    return ItemReading(
        key=key[:500],
        effect=meaning.effect,
        failure_class=meaning.failure_class,
        code=str(meaning.code),
        rule=meaning.rule,
        proof=meaning.proof,
        remedy=meaning.remedy,
        field=field if meaning.failure_class is FailureClass.INVALID_REQUEST else None,
        owner_code=code,
    )


def _perhaps_ours(item: ItemReading, meaning: Meaning) -> _Found:
    if not meaning.foreign_only or item.effect is not Effect.NONE:
        return item, meaning
    return _item(item.key, _UNKNOWN, code=item.owner_code), _UNKNOWN


def _all_or_none(found: list[_Found]) -> list[_Found]:
    """The request asked for all or none: one refused item takes the applied ones with it."""
    if not any(item.effect is Effect.NONE for item, _ in found):
        return found
    return [
        (_item(item.key, ROLLED_BACK_WITH_OTHERS), ROLLED_BACK_WITH_OTHERS)
        if item.effect is Effect.APPLIED
        else (item, meaning)
        for item, meaning in found
    ]


def _longest(body: Any, found: Sequence[_Found]) -> Wait | None:
    waits = [wait] if (wait := wait_in(body)) is not None else []
    entries = body if isinstance(body, list) else _first_list(body) or []
    waits += [wait for entry in entries[:1_000] if isinstance(entry, dict) and (wait := _entry_wait(entry))]
    return max(waits, key=lambda wait: wait.milliseconds, default=None) if found else None


def _entry_wait(entry: Mapping[str, Any]) -> Wait | None:
    headers, inner = entry.get("headers"), entry.get("body")
    return wait_in(inner if isinstance(inner, dict) else entry, headers=headers if isinstance(headers, dict) else {})


# ---- What was asked for.


def _asked(request: Mapping[str, Any]) -> list[str]:
    """The keys of the items in the request, where it names them."""
    for name in _ASKED:
        value = request.get(name)
        if isinstance(value, list) and value:
            return [_key_of(entry, index) for index, entry in enumerate(value[:MOST_ITEMS])]
    return []


def _count(request: Mapping[str, Any]) -> int | None:
    for name in ("count", "items", "size"):
        value = request.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def _not_named(
    found: Sequence[_Found], request: Mapping[str, Any], asked: Sequence[str], rest: Meaning
) -> list[_Found]:
    named = {item.key for item, _ in found}
    if REST in named:
        return []
    if asked:
        return [(_item(key, rest), rest) for key in asked if key not in named]
    count = _count(request)
    told = sum(item.key != REST for item, _ in found)
    if rest is not _NOT_NAMED or (count is not None and count > told):
        return [(_item(REST, rest), rest)] if count is None or count > told else []
    return []


def _rest_of(body: Any, request: Mapping[str, Any]) -> Meaning:
    """What holds of the items that the answer does not name. Only two owners document it."""
    if isinstance(body, dict):
        if any(_plain(name).startswith("unprocessed") for name in body):
            return _NOTHING_LEFT
        if any(_plain(name) == "batchitemfailures" for name in body):
            return replace(
                _APPLIED, rule="item.not_listed_as_failed", source="AWS Lambda: reporting batch item failures"
            )
        quiet = request.get("quiet", request.get("Quiet"))
        if quiet is True and isinstance(body.get("Errors"), list):
            return replace(_APPLIED, rule="item.quietly_done", source="Amazon S3 DeleteObjects: quiet mode")
    return _NOT_NAMED


# ---- What was answered.


def _told(body: Any, request: Mapping[str, Any], asked: Sequence[str]) -> list[_Found] | None:
    if isinstance(body, str):
        return _multistatus(body)
    if isinstance(body, list):
        return _entries(body, asked) if _are_results(body) else None
    if not isinstance(body, dict):
        return None
    left = _unprocessed(body)
    if left is not None:
        return left
    for holder in (body, body.get("data"), body.get("result"), body.get("meta")):
        if isinstance(holder, dict) and (lists := _two_lists(holder)) is not None:
            return lists
    if isinstance(body.get("Errors"), list) and ("Deleted" in body or "quiet" in request or "Quiet" in request):
        return [_refused(entry, index) for index, entry in enumerate(body["Errors"][:MOST_ITEMS])]
    alone = _good_list_alone(body, asked)
    if alone is not None:
        return alone
    aliases = _aliases(body, request)
    if aliases is not None:
        return aliases
    entries = _first_list(body)
    return _entries(entries, asked) if entries is not None else None


def _first_list(body: Any) -> list[Any] | None:
    if not isinstance(body, dict):
        return None
    for name in _LISTS:
        value = body.get(name)
        if isinstance(value, list) and _are_results(value):
            return value
    return None


def _are_results(entries: list[Any]) -> bool:
    """Whether a list holds results rather than plain records: each entry says itself how it went, or one of them."""
    objects = [entry for entry in entries[:MOST_ITEMS] if isinstance(entry, dict)]
    return bool(objects) and len(objects) == len(entries[:MOST_ITEMS]) and any(map(_says_how, objects))


def _says_how(entry: Mapping[str, Any]) -> bool:
    inner = _unwrapped(entry)
    return (
        _status_of(inner) is not None
        or any(isinstance(inner.get(flag), bool) for flag in _FLAGS)
        or bool(inner.get("ErrorCode") or inner.get("error") or inner.get("errors"))
        or ("jsonrpc" in inner and "result" in inner)
        or isinstance(inner.get("state"), str)
        or isinstance(inner.get("status"), str)
    )


def _entries(entries: list[Any], asked: Sequence[str]) -> list[_Found]:
    known = asked if len(asked) == len(entries) and not any(_own_key(_unwrapped(entry)) for entry in entries) else ()
    found: list[_Found] = []
    for index, entry in enumerate(entries[:MOST_ITEMS]):
        inner = _unwrapped(entry)
        key = known[index] if known else _own_key(inner) or str(index)
        meaning, code = _of_entry(inner)
        found.append((_item(key, meaning, code=code, field=_field(inner)), meaning))
    return found


def _of_entry(entry: Mapping[str, Any]) -> tuple[Meaning, str | None]:
    """What one entry says of itself: the number in it, then a flag, then an error, then its state."""
    code = _code_of(entry)
    said = code_meaning(code) if code is not None else None
    error = entry.get("error")
    if "jsonrpc" in entry and isinstance(error, dict):
        number = error.get("code")
        return JSONRPC_CODES.get(number, JSONRPC_OTHER) if isinstance(number, int) else JSONRPC_OTHER, str(number)[:20]
    status = _status_of(entry)
    if status is not None:
        return _by_status(status, entry, said), code
    flag = next((entry[name] for name in _FLAGS if isinstance(entry.get(name), bool)), None)
    if flag is False:
        return said or _FAILED, code
    tells = read_body(body=entry, unreadable=False, headers={}).tells
    if tells is Tells.ERROR or (code is not None and said is not None and flag is None):
        return (said or ERROR_INSIDE, code)
    if tells is Tells.UNFINISHED:
        word = _plain(entry.get("state") or entry.get("status") or "")
        return (_APPLIED if word in _APPLIED_WORDS else _RUNNING), code
    return (_APPLIED if tells is Tells.NOTHING else _UNKNOWN), code


def _by_status(status: int, entry: Mapping[str, Any], said: Meaning | None) -> Meaning:
    if status == 202:
        return _RUNNING
    if 200 <= status < 300:
        inner = entry.get("body", entry.get("result"))
        tells = read_body(body=inner, unreadable=False, headers={}).tells
        if tells is Tells.ERROR:
            return said or ERROR_INSIDE
        return _RUNNING if tells is Tells.UNFINISHED else _APPLIED
    if status == 304:
        return _APPLIED
    if status >= 500 or status in GATEWAY_STATUSES:
        limited = said is not None and said.effect is Effect.NONE and said.failure_class is FailureClass.TRANSIENT
        return said if limited and said is not None and status == 503 else STATUSES.get(status, STATUSES[502])
    if said is not None and status not in (401, 407, 429):
        return said
    return STATUSES.get(status, _UNKNOWN)


def _refused(entry: Any, index: int) -> _Found:
    """An entry of the owner's own list of what did not go through."""
    if not isinstance(entry, dict):
        return _item(_key_of(entry, index), _FAILED), _FAILED
    code = _code_of(entry)
    status = _status_of(entry)
    said = code_meaning(code) if code is not None else None
    meaning = said or (STATUSES.get(status) if status is not None and status >= 400 else None) or _FAILED
    return _item(_key_of(entry, index), meaning, code=code, field=_field(entry)), meaning


def _two_lists(holder: Mapping[str, Any]) -> list[_Found] | None:
    good = [(name, value) for name, value in holder.items() if _is_list(name, value, _GOOD_LISTS)]
    bad = [(name, value) for name, value in holder.items() if _is_list(name, value, _BAD_LISTS)]
    if not bad or not (good or any(_plain(name) == "batchitemfailures" for name, _ in bad)):
        return None
    if not any(value for _, value in (*good, *bad)):
        return None
    found: list[_Found] = []
    for _, value in good:
        for index, entry in enumerate(value[:MOST_ITEMS]):
            found.append((_item(_key_of(entry, index), _APPLIED), _APPLIED))
    for _, value in bad:
        found += [_refused(entry, index) for index, entry in enumerate(value[:MOST_ITEMS])]
    return found


def _good_list_alone(body: Mapping[str, Any], asked: Sequence[str]) -> list[_Found] | None:
    """A list of what went through, with none of what did not: it speaks of the items that it names by their keys."""
    for name, value in body.items():
        if _is_list(name, value, _GOOD_LISTS) and value and not _are_results(value):
            keys = [_key_of(entry, index) for index, entry in enumerate(value[:MOST_ITEMS])]
            if set(keys) <= set(asked):
                return [(_item(key, _APPLIED), _APPLIED) for key in keys]
    return None


def _is_list(name: Any, value: Any, known: frozenset[str]) -> bool:
    return isinstance(value, list) and _plain(name) in known


def _unprocessed(body: Mapping[str, Any]) -> list[_Found] | None:
    for name, value in body.items():
        if _plain(name) in ("unprocesseditems", "unprocessedkeys", "unprocessed") and isinstance(value, dict):
            entries = [entry for table in list(value.values())[:100] if isinstance(table, list) for entry in table]
            found = [(_item(_left_key(entry, index), _LEFT), _LEFT) for index, entry in enumerate(entries[:MOST_ITEMS])]
            if not found:
                return [(_item(REST, _NOTHING_LEFT), _NOTHING_LEFT)] if not value else [(_item("left", _LEFT), _LEFT)]
            return found
    return None


def _left_key(entry: Any, index: int) -> str:
    return _own_key(entry) or f"left-{index}" if isinstance(entry, dict) else f"left-{index}"


def _aliases(body: Mapping[str, Any], request: Mapping[str, Any]) -> list[_Found] | None:
    """GraphQL: every alias is a mutation of its own; an error belongs to the alias that its path begins with."""
    data, errors = body.get("data"), body.get("errors")
    if not isinstance(data, dict) or not data or not isinstance(errors, list | None):
        return None
    by_alias: dict[str, Mapping[str, Any]] = {}
    for error in (errors or [])[:MOST_ITEMS]:
        path = error.get("path") if isinstance(error, dict) else None
        if not isinstance(path, list) or not path or not isinstance(path[0], str):
            return None
        by_alias.setdefault(path[0], error)
    if len(data) < 2 and not by_alias:
        return None
    found: list[_Found] = []
    for alias in (*data, *(alias for alias in by_alias if alias not in data)):
        error, value = by_alias.get(alias), data.get(alias)
        code = next(iter(codes_of({"errors": [error]})), None) if error is not None else None
        said = code_meaning(code) if code is not None else None
        if error is None and value is not None:
            inner = read_body(body=value, unreadable=False, headers={})
            codes = codes_of(value) if isinstance(value, dict) else ()
            inner_said = next((m for c in codes if (m := code_meaning(c)) is not None), None)
            meaning = (
                inner_said or (_FAILED if inner.refused_input else ERROR_INSIDE)
                if inner.tells is Tells.ERROR
                else _RUNNING if inner.tells is Tells.UNFINISHED else _APPLIED
            )  # fmt: skip
        else:
            # A null beside an error: the resolver raised, perhaps after it had acted.
            meaning = said or (_UNKNOWN if error is None else ERROR_INSIDE)
        found.append((_item(str(alias), meaning, code=code), meaning))
    return found if request.get("aliases") or by_alias or len(found) > 1 else None


def _multistatus(text: str) -> list[_Found] | None:
    if len(text) > _LARGEST_TEXT or _MULTISTATUS.search(text[:2_000]) is None:
        return None
    found: list[_Found] = []
    for index, part in enumerate(_RESPONSE.findall(text)[:MOST_ITEMS]):
        href = _HREF.search(part)
        statuses = [int(status) for status in _HTTP_LINE.findall(part)]
        worst = max(statuses, default=0)
        meaning = _UNKNOWN if not worst else _APPLIED if worst < 300 else STATUSES.get(worst, _UNKNOWN)
        if 0 < min(statuses, default=0) < 300 <= worst:
            meaning = _UNKNOWN  # some properties took, others did not
        found.append((_item(href[1] if href is not None else str(index), meaning), meaning))
    return found or None


def _reported(items: Sequence[Any]) -> Iterator[_Found]:
    """Items as a harness saw them: it can say that one was not sent, and pass on what the owner answered to it."""
    for index, entry in enumerate(items[:MOST_ITEMS]):
        if not isinstance(entry, dict):
            yield _item(_key_of(entry, index), _UNKNOWN), _UNKNOWN
            continue
        meaning, code = _of_reported(entry)
        yield _item(_key_of(entry, index), meaning, code=code, field=_field(entry)), meaning


def _of_reported(entry: Mapping[str, Any]) -> tuple[Meaning, str | None]:
    phase = entry.get("phase")
    phase = phase if isinstance(phase, str) else None
    word = _plain(entry.get("state") or entry.get("status") or entry.get("outcome") or "")
    code = _code_of(entry)
    if word in _NOT_SENT_WORDS or (phase in BEFORE_ANY_BYTE and word not in _APPLIED_WORDS):
        return _NOT_SENT, code
    if phase in (Phase.SEND, Phase.AWAIT):
        return _UNKNOWN, code
    status = _status_of(entry)
    if status is not None:
        return _by_status(status, entry, code_meaning(code) if code is not None else None), code
    if word in _APPLIED_WORDS:
        return _APPLIED, code
    if word in _LEFT_WORDS:
        return _LEFT, code
    if word and state_tells(str(entry.get("state") or entry.get("status") or "")) is Tells.UNFINISHED:
        return _RUNNING, code
    if any(isinstance(entry.get(flag), bool) for flag in _FLAGS):
        return _of_entry(entry)
    said = code_meaning(code) if code is not None else None
    return said or _UNKNOWN, code


def _as_asked(found: Sequence[_Found], asked: Sequence[str], *, in_order: bool) -> list[_Found]:
    """The results under the names that the request has for its items."""
    known = set(asked)
    named = [
        (replace(item, key=step), meaning)
        if item.key not in known and (step := _last_step(item.key)) in known
        else (item, meaning)
        for item, meaning in found
    ]
    if in_order and len(named) == len(asked) and not any(item.key in known for item, _ in named):
        return [(replace(item, key=key), meaning) for key, (item, meaning) in zip(asked, named, strict=True)]
    return named


def _last_step(key: str) -> str:
    """What an address names: its last step, decoded; the key itself where it is no address."""
    path = key.partition("?")[0].rstrip("/")
    return unquote(path.rpartition("/")[2]) if "/" in path else key


def _merged(found: Sequence[_Found]) -> list[_Found]:
    """One word an item: two that differ prove nothing."""
    by_key: dict[str, _Found] = {}
    for item, meaning in found:
        held = by_key.get(item.key)
        if held is None or held[0].effect is item.effect:
            by_key.setdefault(item.key, (item, meaning))
        else:
            by_key[item.key] = (_item(item.key, _UNKNOWN), _UNKNOWN)
    return list(by_key.values())


# ---- Members of an entry.


def _unwrapped(entry: Any) -> Mapping[str, Any]:
    """Elasticsearch puts each result under the name of its action."""
    if not isinstance(entry, dict):
        return {}
    if len(entry) == 1:
        name, inner = next(iter(entry.items()))
        if name in _ELASTIC and isinstance(inner, dict):
            return inner
    return entry


def _key_of(entry: Any, index: int) -> str:
    if isinstance(entry, str) and entry:
        return entry[:500]
    if isinstance(entry, int) and not isinstance(entry, bool):
        return str(entry)[:500]
    if isinstance(entry, dict):
        return _own_key(entry) or str(index)
    return str(index)


def _own_key(entry: Mapping[str, Any]) -> str | None:
    for name in _KEYS:
        value = entry.get(name)
        if isinstance(value, str) and value:
            return value[:500]
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)[:500]
    return None


def _status_of(entry: Mapping[str, Any]) -> int | None:
    for name in ("httpStatusCode", "statusCode", "status_code", "httpStatus", "status", "Status"):
        value = entry.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 999:
            return value
        if isinstance(value, str) and len(value) < 60:
            if re.fullmatch(r"[1-5]\d\d", value, re.ASCII):
                return int(value)
            line = _HTTP_LINE.match(value)
            if line is not None:
                return int(line[1])
    return None


def _code_of(entry: Mapping[str, Any]) -> str | None:
    for name in ("ErrorCode", "Code"):
        value = entry.get(name)
        if looks_like_a_code(value):
            return str(value)
    for holder in (entry, entry.get("body"), entry.get("result")):
        if isinstance(holder, dict):
            codes = codes_of(holder)
            if codes:
                return codes[0]
    body = entry.get("body")
    if isinstance(body, list) and body and isinstance(body[0], dict):
        value = body[0].get("errorCode")
        return str(value) if looks_like_a_code(value) else None
    return None


def _field(entry: Mapping[str, Any]) -> str | None:
    inner = entry.get("body")
    return field_of(inner) if isinstance(inner, dict) else field_of(entry)


def _plain(name: Any) -> str:
    return re.sub(r"[^a-z0-9]", "", str(name)[:80].lower())
