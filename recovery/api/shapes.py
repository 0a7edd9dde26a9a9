"""How an operation, a permit and a decision look on the wire."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from ledger.queries.facts import Held
from ledger.queries.operations import EvidenceRow, ListedOperation
from ledger.rules.contract import dispatch_headers
from ledger.rules.decision import Decision
from ledger.rules.facts import AttemptFacts, Facts, ItemFacts
from ledger.rules.permits import Granted
from ledger.rules.senders import REPEATS, sender_of
from ledger.rules.stored import decision_from
from ledger.rules.vocabulary import Action, Sender, State
from recovery.api.envelope import rfc3339
from recovery.judgement.dialects import Dialect
from recovery.judgement.wire import while_ascertain_sends, written_decision

WAIT_SECONDS = 30


def operation(
    held: Held,
    *,
    dialect: Dialect,
    evidence: Sequence[EvidenceRow] = (),
    permit: dict[str, Any] | None = None,
    result: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The operation data that callers may rely on. `result` is what a read brought (`read_results.result_of`)."""
    facts = held.facts
    return {
        "operation_id": facts.operation_id,
        "id": str(held.id),
        "tool": facts.tool,
        "contract": held.contract_label,
        "version": facts.version,
        "state": facts.state,
        "request": facts.request,
        "effect": facts.effect,
        "verification": facts.verification,
        "outcome": facts.outcome,
        "revision": facts.revision,
        "payload_digest": facts.payload_digest,
        "principal": facts.principal,
        "budgets": {name: {"used": budget.used, "limit": budget.limit} for name, budget in facts.budgets.items()},
        "created_at": rfc3339(held.created_at),
        "changed_at": rfc3339(held.changed_at),
        "deadline_at": rfc3339(facts.deadline_at),
        "attempts": [_attempt(attempt) for attempt in facts.attempts],
        "items": [_item(item, evidence) for item in facts.items],
        "approval": None,
        "result": result,
        "evidence": [_evidence(row) for row in evidence],
        "permit": permit,
        "decision": decision(decision_from(held.decision), held=held, dialect=dialect),
    }


def listed(row: ListedOperation) -> dict[str, Any]:
    """An operation as a list shows it."""
    return {
        "operation_id": row.operation_id,
        "id": str(row.id),
        "tool": row.tool,
        "contract": row.contract,
        "version": row.version,
        "state": row.state,
        "request": row.request,
        "effect": row.effect,
        "verification": row.verification,
        "outcome": row.outcome,
        "created_at": rfc3339(row.created_at),
        "changed_at": rfc3339(row.changed_at),
        "deadline_at": rfc3339(row.deadline_at),
    }


def permit(terms: Granted, *, held: Held, attempt_id: str, key: str | None, payload: Any = None) -> dict[str, Any]:
    """A permit to dispatch: which attempt, with which headers, until when; of a batch, which items. `payload` is what
    to send where only a part of the batch is sent again."""
    attempt = held.facts.attempts[-1]
    carried = terms.carry.licences if terms.carry is not None else {}
    batch = {"items": [item.key for item in held.facts.items if item.number in carried]} if carried else {}
    if payload is not None:
        batch["payload"] = payload
    return {
        "attempt_id": attempt_id,
        "idempotency_key": key,
        "headers": dispatch_headers(held.contract, key),
        "opened_at": rfc3339(attempt.opened_at),
        "dispatch_by": rfc3339(terms.dispatch_by),
        "timeout_ms": terms.timeout_ms,
        "lapses_at": rfc3339(terms.lapses_at),
        "licence": terms.licence,
        **batch,
    }


def decision(told: Decision | None, *, held: Held, dialect: Dialect) -> dict[str, Any] | None:
    """A decision, with its attempt record and what the agent is told in the dialect asked for."""
    if told is None:
        return None
    facts = held.facts
    if facts.state is State.WAITING and told.recovery_action in REPEATS:
        by = sender_of(facts=facts, contract=held.contract, decision=told)
        told = while_ascertain_sends(told) if by is Sender.WORKER else told
    at = told.not_before or held.next_check_at
    attempt = facts.last_attempt
    return written_decision(
        told,
        operation_id=facts.operation_id,
        attempt_id=attempt.attempt_id if attempt else None,
        evidence_ref=f"operations/{held.id}",
        ask_again=_ask_again(told, facts, at),
        ask_again_at=at,
        dialect=dialect,
    )


def _ask_again(told: Decision, facts: Facts, at: datetime | None) -> dict[str, Any] | None:
    if facts.state is State.SETTLED or told.recovery_action in (Action.STOP, Action.DONE):
        return None
    return {"at": rfc3339(at), "url": f"/api/v1/operations/{facts.operation_id}?wait={WAIT_SECONDS}"}


def _attempt(attempt: AttemptFacts) -> dict[str, Any]:
    return {
        "attempt_id": attempt.attempt_id,
        "kind": attempt.kind,
        "sender": attempt.sender,
        "revision": attempt.revision,
        "licence": attempt.licence,
        "effect": attempt.effect,
        "opened_at": rfc3339(attempt.opened_at),
        "dispatch_by": rfc3339(attempt.dispatch_by),
        "lapses_at": rfc3339(attempt.lapses_at),
        "closed_at": rfc3339(attempt.closed_at),
        "failure_class": attempt.failure_class,
    }


def _item(item: ItemFacts, evidence: Sequence[EvidenceRow]) -> dict[str, Any]:
    carried = {each.attempt for each in item.attempts}
    return {
        "key": item.key,
        "effect": item.effect,
        "verification": item.verification,
        "outcome": item.outcome,
        "licence": item.licence,
        "decision": _item_decision(item.decision),
        "attempts": [f"attempt-{number:02d}" for number in sorted(carried)],
        "evidence": [
            row.evidence_id for row in evidence if row.attempt in carried or item.key in row.detail.get("keys", ())
        ],
    }


def _item_decision(told: Decision | None) -> dict[str, Any] | None:
    """What is next for an item. What the agent is told is told once, of the operation: there may be thousands of items."""
    if told is None:
        return None
    return {
        "recovery_action": told.recovery_action,
        "failure_class": told.failure_class,
        "effect_status": told.effect_status,
        "retry_after_ms": told.retry_after_ms,
        "not_before": rfc3339(told.not_before),
        "code": told.code,
        "field": told.field,
        "hint": told.hint,
        "rule": told.rule,
        "licence": told.licence,
        "alternatives": list(told.alternatives),
        "retryable": told.recovery_action is Action.RETRY,
    }


def _evidence(row: EvidenceRow) -> dict[str, Any]:
    return {
        "evidence_id": row.evidence_id,
        "source": row.source,
        "speaker": row.speaker,
        "outcome": row.outcome,
        "effect": row.effect,
        "proof": row.proof,
        "revision": row.revision,
        "digest": row.digest,
        "query": row.query,
        "principal": row.principal,
        "event_at": rfc3339(row.event_at),
        "observed_at": rfc3339(row.observed_at),
        "coverage": row.coverage or None,
        "reasons": row.detail.get("reasons", []),
        "ref": str(row.original) if row.original else None,
    }
