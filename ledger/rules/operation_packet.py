"""What is a person handed of one operation: what is established, with source and time, and what stays unverified?

| what the ledger holds                                      | stands under                                          |
| ---------------------------------------------------------- | ----------------------------------------------------- |
| the intent and its payload's digest                        | established: recorded before anything was sent        |
| a proof that it happened, or that it did not               | established, by the newest evidence that proves it    |
| items of a batch that are known                            | established, each with its proof; the rest: unverified |
| a check that the outcome is, or is not, as intended        | established                                           |
| a check that is due or could not run                       | unverified                                            |
| an effect that is unknown, pending or partial              | unverified, and not to be repeated                    |
| an attempt without a report                                | unverified: whether it left                           |
| the owner's last answer, where it settles nothing          | unverified, whatever the reason was                   |
| a person's answer that no second person has signed         | unverified                                            |
| that two people wrote it off, or accepted a duplicate      | established that they did; the effect: unverified     |

Nothing of a payload or of an owner's prose stands in it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ledger.rules.facts import AttemptFacts, Facts
from ledger.rules.packet import OPEN_EFFECTS, Established, Packet, Trial, Unverified
from ledger.rules.vocabulary import Effect, Licence, LookupOutcome, Outcome, Proof, Speaker, State, Verification

MOST_ITEMS: Final = 100
"""Items that are told one by one."""
_SAYS: Final = {Effect.APPLIED: "It happened.", Effect.NONE: "It did not happen."}
_SETTLES_NOTHING: Final = {
    LookupOutcome.NO_MATCH.value: "The owner showed nothing so far. That is not yet proof that it is absent.",
    LookupOutcome.LOOKUP_FAILED.value: "The owner could not be asked. That says nothing of the effect.",
    LookupOutcome.INCONCLUSIVE.value: "The owner's last answer settles nothing.",
    LookupOutcome.FOUND.value: "What the owner showed last is not certainly what was meant; a person has to compare them.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One piece of evidence, as far as a packet tells it."""

    source: str
    speaker: Speaker
    outcome: str
    effect: Effect | None
    proof: Proof | None
    attempt: int | None
    revision: str | None
    event_at: datetime | None
    observed_at: datetime
    keys: tuple[str, ...] = ()
    """Of a batch: the items that it is about."""
    counts: bool = True
    """False: a person's answer that waits for a second signature."""


def operation_packet(
    *,
    facts: Facts,
    contract: str,
    pieces: Sequence[Piece],
    created_at: datetime,
    as_of: datetime,
    awaits_signature: bool = False,
) -> Packet:
    """The packet of one operation. `contract` as `tool@number`; `pieces` oldest first; `awaits_signature`: a first
    person's answer waits for a second."""
    established = [_intent(facts, contract, created_at), *_effect(facts, pieces), *_items(facts, pieces)]
    established += [*_verified(facts, pieces), *_by_two(facts, pieces)]
    return Packet(
        title=facts.operation_id,
        established=tuple(established),
        unverified=tuple(_open(facts, pieces, awaits_signature)),
        trace=tuple(
            Trial(
                number=attempt.number,
                name=attempt.attempt_id,
                tool=facts.tool,
                outcome=_outcome(attempt, facts),
                at=attempt.opened_at,
            )
            for attempt in facts.attempts
        ),
        stop=_stop(facts),
        as_of=as_of,
    )


def _intent(facts: Facts, contract: str, created_at: datetime) -> Established:
    return Established(
        what="the intent",
        said="It was recorded before anything was sent.",
        values={"contract": contract, "payload_digest": facts.payload_digest, "revision": facts.revision},
        source="ledger",
        revision=None,
        event_at=created_at,
        observed_at=created_at,
    )


def _effect(facts: Facts, pieces: Sequence[Piece]) -> Iterator[Established]:
    if facts.is_read or facts.effect not in _SAYS:
        return
    if not facts.attempts:
        yield Established(
            what="the effect",
            said="No permit was given, so nothing happened through this operation.",
            values={"effect": facts.effect.value},
            source="ledger",
            revision=None,
            event_at=None,
            observed_at=None,
        )
        return
    proof = next(
        (each for each in reversed(pieces) if each.effect is facts.effect and each.proof and each.counts), None
    )
    if proof is not None:
        yield _told("the effect", _SAYS[facts.effect], {"effect": facts.effect.value, "proof": str(proof.proof)}, proof)


