"""Who may say what of an effect, and when does "not found" mean that it is not there?

Who may assert what (`unknown` claims nothing, so anybody may say it; a proof must be of a kind that its speaker has):

| speaker        | none                                        | pending        | applied, partial              |
| -------------- | ------------------------------------------- | -------------- | ----------------------------- |
| harness        | not sent, refused, contract rule            | match, result  | match, result (never partial) |
| gateway        | not sent, refused, contract rule            | –              | –                             |
| owner's answer | not sent, refused, contract rule, result    | with any, none | result, contract rule         |
| owner's status | lookup match, graded absence                | with any, none | lookup match                  |
| owner's index  | –                                           | lookup match   | lookup match (never partial)  |
| owner's notice | result, contract rule, refused, match       | with any, none | result, contract rule, match  |
| operator       | attested                                    | attested       | attested                      |
| verifier, tool text, ledger | –                              | –              | –                             |

Absence is graded: a `no_match` becomes `none` only when every line of `CONDITIONS` holds.

What each kind of lookup may say, where the contract calls it authoritative:

| by                             | applied, pending | none by what it found                 | none by absence          |
| ------------------------------ | ---------------- | ------------------------------------- | ------------------------ |
| status, mcp_tool, sql          | on a match       | for the attempts with this key        | graded                   |
| search, list (never authoritative) | on a match   | –                                     | –                        |
| operation, mcp_task, postgres_xact | on a match   | for the one attempt with this handle  | –: a handle expires      |

Where it is not authoritative, a match says applied or pending, and nothing says none. More than one match, or a match
that is not what was meant, is a conflict for a person. A match not by an exact key (lookup_keys.py) says nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Final

from ledger.rules.contract_sections import ASKED_BY_HANDLE, PAGED, LookupRule
from ledger.rules.facts import AttemptFacts, Facts, LookupFacts
from ledger.rules.lookup_keys import asks_by_handle, asks_by_operation_id
from ledger.rules.vocabulary import Effect, EffectKind, LookupOutcome, Proof, Speaker, Visibility

_UNPROVED: Final = frozenset[Proof | None]({None})
_FROM_THE_OWNER: Final = frozenset[Proof | None]({Proof.OWNER_RESULT, Proof.CONTRACT_RULE})
_NOT_REACHED: Final = frozenset[Proof | None]({Proof.NOT_SENT, Proof.REFUSED, Proof.CONTRACT_RULE})
_MATCH: Final = frozenset[Proof | None]({Proof.LOOKUP_MATCH})
_ATTESTED: Final = frozenset[Proof | None]({Proof.ATTESTED})

MAY_ASSERT: Final[Mapping[Speaker, Mapping[Effect, frozenset[Proof | None]]]] = MappingProxyType(
    {
        Speaker.HARNESS: {
            Effect.NONE: _NOT_REACHED,
            Effect.PENDING: _MATCH | {Proof.OWNER_RESULT},
            Effect.APPLIED: _MATCH | {Proof.OWNER_RESULT},
        },
        Speaker.GATEWAY: {Effect.NONE: _NOT_REACHED},
        Speaker.OWNER_ANSWER: {
            Effect.NONE: _NOT_REACHED | {Proof.OWNER_RESULT},
            Effect.PENDING: _FROM_THE_OWNER | _UNPROVED,
            Effect.APPLIED: _FROM_THE_OWNER,
            Effect.PARTIAL: _FROM_THE_OWNER,
        },
        Speaker.OWNER_STATUS: {
            Effect.NONE: _MATCH | {Proof.GRADED_ABSENCE},
            Effect.PENDING: _MATCH | _UNPROVED,
            Effect.APPLIED: _MATCH,
            Effect.PARTIAL: _MATCH,
        },
        Speaker.OWNER_INDEX: {Effect.PENDING: _MATCH, Effect.APPLIED: _MATCH},
        Speaker.OWNER_NOTICE: {
            Effect.NONE: _FROM_THE_OWNER | _MATCH | {Proof.REFUSED},
            Effect.PENDING: _FROM_THE_OWNER | _MATCH | _UNPROVED,
            Effect.APPLIED: _FROM_THE_OWNER | _MATCH,
            Effect.PARTIAL: _FROM_THE_OWNER | _MATCH,
        },
        Speaker.OPERATOR: {
            Effect.NONE: _ATTESTED,
            Effect.PENDING: _ATTESTED,
            Effect.APPLIED: _ATTESTED,
            Effect.PARTIAL: _ATTESTED,
        },
        Speaker.VERIFIER: {},
        Speaker.TOOL_TEXT: {},
        Speaker.LEDGER: {},
    }
)
"""With which proofs a speaker may assert an effect. What is not listed may not be said."""

_WITHOUT_A_HANDLE: Final = frozenset({Proof.NOT_SENT, Proof.REFUSED})
"""An attempt that ended so was handed nothing out."""
_LEAST_CERTAIN_FIRST: Final = (Effect.UNKNOWN, Effect.PENDING, Effect.PARTIAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """What one lookup entitles us to say."""

    outcome: LookupOutcome
    effect: Effect | None
    """None: it says nothing of the effect."""
    proof: Proof | None
    clean_reads: int
    """Counting `no_match` answers in a row, this one included; 0 when this one does not count."""
    absence_since: datetime | None
    """When the first of them started."""
    absent: bool
    """Proved absent: every condition holds, for enough reads in a row."""
    conflict: bool
    """Something is there that is not what we meant, or more than one thing: a person must look."""
    duplicate: bool = False
    """It is more than one thing: it may have happened more than once."""
    reasons: tuple[str, ...]
    """Plain sentences: why it counts, or each thing that keeps it from counting."""
    earliest_useful_at: datetime | None
    """When a `no_match` could first count; None when the contract states no lag or nothing was ever dispatched."""


def may_assert(*, speaker: Speaker, effect: Effect, proof: Proof | None) -> bool:
    """Whether this speaker may say this of an effect with this proof. `unknown` may always be said."""
    if effect is Effect.UNKNOWN:
        return True
    return proof in MAY_ASSERT[speaker].get(effect, frozenset())


def join_effects(*, attempts: Sequence[AttemptFacts], absence_since: datetime | None, kind: EffectKind) -> Effect:
    """The operation's effect: the join over all its permitted attempts.

    `applied` if any is; `none` only if every one is proved none, or a *graded* absence started after the last one's
    possible end; otherwise the least certain. Reads and operations that were never dispatched have none.

    `absence_since` is the start of an absence that was graded (`Grade.absent`), never of reads that still count.
    """
    if kind is EffectKind.READ or not attempts:
        return Effect.NONE
    effects = {attempt.effect for attempt in attempts}
    if Effect.APPLIED in effects:
        return Effect.APPLIED
    if absence_since is not None and all(absence_since > attempt.lapses_at for attempt in attempts):
        return Effect.NONE
    return next((effect for effect in _LEAST_CERTAIN_FIRST if effect in effects), Effect.NONE)


def grade_lookup(*, lookup: LookupFacts, rule: LookupRule, facts: Facts) -> Grade:
    """Grades one answer of the owner against the contract's rule and what the ledger held before it."""
    outcome = LookupOutcome(lookup.answer)
    if outcome is LookupOutcome.FOUND:
        return _found(lookup=lookup, rule=rule, facts=facts)
    if outcome is LookupOutcome.NO_MATCH:
        return _no_match(lookup=lookup, rule=rule, facts=facts)
    why = f" ({lookup.reason})" if lookup.reason else ""
    if outcome is LookupOutcome.LOOKUP_FAILED:
        reason = f"The lookup failed{why}. That says nothing of the effect, and the count of clean reads starts again."
    else:
        reason = f"The answer settles nothing{why}. The count of clean reads starts again."
    return _grade(outcome, rule=rule, facts=facts, reasons=(reason,))


