"""What others are told of: one event an escalation, never silence."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ledger.rules.contract_sections import Escalation, Priority
from ledger.rules.events import EventKind, events_of, goes_to
from ledger.rules.facts import Facts
from ledger.rules.lifecycle import state_after
from ledger.rules.vocabulary import Action, Effect, EffectKind, Outcome, Request, State, Verification
from recovery.judgement.rule_table import RULES

NOW = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
ESCALATION = Escalation(priority=Priority.HIGH, sla=timedelta(hours=4), notify=("support-oncall",))
ABOUT = {"id": "1", "operation_id": "t-1", "tool": "tickets.create", "contract": "tickets.create@3"}


def facts(state: State, *, kind: EffectKind = EffectKind.WRITE, **more: Any) -> Facts:
    return Facts(
        operation_id="t-1",
        tool="tickets.create",
        kind=kind,
        version=7,
        state=state,
        request=Request.ACCEPTED,
        effect=Effect.UNKNOWN,
        verification=more.pop("verification", Verification.NOT_REQUIRED),
        outcome=more.pop("outcome", None),
        revision=1,
        payload_digest="sha256:00",
        **more,
    )


def told(before: Facts, **columns: Any) -> list[tuple[str, bool]]:
    """Each event with whether it is written though nobody listens."""
    always, all_of_them = (
        events_of(facts=before, columns=columns, escalation=ESCALATION, about=lambda: ABOUT, listened=listened)
        for listened in (False, True)
    )
    return [(event.kind.value, event in always) for event in all_of_them]


E, S = State.ESCALATED, State.SETTLED
ROWS: list[tuple[Facts, dict[str, Any], list[tuple[str, bool]], str]] = [
    (facts(State.RECONCILING), {"state": E}, [("operation.escalated", True)], "a person has to look"),
    (facts(State.DISPATCHED), {"state": E}, [("operation.escalated", True)], "straight from a report"),
    (facts(E), {"state": E}, [], "it stays escalated: told once"),
    (facts(E), {"polls": 4}, [], "a lookup while escalated"),
    (facts(E), {"state": S, "outcome": Outcome.APPLIED}, [("operation.settled", True)], "who was asked hears the end"),
    (facts(State.RECONCILING), {"state": S}, [("operation.settled", False)], "only where somebody listens"),
    (facts(State.DISPATCHED, kind=EffectKind.READ), {"state": S}, [], "a read has no effect to tell of"),
    (facts(S, outcome=Outcome.APPLIED), {"state": E}, [("operation.reopened", True)], "late evidence"),
    (facts(S, outcome=Outcome.APPLIED), {"effect": Effect.APPLIED}, [], "late evidence that confirms"),
    (facts(State.OPEN), {"state": State.RECONCILING}, [], "machines are at it"),
    (facts(State.RECONCILING), {"state": State.OPEN}, [], "nobody is needed"),
    (
        facts(State.VERIFYING, verification=Verification.DUE),
        {"state": E, "verification": Verification.FAILED},
        [("operation.escalated", True), ("operation.verification_failed", True)],
        "done, and not as intended",
    ),
    (facts(E, verification=Verification.FAILED), {"verification": Verification.FAILED}, [], "it failed before"),
]


@pytest.mark.parametrize(("before", "columns", "events", "why"), ROWS, ids=[row[-1] for row in ROWS])
def test_the_table_of_events(before: Facts, columns: Any, events: Any, why: str) -> None:
    assert told(before, **columns) == events, why


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.action is Action.ESCALATE], ids=lambda rule: rule.name)
@pytest.mark.parametrize("state", [state for state in State if state is not State.ESCALATED])
def test_every_rule_that_escalates_tells_somebody(rule: Any, state: State) -> None:
    """The end of any budget, a conflict, a duplicate, a contradiction: whatever state it comes from."""
    after, _ = state_after(action=rule.action, effect=Effect.UNKNOWN, kind=EffectKind.WRITE, not_before=None, now=NOW)
    decision = {"code": str(rule.code or "X"), "rule": rule.name, "message": rule.says}
    before = replace(facts(state), outcome=Outcome.APPLIED if state is S else None)
    columns = {"state": after, "decision": decision, "sla_at": NOW + timedelta(hours=4)}
    [event] = events_of(facts=before, columns=columns, escalation=ESCALATION, about=lambda: ABOUT, listened=False)
    assert event.kind in (EventKind.ESCALATED, EventKind.REOPENED)
    assert event.payload["sentence"] == rule.says
    assert event.payload["notify"] == ["support-oncall"]
    assert event.payload["sla_at"] == "2026-12-01T13:00:00Z"


GOES = [
    ("operation.escalated", "support-oncall", [], True, "the contract names it"),
    ("operation.escalated", "other", [], False, "nothing brings it there"),
    ("operation.escalated", "other", ["operation.escalated"], True, "it listens"),
    ("operation.escalated", "other", ["operation.*"], True, "to the family"),
    ("operation.escalated", "other", ["*"], True, "to everything"),
    ("operation.escalated", "other", ["operation.settled", "owner.*"], False, "to others"),
    ("operation.escalated", "support", [], False, "a part of a name is another name"),
]


@pytest.mark.parametrize(("kind", "name", "kinds", "goes", "why"), GOES)
def test_who_is_told(kind: str, name: str, kinds: list[str], goes: bool, why: str) -> None:
    assert goes_to(kind=kind, payload={"notify": ["support-oncall"]}, name=name, kinds=kinds) is goes, why
