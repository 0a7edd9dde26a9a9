"""Which rule decides in which case?

`RULES` is the whole answer: of the rules for one occasion and one standing of the operation, in this order, the first
that holds decides. A rule has a name, the case in which it holds, its action, the sentence for people, the advice for
the agent, and its source (a public page, or a law of `ledger/LAWS.md`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Final

from ledger.rules.budgets import spent
from ledger.rules.vocabulary import Action, Effect, FailureClass, LookupOutcome, Verification
from recovery.judgement.case import Case, Occasion, Standing
from recovery.judgement.codes import Code


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
    standing: frozenset[Standing] = frozenset(Standing)
    """How the operation has to stand for this rule to be looked at."""


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
    *,
    standing: frozenset[Standing] = frozenset(Standing),
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
        standing=standing,
    )


_DO_NOT_REPEAT = "Do not repeat the call. It may have happened; ask again for this operation when told."
_ASK_A_PERMIT = "Ask for a permit for this same operation when told, and send the call unchanged."
_ASK_FOR_ITEMS = (
    "Do not repeat the whole call. Ask for a permit for this same operation when told; it names the items to send."
)
_PARTLY_DONE = "Some items are done and others are not. Do not repeat the call; say which, and offer the alternatives."
_NOTHING_MORE = "Nothing more is to be done for this call."
_A_PERSON = "Do not repeat the call. A person has been asked; ask again for this operation later."

_UNKNOWN: Final = FailureClass.UNKNOWN_OUTCOME


def _repeats(
    on: Occasion, prefix: str, holds: Callable[[Case], bool], *, standing: frozenset[Standing] = frozenset(Standing)
) -> tuple[Rule, ...]:
    """The four rules for a wanted repeat once nothing happened; the same on every occasion."""
    rule = partial(_rule, on, standing=standing)

    def wanted(more: Callable[[Case], bool]) -> Callable[[Case], bool]:
        return lambda case: holds(case) and case.wants is Action.RETRY and more(case)

    return (
        rule(
            f"{prefix}.retry",
            wanted(lambda case: case.may_send_again and not case.past_deadline),
            Action.RETRY,
            "Nothing happened, so it may be sent again.",
            _ASK_A_PERMIT,
            "laws 8 and 11",
        ),
        rule(
            f"{prefix}.deadline_passed",
            wanted(lambda case: case.past_deadline or case.wait_outlasts_deadline),
            Action.STOP,
            "Nothing happened, and no time is left to send it again.",
            "Report that it was not done in time. Do not repeat the call.",
            "law 9",
            code=Code.DEADLINE_PASSED,
        ),
        rule(
            f"{prefix}.retries_ended",
            wanted(lambda case: case.licence is not None),
            Action.STOP,
            "Nothing happened, and the budget for repeats is used up.",
            "Report that it was not done. Do not repeat the call.",
            "law 9",
            code=Code.RETRIES_ENDED,
        ),
        rule(
            f"{prefix}.not_licensed",
            wanted(_always),
            Action.STOP,
            "Nothing happened, but nothing licenses a repeat.",
            "Report that it was not done. Do not repeat the call.",
            "law 8",
            code=Code.NOT_LICENSED,
        ),
    )


def _always(_case: Case) -> bool:
    return True


_WRITES: Final = frozenset(Standing) - {Standing.READ}
_NOTHING: Final = frozenset({Standing.READ, Standing.NONE})
_check = partial(_rule, Occasion.CHECK, standing=_WRITES)
_applied = partial(_rule, Occasion.ANSWER, standing=frozenset({Standing.APPLIED}))
_partly = partial(_rule, Occasion.ANSWER, standing=frozenset({Standing.PARTIAL}))
_in_parts = partial(_rule, Occasion.ANSWER, standing=frozenset({Standing.PARTIAL, Standing.UNKNOWN}))
_by_items = partial(_rule, Occasion.ANSWER, standing=frozenset({Standing.PARTIAL, Standing.UNKNOWN, Standing.PENDING}))
_running = partial(_rule, Occasion.ANSWER, standing=frozenset({Standing.PENDING}))
_unknown = partial(_rule, Occasion.ANSWER, standing=frozenset({Standing.UNKNOWN}))
_nothing = partial(_rule, Occasion.ANSWER, standing=_NOTHING)
_lookup = partial(_rule, Occasion.LOOKUP)
_lapse = partial(_rule, Occasion.LAPSE)
_limit = partial(_rule, Occasion.LIMIT)

RULES: Final[tuple[Rule, ...]] = (
    # ---- The outcome was checked.
    _check(
        "check.as_intended",
        lambda case: case.check is Verification.VERIFIED and case.effect is Effect.APPLIED,
        Action.DONE,
        "It is done, and the outcome was checked and is as intended.",
        "It is done and checked. Use the result; do not repeat the call.",
        "law 1",
        FailureClass.SUCCESS,
    ),
    _check(
        "check.met_already",
        lambda case: case.check is Verification.VERIFIED and case.effect is Effect.NONE and case.in_ledger,
        Action.STOP,
        "Nothing was done by this operation, and the outcome is the intended one already.",
        "The outcome is as intended already. Do not repeat the call.",
        "law 1",
        FailureClass.SUCCESS,
    ),
    _check(
        "check.nothing_done",
        lambda case: (
            case.effect is Effect.NONE
            and case.in_ledger
            and (case.check is Verification.FAILED or (case.check is Verification.UNAVAILABLE and case.checks_ended))
        ),
        Action.STOP,
        "Nothing was done, and the outcome is not seen to be the intended one.",
        "Report that it was not done. Do not repeat the call.",
        "law 1",
        FailureClass.VERIFICATION,
    ),
    _check(
        "check.differs_look",
        lambda case: case.check is Verification.FAILED and (not case.in_ledger or case.may_look_before_asking),
        Action.RECONCILE,
        "The outcome is not the intended one: what the owner holds is looked at before anything is written.",
        "The outcome differs from what was asked. Do not repeat the call; look at the present state first.",
        "law 1",
        FailureClass.VERIFICATION,
    ),
    _check(
        "check.differs",
        lambda case: case.check is Verification.FAILED,
        Action.ESCALATE,
        "The outcome is not the intended one, and a person has to compare.",
        _A_PERSON,
        "law 1",
        FailureClass.VERIFICATION,
        Code.CHECK_FAILED,
    ),
    _check(
        "check.none_left",
        lambda case: case.check is Verification.UNAVAILABLE and case.checks_ended and case.effect is Effect.APPLIED,
        Action.ESCALATE,
        "It is done, but whether the outcome is the intended one could not be checked.",
        "It has happened. Do not repeat the call; a person has been asked to check the outcome.",
        "law 9",
        FailureClass.VERIFICATION,
        Code.CHECKS_ENDED,
    ),
    _check(
        "check.unavailable",
        lambda case: (
            case.check is Verification.UNAVAILABLE
            and (case.effect in (Effect.APPLIED, Effect.NONE) or not case.must_escalate)
        ),
        Action.VERIFY,
        "The check could not run, which says nothing of the outcome; it is run again.",
        "Do not repeat the call. The check of the outcome is run again.",
        "law 1",
        FailureClass.VERIFICATION,
    ),
    # ---- It has happened.
    _applied(
        "write.applied_before",
        lambda case: not case.says(Effect.APPLIED),
        Action.DONE,
        "An earlier answer proved it done; this one does not unsay that.",
        "It is done. Do not repeat the call.",
        "law 2",
        FailureClass.SUCCESS,
        Code.DONE,
    ),
    _applied(
        "write.applied_maybe_twice",
        lambda case: case.repeats_may_add_up and (case.can_look or not case.in_ledger),
        Action.RECONCILE,
        "It is done, and another request of ours may have done it as well: the owner is asked how often.",
        "It has happened, perhaps more than once. Do not repeat the call; it is being checked.",
        "RFC 9110 9.2.2; law 9",
        FailureClass.VERIFICATION,
    ),
    _applied(
        "write.applied_after_refusal",
        lambda case: not case.of_a_request and case.contradicts_refusal and not case.in_ledger,
        Action.RECONCILE,
        "The owner refused this request and holds its effect: both words are kept, and its own record decides.",
        "Two answers of the owner disagree. Do not repeat the call; it is being looked at.",
        "law 2",
        FailureClass.VERIFICATION,
        Code.ANSWER_CONTRADICTS,
    ),
    _applied(
        "write.applied_more_than_once",
        lambda case: case.says(Effect.APPLIED) and case.wants is Action.RECONCILE and not case.in_ledger,
        Action.RECONCILE,
        "The owner holds more than one of what was to be made once: look at all of them.",
        "It has happened, and more than once. Do not repeat the call; look at what the owner holds.",
        "law 1",
        FailureClass.VERIFICATION,
    ),
    _applied(
        "write.applied_more_than_once_to_a_person",
        lambda case: case.says(Effect.APPLIED) and case.wants is Action.RECONCILE,
        Action.ESCALATE,
        "The owner holds more than one of what was to be made once, and a person has to choose between them.",
        _A_PERSON,
        "law 1",
        FailureClass.VERIFICATION,
        Code.FOUND_TWICE,
    ),
    _applied(
        "write.applied_to_be_checked",
        lambda case: case.to_be_checked and case.can_verify,
        Action.VERIFY,
        "It is done; whether the outcome is the intended one is checked next.",
        "It has happened. Do not repeat the call; the outcome is being checked.",
        "law 1",
    ),
    _applied(
        "write.applied_to_be_looked_up",
        lambda case: case.failure_class is FailureClass.VERIFICATION and case.can_look,
        Action.RECONCILE,
        "It is done, and something failed after the answer, so the owner is asked what it holds.",
        "It has happened. Do not repeat the call; the outcome is being checked.",
        "law 11",
    ),
    _applied(
        "write.applied",
        _always,
        Action.DONE,
        "The owner's answer proves it done.",
        "It is done. Use the result; do not repeat the call.",
        "law 3",
    ),
    _partly(
        "write.partly_done_to_be_looked_up",
        lambda case: not case.has_items and case.can_look,
        Action.RECONCILE,
        "A part of it happened, and this tool has no items to recover one by one, so the owner is asked.",
        _DO_NOT_REPEAT,
        "laws 8 and 11",
        FailureClass.PARTIAL,
    ),
    _partly(
        "write.partly_done",
        lambda case: not case.has_items,
        Action.ESCALATE,
        "A part of it happened, and there is neither an item to recover nor a way to look it up.",
        _A_PERSON,
        "laws 9 and 10",
        FailureClass.PARTIAL,
        Code.PARTIAL_RESULT,
    ),
    _by_items(
        "write.items_to_recover",
        lambda case: case.keeps_items and case.may_recover_items,
        Action.RECOVER_ITEMS,
        "Some items may be sent again by themselves; those of which nobody knows stay out and are looked up.",
        _ASK_FOR_ITEMS,
        "laws 8 and 10",
        FailureClass.PARTIAL,
        Code.PARTIAL_RESULT,
    ),
    _partly(
        "write.partial_for_good",
        lambda case: case.keeps_items,
        Action.ESCALATE,
        "Some items went through, and the others may not be sent again by themselves; a person has to close it.",
        _PARTLY_DONE,
        "laws 10 and 11",
        FailureClass.PARTIAL,
        Code.PARTIAL_RESULT,
    ),
    _in_parts(
        "write.partial",
        lambda case: (
            case.has_items
            and not case.keeps_items
            and case.reading is not None
            and case.reading.failure_class is FailureClass.PARTIAL
        ),
        Action.RECOVER_ITEMS,
        "Some items went through and others did not, so each is recovered by itself.",
        "Do not repeat the whole call. Recover each item that did not go through by itself.",
        "laws 8 and 11",
    ),
    _partly(
        "write.partial_before",
        _always,
        Action.RECOVER_ITEMS,
        "An earlier attempt applied some items, so each is recovered by itself.",
        "Do not repeat the whole call. Recover each item that did not go through by itself.",
        "laws 8 and 11",
        FailureClass.PARTIAL,
    ),
    # ---- It is running.
    _running(
        "write.running_after_refusal",
        lambda case: case.contradicts_refusal,
        Action.RECONCILE,
        "The owner refused this same request before and now says that it is running: both are kept, the owner "
        "is asked.",
        _DO_NOT_REPEAT,
        "law 2",
        _UNKNOWN,
        Code.ANSWER_CONTRADICTS,
    ),
    _running(
        "write.deadline_while_running",
        lambda case: case.must_escalate,
        Action.ESCALATE,
        "It is still running at the owner, and the time for it has ended.",
        _A_PERSON,
        "law 9",
    ),
    _running(
        "write.running_asks_us",
        lambda case: case.says(Effect.PENDING) and case.wants is Action.AUTHORIZE and not case.in_ledger,
        Action.AUTHORIZE,
        "The owner took it and waits for a person's answer.",
        "It is accepted and waits for a person. Stop and say what is asked; do not repeat the call.",
        "MCP tasks: input_required",
    ),
    _running(
        "write.running_asks_a_person",
        lambda case: case.says(Effect.PENDING) and case.wants is Action.AUTHORIZE,
        Action.ESCALATE,
        "The owner took it and waits for a person's answer.",
        _A_PERSON,
        "MCP tasks: input_required",
    ),
    _running(
        "write.running",
        lambda case: case.says(Effect.PENDING),
        Action.WAIT,
        "The owner took it and has not finished.",
        "It is accepted and still running. Do not repeat the call; ask again for this operation when told.",
        "RFC 9110 15.3.3",
    ),
    _running(
        "write.running_before",
        _always,
        Action.WAIT,
        "An earlier attempt was accepted and is still running.",
        "It is accepted and still running. Do not repeat the call; ask again for this operation when told.",
        "law 2",
        FailureClass.SUCCESS,
        Code.IN_PROGRESS,
    ),
    # ---- Nobody knows.
    _unknown(
        "write.unknown_after_limits",
        lambda case: case.must_escalate,
        Action.ESCALATE,
        "Whether it happened is unknown, and the time or the budget for finding out has ended.",
        _A_PERSON,
        "law 9",
        _UNKNOWN,
    ),
    _unknown(
        "write.key_of_another_request",
        lambda case: case.code_read == Code.KEY_REUSED and case.in_ledger and not case.can_look,
        Action.ESCALATE,
        "The owner knows our key from a request with other contents; a person has to compare what it holds.",
        _A_PERSON,
        "IETF idempotency-key draft 2.7; law 8",
        FailureClass.STATE_CONFLICT,
        Code.CONFLICT,
    ),
    _unknown(
        "write.stored_failure",
        lambda case: case.code_read == Code.STORED_FAILURE and case.in_ledger and not case.can_look,
        Action.ESCALATE,
        "Whether it happened is unknown, and the owner repeats the same failure for as long as it remembers the key.",
        _A_PERSON,
        "law 9",
        _UNKNOWN,
        Code.STORED_FAILURE,
    ),
    _unknown(
        "write.earlier_attempt_open",
        lambda case: (
            not case.speaks_of_unknown and (case.can_look or (not case.in_ledger and case.wants is not Action.RETRY))
        ),
        Action.RECONCILE,
        "What this attempt says does not settle what an earlier one may have done, so the owner is asked.",
        _DO_NOT_REPEAT,
        "law 2",
        _UNKNOWN,
        Code.EARLIER_ATTEMPT_OPEN,
    ),
    _unknown(
        "write.no_answer_after_send",
        lambda case: case.can_look and case.reading is not None and case.reading.kind == "exception",
        Action.RECONCILE,
        "The request may have reached the owner and no answer came, so the owner is asked.",
        _DO_NOT_REPEAT,
        "RFC 9110 9.2.2; law 4",
    ),
    _unknown(
        "write.answer_proves_nothing",
        lambda case: case.can_look,
        Action.RECONCILE,
        "The answer does not say whether it happened, so the owner is asked.",
        _DO_NOT_REPEAT,
        "RFC 9110 9.2.2; law 4",
    ),
    _unknown(
        "write.check_first",
        lambda case: case.speaks_of_unknown and case.wants is Action.VERIFY and not case.in_ledger,
        Action.VERIFY,
        "Something answered, and the answer proves neither success nor failure: check the present state.",
        _DO_NOT_REPEAT,
        "law 5",
    ),
    _unknown(
        "write.compare_first",
        lambda case: case.wants is Action.RECONCILE and not case.in_ledger,
        Action.RECONCILE,
        "What is in the way, or has answered, may be our own earlier request: look at the owner and compare.",
        _DO_NOT_REPEAT,
        "RFC 9110 13.1.1; law 2",
        _UNKNOWN,
    ),
    _unknown(
        "write.unknown_but_repeat_is_harmless",
        lambda case: (
            case.of_a_request
            and case.may_send_again
            and not case.can_look
            and (case.speaks_of_unknown or case.wants is Action.RETRY)
        ),
        Action.RETRY,
        "Whether it happened is unknown, there is no way to look it up, and the same request again cannot make "
        "a second effect.",
        "It may have happened. Ask for a permit for this same operation when told, and send the call unchanged, "
        "with the same key.",
        "RFC 9110 9.2.2; law 8",
        _UNKNOWN,
    ),
    _unknown(
        "write.owner_will_tell",
        lambda case: case.owner_tells,
        Action.WAIT,
        "Whether it happened is unknown and cannot be looked up. The owner tells by itself; a person is asked at the "
        "deadline if it has not.",
        _DO_NOT_REPEAT,
        "law 9",
        _UNKNOWN,
    ),
    _unknown(
        "write.nobody_to_ask",
        lambda case: case.in_ledger,
        Action.ESCALATE,
        "Whether it happened is unknown, and the contract names no way to look it up.",
        _A_PERSON,
        "law 9",
        _UNKNOWN,
        Code.NOBODY_TO_ASK,
    ),
    _unknown(
        "write.unknown",
        _always,
        Action.RECONCILE,
        "Whether it happened is unknown: look at the owner before anything else.",
        _DO_NOT_REPEAT,
        "law 12",
        _UNKNOWN,
    ),
    # ---- Nothing happened, or it was a read.
    _nothing(
        "read.done",
        lambda case: case.is_read and case.wants is Action.DONE,
        Action.DONE,
        "The read was answered.",
        "Use the result.",
        "law 6",
    ),
    _nothing(
        "read.running",
        lambda case: case.is_read and case.wants is Action.WAIT and case.failure_class is FailureClass.SUCCESS,
        Action.WAIT,
        "The owner took the request and has not finished.",
        "It is still running. Ask again when told.",
        "RFC 9110 15.3.3",
    ),
    *_repeats(Occasion.ANSWER, "none", _always, standing=_NOTHING),
    _nothing(
        "none.recover_items",
        lambda case: case.wants is Action.RECOVER_ITEMS and case.may_recover_items,
        Action.RECOVER_ITEMS,
        "Nothing happened; the items were refused for different reasons, so each is recovered by itself.",
        "Do not repeat the whole call. Mend each item by itself.",
        "law 10",
    ),
    _nothing(
        "none.repair",
        lambda case: case.wants is Action.REPAIR and not spent(case.facts, "repairs"),
        Action.REPAIR,
        "Nothing happened; the request has to change.",
        "Correct the named member and keep the intent. Never send the identical call again.",
        "law 11",
    ),
    _nothing(
        "none.repairs_ended",
        lambda case: case.wants is Action.REPAIR,
        Action.STOP,
        "Nothing happened, and the budget for repairs is used up.",
        "Report what was refused. Do not send the call again.",
        "law 9",
        None,
        Code.REPAIRS_ENDED,
    ),
    _nothing(
        "none.authorize",
        lambda case: case.wants is Action.AUTHORIZE,
        Action.AUTHORIZE,
        "Nothing happened; the permission for it is missing.",
        "Stop and say which permission is missing. Do not try another way around it.",
        "law 11",
    ),
    _nothing(
        "none.refresh",
        lambda case: case.wants is Action.REFRESH,
        Action.REFRESH,
        "Nothing happened; what the request builds on has changed.",
        "Read the present state first, then decide whether the call is still wanted.",
        "law 11",
    ),
    _nothing(
        "none.verify",
        lambda case: case.wants is Action.VERIFY and case.can_verify,
        Action.VERIFY,
        "Nothing was done; whether the goal is met already has to be looked at.",
        "Look at the present state before anything else.",
        "RFC 9110 15.5.5",
    ),
    _nothing(
        "none.look_again",
        lambda case: case.wants is Action.VERIFY and not spent(case.facts, "repairs"),
        Action.REPAIR,
        "Nothing was done; the address may be wrong, or what it named is gone already.",
        "Check the address, and whether what it named is gone already.",
        "RFC 9110 15.5.5",
    ),
    _nothing(
        "none.replace",
        lambda case: case.wants is Action.REPLACE,
        Action.REPLACE,
        "Nothing happened; what the request addresses is gone or elsewhere.",
        "Choose another target, or find the present address of this one.",
        "law 11",
    ),
    _nothing(
        "none.wait",
        lambda case: case.wants is Action.WAIT and not case.past_deadline,
        Action.WAIT,
        "Nothing happened; something else is using what the request addresses.",
        "Wait and ask again for this operation when told.",
        "RFC 4918 11.3",
    ),
    _nothing(
        "none.compare",
        lambda case: case.wants is Action.RECONCILE and (case.can_look or not case.in_ledger),
        Action.RECONCILE,
        "This request had no effect, but something of ours may exist already, so the owner is asked.",
        "Do not repeat the call. Look at what the owner holds first.",
        "law 2",
    ),
    _nothing(
        "none.items_to_recover",
        lambda case: case.keeps_items and case.may_recover_items and case.wants is not Action.DONE,
        Action.RECOVER_ITEMS,
        "Nothing happened; some items were refused for good, and others may be sent again by themselves.",
        _ASK_FOR_ITEMS,
        "law 10",
        FailureClass.PARTIAL,
        Code.PARTIAL_RESULT,
    ),
    _nothing(
        "none.stop",
        lambda case: case.wants is not Action.DONE,
        Action.STOP,
        "Nothing happened, and sending it again would be refused again.",
        "Explain why it was refused and offer the alternatives, if there are any.",
        "law 11",
    ),
    _nothing(
        "none.contradiction",
        _always,
        Action.STOP,
        "An answer says done, and it is proved that nothing happened: nothing more is sent.",
        _NOTHING_MORE,
        "law 2",
    ),
    _lookup(
        "lookup.items_to_recover",
        lambda case: case.keeps_items and case.may_recover_items and case.effect is not Effect.NONE,
        Action.RECOVER_ITEMS,
        "Some items may be sent again by themselves; those of which nobody knows stay out and are looked up.",
        _ASK_FOR_ITEMS,
        "laws 8 and 10",
        FailureClass.PARTIAL,
        Code.PARTIAL_RESULT,
    ),
    _lookup(
        "lookup.more_than_one",
        lambda case: case.grade is not None and case.grade.duplicate,
        Action.ESCALATE,
        "It may have happened more than once; a person has to look at each of them.",
        _A_PERSON,
        "law 7",
        FailureClass.VERIFICATION,
        Code.FOUND_TWICE,
    ),
    _lookup(
        "lookup.conflict",
        lambda case: case.grade is not None and case.grade.conflict,
        Action.ESCALATE,
        "The owner holds something under our key that is not what was intended; a person has to compare.",
        _A_PERSON,
        "law 7",
        FailureClass.STATE_CONFLICT,
        Code.CONFLICT,
    ),
    _lookup(
        "lookup.applied_to_be_checked",
        lambda case: case.effect is Effect.APPLIED and case.to_be_checked and case.contract.verify is not None,
        Action.VERIFY,
        "The owner holds it; whether the outcome is the intended one is checked next.",
        "It has happened. Do not repeat the call; the outcome is being checked.",
        "law 1",
        FailureClass.SUCCESS,
        Code.FOUND,
    ),
    _lookup(
        "lookup.applied",
        lambda case: case.effect is Effect.APPLIED,
        Action.DONE,
        "The owner holds what was intended.",
        "It is done. Do not repeat the call.",
        "law 3",
        FailureClass.SUCCESS,
        Code.FOUND,
    ),
    _lookup(
        "lookup.partial_for_good",
        lambda case: case.effect is Effect.PARTIAL and case.keeps_items,
        Action.ESCALATE,
        "The owner holds some items, and the others may not be sent again; a person has to close it.",
        _PARTLY_DONE,
        "laws 10 and 11",
        FailureClass.PARTIAL,
        Code.PARTIAL_RESULT,
    ),
    _lookup(
        "lookup.partial",
        lambda case: case.effect is Effect.PARTIAL,
        Action.RECOVER_ITEMS,
        "The owner holds some items and not others, so each is recovered by itself.",
        "Do not repeat the whole call. Recover each item that did not go through by itself.",
        "laws 8 and 11",
        FailureClass.PARTIAL,
        Code.PARTIAL_RESULT,
    ),
    *_repeats(Occasion.LOOKUP, "lookup.absent", lambda case: case.effect is Effect.NONE),
    _lookup(
        "lookup.limits_ended",
        lambda case: case.must_escalate,
        Action.ESCALATE,
        "The owner has not settled it, and the time or the budget for asking has ended.",
        _A_PERSON,
        "law 9",
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
        "law 7",
        _UNKNOWN,
        Code.LOOKUP_FAILED,
    ),
    _lookup(
        "lookup.not_settled",
        _always,
        Action.RECONCILE,
        "The owner's answer does not settle it yet; it is asked again.",
        _DO_NOT_REPEAT,
        "law 7",
        _UNKNOWN,
        Code.ABSENCE_NOT_PROVED,
    ),
    _lapse(
        "lapse.applied_before",
        lambda case: case.effect is Effect.APPLIED,
        Action.DONE,
        "An earlier answer proved it done; the missing report does not unsay that.",
        "It is done. Do not repeat the call.",
        "law 2",
        FailureClass.SUCCESS,
        Code.DONE,
    ),
    *_repeats(Occasion.LAPSE, "lapse.read", lambda case: case.is_read),
    _lapse(
        "lapse.items_to_recover",
        lambda case: case.keeps_items and case.may_recover_items,
        Action.RECOVER_ITEMS,
        "A permit ended with no report; of the other items some may be sent again by themselves meanwhile.",
        _ASK_FOR_ITEMS,
        "laws 8 and 14",
        FailureClass.PARTIAL,
        Code.PARTIAL_RESULT,
    ),
    _lapse(
        "lapse.limits_ended",
        lambda case: case.must_escalate,
        Action.ESCALATE,
        "A permit ended with no report, and the time or the budget for finding out has ended.",
        _A_PERSON,
        "laws 9 and 14",
    ),
    _lapse(
        "lapse.ask_the_owner",
        lambda case: case.can_look,
        Action.RECONCILE,
        "A permit ended with no report, so it may have been sent; the owner is asked.",
        _DO_NOT_REPEAT,
        "law 14",
    ),
    _lapse(
        "lapse.repeat_is_harmless",
        lambda case: case.may_send_again and not case.past_deadline and not case.can_look,
        Action.RETRY,
        "A permit ended with no report, there is no way to look it up, and the same request again cannot make a "
        "second effect.",
        _ASK_A_PERMIT,
        "law 8",
    ),
    _lapse(
        "lapse.owner_will_tell",
        lambda case: case.owner_tells,
        Action.WAIT,
        "A permit ended with no report, and it cannot be looked up. The owner tells by itself; a person is asked at the "
        "deadline if it has not.",
        _DO_NOT_REPEAT,
        "law 9",
    ),
    _lapse(
        "lapse.nobody_to_ask",
        lambda case: case.in_ledger,
        Action.ESCALATE,
        "A permit ended with no report, and the contract names no way to look it up.",
        _A_PERSON,
        "law 9",
        None,
        Code.NOBODY_TO_ASK,
    ),
    _lapse(
        "lapse.unknown",
        _always,
        Action.RECONCILE,
        "A permit ended with no report: look at the owner before anything else.",
        _DO_NOT_REPEAT,
        "law 14",
    ),
    _limit(
        "limit.nothing_happened",
        lambda case: case.nothing_happened,
        Action.STOP,
        "The time for it has ended and nothing happened.",
        "Report that it was not done in time. Do not repeat the call.",
        "law 9",
    ),
    _limit(
        "limit.applied",
        lambda case: case.effect is Effect.APPLIED,
        Action.DONE,
        "The time for it has ended, and it is done.",
        "It is done. Do not repeat the call.",
        "law 9",
        FailureClass.SUCCESS,
    ),
    _limit(
        "limit.unknown",
        _always,
        Action.ESCALATE,
        "The time or the budget for it has ended, and what happened is not known; a person is asked.",
        _A_PERSON,
        "law 9",
    ),
)


def _for(occasion: Occasion, standing: Standing) -> tuple[Rule, ...]:
    # A check that says nothing of its own is judged like any answer.
    on = (Occasion.CHECK, Occasion.ANSWER) if occasion is Occasion.CHECK else (occasion,)
    return tuple(rule for rule in RULES if rule.on in on and standing in rule.standing)


RULES_FOR: Final[Mapping[tuple[Occasion, Standing], tuple[Rule, ...]]] = MappingProxyType(
    {(occasion, standing): _for(occasion, standing) for occasion in Occasion for standing in Standing}
)
"""The same rules by what has happened and how the operation stands."""
