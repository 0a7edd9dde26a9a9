"""Which one step comes next?

| occasion | asked when                                | by              |
| -------- | ----------------------------------------- | --------------- |
| ANSWER   | an attempt was reported                   | `decide`        |
| CHECK    | a check of the outcome was reported       | `decide`        |
| LOOKUP   | the owner was asked and its answer graded | `decide_lookup` |
|          | Ascertain itself checked the outcome      | `decide_check`  |
| LAPSE    | a permit ended with no report             | `decide_lapse`  |
| LIMIT    | a deadline or budget may have ended       | `decide_limits` |

`rule_table.py` holds the rules; here a case is put together, the first rule that holds is taken, and the decision is
told with its time. A repeat of a write needs a licence (`ledger.rules.licences`), which the decision names. Time
passing licenses nothing.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from ledger.rules.budgets import cap, next_poll, next_retry, spent
from ledger.rules.contract import Contract
from ledger.rules.decision import Decision
from ledger.rules.evidence import Grade
from ledger.rules.facts import Facts, LookupFacts
from ledger.rules.vocabulary import Action, Effect, FailureClass, LookupOutcome, Request
from recovery.judgement.case import Case, Occasion
from recovery.judgement.codes import Code, sentence
from recovery.judgement.reading import Reading
from recovery.judgement.rule_table import RULES_FOR, Rule

_NEW_DISPATCH: Final = frozenset({Action.RETRY, Action.REPAIR, Action.REFRESH, Action.REPLACE})
_UNKNOWN: Final = FailureClass.UNKNOWN_OUTCOME
_TIMED: Final = frozenset({Action.RECONCILE, Action.WAIT, Action.ESCALATE, Action.VERIFY})


def decide(
    *, reading: Reading, facts: Facts, effect: Effect, contract: Contract, now: datetime, roll: float = 0.5
) -> Decision:
    """The next step after a report.

    `facts` are those before this reading; `effect` is the operation's effect joined with it (`join_effects`). `roll`
    in [0, 1) spreads waits. For an operation of the ledger (version above 0) whose effect is unknown and whose
    contract names no lookup, the decision is to escalate; a stateless question (version 0) is told to reconcile.
    """
    return _decision(_answered(reading, facts, effect, contract, now, roll))


def rules_looked_at(
    *, reading: Reading, facts: Facts, effect: Effect, contract: Contract, now: datetime
) -> tuple[tuple[Rule, bool], ...]:
    """Every rule that could have decided after this report, in its order, with whether it holds. The first that does
    is the one that decided."""
    case = _answered(reading, facts, effect, contract, now, 0.5)
    return tuple((rule, rule.when(case)) for rule in RULES_FOR[case.occasion, case.standing])


def _answered(reading: Reading, facts: Facts, effect: Effect, contract: Contract, now: datetime, roll: float) -> Case:
    is_read = facts.is_read
    open_before = not is_read and effect is Effect.UNKNOWN and reading.effect is not Effect.UNKNOWN
    return Case(
        occasion=Occasion.ANSWER if reading.verification is None else Occasion.CHECK,
        facts=facts,
        effect=effect,
        is_read=is_read,
        contract=contract,
        now=now,
        roll=roll,
        failure_class=_UNKNOWN if open_before else reading.failure_class,
        code=Code.EARLIER_ATTEMPT_OPEN if open_before else reading.code,
        reading=reading,
        asked_wait=None if reading.retry_after_ms is None else timedelta(milliseconds=reading.retry_after_ms),
    )


def _looked_at(grade: Grade, facts: Facts, effect: Effect, contract: Contract, now: datetime, roll: float) -> Case:
    absent = effect is Effect.NONE
    return Case(
        occasion=Occasion.LOOKUP,
        facts=facts,
        effect=effect,
        is_read=facts.is_read,
        contract=contract,
        now=now,
        roll=roll,
        failure_class=FailureClass.TRANSIENT if absent else _UNKNOWN,
        code=Code.ABSENT if absent else Code.ABSENCE_NOT_PROVED,
        grade=grade,
    )


def decide_lookup(
    *,
    grade: Grade,
    lookup: LookupFacts,
    facts: Facts,
    effect: Effect,
    contract: Contract,
    now: datetime,
    roll: float = 0.5,
) -> Decision:
    """The next step after the owner was asked. `facts` are those before this lookup, without its poll counted;
    `effect` is the operation's effect with it."""
    decision = _decision(_looked_at(grade, _one_more(facts, "polls"), effect, contract, now, roll))
    if not grade.reasons or lookup.answer == LookupOutcome.FOUND:
        return decision
    return replace(decision, message=f"{decision.message} {grade.reasons[0]}")


