"""Where each decision leads, and that the table of steps is whole."""

from datetime import UTC, datetime, timedelta

import pytest

from ledger.rules.lifecycle import STATES, TRANSITIONS, Actor, SettlingRefused, diagram, may_step, state_after
from ledger.rules.vocabulary import Action, Effect, EffectKind, Outcome, State

NOW = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
LATER = NOW + timedelta(seconds=1)

ROWS = [
    (Action.RETRY, Effect.NONE, LATER, State.WAITING, None, "not yet"),
    (Action.RETRY, Effect.NONE, NOW, State.OPEN, None, "the wait is over"),
    (Action.RETRY, Effect.NONE, None, State.OPEN, None, "at once"),
    (Action.REPAIR, Effect.NONE, None, State.OPEN, None, "the harness mends it"),
    (Action.REFRESH, Effect.NONE, None, State.OPEN, None, "the harness reads anew"),
    (Action.REPLACE, Effect.NONE, None, State.OPEN, None, "the harness names another"),
    (Action.RECOVER_ITEMS, Effect.PARTIAL, None, State.OPEN, None, "item by item"),
    (Action.AUTHORIZE, Effect.NONE, None, State.BLOCKED, None, "a person or a renewed credential"),
    (Action.RECONCILE, Effect.UNKNOWN, LATER, State.RECONCILING, None, "we ask the owner"),
    (Action.VERIFY, Effect.APPLIED, None, State.VERIFYING, None, "we check"),
    (Action.WAIT, Effect.PENDING, LATER, State.WAITING, None, "the owner works on it"),
    (Action.ESCALATE, Effect.UNKNOWN, None, State.ESCALATED, None, "a person looks"),
    (Action.DONE, Effect.APPLIED, None, State.SETTLED, Outcome.APPLIED, "it happened"),
    (Action.STOP, Effect.APPLIED, None, State.SETTLED, Outcome.APPLIED, "it happened, and nothing follows"),
    (Action.STOP, Effect.NONE, None, State.SETTLED, Outcome.NOT_APPLIED, "it did not"),
]


@pytest.mark.parametrize(("action", "effect", "not_before", "state", "outcome", "why"), ROWS)
def test_where_a_decision_leads(action, effect, not_before, state, outcome, why):
    found = state_after(action=action, effect=effect, kind=EffectKind.WRITE, not_before=not_before, now=NOW)
    assert found == (state, outcome), why


@pytest.mark.parametrize("action", [Action.STOP, Action.DONE])
@pytest.mark.parametrize("effect", [Effect.UNKNOWN, Effect.PENDING, Effect.PARTIAL])
@pytest.mark.parametrize("kind", [EffectKind.WRITE, EffectKind.BATCH])
def test_an_effect_that_may_have_happened_is_not_ended(action, effect, kind):
    with pytest.raises(SettlingRefused, match="escalate"):
        state_after(action=action, effect=effect, kind=kind, not_before=None, now=NOW)


@pytest.mark.parametrize("action", [Action.STOP, Action.DONE])
@pytest.mark.parametrize("effect", Effect)
def test_a_read_always_ends(action, effect):
    found = state_after(action=action, effect=effect, kind=EffectKind.READ, not_before=None, now=NOW)
    assert found == (State.SETTLED, Outcome.READ)


@pytest.mark.parametrize("action", Action)
def test_every_action_leads_somewhere(action):
    state, outcome = state_after(action=action, effect=Effect.APPLIED, kind=EffectKind.WRITE, not_before=None, now=NOW)
    assert (state is State.SETTLED) == (outcome is not None)
    assert state is not State.DISPATCHED, "only a permit dispatches"


@pytest.mark.parametrize("state", State)
def test_every_state_has_its_paragraph_its_entrance_and_its_exit(state):
    assert "crash" in STATES[state]
    assert any(state in step.targets for step in TRANSITIONS)
    assert any(state in step.sources and step.targets - {state} for step in TRANSITIONS)


