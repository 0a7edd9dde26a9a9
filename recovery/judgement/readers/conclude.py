"""What may be concluded for this attempt from what a signal means?

A meaning from a table or a contract's rule passes these guards before it becomes a reading:

| guard                                                             | then                                           |
| ----------------------------------------------------------------- | ---------------------------------------------- |
| the tool reads                                                    | no effect to lose: none, and unknown = transient |
| the speaker may not say it (law 3)                                | unknown; the contract's claim is a violation   |
| several requests stand behind one report, and the last was refused | unknown: the refusal speaks for the last alone |
| it may be our own earlier effect that is in the way (409, 412, 404) | unknown: compare first; unless it is that request's own answer |
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as member
from datetime import datetime, timedelta
from typing import Any

from ledger.rules.contract import Contract
from ledger.rules.contract_compiled import CompiledError
from ledger.rules.evidence import may_assert
from ledger.rules.expressions import Context
from ledger.rules.facts import AttemptFacts
from ledger.rules.vocabulary import Action, Effect, FailureClass, Phase, Proof, Request, Speaker, Verification
from recovery.judgement.codes import Code
from recovery.judgement.documented import Meaning
from recovery.judgement.error_bodies import ErrorBody
from recovery.judgement.readers import members
from recovery.judgement.reading import ItemReading, Reading, Scalar
from recovery.judgement.waits import Wait, moment

_CLOCKS_DIFFER = timedelta(minutes=5)


@dataclass(slots=True, kw_only=True)
class Seen:
    """What a reader knows beside the meaning. Nothing writes to it; it is not frozen because it lives for one reading,
    and freezing it would cost more than most of that."""

    kind: str
    contract: Contract
    earlier: Sequence[AttemptFacts]
    speaker: Speaker
    phase: Phase | None = None
    network_attempts: int = 1
    replayed: bool = False
    """The owner says that this answer is an earlier request's."""
    wait: Wait | None = None
    field: str | None = None
    body: ErrorBody | None = None
    """Where a rejected member may be named; looked at only when one was rejected."""
    owner_code: str | None = None
    receipt: Mapping[str, Scalar] = member(default_factory=dict)
    items: tuple[ItemReading, ...] = ()
    verification: Verification | None = None
    quoted: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    violations: tuple[str, ...] = ()

    @property
    def rejected(self) -> str | None:
        """The rejected member, as a path into the call."""
        return self.field or (self.body.field if self.body is not None else None)

    @property
    def ours_is_open(self) -> bool:
        """Whether an earlier request of this operation may have had an effect."""
        return self.network_attempts > 1 or any(attempt.effect is not Effect.NONE for attempt in self.earlier)


@dataclass(slots=True, kw_only=True)
class _Claim:
    """A meaning on its way through the guards. Not frozen, for the reason of `Seen`."""

    rule: str
    failure_class: FailureClass
    effect: Effect
    proof: Proof | None
    code: str
    remedy: Action | None
    field: str | None
    hint: str | None = None
    alternatives: tuple[Scalar, ...] = ()
    violations: tuple[str, ...] = ()
    foreign_only: bool = False


def begin(
    observation: Mapping[str, Any],
    *,
    kind: str,
    known: frozenset[str],
    contract: Contract,
    earlier: Sequence[AttemptFacts],
    now: datetime,
    speaker: Speaker,
    phase: Phase | None = None,
) -> Seen:
    """What every kind begins with: its common members checked, and which of its members are read.

    Raises:
        ObservationInvalid: a common member of the wrong type.
    """
    members.mapping(observation, "request")
    observed_at = members.text(observation, "observed_at")
    looked_at, unread = members.split(observation, known)
    return Seen(
        kind=kind,
        contract=contract,
        earlier=earlier,
        speaker=speaker,
        phase=phase,
        network_attempts=members.network_attempts(observation),
        read=looked_at,
        unread=unread,
        violations=_of_its_time(observed_at, now),
    )


def _of_its_time(observed_at: str | None, now: datetime) -> tuple[str, ...]:
    if not observed_at:
        return ()
    at = moment(observed_at)
    if at is None:
        return ("observed_at is not a time with an offset.",)
    return ("observed_at lies ahead of our clock.",) if at - now > _CLOCKS_DIFFER else ()


def conclude(meaning: Meaning, seen: Seen, *, remedy: Action | None = None) -> Reading:
    """The reading for a row of the default tables. `remedy` replaces the row's own."""
    return _guarded(
        _Claim(
            rule=meaning.rule,
            failure_class=meaning.failure_class,
            effect=meaning.effect,
            proof=meaning.proof,
            code=meaning.code,
            remedy=remedy or meaning.remedy,
            field=seen.rejected or meaning.field if meaning.failure_class is FailureClass.INVALID_REQUEST else None,
            foreign_only=meaning.foreign_only,
        ),
        seen,
    )


