"""Record an intent, durably, before anything is sent; give the first permit in the same transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID

import orjson
from django.db import IntegrityError

from ledger.database import execute
from ledger.errors import LawBroken, constraint_of
from ledger.identifiers import new_id
from ledger.queries.facts import NOT_READ, Held
from ledger.queries.related_operations import SENT_IN_STEP, tried, tries_in_step
from ledger.queries.run import run_budget
from ledger.rules.agent_retries import Step, Tries, may_try_again, step_of
from ledger.rules.budgets import limits
from ledger.rules.contract import Contract, idempotency_key
from ledger.rules.decision import Decision
from ledger.rules.facts import AttemptFacts, Budget, Facts, ItemAttempt, ItemFacts
from ledger.rules.items import Carry
from ledger.rules.payload import digest, raw
from ledger.rules.permits import Granted, may_dispatch
from ledger.rules.runs import RunBudget
from ledger.rules.vocabulary import Effect, Licence, Request, Sender, State, Verification
from ledger.transitions.change import RUN_SPENT, Change, entry, stored_decision
from ledger.transitions.items import carried_items
from ledger.transitions.run import RUN_LAWS, spends

IDENTITY = "one_unsettled_operation_holds_an_identity"
MOST_TRIES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What a harness says it is about to do. The payload is canonical JSON already."""

    workspace_id: UUID
    token_id: UUID | None
    actor: str
    tool_id: UUID
    tool: str
    contract_id: UUID
    contract_number: int
    contract: Contract
    operation_id: str
    payload: bytes
    payload_digest: str
    identity_digest: str | None
    principal: str
    agent: Mapping[str, Any] | None
    trace_id: str | None
    deadline_at: datetime
    reconcile_until: datetime
    wants_permit: bool
    item_keys: tuple[str, ...] = ()
    """Of a batch: the keys of its items, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A new operation, and its first permit when one was asked for and could be given."""

    id: UUID
    facts: Facts
    permit: Granted | None
    idempotency_key: str | None
    refusal: Decision | None
    holds_identity: bool


def open_operation(*, intent: Intent, now: datetime) -> Opened | None:
    """Record a new operation. None when this operation_id exists in the workspace already: load it and compare.

    One statement, one durable transaction: operation, payload, revision 1, history row, schedule row and,
    where asked for and allowed, attempt-01. When another unsettled operation holds the same identity the intent
    is recorded all the same, without a permit, and `refusal` names the holder; likewise when the run's budget has ended,
    or its agent tried the same often enough in this step. Such an operation holds no identity.
    """
    holder: str | None = None
    run: RunBudget | None = None
    tries: Tries | None = None
    for _ in range(MOST_TRIES):
        may_hold = tries is None or may_try_again(tries=tries, contract=intent.contract) is None
        holds = intent.identity_digest is not None and holder is None and may_hold
        try:
            opened = _insert(intent=intent, now=now, holds_identity=holds, holder=holder, run=run, tries=tries)
        except IntegrityError as error:
            law = constraint_of(error)
            if law in RUN_LAWS and intent.agent is not None:
                run = run_budget(workspace_id=intent.workspace_id, name=intent.agent["run"])
                continue
            if law != IDENTITY or intent.identity_digest is None:
                raise
        else:
            if opened is not None or not holds or tries is not None:
                return opened
            # Recorded already; or a second try of its intent, for which the statement inserts nothing.
            tries = _tries(intent)
            if tries is None or tries.sent == 0:
                return None
            continue
        # Another operation holds the identity, or settled in this very moment; or it is this one, recorded just now.
        rows = execute(
            "SELECT operation_id FROM operation WHERE workspace_id = %s AND tool_id = %s AND identity_digest = %s AND holds_identity",
            [intent.workspace_id, intent.tool_id, raw(intent.identity_digest)],
        )
        holder = rows[0][0] if rows else None
    raise LawBroken(f"the identity of {intent.operation_id} was taken and released {MOST_TRIES} times in a row")


def _tries(intent: Intent) -> Tries | None:
    step = step_of(intent.agent)
    return tries_in_step(**_as_a_try(intent, step)) if step is not None else None


