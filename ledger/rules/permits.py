"""May this operation be dispatched now, and if not, what should whoever asks do instead?

The first refusal that holds is the answer:

| refused because                                   | code                 | the harness should            |
| ------------------------------------------------- | -------------------- | ----------------------------- |
| it is settled                                     | ALREADY_SETTLED      | use the outcome               |
| an attempt is in flight                           | ATTEMPT_IN_FLIGHT    | wait for its report or lapse  |
| a worker asks for what only the harness sends     | THE_HARNESS_SENDS    | wait                          |
| the deadline has passed                           | DEADLINE_PASSED      | stop                          |
| another operation of the same intent is unsettled | POSSIBLE_DUPLICATE   | wait for that one             |
| its agent tried the same often enough in this step | DONE_IN_THIS_STEP, AGENT_RETRIES_ENDED | stop       |
| a person or an approver has it                    | (that decision)      | wait                          |
| the last answer asked for something else          | (that decision)      | do that                       |
| a wait has not ended                              | WAIT_NOT_OVER        | ask again then                |
| a budget has ended                                | …_BUDGET_ENDED       | stop                          |
| a repeat of a write has no licence, and no two people accepted the risk | (the refusal's code) | wait for reconciliation |
| a replay has none by its key                      | NO_KEY_LICENCE       | wait for reconciliation       |
| of a batch, no item may go again by itself        | (the refusal's code) | wait for reconciliation       |
| the run's time or its dispatches have ended       | RUN_DEADLINE_PASSED, RUN_DISPATCHES_BUDGET_ENDED | stop |
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from ledger.rules.agent_retries import Tries, may_try_again
from ledger.rules.contract import Contract
from ledger.rules.decision import Decision
from ledger.rules.facts import Facts
from ledger.rules.items import Carry, to_carry, to_recover
from ledger.rules.licences import Refusal, may_repeat
from ledger.rules.runs import RunBudget
from ledger.rules.vocabulary import Action, Effect, FailureClass, Licence, Outcome, Sender, State

SKEW = timedelta(seconds=2)
"""Added to a permit's end for the difference between two machines' idea of a second."""
WORKER_BEGINS_WITHIN = timedelta(seconds=5)
"""A worker sends as soon as it has its permit; one that has not begun by then has died or stands still."""

_ASKS_FOR_A_REPEAT = frozenset({Action.RETRY, Action.RECOVER_ITEMS, Action.RECONCILE, Action.WAIT})
_WAITS_FIRST = frozenset({Action.RETRY, Action.RECOVER_ITEMS})
_SENT_BY_A_WORKER = frozenset({State.WAITING, State.RECONCILING})
"""From where Ascertain sends: a licensed retry when its wait is over, and a replay when its turn has come."""
_HELD_BY_OTHERS = frozenset({State.BLOCKED, State.ESCALATED, State.VERIFYING})
"""An approver, an operator or a check has it; a first dispatch waits for them as a repeat does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """Who asks for a permit, and for what."""

    sender: Sender = Sender.HARNESS
    replay: bool = False
    """It is sent to learn the truth: the same request with the same key. It spends a poll in place of a retry."""
    at_most: timedelta | None = None
    """How long the sender can wait for the answer; None: as long as the contract says."""


A_HARNESS = Asker()


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """A dispatch that is allowed."""

    kind: str
    """`dispatch` for a revision's first, `retry` for a repeat, `replay` for one that is to learn the truth."""
    licence: Licence | None
    repeats_a_write: bool
    dispatch_by: datetime
    timeout_ms: int
    lapses_at: datetime
    """The attempt's possible end: dispatch_by + timeout + skew."""
    carry: Carry | None = None
    """Of a batch: the items that it carries."""


