"""What does an answer's body say: an error, an unfinished state, a partial result, or nothing against success?

Many owners, one `ErrorBody`. Only structured members are read; prose is quoted and decides nothing.

| shape | code | rejected member |
| --- | --- | --- |
| RFC 9457 problem | `type` | `errors[].pointer` |
| google.rpc | `error.details[].reason`, `error.status` | `fieldViolations[].field` |
| Azure, OData | `error.innererror.code`, `error.code`, x-ms-error-code | `error.target`, `error.details[].target` |
| AWS JSON, query | `__type`, x-amzn-errortype, `<Error><Code>` |  |
| JSON:API | `errors[].code` | `errors[].source.pointer` / `.parameter` |
| GraphQL, Shopify | `errors[].extensions.code`, `userErrors[].code` | `userErrors[].field[]` |
| SCIM, OAuth 2, RFC 6750 | `scimType`, `error`, WWW-Authenticate `error=` |  |
| Stripe, PayPal | `error.code`, `.decline_code`, `.type`; `name` | `error.param` |
| Slack, Matrix, Zendesk | `error`, `errcode` | keys of `details` |
| Jira, ServiceNow |  | keys of `errors` |
| Kinto | `error` | `details[].name` |
| FastAPI, pydantic owners | `detail[].type` | `detail[].loc` |
| JSON-RPC inside HTTP | `error.code` (a number) |  |
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from recovery.judgement.documented import GRPC_NAMES, looks_like_a_code


class Tells(StrEnum):
    """What a body says of the work, before its code is looked up."""

    NOTHING = "nothing"
    """No body, or a structured one with nothing against success in it."""
    ERROR = "error"
    PARTIAL = "partial"
    UNFINISHED = "unfinished"
    UNCLEAR = "unclear"
    """Text without structure, or more than we read: no success can be concluded from it."""
    UNREADABLE = "unreadable"
    """Declared or begun as JSON, and broken or cut."""


@dataclass(slots=True, kw_only=True)
class ErrorBody:
    """A body, read. Nothing writes to it; not frozen for the reason of `conclude.Seen`."""

    tells: Tells
    codes: tuple[str, ...] = ()
    """The owner's codes, the most telling first."""
    jsonrpc: int | None = None
    """The number of a JSON-RPC error; `codes` is empty then."""
    is_jsonrpc: bool = False
    refused_input: bool = False
    """Shopify's `userErrors`: documented as a refusal of the input."""
    partly_done: bool = False
    """An error beside data: something may have happened."""
    not_processed: bool = False
    """The peer guarantees that the request had no observable effect (MCP's draft error registry)."""
    source: Mapping[str, Any] | None = None
    """The object in which a rejected member may be named."""
    rest_is_done: bool = False
    """A list of what was not done, from an owner that means: the rest was."""
    among_entries: bool = False
    """`partial` was read from the entries of a list, which are items only where the tool sends a batch."""
    succeeded: int | None = None
    """Entries of a list of successes, when the body has one beside a list of failures."""
    failed: int | None = None
    quoted: tuple[str, ...] = ()

    @property
    def field(self) -> str | None:
        """The first rejected member that the body names, as a path into the call. Looked for when it is asked for."""
        return None if self.source is None else _field(self.source)


