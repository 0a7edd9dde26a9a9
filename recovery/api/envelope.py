"""The five-class envelope that every answer of the API is, and every way it says no."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
from django.http import HttpResponse

_CLASSES = {
    400: "validation",
    401: "permission",
    403: "permission",
    404: "business_rule",
    405: "validation",
    409: "business_rule",
    413: "validation",
    415: "validation",
    422: "validation",
    429: "transient",
    503: "transient",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal(Exception):
    """The request is refused. The API turns this into its envelope; nothing was recorded unless the message says so."""

    status: int
    code: str
    message: str
    hint: str
    field: str | None = None
    retry_after_ms: int | None = None
    data: Mapping[str, Any] | None = None


def ok(data: Mapping[str, Any], *, status: int = 200) -> HttpResponse:
    """A success."""
    return _response({"ok": True, "data": data}, status=status)


def refused(refusal: Refusal) -> HttpResponse:
    """A failure: what is wrong, where, and what to do."""
    transient = _CLASSES.get(refusal.status, "fatal") == "transient"
    body: dict[str, Any] = {
        "ok": False,
        "error": {
            "code": refusal.code,
            "class": _CLASSES.get(refusal.status, "fatal"),
            "retryable": transient,
            "retry_after_ms": refusal.retry_after_ms,
            "field": refusal.field,
            "hint": refusal.hint,
            "message": refusal.message,
        },
    }
    if refusal.data is not None:
        body["data"] = refusal.data
    answer = _response(body, status=refusal.status)
    if refusal.retry_after_ms is not None:
        answer["Retry-After"] = str(-(-refusal.retry_after_ms // 1000))
    if refusal.status == 401:
        answer["WWW-Authenticate"] = "Bearer"
    return answer


def not_found() -> Refusal:
    """One answer for what is absent and for what belongs to another workspace, byte for byte."""
    return Refusal(
        status=404,
        code="OPERATION_NOT_FOUND",
        message="There is no such operation in this workspace.",
        hint="Check the operation_id, and that the token belongs to the workspace that recorded it.",
    )


def rfc3339(moment: datetime | None) -> str | None:
    """A time as the wire writes it: UTC with `Z`."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z") if moment else None


def _response(body: Mapping[str, Any], *, status: int) -> HttpResponse:
    text = orjson.dumps(body, default=_written)
    headers = {"Content-Length": str(len(text))}
    return HttpResponse(text, status=status, content_type="application/json", headers=headers)


def _written(value: Any) -> Any:
    if isinstance(value, datetime):
        return rfc3339(value)
    raise TypeError(f"{type(value).__name__} is not a JSON value")