def _found(*, lookup: LookupFacts, rule: LookupRule, facts: Facts) -> Grade:
    if not lookup.exact_key:
        reason = "Something was found, but not by this operation's exact key: it may be another's."
        return _grade(LookupOutcome.INCONCLUSIVE, rule=rule, facts=facts, reasons=(reason,))
    if lookup.matches > 1:
        reason = f"{lookup.matches} objects match: there may be a duplicate. A person must look."
        twice = _grade(
            LookupOutcome.FOUND, rule=rule, facts=facts, effect=Effect.UNKNOWN, conflict=True, reasons=(reason,)
        )
        return replace(twice, duplicate=True)
    if lookup.differs:
        members = ", ".join(member for member, _, _ in lookup.differs)
        reason = f"What was found differs from what was meant in {members}. A person must look."
        return _grade(
            LookupOutcome.FOUND, rule=rule, facts=facts, effect=Effect.UNKNOWN, conflict=True, reasons=(reason,)
        )
    effect = lookup.effect if lookup.effect is not None else (Effect.APPLIED if rule.effect is None else None)
    if effect is None or effect is Effect.UNKNOWN:
        reason = "It was found, but what it says of the effect is not in the contract."
        return _grade(LookupOutcome.INCONCLUSIVE, rule=rule, facts=facts, reasons=(reason,))
    if not may_assert(speaker=_speaker(lookup, rule), effect=effect, proof=Proof.LOOKUP_MATCH):
        reason = f"It was found and says {effect}, but a source of this kind may not say so."
        return _grade(LookupOutcome.INCONCLUSIVE, rule=rule, facts=facts, reasons=(reason,))
    if effect is Effect.NONE and not _same_key(facts):
        reason = "The owner refused one attempt, but earlier attempts carried another key; it says nothing of them."
        return _grade(LookupOutcome.INCONCLUSIVE, rule=rule, facts=facts, reasons=(reason,))
    if effect is Effect.NONE and not _speaks_for_all(lookup, rule, facts):
        reason = "The owner says that one request had no effect, but not which of several; the others may have had one."
        return _grade(LookupOutcome.INCONCLUSIVE, rule=rule, facts=facts, reasons=(reason,))
    return _grade(
        LookupOutcome.FOUND,
        rule=rule,
        facts=facts,
        effect=effect,
        proof=Proof.LOOKUP_MATCH,
        reasons=(f"Found by its exact key: the owner says {effect}.",),
    )