LARGEST_TEXT: Final = 256 * 1024
_DEEPEST: Final = 4
_MOST_MEMBERS: Final = 2_000


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_MUST_BE_TRUE: Final = frozenset(
    {"ok", "success", "succeeded", "successful", "issuccess", "issuccessful", "acknowledged"}
)
_MUST_BE_FALSE: Final = _words("iserror haserror haserrors failed timedout declined denied rejected refused")
_ERROR_MEMBERS: Final = _words(
    """
    error errors errormessage errormessages errorcode errcode errno errortype errordescription errormsg fault
    faultcode faultstring exception failure failures failurereason failurecode failed problems faileditems
    failedrecords faults problem errorlist errordetails exceptions
    """
)
_STATUS_MEMBERS: Final = frozenset({"statuscode", "httpstatus", "httpstatuscode", "httpcode", "status"})
_STATE_MEMBERS: Final = frozenset(
    {"status", "state", "result", "outcome", "phase", "stage", "resultcode", "resulttype", "ack", "returncode",
     "responsecode", "retcode", "respcode"}
)  # fmt: skip
_RESULT_NUMBERS: Final = _words("resultcode returncode retcode responsecode respcode status")
"""Members whose number says how it went, by the owner's own book: anything but a plain zero, one or 2xx is unclear."""
_FAILURE_COUNTS: Final = _words(
    "failurecount failedcount failcount numfailed numfailures totalfailed errorcount numerrors"
)
_STATE_ENDINGS: Final = ("status", "state")
_HARMLESS: Final = frozenset({"", "0", "none", "null", "ok", "success", "false", "no", "noerror", "200", "00", "0000"})

_NOT_YET: Final = _words(
    """
    partialresult retryable queued confirmationrequired requiresconfirmation needsconfirmation approvalrequired
    requiresapproval needsapproval
    """
)
_COUNTERS: Final = _words(
    """
    affected affectedrows rowsaffected rowcount updated deleted created inserted modified upserted removed sent
    modifiedcount deletedcount insertedcount matchedcount upsertedcount nmodified ninserted nremoved changes
    changed recordsaffected updatedcount createdcount
    """
)
_DID_IT: Final = _COUNTERS | _words(
    "applied approved accepted saved executed committed written posted published delivered valid isvalid"
)
_TRIALS: Final = frozenset({"dryrun", "simulated", "isdryrun", "validateonly", "simulation", "previewonly"})

_UNFINISHED_WORDS: Final = _words(
    """
    pending processing queued queueing enqueued running working accepted submitted scheduled creating updating
    deleting provisioning deploying starting started initiated initializing waiting awaiting received requested
    inprogress notstarted requires deferred held authorized authorised validating verifying staged executing
    inflight incomplete retrying stopping terminating modifying pendingreview settling syncing building
    unconfirmed task ongoing progress suspended paused partial partially preparing transferring
    """
)
_FAILED_WORDS: Final = _words(
    """
    fail failed failure error errored errors rejected refused denied declined cancelled canceled aborted expired
    timeout crashed invalid blocked voided nok ng ko fatal unauthorized forbidden unavailable unsuccessful
    undelivered bounced reverted exception
    """
)
_NOT_PLAIN = re.compile(r"[^a-z0-9]")
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")

_SUCCESS_LISTS: Final = _words(
    """
    success successes succeeded successful accepted processed created completed deleted updated imported sent
    applied ok done
    """
)
_FAILURE_LISTS: Final = frozenset(
    {
        "failed",
        "failures",
        "failure",
        "errors",
        "rejected",
        "unprocessed",
        "invalid",
        "skipped",
        "faileditems",
        "notfound",
    }
)

_ENDED: Final = frozenset({"done", "finished", "complete", "completed"})
_TELLING: Final = frozenset(
    {"code", "partial", *_RESULT_NUMBERS, *_FAILURE_COUNTS, *_FAILURE_LISTS, *_MUST_BE_TRUE, *_MUST_BE_FALSE,
     *_ERROR_MEMBERS, *_STATUS_MEMBERS, *_STATE_MEMBERS, *_NOT_YET, *_ENDED}
)  # fmt: skip

_OPERATION_HEADERS: Final = ("operation-location", "azure-asyncoperation")
_FIELD_SHAPE = re.compile(r"[A-Za-z_$][A-Za-z0-9_$ .\-\[\]]{0,199}", re.ASCII)
_XML_ERROR = re.compile(r"<(?:[A-Za-z][\w.-]{0,40}:)?(?:Error|ErrorResponse|Fault)[\s>/]")
_XML_CODE = re.compile(r"<(?:[A-Za-z][\w.-]{0,40}:)?(?:Code|faultcode|Value)>\s*([A-Za-z0-9_.:-]{1,128})\s*</")
_WWW_ERROR = re.compile(r"\berror=\"?([A-Za-z0-9_.-]{1,80})")


