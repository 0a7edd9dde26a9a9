"""What every adapter of a lookup kind must hold to, whatever it speaks: one table for all of them.

A kind takes part with a `Stage`: it brings a real owner into a situation and asks it through the adapter. Write it as
a fixture named `<kind>_stage`, and name the kind in `KINDS` of test_conformance.py. A situation in which the kind cannot be
stands in `cannot`, with the reason.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Protocol

from ledger.rules.contract import parse_contract
from ledger.rules.vocabulary import Effect, LookupOutcome
from recovery.owners.base import Question, Reach, Reply

OPERATION_ID = "ticket:create:case-8472"
PAYLOAD = {"title": "Export broken", "customer": "c-19"}
TIME_LEFT = 1.5
"""Seconds that a question may take."""
SECRET = "hunter2-never-shown"
"""The value of every credential on a stage."""


class Situation(StrEnum):
    """What the owner is like when it is asked."""

    FOUND = "found"
    """It holds exactly what was meant, applied."""
    NO_MATCH = "no_match"
    """It holds nothing of ours, and says so completely."""
    PENDING = "pending"
    """It is still working on it."""
    DIFFERENT = "different"
    """It holds something under our key whose title is another."""
    SEVERAL = "several"
    """It holds two of ours."""
    FAILED = "failed"
    """It fails: HTTP 503, a tool error, a database that is down."""
    SLOW = "slow"
    """It answers after the time is up, or drips."""
    HUGE = "huge"
    """Its answer is larger than anybody should read."""
    MALFORMED = "malformed"
    """Its answer is not what its protocol allows."""
    WRONG_PRINCIPAL = "wrong_principal"
    """It does not accept who is asking."""
    TRUNCATED = "truncated"
    """Its answer is cut short, and what is ours is not in the part that came."""
    REDIRECTED = "redirected"
    """It sends us to another host, which would say that it holds what was meant."""
    REPEATED_CURSOR = "repeated_cursor"
    """Its pages go round in a circle."""
    WITHOUT_HANDLE = "without_handle"
    """Its first answer was lost, and with it what it is asked by."""


class Stage(Protocol):
    """One adapter before a real owner."""

    cannot: Mapping[Situation, str]
    """Situations in which this kind cannot be, each with the reason."""

    def ask(self, situation: Situation) -> Reply:
        """The adapter's reply while the owner is in this situation, asked with TIME_LEFT."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a reply must be."""

    outcomes: frozenset[LookupOutcome]
    why: str
    holds: Callable[[Reply], bool] = lambda reply: True
    """And besides."""


def _one(*outcomes: LookupOutcome) -> frozenset[LookupOutcome]:
    return frozenset(outcomes)


FOUND, NO_MATCH = LookupOutcome.FOUND, LookupOutcome.NO_MATCH
FAILED, SETTLES_NOTHING = LookupOutcome.LOOKUP_FAILED, LookupOutcome.INCONCLUSIVE

