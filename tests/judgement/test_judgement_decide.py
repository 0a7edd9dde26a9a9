"""Which step comes next for an operation of the ledger: a row a case, with its reason."""

import re
from datetime import timedelta

import pytest
from stated import BATCH, KEYED, LOOKUP, NATURAL, NOW, READ, WRITE, answer, attempt, broke, facts

from ledger.rules.contract import parse_stated_contract
from ledger.rules.evidence import grade_lookup
from ledger.rules.facts import Budget, LookupFacts
from ledger.rules.vocabulary import Effect, EffectKind
from recovery.judgement.codes import SENTENCES, Code
from recovery.judgement.decide import decide, decide_lapse, decide_limits, decide_lookup
from recovery.judgement.read import read_observation
from recovery.judgement.rule_table import RULES, RULES_FOR
from recovery.judgement.stateless import judge

LOOKED_UP = {**WRITE, "lookup": [LOOKUP]}
SPENT = Budget(used=3, limit=3)
PAST = NOW - timedelta(seconds=1)


def decided(observation, contract, *, effect=None, **more):
    contract = parse_stated_contract(contract)
    reading = read_observation(observation, contract=contract, earlier=(), now=NOW)
    effect = effect or (Effect.NONE if contract.effect is EffectKind.READ else reading.effect)
    return decide(reading=reading, facts=facts(contract, **more), effect=effect, contract=contract, now=NOW)


def spent(*names):
    return {"budgets": {name: SPENT if name in names else Budget(used=0, limit=3)
                        for name in ("retries", "repairs", "polls", "network_attempts")}}  # fmt: skip


LOST = broke(phase="await")
ROWS = [
    (LOST, LOOKED_UP, {}, "reconcile", "write.no_answer_after_send", "the owner can be asked"),
    (answer(500), LOOKED_UP, {}, "reconcile", "write.answer_proves_nothing", "likewise after an answer"),
    (LOST, {**NATURAL, "lookup": [LOOKUP]}, {}, "reconcile", "write.no_answer_after_send", "asking goes before repeats"),
    (LOST, NATURAL, {}, "retry", "write.unknown_but_repeat_is_harmless", "nobody to ask, and a licence"),
    (LOST, KEYED, {}, "retry", "write.unknown_but_repeat_is_harmless", "same key, in time"),
    (LOST, NATURAL, spent("retries"), "escalate", "write.nobody_to_ask", "no repeat left"),
    (LOST, NATURAL, {"touched_since": True}, "escalate", "write.nobody_to_ask", "a later one touched the same thing"),
    (LOST, WRITE, {}, "escalate", "write.nobody_to_ask", "neither a lookup nor a licence"),
    (LOST, LOOKED_UP, {"deadline_at": PAST}, "escalate", "write.unknown_after_limits", "the time has ended"),
    (LOST, LOOKED_UP, spent("polls"), "escalate", "write.unknown_after_limits", "the polls have ended"),
    (LOST, LOOKED_UP, {"escalated": True}, "escalate", "write.unknown_after_limits", "a person has it already"),
    (LOST, LOOKED_UP, {"reconcile_until": PAST}, "escalate", "write.nobody_to_ask", "lookups have ended"),
    (answer(429), WRITE, {}, "retry", "none.retry", "proved none"),
    (answer(429), WRITE, spent("retries"), "stop", "none.retries_ended", "nothing happened: a clean end"),
    (answer(429), WRITE, spent("network_attempts"), "stop", "none.retries_ended", "every real request counts"),
    (answer(429), WRITE, {"deadline_at": PAST}, "stop", "none.deadline_passed", "dispatching ends with the deadline"),
    (answer(429, headers={"retry-after": "3600"}), WRITE, {}, "stop", "none.deadline_passed",
     "the asked wait outlasts the deadline and is not shortened"),
    (answer(400), WRITE, {}, "repair", "none.repair", "one repair"),
    (answer(400), WRITE, spent("repairs"), "stop", "none.repairs_ended", "and no more"),
    (answer(404, request={"method": "DELETE"}), WRITE, {}, "repair", "none.look_again", "no check is in the contract"),
    (answer(202), LOOKED_UP, {}, "wait", "write.running", "it runs"),
    (answer(202), LOOKED_UP, {"deadline_at": PAST}, "escalate", "write.deadline_while_running", "and its time is over"),
    (answer(201, {"id": 1}), LOOKED_UP, {}, "done", "write.applied", "done"),
    (answer(201, {"id": 1}, network_attempts=2), LOOKED_UP, {}, "reconcile", "write.applied_maybe_twice",
     "two real requests without a key"),
    (answer(201, {"id": 1}, network_attempts=2), {**KEYED, "lookup": [LOOKUP]}, {}, "done", "write.applied",
     "the key kept them one"),
    (answer(200, {"success": [1], "failed": [2]}), BATCH, {}, "recover_items", "write.partial", "item by item"),
    (answer(200, {"success": [1], "failed": [2]}), LOOKED_UP, {}, "reconcile", "write.partly_done_to_be_looked_up",
     "this tool has no items"),
    (answer(200, {"success": [1], "failed": [2]}), WRITE, {}, "escalate", "write.partly_done", "and nobody to ask"),
    (LOST, READ, {}, "retry", "none.retry", "no effect to lose"),
    (LOST, READ, spent("retries"), "stop", "none.retries_ended", "one retry, then say so"),
    (answer(200, {}), READ, {}, "done", "read.done", "answered"),
    (answer(400), LOOKED_UP, {"joined": Effect.UNKNOWN}, "reconcile",
     "write.earlier_attempt_open", "the refusal speaks for its own attempt only"),
    (answer(400), NATURAL, {"joined": Effect.UNKNOWN}, "escalate", "write.nobody_to_ask",
     "the same call would be refused again, so a repeat finds nothing out"),
    (answer(409), WRITE, {"joined": Effect.APPLIED}, "done", "write.applied_before", "the receipt stands"),
]  # fmt: skip