def parsed(*, body: Any, headers: Mapping[str, Any]) -> tuple[Any, bool]:
    """The body as a value, and whether it is unreadable: JSON that is broken, cut, or shorter than it was declared."""
    if not isinstance(body, str):
        return body, False
    text = body.strip()
    declares_json = "json" in str(headers.get("content-type", "")).lower()
    if _cut(body, headers):
        return body, True
    if not declares_json and text[:1] not in ("{", "["):
        return body, False
    if not text or len(text) > LARGEST_TEXT:
        return body, True
    try:
        return json.loads(text), False
    except (ValueError, RecursionError):
        return body, True


def read_body(*, body: Any, unreadable: bool, headers: Mapping[str, Any]) -> ErrorBody:
    """What a parsed body says. Looks at a bounded number of members, and no deeper than four objects."""
    if unreadable:
        return ErrorBody(tells=Tells.UNREADABLE)
    failed = _failed_by_header(headers)
    if failed is not None:
        return failed
    if isinstance(body, str):
        return _read_text(body, headers)
    if isinstance(body, dict):
        return _read_object(body, headers)
    if isinstance(body, list) and body:
        return _read_list(body, headers)
    if any(name in headers for name in _OPERATION_HEADERS):
        return ErrorBody(tells=Tells.UNFINISHED, codes=_codes({}, headers))
    return ErrorBody(tells=Tells.NOTHING, codes=_codes({}, headers))


def codes_of(body: Mapping[str, Any]) -> tuple[str, ...]:
    """The codes in one object, the most telling first."""
    return _codes(body, {})


def field_of(body: Mapping[str, Any]) -> str | None:
    """The first rejected member that one object names, as a path into the call."""
    return _field(body)


def state_tells(word: str) -> Tells:
    """What a state's name says of the work."""
    return _state(word)


def _failed_by_header(headers: Mapping[str, Any]) -> ErrorBody | None:
    """A failure that stands in the headers alone: AWS Lambda's function error; gRPC-Web's status."""
    if headers.get("x-amz-function-error"):
        return ErrorBody(tells=Tells.ERROR)
    number = _whole(headers.get("grpc-status"))
    if number is None or number == 0:
        return None
    return ErrorBody(tells=Tells.ERROR, codes=(GRPC_NAMES[number],) if 0 < number < len(GRPC_NAMES) else ())


def _cut(body: str, headers: Mapping[str, Any]) -> bool:
    declared = headers.get("content-length")
    if "content-encoding" in headers or not isinstance(declared, str | int) or isinstance(declared, bool):
        return False
    written = str(declared)
    if len(written) > 15 or not written.isascii() or not written.isdigit():
        return False
    return int(written) > len(body.encode("utf-8", "replace"))


def _read_text(body: str, headers: Mapping[str, Any]) -> ErrorBody:
    text = body[:LARGEST_TEXT]
    codes = _codes({}, headers)
    if _XML_ERROR.search(text) is not None:
        found = _XML_CODE.search(text)
        inside = (found[1],) if found is not None and looks_like_a_code(found[1]) else ()
        return ErrorBody(tells=Tells.ERROR, codes=(*inside, *codes), quoted=_quoted(text))
    if not text.strip():
        return ErrorBody(tells=Tells.NOTHING, codes=codes)
    return ErrorBody(tells=Tells.UNCLEAR, codes=codes, quoted=_quoted(text))


