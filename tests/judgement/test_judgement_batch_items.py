"""Laws of batches, over an owner that does to each item whatever the dice say and tells of it honestly, late or never.

* no item is done twice at the owner;
* no item is ever lost: each has an outcome in the end, or is still open;
* an item is carried again only under a licence of its own;
* an answer that names only some items settles only those.
"""

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.rules.budgets import limits
from ledger.rules.contract import idempotency_key, parse_contract
from ledger.rules.evidence import grade_lookup
from ledger.rules.facts import AttemptFacts, Budget, Facts, ItemFacts, LookupFacts
from ledger.rules.items import join_items, of_item, sent_again, to_carry, to_look_up
from ledger.rules.licences import Refusal
from ledger.rules.vocabulary import Effect, EffectKind, Licence, Request, State, Verification
from recovery.batches import (
    earlier_attempts,
    told_by_lapse,
    told_by_lookup,
    told_by_report,
    with_carried_keys,
)
from recovery.judgement.read import read_observation

T0 = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
LOOKUP = {
    "by": "status",
    "http": {"method": "GET", "path": "/tickets/{item.key}"},
    "found": "status == 200",
    "no_match": "status == 404",
    "authoritative": True,
    "sees": "all",
    "lag": "0s",
    "clean_reads": 1,
}
STATUSES = (201, 201, 201, 429, 422, 402, 409, 500, 503)


def contract(guarantee, lookup):
    promise = {"guarantee": guarantee}
    if guarantee == "key":
        promise |= {"field": "header:K", "retention": "24h"}
    return parse_contract(
        {
            "contract": "t",
            "owner": "o",
            "effect": "batch",
            "identity": "none",
            "items": {"path": "payload.tickets", "key": "ref"},
            "idempotency": promise,
            "timeout": "1s",
            "dispatch_within": "1s",
            "deadline": "1h",
            "budgets": {"retries": 8, "polls": 50},
            **({"lookup": [LOOKUP]} if lookup else {}),
        }
    )


CONTRACTS = {
    (guarantee, lookup): contract(guarantee, lookup) for guarantee in ("none", "key") for lookup in (False, True)
}