@pytest.mark.parametrize(("seen", "contract", "more", "action", "rule", "why"), ROWS)
def test_after_an_answer(seen, contract, more, action, rule, why):
    more = dict(more)
    decision = decided(seen, contract, effect=more.pop("joined", None), **more)
    assert (decision.recovery_action, decision.rule) == (action, rule), why


def test_an_open_effect_takes_the_class_of_not_knowing():
    decision = decided(answer(400), LOOKED_UP, effect=Effect.UNKNOWN)
    assert (decision.failure_class, decision.code) == ("unknown_outcome", "EARLIER_ATTEMPT_OPEN")
    assert decision.licence is None


def lookup(answer="no_match", **more):
    values = {
        "source": "owner/status",
        "by": "status",
        "answer": answer,
        "started_at": NOW - timedelta(seconds=1),
        "observed_at": NOW,
        "exact_key": True,
        "authoritative": True,
        "complete": True,
        "sees": "all",
        "principal": "svc",
        "matches": 1 if answer == "found" else 0,
        "effect": Effect.APPLIED if answer == "found" else None,
    }
    return LookupFacts(**{**values, **more})


def looked_up(found, *, contract=LOOKED_UP, joined=None, **more):
    contract = parse_stated_contract(contract)
    held = facts(contract, **more)
    grade = grade_lookup(lookup=found, rule=contract.lookup[0], facts=held)
    effect = joined or grade.effect or held.effect
    return decide_lookup(grade=grade, lookup=found, facts=held, effect=effect, contract=contract, now=NOW)


CLEAN = {"clean_reads": 1, "absence_since": NOW - timedelta(seconds=30)}
LOOKUPS = [
    (lookup("found"), {}, "done", "lookup.applied", "an exact match at the owner"),
    (lookup("found", effect=Effect.PENDING), {}, "wait", "lookup.running", "made, not finished"),
    (lookup("found", differs=(("title", "a", "b"),)), {}, "escalate", "lookup.conflict", "not what was meant"),
    (lookup("found", matches=2), {}, "escalate", "lookup.more_than_one", "two of them"),
    (lookup(), {}, "reconcile", "lookup.not_settled", "one clean read of two"),
    (lookup(), CLEAN, "retry", "lookup.absent.retry", "graded absence licenses a repeat"),
    (lookup(), {**CLEAN, **spent("retries")}, "stop", "lookup.absent.retries_ended", "proved absent, and no repeat left"),
    (lookup(), {**CLEAN, "deadline_at": PAST}, "stop", "lookup.absent.deadline_passed", "proved absent, too late"),
    (lookup("lookup_failed"), {}, "reconcile", "lookup.failed", "a failed lookup is never 'not found'"),
    (lookup("inconclusive"), {}, "reconcile", "lookup.not_settled", "no answer to the question"),
    (lookup("lookup_failed"), {"deadline_at": PAST}, "escalate", "lookup.limits_ended", "the time has ended"),
    (lookup("lookup_failed"), {"budgets": {"polls": Budget(used=2, limit=3)}}, "escalate", "lookup.limits_ended",
     "this was the last poll"),
    (lookup("found"), {"escalated": True}, "done", "lookup.applied", "evidence closes an escalation"),
    (lookup("inconclusive"), {"escalated": True}, "escalate", "lookup.limits_ended", "it stays with the person"),
]  # fmt: skip


@pytest.mark.parametrize(("found", "more", "action", "rule", "why"), LOOKUPS)
def test_after_a_lookup(found, more, action, rule, why):
    decision = looked_up(found, **more)
    assert (decision.recovery_action, decision.rule) == (action, rule), why