def _as_a_try(intent: Intent, step: Step) -> dict[str, Any]:
    return {
        "workspace_id": intent.workspace_id,
        "tool_id": intent.tool_id,
        "identity_digest": raw(intent.identity_digest) if intent.identity_digest else b"",
        "step": step,
        "besides": intent.operation_id,
    }


def _insert(
    *,
    intent: Intent,
    now: datetime,
    holds_identity: bool,
    holder: str | None,
    run: RunBudget | None,
    tries: Tries | None,
) -> Opened | None:
    id = new_id()
    fresh = _facts(intent, state=State.OPEN, attempts=())
    terms: Granted | Decision | None = None
    if intent.wants_permit:
        terms = may_dispatch(
            facts=fresh, contract=intent.contract, decision=None, holder=holder, now=now, run=run, tries=tries
        )
    permit = terms if isinstance(terms, Granted) else None
    refusal = terms if isinstance(terms, Decision) else None
    key = idempotency_key(intent.contract, operation_id=intent.operation_id, revision=1) if permit else None
    state = State.DISPATCHED if permit else State.OPEN
    row: dict[str, Any] = {
        "workspace_id": intent.workspace_id,
        "tool_id": intent.tool_id,
        "contract_id": intent.contract_id,
        "token_id": intent.token_id,
        "operation_id": intent.operation_id,
        "principal": intent.principal,
        "agent": orjson.dumps(intent.agent).decode() if intent.agent else None,
        "trace_id": intent.trace_id,
        "state": state.value,
        "request": Request.NOT_SENT.value,
        "effect": (Effect.UNKNOWN if permit and not fresh.is_read else Effect.NONE).value,
        "verification": (Verification.DUE if intent.contract.verify else Verification.NOT_REQUIRED).value,
        "decision": orjson.dumps(stored_decision(refusal) if refusal else {}).decode(),
        "payload_digest": raw(intent.payload_digest),
        "identity_digest": raw(intent.identity_digest) if intent.identity_digest else None,
        "holds_identity": holds_identity,
        "first_sent_at": now if permit else None,
        "deadline_at": intent.deadline_at,
        "reconcile_until": intent.reconcile_until,
    }
    attempt = (
        attempt_row(permit, number=1, revision=1, key=key, principal=intent.principal, now=now) if permit else None
    )
    original = new_id()
    change = Change(
        id=id,
        version=0,
        at=now,
        verb="open_operation",
        actor=intent.actor,
        set={
            "state": state,
            "effect": row["effect"],
            "request": row["request"],
            "verification": row["verification"],
            "revision": 1,
            "payload_digest": row["payload_digest"],
            "identity_digest": row["identity_digest"],
            "holds_identity": holds_identity,
            "decision": stored_decision(refusal) if refusal else {},
        },
        next_check_at=permit.lapses_at if permit else intent.deadline_at,
        said={
            "operation_id": intent.operation_id,
            "tool": intent.tool,
            "contract": str(intent.contract_id),
            **({"batch": batch_told(intent.item_keys)} if intent.item_keys else {}),
        },
        opens=attempt,
        carries=carried_items(_all_of(intent)) if attempt and intent.item_keys else (),
    )
    params = {
        **row,
        "id": id,
        "now": now,
        "original": original,
        "payload": intent.payload.decode(),
        "actor": intent.actor,
        "entry": entry(change),
        "next_check_at": change.next_check_at,
        **{f"attempt_{name}": value for name, value in (attempt or {}).items()},
    }
    spent = spends(agent=intent.agent, workspace_id=intent.workspace_id, terms=permit, now=now) if permit else None
    if spent is not None:
        params |= {f"spends_{name}": value for name, value in spent.items()}
    # Whether it is a second try is asked in the statement itself, so that a first one costs no round trip more.
    if intent.item_keys:
        params["item_keys"] = orjson.dumps(intent.item_keys).decode()
    step = step_of(intent.agent) if holds_identity and tries is None else None
    if step is not None:
        params |= tried(**_as_a_try(intent, step))
    rows = execute(
        _statement(
            with_permit=attempt is not None,
            in_run=spent is not None,
            first_try=step is not None,
            with_items=bool(intent.item_keys),
        ),
        params,
    )
    if not rows:
        return None
    attempts = (attempt_facts(attempt, digest=intent.payload_digest),) if attempt else ()
    return Opened(
        id=id,
        facts=_facts(intent, state=state, attempts=attempts),
        permit=permit,
        idempotency_key=key,
        refusal=refusal,
        holds_identity=holds_identity,
    )


