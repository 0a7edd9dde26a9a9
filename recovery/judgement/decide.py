"""Which one step comes next, and which rule says so?

`RULES` is the whole answer: of the rules of one occasion the first that holds decides. A rule has a name, the case in
which it holds, its action, the sentence for people, the advice for the agent, and the section that it comes from.

| occasion | asked when                                      | by               |
| -------- | ----------------------------------------------- | ---------------- |
| ANSWER   | an attempt was reported                         | `decide`         |
| LOOKUP   | the owner was asked and its answer graded       | `decide_lookup`  |
| LAPSE    | a permit ended with no report                   | `decide_lapse`   |
| LIMIT    | a deadline or budget may have ended             | `decide_limits`  |

A repeat of a write needs a licence (`ledger.rules.licences`); the decision names it. Time passing licenses nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from types import MappingProxyType
from typing import Final

from ledger.rules.attempts import covered
from ledger.rules.budgets import cap, next_poll, next_retry, spent
from ledger.rules.contract import Contract
from ledger.rules.decision import Decision
from ledger.rules.evidence import Grade
from ledger.rules.facts import Facts, LookupFacts
from ledger.rules.licences import may_repeat
from ledger.rules.vocabulary import (
    Action,
    Effect,
    FailureClass,
    Licence,
    LookupOutcome,
    Proof,
    Request,
    Verification,
)
from recovery.judgement.codes import Code, sentence
from recovery.judgement.reading import Reading


class Occasion(StrEnum):
    """What has just happened."""

    ANSWER = "answer"
    LOOKUP = "lookup"
    LAPSE = "lapse"
    LIMIT = "limit"


USUAL: Final = MappingProxyType(
    {
        FailureClass.INVALID_REQUEST: Action.REPAIR,
        FailureClass.AUTHORIZATION: Action.AUTHORIZE,
        FailureClass.TRANSIENT: Action.RETRY,
        FailureClass.STATE_CONFLICT: Action.REFRESH,
        FailureClass.BUSINESS_RULE: Action.STOP,
        FailureClass.NOT_FOUND: Action.REPAIR,
        FailureClass.UNKNOWN_OUTCOME: Action.RETRY,
        FailureClass.PARTIAL: Action.RETRY,
        FailureClass.VERIFICATION: Action.VERIFY,
        FailureClass.FATAL: Action.STOP,
        FailureClass.SUCCESS: Action.DONE,
    }
)
"""The usual action of each failure class once it is certain that nothing happened (semantics §3)."""

_REFUSED_FOR_GOOD: Final = frozenset(
    {
        FailureClass.BUSINESS_RULE,
        FailureClass.STATE_CONFLICT,
        FailureClass.INVALID_REQUEST,
        FailureClass.NOT_FOUND,
        FailureClass.FATAL,
    }
)
_NEW_DISPATCH: Final = frozenset({Action.RETRY, Action.REPAIR, Action.REFRESH, Action.REPLACE})
_TIMED: Final = frozenset({Action.RECONCILE, Action.WAIT, Action.ESCALATE, Action.VERIFY})


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Everything a rule may look at. `facts` and `effect` are those after what has just happened."""

    occasion: Occasion
    facts: Facts
    effect: Effect
    contract: Contract
    now: datetime
    roll: float
    failure_class: FailureClass
    code: str
    licence: Licence | None
    """What would license a repeat now; None when nothing does."""
    reading: Reading | None = None
    grade: Grade | None = None

    @property
    def is_read(self) -> bool:
        return self.facts.is_read

    @property
    def nothing_happened(self) -> bool:
        """A read, or a write whose effect is proved absent."""
        return self.is_read or self.effect is Effect.NONE

    @property
    def wants(self) -> Action:
        """The action that the reading asks for, once nothing happened."""
        if self.reading is None:
            return Action.RETRY
        return self.reading.remedy or USUAL[self.reading.failure_class]

    @property
    def in_ledger(self) -> bool:
        """Whether this is an operation of the ledger; a stateless question has version 0."""
        return self.facts.version > 0

    @property
    def can_look(self) -> bool:
        """Whether the owner can still be asked: a way exists, and `reconcile_until` has not passed."""
        until = self.facts.reconcile_until
        return bool(self.contract.lookup) and (until is None or self.now < until)

    @property
    def can_verify(self) -> bool:
        return self.contract.verify is not None or not self.in_ledger

    @property
    def past_deadline(self) -> bool:
        return self.facts.deadline_at is not None and self.now >= self.facts.deadline_at

    @property
    def asked_wait(self) -> timedelta | None:
        milliseconds = None if self.reading is None else self.reading.retry_after_ms
        return None if milliseconds is None else timedelta(milliseconds=milliseconds)

    @property
    def wait_outlasts_deadline(self) -> bool:
        deadline = self.facts.deadline_at
        return deadline is not None and self.now + (self.asked_wait or timedelta(0)) >= deadline

    @property
    def may_send_again(self) -> bool:
        """A repeat is licensed, budgeted and in time."""
        return (
            self.licence is not None
            and not spent(self.facts, "retries")
            and not spent(self.facts, "network_attempts")
            and not self.wait_outlasts_deadline
        )

    @property
    def speaks_of_unknown(self) -> bool:
        """Whether the reading itself left its attempt's effect open, rather than an earlier attempt."""
        return self.reading is None or self.reading.effect is not Effect.NONE

    @property
    def contradicts_refusal(self) -> bool:
        """The same unchanged request was refused for good before; now the owner says that it is running."""
        return any(
            attempt.effect is Effect.NONE
            and attempt.revision == self.facts.revision
            and attempt.failure_class in _REFUSED_FOR_GOOD
            for attempt in self.facts.attempts
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One line of the table."""

    name: str
    on: Occasion
    when: Callable[[Case], bool]
    action: Action
    says: str
    """For people: why this step."""
    hint: str
    """For the agent: one or two sentences."""
    source: str
    failure_class: FailureClass | None = None
    """Replaces the class of what was seen."""
    code: Code | None = None


def _rule(
    on: Occasion,
    name: str,
    when: Callable[[Case], bool],
    action: Action,
    says: str,
    hint: str,
    source: str,
    failure_class: FailureClass | None = None,
    code: Code | None = None,
) -> Rule:
    return Rule(
        name=name,
        on=on,
        when=when,
        action=action,
        says=says,
        hint=hint,
        source=source,
        failure_class=failure_class,
        code=code,
    )


_DO_NOT_REPEAT = "Do not repeat the call. It may have happened; ask again for this operation when told."
_ASK_A_PERMIT = "Ask for a permit for this same operation when told, and send the call unchanged."
_NOTHING_MORE = "Nothing more is to be done for this call."
_A_PERSON = "Do not repeat the call. A person has been asked; ask again for this operation later."

_UNKNOWN = FailureClass.UNKNOWN_OUTCOME


def _repeats(on: Occasion, prefix: str, holds: Callable[[Case], bool]) -> tuple[Rule, ...]:
    """The four rules for a wanted repeat once nothing happened; the same on every occasion."""

    def wanted(more: Callable[[Case], bool]) -> Callable[[Case], bool]:
        return lambda case: holds(case) and case.wants is Action.RETRY and more(case)

    return (
        _rule(
            on,
            f"{prefix}.retry",
            wanted(lambda case: case.may_send_again and not case.past_deadline),
            Action.RETRY,
            "Nothing happened, so it may be sent again.",
            _ASK_A_PERMIT,
            "semantics §3, §7",
        ),
        _rule(
            on,
            f"{prefix}.deadline_passed",
            wanted(lambda case: case.past_deadline or case.wait_outlasts_deadline),
            Action.STOP,
            "Nothing happened, and no time is left to send it again.",
            "Report that it was not done in time. Do not repeat the call.",
            "semantics §8",
            code=Code.DEADLINE_PASSED,
        ),
        _rule(
            on,
            f"{prefix}.retries_ended",
            wanted(lambda case: case.licence is not None),
            Action.STOP,
            "Nothing happened, and the budget for repeats is used up.",
            "Report that it was not done. Do not repeat the call.",
            "semantics §8",
            code=Code.RETRIES_ENDED,
        ),
        _rule(
            on,
            f"{prefix}.not_licensed",
            wanted(_always),
            Action.STOP,
            "Nothing happened, but nothing licenses a repeat.",
            "Report that it was not done. Do not repeat the call.",
            "semantics §7",
            code=Code.NOT_LICENSED,
        ),
    )


def _always(_case: Case) -> bool:
    return True


_answer = partial(_rule, Occasion.ANSWER)
_lookup = partial(_rule, Occasion.LOOKUP)
_lapse = partial(_rule, Occasion.LAPSE)
_limit = partial(_rule, Occasion.LIMIT)

RULES: Final[tuple[Rule, ...]] = (
    # ---- It has happened.
    _answer(
        "write.applied_before",
        lambda case: not case.is_read and case.effect is Effect.APPLIED and not _says_applied(case),
        Action.DONE,
        "An earlier answer proved it done; this one does not unsay that.",
        "It is done. Do not repeat the call.",
        "semantics §4: the join over all attempts",
        FailureClass.SUCCESS,
        Code.DONE,
    ),
    _answer(
        "write.applied_to_be_checked",
        lambda case: not case.is_read and case.effect is Effect.APPLIED and _to_be_checked(case) and case.can_verify,
        Action.VERIFY,
        "It is done; whether the outcome is the intended one is checked next.",
        "It has happened. Do not repeat the call; the outcome is being checked.",
        "semantics §2, §3",
    ),
    _answer(
        "write.applied_to_be_looked_up",
        lambda case: (
            not case.is_read
            and case.effect is Effect.APPLIED
            and case.failure_class is FailureClass.VERIFICATION
            and case.can_look
        ),
        Action.RECONCILE,
        "It is done, and something failed after the answer, so the owner is asked what it holds.",
        "It has happened. Do not repeat the call; the outcome is being checked.",
        "semantics §3",
    ),
    _answer(
        "write.applied",
        lambda case: not case.is_read and case.effect is Effect.APPLIED,
        Action.DONE,
        "The owner's answer proves it done.",
        "It is done. Use the result; do not repeat the call.",
        "semantics §5",
    ),
    _answer(
        "write.partial",
        lambda case: (
            not case.is_read
            and case.reading is not None
            and case.reading.failure_class is FailureClass.PARTIAL
            and case.effect in (Effect.PARTIAL, Effect.UNKNOWN)
        ),
        Action.RECOVER_ITEMS,
        "Some items went through and others did not, so each is recovered by itself.",
        "Do not repeat the whole call. Recover each item that did not go through by itself.",
        "semantics §3, §7",
    ),
    _answer(
        "write.partial_before",
        lambda case: not case.is_read and case.effect is Effect.PARTIAL,
        Action.RECOVER_ITEMS,
        "An earlier attempt applied some items, so each is recovered by itself.",
        "Do not repeat the whole call. Recover each item that did not go through by itself.",
        "semantics §3, §7",
        FailureClass.PARTIAL,
    ),
    # ---- It is running.
    _answer(
        "write.running_after_refusal",
        lambda case: not case.is_read and case.effect is Effect.PENDING and case.contradicts_refusal,
        Action.RECONCILE,
        "The owner refused this same request before and now says that it is running: both are kept, the owner "
        "is asked.",
        _DO_NOT_REPEAT,
        "semantics §4.2",
        _UNKNOWN,
        Code.ANSWER_CONTRADICTS,
    ),
    _answer(
        "write.deadline_while_running",
        lambda case: not case.is_read and case.effect is Effect.PENDING and _must_escalate(case),
        Action.ESCALATE,
        "It is still running at the owner, and the time for it has ended.",
        _A_PERSON,
        "semantics §8",
    ),
    _answer(
        "write.running",
        lambda case: not case.is_read and case.effect is Effect.PENDING and _says_pending(case),
        Action.WAIT,
        "The owner took it and has not finished.",
        "It is accepted and still running. Do not repeat the call; ask again for this operation when told.",
        "RFC 9110 15.3.3",
    ),
    _answer(
        "write.running_before",
        lambda case: not case.is_read and case.effect is Effect.PENDING,
        Action.WAIT,
        "An earlier attempt was accepted and is still running.",
        "It is accepted and still running. Do not repeat the call; ask again for this operation when told.",
        "semantics §4: the join over all attempts",
        FailureClass.SUCCESS,
        Code.IN_PROGRESS,
    ),
    # ---- Nobody knows.
    _answer(
        "write.unknown_after_limits",
        lambda case: case.effect is Effect.UNKNOWN and not case.is_read and _must_escalate(case),
        Action.ESCALATE,
        "Whether it happened is unknown, and the time or the budget for finding out has ended.",
        _A_PERSON,
        "semantics §8",
        _UNKNOWN,
    ),
    _answer(
        "write.earlier_attempt_open",
        lambda case: _unknown(case) and not case.speaks_of_unknown and case.can_look,
        Action.RECONCILE,
        "This attempt had no effect, but an earlier one may have had, so the owner is asked.",
        _DO_NOT_REPEAT,
        "semantics §4: a reading speaks for its attempt only",
        _UNKNOWN,
        Code.EARLIER_ATTEMPT_OPEN,
    ),
    _answer(
        "write.no_answer_after_send",
        lambda case: _unknown(case) and case.can_look and _from(case, "exception"),
        Action.RECONCILE,
        "The request may have reached the owner and no answer came, so the owner is asked.",
        _DO_NOT_REPEAT,
        "RFC 9110 9.2.2; semantics §4",
    ),
    _answer(
        "write.answer_proves_nothing",
        lambda case: _unknown(case) and case.can_look,
        Action.RECONCILE,
        "The answer does not say whether it happened, so the owner is asked.",
        _DO_NOT_REPEAT,
        "RFC 9110 9.2.2; semantics §4",
    ),
    _answer(
        "write.unknown_but_repeat_is_harmless",
        lambda case: _unknown(case) and case.may_send_again and not case.contract.lookup,
        Action.RETRY,
        "Whether it happened is unknown, there is no way to look it up, and the same request again cannot make "
        "a second effect.",
        "It may have happened. Ask for a permit for this same operation when told, and send the call unchanged, "
        "with the same key.",
        "RFC 9110 9.2.2; semantics §7",
        _UNKNOWN,
    ),
    _answer(
        "write.nobody_to_ask",
        lambda case: _unknown(case) and case.in_ledger,
        Action.ESCALATE,
        "Whether it happened is unknown, and the contract names no way to look it up.",
        _A_PERSON,
        "semantics §8",
        _UNKNOWN,
        Code.NOBODY_TO_ASK,
    ),
    _answer(
        "write.unknown",
        lambda case: _unknown(case),
        Action.RECONCILE,
        "Whether it happened is unknown: look at the owner before anything else.",
        _DO_NOT_REPEAT,
        "semantics §4.7",
        _UNKNOWN,
    ),
    # ---- Nothing happened, or it was a read.
    _answer(
        "read.done",
        lambda case: case.is_read and case.wants is Action.DONE,
        Action.DONE,
        "The read was answered.",
        "Use the result.",
        "semantics §4.1",
    ),
    *_repeats(Occasion.ANSWER, "none", _always),
    _answer(
        "none.repair",
        lambda case: case.wants is Action.REPAIR and not spent(case.facts, "repairs"),
        Action.REPAIR,
        "Nothing happened; the request has to change.",
        "Correct the named member and keep the intent. Never send the identical call again.",
        "semantics §3",
    ),
    _answer(
        "none.repairs_ended",
        lambda case: case.wants is Action.REPAIR,
        Action.STOP,
        "Nothing happened, and the budget for repairs is used up.",
        "Report what was refused. Do not send the call again.",
        "semantics §8",
        None,
        Code.REPAIRS_ENDED,
    ),
    _answer(
        "none.authorize",
        lambda case: case.wants is Action.AUTHORIZE,
        Action.AUTHORIZE,
        "Nothing happened; the permission for it is missing.",
        "Stop and say which permission is missing. Do not try another way around it.",
        "semantics §3",
    ),
    _answer(
        "none.refresh",
        lambda case: case.wants is Action.REFRESH,
        Action.REFRESH,
        "Nothing happened; what the request builds on has changed.",
        "Read the present state first, then decide whether the call is still wanted.",
        "semantics §3",
    ),
    _answer(
        "none.verify",
        lambda case: case.wants is Action.VERIFY and case.can_verify,
        Action.VERIFY,
        "Nothing was done; whether the goal is met already has to be looked at.",
        "Look at the present state before anything else.",
        "RFC 9110 15.5.5",
    ),
    _answer(
        "none.look_again",
        lambda case: case.wants is Action.VERIFY and not spent(case.facts, "repairs"),
        Action.REPAIR,
        "Nothing was done; the address may be wrong, or what it named is gone already.",
        "Check the address, and whether what it named is gone already.",
        "RFC 9110 15.5.5",
    ),
    _answer(
        "none.replace",
        lambda case: case.wants is Action.REPLACE,
        Action.REPLACE,
        "Nothing happened; what the request addresses is gone or elsewhere.",
        "Choose another target, or find the present address of this one.",
        "semantics §3",
    ),
    _answer(
        "none.wait",
        lambda case: case.wants is Action.WAIT and not case.past_deadline,
        Action.WAIT,
        "Nothing happened; something else is using what the request addresses.",
        "Wait and ask again for this operation when told.",
        "RFC 4918 11.3",
    ),
    _answer(
        "none.compare",
        lambda case: case.wants is Action.RECONCILE and (case.can_look or not case.in_ledger),
        Action.RECONCILE,
        "This request had no effect, but something of ours may exist already, so the owner is asked.",
        "Do not repeat the call. Look at what the owner holds first.",
        "semantics §4.2",
    ),
    _answer(
        "none.stop",
        lambda case: case.wants is not Action.DONE,
        Action.STOP,
        "Nothing happened, and sending it again would be refused again.",
        "Explain why it was refused and offer the alternatives, if there are any.",
        "semantics §3",
    ),
    _answer(
        "none.contradiction",
        _always,
        Action.STOP,
        "An answer says done, and it is proved that nothing happened: nothing more is sent.",
        _NOTHING_MORE,
        "semantics §4",
    ),
    _lookup(
        "lookup.conflict",
        lambda case: case.grade is not None and case.grade.conflict,
        Action.ESCALATE,
        "The owner holds something under our key that is not what was intended; a person has to compare.",
        _A_PERSON,
        "semantics §6",
        FailureClass.STATE_CONFLICT,
        Code.CONFLICT,
    ),
    _lookup(
        "lookup.applied_to_be_checked",
        lambda case: case.effect is Effect.APPLIED and _to_be_checked(case) and case.contract.verify is not None,
        Action.VERIFY,
        "The owner holds it; whether the outcome is the intended one is checked next.",
        "It has happened. Do not repeat the call; the outcome is being checked.",
        "semantics §2",
        FailureClass.SUCCESS,
        Code.FOUND,
    ),
    _lookup(
        "lookup.applied",
        lambda case: case.effect is Effect.APPLIED,
        Action.DONE,
        "The owner holds what was intended.",
        "It is done. Do not repeat the call.",
        "semantics §5",
        FailureClass.SUCCESS,
        Code.FOUND,
    ),
    _lookup(
        "lookup.partial",
        lambda case: case.effect is Effect.PARTIAL,
        Action.RECOVER_ITEMS,
        "The owner holds some items and not others, so each is recovered by itself.",
        "Do not repeat the whole call. Recover each item that did not go through by itself.",
        "semantics §3, §7",
        FailureClass.PARTIAL,
        Code.PARTIAL_RESULT,
    ),
    *_repeats(Occasion.LOOKUP, "lookup.absent", lambda case: case.effect is Effect.NONE),
    _lookup(
        "lookup.limits_ended",
        lambda case: _must_escalate(case),
        Action.ESCALATE,
        "The owner has not settled it, and the time or the budget for asking has ended.",
        _A_PERSON,
        "semantics §8",
    ),
    _lookup(
        "lookup.running",
        lambda case: case.effect is Effect.PENDING,
        Action.WAIT,
        "The owner says that it is still running.",
        "It is accepted and still running. Do not repeat the call; ask again for this operation when told.",
        "RFC 9110 15.3.3",
        FailureClass.SUCCESS,
        Code.IN_PROGRESS,
    ),
    _lookup(
        "lookup.failed",
        lambda case: case.grade is not None and case.grade.outcome is LookupOutcome.LOOKUP_FAILED,
        Action.RECONCILE,
        "Asking the owner failed, which says nothing about the effect; it is asked again.",
        _DO_NOT_REPEAT,
        "semantics §6",
        _UNKNOWN,
        Code.LOOKUP_FAILED,
    ),
    _lookup(
        "lookup.not_settled",
        _always,
        Action.RECONCILE,
        "The owner's answer does not settle it yet; it is asked again.",
        _DO_NOT_REPEAT,
        "semantics §6",
        _UNKNOWN,
        Code.ABSENCE_NOT_PROVED,
    ),
    _lapse(
        "lapse.applied_before",
        lambda case: case.effect is Effect.APPLIED,
        Action.DONE,
        "An earlier answer proved it done; the missing report does not unsay that.",
        "It is done. Do not repeat the call.",
        "semantics §4: the join over all attempts",
        FailureClass.SUCCESS,
        Code.DONE,
    ),
    *_repeats(Occasion.LAPSE, "lapse.read", lambda case: case.is_read),
    _lapse(
        "lapse.limits_ended",
        lambda case: _must_escalate(case),
        Action.ESCALATE,
        "A permit ended with no report, and the time or the budget for finding out has ended.",
        _A_PERSON,
        "semantics §8, §9.2",
    ),
    _lapse(
        "lapse.ask_the_owner",
        lambda case: case.can_look,
        Action.RECONCILE,
        "A permit ended with no report, so it may have been sent; the owner is asked.",
        _DO_NOT_REPEAT,
        "semantics §9.2",
    ),
    _lapse(
        "lapse.repeat_is_harmless",
        lambda case: case.may_send_again and not case.past_deadline and not case.contract.lookup,
        Action.RETRY,
        "A permit ended with no report, there is no way to look it up, and the same request again cannot make a "
        "second effect.",
        _ASK_A_PERMIT,
        "semantics §7",
    ),
    _lapse(
        "lapse.nobody_to_ask",
        lambda case: case.in_ledger,
        Action.ESCALATE,
        "A permit ended with no report, and the contract names no way to look it up.",
        _A_PERSON,
        "semantics §8",
        None,
        Code.NOBODY_TO_ASK,
    ),
    _lapse(
        "lapse.unknown",
        _always,
        Action.RECONCILE,
        "A permit ended with no report: look at the owner before anything else.",
        _DO_NOT_REPEAT,
        "semantics §9.2",
    ),
    _limit(
        "limit.nothing_happened",
        lambda case: case.nothing_happened,
        Action.STOP,
        "The time for it has ended and nothing happened.",
        "Report that it was not done in time. Do not repeat the call.",
        "semantics §8",
    ),
    _limit(
        "limit.applied",
        lambda case: case.effect is Effect.APPLIED,
        Action.DONE,
        "The time for it has ended, and it is done.",
        "It is done. Do not repeat the call.",
        "semantics §8",
        FailureClass.SUCCESS,
    ),
    _limit(
        "limit.unknown",
        _always,
        Action.ESCALATE,
        "The time or the budget for it has ended, and what happened is not known; a person is asked.",
        _A_PERSON,
        "semantics §8",
    ),
)


def decide(
    *, reading: Reading, facts: Facts, effect: Effect, contract: Contract, now: datetime, roll: float = 0.5
) -> Decision:
    """The next step after a report.

    `facts` are those before this reading; `effect` is the operation's effect joined with it (`join_effects`). `roll`
    in [0, 1) spreads waits. For an operation of the ledger (version above 0) whose effect is unknown and whose
    contract names no lookup, the decision is to escalate; a stateless question (version 0) is told to reconcile.
    """
    after = _facts_after(facts, effect)
    open_before = not facts.is_read and effect is Effect.UNKNOWN and reading.effect is Effect.NONE
    return _decision(
        Case(
            occasion=Occasion.ANSWER,
            facts=after,
            effect=effect,
            contract=contract,
            now=now,
            roll=roll,
            failure_class=_UNKNOWN if open_before else reading.failure_class,
            code=reading.code,
            licence=_licence(after, contract, now),
            reading=reading,
        )
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
    after = _facts_after(facts, effect, absence_since=grade.absence_since if grade.absent else None)
    absent = effect is Effect.NONE
    decision = _decision(
        Case(
            occasion=Occasion.LOOKUP,
            facts=_one_poll_more(after),
            effect=effect,
            contract=contract,
            now=now,
            roll=roll,
            failure_class=FailureClass.TRANSIENT if absent else _UNKNOWN,
            code=Code.ABSENT if absent else Code.ABSENCE_NOT_PROVED,
            licence=_licence(after, contract, now),
            grade=grade,
        )
    )
    if not grade.reasons or lookup.answer == LookupOutcome.FOUND:
        return decision
    return replace(decision, message=f"{decision.message} {grade.reasons[0]}")


def decide_lapse(*, facts: Facts, effect: Effect, contract: Contract, now: datetime, roll: float = 0.5) -> Decision:
    """The next step when a permit ended with no report: what was sent, if anything, is unknown; a read may repeat."""
    after = _facts_after(facts, effect)
    return _decision(
        Case(
            occasion=Occasion.LAPSE,
            facts=after,
            effect=effect,
            contract=contract,
            now=now,
            roll=roll,
            failure_class=FailureClass.TRANSIENT if facts.is_read else _UNKNOWN,
            code=Code.NO_REPORT,
            licence=_licence(after, contract, now),
        )
    )


def decide_limits(
    *, facts: Facts, effect: Effect, contract: Contract, now: datetime, roll: float = 0.5
) -> Decision | None:
    """What the end of a deadline or of the polls means; None while neither has ended.

    With the effect unknown, pending or partial a person is asked once; lookups go on at the longest wait
    (`not_before`) until `reconcile_until`.
    """
    deadline = facts.deadline_at is not None and now >= facts.deadline_at
    open_effect = not facts.is_read and effect in (Effect.UNKNOWN, Effect.PENDING, Effect.PARTIAL)
    polls = open_effect and spent(facts, "polls")
    if not deadline and not polls:
        return None
    after = _facts_after(facts, effect)
    return _decision(
        Case(
            occasion=Occasion.LIMIT,
            facts=after,
            effect=effect,
            contract=contract,
            now=now,
            roll=roll,
            failure_class=_UNKNOWN if open_effect else FailureClass.FATAL,
            code=Code.DEADLINE_PASSED if deadline else Code.POLLS_ENDED,
            licence=None,
        )
    )


def _unknown(case: Case) -> bool:
    return not case.is_read and case.effect is Effect.UNKNOWN


def _says_applied(case: Case) -> bool:
    return case.reading is not None and case.reading.effect is Effect.APPLIED


def _says_pending(case: Case) -> bool:
    return case.reading is not None and case.reading.effect is Effect.PENDING


def _from(case: Case, kind: str) -> bool:
    return case.reading is not None and case.reading.kind == kind


def _to_be_checked(case: Case) -> bool:
    wanted = case.contract.verify is not None and case.facts.verification is not Verification.VERIFIED
    return wanted or case.failure_class is FailureClass.VERIFICATION


def _must_escalate(case: Case) -> bool:
    """The effect is open and a limit has ended, or a person was asked already and has not answered."""
    return (
        not case.is_read
        and case.in_ledger
        and (case.facts.escalated or case.past_deadline or (bool(case.contract.lookup) and spent(case.facts, "polls")))
    )


def _licence(facts: Facts, contract: Contract, now: datetime) -> Licence | None:
    found = may_repeat(facts=facts, contract=contract, now=now)
    return found if isinstance(found, Licence) else None


def _facts_after(facts: Facts, effect: Effect, *, absence_since: datetime | None = None) -> Facts:
    """The facts with the joined effect. A joined `none` covers every attempt: that is what the join means."""
    attempts = facts.attempts
    if effect is Effect.NONE and not facts.is_read:
        attempts = covered(attempts, effect=Effect.NONE, proof=Proof.GRADED_ABSENCE if absence_since else None)
    return replace(facts, effect=effect, attempts=attempts)


def _one_poll_more(facts: Facts) -> Facts:
    polls = facts.budgets.get("polls")
    if polls is None:
        return facts
    return replace(facts, budgets={**facts.budgets, "polls": replace(polls, used=polls.used + 1)})


def _decision(case: Case) -> Decision:
    rule = next(rule for rule in RULES if rule.on is case.occasion and rule.when(case))
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
    if action is Action.ESCALATE and not case.can_look:
        return None
    at = next_poll(
        contract=case.contract,
        step=_used(case, "polls"),
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