EXPECTED: Mapping[Situation, Expected] = {
    Situation.FOUND: Expected(
        outcomes=_one(FOUND),
        why="what is there is said to be there",
        holds=lambda reply: reply.effect is Effect.APPLIED and reply.matches == 1 and not reply.differs,
    ),
    Situation.NO_MATCH: Expected(
        outcomes=_one(NO_MATCH), why="whether it counts is graded later", holds=lambda reply: reply.complete
    ),
    Situation.PENDING: Expected(
        outcomes=_one(FOUND),
        why="the owner says that it works on it",
        holds=lambda reply: reply.effect is Effect.PENDING,
    ),
    Situation.DIFFERENT: Expected(
        outcomes=_one(FOUND),
        why="a conflict, with the field that differs",
        holds=lambda reply: [member for member, _, _ in reply.differs] == ["title"],
    ),
    Situation.SEVERAL: Expected(
        outcomes=_one(FOUND),
        why="there may be a duplicate; each is named",
        holds=lambda reply: reply.matches == 2 and len(reply.found) == 2 and all(reply.found),
    ),
    Situation.FAILED: Expected(outcomes=_one(FAILED, SETTLES_NOTHING), why="a lookup that failed is never not found"),
    Situation.SLOW: Expected(outcomes=_one(FAILED), why="nor is one that took too long"),
    Situation.HUGE: Expected(
        outcomes=_one(FAILED, SETTLES_NOTHING, NO_MATCH),
        why="it is not read to its end, so nothing is said of the rest",
        holds=lambda reply: reply.outcome is not NO_MATCH or not reply.complete,
    ),
    Situation.MALFORMED: Expected(outcomes=_one(FAILED, SETTLES_NOTHING), why="what cannot be read says nothing"),
    Situation.WRONG_PRINCIPAL: Expected(
        outcomes=_one(FAILED),
        why="who is not accepted sees nothing; asking again with the same credential is useless",
        holds=lambda reply: reply.refused_credential,
    ),
    Situation.TRUNCATED: Expected(
        outcomes=_one(FAILED, SETTLES_NOTHING, NO_MATCH),
        why="what is not in the part that came may be in the rest",
        holds=lambda reply: not reply.complete,
    ),
    Situation.REDIRECTED: Expected(
        outcomes=_one(FAILED, SETTLES_NOTHING), why="nobody but the owner is asked, whoever it names"
    ),
    Situation.REPEATED_CURSOR: Expected(
        outcomes=_one(FAILED, SETTLES_NOTHING, NO_MATCH),
        why="it would go round for ever, and what else there is is not known",
        holds=lambda reply: not reply.complete and reply.stop_reason == "repeated_cursor",
    ),
    Situation.WITHOUT_HANDLE: Expected(
        outcomes=_one(SETTLES_NOTHING),
        why="the contract's next lookup is asked",
        holds=lambda reply: "lost" in reply.reason,
    ),
}


def conforms(stage: Stage, situation: Situation) -> None:
    """Asks on the stage and checks the reply against the table."""
    expected = EXPECTED[situation]
    began = time.monotonic()
    reply = stage.ask(situation)
    took = time.monotonic() - began
    assert reply.outcome in expected.outcomes, (expected.why, reply)
    assert expected.holds(reply), (expected.why, reply)
    assert took < TIME_LEFT + 2.5, f"it kept to its time: {took:.1f} s"
    if reply.outcome in (FAILED, SETTLES_NOTHING):
        assert reply.reason, "it says why"
    said = f"{reply.reason} {reply.query} {reply.principal}"
    assert SECRET not in said, "a secret is in what people see"
    assert "Traceback" not in said
    assert len(reply.body) <= 2 * 1024 * 1024


def question(
    rule: dict[str, Any],
    *,
    base_url: str,
    hosts: frozenset[str] = frozenset(),
    private_hosts: frozenset[str] = frozenset({"127.0.0.1"}),
    receipt: Mapping[str, Any] | None = None,
    secrets: Mapping[str, str] | None = None,
    time_left: float = TIME_LEFT,
    **more: Any,
) -> Question:
    """A question by one lookup rule of a contract, about the operation that every stage has."""
    contract = parse_contract(
        {
            "contract": "tickets.create",
            "owner": "helpdesk",
            "effect": "write",
            "receipt": {"id": "body.id"},
            "lookup": [rule],
        }
    )
    return Question(
        owner="helpdesk",
        reach=Reach(base_url=base_url, hosts=hosts, private_hosts=private_hosts),
        lookup=contract.compiled.lookups[0],
        operation_id=OPERATION_ID,
        idempotency_key=OPERATION_ID,
        payload=PAYLOAD,
        receipt=receipt or {},
        receipts=contract.compiled.receipt,
        started_at=datetime.now(UTC),
        time_left=time_left,
        secrets=secrets or {},
        **more,
    )