def decide_notice(
    *, grade: Grade, facts: Facts, effect: Effect, contract: Contract, now: datetime, roll: float = 0.5
) -> Decision:
    """The next step after the owner told us something by itself: what a lookup with the same answer would come to.
    Nobody was asked, so no poll is counted."""
    return _decision(_looked_at(grade, facts, effect, contract, now, roll))


def decide_contradiction(*, facts: Facts, effect: Effect, says: str) -> Decision:
    """Late evidence contradicts the outcome of a settled operation: a person is asked. `says`: the sentence for people."""
    return Decision(
        recovery_action=Action.ESCALATE,
        failure_class=FailureClass.VERIFICATION,
        effect_status=effect,
        request=facts.request,
        rule="late.contradicts_outcome",
        code="OUTCOME_CONTRADICTED",
        hint="The outcome is in doubt. Do not repeat the call; an operator is asked.",
        message=says,
    )


def decide_check(
    *, reading: Reading, facts: Facts, effect: Effect, contract: Contract, now: datetime, roll: float = 0.5
) -> Decision:
    """The next step after Ascertain itself checked the outcome. `facts` are those before it, without it counted."""
    return _decision(_answered(reading, _one_more(facts, "checks"), effect, contract, now, roll))


def decide_lapse(*, facts: Facts, effect: Effect, contract: Contract, now: datetime, roll: float = 0.5) -> Decision:
    """The next step when a permit ended with no report: what was sent, if anything, is unknown; a read may repeat."""
    return _decision(
        Case(
            occasion=Occasion.LAPSE,
            facts=facts,
            effect=effect,
            is_read=facts.is_read,
            contract=contract,
            now=now,
            roll=roll,
            failure_class=FailureClass.TRANSIENT if facts.is_read else _UNKNOWN,
            code=Code.NO_REPORT,
        )
    )


def decide_limits(
    *, facts: Facts, effect: Effect, contract: Contract, now: datetime, roll: float = 0.5
) -> Decision | None:
    """What the end of a deadline or of the polls means; None while neither has ended, and once a person has been asked.

    With the effect unknown, pending or partial a person is asked once; lookups go on at the longest wait
    (`not_before`) until `reconcile_until`.
    """
    deadline = facts.deadline_at is not None and now >= facts.deadline_at
    open_effect = not facts.is_read and effect in (Effect.UNKNOWN, Effect.PENDING, Effect.PARTIAL)
    polls = open_effect and spent(facts, "polls")
    if not deadline and not polls:
        return None
    if open_effect and facts.escalated:
        # A person has been asked already; asking twice tells them nothing.
        return None
    return _decision(
        Case(
            occasion=Occasion.LIMIT,
            facts=facts,
            effect=effect,
            is_read=facts.is_read,
            contract=contract,
            now=now,
            roll=roll,
            failure_class=_UNKNOWN if open_effect else FailureClass.FATAL,
            code=Code.DEADLINE_PASSED if deadline else Code.POLLS_ENDED,
        )
    )


def decide_nobody_to_ask(
    *, facts: Facts, effect: Effect, contract: Contract, now: datetime, roll: float = 0.5
) -> Decision:
    """What it means that no way to learn the truth is left: the owner may have forgotten the key, or has said all that
    it will say under it."""
    return _decision(
        Case(
            occasion=Occasion.LIMIT,
            facts=facts,
            effect=effect,
            is_read=facts.is_read,
            contract=contract,
            now=now,
            roll=roll,
            failure_class=_UNKNOWN,
            code=Code.NOBODY_TO_ASK,
        )
    )