def _read_list(body: list[Any], headers: Mapping[str, Any]) -> ErrorBody:
    entries = [entry for entry in body[:1_000] if isinstance(entry, dict)]
    failing = [entry for entry in entries if _told(entry)[0] is Tells.ERROR]
    if not failing:
        return ErrorBody(tells=Tells.NOTHING if len(entries) == len(body) else Tells.UNCLEAR)
    if len(body) == 1:
        return _read_object(failing[0], headers)
    succeeded = len(body) - len(failing)
    return ErrorBody(tells=Tells.PARTIAL, succeeded=succeeded, failed=len(failing), codes=_codes(failing[0], headers))


def _read_object(body: Mapping[str, Any], headers: Mapping[str, Any]) -> ErrorBody:
    quoted = _prose(body)
    if "jsonrpc" in body:
        return _read_jsonrpc(body, headers, quoted)
    succeeded, failed = _lists(body)
    tells, refused_input, errors_elsewhere = _told(body)
    if succeeded and failed:
        return ErrorBody(tells=Tells.PARTIAL, succeeded=succeeded, failed=failed, quoted=quoted)
    entries = _entries(body)
    if entries is not None and entries.good:
        return ErrorBody(
            tells=Tells.PARTIAL, among_entries=True, succeeded=entries.good, failed=entries.failing, quoted=quoted
        )
    if entries is not None and tells is not Tells.ERROR:
        # Nothing but failures: the whole failed, in the words of the first.
        return ErrorBody(
            tells=Tells.ERROR,
            codes=_codes(entries.first, headers),
            source=entries.first,
            failed=entries.failing,
            quoted=(*quoted, *_prose(entries.first))[:5],
        )
    if tells is Tells.NOTHING and any(name in headers for name in _OPERATION_HEADERS):
        tells = Tells.UNFINISHED
    if tells is Tells.NOTHING and _shows_nothing(body):
        tells = Tells.UNCLEAR
    return ErrorBody(
        tells=tells,
        codes=_codes(body, headers),
        source=body,
        refused_input=refused_input and not errors_elsewhere,
        partly_done=tells is Tells.ERROR and _has_data(body),
        rest_is_done=tells is Tells.PARTIAL and _lists_what_was_left(body),
        succeeded=succeeded,
        failed=failed,
        quoted=quoted,
    )


def _shows_nothing(body: Mapping[str, Any]) -> bool:
    """Whether a result shows that nothing was done for certain: counters of zero, a flag that denies it, an
    empty place for the result, or a trial run."""
    for holder in (body, body.get("data"), body.get("result")):
        if not isinstance(holder, dict):
            continue
        members = [(_plain(name), value) for name, value in list(holder.items())[:100]]
        counts = [value for name, value in members if name in _COUNTERS and _is_count(value)]
        if (counts and not any(counts)) or any(name in _DID_IT and value is False for name, value in members):
            return True
        if any(name in _TRIALS and value is True for name, value in members):
            return True
        if members and all(value is None for _, value in members):
            return True
    return "id" in body and body["id"] is None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@dataclass(slots=True, kw_only=True)
class _Entries:
    good: int
    failing: int
    first: Mapping[str, Any]
    """The first that failed."""


def _entries(body: Mapping[str, Any]) -> _Entries | None:
    """The first list of objects in a body that has a failing one."""
    for holder in (body, body.get("data"), body.get("result"), body.get("response")):
        if not isinstance(holder, dict):
            continue
        for name, value in list(holder.items())[:50]:
            if not isinstance(value, list):
                continue
            plain = _plain(name)
            if plain in _ERROR_MEMBERS or plain in _FAILURE_LISTS or "error" in plain:
                continue
            entries = [entry for entry in value[:1_000] if isinstance(entry, dict)]
            failing = [entry for entry in entries if _told(entry)[0] is Tells.ERROR]
            if failing and len(entries) == len(value):
                return _Entries(good=len(entries) - len(failing), failing=len(failing), first=failing[0])
    return None


def _lists_what_was_left(body: Mapping[str, Any]) -> bool:
    return any(_plain(name).startswith("unprocessed") and _weighs(value) for name, value in body.items())


