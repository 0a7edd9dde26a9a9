"""What comes in: the bearer token, and a JSON body that two readers could not read differently."""

import re
from typing import Any, TypeVar

from django.http import HttpRequest
from pydantic import BaseModel, ValidationError

from ledger.queries.access import Caller, Refused, caller
from ledger.queries.arrival import arrival
from ledger.queries.facts import Held
from ledger.rules.payload import NotJson, parse_strict
from ledger.rules.vocabulary import Scope
from recovery.api.bodies import OPERATION_ID
from recovery.api.envelope import Refusal, not_found

LARGEST_BODY = 1024 * 1024
"""Bytes."""

Body = TypeVar("Body", bound=BaseModel)


def caller_of(request: HttpRequest, *, scope: Scope, tool: str | None = None) -> Caller:
    """The caller behind the request's token, allowed to do what `scope` names.

    Raises:
        Refusal: 401 without a token that is accepted, 403 without the scope.
    """
    token = _token(request)
    return _accepted(caller(token=token, tool=tool), scope=scope)


def arrival_of(
    request: HttpRequest, *, scope: Scope, operation_id: str, attempt: int = 0, digest: bytes = b""
) -> tuple[Caller, Held]:
    """The caller, and the operation that the address names.

    Raises:
        Refusal: 401 and 403 as `caller_of`; 404 for what is absent or another workspace's.
    """
    found, held = arrival(token=_token(request), operation_id=operation_id, attempt=attempt, digest=digest)
    accepted = _accepted(found, scope=scope)
    if held is None:
        raise not_found()
    return accepted, held


def _token(request: HttpRequest) -> str:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        raise Refusal(
            status=401,
            code="TOKEN_MISSING",
            message="The request carries no bearer token.",
            hint="Send the header `Authorization: Bearer <token>` with a token of the workspace.",
        )
    if not (token.isascii() and token.isprintable()):
        raise _unaccepted(Refused.UNKNOWN)
    return token


def _accepted(found: Caller | Refused, *, scope: Scope) -> Caller:
    if isinstance(found, Refused):
        raise _unaccepted(found)
    if scope.value not in found.scopes:
        raise Refusal(
            status=403,
            code="SCOPE_MISSING",
            message=f"The token lacks the scope {scope.value}.",
            hint=f"Ask an admin of the workspace for a token with the scope {scope.value}.",
        )
    return found


def _unaccepted(why: Refused) -> Refusal:
    return Refusal(
        status=401,
        code=f"TOKEN_{why.upper()}",
        message=f"The token is {'not known' if why is Refused.UNKNOWN else why.value}.",
        hint="Ask an admin of the workspace for a new token. The same token will not work again.",
    )


def body_of(request: HttpRequest, model: type[Body]) -> Body:
    """The request's body, parsed strictly.

    Raises:
        Refusal: 413 over 1 MiB, 400 not JSON, 422 with the `field` that is wrong.
    """
    return _modelled(_read(request), model)


def optional_body_of(request: HttpRequest, model: type[Body]) -> Body:
    """As `body_of`; no body at all is an empty object."""
    return _modelled(_read(request) or b"{}", model)


def named(operation_id: str) -> str:
    """An operation_id of the address, checked as one in a body is.

    Raises:
        Refusal: 422 when no operation could have this name.
    """
    if re.fullmatch(OPERATION_ID, operation_id) is None:
        raise Refusal(
            status=422,
            code="MEMBER_INVALID",
            message="operation_id: no operation can have this name.",
            hint="An operation_id has 1 to 200 of A-Z a-z 0-9 . _ : @ ~ - and begins with a letter or a digit.",
            field="operation_id",
        )
    return operation_id


def _read(request: HttpRequest) -> bytes:
    length = request.META.get("CONTENT_LENGTH") or "0"
    if length.isascii() and length.isdigit() and (len(length) > 9 or int(length) > LARGEST_BODY):
        raise too_large()
    # A chunked body states no length, and Django then reads none; a server that ends the stream itself says so.
    chunked = "HTTP_TRANSFER_ENCODING" in request.META and request.META.get("wsgi.input_terminated")
    text: bytes = (request.META["wsgi.input"] if chunked else request).read(LARGEST_BODY + 1)
    if len(text) > LARGEST_BODY:
        raise too_large()
    return text


def _modelled(text: bytes, model: type[Body]) -> Body:
    try:
        value = parse_strict(text)
    except NotJson as error:
        raise Refusal(
            status=400,
            code="BODY_NOT_JSON",
            message=f"The body is not JSON that can be recorded: {error}.",
            hint="Send one JSON object in UTF-8: no duplicate keys, NaN, lone surrogates or more than 200 levels.",
            field=error.field,
        ) from error
    if not isinstance(value, dict):
        raise Refusal(
            status=422,
            code="BODY_NOT_AN_OBJECT",
            message=f"The body is {_kind(value)}, not an object.",
            hint="Send one JSON object.",
        )
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise invalid(error) from error


def _kind(value: Any) -> str:
    kinds = {list: "a JSON list", str: "a JSON text", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")


def too_large() -> Refusal:
    """The body is over the limit."""
    return Refusal(
        status=413,
        code="BODY_TOO_LARGE",
        message="The body is over 1 MiB. Nothing was recorded.",
        hint="Send a reference to large content instead of the content.",
    )


def invalid(error: ValidationError) -> Refusal:
    """The first thing that is wrong with a body, named by its JSON path."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    field = path(first["loc"])
    kind = first["type"]
    if kind == "extra_forbidden":
        return Refusal(
            status=422,
            code="MEMBER_UNKNOWN",
            message=f"The member {field} is not known.",
            hint=f"Remove {field}, or correct its name.",
            field=field,
        )
    return Refusal(
        status=422,
        code="MEMBER_MISSING" if kind == "missing" else "MEMBER_INVALID",
        message=f"{field}: {first['msg']}.",
        hint=f"Correct {field} and send again. Nothing was recorded.",
        field=field,
    )


def path(location: tuple[int | str, ...]) -> str:
    """A JSON path such as `items[2].sku`."""
    written = ""
    for step in location:
        written += f"[{step}]" if isinstance(step, int) else f".{step}" if written else str(step)
    return written
