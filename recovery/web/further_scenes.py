"""Operations in the states that take more to bring about: checked, batched, found twice, written off, reopened.

They stand beside those of `recovery.web.scenes`, on the same stage, and are made in the same way.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from ledger.queries.facts import held
from ledger.rules.notices import NoticeFacts, Weighed, Weight
from ledger.rules.payload import canonical, digest, digest_of
from ledger.rules.resolutions import Answer
from ledger.rules.vocabulary import Action, Effect, FailureClass, LookupOutcome, Proof, Verification
from ledger.transitions.check import Check, record_check
from ledger.transitions.notice import Notice, record_notice
from recovery.report import report
from recovery.web.scenes import Stage, answered, at, decided, looked, opened, permitted, reported, taught, written

_LOOKUP: Mapping[str, Any] = {
    "by": "status",
    "http": {"method": "GET", "path": "/by-key/{operation_id}"},
    "found": "status == 200",
    "no_match": "status == 404",
    "authoritative": True,
    "sees": "all",
    "lag": "30s",
    "clean_reads": 2,
}
CONTRACTS: tuple[Mapping[str, Any], ...] = (
    {
        "contract": "invoices.send",
        "title": "Send an invoice",
        "effect": "write",
        "owner": "ledgerline",
        "identity": ["invoice"],
        "success": "status == 201",
        "receipt": {"id": "body.id", "url": "body.url"},
        "lookup": [_LOOKUP],
        "verify": {
            "http": {"method": "GET", "path": "/by-key/{operation_id}"},
            "expect": {"total": "body.total", "to": "body.to"},
        },
        "redact": ["bank"],
        "budgets": {"retries": 3},
        "deadline": "24h",
        "escalation": {"priority": "high", "sla": "8h"},
    },
    {
        "contract": "tickets.import",
        "title": "Import tickets in one call",
        "effect": "batch",
        "owner": "helpdesk",
        "identity": "none",
        "items": {"path": "payload.tickets", "key": "ref"},
        "budgets": {"retries": 0},
    },
)
_WAITED = {"phase": "await", "bytes_sent": 388, "request_bytes": 388}
_TIMED_OUT = decided(
    Action.RECONCILE,
    "TRANSPORT_TIMEOUT",
    "No answer came after the request had left, so the effect is unknown. The owner is asked.",
    after=timedelta(seconds=40),
)


def play_further(*, stage: Stage) -> dict[str, UUID]:
    """One operation in each of the states, by a name for it."""
    stage = taught(stage=stage, documents=CONTRACTS)
    made: dict[str, UUID] = {}
    for name, number in (
        ("verifying", 311),
        ("check_failed", 312),
        ("found_twice", 313),
        ("written_off", 314),
        ("awaits_write_off", 315),
        ("risk_accepted", 316),
        ("sent_at_risk", 317),
        ("reopened", 318),
        ("pending", 319),
        ("check_unavailable", 320),
    ):
        made[name] = _invoice(stage, number)
    _checked(made)
    _found_twice(made["found_twice"])
    for name in ("written_off", "awaits_write_off", "risk_accepted", "sent_at_risk", "reopened", "pending"):
        reported(id=made[name], after=_minutes(1), decision=_TIMED_OUT, detail=_WAITED)
    _not_told(stage, made)
    _reopened(stage, made["reopened"])
    _pending(made["pending"])
    made["in_part"] = _batch(stage, "imp-40", {"north": 201, "south": 402, "east": 201})
    made["items_open"] = _batch(stage, "imp-41", {f"row-{n}": 201 for n in range(1, 10)}, silent=("row-10",))
    return made


def _invoice(stage: Stage, number: int) -> UUID:
    return opened(
        stage=stage,
        tool="invoices.send",
        operation_id=f"invoice:send:{number}",
        payload={"invoice": f"inv-{number}", "to": "dana@example.org", "total": 4_900, "bank": "DE89 3704 0044 0532"},
        ago=_minutes(50),
        agent={"name": "billing-2", "run": "run-84", "step": "2"},
    )


def _checked(made: Mapping[str, UUID]) -> None:
    for name in ("verifying", "check_failed", "check_unavailable"):
        _seen(
            made[name],
            {"kind": "http", "status": 201, "body": {"id": f"in_{name}", "url": f"https://pay.example/{name}"}},
        )
        if name == "verifying":
            continue
        failed = name == "check_failed"
        escalate = decided(
            Action.ESCALATE,
            "NOT_AS_INTENDED" if failed else "CHECK_UNAVAILABLE",
            "It was done, but what is there is not what was meant. A person has to look before anything is written."
            if failed
            else "The outcome could not be checked within its budget. A person has to look at it.",
            failure=FailureClass.VERIFICATION,
            effect=Effect.APPLIED,
        )
        one = at(made[name], lambda found: found.now - _minutes(40))
        check = Check(
            source="ledgerline/verify",
            outcome=Verification.FAILED if failed else Verification.UNAVAILABLE,
            query=f"GET /by-key/{one.facts.operation_id}",
            principal="svc-recon",
            body='{"total": 49, "to": "dana@example.org"}' if failed else "",
            reason="" if failed else "timed out after 10 s",
            observed_at=one.now,
            detail={"differs": [["total", 4_900, 49]]} if failed else {"reasons": ["The check timed out after 10 s."]},
        )
        written(record_check(held=one, check=check, decision=escalate(one), at=one.now))


def _found_twice(id: UUID) -> None:
    reported(id=id, after=_minutes(1), decision=_TIMED_OUT, detail=_WAITED)
    looked(
        id=id,
        ago=_minutes(44),
        outcome=LookupOutcome.FOUND,
        reasons=("2 objects match: there may be a duplicate. A person must look.",),
        decision=decided(
            Action.ESCALATE,
            "CONFLICT",
            "Two objects at the owner match this operation. A person has to compare them.",
            failure=FailureClass.STATE_CONFLICT,
            after=_minutes(4),
        ),
        detail={
            "matches": 2,
            "found": [
                {"id": "in_7781", "url": "https://pay.example/invoices/in_7781"},
                {"id": "in_7782", "url": "https://pay.example/invoices/in_7782"},
            ],
        },
    )


def _not_told(stage: Stage, made: Mapping[str, UUID]) -> None:
    for username in ("otto", "olive"):
        answered(stage=stage, id=made["written_off"], username=username, answer=Answer.WRITTEN_OFF,
                 reason="The provider keeps no record of that week; the customer has been refunded by hand.")  # fmt: skip
        for name in ("risk_accepted", "sent_at_risk"):
            answered(stage=stage, id=made[name], username=username, answer=Answer.ACCEPT_DUPLICATE_RISK,
                     reason="A second invoice is voided in a minute; none at all costs us the quarter.")  # fmt: skip
    permitted(id=made["sent_at_risk"])
    answered(
        stage=stage,
        id=made["awaits_write_off"],
        username="otto",
        answer=Answer.WRITTEN_OFF,
        reason="Support says that nobody can tell any more.",
    )


def _reopened(stage: Stage, id: UUID) -> None:
    """Two people said that it had not happened; then the owner said, signed, that it had."""
    for username in ("otto", "olive"):
        answered(stage=stage, id=id, username=username, answer=Answer.NOT_APPLIED, reason="Not in the dashboard.")
    one = held(id=id)
    if one is None:
        raise LookupError(f"{id} is not on this stage")
    weighed = Weighed(
        weight=Weight.CONTRADICTS, effect=Effect.APPLIED, reason="It says that it happened; the outcome says otherwise."
    )
    reopen = decided(
        Action.ESCALATE,
        "OUTCOME_CONTRADICTED",
        "The owner says in a signed notice that it happened, against what was recorded. A person has to look at both.",
        failure=FailureClass.VERIFICATION,
        effect=Effect.APPLIED,
    )
    body = canonical({"type": "invoice.sent", "key": one.facts.operation_id}).decode()
    notice = Notice(
        owner=one.owner.name,
        message_id=f"msg_{uuid4().hex[:10]}",
        facts=NoticeFacts(effect=Effect.APPLIED, event_at=one.now),
        weighed=weighed,
        revision=None,
        digest=digest_of(body.encode()),
        body=body,
        received_at=one.now,
        detail={"reasons": [weighed.reason]},
    )
    written(record_notice(held=one, notice=notice, decision=reopen(one), at=one.now))


def _pending(id: UUID) -> None:
    looked(
        id=id,
        ago=_minutes(40),
        outcome=LookupOutcome.FOUND,
        effect=Effect.PENDING,
        proof=Proof.LOOKUP_MATCH,
        reasons=("Found by its exact key: the owner says pending.",),
        decision=decided(
            Action.WAIT,
            "PENDING",
            "The owner took it and has not finished. It is asked again.",
            failure=FailureClass.SUCCESS,
            effect=Effect.PENDING,
            after=_minutes(3),
        ),
    )


def _batch(stage: Stage, name: str, statuses: Mapping[str, int], *, silent: tuple[str, ...] = ()) -> UUID:
    """A batch whose answer tells these items apart and says nothing of the silent ones."""
    tickets = [{"ref": ref, "title": f"Ticket {ref}"} for ref in (*statuses, *silent)]
    id = opened(
        stage=stage,
        tool="tickets.import",
        operation_id=f"tickets:import:{name}",
        payload={"tickets": tickets},
        ago=_minutes(14),
    )
    results = [{"id": ref, "status": status} for ref, status in statuses.items()]
    _seen(id, {"kind": "http", "status": 200, "body": {"results": results}})
    return id


def _seen(id: UUID, observation: Mapping[str, Any]) -> None:
    """The harness reports what it saw a little after its permit; read and judged as any report is."""
    one = at(id, lambda found: found.facts.attempts[-1].opened_at + timedelta(seconds=2))
    report(
        held=replace(one, known_digest=False),
        attempt_id=one.facts.attempts[-1].attempt_id,
        observation=observation,
        digest=digest(observation),
        actor="token:support-agents",
    )


def _minutes(count: int) -> timedelta:
    return timedelta(minutes=count)
