"""What does a lookup that somebody reports say of the effect?

| what was found                                   | reported by a harness   | stated to `/classify` and `judge`        |
| ------------------------------------------------ | ----------------------- | ---------------------------------------- |
| one, by the exact key                            | applied                 | applied                                  |
| more than one                                    | applied, perhaps twice  | likewise                                 |
| one, not by the exact key                        | unknown: may be another's | likewise                               |
| none, incomplete, from an index, or too early    | unknown                 | unknown                                  |
| none, and every condition of absence holds       | unknown                 | none: only then is an absence proved     |
| the lookup failed                                | unknown                 | unknown                                  |

Ascertain's own lookups do not come this way: they are graded by `ledger.rules.evidence` with the contract at hand.
The conditions of an absence are those; here the contract must state the lookup's `lag`, and the observation when
it began or how long ago the request was sent (`age_s`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from ledger.rules.contract import Contract
from ledger.rules.contract_sections import LookupBy, LookupRule
from ledger.rules.expressions import Context
from ledger.rules.facts import AttemptFacts
from ledger.rules.vocabulary import Action, Effect, FailureClass, Proof, Speaker, Visibility
from recovery.judgement.codes import Code
from recovery.judgement.documented import DONE, NOT_LISTED, PARTIAL, Meaning
from recovery.judgement.readers import members
from recovery.judgement.readers.conclude import Seen, begin, by_contract, conclude
from recovery.judgement.reading import ObservationInvalid, Reading
from recovery.judgement.waits import moment, wait_in

KIND = "lookup"
_KNOWN = members.COMMON | {
    "lookup", "exact_key", "matches", "complete", "age_s", "started_at", "principal", "pages", "index_revision",
    "stop_reason", "failed",
}  # fmt: skip
_WAYS: Final = frozenset({"by_key", "status", "search", "list"})
_INDEXES: Final = frozenset({"search", "list"})

_FOUND = Meaning(
    rule="lookup.exact_match",
    failure_class=FailureClass.SUCCESS,
    effect=Effect.APPLIED,
    code=Code.FOUND,
    source="law 3: an exact match at the owner",
    proof=Proof.LOOKUP_MATCH,
)
_TWICE = replace(
    _FOUND,
    rule="lookup.more_than_one",
    failure_class=FailureClass.VERIFICATION,
    code=Code.FOUND_TWICE,
    remedy=Action.RECONCILE,
)
_FAILED = replace(NOT_LISTED, rule="lookup.failed", code=Code.LOOKUP_FAILED, source="law 7")
_NOT_OURS = replace(NOT_LISTED, rule="lookup.not_by_our_key", code=Code.ABSENCE_NOT_PROVED, source="law 7")
_UNPROVED = replace(_NOT_OURS, rule="lookup.absence_not_proved")
_ABSENT = Meaning(
    rule="lookup.absent",
    failure_class=FailureClass.TRANSIENT,
    effect=Effect.NONE,
    code=Code.ABSENT,
    source="law 7",
    proof=Proof.GRADED_ABSENCE,
)


def read(
    observation: Mapping[str, Any], *, contract: Contract, earlier: Sequence[AttemptFacts], now: datetime
) -> Reading:
    """Reads a `lookup` observation that arrived with a harness's token.

    Raises:
        ObservationInvalid: a member of the wrong type.
    """
    return _read(observation, contract=contract, earlier=earlier, now=now, trusted=False)


def read_trusted(
    observation: Mapping[str, Any], *, contract: Contract, earlier: Sequence[AttemptFacts], now: datetime
) -> Reading:
    """Reads a `lookup` observation whose stated speaker is believed: `/classify` and `judge`.

    Raises:
        ObservationInvalid: a member of the wrong type.
    """
    return _read(observation, contract=contract, earlier=earlier, now=now, trusted=True)


def _read(
    observation: Mapping[str, Any],
    *,
    contract: Contract,
    earlier: Sequence[AttemptFacts],
    now: datetime,
    trusted: bool,
) -> Reading:
    way = members.text(observation, "lookup")
    if way is not None and way not in _WAYS:
        raise ObservationInvalid("lookup", f"must be one of {', '.join(sorted(_WAYS))}.")
    exact = members.flag(observation, "exact_key") is True
    matches = members.whole_number(observation, "matches", least=0, most=2**53)
    complete = _complete(observation)
    failed = observation.get("failed")
    if failed is not None and not isinstance(failed, bool | str | Mapping):
        raise ObservationInvalid("failed", "must be an object that says why it failed.")
    principal = members.text(observation, "principal")
    members.text(observation, "stop_reason")
    began = _began(observation)
    speaker = Speaker.HARNESS
    if trusted:
        speaker = Speaker.OWNER_INDEX if way in _INDEXES or way is None else Speaker.OWNER_STATUS
    seen = begin(observation, kind=KIND, known=_KNOWN, contract=contract, earlier=earlier, now=now, speaker=speaker)
    seen = replace(seen, wait=wait_in(failed) if isinstance(failed, Mapping) else None)
    context = Context.answer(speaker=speaker, error=failed if isinstance(failed, Mapping) else None)
    ruled = by_contract(context, seen)
    if ruled is not None:
        return ruled
    if contract.is_read:
        return _of_a_read(seen, failed=bool(failed), matches=matches, complete=complete)
    if failed or matches is None:
        return conclude(_FAILED, seen)
    if matches > 0:
        if not exact:
            return conclude(_NOT_OURS, seen)
        return conclude(_FOUND if matches == 1 else _TWICE, seen)
    absent = trusted and exact and complete and _absence_counts(way, contract, earlier, began=began, asker=principal)
    return conclude(_ABSENT if absent else _UNPROVED, seen)


def _of_a_read(seen: Seen, *, failed: bool, matches: int | None, complete: bool) -> Reading:
    """Nothing is lost when it is asked again; an empty answer to a whole reading is an answer."""
    if failed or matches is None:
        return conclude(_FAILED, seen)
    return conclude(DONE, seen) if complete or matches else conclude(PARTIAL, seen, remedy=Action.RETRY)


def _complete(observation: Mapping[str, Any]) -> bool:
    """Whether everything was read: it says so, and its own pages do not say otherwise."""
    stated = members.flag(observation, "complete")
    pages = observation.get("pages")
    if pages is None:
        return stated is True
    if not isinstance(pages, list):
        raise ObservationInvalid("pages", "must be a list.")
    cursors: list[Any] = []
    for page in pages[:10_000]:
        if not isinstance(page, Mapping):
            raise ObservationInvalid("pages", "every page must be an object.")
        if page.get("truncated") is True:
            return False
        cursor = page.get("cursor")
        if cursor is not None:
            # A cursor that comes back means that the same page was read again, and others were not.
            if cursor in cursors:
                return False
            cursors.append(cursor)
    last = pages[-1] if pages else {}
    return stated is not False and bool(pages) and last.get("next_cursor") in (None, "")


def _began(observation: Mapping[str, Any]) -> tuple[datetime | None, timedelta | None]:
    """When the lookup began, and how long before it the request was sent, as far as both are stated."""
    started = members.text(observation, "started_at")
    age = observation.get("age_s")
    if age is not None and (isinstance(age, bool) or not isinstance(age, int | float)):
        raise ObservationInvalid("age_s", "must be a number of seconds.")
    waited = timedelta(seconds=min(float(age), 1e9)) if age is not None and age >= 0 else None
    return (moment(started) if started is not None else None), waited


def _absence_counts(
    way: str | None,
    contract: Contract,
    earlier: Sequence[AttemptFacts],
    *,
    began: tuple[datetime | None, timedelta | None],
    asker: str | None,
) -> bool:
    rule = next((rule for rule in contract.lookup if rule.by is LookupBy.STATUS), None)
    if rule is None or way in _INDEXES or way is None or not rule.authoritative or rule.lag is None:
        return False
    if rule.clean_reads > 1 or not _can_see(rule, earlier, asker):
        return False
    started, waited = began
    longest = contract.dispatch_within + contract.timeout + rule.lag
    if waited is not None:
        return waited > longest
    return (
        started is not None
        and bool(earlier)
        and all(
            started > max(attempt.lapses_at, attempt.opened_at + contract.timeout) + rule.lag for attempt in earlier
        )
    )


def _can_see(rule: LookupRule, earlier: Sequence[AttemptFacts], asker: str | None) -> bool:
    if rule.sees is Visibility.ALL:
        return True
    open_ones = [attempt for attempt in earlier if attempt.effect is not Effect.NONE]
    return rule.sees is Visibility.OWN and asker is not None and all(each.principal == asker for each in open_ones)