class World:
    """A batch in the ledger's rules, and the owner that it is sent to."""

    def __init__(self, of, dice, size):
        self.of, self.dice, self.now = of, dice, T0
        items = tuple(ItemFacts(number=n, key=f"k{n}", effect=Effect.NONE) for n in range(1, size + 1))
        self.facts = Facts(
            operation_id="op",
            tool="t",
            kind=EffectKind.BATCH,
            version=1,
            state=State.OPEN,
            request=Request.NOT_SENT,
            effect=Effect.NONE,
            verification=Verification.NOT_REQUIRED,
            outcome=None,
            revision=1,
            payload_digest="sha256:1",
            budgets={name: Budget(used=0, limit=limit) for name, limit in limits(of).items()},
            deadline_at=T0 + timedelta(hours=1),
            reconcile_until=T0 + timedelta(hours=2),
            items=items,
            carries=frozenset(item.number for item in items),
        )
        self.done = {item.number: 0 for item in items}
        self.by_key = {}
        """What the owner remembers of a key, where it guarantees keys: what it answered, item by item."""
        self.answers = {}

    def dispatch(self):
        facts = self.facts
        if any(attempt.closed_at is None for attempt in facts.attempts):
            return
        carry = to_carry(facts=facts, contract=self.of, now=self.now)
        if isinstance(carry, Refusal):
            return
        for item in facts.items:
            if item.number in carry.licences and facts.attempts:
                licence = carry.licences[item.number]
                assert isinstance(licence, Licence), "an item goes again only under a licence of its own"
                assert item.outcome is None
                assert item.effect is not Effect.APPLIED
                assert licence is not Licence.EFFECT_NONE_PROVED or all(
                    each.effect is Effect.NONE for each in item.attempts
                )
        if not carry.same_request:
            number = facts.revision + 1
            facts = replace(
                facts,
                revision=number,
                payload_digest=f"sha256:{number}",
                carries=frozenset(carry.licences),
                first_sent_at=None,
            )
        number = len(facts.attempts) + 1
        key = idempotency_key(self.of, operation_id="op", revision=facts.revision)
        attempt = AttemptFacts(
            attempt_id=f"attempt-{number:02d}",
            number=number,
            revision=facts.revision,
            digest=facts.payload_digest,
            principal="",
            idempotency_key=key,
            licence=None,
            opened_at=self.now,
            dispatch_by=self.now + timedelta(seconds=1),
            lapses_at=self.now + timedelta(seconds=4),
            closed_at=None,
            effect=Effect.UNKNOWN,
        )
        items = tuple(
            sent_again(item, attempt=number, licence=carry.licences[item.number])
            if item.number in carry.licences
            else item
            for item in facts.items
        )
        self.facts = replace(
            facts,
            state=State.DISPATCHED,
            attempts=(*facts.attempts, attempt),
            items=items,
            effect=join_items(items),
            first_sent_at=facts.first_sent_at or self.now,
        )
        self.act(number, key, sorted(carry.licences))

    def act(self, number, key, carried):
        """The owner gets it, or does not; a key that it remembers is answered as before."""
        if self.dice.random() < 0.2:
            self.answers[number] = None
            return
        if key is not None and key in self.by_key:
            self.answers[number] = self.by_key[key]
            return
        answers = {}
        for item in carried:
            status = self.dice.choice(STATUSES)
            # A failure of the owner's own may come after it acted.
            if status == 201 or (status >= 500 and self.dice.random() < 0.5):
                self.done[item] += 1
            answers[item] = status
        self.answers[number] = answers
        if key is not None and self.of.idempotency.guarantee == "key":
            self.by_key[key] = answers

    def report(self, number):
        if number > len(self.facts.attempts):
            return
        answers = self.answers[number]
        lost = {"kind": "exception", "exception": "ReadTimeout", "phase": "await", "bytes_sent": 9}
        observation = lost
        if answers is not None and self.dice.random() < 0.7:
            named = [item for item in answers if self.dice.random() < 0.8]
            entries = [{"id": f"k{item}", "status": answers[item]} for item in named]
            observation = {"kind": "http", "status": 200, "body": {"results": entries}}
        elif answers is None and self.dice.random() < 0.5:
            observation = {"kind": "exception", "exception": "ConnectError", "phase": "connect", "bytes_sent": 0}
        before = {item.number: item for item in self.facts.items}
        reading = read_observation(
            with_carried_keys(observation, facts=self.facts, number=number),
            contract=self.of,
            earlier=earlier_attempts(facts=self.facts, number=number),
            now=self.now,
        )
        told = told_by_report(
            facts=self.facts, number=number, reading=reading, contract=self.of, now=self.now, roll=0.5
        )
        if "body" in observation and observation["body"]["results"]:
            names = {entry["id"] for entry in observation["body"]["results"]}
            for item in told.items:
                if item.key not in names:
                    assert item.effect is before[item.number].effect, "an answer settles only what it names"
        self.take(told.items, closes=number)

    def lapse(self):
        last = self.facts.last_attempt
        if last is None or last.closed_at is not None:
            return
        self.now = max(self.now, last.lapses_at)
        self.take(
            told_by_lapse(facts=self.facts, number=last.number, contract=self.of, now=self.now, roll=0.5),
            closes=last.number,
        )

    def look(self):
        if not self.of.lookup:
            return
        for item in to_look_up(self.facts)[:2]:
            there = self.done[item.number] > 0
            lookup = LookupFacts(
                source="o/status",
                by="status",
                answer="found" if there else "no_match",
                started_at=self.now,
                observed_at=self.now,
                exact_key=True,
                authoritative=True,
                complete=True,
                sees="all",
                matches=1 if there else 0,
                effect=Effect.APPLIED if there else None,
            )
            grade = grade_lookup(lookup=lookup, rule=self.of.lookup[0], facts=of_item(self.facts, item))
            known = told_by_lookup(
                facts=self.facts, item=item, grade=grade, lookup=lookup, contract=self.of, now=self.now, roll=0.5
            )
            self.take(tuple(known if each.number == known.number else each for each in self.facts.items))

    def take(self, items, closes=None):
        attempts = tuple(
            replace(attempt, closed_at=attempt.closed_at or self.now) if attempt.number == closes else attempt
            for attempt in self.facts.attempts
        )
        self.facts = replace(self.facts, items=items, effect=join_items(items), attempts=attempts, state=State.OPEN)

    def holds(self):
        twice = [item for item, times in self.done.items() if times > 1]
        assert not twice, f"done twice: {twice}"
        assert len(self.facts.items) == len(self.done)
        for item in self.facts.items:
            if item.effect is Effect.APPLIED:
                assert self.done[item.number] == 1, "what is called applied is there"
            if item.effect is Effect.NONE and item.attempts:
                assert self.done[item.number] == 0, "what is called none is not"
            if item.outcome is None and item.attempts and item.effect in (Effect.UNKNOWN, Effect.PENDING):
                flying = any(
                    attempt.closed_at is None and any(each.attempt == attempt.number for each in item.attempts)
                    for attempt in self.facts.attempts
                )
                assert flying or item.decision is not None, "an open item has its next step"


STEPS = st.lists(st.sampled_from(["dispatch", "report", "late", "lapse", "look", "wait"]), max_size=40)


@pytest.mark.parametrize(("guarantee", "lookup"), CONTRACTS)
@settings(max_examples=150, deadline=None, derandomize=True)
@given(steps=STEPS, seed=st.integers(0, 2**32), size=st.integers(1, 5))
def test_whatever_happens(guarantee, lookup, steps, seed, size):
    world = World(CONTRACTS[guarantee, lookup], random.Random(seed), size)
    world.dispatch()
    for step in steps:
        world.now += timedelta(seconds=2)
        if step == "report":
            world.report(len(world.facts.attempts))
        elif step == "late":
            world.report(world.dice.randint(1, len(world.facts.attempts)))
        elif step == "wait":
            world.now += timedelta(minutes=1)
        else:
            getattr(world, step)()
        world.holds()