def may_dispatch(
    *,
    facts: Facts,
    contract: Contract,
    decision: Decision | None,
    holder: str | None,
    now: datetime,
    run: RunBudget | None = None,
    tries: Tries | None = None,
    asker: Asker = A_HARNESS,
) -> Granted | Decision:
    """A permit's terms, or the decision that says why there is none.

    `decision` is the operation's current one; `holder` names another operation that holds the same identity; `run` is
    the budget of the agent's run, where that is registered; `tries` are the other operations of this intent in the
    same step, where an operation is about to be sent for the first time and there may be some.
    """
    refusal = _refused_outright(
        facts=facts, contract=contract, decision=decision, holder=holder, tries=tries, asker=asker, now=now
    )
    if refusal is not None:
        return refusal
    repeats = bool(facts.attempts)
    # A revision's first dispatch repeats the write as well and needs a licence, but it spends no retry.
    retries = any(attempt.revision == facts.revision for attempt in facts.attempts) and not asker.replay
    licence: Licence | None = None
    carry: Carry | None = None
    if repeats:
        if (refusal := _refused_repeat(facts=facts, decision=decision, retries=retries, now=now)) is not None:
            return refusal
        if not facts.is_read and not facts.items:
            allowed = may_repeat(facts=facts, contract=contract, now=now)
            if isinstance(allowed, Refusal):
                if not _risk_accepted(facts, decision, asker):
                    return _refuse(facts, now, allowed.code, allowed.sentence, action=_what_instead(facts))
                allowed = Licence.ACCEPTED_DUPLICATE_RISK
            licence = allowed
    if facts.items:
        carried = to_carry(facts=facts, contract=contract, now=now)
        if isinstance(carried, Refusal):
            return _refuse(facts, now, carried.code, carried.sentence, action=_what_instead(facts))
        carry, licence = carried, carried.licence
    if asker.replay and licence is not Licence.KEY_IN_WINDOW:
        return _refuse(
            facts,
            now,
            "NO_KEY_LICENCE",
            "A replay relies on the owner's memory of the key, and on nothing else.",
            action=_what_instead(facts),
        )
    if run is not None and (refusal := _refused_by_run(facts=facts, run=run, now=now)) is not None:
        return refusal
    ends = facts.deadline_at or now + contract.deadline
    if run is not None and run.deadline_at is not None:
        ends = min(ends, run.deadline_at)
    within = contract.dispatch_within
    if asker.sender is Sender.WORKER:
        within = min(within, WORKER_BEGINS_WITHIN)
    dispatch_by = min(now + within, ends)
    timeout = min(contract.timeout, ends - now, asker.at_most or contract.timeout)
    return Granted(
        kind="replay" if asker.replay else "retry" if retries else "dispatch",
        licence=licence,
        repeats_a_write=repeats and not facts.is_read,
        dispatch_by=dispatch_by,
        timeout_ms=max(int(timeout.total_seconds() * 1000), 1),
        lapses_at=dispatch_by + timeout + SKEW,
        carry=carry,
    )


def _refused_outright(
    *,
    facts: Facts,
    contract: Contract,
    decision: Decision | None,
    holder: str | None,
    tries: Tries | None,
    asker: Asker,
    now: datetime,
) -> Decision | None:
    if facts.state is State.SETTLED:
        done = facts.outcome in (Outcome.APPLIED, Outcome.READ)
        return _refuse(
            facts,
            now,
            "ALREADY_SETTLED",
            f"The operation is settled as {facts.outcome}; it is not sent again.",
            action=Action.DONE if done else Action.STOP,
            failure=FailureClass.SUCCESS if done else None,
            decision=decision,
        )
    if facts.state is State.DISPATCHED or any(attempt.closed_at is None for attempt in facts.attempts):
        last = facts.last_attempt
        return _refuse(
            facts,
            now,
            "ATTEMPT_IN_FLIGHT",
            "An attempt is already in flight. Report what it saw, or wait until its permit lapses.",
            action=Action.WAIT,
            not_before=last.lapses_at if last else None,
        )
    if asker.sender is Sender.WORKER and (not facts.attempts or facts.state not in _SENT_BY_A_WORKER):
        return _refuse(
            facts,
            now,
            "THE_HARNESS_SENDS",
            "Only the harness that began the operation sends it now; Ascertain sends licensed repeats, never a first.",
            action=Action.WAIT,
        )
    if facts.deadline_at is not None and now >= facts.deadline_at:
        return _refuse(
            facts,
            now,
            "DEADLINE_PASSED",
            "The operation's deadline has passed; nothing more is sent for it.",
            action=Action.STOP if facts.effect in (Effect.NONE, Effect.APPLIED) else Action.ESCALATE,
        )
    if holder is not None:
        return replace(
            _refuse(
                facts,
                now,
                "POSSIBLE_DUPLICATE",
                f"The same intent is unsettled as {holder}. Wait until that one settles, "
                "or ask an operator to record that this is a distinct intent.",
                action=Action.WAIT,
                failure=FailureClass.BUSINESS_RULE,
            ),
            alternatives=(holder,),
        )
    if tries is not None and (no := may_try_again(tries=tries, contract=contract)) is not None:
        refusal = _refuse(facts, now, no.code, no.sentence, action=Action.STOP, failure=FailureClass.BUSINESS_RULE)
        return replace(refusal, alternatives=(tries.done,)) if tries.done is not None else refusal
    if decision is not None and facts.state in _HELD_BY_OTHERS:
        return decision
    return None


