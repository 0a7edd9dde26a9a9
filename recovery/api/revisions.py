"""Repairs and other new payloads of an operation."""

from typing import Any

from django.db import IntegrityError
from django.http import HttpRequest, HttpResponse
from ninja import Router

from ledger.errors import constraint_of
from ledger.queries.facts import Held, held_by_name, payload_of, payloads_of
from ledger.rules.batch_payload import ItemsInvalid, items_in, without_items
from ledger.rules.contract import check_arguments, identity_members
from ledger.rules.licences import Refusal as NotAllowed
from ledger.rules.payload import NotCanonical, canonical, digest, shown
from ledger.rules.revisions import RevisionKind, may_revise, may_revise_items
from ledger.rules.stored import decision_from
from ledger.rules.vocabulary import Scope
from ledger.transitions.open import IDENTITY
from ledger.transitions.revise import revise
from recovery.api import shapes
from recovery.api.bodies import NewRevision
from recovery.api.envelope import Refusal, not_found, ok
from recovery.api.intake import arrival_of, body_of, named
from recovery.api.operations import (
    argument_invalid,
    contended,
    dialect_of,
    documented,
    items_invalid,
    not_canonical,
)
from recovery.report import MOST_TRIES

router = Router(tags=["operations"])


@router.post(
    "/operations/{operation_id}/revisions", summary="Correct a refused payload", openapi_extra=documented(NewRevision)
)
def add_revision(request: HttpRequest, operation_id: str) -> HttpResponse:
    """201 with the operation at its new revision; ask for its permit next · 409 `REVISION_REFUSED` when not licensed."""
    dialect = dialect_of(request)
    body = body_of(request, NewRevision)
    caller, held = arrival_of(request, scope=Scope.OPERATIONS_WRITE, operation_id=named(operation_id))
    kind = RevisionKind(body.kind)
    for _ in range(MOST_TRIES):
        try:
            canonical(body.payload)
        except NotCanonical as error:
            raise not_canonical(error, under="payload") from error
        if (problem := check_arguments(held.contract, body.payload)) is not None:
            raise argument_invalid(problem)
        refusal, identity_digest, keys = _of_items(held, kind, body) if held.facts.items else _of_one(held, kind, body)
        if refusal is not None:
            raise Refusal(
                status=409,
                code="REVISION_REFUSED",
                message=f"{refusal.sentence} ({refusal.code})",
                hint="Nothing was recorded. Follow the operation's decision instead.",
                data={
                    "reason": refusal.code,
                    "decision": shapes.decision(decision_from(held.decision), held=held, dialect=dialect),
                },
            )
        try:
            version = revise(
                held=held,
                kind=kind,
                payload=body.payload,
                identity_digest=identity_digest,
                keys=keys,
                field=body.field,
                reason=body.reason,
                actor=caller.actor,
            )
        except IntegrityError as error:
            if constraint_of(error) != IDENTITY:
                raise
            raise Refusal(
                status=409,
                code="POSSIBLE_DUPLICATE",
                message="Another unsettled operation has the intent of this new payload. Nothing was recorded.",
                hint="Wait until that one settles, or ask an operator.",
            ) from error
        again = held_by_name(workspace_id=held.workspace_id, operation_id=operation_id)
        if again is None:
            raise not_found()
        if version is not None:
            return ok(shapes.operation(again, dialect=dialect), status=201)
        held = again
    raise contended()


def _of_one(held: Held, kind: RevisionKind, body: NewRevision) -> tuple[NotAllowed | None, str | None, tuple[str, ...]]:
    """Whether a tool that does one thing at a time takes the new payload, and the intent's digest with it."""
    identity = identity_members(held.contract, body.payload)
    before = identity_members(held.contract, payload_of(id=held.id, revision=1))
    # Where every member makes the intent, no repair could keep it; there the intent moves with the repaired member.
    same = held.contract.identity is None or identity is None or digest(identity) == digest(before)
    refusal = may_revise(
        kind=kind,
        facts=held.facts,
        decision=decision_from(held.decision),
        before=payload_of(id=held.id, revision=held.facts.revision),
        after=body.payload,
        same_identity=same,
        now=held.now,
    )
    return refusal, digest(identity) if identity is not None else None, ()


def _of_items(
    held: Held, kind: RevisionKind, body: NewRevision
) -> tuple[NotAllowed | None, str | None, tuple[str, ...]]:
    """Whether a batch takes the changed items; its intent stays the whole batch's."""
    contract = held.contract
    try:
        after = items_in(contract, body.payload)
    except ItemsInvalid as error:
        raise items_invalid(error) from error
    before: dict[str, Any] = {}
    payloads = payloads_of(id=held.id)
    for payload in payloads.values():
        before |= items_in(contract, payload)
    refusal = may_revise_items(
        kind=kind,
        facts=held.facts,
        before=before,
        after=after,
        same_rest=without_items(contract, body.payload) == without_items(contract, payloads[held.facts.revision]),
        now=held.now,
    )
    return refusal, shown(held.identity_digest) if held.identity_digest else None, tuple(after)
