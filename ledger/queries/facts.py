"""What the rules need to know of one operation, in one round trip."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from ledger.database import execute
from ledger.queries.contracts import contract_by_id
from ledger.queries.items import HeldItems, items_of
from ledger.rules.budgets import limits
from ledger.rules.contract import Contract
from ledger.rules.facts import AttemptFacts, Budget, Facts
from ledger.rules.items import attempt_effect
from ledger.rules.payload import shown
from ledger.rules.vocabulary import (
    Effect,
    EffectKind,
    FailureClass,
    Guarantee,
    Licence,
    Outcome,
    Proof,
    Request,
    Sender,
    State,
    Verification,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerAddress:
    """The owner of an operation's tool, and where requests on its behalf may go."""

    id: UUID
    name: str
    base_url: str
    hosts: frozenset[str]
    private_hosts: frozenset[str]


NO_ITEMS = HeldItems(items=(), carries=frozenset())
NOT_READ = OwnerAddress(id=UUID(int=0), name="", base_url="", hosts=frozenset(), private_hosts=frozenset())
"""In an operation that was opened a moment ago and not read back: nobody is asked from such a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One operation as the ledger holds it: the facts, and what a transition needs beside them."""

    id: UUID
    workspace_id: UUID
    tool_id: UUID
    contract_id: UUID
    contract: Contract
    contract_label: str
    """`tickets.create@3`."""
    facts: Facts
    now: datetime
    """The database's clock when this was read."""
    decision: Mapping[str, Any]
    agent: Mapping[str, Any] | None
    identity_digest: bytes | None
    holds_identity: bool
    distinct_intent: bool
    awaits_signature: UUID | None
    known_digest: bool
    """The digest that was asked about is evidence already."""
    owner: OwnerAddress
    receipt: Mapping[str, Any]
    """The contract's receipt members, as far as the owner's answers have shown them."""
    created_at: datetime
    changed_at: datetime
    escalated_at: datetime | None
    next_check_at: datetime | None
    listened: bool = False
    """Somebody listens to operations that settle. Only then is an event written for each: hundreds of bytes, and a tenth
    of a report's time, that would serve nobody. Read here because one look into a small table costs least with the rest."""


COLUMNS = """
    o.id, o.workspace_id, o.tool_id, o.contract_id, t.name, cv.number, o.operation_id, o.version, o.state, o.request,
    o.effect, o.verification, o.outcome, o.revision, o.payload_digest, o.principal, o.clean_reads, o.absence_since,
    o.repairs, o.retries, o.polls, o.replans, o.network_attempts, o.cost, o.deadline_at, o.reconcile_until,
    o.first_sent_at, o.escalated_at, o.decision, o.agent, o.identity_digest, o.holds_identity, o.distinct_intent,
    o.awaits_signature_id, o.created_at, o.changed_at, ow.id, ow.name, ow.base_url,
    ow.hosts, ow.private_hosts, o.receipt, o.checks, s.next_check_at,
    (SELECT json_agg(json_build_array(a.number, a.revision, encode(r.digest, 'hex'), a.principal, a.idempotency_key,
        a.licence, a.opened_at, a.dispatch_by, a.lapses_at, a.closed_at, a.effect, a.proof, a.failure_class,
        a.network_attempts, a.kind, a.sender) ORDER BY a.number)
     FROM attempt a JOIN revision r ON r.operation = a.operation AND r.number = a.revision WHERE a.operation = o.id),
    EXISTS (SELECT 1 FROM destination d WHERE d.workspace_id = o.workspace_id AND d.disabled_at IS NULL
        AND d.kinds ?| ARRAY['operation.settled', 'operation.*', '*']),
    now()
"""
JOINS = """
    LEFT JOIN tool t ON t.id = o.tool_id LEFT JOIN owner ow ON ow.id = t.owner_id
    LEFT JOIN contract_version cv ON cv.id = o.contract_id LEFT JOIN schedule s ON s.operation = o.id
"""
"""Shared by the queries that load an operation with what the rules need."""


def held(*, id: UUID, lock: bool = False) -> Held | None:
    """One operation by its uuid. With `lock`, its row is held until the surrounding transaction ends."""
    rows = execute(
        f"SELECT {COLUMNS}, false FROM operation o {JOINS} WHERE o.id = %(id)s" + (" FOR UPDATE OF o" if lock else ""),  # noqa: S608
        {"id": id},
    )
    return from_row(rows[0]) if rows else None


def held_by_name(*, workspace_id: UUID, operation_id: str, attempt: int = 0, digest: bytes = b"") -> Held | None:
    """One operation by the harness's name for it, in one workspace; None looks alike for absent and for another's."""
    rows = execute(
        f"SELECT {COLUMNS}, EXISTS (SELECT 1 FROM evidence e WHERE e.operation = o.id AND e.attempt = %(attempt)s "  # noqa: S608
        f"AND e.digest = %(digest)s) FROM operation o {JOINS} "
        "WHERE o.workspace_id = %(workspace)s AND o.operation_id = %(name)s",
        {"workspace": workspace_id, "name": operation_id, "attempt": attempt, "digest": digest},
    )
    return from_row(rows[0]) if rows else None


def holder_of(*, workspace_id: UUID, tool_id: UUID, identity_digest: bytes, besides: UUID) -> str | None:
    """The operation_id that holds an identity now, if another than `besides` does."""
    rows = execute(
        "SELECT operation_id FROM operation WHERE workspace_id = %s AND tool_id = %s AND identity_digest = %s "
        "AND holds_identity AND id <> %s",
        [workspace_id, tool_id, identity_digest, besides],
    )
    return rows[0][0] if rows else None