def _items(facts: Facts, pieces: Sequence[Piece]) -> Iterator[Established]:
    for item in facts.items[:MOST_ITEMS]:
        if item.effect not in _SAYS or not item.attempts:
            continue
        carried = {each.attempt for each in item.attempts}
        proof = next(
            (each for each in reversed(pieces) if item.key in each.keys or (not each.keys and each.attempt in carried)),
            None,
        )
        if proof is not None:
            yield _told(f"item {item.key}", _SAYS[item.effect], {"effect": item.effect.value}, proof)


def _verified(facts: Facts, pieces: Sequence[Piece]) -> Iterator[Established]:
    check = next((each for each in reversed(pieces) if each.speaker is Speaker.VERIFIER), None)
    if check is None or facts.verification not in (Verification.VERIFIED, Verification.FAILED):
        return
    as_meant = facts.verification is Verification.VERIFIED
    said = "The outcome was compared with what was intended, and " + (
        "is as intended." if as_meant else "differs from it."
    )
    yield _told("the outcome", said, {"verification": facts.verification.value}, check)


def _by_two(facts: Facts, pieces: Sequence[Piece]) -> Iterator[Established]:
    signed = next((each for each in reversed(pieces) if each.speaker is Speaker.OPERATOR and each.counts), None)
    if facts.outcome is Outcome.WRITTEN_OFF and signed is not None:
        said = "Two people closed it with its effect unknown. It is never repeated."
        yield _told("the closing", said, {"outcome": facts.outcome.value}, signed)
    for attempt in facts.attempts:
        if attempt.licence is Licence.ACCEPTED_DUPLICATE_RISK:
            yield Established(
                what=attempt.attempt_id,
                said="Two people accepted the risk of a duplicate; it was permitted on that alone.",
                values={"licence": attempt.licence.value},
                source="ledger",
                revision=None,
                event_at=attempt.opened_at,
                observed_at=attempt.opened_at,
                attempts=(attempt.number,),
            )


def _open(facts: Facts, pieces: Sequence[Piece], awaits_signature: bool) -> Iterator[Unverified]:
    if not facts.is_read and facts.attempts and facts.effect in OPEN_EFFECTS:
        yield Unverified(what="the effect", why=OPEN_EFFECTS[facts.effect])
    for item in facts.items[:MOST_ITEMS]:
        if item.attempts and item.effect in OPEN_EFFECTS:
            yield Unverified(what=f"item {item.key}", why=OPEN_EFFECTS[item.effect])
    if len(facts.items) > MOST_ITEMS:
        yield Unverified(
            what="further items", why=f"{len(facts.items) - MOST_ITEMS:,} items are not told one by one here."
        )
    reported = {each.attempt for each in pieces}
    for attempt in facts.attempts:
        if attempt.number not in reported:
            flying = attempt.closed_at is None
            why = (
                "It is in flight and has not reported yet."
                if flying
                else "It ended without a report; it may have left."
            )
            yield Unverified(what=attempt.attempt_id, why=why, attempts=(attempt.number,))
    if not facts.is_read and facts.effect in OPEN_EFFECTS:
        asked = next((each for each in reversed(pieces) if each.outcome in _SETTLES_NOTHING), None)
        if asked is not None and asked.proof is None:
            yield Unverified(what=asked.source, why=_SETTLES_NOTHING[asked.outcome])
    if facts.verification is Verification.DUE:
        yield Unverified(what="the outcome", why="Whether it is as intended has not been checked yet.")
    if facts.verification is Verification.UNAVAILABLE:
        yield Unverified(what="the outcome", why="The check could not run. That says nothing of the outcome.")
    answered = next((each for each in reversed(pieces) if each.speaker is Speaker.OPERATOR and not each.counts), None)
    if awaits_signature and answered is not None:
        yield Unverified(what=answered.source, why="One person has answered; it counts once a second person signs it.")


def _told(what: str, said: str, values: dict[str, str], piece: Piece) -> Established:
    return Established(
        what=what,
        said=said,
        values=values,
        source=piece.source,
        revision=piece.revision,
        event_at=piece.event_at,
        observed_at=piece.observed_at,
        attempts=(piece.attempt,) if piece.attempt else (),
    )


def _outcome(attempt: AttemptFacts, facts: Facts) -> str:
    if attempt.closed_at is None:
        return "in flight"
    if facts.is_read:
        return attempt.failure_class.value if attempt.failure_class else "read"
    return f"effect {attempt.effect.value}"


def _stop(facts: Facts) -> str:
    if facts.state is State.SETTLED:
        return "written_off" if facts.outcome is Outcome.WRITTEN_OFF else "has_its_outcome"
    return "waits_for_a_person" if facts.state in (State.ESCALATED, State.BLOCKED) else "not_stopped"
