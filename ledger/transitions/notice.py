"""Record what an owner told us by itself: a signed notification, accepted once."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from ledger.database import execute
from ledger.errors import LawBroken
from ledger.identifiers import new_id
from ledger.queries.facts import Held
from ledger.rules.attempts import covered
from ledger.rules.decision import Decision
from ledger.rules.evidence import join_effects, may_assert
from ledger.rules.facts import AttemptFacts
from ledger.rules.notices import CLAIMS, STEPS, NoticeFacts, Weighed, Weight
from ledger.rules.payload import raw
from ledger.rules.vocabulary import Effect, FailureClass, Proof, Speaker, State
from ledger.transitions.change import Change
from ledger.transitions.reopen import write_evidence
from ledger.transitions.settle import after

_OPEN = frozenset({Effect.UNKNOWN, Effect.PENDING, Effect.PARTIAL})


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One accepted notification about one operation."""

    owner: str
    message_id: str
    facts: NoticeFacts
    weighed: Weighed
    revision: str | None
    digest: str
    body: str
    """As JSON, redacted by the contract; kept as a restricted original."""
    received_at: datetime
    detail: Mapping[str, Any]


def take_notice(*, endpoint_id: UUID, message_id: str, now: datetime) -> bool:
    """Whether this message is new to the endpoint. To be called within the transaction that acts on it: if that fails,
    the message was never received and comes again; a second one with the same id waits for the first."""
    rows = execute(
        "INSERT INTO notice (endpoint_id, message_id, received_at, came_to) VALUES (%s, %s, %s, 'recorded') "
        "ON CONFLICT (endpoint_id, message_id) DO NOTHING RETURNING 1",
        [endpoint_id, message_id, now],
    )
    return bool(rows)


def notice_came_to(*, endpoint_id: UUID, message_id: str, came_to: str) -> None:
    """`no_operation`: it names none of ours. `settles_nothing`: it says nothing of the effect that could be used."""
    execute(
        "UPDATE notice SET came_to = %s WHERE endpoint_id = %s AND message_id = %s", [came_to, endpoint_id, message_id]
    )


def attempts_with(*, held: Held, notice: NoticeFacts, weighed: Weighed) -> tuple[AttemptFacts, ...]:
    """The operation's attempts with the notification counted in."""
    attempts = held.facts.attempts
    closing = _closing(held=held, notice=notice, weighed=weighed)
    if closing is not None:
        effect, proof = _of_attempt(closing, weighed)
        told = replace(closing, effect=effect, proof=proof, closed_at=closing.closed_at or held.now)
        return tuple(told if attempt.number == told.number else attempt for attempt in attempts)
    if weighed.effect is None or not _covers(held=held, weighed=weighed):
        return attempts
    return covered(attempts, effect=weighed.effect, proof=_proof(weighed.effect))


def effect_with(*, held: Held, notice: NoticeFacts, weighed: Weighed) -> Effect:
    """The operation's effect with the notification counted in."""
    if not held.facts.attempts:
        return held.facts.effect
    attempts = attempts_with(held=held, notice=notice, weighed=weighed)
    return join_effects(attempts=attempts, absence_since=None, kind=held.facts.kind)