def _read_jsonrpc(body: Mapping[str, Any], headers: Mapping[str, Any], quoted: tuple[str, ...]) -> ErrorBody:
    error = body.get("error")
    if isinstance(error, dict):
        number = error.get("code")
        data = error.get("data")
        return ErrorBody(
            tells=Tells.ERROR,
            jsonrpc=number if isinstance(number, int) and not isinstance(number, bool) else 0,
            is_jsonrpc=True,
            not_processed=isinstance(data, dict) and data.get("notProcessed") is True,
            quoted=quoted,
        )
    result = body.get("result")
    if not isinstance(result, dict):
        return ErrorBody(tells=Tells.UNCLEAR if "result" in body else Tells.UNREADABLE, is_jsonrpc=True)
    structured = result.get("structuredContent")
    if result.get("isError") is True or "content" in result:
        # A tool's text is prose, whatever its flag says; only a structured result can be read.
        if result.get("isError") is not True and isinstance(structured, dict):
            return _read_object(structured, headers)
        return ErrorBody(tells=Tells.UNCLEAR, is_jsonrpc=True, quoted=quoted)
    return ErrorBody(tells=_told(result)[0], is_jsonrpc=True, quoted=quoted)


def _told(body: Mapping[str, Any]) -> tuple[Tells, bool, bool]:
    """(what it tells, whether an input refusal of Shopify's kind is in it, whether another error is)."""
    worst = Tells.NOTHING
    refused_input = elsewhere = False
    level: list[Mapping[str, Any]] = [body]
    seen = 0
    for depth in range(_DEEPEST + 1):
        below: list[Mapping[str, Any]] = []
        for holder in level:
            for name, value in holder.items():
                seen += 1
                if seen > _MOST_MEMBERS:
                    return _worse(worst, Tells.UNCLEAR), refused_input, elsewhere
                plain = _plain(name)
                if _may_tell(plain):
                    if plain.endswith("usererrors"):
                        if isinstance(value, list) and value:
                            refused_input, worst = True, Tells.ERROR
                        continue
                    told = _member(plain, value, top=depth == 0, holder=holder)
                    if told is Tells.ERROR:
                        elsewhere = True
                    worst = _worse(worst, told)
                if isinstance(value, dict) and plain not in _ERROR_MEMBERS:
                    below.append(value)
        level = below
        if not level:
            break
    if level:
        worst = _worse(worst, Tells.UNCLEAR)
    return worst, refused_input, elsewhere


_FROM_GOOD_TO_BAD: Final = (Tells.NOTHING, Tells.UNFINISHED, Tells.UNCLEAR, Tells.PARTIAL, Tells.ERROR)


def _worse(one: Tells, other: Tells) -> Tells:
    if one is other or other is Tells.NOTHING:
        return one
    return max(one, other, key=_FROM_GOOD_TO_BAD.index)


@lru_cache(maxsize=4096)
def _may_tell(plain: str) -> bool:
    """Whether a member of this name can tell anything at all (`_member`): most cannot, and are passed over."""
    return (
        plain in _TELLING or plain.endswith(("errors", *_STATE_ENDINGS)) or plain.startswith(("failed", "unprocessed"))
    )


