"""The API at /api/v1: its resources, its document, and how every refusal becomes an envelope."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import structlog
from django.core.exceptions import RequestDataTooBig
from django.db import DataError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import URLPattern, URLResolver
from ninja import NinjaAPI
from ninja.openapi.docs import DocsBase
from psycopg_pool import PoolTimeout

from recovery.api.classify import router as classify
from recovery.api.envelope import Refusal, refused
from recovery.api.intake import too_large
from recovery.api.notifications import router as notifications
from recovery.api.operations import router as operations
from recovery.api.revisions import router as revisions
from recovery.api.runs import router as runs

log = structlog.get_logger()


class ServerDrawn(DocsBase):
    """The API's page, drawn on the server: no script, nothing fetched from elsewhere."""

    def render_page(self, request: HttpRequest, api: NinjaAPI, **kwargs: Any) -> HttpResponse:
        """Every call with its parameters and body."""
        schema = api.get_openapi_schema(path_params=kwargs)
        calls = [
            {
                "path": path,
                "method": method.upper(),
                "summary": call.get("summary", ""),
                "description": _pieces(call.get("description", "")),
                "members": _members(call),
            }
            for path, methods in schema["paths"].items()
            for method, call in methods.items()
        ]
        return render(request, "api_docs.html", {"description": api.description, "calls": calls})


def _pieces(text: str) -> list[dict[str, Any]]:
    """A docstring for the page: what stands between backticks is code."""
    return [{"text": part, "is_code": index % 2 == 1} for index, part in enumerate(text.split("`"))]


def _members(call: dict[str, Any]) -> list[dict[str, Any]]:
    """The members of a call's body, for the page."""
    content = call.get("requestBody", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema", {})
    required = schema.get("required", [])
    return [
        {"name": name, "type": _type(member), "required": name in required}
        for name, member in schema.get("properties", {}).items()
    ]


def _type(member: dict[str, Any]) -> str:
    if "anyOf" in member:
        return " or ".join(_type(one) for one in member["anyOf"])
    kind = str(member.get("type", "any"))
    return f"{kind} ({member['format']})" if "format" in member else kind


class EnvelopedAPI(NinjaAPI):
    """Also a method that an address does not take is answered with an envelope."""

    @property
    def urls(self) -> tuple[list[URLResolver | URLPattern], str, str]:
        """The API's addresses, for Django."""
        patterns, app, namespace = super().urls
        for pattern in patterns:
            if isinstance(pattern, URLPattern):
                pattern.callback = _enveloped(pattern.callback)
        return patterns, app, namespace


def _enveloped(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    @wraps(view)
    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        given = view(request, *args, **kwargs)
        if given.status_code != 405:
            return given
        allowed = given["Allow"]
        told = refused(
            Refusal(
                status=405,
                code="METHOD_NOT_ALLOWED",
                message=f"This address takes {allowed}, not {request.method}.",
                hint="The calls are listed at /api/v1/docs.",
            )
        )
        told["Allow"] = allowed
        return told

    return answer


api = EnvelopedAPI(
    title="Ascertain",
    version="v1",
    description="Record an intended effect, ask for a permit, report what was seen, and be told the one next step.",
    docs=ServerDrawn(),
    openapi_extra={
        "components": {"securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}},
        "security": [{"bearer": []}],
    },
)
api.add_router("", operations)
api.add_router("", revisions)
api.add_router("", classify)
api.add_router("", runs)
api.add_router("", notifications)


@api.exception_handler(Refusal)
def _refused(_request: HttpRequest, refusal: Refusal) -> HttpResponse:
    return refused(refusal)


@api.exception_handler(RequestDataTooBig)
def _too_big(_request: HttpRequest, _error: RequestDataTooBig) -> HttpResponse:
    return refused(too_large())


@api.exception_handler(DataError)
def _not_storable(_request: HttpRequest, error: DataError) -> HttpResponse:
    # Every member is checked before it gets here; what is left is a sum that no longer fits its column.
    log.error("value_not_storable", error=str(error).partition("\n")[0])
    return refused(
        Refusal(
            status=422,
            code="VALUE_NOT_RECORDABLE",
            message="A value is beyond what the ledger can keep. Nothing was recorded.",
            hint="Send smaller numbers and plain text.",
        )
    )


@api.exception_handler(OperationalError)
@api.exception_handler(PoolTimeout)
def _database_away(_request: HttpRequest, error: Exception) -> HttpResponse:
    log.error("database_unreachable", error=type(error).__name__)
    return refused(
        Refusal(
            status=503,
            code="LEDGER_UNAVAILABLE",
            message="The ledger's database cannot be reached. It is not known whether this request was recorded.",
            hint="Send the same request again; it is recorded once. Send nothing to the owner without a permit.",
            retry_after_ms=2000,
        )
    )


@api.exception_handler(Exception)
def _unexpected(_request: HttpRequest, error: Exception) -> HttpResponse:
    log.exception("request_failed", exc_info=error)
    return refused(
        Refusal(
            status=500,
            code="INTERNAL",
            message="Something here failed. It is not known whether this request was recorded.",
            hint="Send the same request again; it is recorded once. Send nothing to the owner without a permit.",
        )
    )


def unknown_address(request: HttpRequest, _exception: Exception | None = None) -> HttpResponse:
    """404 for an address of the API that does not exist."""
    return refused(
        Refusal(
            status=404,
            code="OPERATION_NOT_FOUND",
            message="There is no such operation in this workspace.",
            hint="Check the operation_id, and that the token belongs to the workspace that recorded it.",
        )
        if request.path_info.startswith("/api/v1/operations/")
        else Refusal(
            status=404,
            code="ADDRESS_UNKNOWN",
            message="The API has no such address.",
            hint="The calls are listed at /api/v1/docs.",
        )
    )
