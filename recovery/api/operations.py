"""Intents, permits and observations: the harness's way into the ledger."""

from datetime import timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Router

from ledger.database import TookTooLong, within
from ledger.queries.access import Caller
from ledger.queries.contracts import contract_by_id
from ledger.queries.facts import Held, held_by_name
from ledger.queries.filters import CursorInvalid, FilterInvalid, parse_cursor, parse_filter
from ledger.queries.operations import evidence_of, operation_page
from ledger.rules.arguments import ArgumentProblem
from ledger.rules.batch_payload import ItemsInvalid, items_in, with_items
from ledger.rules.contract import Contract, check_arguments, identity_members
from ledger.rules.decision import Decision
from ledger.rules.durations import LONGEST as LONGEST_SPAN
from ledger.rules.payload import NotCanonical, canonical, digest, digest_of, raw
from ledger.rules.vocabulary import EffectKind, Scope
from ledger.transitions.open import Intent, held_of, open_operation
from ledger.transitions.permit import Permitted, request_permit
from recovery.api import shapes
from recovery.api.bodies import NewAttempt, NewOperation, Observation
from recovery.api.envelope import Refusal, not_found, ok
from recovery.api.intake import arrival_of, body_of, caller_of, named, optional_body_of
from recovery.api.read_results import result_of
from recovery.api.waiting import LONGEST, Full, wait_for_change
from recovery.judgement.dialects import Dialect
from recovery.judgement.reading import ObservationInvalid
from recovery.report import MOST_TRIES, Contended, NoSuchAttempt, NotTheSender, attempt_number, report

router = Router(tags=["operations"])
PATIENCE_MS = 2000
"""So long may the database think about one page of the list."""

BACKLOG = timedelta(seconds=2)
"""How long a request that found no place to wait is told to stay away."""