def _no_match(*, lookup: LookupFacts, rule: LookupRule, facts: Facts) -> Grade:
    keeps = tuple(sentence for holds, sentence in CONDITIONS if not holds(lookup, rule, facts))
    if keeps:
        return _grade(LookupOutcome.NO_MATCH, rule=rule, facts=facts, reasons=keeps)
    since, earlier = lookup.started_at, 0
    useful = _useful_from(rule, facts)
    # Reads that began before the present last attempt could have ended belong to another row.
    if facts.absence_since is not None and (useful is None or facts.absence_since > useful):
        since, earlier = facts.absence_since, facts.clean_reads
    reads = earlier + 1
    absent = reads >= rule.clean_reads
    reason = (
        f"Not there: read {_times(reads)} in a row by its exact key, completely, by somebody who can see it, "
        "after the last attempt's possible end and the owner's lag."
        if absent
        else f"Not there so far: {reads} of {rule.clean_reads} clean reads in a row. It is looked up again."
    )
    return _grade(
        LookupOutcome.NO_MATCH,
        rule=rule,
        facts=facts,
        effect=Effect.NONE if absent else None,
        proof=Proof.GRADED_ABSENCE if absent else None,
        clean_reads=reads,
        absence_since=since,
        reasons=(reason,),
    )


def _grade(
    outcome: LookupOutcome,
    *,
    rule: LookupRule,
    facts: Facts,
    reasons: tuple[str, ...],
    effect: Effect | None = None,
    proof: Proof | None = None,
    clean_reads: int = 0,
    absence_since: datetime | None = None,
    conflict: bool = False,
) -> Grade:
    return Grade(
        outcome=outcome,
        effect=effect,
        proof=proof,
        clean_reads=clean_reads,
        absence_since=absence_since,
        absent=proof is Proof.GRADED_ABSENCE,
        conflict=conflict,
        reasons=reasons,
        earliest_useful_at=_useful_from(rule, facts),
    )


