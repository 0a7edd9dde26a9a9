"""Operations in every state that the pages can show, made through the ledger's own transitions.

For pictures and for tests. Each scene is told at times in the past, so that ages and waits look as they would.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from ledger.database import execute
from ledger.queries.clock import database_now
from ledger.queries.facts import Held, held
from ledger.rules.batch_payload import items_in
from ledger.rules.contract import Contract, identity_members, parse_contract
from ledger.rules.decision import Decision
from ledger.rules.evidence import Grade
from ledger.rules.facts import LookupFacts
from ledger.rules.payload import canonical, digest, digest_of
from ledger.rules.resolutions import Answer, offers
from ledger.rules.vocabulary import (
    Action,
    Effect,
    EffectKind,
    FailureClass,
    LookupOutcome,
    Proof,
    Request,
    Role,
    Speaker,
)
from ledger.transitions.contracts import publish_contract
from ledger.transitions.lookup import Answer as OwnersAnswer
from ledger.transitions.lookup import record_lookup
from ledger.transitions.open import Intent, open_operation
from ledger.transitions.passing_of_time import end_by_limit, lapse_attempt
from ledger.transitions.permit import Permitted, request_permit
from ledger.transitions.person import Signer, attest, first_signature
from ledger.transitions.report import Report, record_observation
from ledger.transitions.schedule import beat
from ledger.transitions.workspace import ensure_owner, ensure_person, ensure_role, ensure_workspace

PEOPLE = (
    ("olive", "Olive Okafor", Role.OPERATOR),
    ("otto", "Otto Lindqvist", Role.OPERATOR),
    ("ada", "Ada Moreau", Role.APPROVER),
    ("max", "Max Brandt", Role.ADMIN),
    ("vic", "Vic Tan", Role.VIEWER),
)
_LOOKUP = {
    "by": "status",
    "http": {"method": "GET", "path": "/by-key/{operation_id}"},
    "found": "status == 200",
    "no_match": "status == 404",
    "authoritative": True,
    "sees": "all",
    "lag": "30s",
    "clean_reads": 2,
}
CONTRACTS: tuple[dict[str, Any], ...] = (
    {
        "contract": "tickets.create",
        "title": "Create a support ticket",
        "effect": "write",
        "owner": "helpdesk",
        "identity": ["customer", "title"],
        "idempotency": {"guarantee": "key", "field": "header:Idempotency-Key", "retention": "24h"},
        "success": "status in [200, 201]",
        "lookup": [_LOOKUP],
        "redact": ["customer.email"],
        "escalation": {"priority": "high", "sla": "4h"},
    },
    {
        "contract": "payments.capture",
        "title": "Capture an authorised payment",
        "effect": "write",
        "owner": "ledgerline",
        "success": "status == 201",
        "lookup": [_LOOKUP],
        "redact": ["card"],
    },
    {
        "contract": "rooms.book",
        "title": "Book a meeting room",
        "effect": "write",
        "owner": "calendar",
        "identity": "none",
        "idempotency": {"guarantee": "natural"},
        "success": "status == 200",
        "lookup": [_LOOKUP],
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A workspace with its people, tools and contracts, on which scenes are played."""

    workspace_id: UUID
    suffix: str
    people: Mapping[str, int]
    """By the username of PEOPLE, without the suffix."""
    tools: Mapping[str, tuple[UUID, UUID, int, Contract]]
    """By tool name: the tool's id, its contract's id and number, and the contract."""


def set_stage(*, slug: str, name: str, password: str, suffix: str = "") -> Stage:
    """Makes the workspace and what belongs to it. Running it again finds it as it is.

    `suffix` is added to every username, for people of this workspace alone.
    """
    now = database_now()
    workspace_id = ensure_workspace(slug=slug, name=name, now=now)
    people = {}
    for username, full_name, role in PEOPLE:
        people[username] = ensure_person(username=f"{username}{suffix}", name=full_name, password=password)
        ensure_role(workspace_id=workspace_id, person_id=people[username], role=role)
    stage = Stage(workspace_id=workspace_id, suffix=suffix, people=people, tools={})
    return taught(stage=stage, documents=CONTRACTS)


