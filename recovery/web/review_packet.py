"""The review packet of one operation: on its page, as Markdown and as JSON."""

from collections.abc import Sequence
from uuid import UUID

import orjson
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.text import slugify
from django.views.decorators.http import require_GET

from ledger.queries.access import Seat
from ledger.queries.facts import Held, held
from ledger.queries.operations import EvidenceRow, evidence_of
from ledger.rules.operation_packet import Piece, operation_packet
from ledger.rules.packet import Packet, packet_document, packet_markdown
from ledger.rules.vocabulary import Effect, Proof, Speaker
from recovery.web.access import seated


@require_GET
@seated()
def packet_as_markdown(_request: HttpRequest, seat: Seat, id: UUID) -> HttpResponse:
    """The packet as a Markdown file. What an owner or a harness wrote stands in it as code."""
    one = _find(seat, id)
    text = packet_markdown(packet_of(held=one, evidence=evidence_of(id=one.id)))
    return _file(one, text.encode("utf-8", "replace"), kind="text/markdown; charset=utf-8", ends="md")


@require_GET
@seated()
def packet_as_json(_request: HttpRequest, seat: Seat, id: UUID) -> HttpResponse:
    """The packet as a JSON file, times in UTC."""
    one = _find(seat, id)
    told = packet_document(packet_of(held=one, evidence=evidence_of(id=one.id)))
    return _file(one, orjson.dumps(told, option=orjson.OPT_INDENT_2), kind="application/json", ends="json")


def packet_of(*, held: Held, evidence: Sequence[EvidenceRow]) -> Packet:
    """The packet of an operation as it stands."""
    return operation_packet(
        facts=held.facts,
        contract=held.contract_label,
        pieces=[_piece(row) for row in evidence],
        created_at=held.created_at,
        as_of=held.now,
        awaits_signature=held.awaits_signature is not None,
    )


def _piece(row: EvidenceRow) -> Piece:
    keys = row.detail.get("keys")
    return Piece(
        source=row.source,
        speaker=Speaker(row.speaker),
        outcome=row.outcome,
        effect=Effect(row.effect) if row.effect else None,
        proof=Proof(row.proof) if row.proof else None,
        attempt=row.attempt,
        revision=row.revision,
        event_at=row.event_at,
        observed_at=row.observed_at,
        keys=tuple(str(key) for key in keys) if isinstance(keys, list) else (),
        counts=row.detail.get("counts") is not False,
    )


def _find(seat: Seat, id: UUID) -> Held:
    one = held(id=id)
    if one is None or one.workspace_id != seat.workspace_id:
        raise Http404
    return one


def _file(one: Held, body: bytes, *, kind: str, ends: str) -> HttpResponse:
    # An operation's name is a harness's text: only letters, digits and hyphens of it reach the header.
    name = slugify(one.facts.operation_id)[:80] or str(one.id)
    response = HttpResponse(body, content_type=kind)
    response["Content-Disposition"] = f'attachment; filename="packet-{name}.{ends}"'
    response["X-Content-Type-Options"] = "nosniff"
    return response