def _speaker(lookup: LookupFacts, rule: LookupRule) -> Speaker:
    if not lookup.by_ascertain:
        return Speaker.HARNESS
    authoritative = lookup.authoritative and rule.authoritative and rule.by not in PAGED
    return Speaker.OWNER_STATUS if authoritative else Speaker.OWNER_INDEX


def _useful_from(rule: LookupRule, facts: Facts) -> datetime | None:
    """After this moment a `no_match` can count."""
    if rule.lag is None or not facts.attempts:
        return None
    return max(attempt.lapses_at for attempt in facts.attempts) + rule.lag


def _started_late_enough(lookup: LookupFacts, rule: LookupRule, facts: Facts) -> bool:
    useful = _useful_from(rule, facts)
    return rule.lag is not None and (useful is None or lookup.started_at > useful)


def _can_see(lookup: LookupFacts, rule: LookupRule, facts: Facts) -> bool:
    sees = {lookup.sees, rule.sees}
    if sees == {Visibility.ALL}:
        return True
    if sees <= {Visibility.ALL, Visibility.OWN}:
        return all(attempt.principal == lookup.principal for attempt in _open(facts))
    return False


def _one_key(_lookup: LookupFacts, rule: LookupRule, facts: Facts) -> bool:
    """Whether the key that was looked up is that of every open attempt."""
    return asks_by_operation_id(rule) or _same_key(facts)


def _same_key(facts: Facts) -> bool:
    return len({attempt.idempotency_key for attempt in _open(facts)}) <= 1


def _speaks_for_all(_lookup: LookupFacts, rule: LookupRule, facts: Facts) -> bool:
    """Whether an answer speaks for every open attempt: a handle does for the one alone that it was handed out for.

    Which one that was is certain only when no other attempt can have been given one, and when the attempt was a single
    request: what an SDK repeats by itself is handed out something each time, and only the last is told.
    """
    if not asks_by_handle(rule):
        return True
    if any(attempt.network_attempts > 1 for attempt in _open(facts)):
        return False
    others = [attempt for attempt in facts.attempts if attempt.effect is Effect.NONE]
    return len(_open(facts)) <= 1 and all(attempt.proof in _WITHOUT_A_HANDLE for attempt in others)


def _open(facts: Facts) -> tuple[AttemptFacts, ...]:
    return tuple(attempt for attempt in facts.attempts if attempt.effect is not Effect.NONE)


def _times(reads: int) -> str:
    return "once" if reads == 1 else f"{reads} times"


CONDITIONS: Final[tuple[tuple[Callable[[LookupFacts, LookupRule, Facts], bool], str], ...]] = (
    (
        lambda lookup, _rule, _facts: lookup.by_ascertain,
        "It does not count: a harness reported it, and only Ascertain's own lookup can prove absence.",
    ),
    (
        lambda lookup, _rule, _facts: lookup.exact_key,
        "It does not count: it was not looked up by this operation's exact key.",
    ),
    (
        lambda lookup, rule, _facts: lookup.authoritative and rule.authoritative and rule.by not in PAGED,
        "It does not count: this source is not the authority; an index may lag.",
    ),
    (
        lambda _lookup, rule, _facts: rule.by not in ASKED_BY_HANDLE,
        "It does not count: a handle that the owner does not know may have expired.",
    ),
    (
        lambda lookup, _rule, _facts: lookup.complete,
        "It does not count: not every page was read, or the answer was cut short.",
    ),
    (
        lambda lookup, _rule, _facts: lookup.matches == 0,
        "It does not count: the answer says that nothing matches, and shows a match.",
    ),
    (
        _can_see,
        "It does not count: it is not proved that who asked can see the object; an owner may answer "
        "'not found' for 'not yours'.",
    ),
    (
        _one_key,
        "It does not count: earlier attempts carried another key, and this lookup says nothing of them.",
    ),
    (
        _speaks_for_all,
        "It does not count: it was asked by what one attempt was given, and there were other attempts.",
    ),
    (
        _started_late_enough,
        "It does not count yet: it started before the last attempt's possible end plus the owner's lag.",
    ),
)
"""Every condition of absence but the count of clean reads, each with the sentence for when it does not hold."""
