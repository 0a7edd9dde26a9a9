"""Give a permit to dispatch, or say why not."""

from dataclasses import dataclass, replace
from typing import Any

from django.db import IntegrityError

from ledger.errors import constraint_of
from ledger.queries.facts import Held, holder_of
from ledger.queries.run import run_budget
from ledger.rules.contract import idempotency_key
from ledger.rules.decision import Decision
from ledger.rules.permits import Granted, may_dispatch
from ledger.rules.runs import RunBudget
from ledger.rules.stored import decision_from
from ledger.rules.vocabulary import Effect, State
from ledger.transitions.change import Change, write
from ledger.transitions.open import IDENTITY, MOST_TRIES, attempt_facts, attempt_row
from ledger.transitions.run import RUN_LAWS, spends


@dataclass(frozen=True, slots=True, kw_only=True)
class Permitted:
    """A permit that was given; its attempt is in flight from now on."""

    attempt_id: str
    idempotency_key: str | None
    terms: Granted
    held: Held
    """The operation as it stands with the attempt."""


def request_permit(*, held: Held, actor: str) -> Permitted | Decision | None:
    """Open the next attempt of an operation.

    Returns the permit; or the decision that refuses it, with nothing written; or None when the operation moved
    since `held` was read (read again and ask again).
    """
    run: RunBudget | None = None
    for _ in range(MOST_TRIES):
        terms = _terms(held, run)
        if isinstance(terms, Decision):
            return terms
        try:
            return _open_attempt(held, terms, actor=actor)
        except IntegrityError as error:
            law = constraint_of(error)
            # Somebody took the attempt or the identity in the same moment: read again, the rules have the sentence.
            if law in (IDENTITY, "one_attempt_in_flight"):
                return None
            if law not in RUN_LAWS or held.agent is None:
                raise
            run = run_budget(workspace_id=held.workspace_id, name=held.agent["run"])
    return None


def _terms(held: Held, run: RunBudget | None) -> Granted | Decision:
    holder = None
    if held.identity_digest is not None and not held.holds_identity and not held.distinct_intent:
        holder = holder_of(
            workspace_id=held.workspace_id,
            tool_id=held.tool_id,
            identity_digest=held.identity_digest,
            besides=held.id,
        )
    return may_dispatch(
        facts=held.facts,
        contract=held.contract,
        decision=decision_from(held.decision),
        holder=holder,
        now=held.now,
        run=run,
    )


def _open_attempt(held: Held, terms: Granted, *, actor: str) -> Permitted | None:
    facts, now = held.facts, held.now
    number = len(facts.attempts) + 1
    key = idempotency_key(held.contract, operation_id=facts.operation_id, revision=facts.revision)
    row = attempt_row(terms, number=number, revision=facts.revision, key=key, principal=facts.principal, now=now)
    takes_identity = held.identity_digest is not None and not held.distinct_intent
    effect = Effect.NONE if facts.is_read else Effect.UNKNOWN
    columns: dict[str, Any] = {
        "state": State.DISPATCHED,
        "effect": effect,
        "holds_identity": takes_identity,
        "retries": _used(held, "retries") + (1 if terms.kind == "retry" else 0),
        "first_sent_at": facts.first_sent_at or now,
        "clean_reads": 0,
        "absence_since": None,
        "decision": {},
    }
    change = Change(
        id=held.id,
        version=facts.version,
        at=now,
        verb="open_attempt",
        actor=actor,
        set=columns,
        next_check_at=terms.lapses_at,
        opens=row,
        spends=spends(agent=held.agent, workspace_id=held.workspace_id, terms=terms, now=now),
    )
    version = write(change)
    if version is None:
        return None
    return Permitted(
        attempt_id=f"attempt-{number:02d}",
        idempotency_key=key,
        terms=terms,
        held=replace(
            held,
            holds_identity=takes_identity,
            decision={},
            facts=replace(
                facts,
                version=version,
                state=State.DISPATCHED,
                effect=effect,
                attempts=(*facts.attempts, attempt_facts(row, digest=facts.payload_digest)),
                clean_reads=0,
                absence_since=None,
            ),
        ),
    )


def _used(held: Held, name: str) -> int:
    budget = held.facts.budgets.get(name)
    return int(budget.used) if budget else 0
