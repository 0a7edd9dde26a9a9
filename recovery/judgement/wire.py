"""How is a decision written out, as JSON-ready values?

One shape for the HTTP API and the command. Without a ledger there is no operation, no evidence and no address to ask
again; a batch's items stand beside the decision, each with its own effect.
"""

from dataclasses import replace
from datetime import datetime
from typing import Any

from ledger.rules.decision import Decision
from ledger.rules.vocabulary import Action, Effect, Licence
from recovery.judgement.dialects import Dialect, for_agent, record
from recovery.judgement.reading import ItemReading, Reading
from recovery.judgement.stateless import Judgement


def written_decision(
    decision: Decision,
    *,
    operation_id: str,
    attempt_id: str | None,
    evidence_ref: str | None,
    ask_again: dict[str, Any] | None,
    ask_again_at: datetime | None,
    dialect: Dialect,
) -> dict[str, Any]:
    """A decision as the API and the command write it, with its attempt record and what the agent is told."""
    return {
        "recovery_action": decision.recovery_action.value,
        "failure_class": decision.failure_class.value,
        "effect_status": decision.effect_status.value,
        "request": decision.request.value,
        "retry_after_ms": decision.retry_after_ms,
        "not_before": _moment(decision.not_before),
        "code": decision.code,
        "field": decision.field,
        "hint": decision.hint,
        "message": decision.message,
        "rule": decision.rule,
        "licence": decision.licence.value if decision.licence is not None else None,
        "ask_again": ask_again,
        "alternatives": list(decision.alternatives),
        "retryable": decision.recovery_action is Action.RETRY,
        "record": record(decision, operation_id=operation_id, attempt_id=attempt_id, evidence_ref=evidence_ref),
        "for_agent": for_agent(
            decision,
            operation_id=operation_id,
            ask_again_at=ask_again_at,
            dialect=dialect,
            attempt_id=attempt_id,
            evidence_ref=evidence_ref,
        ),
    }


def while_ascertain_sends(decision: Decision) -> Decision:
    """A decision for a repeat that Ascertain itself sends, as the harness is told it: to wait, never to send as well."""
    return replace(
        decision,
        recovery_action=Action.WAIT,
        licence=None,
        retry_after_ms=None,
        message=f"{decision.message} Ascertain sends it itself.",
        hint="Do not repeat the call: Ascertain sends it again itself. Ask again for this operation when told.",
    )


def written_judgement(judgement: Judgement, *, dialect: Dialect = Dialect.FIVE_CLASS) -> dict[str, Any]:
    """The decision of a judgement without a ledger, and a batch's items beside it."""
    decision = judgement.decision
    told = written_decision(
        decision,
        operation_id="",
        attempt_id=None,
        evidence_ref=None,
        ask_again=_ask_again(decision),
        ask_again_at=decision.not_before,
        dialect=dialect,
    )
    return {**told, "items": [_item(item) for item in judgement.reading.items]}


def written_reading(reading: Reading) -> dict[str, Any]:
    """What was read and what was left unread, for people who want to see why."""
    return {
        "kind": reading.kind,
        "speaker": reading.speaker.value,
        "phase": reading.phase.value if reading.phase is not None else None,
        "failure_class": reading.failure_class.value,
        "effect": reading.effect.value,
        "proof": reading.proof.value if reading.proof is not None else None,
        "request": reading.request.value,
        "rule": reading.rule,
        "code": reading.code,
        "owner_code": reading.owner_code,
        "field": reading.field,
        "retry_after_ms": reading.retry_after_ms,
        "retry_after_raw": reading.retry_after_raw,
        "network_attempts": reading.network_attempts,
        "verification": reading.verification.value if reading.verification is not None else None,
        "receipt": dict(reading.receipt),
        "items": [_item(item) for item in reading.items],
        "quoted": list(reading.quoted),
        "read": list(reading.read),
        "unread": list(reading.unread),
        "violations": list(reading.violations),
    }


def _item(item: ItemReading) -> dict[str, Any]:
    proved_none = item.effect is Effect.NONE and item.proof is not None
    return {
        "key": item.key,
        "effect": item.effect.value,
        "failure_class": item.failure_class.value,
        "code": item.code,
        "field": item.field,
        "owner_code": item.owner_code,
        "licence": Licence.EFFECT_NONE_PROVED.value if proved_none else None,
    }


def _ask_again(decision: Decision) -> dict[str, Any] | None:
    if decision.recovery_action in (Action.STOP, Action.DONE) or decision.not_before is None:
        return None
    return {"at": _moment(decision.not_before)}


def _moment(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