STEPS = [
    ("open_operation", None, State.DISPATCHED, Actor.HARNESS, True, "recorded and permitted at once"),
    ("open_operation", State.OPEN, State.OPEN, Actor.HARNESS, False, "it exists already"),
    ("open_attempt", State.OPEN, State.DISPATCHED, Actor.HARNESS, True, "a permit"),
    ("open_attempt", State.DISPATCHED, State.DISPATCHED, Actor.HARNESS, False, "one attempt in flight at most"),
    ("open_attempt", State.SETTLED, State.DISPATCHED, Actor.HARNESS, False, "settled is settled"),
    ("open_attempt", State.ESCALATED, State.DISPATCHED, Actor.HARNESS, False, "a person has it"),
    ("open_attempt", State.OPEN, State.DISPATCHED, Actor.WORKER, False, "what is open is the harness's to send"),
    ("open_attempt", State.WAITING, State.DISPATCHED, Actor.WORKER, True, "a licensed repeat, sent by Ascertain"),
    ("open_attempt", State.RECONCILING, State.DISPATCHED, Actor.WORKER, True, "a replay"),
    ("open_attempt", State.ESCALATED, State.DISPATCHED, Actor.WORKER, False, "a person has it"),
    ("end_by_limit", State.WAITING, State.RECONCILING, Actor.WORKER, True, "a licence ended during the wait"),
    ("record_observation", State.SETTLED, State.ESCALATED, Actor.HARNESS, True, "late evidence reopens"),
    ("record_observation", State.SETTLED, State.SETTLED, Actor.HARNESS, True, "or is only kept"),
    ("record_observation", State.SETTLED, State.OPEN, Actor.HARNESS, False, "but never permits a dispatch"),
    ("record_observation", State.DISPATCHED, State.DISPATCHED, Actor.HARNESS, True, "a later attempt is still out"),
    ("record_observation", State.RECONCILING, State.SETTLED, Actor.HARNESS, True, "a late answer"),
    ("record_observation", State.RECONCILING, State.DISPATCHED, Actor.HARNESS, False, "a report is no permit"),
    ("lapse_attempt", State.DISPATCHED, State.RECONCILING, Actor.WORKER, True, "no report came"),
    ("lapse_attempt", State.OPEN, State.RECONCILING, Actor.WORKER, False, "there is nothing to lapse"),
    ("record_lookup", State.ESCALATED, State.SETTLED, Actor.WORKER, True, "lookups go on while a person has it"),
    ("record_lookup", State.SETTLED, State.OPEN, Actor.WORKER, False, "settled is not asked"),
    ("record_lookup", State.RECONCILING, State.SETTLED, Actor.HARNESS, False, "a harness reports, it does not look up"),
    ("attest", State.ESCALATED, State.SETTLED, Actor.PERSON, True, "a person's answer"),
    ("attest", State.ESCALATED, State.ESCALATED, Actor.PERSON, True, "which waits for a second one"),
    ("attest", State.ESCALATED, State.OPEN, Actor.PERSON, False, "no answer permits a dispatch by itself"),
    ("attest", State.DISPATCHED, State.SETTLED, Actor.PERSON, False, "not while an attempt is in flight"),
    ("attest", State.ESCALATED, State.SETTLED, Actor.HARNESS, False, "a harness is no person"),
    ("look_again", State.ESCALATED, State.ESCALATED, Actor.PERSON, True, "only the schedule moves"),
    ("look_again", State.SETTLED, State.SETTLED, Actor.PERSON, False, "nobody is asked about what is settled"),
]


@pytest.mark.parametrize(("verb", "source", "target", "actor", "allowed", "why"), STEPS)
def test_the_table_of_steps(verb, source, target, actor, allowed, why):
    assert may_step(verb=verb, source=source, target=target, actor=actor) is allowed, why


def test_nothing_but_a_permit_dispatches():
    assert {step.verb for step in TRANSITIONS if State.DISPATCHED in step.targets} == {"open_operation", "open_attempt"}


def test_the_diagram_is_printed_from_the_table():
    drawn = diagram()
    assert drawn.startswith("stateDiagram-v2\n    [*] --> open: open_operation\n")
    assert "    dispatched --> reconciling: record_observation / lapse_attempt\n" in drawn
    assert drawn.endswith("    settled --> [*]\n")
    assert all(state.value in drawn for state in State)
