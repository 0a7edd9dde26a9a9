"""What time alone does to an operation: permits lapse, waits end, deadlines pass. Never a permission."""

from dataclasses import replace

from ledger.queries.facts import Held
from ledger.rules.decision import Decision
from ledger.rules.evidence import join_effects
from ledger.rules.facts import ItemFacts
from ledger.rules.items import join_items, settled
from ledger.rules.vocabulary import FailureClass, State
from ledger.transitions.change import Change, write
from ledger.transitions.items import changed_items, next_look
from ledger.transitions.settle import after, cause_of

NO_REPORT = "NO_REPORT"
"""The cause's code of an attempt whose permit ended without a word."""


def lapse_attempt(
    *, held: Held, decision: Decision, items: tuple[ItemFacts, ...] = (), actor: str = "worker"
) -> int | None:
    """Close an attempt whose permit ended without a report. Its effect stays unknown, never "failed".

    `items`: of a batch, every item with what is next for it.
    Returns the new version; None when the operation moved (a report came in the same moment).
    """
    facts = held.facts
    last = facts.last_attempt
    if facts.state is not State.DISPATCHED or last is None or last.closed_at is not None or held.now < last.lapses_at:
        return None
    effect = join_items(items) if items else join_effects(attempts=facts.attempts, absence_since=None, kind=facts.kind)
    columns, next_check_at = after(held=held, decision=decision, effect=effect, now=held.now)
    attempts = (*facts.attempts[:-1], replace(last, closed_at=held.now))
    if columns["state"] is State.SETTLED:
        items = settled(items, verification=columns.get("verification", facts.verification))
    cause = cause_of(failure_class=FailureClass.UNKNOWN_OUTCOME, code=NO_REPORT)
    change = Change(
        id=held.id,
        held=held,
        version=facts.version,
        at=held.now,
        verb="lapse_attempt",
        actor=actor,
        set={"cause": cause, **columns},
        next_check_at=next_look(
            replace(facts, attempts=attempts, items=items), state=columns["state"], next_check_at=next_check_at
        ),
        **changed_items(facts.items, items or facts.items),
        said={"attempt": last.attempt_id, "rule": decision.rule},
        closes={"number": last.number, "closed_at": held.now, "failure_class": decision.failure_class.value},
    )
    return write(change)


def end_wait(*, held: Held, actor: str = "worker", because: str = "") -> int | None:
    """A timed wait before a licensed repeat is over: the harness may ask for its permit again. `because`: why it is the
    harness's, where Ascertain would have sent it.

    Returns the new version; None when the operation moved or does not wait for this.
    """
    facts = held.facts
    if facts.state is not State.WAITING:
        return None
    change = Change(
        id=held.id,
        held=held,
        version=facts.version,
        at=held.now,
        verb="end_wait",
        actor=actor,
        set={"state": State.OPEN},
        said={"because": because} if because else {},
        next_check_at=next_look(facts, state=State.OPEN, next_check_at=facts.deadline_at),
    )
    return write(change)


def end_by_limit(*, held: Held, decision: Decision, actor: str = "worker") -> int | None:
    """A budget or the deadline ended: the decision settles what is known and escalates what is not.

    Returns the new version; None when the operation moved.
    """
    facts = held.facts
    columns, next_check_at = after(held=held, decision=decision, effect=facts.effect, now=held.now)
    items = facts.items
    if columns["state"] is State.SETTLED:
        items = settled(items, verification=columns.get("verification", facts.verification))
    change = Change(
        id=held.id,
        held=held,
        version=facts.version,
        at=held.now,
        verb="end_by_limit",
        actor=actor,
        set=columns,
        next_check_at=next_look(replace(facts, items=items), state=columns["state"], next_check_at=next_check_at),
        **changed_items(facts.items, items),
        said={"rule": decision.rule},
    )
    return write(change)
