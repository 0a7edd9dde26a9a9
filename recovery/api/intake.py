"""What comes in: the bearer token, and a JSON body that two readers could not read differently."""

from typing import TypeVar

from django.http import HttpRequest
from pydantic import BaseModel, ValidationError

from ledger.queries.access import Caller, Refused, caller
from ledger.rules.payload import NotJson, parse_strict
from ledger.rules.vocabulary import Scope
from recovery.api.envelope import Refusal

LARGEST_BODY = 1024 * 1024
"""Bytes."""

Body = TypeVar("Body", bound=BaseModel)


def caller_of(request: HttpRequest, *, scope: Scope, tool: str | None = None) -> Caller:
    """The caller behind the request's token, allowed to do what `scope` names.

    Raises:
        Refusal: 401 without a token that is accepted, 403 without the scope.
    """
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Refusal(
            status=401,
            code="TOKEN_MISSING",
            message="The request carries no bearer token.",
            hint="Send the header `Authorization: Bearer <token>` with a token of the workspace.",
        )
    found = caller(token=token.strip(), tool=tool)
    if isinstance(found, Refused):
        raise Refusal(
            status=401,
            code=f"TOKEN_{found.upper()}",
            message=f"The token is {'not known' if found is Refused.UNKNOWN else found.value}.",
            hint="Ask an admin of the workspace for a new token. The same token will not work again.",
        )
    if scope.value not in found.scopes:
        raise Refusal(
            status=403,
            code="SCOPE_MISSING",
            message=f"The token lacks the scope {scope.value}.",
            hint=f"Ask an admin of the workspace for a token with the scope {scope.value}.",
        )
    return found


def body_of(request: HttpRequest, model: type[Body]) -> Body:
    """The request's body, parsed strictly.

    Raises:
        Refusal: 413 over 1 MiB, 400 not JSON, 422 with the `field` that is wrong.
    """
    length = request.META.get("CONTENT_LENGTH") or "0"
    if length.isdigit() and int(length) > LARGEST_BODY:
        raise too_large()
    text = request.read(LARGEST_BODY + 1)
    if len(text) > LARGEST_BODY:
        raise too_large()
    try:
        value = parse_strict(text)
    except NotJson as error:
        raise Refusal(
            status=400,
            code="BODY_NOT_JSON",
            message=f"The body is not JSON that can be recorded: {error}.",
            hint="Send one JSON object in UTF-8: no duplicate keys, NaN, lone surrogates or more than 200 levels.",
        ) from error
    if not isinstance(value, dict):
        raise Refusal(
            status=422,
            code="BODY_NOT_AN_OBJECT",
            message=f"The body is a JSON {type(value).__name__}, not an object.",
            hint="Send one JSON object.",
        )
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise invalid(error) from error


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
