"""What does a check of the outcome say?

| checks                        | verification  | of the effect                          |
| ----------------------------- | ------------- | -------------------------------------- |
| every one as expected         | verified      | nothing: a check speaks of the check   |
| one differs                   | failed        | nothing                                |
| `failed`, or nothing was seen | unavailable   | nothing                                |

A value that was not seen (`seen` missing or null) is unavailable, never a difference.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from ledger.rules.contract import Contract
from ledger.rules.facts import AttemptFacts
from ledger.rules.payload import alike
from ledger.rules.vocabulary import Action, FailureClass, Speaker, Verification
from recovery.judgement.codes import Code
from recovery.judgement.documented import DONE, NOT_LISTED, Meaning
from recovery.judgement.readers import members
from recovery.judgement.readers.conclude import begin, conclude
from recovery.judgement.reading import ObservationInvalid, Reading

KIND = "verification"
_KNOWN = members.COMMON | {"checks", "failed"}
MOST_CHECKS: Final = 1_000

_VERIFIED = replace(NOT_LISTED, rule="check.as_intended", code=Code.CHECKED, source="law 1")
_DIFFERS = replace(
    NOT_LISTED, rule="check.differs", code=Code.CHECK_FAILED, failure_class=FailureClass.VERIFICATION, source="law 1"
)
_UNAVAILABLE = replace(_DIFFERS, rule="check.unavailable", code=Code.CHECK_UNAVAILABLE, remedy=Action.VERIFY)
_MEANINGS: Final[Mapping[Verification, Meaning]] = {
    Verification.VERIFIED: _VERIFIED,
    Verification.FAILED: _DIFFERS,
    Verification.UNAVAILABLE: _UNAVAILABLE,
}


def read(
    observation: Mapping[str, Any], *, contract: Contract, earlier: Sequence[AttemptFacts], now: datetime
) -> Reading:
    """Reads a `verification` observation.

    Raises:
        ObservationInvalid: a member of the wrong type, or a check without what it expects.
    """
    outcome = _outcome(observation)
    seen = begin(
        observation, kind=KIND, known=_KNOWN, contract=contract, earlier=earlier, now=now, speaker=Speaker.VERIFIER
    )
    seen = replace(seen, verification=outcome)
    if contract.is_read and outcome is Verification.VERIFIED:
        return conclude(DONE, seen)
    return conclude(_MEANINGS[outcome], seen)


def _outcome(observation: Mapping[str, Any]) -> Verification:
    failed = observation.get("failed")
    if failed is not None and not isinstance(failed, bool | str | Mapping):
        raise ObservationInvalid("failed", "must be an object that says why it failed.")
    checks = observation.get("checks")
    if checks is not None and not isinstance(checks, list):
        raise ObservationInvalid("checks", "must be a list.")
    unseen = bool(failed) or not checks
    differs = False
    for index, check in enumerate((checks or [])[:MOST_CHECKS]):
        if not isinstance(check, Mapping) or "expected" not in check:
            raise ObservationInvalid(f"checks[{index}]", "a check says what it expected and what it saw.")
        if check.get("seen") is None:
            unseen = unseen or check["expected"] is not None
        elif not alike(check["expected"], check["seen"]):
            differs = True
    if differs:
        return Verification.FAILED
    return Verification.UNAVAILABLE if unseen or len(checks or ()) > MOST_CHECKS else Verification.VERIFIED
