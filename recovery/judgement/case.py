"""What does a rule look at: what has just happened, and everything that is known beside it?"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from ledger.rules.budgets import spent
from ledger.rules.contract import Contract
from ledger.rules.contract_sections import LookupBy
from ledger.rules.evidence import Grade
from ledger.rules.facts import Facts, ItemFacts
from ledger.rules.items import to_recover
from ledger.rules.licences import may_repeat
from ledger.rules.replays import LAST_WORDS
from ledger.rules.senders import may_ascertain_send
from ledger.rules.vocabulary import Action, Effect, EffectKind, FailureClass, Guarantee, Licence, Verification
from recovery.judgement.reading import NOT_REQUESTS, Reading


class Occasion(StrEnum):
    """What has just happened."""

    ANSWER = "answer"
    CHECK = "check"
    LOOKUP = "lookup"
    LAPSE = "lapse"
    LIMIT = "limit"


class Standing(StrEnum):
    """How the operation stands: it is a read, or a write with this effect."""

    READ = "read"
    NONE = "none"
    PENDING = "pending"
    APPLIED = "applied"
    PARTIAL = "partial"
    UNKNOWN = "unknown"


_STANDINGS: Final = MappingProxyType({effect: Standing(effect.value) for effect in Effect})

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
"""The usual action of each failure class once it is certain that nothing happened."""

_REFUSED_FOR_GOOD: Final = frozenset(
    {
        FailureClass.BUSINESS_RULE,
        FailureClass.STATE_CONFLICT,
        FailureClass.INVALID_REQUEST,
        FailureClass.NOT_FOUND,
        FailureClass.FATAL,
    }
)


@dataclass(slots=True, kw_only=True)
class Case:
    """Everything a rule may look at. Nothing writes to it; it is not frozen because it lives for one decision, and
    freezing it would cost more than deciding."""

    occasion: Occasion
    facts: Facts
    """Before what has just happened, with its polls counted."""
    effect: Effect
    """Of the operation, after it."""
    is_read: bool
    contract: Contract
    now: datetime
    roll: float
    failure_class: FailureClass
    code: str
    reading: Reading | None = None
    asked_wait: timedelta | None = None
    """The wait that the reading tells of."""
    grade: Grade | None = None

    @property
    def standing(self) -> Standing:
        return Standing.READ if self.is_read else _STANDINGS[self.effect]

    @property
    def licence(self) -> Licence | None:
        """What would license a repeat now; None when nothing does. Found out when it is asked for."""
        if self.facts.items:
            return next(
                (item.licence for item in self.facts.items if item.outcome is None and item.licence is not None), None
            )
        found = may_repeat(facts=self.facts, contract=self.contract, now=self.now, joined=self.effect)
        return found if isinstance(found, Licence) else None

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
    def owner_tells(self) -> bool:
        """Nobody can be asked any more, but the owner tells by itself, and its word can still come before the deadline."""
        return self.in_ledger and self.contract.notice is not None and not self.can_look and not self.past_deadline

    @property
    def can_look(self) -> bool:
        """Whether the truth can still be learnt: a way exists, and `reconcile_until` has not passed. A replay is a way
        as long as it is licensed; a question without a ledger is not told that from here."""
        if not self.contract.lookup or not self._in_time_to_look:
            return False
        return self.can_ask or not self.in_ledger or self._can_replay

    @property
    def can_ask(self) -> bool:
        """Whether the owner can be asked in a way that sends nothing again: also once a person has been asked."""
        return self._in_time_to_look and any(rule.by is not LookupBy.REPLAY for rule in self.contract.lookup)

    @property
    def _in_time_to_look(self) -> bool:
        until = self.facts.reconcile_until
        return until is None or self.now < until

    @property
    def _can_replay(self) -> bool:
        licence = self.licence
        allowed = may_ascertain_send(facts=self.facts, contract=self.contract, licence=licence) is None
        return (
            licence is Licence.KEY_IN_WINDOW and allowed and self.code_read not in LAST_WORDS and not self.past_deadline
        )

    @property
    def can_verify(self) -> bool:
        return self.contract.verify is not None or not self.in_ledger

    @property
    def past_deadline(self) -> bool:
        return self.facts.deadline_at is not None and self.now >= self.facts.deadline_at

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
        return self.reading is None or self.reading.effect is Effect.UNKNOWN

    @property
    def code_read(self) -> str:
        """The code of what was just read; empty when nothing was."""
        return "" if self.reading is None else self.reading.code

    @property
    def of_a_request(self) -> bool:
        """Whether a request was reported, rather than a poll, a lookup or a check of an earlier one."""
        return self.reading is None or self.reading.kind not in NOT_REQUESTS

    @property
    def repeats_may_add_up(self) -> bool:
        """Another request of this operation may have had an effect too, and nothing keeps the two from adding up."""
        if self.facts.items:
            return any(
                item.outcome is None and item.effect is Effect.APPLIED and _compares(item) for item in self.facts.items
            )
        if self.contract.idempotency.guarantee is not Guarantee.NONE or self.reading is None:
            return False
        others = sum(attempt.effect is not Effect.NONE for attempt in self.facts.attempts)
        return self.reading.effect is Effect.APPLIED and (others > 1 or self.reading.network_attempts > 1)

    @property
    def contradicts_refusal(self) -> bool:
        """The same unchanged request was refused for good before; now the owner says that it is running."""
        return any(
            attempt.effect is Effect.NONE
            and attempt.revision == self.facts.revision
            and attempt.failure_class in _REFUSED_FOR_GOOD
            for attempt in self.facts.attempts
        )

    @property
    def check(self) -> Verification | None:
        """What a check of the outcome just said; None when this was none, or a read's."""
        return None if self.reading is None or self.is_read else self.reading.verification

    @property
    def checks_ended(self) -> bool:
        """No further check of the outcome is to be waited for: their budget is used up, or a person was asked already."""
        return self.in_ledger and (spent(self.facts, "checks") or self.facts.escalated)

    @property
    def may_look_before_asking(self) -> bool:
        """Whether the owner's own record can be looked at before a person is asked about a difference."""
        return self.effect is Effect.APPLIED and self.can_look and not self.checks_ended and not self.must_escalate

    @property
    def has_items(self) -> bool:
        """Whether parts of it can be recovered one by one: a batch, or a question without a ledger."""
        return self.facts.kind is EffectKind.BATCH or not self.in_ledger

    @property
    def may_recover_items(self) -> bool:
        """Whether the harness has something to do about single items; always where nobody keeps them."""
        return self.has_items and (not self.keeps_items or to_recover(self.facts.items) > 0)

    @property
    def keeps_items(self) -> bool:
        """Whether the ledger follows this batch item by item, each with its own decision."""
        return bool(self.facts.items)

    @property
    def to_be_checked(self) -> bool:
        """The contract wants the outcome verified, or what was seen asks for a check."""
        wanted = self.contract.verify is not None and self.facts.verification is not Verification.VERIFIED
        return wanted or self.failure_class is FailureClass.VERIFICATION

    @property
    def must_escalate(self) -> bool:
        """The effect is open and a limit has ended, or a person was asked already and has not answered."""
        if self.is_read or not self.in_ledger:
            return False
        polls_ended = bool(self.contract.lookup) and spent(self.facts, "polls")
        return self.facts.escalated or self.past_deadline or polls_ended

    def says(self, effect: Effect) -> bool:
        """Whether the reading itself says this of its attempt."""
        return self.reading is not None and self.reading.effect is effect


def _compares(item: ItemFacts) -> bool:
    return item.decision is not None and item.decision.recovery_action is Action.RECONCILE