def _one_more(facts: Facts, name: str) -> Facts:
    budget = facts.budgets.get(name)
    if budget is None:
        return facts
    return replace(facts, budgets={**facts.budgets, name: replace(budget, used=budget.used + 1)})


def _decision(case: Case) -> Decision:
    rule = _first(case)
    reading = case.reading
    code = str(rule.code or (_ended(case) if rule.action is Action.ESCALATE else None) or case.code)
    # The contract's own sentence speaks of a refusal; where the step differs, ours is the one to follow.
    own_hint = reading.hint if reading is not None and case.nothing_happened and rule.code is None else None
    told = reading is not None and rule.action is not Action.DONE
    return Decision(
        recovery_action=rule.action,
        failure_class=rule.failure_class or case.failure_class,
        effect_status=Effect.NONE if case.is_read else case.effect,
        request=_request(case),
        rule=rule.name,
        code=code,
        hint=own_hint or rule.hint,
        message=f"{sentence(code)} {rule.says}",
        retry_after_ms=reading.retry_after_ms if reading is not None and told else None,
        not_before=_not_before(case, rule.action),
        field=reading.field if reading is not None and rule.action is Action.REPAIR else None,
        licence=case.licence if rule.action in _NEW_DISPATCH and not case.is_read else None,
        alternatives=reading.alternatives if reading is not None and case.nothing_happened else (),
    )


def _first(case: Case) -> Rule:
    for rule in RULES_FOR[case.occasion, case.standing]:
        if rule.when(case):
            return rule
    raise LookupError(f"no rule for {case.occasion} with {case.standing}")  # the last of each always holds


def _ended(case: Case) -> Code | None:
    """Which limit ended, where one did."""
    if case.past_deadline:
        return Code.DEADLINE_PASSED
    return Code.POLLS_ENDED if spent(case.facts, "polls") else None


def _request(case: Case) -> Request:
    if case.reading is not None:
        earlier = case.facts.request
        # One attempt that was refused does not make the operation refused while another may have been accepted.
        return Request.ACCEPTED if earlier is Request.ACCEPTED and not case.nothing_happened else case.reading.request
    if case.occasion is Occasion.LOOKUP and case.effect in (Effect.APPLIED, Effect.PENDING, Effect.PARTIAL):
        return Request.ACCEPTED
    if case.occasion is Occasion.LAPSE and not case.nothing_happened:
        return Request.ACCEPTED
    return case.facts.request


def _not_before(case: Case, action: Action) -> datetime | None:
    if action is Action.RETRY:
        at = next_retry(
            contract=case.contract, step=_used(case, "retries"), now=case.now, roll=case.roll, asked=case.asked_wait
        )
        return cap(at=at, now=case.now, deadline=case.facts.deadline_at)
    if action not in _TIMED:
        return case.now + case.asked_wait if case.asked_wait and action in _NEW_DISPATCH else None
    if action is Action.WAIT and case.owner_tells:
        return case.facts.deadline_at  # nothing of ours happens before it
    checks = case.effect is Effect.APPLIED and case.contract.verify is not None
    if action is Action.ESCALATE and not case.can_ask and not checks:
        return None
    at = next_poll(
        contract=case.contract,
        step=_used(case, "checks" if checks else "polls"),
        now=case.now,
        roll=case.roll,
        asked=case.asked_wait,
        not_before=case.grade.earliest_useful_at if case.grade is not None else None,
        slow=action is Action.ESCALATE,
    )
    until = case.facts.reconcile_until
    return None if action is Action.ESCALATE and until is not None and at >= until else at


def _used(case: Case, name: str) -> int:
    budget = case.facts.budgets.get(name)
    return int(budget.used) if budget is not None else 0
