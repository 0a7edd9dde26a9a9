"""Record what a person says of an operation. The version that they saw must still be the row's."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from ledger.database import execute
from ledger.identifiers import new_id
from ledger.queries.facts import Held
from ledger.rules.decision import Decision
from ledger.rules.items import settled
from ledger.rules.payload import digest, raw
from ledger.rules.resolutions import TOLD, Answer, Offer
from ledger.rules.vocabulary import (
    Action,
    Effect,
    FailureClass,
    Licence,
    Outcome,
    Proof,
    Request,
    Speaker,
    Verification,
)
from ledger.transitions.change import Change, write
from ledger.transitions.items import changed_items
from ledger.transitions.settle import after


@dataclass(frozen=True, slots=True, kw_only=True)
class Signer:
    """A person acting on a page."""

    id: int
    username: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstSignature:
    """An answer that waits for a second person."""

    id: UUID
    person_id: int
    username: str
    answer: Answer
    reason: str
    evidence_url: str
    at: Any


def first_signature(*, id: UUID) -> FirstSignature | None:
    """The answer that an operation waits to have signed."""
    rows = execute(
        "SELECT a.id, a.person_id, p.username, a.answer, a.reason, a.evidence_url, a.at "
        "FROM operation o JOIN attestation a ON a.id = o.awaits_signature_id JOIN person p ON p.id = a.person_id "
        "WHERE o.id = %s",
        [id],
    )
    if not rows:
        return None
    found, person_id, username, answer, reason, url, at = rows[0]
    return FirstSignature(
        id=found, person_id=person_id, username=username, answer=Answer(answer), reason=reason, evidence_url=url, at=at
    )


def attest(
    *,
    held: Held,
    signer: Signer,
    offer: Offer,
    reason: str,
    evidence_url: str,
    expected_version: int,
    signs: FirstSignature | None,
) -> int | None:
    """Record a person's answer; take its step, unless a second person has to sign it first. One transaction.

    `offer` comes from `ledger.rules.resolutions.offers` for this operation and must be allowed. `signs` is the first
    person's answer when this one countersigns it. Returns the new version; None when the row is no longer at
    `expected_version`.

    Raises:
        ValueError: the offer is not allowed, or somebody countersigns their own answer or another one.
        django.db.IntegrityError: neither reason nor evidence was given; or it would be written off while another
            operation holds its intent.
    """
    if not offer.allowed:
        raise ValueError(offer.why_not)
    if offer.answer is Answer.PARTIALLY_APPLIED:
        raise ValueError("What happened in part is told item by item.")
    if signs is not None and (signs.person_id == signer.id or signs.answer is not offer.answer):
        raise ValueError("The second signature must be another person's, for the same answer.")
    if held.facts.version != expected_version:
        return None
    counts = not offer.needs_second_person or signs is not None
    attestation = {
        "id": new_id(),
        "person_id": signer.id,
        "answer": offer.answer.value,
        "reason": reason,
        "evidence_url": evidence_url,
        "version_seen": expected_version,
        "signs_id": signs.id if signs else None,
        "at": held.now,
    }
    said = {"answer": offer.answer.value, "reason": reason, "evidence_url": evidence_url}
    if signs:
        said["signs"] = signs.username
    change = _counted(held, offer) if counts else _awaiting(held, attestation)
    return write(
        Change(
            id=held.id,
            held=held,
            version=expected_version,
            at=held.now,
            verb="attest" if signs is None else "countersign",
            actor=f"person:{signer.username}",
            set=change["set"],
            next_check_at=change["next_check_at"],
            said={**said, "counts": counts},
            covers=change.get("covers"),
            items=change.get("items", ()),
            attestation=attestation,
            evidence=_evidence(held, offer, signer, said, counts),
        )
    )


def _awaiting(held: Held, attestation: dict[str, Any]) -> dict[str, Any]:
    return {"set": {"awaits_signature_id": attestation["id"]}, "next_check_at": held.next_check_at}


def _counted(held: Held, offer: Offer) -> dict[str, Any]:
    answer, effect = offer.answer, held.facts.effect
    if answer is Answer.CANNOT_TELL:
        # Nothing is claimed; the owner is asked again now rather than at the next interval.
        return {"set": {"awaits_signature_id": None}, "next_check_at": held.now}
    if answer is Answer.DISTINCT_INTENT:
        return {
            "set": {"distinct_intent": True, "holds_identity": False, "decision": {}},
            "next_check_at": held.next_check_at,
        }
    if answer is Answer.ACCEPT_DUPLICATE_RISK:
        columns, next_check_at = after(held=held, decision=_risk_accepted(held), effect=effect, now=held.now)
        return {"set": {**columns, "awaits_signature_id": None}, "next_check_at": next_check_at}
    if answer is Answer.WRITTEN_OFF:
        columns, next_check_at = after(
            held=held, decision=_written_off(held), effect=effect, now=held.now, closes_as=Outcome.WRITTEN_OFF
        )
        # It keeps its intent for good, also where a reopened operation had lost it: nothing is sent for it again.
        keeps = held.identity_digest is not None and not held.distinct_intent
        items = settled(held.facts.items, verification=Verification.NOT_REQUIRED)
        return {
            "set": {**columns, "holds_identity": keeps},
            "next_check_at": next_check_at,
            "items": changed_items(held.facts.items, items)["items"],
        }
    effect = Effect.APPLIED if answer is Answer.APPLIED else Effect.NONE
    decision = _decision(held, answer, effect)
    columns, next_check_at = after(held=held, decision=decision, effect=effect, now=held.now)
    return {
        "set": columns,
        "next_check_at": next_check_at,
        "covers": {"effect": effect.value, "proof": Proof.ATTESTED.value},
    }


def _decision(held: Held, answer: Answer, effect: Effect) -> Decision:
    happened = answer is Answer.APPLIED
    return Decision(
        recovery_action=Action.DONE if happened else Action.STOP,
        failure_class=FailureClass.SUCCESS if happened else FailureClass.FATAL,
        effect_status=effect,
        request=Request.ACCEPTED if happened else held.facts.request,
        rule=f"person.{answer.value}",
        code="SETTLED_BY_OPERATOR",
        hint=TOLD[answer],
        message=TOLD[answer],
    )


def _written_off(held: Held) -> Decision:
    # No decision of a machine may end what may have happened; two people close it, and the agent is told that they did.
    return Decision(
        recovery_action=Action.ESCALATE,
        failure_class=FailureClass.UNKNOWN_OUTCOME,
        effect_status=held.facts.effect,
        request=held.facts.request,
        rule="person.written_off",
        code="WRITTEN_OFF",
        hint=TOLD[Answer.WRITTEN_OFF],
        message=TOLD[Answer.WRITTEN_OFF],
    )


def _risk_accepted(held: Held) -> Decision:
    return Decision(
        recovery_action=Action.RETRY,
        failure_class=FailureClass.UNKNOWN_OUTCOME,
        effect_status=held.facts.effect,
        request=held.facts.request,
        rule="person.accept_duplicate_risk",
        code="DUPLICATE_RISK_ACCEPTED",
        hint=TOLD[Answer.ACCEPT_DUPLICATE_RISK],
        message=TOLD[Answer.ACCEPT_DUPLICATE_RISK],
        licence=Licence.ACCEPTED_DUPLICATE_RISK,
    )


def _evidence(
    held: Held, offer: Offer, signer: Signer, said: dict[str, Any], counts: bool
) -> tuple[dict[str, Any], ...]:
    if offer.answer in (Answer.CANNOT_TELL, Answer.DISTINCT_INTENT):
        return ()
    # To write it off or to accept a risk claims nothing of the effect.
    effect = {Answer.APPLIED: Effect.APPLIED, Answer.NOT_APPLIED: Effect.NONE}.get(offer.answer) if counts else None
    return (
        {
            "id": new_id(),
            "attempt": None,
            "source": f"operator/{signer.username}",
            "speaker": Speaker.OPERATOR.value,
            "outcome": "attested",
            "effect": effect.value if effect else None,
            "proof": Proof.ATTESTED.value if effect else None,
            "digest": raw(digest(said)),
            "query": said["evidence_url"][:600],
            "principal": signer.username,
            "observed_at": held.now,
            "coverage": "",
            "original": None,
            "detail": {"reason": said["reason"], "counts": counts, "answer": offer.answer.value},
        },
    )