def taught(*, stage: Stage, documents: Iterable[Mapping[str, Any]]) -> Stage:
    """The stage with these contracts beside its own."""
    tools = dict(stage.tools)
    for document in documents:
        now = database_now()
        contract = parse_contract(document)
        owner_id = ensure_owner(workspace_id=stage.workspace_id, name=contract.owner, base_url="http://127.0.0.1:9")
        contract_id, number = publish_contract(
            workspace_id=stage.workspace_id, contract=contract, owner_id=owner_id, now=now
        )
        [(tool_id,)] = execute(
            "SELECT id FROM tool WHERE workspace_id = %s AND name = %s", [stage.workspace_id, contract.contract]
        )
        tools[contract.contract] = (tool_id, contract_id, number, contract)
    return replace(stage, tools=tools)


def opened(
    *,
    stage: Stage,
    tool: str,
    operation_id: str,
    payload: Any,
    ago: timedelta,
    permit: bool = True,
    agent: Mapping[str, Any] | None = None,
) -> UUID:
    """An intent recorded some time ago, with its first permit when asked for."""
    tool_id, contract_id, number, contract = stage.tools[tool]
    now = database_now() - ago
    members = identity_members(contract, payload)
    intent = Intent(
        workspace_id=stage.workspace_id,
        token_id=None,
        actor="token:support-agents",
        tool_id=tool_id,
        tool=tool,
        contract_id=contract_id,
        contract_number=number,
        contract=contract,
        operation_id=operation_id,
        payload=canonical(payload),
        payload_digest=digest(payload),
        identity_digest=digest(members) if members is not None else None,
        principal="svc-support",
        agent=agent or {"name": "support-7", "run": "run-91", "step": "3"},
        trace_id=None,
        deadline_at=now + contract.deadline,
        reconcile_until=now + contract.reconcile_until,
        wants_permit=permit,
        item_keys=tuple(items_in(contract, payload)) if contract.effect is EffectKind.BATCH else (),
    )
    made = open_operation(intent=intent, now=now)
    if made is None:
        raise LookupError(f"{operation_id} is on this stage already")
    return made.id


def reported(
    *,
    id: UUID,
    after: timedelta,
    decision: Callable[[Held], Decision],
    effect: Effect = Effect.UNKNOWN,
    proof: Proof | None = None,
    speaker: Speaker = Speaker.HARNESS,
    detail: Mapping[str, Any] | None = None,
) -> None:
    """The harness tells what it saw of the last attempt, `after` its permit was given."""
    one = at(id, lambda found: found.facts.attempts[-1].opened_at + after)
    attempt = one.facts.attempts[-1]
    told = decision(one)
    body = canonical({"attempt": attempt.number, **(detail or {})})
    report = Report(
        attempt=attempt,
        source="harness/http" if speaker is Speaker.HARNESS else f"{one.owner.name}/answer",
        speaker=speaker,
        effect=effect,
        proof=proof,
        failure_class=told.failure_class,
        network_attempts=1,
        cost=0.0,
        digest=digest_of(body),
        body=body.decode(),
        observed_at=one.now,
        detail=detail or {},
    )
    written(record_observation(held=one, report=report, decision=told, actor="token:support-agents"))


