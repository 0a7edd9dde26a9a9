"""Record what a person says of single items of a batch. The version that they saw must still be the row's."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

import orjson

from ledger.database import execute
from ledger.identifiers import new_id
from ledger.queries.facts import Held
from ledger.rules.attempts import covered
from ledger.rules.decision import Decision
from ledger.rules.facts import ItemFacts
from ledger.rules.items import join_items, of_item, outcome_of, settled, with_attempts
from ledger.rules.payload import digest, raw
from ledger.rules.resolutions import ITEM_ANSWERS, TOLD_OF_ITEMS, Answer, item_offer, items_need_second_person
from ledger.rules.vocabulary import Action, Effect, FailureClass, Proof, Request, Speaker, State
from ledger.transitions.change import Change, write
from ledger.transitions.items import changed_items, next_look
from ledger.transitions.person import FirstSignature, Signer
from ledger.transitions.settle import after

_SAYS = {Answer.APPLIED: Effect.APPLIED, Answer.NOT_APPLIED: Effect.NONE}


def first_item_answers(*, id: UUID) -> dict[str, Answer]:
    """What a first person answered for single items, while the operation waits for a second one to sign it."""
    rows = execute(
        "SELECT e.detail -> 'answers' #>> '{}' FROM operation o JOIN attestation a ON a.id = o.awaits_signature_id "
        "JOIN evidence e ON e.operation = o.id AND e.seq = a.version_seen + 1 AND e.speaker = 'operator' WHERE o.id = %s",
        [id],
    )
    told = orjson.loads(rows[0][0]) if rows and rows[0][0] else {}
    return {key: Answer(answer) for key, answer in told.items()}


def attest_items(
    *,
    held: Held,
    signer: Signer,
    answers: Mapping[str, Answer],
    reason: str,
    evidence_url: str,
    expected_version: int,
    signs: FirstSignature | None,
) -> int | None:
    """Record a person's answers for items by their keys; take their step, unless a second person has to sign them. Items
    that are left out stay as they are. When no item is open any more the batch settles as its items say. One transaction.

    `signs` is the first person's answer when this one countersigns it; `answers` must then be the same ones
    (`first_item_answers`). Returns the new version; None when the row is no longer at `expected_version`.

    Raises:
        ValueError: an item is not open to an answer, or somebody countersigns their own answers or other ones.
        django.db.IntegrityError: neither reason nor evidence was given.
    """
    facts = held.facts
    offer = item_offer(facts=facts)
    if not offer.allowed:
        raise ValueError(offer.why_not)
    known = {item.key for item in offer.open}
    for key, answer in answers.items():
        if key not in known or answer not in ITEM_ANSWERS:
            raise ValueError(f"The item {key} is not open to this answer.")
    if not answers and offer.open:
        raise ValueError("Answer for at least one item.")
    if signs is not None and (signs.person_id == signer.id or first_item_answers(id=held.id) != dict(answers)):
        raise ValueError("The second signature must be another person's, for the same answers.")
    if facts.version != expected_version:
        return None
    second = items_need_second_person(answers=answers, facts=facts, contract=held.contract, now=held.now)
    counts = not second or signs is not None
    same = set(answers.values())
    word = same.pop() if len(same) == 1 else Answer.PARTIALLY_APPLIED
    attestation = {
        "id": new_id(),
        "person_id": signer.id,
        "answer": word.value,
        "reason": reason,
        "evidence_url": evidence_url,
        "version_seen": expected_version,
        "signs_id": signs.id if signs else None,
        "at": held.now,
    }
    told = {key: answer.value for key, answer in answers.items()}
    said: dict[str, Any] = {"answer": word.value, "reason": reason, "evidence_url": evidence_url, "answers": told}
    if signs:
        said["signs"] = signs.username
    items = facts.items
    columns: dict[str, Any] = {"awaits_signature_id": attestation["id"]}
    next_check_at = held.next_check_at
    if counts:
        items = tuple(_answered(held, item, answers.get(item.key)) for item in items)
        columns, next_check_at = _step(held, items)
        if columns.get("state") is State.SETTLED:
            items = settled(items, verification=columns.get("verification", facts.verification))
    return write(
        Change(
            id=held.id,
            held=held,
            version=expected_version,
            at=held.now,
            verb="attest" if signs is None else "countersign",
            actor=f"person:{signer.username}",
            set=columns,
            next_check_at=next_check_at,
            said={**said, "counts": counts},
            **changed_items(facts.items, items),
            attestation=attestation,
            evidence=(_evidence(held, signer, said, counts),),
        )
    )


def _answered(held: Held, item: ItemFacts, answer: Answer | None) -> ItemFacts:
    if answer is None:
        return item
    attempts = covered(of_item(held.facts, item).attempts, effect=_SAYS[answer], proof=Proof.ATTESTED)
    known = with_attempts(item, attempts)
    decision = _decision(held, known.effect, rule=f"person.item_{answer.value}")
    return replace(
        known,
        outcome=outcome_of(known.effect),
        failure_class=decision.failure_class,
        code=decision.code,
        licence=None,
        decision=decision,
    )


def _step(held: Held, items: tuple[ItemFacts, ...]) -> tuple[dict[str, Any], Any]:
    """Settle the batch once no item is open; until then only what is known changes."""
    facts = replace(held.facts, items=items)
    effect = join_items(items)
    outcome = outcome_of(effect)
    if outcome is None:
        looks_at = next_look(facts, state=facts.state, next_check_at=held.next_check_at)
        return {"effect": effect, "awaits_signature_id": None}, looks_at
    decision = _decision(held, effect, rule=f"person.batch_{outcome.value}")
    return after(held=held, decision=decision, effect=effect, now=held.now, closes_as=outcome)


def _decision(held: Held, effect: Effect, *, rule: str) -> Decision:
    # No decision of a machine may stop with a part done; a person closes it, and the agent is told that one did.
    action = {Effect.APPLIED: Action.DONE, Effect.NONE: Action.STOP}.get(effect, Action.ESCALATE)
    failure = {Effect.APPLIED: FailureClass.SUCCESS, Effect.NONE: FailureClass.FATAL}.get(effect, FailureClass.PARTIAL)
    if rule.startswith("person.item_"):
        happened = effect is Effect.APPLIED
        sentence = f"An operator established that this item {'happened' if happened else 'did not happen'}."
    else:
        sentence = TOLD_OF_ITEMS[effect]
    return Decision(
        recovery_action=action,
        failure_class=failure,
        effect_status=effect,
        request=held.facts.request if effect is Effect.NONE else Request.ACCEPTED,
        rule=rule,
        code="SETTLED_BY_OPERATOR",
        hint=sentence,
        message=sentence,
    )


def _evidence(held: Held, signer: Signer, said: Mapping[str, Any], counts: bool) -> dict[str, Any]:
    effects = {_SAYS[Answer(answer)] for answer in said["answers"].values()}
    effect = effects.pop() if len(effects) == 1 and counts else None
    return {
        "id": new_id(),
        "attempt": None,
        "source": f"operator/{signer.username}",
        "speaker": Speaker.OPERATOR.value,
        "outcome": "attested",
        "effect": effect.value if effect else None,
        "proof": Proof.ATTESTED.value if effect else None,
        "digest": raw(digest(dict(said))),
        "query": said["evidence_url"][:600],
        "principal": signer.username,
        "observed_at": held.now,
        "coverage": "",
        "original": None,
        "detail": {
            "reason": said["reason"],
            "counts": counts,
            "answers": said["answers"],
            "keys": list(said["answers"]),
        },
    }