def held_of(*, opened: Opened, intent: Intent, now: datetime) -> Held:
    """A new operation as `held_by_name` would read it back, without reading it."""
    facts = opened.facts
    limit = limits(intent.contract)
    return Held(
        id=opened.id,
        workspace_id=intent.workspace_id,
        tool_id=intent.tool_id,
        contract_id=intent.contract_id,
        contract=intent.contract,
        contract_label=f"{intent.tool}@{intent.contract_number}",
        facts=replace(facts, budgets={name: Budget(used=0, limit=most) for name, most in limit.items()}),
        now=now,
        decision=stored_decision(opened.refusal) if opened.refusal else {},
        agent=intent.agent,
        identity_digest=raw(intent.identity_digest) if intent.identity_digest else None,
        holds_identity=opened.holds_identity,
        distinct_intent=False,
        awaits_signature=None,
        known_digest=False,
        owner=NOT_READ,
        receipt={},
        created_at=now,
        changed_at=now,
        escalated_at=None,
        next_check_at=opened.permit.lapses_at if opened.permit else intent.deadline_at,
    )


def attempt_row(
    permit: Granted,
    *,
    number: int,
    revision: int,
    key: str | None,
    principal: str,
    now: datetime,
    sender: Sender = Sender.HARNESS,
) -> dict[str, Any]:
    """The columns of a new attempt: what was permitted, its effect unknown until somebody who may has spoken."""
    return {
        "number": number,
        "revision": revision,
        "kind": permit.kind,
        "repeats_a_write": permit.repeats_a_write,
        "licence": permit.licence.value if permit.licence else None,
        "principal": principal,
        "idempotency_key": key,
        "timeout_ms": permit.timeout_ms,
        "opened_at": now,
        "dispatch_by": permit.dispatch_by,
        "lapses_at": permit.lapses_at,
        "effect": Effect.UNKNOWN.value,
        "network_attempts": 0,
        "sender": sender.value,
    }


def attempt_facts(row: Mapping[str, Any], *, digest: str) -> AttemptFacts:
    """The same attempt as the rules see it."""
    return AttemptFacts(
        attempt_id=f"attempt-{row['number']:02d}",
        number=row["number"],
        revision=row["revision"],
        digest=digest,
        principal=row["principal"],
        idempotency_key=row["idempotency_key"],
        licence=Licence(row["licence"]) if row["licence"] else None,
        opened_at=row["opened_at"],
        dispatch_by=row["dispatch_by"],
        lapses_at=row["lapses_at"],
        closed_at=None,
        effect=Effect.UNKNOWN,
        network_attempts=0,
        kind=row["kind"],
        sender=Sender(row["sender"]),
    )


def batch_told(keys: Sequence[str]) -> dict[str, Any]:
    """What the first history row tells of a batch's items; the keys themselves stand in its payload."""
    return {"count": len(keys), "keys": digest(list(keys))}


def _all_of(intent: Intent) -> Carry:
    return Carry(licences={number: None for number, _ in enumerate(intent.item_keys, 1)}, same_request=True)


def _items(intent: Intent, effect: Effect, verification: Verification, *, sent: bool) -> tuple[ItemFacts, ...]:
    attempts = (ItemAttempt(attempt=1, effect=Effect.UNKNOWN),) if sent else ()
    return tuple(
        ItemFacts(number=number, key=key, effect=effect, verification=verification, attempts=attempts)
        for number, key in enumerate(intent.item_keys, 1)
    )