def _member(plain: str, value: Any, *, top: bool, holder: Mapping[str, Any]) -> Tells:
    if plain in _MUST_BE_TRUE and (
        value is False
        or (isinstance(value, int) and value == 0)
        or (isinstance(value, str) and value.lower() in ("false", "no", "0"))
    ):
        return Tells.ERROR
    if plain in _MUST_BE_FALSE and (value is True or (isinstance(value, str) and value.lower() == "true")):
        return Tells.ERROR
    if plain in _ERROR_MEMBERS or plain.endswith("errors"):
        return Tells.ERROR if _weighs(value) else Tells.NOTHING
    if plain in _ENDED and value is False:
        return Tells.UNFINISHED
    if plain == "partial" and value is True:
        return Tells.PARTIAL
    if plain.startswith(("failed", "unprocessed")) and isinstance(value, (list, dict)) and value:
        return Tells.PARTIAL
    if plain in _FAILURE_LISTS and isinstance(value, list) and value:
        return Tells.PARTIAL
    if plain in _FAILURE_COUNTS and _is_count(value) and value > 0:
        return Tells.PARTIAL
    if plain in _STATUS_MEMBERS and (number := _whole(value)) is not None and 400 <= number <= 599:
        return Tells.ERROR
    if plain in _RESULT_NUMBERS and _unclear_number(plain, value):
        return Tells.UNCLEAR
    if plain == "code" and top and _app_code_fails(value, holder):
        return Tells.ERROR
    if (plain in _STATE_MEMBERS or plain.endswith(_STATE_ENDINGS)) and isinstance(value, str):
        return _state(value)
    if plain in _NOT_YET and value is True:
        return Tells.UNFINISHED
    return Tells.NOTHING


def _unclear_number(plain: str, value: Any) -> bool:
    number = _whole(value[1:] if isinstance(value, str) and value.startswith("-") else value)
    if number is None:
        return False
    if plain == "status":
        return number == 0
    below_zero = isinstance(value, str) and value.startswith("-")
    return below_zero or (number not in (0, 1) and not 200 <= number <= 299)


def _app_code_fails(value: Any, holder: Mapping[str, Any]) -> bool:
    """A top-level `code` beside a message: an application's own error number, or its code word."""
    if not any(name in holder for name in ("message", "msg", "detail", "description", "title")):
        return False
    number = _whole(value)
    if number is not None:
        return number not in (0, 1) and not 200 <= number <= 299
    return looks_like_a_code(value) and _plain(value) not in _HARMLESS


def _weighs(value: Any) -> bool:
    if value is None or value is False or value == 0:
        return False
    if isinstance(value, str):
        return _plain(value) not in _HARMLESS
    if isinstance(value, (list, dict)):
        return bool(value)
    return True


def _state(word: str) -> Tells:
    if len(word) > 80 or not word.isascii():
        return Tells.NOTHING
    words = [part.lower() for part in _WORD.findall(word)]
    if not words:
        return Tells.NOTHING
    joined = "".join(words)
    if words[0] in ("partial", "partially"):
        return Tells.PARTIAL
    if joined in _FAILED_WORDS or any(part in _FAILED_WORDS for part in words):
        # "queued_timeout" is a queue's word: what was begun is not over.
        return Tells.UNFINISHED if words[0] in _UNFINISHED_WORDS else Tells.ERROR
    if joined in _UNFINISHED_WORDS or words[0] in _UNFINISHED_WORDS or joined.startswith(("inprogress", "notstarted")):
        return Tells.UNFINISHED
    return Tells.NOTHING