def by_contract(context: Context, seen: Seen) -> Reading | None:
    """The reading for the contract's first error rule that fits; None when none does."""
    for index, error in enumerate(seen.contract.compiled.errors):
        if error.when.holds(context):
            return _by_error_rule(index, error, context, seen)
    return None


def _by_error_rule(index: int, error: CompiledError, context: Context, seen: Seen) -> Reading:
    rule = error.rule
    return _guarded(
        _Claim(
            rule=f"contract.errors[{index}]",
            failure_class=rule.failure_class,
            effect=rule.effect,
            proof=None if rule.effect is Effect.UNKNOWN else Proof.CONTRACT_RULE,
            code=rule.code or Code.CONTRACT_RULE,
            remedy=None,
            field=rule.field or (seen.rejected if rule.failure_class is FailureClass.INVALID_REQUEST else None),
            hint=error.hint.told(context) if error.hint is not None else None,
            alternatives=error.legal_alternatives(context),
        ),
        seen,
    )


def _guarded(claim: _Claim, seen: Seen) -> Reading:
    if seen.contract.is_read:
        return _reading(_of_a_read(claim), seen)
    if not may_assert(speaker=seen.speaker, effect=claim.effect, proof=claim.proof):
        said = f"{claim.rule} claims {claim.effect}, which {seen.speaker.value.replace('_', ' ')} cannot know."
        return _reading(_unknown(rule=claim.rule, code=Code.CLAIM_REFUSED, violations=(said,)), seen)
    if claim.effect is Effect.NONE and seen.network_attempts > 1:
        return _reading(_unknown(rule=f"{claim.rule}.after_our_own_requests"), seen)
    if claim.effect is Effect.NONE and claim.foreign_only and seen.ours_is_open and not seen.replayed:
        # That the key is known from other contents is worth knowing whoever is in the way.
        code = claim.code if claim.code == Code.KEY_REUSED else Code.EARLIER_ATTEMPT_OPEN
        return _reading(_unknown(rule=f"{claim.rule}.perhaps_ours", code=code, remedy=Action.RECONCILE), seen)
    return _reading(claim, seen)


def _of_a_read(claim: _Claim) -> _Claim:
    unknown = claim.failure_class in (FailureClass.UNKNOWN_OUTCOME, FailureClass.VERIFICATION)
    return _Claim(
        rule=claim.rule,
        failure_class=FailureClass.TRANSIENT if unknown else claim.failure_class,
        effect=Effect.NONE,
        proof=None,
        code=claim.code,
        remedy=claim.remedy,
        field=claim.field,
        hint=claim.hint,
        alternatives=claim.alternatives,
    )


def _unknown(
    *, rule: str, code: str = Code.EARLIER_ATTEMPT_OPEN, violations: tuple[str, ...] = (), remedy: Action | None = None
) -> _Claim:
    return _Claim(
        rule=rule,
        failure_class=FailureClass.UNKNOWN_OUTCOME,
        effect=Effect.UNKNOWN,
        proof=None,
        code=code,
        remedy=remedy,
        field=None,
        violations=violations,
    )


def _reading(claim: _Claim, seen: Seen) -> Reading:
    return Reading(
        kind=seen.kind,
        speaker=seen.speaker,
        phase=seen.phase,
        failure_class=claim.failure_class,
        effect=claim.effect,
        proof=claim.proof,
        request=_request(claim, seen),
        rule=claim.rule,
        code=str(claim.code),
        remedy=claim.remedy,
        field=claim.field,
        hint=claim.hint,
        alternatives=claim.alternatives,
        owner_code=seen.owner_code,
        retry_after_ms=None if seen.wait is None else seen.wait.milliseconds,
        retry_after_raw=None if seen.wait is None else seen.wait.raw,
        network_attempts=seen.network_attempts,
        replayed=seen.replayed,
        receipt=seen.receipt,
        items=seen.items,
        verification=seen.verification,
        quoted=seen.quoted,
        read=seen.read,
        unread=seen.unread,
        violations=(*seen.violations, *claim.violations),
    )


def _request(claim: _Claim, seen: Seen) -> Request:
    if claim.proof is Proof.NOT_SENT:
        return Request.NOT_SENT
    if claim.failure_class is FailureClass.SUCCESS:
        return Request.ACCEPTED
    refused = claim.effect is Effect.NONE and seen.speaker is not Speaker.HARNESS
    return Request.REJECTED if refused else Request.ACCEPTED
