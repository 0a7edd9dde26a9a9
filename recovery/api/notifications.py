"""Owners' signed notifications (Standard Webhooks). No token: the signature is the proof of who speaks."""

from uuid import UUID

import orjson
import structlog
from django.http import HttpRequest, HttpResponse
from ninja import Router

from ledger.queries.clock import database_now
from ledger.queries.notices import Endpoint, endpoint_by_id
from ledger.rules.expressions import lower_cased
from ledger.rules.payload import NotJson, parse_strict
from ledger.rules.signatures import NOBODYS, verified
from recovery.api.envelope import Refusal
from recovery.notices import Contended, Message, receive
from recovery.sealing import FieldKeysMissing, SealBroken, unseal

router = Router(tags=["notifications"])
LARGEST = 256 * 1024
"""Bytes."""
log = structlog.get_logger()


@router.post(
    "/notifications/{endpoint}",
    summary="An owner's signed notification",
    auth=None,
    response={204: None},
    openapi_extra={
        "security": [],
        "requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}},
        "parameters": [
            {"in": "header", "name": name, "required": True, "schema": {"type": "string"}}
            for name in ("webhook-id", "webhook-timestamp", "webhook-signature")
        ],
    },
)
def notification(request: HttpRequest, endpoint: str) -> HttpResponse:
    """204 taken, or received before · 401 anything else, in the same words whatever was wrong.

    The address is made for one owner by `manage.py notify endpoint add`. The signature is that of Standard Webhooks, over
    `webhook-id`, `webhook-timestamp` (within five minutes) and the body (JSON, 256 KiB at most). A message is taken once
    by its id; what it means is said by the `notice` part of the tool's contract.
    """
    body = _body(request)
    found = _endpoint(endpoint)
    secrets = _secrets(found)
    headers = lower_cased(dict(request.headers))
    message_id = verified(secrets=secrets, headers=headers, body=body, now=database_now())
    try:
        value = parse_strict(body)
    except NotJson:
        raise _refused() from None
    if found is None or message_id is None:
        raise _refused()
    try:
        receive(endpoint=found, message=Message(id=message_id, headers=headers, body=value, raw=body))
    except Contended as error:
        raise Refusal(
            status=503,
            code="OPERATION_BUSY",
            message="The operation kept moving while this was being recorded. Nothing was recorded.",
            hint="Send the same message again.",
            retry_after_ms=1000,
        ) from error
    return HttpResponse(status=204)


def _endpoint(text: str) -> Endpoint | None:
    try:
        id = UUID(text)
    except ValueError:
        return None
    return endpoint_by_id(id=id) if str(id) == text else None


def _secrets(endpoint: Endpoint | None) -> list[str]:
    if endpoint is None:
        return [NOBODYS]
    try:
        secrets: list[str] = orjson.loads(unseal(endpoint.sealed_secrets))
    except (FieldKeysMissing, SealBroken) as error:
        # The owner is answered as everybody else is, and sends it again later.
        log.error("notice_secret_sealed", endpoint=str(endpoint.id), owner=endpoint.owner, why=str(error))
        return [NOBODYS]
    return secrets


def _body(request: HttpRequest) -> bytes:
    # Whether it is too large does not depend on whether the address exists, so saying so gives nothing away.
    chunked = "HTTP_TRANSFER_ENCODING" in request.META and request.META.get("wsgi.input_terminated")
    text: bytes = (request.META["wsgi.input"] if chunked else request).read(LARGEST + 1)
    if len(text) > LARGEST:
        raise Refusal(
            status=413,
            code="BODY_TOO_LARGE",
            message="The body is over 256 KiB. Nothing was recorded.",
            hint="Send a notification that names the operation; large content stays with the owner.",
        )
    return text


def _refused() -> Refusal:
    return Refusal(
        status=401,
        code="NOTIFICATION_REFUSED",
        message="The notification was not accepted. Nothing was recorded.",
        hint="Check the address, the signing secret, the clock, and that the body is sent as it was signed.",
    )