def looked(
    *,
    id: UUID,
    ago: timedelta,
    outcome: LookupOutcome,
    decision: Callable[[Held], Decision],
    effect: Effect | None = None,
    proof: Proof | None = None,
    reasons: tuple[str, ...] = (),
    clean_reads: int = 0,
    detail: Mapping[str, Any] | None = None,
) -> None:
    """The owner was asked some time ago and answered so."""
    one = at(id, lambda found: found.now - ago)
    lookup = LookupFacts(
        source=f"{one.owner.name}/status",
        by="status",
        answer=outcome.value,
        started_at=one.now - timedelta(milliseconds=80),
        observed_at=one.now,
        exact_key=True,
        authoritative=True,
        complete=outcome is not LookupOutcome.LOOKUP_FAILED,
        sees="all",
        query=f"GET /by-key/{one.facts.operation_id}",
        principal="svc-recon",
    )
    grade = Grade(
        outcome=outcome,
        effect=effect,
        proof=proof,
        clean_reads=clean_reads,
        absence_since=one.now if clean_reads else None,
        absent=proof is Proof.GRADED_ABSENCE,
        conflict=bool(detail and detail.get("differs")),
        reasons=reasons,
        earliest_useful_at=None,
    )
    body = canonical({"at": one.now.isoformat(), "outcome": outcome.value}).decode()
    answer = OwnersAnswer(lookup=lookup, grade=grade, body=body, detail={"reasons": list(reasons), **(detail or {})})
    written(record_lookup(held=one, answer=answer, decision=decision(one), at=one.now))


def lapsed(*, id: UUID) -> None:
    """The last permit ended without a report."""
    one = at(id, lambda found: found.facts.attempts[-1].lapses_at)
    told = decided(Action.RECONCILE, "NO_REPORT", "The permit ended without a report, so its effect is unknown.")(one)
    written(lapse_attempt(held=one, decision=told))


def limit_reached(*, id: UUID, ago: timedelta, message: str, next_look: timedelta) -> None:
    """A budget ended with the effect unknown, and a person is asked."""
    one = at(id, lambda found: found.now - ago)
    told = decided(Action.ESCALATE, "POLLS_BUDGET_ENDED", message, after=next_look)(one)
    written(end_by_limit(held=one, decision=told))


def permitted(*, id: UUID) -> None:
    """The harness asks for another permit, and gets it."""
    one = held(id=id)
    if one is None or not isinstance(request_permit(held=one, actor="token:support-agents"), Permitted):
        raise LookupError(f"{id} gets no permit on this stage")


def answered(
    *, stage: Stage, id: UUID, username: str, answer: Answer, reason: str = "", evidence_url: str = ""
) -> None:
    """A person answers now; another person's same answer that waits is signed."""
    one = held(id=id)
    if one is None:
        raise LookupError(f"{id} is not on this stage")
    waiting = first_signature(id=id)
    chosen = next(
        offer
        for offer in offers(facts=one.facts, contract=one.contract, now=one.now, blocked_by_identity=True)
        if offer.answer is answer
    )
    signer = Signer(id=stage.people[username], username=f"{username}{stage.suffix}")
    written(
        attest(
            held=one,
            signer=signer,
            offer=chosen,
            reason=reason,
            evidence_url=evidence_url,
            expected_version=one.facts.version,
            signs=waiting if waiting and waiting.answer is answer and waiting.person_id != signer.id else None,
        )
    )


def decided(
    action: Action,
    code: str,
    message: str,
    *,
    failure: FailureClass = FailureClass.UNKNOWN_OUTCOME,
    effect: Effect = Effect.UNKNOWN,
    request: Request = Request.ACCEPTED,
    after: timedelta | None = None,
) -> Callable[[Held], Decision]:
    """A decision, told when the operation is at hand. `after` counts from now, as the page will show it."""

    def tell(_one: Held) -> Decision:
        return Decision(
            recovery_action=action,
            failure_class=failure,
            effect_status=effect,
            request=request,
            rule=f"scene.{code.lower()}",
            code=code,
            hint=message,
            message=message,
            not_before=database_now() + after if after else None,
        )

    return tell


