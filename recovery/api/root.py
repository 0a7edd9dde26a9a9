"""The API at /api/v1: its resources, its document, and how every refusal becomes an envelope."""

from typing import Any

import structlog
from django.core.exceptions import RequestDataTooBig
from django.db import OperationalError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from ninja import NinjaAPI
from ninja.openapi.docs import DocsBase
from psycopg_pool import PoolTimeout

from recovery.api.envelope import Refusal, refused
from recovery.api.intake import too_large
from recovery.api.operations import router as operations
from recovery.api.revisions import router as revisions

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


api = NinjaAPI(
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


@api.exception_handler(Refusal)
def _refused(_request: HttpRequest, refusal: Refusal) -> HttpResponse:
    return refused(refusal)


@api.exception_handler(RequestDataTooBig)
def _too_big(_request: HttpRequest, _error: RequestDataTooBig) -> HttpResponse:
    return refused(too_large())


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
