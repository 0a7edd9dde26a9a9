"""What are others told of when an operation changes, and who is told?

| before                | after                 | event                         | written                                 |
| --------------------- | --------------------- | ----------------------------- | --------------------------------------- |
| any, but escalated    | escalated             | operation.escalated           | always: silence is not an option        |
| settled               | any other             | operation.reopened            | always                                  |
| escalated             | settled               | operation.settled             | always: who was asked hears that it is over |
| any other             | settled, not a read   | operation.settled             | where somebody listens                  |
| check not failed      | check failed          | operation.verification_failed | always                                  |
| –                     | a contract was broken | contract.violated             | always, once an hour                    |

An operation that stays escalated tells nothing more: one event an escalation, not one a lookup.

| destination                                          | is told of                                               |
| ---------------------------------------------------- | -------------------------------------------------------- |
| named by the contract's `escalation.notify`          | what is always written                                   |
| its `kinds` list the event, its family (`operation.*`) or `*` | that                                            |
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from ledger.rules.contract_sections import Escalation
from ledger.rules.facts import Facts
from ledger.rules.vocabulary import State, Verification

MOST_DEPENDANTS: Final = 20
"""Operations of the same run that an event lists at most."""


class EventKind(StrEnum):
    """What an event tells."""

    ESCALATED = "operation.escalated"
    """A person has to look. The payload says why, how soon, and who is told."""
    REOPENED = "operation.reopened"
    """It was settled, and evidence contradicts that. A person has to look."""
    SETTLED = "operation.settled"
    """It has its final outcome."""
    VERIFICATION_FAILED = "operation.verification_failed"
    """It happened, and what is there is not what was intended."""
    CONTRACT_VIOLATED = "contract.violated"
    """A tool answered other than its contract says."""
    CREDENTIAL_REFUSED = "owner.credential_refused"
    """An owner no longer accepts a credential of ours; nobody asks with it until it is changed."""
    TEST = "destination.test"
    """Somebody tries whether a destination is reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One event: what it is and what it says."""

    kind: EventKind
    payload: Mapping[str, Any]


def events_of(
    *,
    facts: Facts,
    columns: Mapping[str, Any],
    escalation: Escalation,
    about: Callable[[], Mapping[str, Any]],
    listened: bool,
) -> tuple[Told, ...]:
    """The events of one change. `facts` stood before it, `columns` are what it sets; `about` names the operation: its
    ids, tool, contract and owner. `listened`: somebody listens to what is not always written.

    Payloads hold codes, ids and sentences of ours, never payload members.
    """
    state = State(columns.get("state", facts.state))
    was = facts.state
    kinds: list[tuple[EventKind, bool]] = []
    if state is not was:
        if was is State.SETTLED:
            kinds.append((EventKind.REOPENED, True))
        elif state is State.ESCALATED:
            kinds.append((EventKind.ESCALATED, True))
        if state is State.SETTLED and (was is State.ESCALATED or not facts.is_read):
            kinds.append((EventKind.SETTLED, was is State.ESCALATED))
    verification = columns.get("verification", facts.verification)
    if verification == Verification.FAILED and facts.verification is not Verification.FAILED:
        kinds.append((EventKind.VERIFICATION_FAILED, True))
    written = [(kind, always) for kind, always in kinds if always or listened]
    if not written:
        return ()
    told = _payload(facts=facts, columns=columns, about=about())
    return tuple(
        Told(kind=kind, payload=_for(kind, told, facts, columns, escalation, always)) for kind, always in written
    )


def violation(*, sentences: Sequence[str], escalation: Escalation, about: Mapping[str, Any]) -> Told:
    """A contract was broken: how, in at most five sentences of ours."""
    return Told(
        kind=EventKind.CONTRACT_VIOLATED,
        payload={
            **about,
            "code": "CONTRACT_VIOLATED",
            "sentence": " ".join(sentence[:200] for sentence in sentences[:5]),
            "priority": escalation.priority.value,
            "notify": list(escalation.notify),
        },
    )


def wanted_by(kind: str) -> tuple[str, ...]:
    """What a destination's `kinds` may hold for it to listen to this kind."""
    return (kind, f"{kind.partition('.')[0]}.*", "*")


def goes_to(*, kind: str, payload: Mapping[str, Any], name: str, kinds: Sequence[str]) -> bool:
    """Whether a destination of this name that listens to these kinds is told."""
    return name in payload.get("notify", ()) or any(word in kinds for word in wanted_by(kind))


def _payload(*, facts: Facts, columns: Mapping[str, Any], about: Mapping[str, Any]) -> dict[str, Any]:
    decision = columns.get("decision") or {}
    told = {
        **about,
        "version": facts.version + 1,
        "state": _word(columns.get("state", facts.state)),
        "effect": _word(columns.get("effect", facts.effect)),
        "verification": _word(columns.get("verification", facts.verification)),
        "outcome": _word(columns.get("outcome")),
        "code": decision.get("code"),
        "rule": decision.get("rule"),
        "sentence": decision.get("message"),
    }
    return {name: value for name, value in told.items() if value is not None}


def _for(
    kind: EventKind,
    told: Mapping[str, Any],
    facts: Facts,
    columns: Mapping[str, Any],
    escalation: Escalation,
    always: bool,
) -> dict[str, Any]:
    payload = dict(told)
    if kind is EventKind.REOPENED and facts.outcome is not None:
        payload["contradicts"] = facts.outcome.value
    if always:
        payload |= {"priority": escalation.priority.value, "notify": list(escalation.notify)}
    until = columns.get("sla_at")
    if isinstance(until, datetime):
        payload["sla_at"] = until.isoformat().replace("+00:00", "Z")
    return payload


def _word(value: Any) -> str | None:
    return None if value is None else str(value)