def test_a_repeat_after_graded_absence_names_its_licence():
    decision = looked_up(lookup(), **CLEAN)
    assert decision.licence == "effect_none_proved"
    assert decision.effect_status == "none"


def test_the_next_look_waits_until_an_absence_could_count():
    fresh = attempt(lapses_at=NOW + timedelta(minutes=5))
    contract = parse_stated_contract(LOOKED_UP)
    held = facts(contract, fresh)
    found = lookup()
    grade = grade_lookup(lookup=found, rule=contract.lookup[0], facts=held)
    decision = decide_lookup(grade=grade, lookup=found, facts=held, effect=held.effect, contract=contract, now=NOW)
    assert decision.not_before >= NOW + timedelta(minutes=5, seconds=30)


def test_an_escalated_operation_is_looked_at_slowly_and_not_after_the_end():
    slow = looked_up(lookup("lookup_failed"), escalated=True)
    assert slow.not_before == NOW + timedelta(minutes=10)
    ending = looked_up(lookup("lookup_failed"), escalated=True, reconcile_until=NOW + timedelta(minutes=9))
    assert ending.not_before is None


LAPSES = [
    (LOOKED_UP, {}, "reconcile", "lapse.ask_the_owner", "it may have been sent"),
    (NATURAL, {}, "retry", "lapse.repeat_is_harmless", "a licence, and nobody to ask"),
    (WRITE, {}, "escalate", "lapse.nobody_to_ask", "neither"),
    (LOOKED_UP, {"deadline_at": PAST}, "escalate", "lapse.limits_ended", "too late to find out"),
    (READ, {}, "retry", "lapse.read.retry", "a read may be repeated"),
    (READ, spent("retries"), "stop", "lapse.read.retries_ended", "once"),
]


@pytest.mark.parametrize(("contract", "more", "action", "rule", "why"), LAPSES)
def test_after_a_lapse(contract, more, action, rule, why):
    contract = parse_stated_contract(contract)
    held = facts(contract, **more)
    decision = decide_lapse(facts=held, effect=held.effect, contract=contract, now=NOW)
    assert (decision.recovery_action, decision.rule) == (action, rule), why


LIMITS = [
    (LOOKED_UP, Effect.UNKNOWN, {}, None, "nothing has ended"),
    (LOOKED_UP, Effect.UNKNOWN, {"deadline_at": PAST}, "escalate", "a person is asked"),
    (LOOKED_UP, Effect.UNKNOWN, {"deadline_at": PAST, "escalated": True}, None, "once"),
    (LOOKED_UP, Effect.PENDING, spent("polls"), "escalate", "the polls have ended"),
    (LOOKED_UP, Effect.NONE, {"deadline_at": PAST}, "stop", "nothing happened"),
    (LOOKED_UP, Effect.NONE, spent("polls"), None, "nothing is being asked"),
    (LOOKED_UP, Effect.APPLIED, {"deadline_at": PAST}, "done", "done is done"),
    (READ, Effect.NONE, {"deadline_at": PAST}, "stop", "a read ends"),
]


@pytest.mark.parametrize(("contract", "effect", "more", "action", "why"), LIMITS)
def test_at_a_limit(contract, effect, more, action, why):
    contract = parse_stated_contract(contract)
    held = facts(contract, effect=effect, **more)
    decision = decide_limits(facts=held, effect=effect, contract=contract, now=NOW)
    assert (decision and decision.recovery_action) == action, why


def test_every_rule_is_named_once_and_speaks_in_sentences():
    assert len({rule.name for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert re.fullmatch(r"[a-z]+(\.[a-z_]+)+", rule.name)
        for text in (rule.says, rule.hint):
            assert 1 <= len(re.findall(r"\.(?:\s|$)", text)) <= 2, rule.name
        assert rule.source, rule.name


def test_every_occasion_ends_in_a_rule_that_always_holds():
    for (occasion, standing), rules in RULES_FOR.items():
        assert rules[-1].when(None), (occasion, standing)  # it looks at nothing


def test_every_rule_can_be_met():
    met = {rule.name for rules in RULES_FOR.values() for rule in rules}
    assert met == {rule.name for rule in RULES}


def test_every_code_has_its_sentence():
    assert set(SENTENCES) == set(Code)
    assert all(re.fullmatch(r"[A-Z][A-Z0-9_]*", code) for code in Code)


def test_a_judgement_can_show_every_rule_that_was_looked_at():
    contract = parse_stated_contract(NATURAL)
    judgement = judge(contract=contract, history=[], observation=LOST, now=NOW, explain=True)
    holding = [rule.name for rule, holds in judgement.rules if holds]
    assert holding[0] == judgement.decision.rule
    assert len(judgement.rules) > len(holding)
    assert judge(contract=contract, history=[], observation=LOST, now=NOW).rules == ()