def documented(model: Any) -> dict[str, Any]:
    """The body's schema for the OpenAPI document; bodies are parsed by `intake.body_of`, stricter than the framework."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    definitions = schema.pop("$defs", {})
    for name, member in schema.get("properties", {}).items():
        schema["properties"][name] = _inlined(member, definitions)
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _inlined(member: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(member, dict):
        if "$ref" in member:
            return _inlined(definitions[member["$ref"].rsplit("/", 1)[1]], definitions)
        return {name: _inlined(value, definitions) for name, value in member.items()}
    if isinstance(member, list):
        return [_inlined(value, definitions) for value in member]
    return member


@router.post("/operations", summary="Record an intent", openapi_extra=documented(NewOperation))
def record_operation(request: HttpRequest) -> HttpResponse:
    """Records the intent durably; with `"attempt": true` asks for the first permit in the same transaction.

    201 new · 200 the same operation again · 409 `OPERATION_MISMATCH` (same id, other payload) · 422 with `field`.
    """
    dialect = dialect_of(request)
    body = body_of(request, NewOperation)
    caller = caller_of(request, scope=Scope.OPERATIONS_WRITE, tool=body.tool)
    intent = _intent(body, caller)
    opened = open_operation(intent=intent, now=caller.now)
    if opened is None:
        return _same_again(body, caller, intent, dialect)
    held = held_of(opened=opened, intent=intent, now=caller.now)
    permit = None
    if opened.permit is not None:
        permit = shapes.permit(opened.permit, held=held, attempt_id="attempt-01", key=opened.idempotency_key)
    return ok(shapes.operation(held, dialect=dialect, permit=permit), status=201)


@router.get("/operations", summary="List operations, newest first")
def list_operations(request: HttpRequest) -> HttpResponse:
    """`limit` up to 200, `cursor`, and filters `state`, `tool`, `effect`, `q` (the queue page's language)."""
    caller = caller_of(request, scope=Scope.OPERATIONS_READ)
    known = ("limit", "cursor", "state", "tool", "effect", "q")
    for name in request.GET:
        if name not in known:
            raise _bad_query(name, f"{name} is not a parameter of this list; {', '.join(known)} are.")
    for name in ("state", "tool", "effect"):
        value = request.GET.get(name, "")
        if value and (value.split() != [value] or "\x00" in value):
            raise _bad_query(name, f"{name} is one word without spaces.")
    words = [f"{name}:{request.GET[name]}" for name in ("state", "tool", "effect") if request.GET.get(name)]
    try:
        filter = parse_filter(" ".join([*words, request.GET.get("q", "")]))
    except FilterInvalid as error:
        field = next(
            (name for name in ("state", "tool", "effect") if f"{name}:{request.GET.get(name)}" == error.token), "q"
        )
        raise _bad_query(field, f"{error.token}: {error.sentence}.") from error
    limit = _number(request, "limit", default=50, least=1, most=200)
    try:
        after = parse_cursor(request.GET["cursor"]) if request.GET.get("cursor") else None
    except CursorInvalid as error:
        raise _bad_query("cursor", f"{error}.") from error
    try:
        with within(milliseconds=PATIENCE_MS):
            page = operation_page(workspace_id=caller.workspace_id, filter=filter, limit=limit, after=after)
    except TookTooLong as error:
        raise _bad_query("q", "This filter was too wide for the database; add tool: or state:.") from error
    return ok(
        {"items": [shapes.listed(row) for row in page.items], "next_cursor": page.next_cursor, "truncated": False}
    )


@router.get("/operations/{operation_id}", summary="Read an operation, or wait for it to move")
def read_operation(request: HttpRequest, operation_id: str) -> HttpResponse:
    """The operation as it stands. `?wait=30` holds until its version passes `?version=N` (default: the version now)
    or the seconds are up; at most 60."""
    dialect = dialect_of(request)
    caller, held = arrival_of(request, scope=Scope.OPERATIONS_READ, operation_id=named(operation_id))
    seconds = _number(request, "wait", default=0, least=0, most=3600)
    version = _number(request, "version", default=held.facts.version, least=0, most=2**31 - 1)
    if seconds and held.facts.version <= version:
        try:
            wait_for_change(id=held.id, version=version, seconds=min(seconds, LONGEST))
        except Full as full:
            raise Refusal(
                status=503,
                code="TOO_MANY_WAITING",
                message="As many requests wait as this server holds.",
                hint="Ask again after the given time, or without `wait`.",
                retry_after_ms=int(BACKLOG.total_seconds() * 1000),
            ) from full
        held = _find(caller, operation_id)
    evidence = evidence_of(id=held.id)
    return ok(shapes.operation(held, dialect=dialect, evidence=evidence, result=result_of(held)))


@router.post(
    "/operations/{operation_id}/attempts", summary="Ask for a permit to dispatch", openapi_extra=documented(NewAttempt)
)
def ask_for_permit(request: HttpRequest, operation_id: str) -> HttpResponse:
    """201 with the permit · 409 `PERMIT_REFUSED` with the decision that says what to do instead."""
    dialect = dialect_of(request)
    optional_body_of(request, NewAttempt)
    caller, held = arrival_of(request, scope=Scope.OPERATIONS_WRITE, operation_id=named(operation_id))
    answer = _permit(held, caller)
    if isinstance(answer, Permitted):
        return _permitted(answer, dialect=dialect, status=201)
    held, refusal = answer
    told = shapes.decision(refusal, held=held, dialect=dialect)
    raise Refusal(
        status=409,
        code="PERMIT_REFUSED",
        message=refusal.message,
        hint=refusal.hint,
        field=refusal.field,
        retry_after_ms=refusal.retry_after_ms,
        data={"decision": told},
    )


@router.post(
    "/operations/{operation_id}/attempts/{attempt_id}/observations",
    summary="Report what was seen of an attempt",
    openapi_extra=documented(Observation),
)
def report_observation(request: HttpRequest, operation_id: str, attempt_id: str) -> HttpResponse:
    """200 with the decision. May come late, twice (the same digest is the same answer), or after the permit lapsed."""
    dialect = dialect_of(request)
    body = body_of(request, Observation)
    observation = body.model_dump(mode="python", exclude_unset=True)
    try:
        digest = digest_of(canonical(observation))
    except NotCanonical as error:
        raise not_canonical(error, under="") from error
    caller, held = arrival_of(
        request,
        scope=Scope.OPERATIONS_WRITE,
        operation_id=named(operation_id),
        attempt=attempt_number(attempt_id),
        digest=raw(digest),
    )
    try:
        recorded = report(held=held, attempt_id=attempt_id, observation=observation, digest=digest, actor=caller.actor)
    except NoSuchAttempt as error:
        raise Refusal(
            status=404,
            code="ATTEMPT_NOT_FOUND",
            message="The operation has no such attempt.",
            hint="Report on an attempt_id that a permit named.",
        ) from error
    except NotTheSender as error:
        raise Refusal(
            status=409,
            code="NOT_THE_SENDER",
            message="Ascertain sent this attempt itself and records what it saw. Nothing was recorded.",
            hint="Report only on attempts that a permit gave to you; read the operation for this one.",
        ) from error
    except ObservationInvalid as error:
        raise Refusal(
            status=422,
            code="OBSERVATION_INVALID",
            message=f"{error.field or 'The observation'} {error.message}",
            hint="Correct the member and report again. Nothing was recorded.",
            field=error.field or None,
        ) from error
    except Contended as error:
        raise contended() from error
    held = recorded.held
    told = shapes.decision(recorded.decision, held=held, dialect=dialect) or {}
    return ok(
        {
            **told,
            "decision": told,
            "operation_id": held.facts.operation_id,
            "attempt_id": attempt_id,
            "version": held.facts.version,
            "state": held.facts.state,
            "effect": held.facts.effect,
            "outcome": held.facts.outcome,
        }
    )


def dialect_of(request: HttpRequest) -> Dialect:
    """The dialect that `for_agent` is told in."""
    stated = request.GET.get("dialect", Dialect.FIVE_CLASS)
    if stated not in list(Dialect):
        raise _bad_query("dialect", f"dialect is one of {', '.join(Dialect)}.")
    return Dialect(stated)


def _intent(body: NewOperation, caller: Caller) -> Intent:
    if caller.tool_id is None or caller.contract_id is None or caller.contract_number is None:
        raise Refusal(
            status=422,
            code="TOOL_UNKNOWN",
            message="No contract is published for this tool in the token's workspace.",
            hint="Correct `tool`, or ask a contract admin to publish a contract for it.",
            field="tool",
        )
    contract = contract_by_id(caller.contract_id)
    stated, keys = _batch(body, contract)
    principal = body.principal or ""
    if caller.principals and principal not in caller.principals:
        raise Refusal(
            status=403,
            code="PRINCIPAL_NOT_ALLOWED",
            message="The token may not act as this principal.",
            hint="State a principal that the token names, or use another token.",
            field="principal",
        )
    try:
        payload = canonical(stated)
        identity = identity_members(contract, stated)
        identity_digest = digest(identity) if identity is not None else None
        agent = body.agent.model_dump(exclude_unset=True) if body.agent else None
        canonical(agent)
    except NotCanonical as error:
        raise not_canonical(error, under="payload") from error
    if (problem := check_arguments(contract, stated)) is not None:
        raise argument_invalid(problem)
    deadline_at = body.deadline_at or caller.now + contract.deadline
    if deadline_at > caller.now + LONGEST_SPAN:
        raise Refusal(
            status=422,
            code="DEADLINE_TOO_FAR",
            message="deadline_at lies more than ten years ahead.",
            hint="Leave it out for the contract's own deadline, or name an earlier moment.",
            field="deadline_at",
        )
    if deadline_at <= caller.now:
        raise Refusal(
            status=422,
            code="DEADLINE_PASSED",
            message="deadline_at lies in the past.",
            hint="Leave it out for the contract's own deadline, or name a later moment.",
            field="deadline_at",
        )
    return Intent(
        workspace_id=caller.workspace_id,
        token_id=caller.token_id,
        actor=caller.actor,
        tool_id=caller.tool_id,
        tool=body.tool,
        contract_id=caller.contract_id,
        contract_number=caller.contract_number,
        contract=contract,
        operation_id=body.operation_id,
        payload=payload,
        payload_digest=digest_of(payload),
        identity_digest=identity_digest,
        principal=principal,
        agent=agent,
        trace_id=body.trace_id,
        deadline_at=deadline_at,
        reconcile_until=caller.now + contract.reconcile_until,
        wants_permit=body.attempt,
        item_keys=keys,
    )


def _batch(body: NewOperation, contract: Contract) -> tuple[Any, tuple[str, ...]]:
    """The payload with the items in it, and their keys; a tool that takes one thing at a time has none."""
    if contract.effect is not EffectKind.BATCH:
        if body.items is not None:
            raise Refusal(
                status=422,
                code="ITEMS_NOT_TAKEN",
                message="This tool's contract takes no items.",
                hint="Leave `items` out; batch tools need a contract with effect batch.",
                field="items",
            )
        return body.payload, ()
    try:
        payload = with_items(contract, body.payload, body.items) if body.items is not None else body.payload
        return payload, tuple(items_in(contract, payload))
    except ItemsInvalid as error:
        raise items_invalid(error) from error


def items_invalid(error: ItemsInvalid) -> Refusal:
    """The items of a batch cannot be told apart."""
    return Refusal(
        status=422,
        code="ITEMS_INVALID",
        message=f"{error.field} {error.sentence}",
        hint=f"Correct {error.field} and record it again. Nothing was recorded.",
        field=error.field,
    )


def _same_again(body: NewOperation, caller: Caller, intent: Intent, dialect: Dialect) -> HttpResponse:
    """The operation_id is taken: the same operation is answered as it stands, another is refused by name."""
    held = _find(caller, body.operation_id)
    facts = held.facts
    differs = [
        name
        for name, same in (
            ("tool", facts.tool == body.tool),
            ("principal", facts.principal == intent.principal),
            ("payload", facts.payload_digest == intent.payload_digest),
        )
        if not same
    ]
    if differs:
        raise Refusal(
            status=409,
            code="OPERATION_MISMATCH",
            message=f"This operation_id was recorded with another {differs[0]}. Nothing was overwritten.",
            hint="Use a new operation_id for another intent; to correct a refused payload, add a revision.",
            field=differs[0],
            data={"recorded": {"payload_digest": facts.payload_digest, "tool": facts.tool, "version": facts.version}},
        )
    if body.attempt and not facts.attempts:
        answer = _permit(held, caller)
        if isinstance(answer, Permitted):
            return _permitted(answer, dialect=dialect, status=200)
        held = answer[0]
    evidence = evidence_of(id=held.id)
    return ok(shapes.operation(held, dialect=dialect, evidence=evidence, result=result_of(held)))


def _permit(held: Held, caller: Caller) -> Permitted | tuple[Held, Decision]:
    for _ in range(MOST_TRIES):
        answer = request_permit(held=held, actor=caller.actor)
        if isinstance(answer, Permitted):
            return answer
        if isinstance(answer, Decision):
            return held, answer
        held = _find(caller, held.facts.operation_id)
    raise contended()


def _permitted(answer: Permitted, *, dialect: Dialect, status: int) -> HttpResponse:
    permit = shapes.permit(
        answer.terms,
        held=answer.held,
        attempt_id=answer.attempt_id,
        key=answer.idempotency_key,
        payload=answer.payload,
    )
    data = shapes.operation(answer.held, dialect=dialect, permit=permit)
    return ok({**permit, **data}, status=status)


def _find(caller: Caller, operation_id: str) -> Held:
    held = held_by_name(workspace_id=caller.workspace_id, operation_id=named(operation_id))
    if held is None:
        raise not_found()
    return held


def _number(request: HttpRequest, name: str, *, default: int, least: int, most: int) -> int:
    text = request.GET.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 10 or not least <= int(text) <= most:
        raise _bad_query(name, f"{name} is a whole number from {least} to {most}.")
    return int(text)


def _bad_query(field: str, message: str) -> Refusal:
    return Refusal(
        status=422,
        code="PARAMETER_INVALID",
        message=message,
        hint=f"Correct the parameter {field} and ask again.",
        field=field,
    )


def argument_invalid(problem: ArgumentProblem) -> Refusal:
    """The payload does not fit the contract's arguments."""
    field = f"payload.{problem.field}" if problem.field else "payload"
    expected = f"must be {problem.expected}" if problem.expected else f"breaks {problem.constraint}"
    return Refusal(
        status=422,
        code="ARGUMENT_INVALID",
        message=f"{field} {expected}.",
        hint=f"Correct {field} ({problem.constraint}) and record it again. Nothing was recorded.",
        field=field,
    )


def not_canonical(error: NotCanonical, *, under: str) -> Refusal:
    """A value that two readers could read differently, or that cannot be stored."""
    field = f"{under}.{error.field}".strip(".") if error.field else under or None
    return Refusal(
        status=422,
        code="VALUE_NOT_RECORDABLE",
        message=f"{field or 'The body'}: {error.sentence}.",
        hint="Change that member and send again. Nothing was recorded.",
        field=field,
    )


def contended() -> Refusal:
    """The operation would not hold still."""
    return Refusal(
        status=503,
        code="OPERATION_BUSY",
        message="The operation kept changing while this was being recorded. Nothing was recorded.",
        hint="Send the same request again.",
        retry_after_ms=200,
    )
