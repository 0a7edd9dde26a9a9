"""A restricted original: what was to be sent, reported or answered, as it was. Each look is written down first."""

from uuid import UUID

import orjson
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from ledger.queries.access import Seat
from ledger.queries.facts import Held, held
from ledger.queries.originals import original_of, payload_original
from ledger.rules.payload import redact
from ledger.transitions.originals import record_view
from ledger.transitions.person import Signer
from recovery.web.access import READS_PAYLOADS, seated
from recovery.web.operation_view import cut, plain

SHOWN = 60_000
"""Characters that the page shows."""
KINDS = {
    "payload": "What was to be sent",
    "observation": "What the harness reported",
    "answer": "What the owner answered",
}


@require_GET
@seated(*sorted(READS_PAYLOADS))
def original(request: HttpRequest, seat: Seat, id: UUID, original_id: UUID) -> HttpResponse:
    """One original of an operation."""
    return _shown(request, seat, _find(seat, id), original_id, about="")


@require_GET
@seated(*sorted(READS_PAYLOADS))
def payload(request: HttpRequest, seat: Seat, id: UUID, revision: int) -> HttpResponse:
    """The payload of one revision, redacted by the contract."""
    one = _find(seat, id)
    found = payload_original(operation=one.id, revision=revision)
    if found is None:
        raise Http404
    return _shown(request, seat, one, found, about=f"revision {revision}")


def _find(seat: Seat, id: UUID) -> Held:
    one = held(id=id)
    if one is None or one.workspace_id != seat.workspace_id:
        raise Http404
    return one


def _shown(request: HttpRequest, seat: Seat, one: Held, original_id: UUID, *, about: str) -> HttpResponse:
    found = original_of(workspace_id=seat.workspace_id, operation=one.id, id=original_id)
    if found is None:
        raise Http404
    by = Signer(id=int(request.user.pk or 0), username=request.user.get_username())
    record_view(workspace_id=seat.workspace_id, operation=one.id, by=by, original=found.id, kind=found.kind)
    text = _text(found.body, one) if found.body is not None else ""
    context = {
        "seat": seat,
        "op_id": one.id,
        "tool": one.facts.tool,
        "operation_id": one.facts.operation_id,
        "kind": KINDS[found.kind],
        "about": about,
        "text": cut(text, SHOWN),
        "is_cut": len(text) > SHOWN,
        "is_gone": found.body is None,
        "is_ours": found.kind == "payload",
        "redacted": ", ".join(one.contract.redact),
    }
    return render(request, "original.html", context)


def _text(body: str, one: Held) -> str:
    """The body as it may be shown: redacted once more, spread out where it is JSON, turning no reading direction."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return plain(body)
    paths = [
        f"{place}{path}" for path in one.contract.redact for place in ("", "body.", "request.body.", "response.body.")
    ]
    return plain(orjson.dumps(redact(value, paths=paths), option=orjson.OPT_INDENT_2).decode())