def play(*, stage: Stage) -> dict[str, UUID]:
    """One operation in each state, by a name for it."""
    beat(part="reconciler")
    customer = {"id": "c-19", "email": "dana@example.org"}
    made: dict[str, UUID] = {}

    def ticket(name: str, number: int, ago: timedelta, **more: Any) -> UUID:
        payload = {"title": f"Export broken, case {number}", "customer": customer, "priority": "high"}
        made[name] = opened(
            stage=stage,
            tool="tickets.create",
            operation_id=f"ticket:create:case-{number}",
            payload=payload,
            ago=ago,
            **more,
        )
        return made[name]

    timed_out = decided(
        Action.RECONCILE,
        "TRANSPORT_TIMEOUT",
        "No answer came after the request had left, so the effect is unknown. The owner is asked.",
        after=_seconds(40),
    )
    waited = {
        "phase": "await",
        "bytes_sent": 412,
        "request_bytes": 412,
        "reasons": ["The harness may not say what happened after bytes left."],
    }
    nothing_yet = "Not there so far: 1 of 2 clean reads in a row. It is looked up again."

    id = ticket("applied", 8401, _minutes(190))
    reported(id=id, after=_seconds(30), decision=timed_out, detail=waited)
    looked(
        id=id,
        ago=_minutes(188),
        outcome=LookupOutcome.FOUND,
        effect=Effect.APPLIED,
        proof=Proof.LOOKUP_MATCH,
        reasons=("Found by its exact key: the owner says applied.",),
        decision=decided(
            Action.DONE,
            "FOUND",
            "It was found at the owner: it happened.",
            failure=FailureClass.SUCCESS,
            effect=Effect.APPLIED,
        ),
    )

    id = ticket("reconciling", 8472, _minutes(6))
    reported(id=id, after=_seconds(31), decision=timed_out, detail=waited)
    for ago in (5, 4, 3, 2):
        looked(
            id=id,
            ago=_minutes(ago),
            outcome=LookupOutcome.LOOKUP_FAILED,
            reasons=("The lookup failed (HTTP 503). That says nothing of the effect.",),
            decision=decided(
                Action.RECONCILE,
                "OWNER_UNAVAILABLE",
                "The owner could not be asked. It is asked again.",
                after=_seconds(100),
            ),
            detail={"status": 503, "quoted": ["upstream connect error or disconnect/reset before headers"]},
        )

    id = ticket("dispatched", 8475, _seconds(6))

    id = ticket("open", 8476, _seconds(50), permit=False)

    id = ticket("waiting", 8470, _minutes(3))
    reported(
        id=id,
        after=_seconds(4),
        effect=Effect.NONE,
        proof=Proof.REFUSED,
        speaker=Speaker.OWNER_ANSWER,
        decision=decided(
            Action.RETRY,
            "RATE_LIMITED",
            "The owner's limiter refused it before acting. It may be sent again after the wait.",
            failure=FailureClass.TRANSIENT,
            effect=Effect.NONE,
            request=Request.REJECTED,
            after=_seconds(95),
        ),
        detail={
            "status": 429,
            "phase": "after_response",
            "reasons": ["The owner refused before acting (HTTP 429)."],
            "quoted": ["Too many requests, slow down."],
        },
    )

    id = ticket("blocked", 8466, _minutes(9))
    reported(
        id=id,
        after=_seconds(2),
        effect=Effect.NONE,
        proof=Proof.REFUSED,
        speaker=Speaker.OWNER_ANSWER,
        decision=decided(
            Action.AUTHORIZE,
            "PERMISSION_DENIED",
            "The owner refused it: svc-support may not create tickets for this customer.",
            failure=FailureClass.AUTHORIZATION,
            effect=Effect.NONE,
            request=Request.REJECTED,
        ),
        detail={"status": 403, "phase": "after_response", "reasons": ["The owner refused before acting (HTTP 403)."]},
    )

    def payment(name: str, number: int, ago: timedelta) -> UUID:
        made[name] = opened(
            stage=stage,
            tool="payments.capture",
            operation_id=f"capture:order-{number}",
            payload={"order": f"order-{number}", "amount": 128_00, "currency": "EUR", "card": "4111 1111 1111 1111"},
            ago=ago,
            agent={"name": "billing-2", "run": "run-77", "step": "9"},
        )
        return made[name]

    for name, number, hours in (("escalated", 2207, 5), ("awaiting", 2198, 8), ("by_two", 2190, 26)):
        id = payment(name, number, timedelta(hours=hours))
        reported(id=id, after=_seconds(31), decision=timed_out, detail=waited)
        for ago in (4, 3, 2, 1):
            looked(
                id=id,
                ago=timedelta(hours=hours) - _minutes(12 - 2 * ago),
                outcome=LookupOutcome.LOOKUP_FAILED,
                reasons=("The lookup failed (timed out after 10 s). That says nothing of the effect.",),
                decision=decided(
                    Action.RECONCILE,
                    "OWNER_UNAVAILABLE",
                    "The owner could not be asked. It is asked again.",
                    after=_minutes(5),
                ),
            )
        limit_reached(
            id=id,
            ago=timedelta(hours=hours) - _minutes(20),
            next_look=_minutes(7),
            message="The owner did not answer within the budget of 20 looks. A person has to find out what happened.",
        )
    answered(
        stage=stage,
        id=made["awaiting"],
        username="otto",
        answer=Answer.NOT_APPLIED,
        reason="Searched the processor's dashboard by order and by amount for the whole day; there is no capture.",
        evidence_url="https://dashboard.ledgerline.example/search?order=order-2198",
    )
    for username in ("otto", "olive"):
        answered(
            stage=stage,
            id=made["by_two"],
            username=username,
            answer=Answer.NOT_APPLIED,
            reason="The day's settlement file does not have it.",
        )

    id = ticket("conflict", 8455, _minutes(45))
    reported(id=id, after=_seconds(31), decision=timed_out, detail=waited)
    looked(
        id=id,
        ago=_minutes(44),
        outcome=LookupOutcome.FOUND,
        reasons=("What was found differs from what was meant in priority. A person must look.",),
        decision=decided(
            Action.ESCALATE,
            "CONFLICT",
            "A ticket with this key exists, but it is not what was meant. A person has to compare them.",
            after=_minutes(4),
        ),
        detail={"differs": [["priority", "high", "low"], ["title", "Export broken, case 8455", "Export broken"]]},
    )

    id = ticket("clean_read", 8468, _minutes(4))
    reported(id=id, after=_seconds(8), decision=timed_out, detail={**waited, "phase": "send", "bytes_sent": 180})
    looked(
        id=id,
        ago=_minutes(1),
        outcome=LookupOutcome.NO_MATCH,
        reasons=(nothing_yet,),
        clean_reads=1,
        decision=decided(
            Action.RECONCILE,
            "NOT_THERE_YET",
            "Nothing at the owner so far. It counts as absent after one more clean read.",
            after=_seconds(25),
        ),
    )

    id = opened(
        stage=stage,
        tool="rooms.book",
        operation_id="room:book:lisbon-2026-12-04T09",
        payload={"room": "lisbon", "at": "2026-12-04T09:00"},
        ago=_minutes(2),
    )
    made["not_sent"] = id
    reported(
        id=id,
        after=_seconds(1),
        effect=Effect.NONE,
        proof=Proof.NOT_SENT,
        decision=decided(
            Action.STOP,
            "CONNECT_FAILED",
            "The calendar could not be reached; nothing left, and nothing happened.",
            failure=FailureClass.TRANSIENT,
            effect=Effect.NONE,
            request=Request.NOT_SENT,
        ),
        detail={"phase": "connect", "bytes_sent": 0, "reasons": ["The connection failed before the first byte."]},
    )

    id = ticket("lapsed", 8460, _minutes(12))
    lapsed(id=id)

    payload = {"title": "Export broken, case 8472", "customer": customer, "priority": "urgent"}
    made["held_back"] = opened(
        stage=stage,
        tool="tickets.create",
        operation_id="ticket:create:case-8472-again",
        payload=payload,
        ago=_minutes(1),
    )
    return made


def _minutes(count: int) -> timedelta:
    return timedelta(minutes=count)


def _seconds(count: int) -> timedelta:
    return timedelta(seconds=count)


def at(id: UUID, when: Callable[[Held], datetime]) -> Held:
    """The operation as it is, at a moment that is told of it."""
    one = held(id=id)
    if one is None:
        raise LookupError(f"{id} is not on this stage")
    return replace(one, now=when(one))


def written(version: object) -> None:
    """Raises where a step of a scene was not taken."""
    if version is None:
        raise LookupError("somebody else moved this operation while the scene was played")