def _refused_repeat(*, facts: Facts, decision: Decision | None, retries: bool, now: datetime) -> Decision | None:
    if decision is not None:
        if decision.recovery_action not in _ASKS_FOR_A_REPEAT:
            return decision
        if decision.recovery_action in _WAITS_FIRST and decision.not_before and now < decision.not_before:
            return replace(
                _refuse(
                    facts,
                    now,
                    "WAIT_NOT_OVER",
                    "The wait before the next attempt is not over.",
                    action=Action.WAIT,
                    failure=decision.failure_class,
                    not_before=decision.not_before,
                ),
                retry_after_ms=max(int((decision.not_before - now).total_seconds() * 1000), 1),
            )
    for name in ("retries", "network_attempts") if retries else ("network_attempts",):
        budget = facts.budgets.get(name)
        if budget is not None and budget.left <= 0:
            return _refuse(
                facts,
                now,
                f"{name.upper()}_BUDGET_ENDED",
                f"The budget of {budget.limit} {name.replace('_', ' ')} is used up.",
                action=Action.STOP if facts.is_read or facts.effect is Effect.NONE else Action.ESCALATE,
            )
    return None


def _risk_accepted(facts: Facts, decision: Decision | None, asker: Asker) -> bool:
    """Whether two people's decision stands that this may be sent once more though it may have happened. It is the
    harness's to act on, and never a way to learn the truth."""
    return (
        decision is not None
        and decision.licence is Licence.ACCEPTED_DUPLICATE_RISK
        and facts.state is State.OPEN
        and facts.effect in (Effect.UNKNOWN, Effect.PENDING)
        and asker.sender is Sender.HARNESS
        and not asker.replay
    )


def _refused_by_run(*, facts: Facts, run: RunBudget, now: datetime) -> Decision | None:
    action = Action.STOP if facts.is_read or facts.effect in (Effect.NONE, Effect.APPLIED) else Action.ESCALATE
    if run.over(now=now):
        return _refuse(
            facts, now, "RUN_DEADLINE_PASSED", "The run's time has ended; nothing more is sent for it.", action=action
        )
    if run.spent:
        return _refuse(
            facts,
            now,
            "RUN_DISPATCHES_BUDGET_ENDED",
            "The run has used up its dispatches; nothing more is sent for it.",
            action=action,
        )
    return None


def _what_instead(facts: Facts) -> Action:
    if to_recover(facts.items):
        return Action.RECOVER_ITEMS
    if facts.effect in (Effect.NONE, Effect.APPLIED):
        return Action.STOP
    return Action.WAIT if facts.effect is Effect.PENDING else Action.RECONCILE


def _refuse(
    facts: Facts,
    now: datetime,
    code: str,
    sentence: str,
    *,
    action: Action,
    failure: FailureClass | None = None,
    not_before: datetime | None = None,
    decision: Decision | None = None,
) -> Decision:
    if failure is None:
        known = decision.failure_class if decision else None
        failure = known or (
            FailureClass.FATAL if facts.effect in (Effect.NONE, Effect.APPLIED) else FailureClass.UNKNOWN_OUTCOME
        )
    return Decision(
        recovery_action=action,
        failure_class=failure,
        effect_status=facts.effect,
        request=facts.request,
        rule=f"permit.{code.lower()}",
        code=code,
        hint=sentence,
        message=sentence,
        not_before=not_before if not_before and not_before > now else None,
    )
