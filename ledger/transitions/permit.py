"""Give a permit to dispatch, or say why not."""

from dataclasses import dataclass, replace
from typing import Any

from django.db import IntegrityError

from ledger.errors import constraint_of
from ledger.queries.facts import Held, holder_of, payload_of
from ledger.queries.related_operations import tries_in_step
from ledger.queries.run import run_budget
from ledger.rules.agent_retries import Tries, step_of
from ledger.rules.contract import idempotency_key
from ledger.rules.decision import Decision
from ledger.rules.facts import Facts
from ledger.rules.items import Carry, looks_next, sent_again
from ledger.rules.payload import shown
from ledger.rules.permits import A_HARNESS, Asker, Granted, may_dispatch
from ledger.rules.runs import RunBudget
from ledger.rules.stored import decision_from
from ledger.rules.vocabulary import Action, Effect, FailureClass, Sender, State
from ledger.transitions.change import Change, write
from ledger.transitions.items import RecoveryRevision, carried_items, changed_items, recovery_revision, sooner
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
    payload: Any = None
    """Of a batch that is sent in part: what to send, which is not what the harness began with."""
    items: tuple[str, ...] = ()
    """Of a batch: the keys of the items that the attempt carries."""


def request_permit(*, held: Held, actor: str, asker: Asker = A_HARNESS) -> Permitted | Decision | None:
    """Open the next attempt of an operation.

    Returns the permit; or the decision that refuses it, with nothing written; or None when the operation moved
    since `held` was read (read again and ask again).
    """
    run: RunBudget | None = None
    for _ in range(MOST_TRIES):
        terms = _terms(held, run, asker)
        if isinstance(terms, Decision):
            return terms
        try:
            return _open_attempt(held, terms, actor=actor, sender=asker.sender)
        except IntegrityError as error:
            law = constraint_of(error)
            # Somebody took the attempt or the identity in the same moment: read again, the rules have the sentence.
            if law in (IDENTITY, "one_attempt_in_flight"):
                return None
            if law not in RUN_LAWS or held.agent is None:
                raise
            run = run_budget(workspace_id=held.workspace_id, name=held.agent["run"])
    return None


def _terms(held: Held, run: RunBudget | None, asker: Asker) -> Granted | Decision:
    holder: str | None = None
    tries: Tries | None = None
    if held.identity_digest is not None and not held.holds_identity and not held.distinct_intent:
        holder = holder_of(
            workspace_id=held.workspace_id,
            tool_id=held.tool_id,
            identity_digest=held.identity_digest,
            besides=held.id,
        )
        step = step_of(held.agent)
        if holder is None and step is not None and not held.facts.attempts:
            tries = tries_in_step(
                workspace_id=held.workspace_id,
                tool_id=held.tool_id,
                identity_digest=held.identity_digest,
                step=step,
                besides=held.facts.operation_id,
            )
    return may_dispatch(
        facts=held.facts,
        contract=held.contract,
        decision=decision_from(held.decision),
        holder=holder,
        now=held.now,
        run=run,
        tries=tries,
        asker=asker,
    )


def _open_attempt(held: Held, terms: Granted, *, actor: str, sender: Sender) -> Permitted | Decision | None:
    facts, now = held.facts, held.now
    number = len(facts.attempts) + 1
    revised: RecoveryRevision | None = None
    if terms.carry is not None and not terms.carry.same_request:
        revised = recovery_revision(held=held, carry=terms.carry, now=now)
        if revised is None:
            return _nothing_to_send(facts)
        held, facts = _at(held, revised, terms.carry)
    key = idempotency_key(held.contract, operation_id=facts.operation_id, revision=facts.revision)
    row = attempt_row(
        terms, number=number, revision=facts.revision, key=key, principal=facts.principal, now=now, sender=sender
    )
    takes_identity = held.identity_digest is not None and not held.distinct_intent
    effect = Effect.NONE if facts.is_read else Effect.UNKNOWN
    columns: dict[str, Any] = {
        "state": State.DISPATCHED,
        "effect": effect,
        "holds_identity": takes_identity,
        "retries": _used(held, "retries") + (1 if terms.kind == "retry" else 0),
        "polls": _used(held, "polls") + (1 if terms.kind == "replay" else 0),
        "first_sent_at": facts.first_sent_at or now,
        "clean_reads": 0,
        "absence_since": None,
        "decision": {},
    }
    items = facts.items
    if terms.carry is not None:
        licences = terms.carry.licences
        items = tuple(
            sent_again(item, attempt=number, licence=licences[item.number]) if item.number in licences else item
            for item in items
        )
    if revised is not None:
        columns |= {"revision": revised.number, "payload_digest": revised.digest, "first_sent_at": now}
    sent = replace(
        facts,
        state=State.DISPATCHED,
        effect=effect,
        attempts=(*facts.attempts, attempt_facts(row, digest=facts.payload_digest)),
        clean_reads=0,
        absence_since=None,
        items=items,
    )
    change = Change(
        id=held.id,
        version=facts.version,
        at=now,
        verb="open_attempt",
        actor=actor,
        set=columns,
        next_check_at=sooner(terms.lapses_at, looks_next(sent)),
        opens=row,
        revision=revised.row if revised is not None else None,
        originals=(revised.original,) if revised is not None else (),
        items=changed_items(facts.items, items)["items"],
        carries=carried_items(terms.carry) if terms.carry is not None else (),
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
            facts=replace(sent, version=version),
        ),
        payload=_payload(held, revised) if facts.revision > 1 and items else None,
        items=tuple(item.key for item in items if terms.carry is not None and item.number in terms.carry.licences),
    )


def _at(held: Held, revised: RecoveryRevision, carry: Carry) -> tuple[Held, Facts]:
    """The operation as it will stand at its new revision."""
    facts = replace(
        held.facts,
        revision=revised.number,
        payload_digest=shown(revised.digest),
        carries=frozenset(carry.licences),
        first_sent_at=None,
    )
    return replace(held, facts=facts), facts


def _payload(held: Held, revised: RecoveryRevision | None) -> Any:
    return revised.payload if revised is not None else payload_of(id=held.id, revision=held.facts.revision)


def _nothing_to_send(facts: Facts) -> Decision:
    sentence = "The payload of this operation is no longer kept, so its items cannot be put into a request again."
    return Decision(
        recovery_action=Action.STOP if facts.effect in (Effect.NONE, Effect.APPLIED) else Action.ESCALATE,
        failure_class=FailureClass.FATAL,
        effect_status=facts.effect,
        request=facts.request,
        rule="permit.payload_gone",
        code="PAYLOAD_GONE",
        hint=sentence,
        message=sentence,
    )


def _used(held: Held, name: str) -> int:
    budget = held.facts.budgets.get(name)
    return int(budget.used) if budget else 0