def _facts(intent: Intent, *, state: State, attempts: tuple[AttemptFacts, ...]) -> Facts:
    read = intent.contract.effect.value == "read"
    effect = Effect.UNKNOWN if attempts and not read else Effect.NONE
    verification = Verification.DUE if intent.contract.verify else Verification.NOT_REQUIRED
    return Facts(
        operation_id=intent.operation_id,
        tool=intent.tool,
        kind=intent.contract.effect,
        version=1,
        state=state,
        request=Request.NOT_SENT,
        effect=effect,
        verification=verification,
        outcome=None,
        revision=1,
        payload_digest=intent.payload_digest,
        principal=intent.principal,
        attempts=attempts,
        deadline_at=intent.deadline_at,
        reconcile_until=intent.reconcile_until,
        items=_items(intent, effect, verification, sent=bool(attempts)),
        carries=frozenset(range(1, len(intent.item_keys) + 1)),
    )


_COLUMNS = (
    "workspace_id", "tool_id", "contract_id", "token_id", "operation_id", "principal", "agent", "trace_id", "state",
    "request", "effect", "verification", "decision", "payload_digest", "identity_digest", "holds_identity",
    "first_sent_at", "deadline_at", "reconcile_until",
)  # fmt: skip
_ATTEMPT = (
    "number", "revision", "kind", "repeats_a_write", "licence", "principal", "idempotency_key", "timeout_ms",
    "opened_at", "dispatch_by", "lapses_at", "effect", "network_attempts", "sender",
)  # fmt: skip
_ZEROS = (
    "distinct_intent", "repairs", "retries", "polls", "replans", "network_attempts", "cost", "clean_reads", "checks",
)  # fmt: skip


@cache
def _statement(*, with_permit: bool, in_run: bool, first_try: bool, with_items: bool) -> str:
    values = f"%(id)s, 1, 1, %(now)s, %(now)s, {', '.join(f'%({name})s' for name in _COLUMNS)}, false, 0, 0, 0, 0, 0, 0, 0, 0"
    guard = f" WHERE NOT EXISTS (SELECT 1 FROM operation WHERE {SENT_IN_STEP})"  # noqa: S608 - names are ours
    parts = {
        "opened": (
            "INSERT INTO operation (id, version, revision, created_at, changed_at, "
            f"{', '.join(_COLUMNS)}, {', '.join(_ZEROS)}) "
            f"{f'SELECT {values}{guard}' if first_try else f'VALUES ({values})'} "
            "ON CONFLICT ON CONSTRAINT an_operation_id_is_one_operation DO NOTHING RETURNING id"
        ),
        "body": (
            "INSERT INTO original (id, operation, kind, body) SELECT %(original)s, id, 'payload', %(payload)s FROM opened"
        ),
        "revised": (
            "INSERT INTO revision (operation, number, digest, original, kind, reason, created_at) "
            "SELECT id, 1, %(payload_digest)s, %(original)s, 'intent', '', %(now)s FROM opened"
        ),
        "journaled": (
            "INSERT INTO journal (operation, seq, at, verb, actor, entry, hash) "
            "SELECT id, 1, %(now)s, 'open_operation', %(actor)s, %(entry)s, ''::bytea FROM opened"
        ),
        "scheduled": "INSERT INTO schedule (operation, next_check_at) SELECT id, %(next_check_at)s FROM opened",
    }
    if with_permit:
        parts["permitted"] = (
            f"INSERT INTO attempt (operation, {', '.join(_ATTEMPT)}) "  # noqa: S608
            f"SELECT id, {', '.join(f'%(attempt_{name})s' for name in _ATTEMPT)} FROM opened"
        )
    if with_items:
        keys = "opened, jsonb_array_elements_text(%(item_keys)s::jsonb) WITH ORDINALITY AS k(key, number)"
        parts["listed"] = (
            "INSERT INTO item (operation, number, key, effect, verification, code, decision, clean_reads) "  # noqa: S608
            f"SELECT opened.id, k.number, k.key, %(effect)s, %(verification)s, '', '{{}}', 0 FROM {keys}"
        )
        if with_permit:
            parts["carried"] = (
                "INSERT INTO item_attempt (operation, attempt, number, effect) "  # noqa: S608
                f"SELECT opened.id, 1, k.number, 'unknown' FROM {keys}"
            )
    if in_run:
        parts["spends"] = RUN_SPENT.format(source="opened")
    return "WITH " + ",\n".join(f"{name} AS ({sql})" for name, sql in parts.items()) + "\nSELECT id FROM opened"