def record_notice(*, held: Held, notice: Notice, decision: Decision | None, at: datetime) -> int | None:
    """Keep the evidence and take the decision's step, where one was decided. Joins the transaction around it.

    Returns the new version; None when the operation moved since `held` was read.

    Raises:
        LawBroken: the notification asserts what an owner's may not.
    """
    facts, weighed, said = held.facts, notice.weighed, notice.facts
    effect = weighed.effect
    if effect is not None and not may_assert(speaker=Speaker.OWNER_NOTICE, effect=effect, proof=_proof(effect)):
        raise LawBroken(f"{Speaker.OWNER_NOTICE} may not assert {effect}")
    columns: dict[str, Any] = {}
    next_check_at = held.next_check_at
    if decision is not None:
        joined = effect_with(held=held, notice=said, weighed=weighed)
        columns, next_check_at = after(held=held, decision=decision, effect=joined, now=at)
    elif weighed.weight is Weight.COUNTS:
        # Its attempt is still out: known, but the attempt's own end decides.
        columns = {"effect": effect_with(held=held, notice=said, weighed=weighed)}
    # What does not count is kept without a claim: nothing that reads evidence may take it for one.
    stated = said.effect if weighed.weight in CLAIMS else None
    if said.differs and stated is not None:
        stated = Effect.UNKNOWN
    original = new_id()
    closing = _closing(held=held, notice=said, weighed=weighed)
    covers = closing is None and _covers(held=held, weighed=weighed)
    return write_evidence(
        Change(
            id=held.id,
            held=held,
            version=facts.version,
            at=at,
            verb="record_notice",
            actor=f"owner:{notice.owner}"[:160],
            set=columns,
            next_check_at=next_check_at,
            said={"notice": notice.message_id, "came_to": weighed.weight.value}
            | ({"rule": decision.rule} if decision is not None else {}),
            closes=_closes(closing, weighed, at) if closing is not None else None,
            covers={"effect": effect.value, "proof": _word(_proof(effect))} if covers and effect is not None else None,
            originals=({"id": original, "kind": "answer", "body": notice.body},),
            evidence=(
                {
                    "id": new_id(),
                    "attempt": None,
                    "source": f"{notice.owner}/notice"[:200],
                    "speaker": Speaker.OWNER_NOTICE.value,
                    "outcome": "notified",
                    "effect": stated.value if stated is not None else None,
                    "proof": _word(_proof(stated)) if stated is not None else None,
                    "revision": notice.revision,
                    "digest": raw(notice.digest),
                    "query": notice.message_id,
                    "principal": "",
                    "event_at": said.event_at,
                    "observed_at": notice.received_at,
                    "coverage": "",
                    "original": original,
                    "detail": dict(notice.detail),
                },
            ),
        ),
        held=held,
    )


def _closing(*, held: Held, notice: NoticeFacts, weighed: Weighed) -> AttemptFacts | None:
    """The one attempt that the notification ends while it is out, or whose proof of absence it outranks."""
    attempts = held.facts.attempts
    if weighed.weight not in STEPS or waits_for_its_attempt(held=held, weighed=weighed):
        return None
    out = next((attempt for attempt in attempts if attempt.closed_at is None), None)
    if out is not None:
        return out
    if attempts and weighed.effect is not None and all(attempt.effect is Effect.NONE for attempt in attempts):
        named = [attempt for attempt in attempts if notice.key in (None, attempt.idempotency_key)]
        return (named or list(attempts))[-1]
    return None


def _covers(*, held: Held, weighed: Weighed) -> bool:
    """Whether it changes every attempt whose effect is open."""
    return weighed.effect is not None and any(attempt.effect in _OPEN for attempt in held.facts.attempts)


def _closes(attempt: AttemptFacts, weighed: Weighed, at: datetime) -> dict[str, Any]:
    effect, proof = _of_attempt(attempt, weighed)
    closes: dict[str, Any] = {"number": attempt.number, "effect": effect.value, "proof": _word(proof)}
    if attempt.closed_at is None:
        done = effect is Effect.APPLIED
        closes |= {
            "closed_at": at,
            "failure_class": (FailureClass.SUCCESS if done else FailureClass.UNKNOWN_OUTCOME).value,
        }
    return closes


def _of_attempt(attempt: AttemptFacts, weighed: Weighed) -> tuple[Effect, Proof | None]:
    if weighed.effect is None:
        return attempt.effect, attempt.proof
    return weighed.effect, _proof(weighed.effect)


def _proof(effect: Effect) -> Proof | None:
    return None if effect in (Effect.UNKNOWN, Effect.PENDING) else Proof.OWNER_RESULT


def _word(value: Proof | None) -> str | None:
    return value.value if value is not None else None


def waits_for_its_attempt(*, held: Held, weighed: Weighed) -> bool:
    """Whether no step is decided yet: the owner says that it is running, and the attempt that began it is out."""
    return (
        held.facts.state is State.DISPATCHED
        and weighed.weight is Weight.COUNTS
        and weighed.effect
        in (
            Effect.PENDING,
            Effect.PARTIAL,
        )
    )