def payload_of(*, id: UUID, revision: int) -> Any:
    """The payload body of a revision, or None when retention has destroyed it. For asking the owner, never for lists."""
    rows = execute(
        "SELECT body FROM original JOIN revision ON revision.original = original.id "
        "WHERE revision.operation = %s AND revision.number = %s",
        [id, revision],
    )
    return orjson.loads(rows[0][0]) if rows else None


def payloads_of(*, id: UUID) -> dict[int, Any]:
    """The payload body of every revision that is still kept, by its number, the first one first."""
    rows = execute(
        "SELECT revision.number, body FROM original JOIN revision ON revision.original = original.id "
        "WHERE revision.operation = %s ORDER BY revision.number",
        [id],
    )
    return {number: orjson.loads(body) for number, body in rows}


def from_row(row: tuple[Any, ...]) -> Held:
    """The value of one row selected with COLUMNS and one trailing `known digest` column."""
    (
        id, workspace_id, tool_id, contract_id, tool, number, operation_id, version, state, request,
        effect, verification, outcome, revision, payload_digest, principal, clean_reads, absence_since,
        repairs, retries, polls, replans, network_attempts, cost, deadline_at, reconcile_until,
        first_sent_at, escalated_at, decision, agent, identity_digest, holds_identity, distinct_intent,
        awaits_signature, created_at, changed_at, owner_id, owner_name, owner_url,
        owner_hosts, owner_private_hosts, receipt, checks, next_check_at,
        attempts, listened, now, known_digest,
    ) = row  # fmt: skip
    contract = contract_by_id(contract_id)
    used: dict[str, int | float] = {
        "repairs": repairs,
        "retries": retries,
        "polls": polls,
        "replans": replans,
        "network_attempts": network_attempts,
        "cost": float(cost),
        "checks": checks,
    }
    batch = items_of(id=id, revision=revision) if contract.effect is EffectKind.BATCH else NO_ITEMS
    return Held(
        id=id,
        workspace_id=workspace_id,
        tool_id=tool_id,
        contract_id=contract_id,
        contract=contract,
        contract_label=f"{tool}@{number}",
        facts=Facts(
            operation_id=operation_id,
            tool=tool,
            kind=contract.effect,
            version=version,
            state=State(state),
            request=Request(request),
            effect=Effect(effect),
            verification=Verification(verification),
            outcome=Outcome(outcome) if outcome else None,
            revision=revision,
            payload_digest=shown(payload_digest),
            principal=principal,
            attempts=tuple(_attempt(values, batch) for values in _listed(attempts)),
            clean_reads=clean_reads,
            absence_since=absence_since,
            budgets={name: Budget(used=used[name], limit=limit) for name, limit in limits(contract).items()},
            deadline_at=deadline_at,
            reconcile_until=reconcile_until,
            first_sent_at=first_sent_at,
            touched_since=contract.idempotency.guarantee is Guarantee.NATURAL
            and _touched_since(workspace_id, tool_id, identity_digest, created_at),
            escalated=escalated_at is not None,
            items=batch.items,
            carries=batch.carries,
        ),
        now=now,
        decision=_parsed(decision),
        agent=_parsed(agent) if agent else None,
        identity_digest=bytes(identity_digest) if identity_digest else None,
        holds_identity=holds_identity,
        distinct_intent=distinct_intent,
        awaits_signature=awaits_signature,
        known_digest=known_digest,
        owner=OwnerAddress(
            id=owner_id,
            name=owner_name,
            base_url=owner_url,
            hosts=frozenset(owner_hosts),
            private_hosts=frozenset(owner_private_hosts),
        ),
        receipt=_parsed(receipt) if receipt else {},
        created_at=created_at,
        changed_at=changed_at,
        escalated_at=escalated_at,
        next_check_at=next_check_at,
        listened=listened,
    )


def _touched_since(workspace_id: UUID, tool_id: UUID, identity_digest: bytes | None, created_at: datetime) -> bool:
    """Whether a later operation of the same identity was sent. Only repeats by natural idempotency ask (licences.py)."""
    if identity_digest is None:
        return False
    rows = execute(
        "SELECT EXISTS (SELECT 1 FROM operation WHERE workspace_id = %s AND tool_id = %s AND identity_digest = %s "
        "AND created_at > %s AND first_sent_at IS NOT NULL)",
        [workspace_id, tool_id, identity_digest, created_at],
    )
    return bool(rows[0][0])


def _listed(attempts: Any) -> list[list[Any]]:
    return _parsed(attempts) or []


def _parsed(value: Any) -> Any:
    return orjson.loads(value) if isinstance(value, str | bytes) else value


def _attempt(values: list[Any], batch: HeldItems) -> AttemptFacts:
    (
        number, revision, digest, principal, key, licence, opened, by, lapses, closed, effect, proof, failure, network,
        kind, sender,
    ) = values  # fmt: skip
    if batch.items:
        # Later words on single items are kept with the items; the attempt's own row has what its report said.
        effect, proof = attempt_effect(batch.items, number=number)
    return AttemptFacts(
        attempt_id=f"attempt-{number:02d}",
        number=number,
        revision=revision,
        digest=f"sha256:{digest}",
        principal=principal,
        idempotency_key=key,
        licence=Licence(licence) if licence else None,
        opened_at=datetime.fromisoformat(opened),
        dispatch_by=datetime.fromisoformat(by),
        lapses_at=datetime.fromisoformat(lapses),
        closed_at=datetime.fromisoformat(closed) if closed else None,
        effect=Effect(effect),
        proof=Proof(proof) if proof else None,
        failure_class=FailureClass(failure) if failure else None,
        network_attempts=network,
        kind=kind,
        sender=Sender(sender),
    )
