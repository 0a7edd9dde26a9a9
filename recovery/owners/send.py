"""Sends the call that has the effect, once, and says what came of it as a harness would: an `http` or `exception` observation.

| the key travels as   | it is put                                                        |
| -------------------- | ---------------------------------------------------------------- |
| `header:Name`        | in that header                                                   |
| `body:a.b`           | at that member of the JSON body                                  |
| `query:name`         | as that parameter, in place of one that the path may hold        |
| `url`                | where the contract's path has `{idempotency_key}`                |

The body is JSON; with a content type of `application/x-www-form-urlencoded` in the contract's headers it is a form
(`metadata[order]=…` for a member of a member). Nothing is followed and nothing is repeated: one call, one request.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode

from ledger.rules.contract_sections import Dispatch
from ledger.rules.payload import NotCanonical, NotJson, canonical, parse_strict
from ledger.rules.templates import NotRendered, render_path, render_value
from ledger.rules.vocabulary import Phase
from recovery.owners.base import Reach
from recovery.owners.credentials import CredentialMissing, headers_for
from recovery.owners.outgoing import Exchanged, NotExchanged, Request, exchange

FORM: Final = "application/x-www-form-urlencoded"
_TOLD: Final = frozenset(
    {"content-type", "if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "prefer"}
)
"""Headers of the request that shape what its answer means; others may hold secrets and are not told."""
_KEPT_BACK: Final = frozenset({"set-cookie", "authorization", "proxy-authorization", "authentication-info"})


class CannotSend(ValueError):
    """The call cannot be put together here; nothing was sent. The message says what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What is to be sent, as values."""

    dispatch: Dispatch
    reach: Reach
    key_field: str | None
    """Where the key travels: `idempotency.field` of the contract."""
    idempotency_key: str | None
    operation_id: str
    payload: Any
    receipt: Mapping[str, Any]
    principal: str
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A call that is ready to leave."""

    request: Request
    told: Mapping[str, Any]
    """The request as an observation tells it: without credentials, query and body."""


def prepare(call: Call) -> Prepared:
    """Put the call together. Sends nothing.

    Raises:
        CannotSend: a template has no value, the credential is not there, or the key has no place.
    """
    if call.payload is None:
        raise CannotSend("The payload is no longer kept.")
    http = call.dispatch.http
    values = {
        "operation_id": call.operation_id,
        "idempotency_key": call.idempotency_key,
        "payload": call.payload,
        "receipt": call.receipt,
    }
    try:
        path = render_path(http.path, values=values)
        body = render_value(http.body, values=values)
        headers = {name.lower(): str(render_value(value, values=values)) for name, value in http.headers.items()}
        credential = headers_for(call.dispatch.credential, secrets=call.secrets)
    except NotRendered as error:
        raise CannotSend(f"The call needs {error.name}, which this operation does not have.") from error
    except CredentialMissing as error:
        raise CannotSend(str(error)) from error
    headers.setdefault("content-type", "application/json")
    path, body = _with_key(call, path=path, headers=headers, body=body)
    told = {name: value for name, value in headers.items() if name in _told_headers(call)}
    request = Request(
        method=http.method,
        url=call.reach.base_url.rstrip("/") + path,
        headers=headers | credential,
        body=_written(body, headers["content-type"]),
    )
    return Prepared(
        request=request,
        told={
            "method": http.method,
            "path": path.partition("?")[0],
            "headers": told,
            "idempotency_key": call.idempotency_key,
            "principal": call.principal,
        },
    )


def send(prepared: Prepared, *, reach: Reach, seconds: float, now: datetime) -> dict[str, Any]:
    """Send it once and tell what was seen. Never raises for what an owner, a network or an address does.

    `seconds` is for everything together; `now` is the database's clock before sending.
    """
    return _observation(exchange(prepared.request, reach=reach, seconds=seconds), request=prepared.told, now=now)


def _observation(came: Exchanged | NotExchanged, *, request: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    seen_at = (now + timedelta(milliseconds=came.elapsed_ms)).isoformat().replace("+00:00", "Z")
    about = {"request": dict(request), "observed_at": seen_at}
    if isinstance(came, Exchanged):
        headers = {name: value for name, value in came.headers.items() if name not in _KEPT_BACK}
        return _tellable(
            {
                "kind": "http",
                **about,
                "status": came.status,
                "headers": headers,
                "body": _body(came.text),
                "redirects": [],
                "elapsed_ms": came.elapsed_ms,
                "network_attempts": 1,
            }
        )
    sent = came.phase not in (Phase.BEFORE_DISPATCH, Phase.RESOLVE)
    told = {
        "kind": "exception",
        **about,
        "exception": came.exception or came.failure.value,
        "message": came.reason,
        "phase": came.phase.value,
        "bytes_sent": came.bytes_sent,
        "request_bytes": came.request_bytes,
        # The owner was asked for a connection at least; resolving a name is no request to it.
        "network_attempts": 1 if sent else 0,
    }
    if came.status is not None:
        told["response"] = {"status": came.status}
    return _tellable(told)


def _body(text: str) -> Any:
    """The body as JSON where that is exact, else as text."""
    if not text.strip():
        return None
    try:
        value = parse_strict(text.encode())
        canonical(value)
    except (NotJson, NotCanonical):
        return text.replace("\x00", "�")
    return value


def _tellable(told: dict[str, Any]) -> dict[str, Any]:
    """What can be kept as it is; an answer whose headers cannot is told without them."""
    try:
        canonical(told)
    except NotCanonical:
        return {**told, "headers": {}}
    return told


def _told_headers(call: Call) -> frozenset[str]:
    where = call.key_field or ""
    return _TOLD | {where.removeprefix("header:").lower()} if where.startswith("header:") else _TOLD


def _with_key(call: Call, *, path: str, headers: dict[str, str], body: Any) -> tuple[str, Any]:
    """Path and body with the key in its place; a header is set where it is one."""
    if call.idempotency_key is None or call.key_field is None:
        return path, body
    kind, _, name = call.key_field.partition(":")
    if kind == "header":
        headers[name.lower()] = call.idempotency_key
    elif kind == "body":
        body = _with_member(body, name.split("."), call.idempotency_key)
    elif kind == "query":
        path = _with_parameter(path, name, call.idempotency_key)
    elif quote(call.idempotency_key, safe="") not in path:
        raise CannotSend("The contract's path does not hold the key, which travels in the address.")
    return path, body


def _with_member(body: Any, steps: list[str], key: str) -> Any:
    if not isinstance(body, Mapping):
        raise CannotSend("The key travels in the body, and the body is not an object.")
    first, *rest = steps
    inner = _with_member(body.get(first, {}), rest, key) if rest else key
    return {**body, first: inner}


def _with_parameter(path: str, name: str, key: str) -> str:
    start, _, query = path.partition("?")
    kept = [(other, value) for other, value in parse_qsl(query, keep_blank_values=True) if other != name]
    return f"{start}?{urlencode([*kept, (name, key)], quote_via=quote)}"


def _written(body: Any, content_type: str) -> bytes:
    if body is None:
        return b""
    if content_type.partition(";")[0].strip().lower() == FORM:
        if not isinstance(body, Mapping):
            raise CannotSend("A form is made of an object's members, and the body is none.")
        return urlencode(list(_fields("", body))).encode()
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def _fields(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """The members of an object as the fields of a form, in order."""
    if isinstance(value, Mapping):
        for member, inner in value.items():
            yield from _fields(f"{name}[{member}]" if name else str(member), inner)
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _fields(f"{name}[{index}]", inner)
    elif value is not None:
        yield name, _as_text(value)


def _as_text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)