def _lists(body: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Entries of the first object that holds a list of successes beside a list of failures."""
    holders = [body, *(value for value in list(body.values())[:50] if isinstance(value, dict))]
    for holder in holders:
        counted = [(name, value) for name, value in holder.items() if isinstance(value, (list, int))]
        good = [size for name, value in counted if (size := _size(name, value, _SUCCESS_LISTS)) is not None]
        if not good:
            continue
        bad = [size for name, value in counted if (size := _size(name, value, _FAILURE_LISTS)) is not None]
        if bad:
            return sum(good), sum(bad)
    return None, None


def _size(name: Any, value: Any, known: frozenset[str]) -> int | None:
    """How many entries a list of this name has, or its count when the owner gives that alone."""
    if _plain(name) not in known:
        return None
    if isinstance(value, list):
        return len(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 10**6 else None


def _has_data(body: Mapping[str, Any]) -> bool:
    """GraphQL: data beside errors means that some of it ran. `null` and a refusal alone are no data."""
    data = body.get("data")
    if not isinstance(data, dict):
        return False
    return any(_is_data(value) for value in list(data.values())[:100])


def _is_data(value: Any) -> bool:
    if value is None:
        return False
    if not isinstance(value, dict):
        return True
    return any(
        inner is not None and inner != [] for name, inner in value.items() if not _plain(name).endswith("usererrors")
    )


def _codes(body: Mapping[str, Any], headers: Mapping[str, Any]) -> tuple[str, ...]:
    found: list[str] = []
    for value in _code_candidates(body, headers):
        if looks_like_a_code(value) and value not in found:
            found.append(value)
    return tuple(found[:8])


_CODE_MEMBERS: Final = (
    "decline_code", "__type", "errcode", "error_code", "errorCode", "code", "error_type", "errorType", "scimType", "name",
    "reason", "type", "Code",
)  # fmt: skip
_CODE_MEMBER_SET: Final = frozenset(_CODE_MEMBERS)


def _code_candidates(body: Mapping[str, Any], headers: Mapping[str, Any]) -> list[str]:
    """Every text in a place where some owner puts its code, the most telling place first."""
    found: list[Any] = []
    if body:
        error = body.get("error")
        if isinstance(error, dict):
            found += _of_error(error)
        if isinstance(body.get("errors"), list):
            found += _of_errors(body["errors"])
        found += [entry.get("code") for entry in _user_errors(body)]
        odata = body.get("odata.error")
        if isinstance(odata, dict):
            found.append(odata.get("code"))
        found.append(error)
        if not _CODE_MEMBER_SET.isdisjoint(body):
            found += [body[name] for name in _CODE_MEMBERS if name in body]
        fault = body.get("fault") or body.get("Fault")
        if isinstance(fault, dict):
            found.append(fault.get("faultcode") or fault.get("code"))
    amzn = headers.get("x-amzn-errortype")
    if isinstance(amzn, str):
        found.append(amzn.split(":", 1)[0])
    found.append(headers.get("x-ms-error-code"))
    challenge = headers.get("www-authenticate")
    if isinstance(challenge, str) and (named := _WWW_ERROR.search(challenge[:2000])) is not None:
        found.append(named[1])
    return [value for value in found if isinstance(value, str)]


_ERROR_CODE_MEMBERS: Final = (
    "code", "decline_code", "status", "type", "error_code", "errorCode", "name", "reason", "Code",
)  # fmt: skip


def _of_error(error: Mapping[str, Any]) -> list[Any]:
    found: list[Any] = []
    details = error.get("details")
    if isinstance(details, list):
        found += [detail.get("reason") for detail in details[:20] if isinstance(detail, dict)]
    inner = error.get("innererror") or error.get("innerError")
    if isinstance(inner, dict):
        found.append(inner.get("code"))
    errors = error.get("errors")
    if isinstance(errors, list) and errors and isinstance(errors[0], dict):
        found.append(errors[0].get("reason"))
    return found + [error[name] for name in _ERROR_CODE_MEMBERS if name in error]


def _of_errors(errors: Any) -> Iterator[Any]:
    if not isinstance(errors, list):
        return
    for entry in errors[:10]:
        if not isinstance(entry, dict):
            continue
        extensions = entry.get("extensions")
        if isinstance(extensions, dict):
            yield extensions.get("code")
        for name in ("code", "errorCode", "error_code", "statusCode", "type", "reason"):
            yield entry.get(name)


def _user_errors(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    data = body.get("data")
    holders = [body, data, *list(data.values())[:20]] if isinstance(data, dict) else [body]
    for holder in holders:
        if not isinstance(holder, dict):
            continue
        for name, value in holder.items():
            if isinstance(value, list) and _plain(name).endswith("usererrors"):
                yield from (entry for entry in value[:10] if isinstance(entry, dict))


def _field(body: Mapping[str, Any]) -> str | None:
    """The first rejected member that a body names, as a path into the call."""
    for candidate in _field_candidates(body):
        path = _as_path(candidate)
        if path is not None:
            return path
    return None


def _field_candidates(body: Mapping[str, Any]) -> Iterator[Any]:
    for entry in _user_errors(body):
        yield entry.get("field")
    error = body.get("error")
    if isinstance(error, dict):
        details = error.get("details")
        for detail in details[:20] if isinstance(details, list) else []:
            if isinstance(detail, dict):
                violations = detail.get("fieldViolations")
                for violation in violations[:5] if isinstance(violations, list) else []:
                    yield violation.get("field") if isinstance(violation, dict) else None
                yield detail.get("target")
        for name in ("param", "target", "field", "parameter"):
            yield error.get(name)
    errors = body.get("errors")
    if isinstance(errors, list):
        for entry in errors[:10]:
            if isinstance(entry, dict):
                source = entry.get("source")
                if isinstance(source, dict):
                    yield source.get("pointer") or source.get("parameter")
                yield entry.get("pointer") or entry.get("field") or entry.get("param")
    elif isinstance(errors, dict):
        yield next(iter(errors), None)
    for name in ("detail", "exception_detail", "details"):
        entries = body.get(name)
        for entry in entries[:10] if isinstance(entries, list) else []:
            if isinstance(entry, dict):
                yield entry.get("loc") or entry.get("name") or entry.get("field") or entry.get("pointer")
    details = body.get("details")
    if isinstance(details, dict) and "existing" not in details:
        yield next(iter(details), None)
    for name in ("param", "field", "parameter", "fields"):
        yield body.get(name)


def _as_path(value: Any) -> str | None:
    if isinstance(value, str) and value.startswith(("/", "#/")):
        value = [part.replace("~1", "/").replace("~0", "~") for part in value.lstrip("#").split("/")[1:]]
    if isinstance(value, list):
        steps = value[1:] if len(value) > 1 and value[0] in ("body", "query", "path", "header") else value
        path = ""
        for step in steps[:20]:
            if isinstance(step, bool) or not isinstance(step, str | int):
                return None
            index = isinstance(step, int) or step.isdigit()
            path += f"[{step}]" if index and path else f".{step}" if path else str(step)
        value = path
    return value if isinstance(value, str) and _FIELD_SHAPE.fullmatch(value) is not None and " " not in value else None


_PROSE_MEMBERS: Final = ("message", "msg", "detail", "title", "description", "error_description", "errorMessage")
_PROSE_MEMBER_SET: Final = frozenset(_PROSE_MEMBERS)


def _prose(body: Mapping[str, Any]) -> tuple[str, ...]:
    found: list[str] = []
    for holder in (body, body.get("error")):
        if isinstance(holder, str):
            found.extend(_quoted(holder))
        if isinstance(holder, dict):
            if _PROSE_MEMBER_SET.isdisjoint(holder):
                continue
            for name in _PROSE_MEMBERS:
                if name in holder and isinstance(holder[name], str):
                    found.extend(_quoted(holder[name]))
    errors = body.get("errors")
    if isinstance(errors, list):
        for entry in errors[:3]:
            message = entry.get("message") if isinstance(entry, dict) else entry
            if isinstance(message, str):
                found.extend(_quoted(message))
    return tuple(found[:5])


def _quoted(text: str) -> tuple[str, ...]:
    return (text[:300],) if text.strip() else ()


def _plain(name: Any) -> str:
    """A member's name without case and separators: errorCode, error_code and error-code are one."""
    return _plain_text(name if isinstance(name, str) and len(name) <= 80 else str(name)[:80])


@lru_cache(maxsize=4096)
def _plain_text(name: str) -> str:
    return _NOT_PLAIN.sub("", name.lower())


def _whole(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str) and len(value) <= 6 and value.isascii() and value.isdigit():
        return int(value)
    return None
