"""Transitions against a real PostgreSQL: each is one change or none, and says which."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command
from django.db import IntegrityError

from ledger.database import execute
from ledger.errors import sentence
from ledger.queries.clock import database_now
from ledger.queries.facts import Held, held, held_by_name, holder_of
from ledger.rules.contract import parse_contract
from ledger.rules.decision import Decision
from ledger.rules.evidence import Grade
from ledger.rules.facts import LookupFacts
from ledger.rules.payload import canonical, digest_of, raw
from ledger.rules.resolutions import Answer, Offer, offers
from ledger.rules.revisions import RevisionKind
from ledger.rules.vocabulary import Effect, LookupOutcome, Outcome, Proof, State
from ledger.transitions import lookup as looking
from ledger.transitions.contracts import publish_contract
from ledger.transitions.passing_of_time import end_by_limit, end_wait, lapse_attempt
from ledger.transitions.permit import Permitted, request_permit
from ledger.transitions.person import Signer, attest, first_signature
from ledger.transitions.revise import revise
from ledger.transitions.schedule import claim_due, look_again, release
from ledger.transitions.workspace import ensure_person
from recovery.judgement.decide import decide_lapse, decide_limits, decide_lookup
from recovery.report import report
from tests.conftest import TICKETS, Api, Bench, Database, make_bench

LOST = {"kind": "exception", "exception": "ReadTimeout", "phase": "await", "bytes_sent": 300, "request_bytes": 300}
REFUSED = {"kind": "exception", "exception": "ConnectError", "phase": "connect", "bytes_sent": 0}
CREATED = {"kind": "http", "status": 201, "body": {"id": "t-1"}, "request": {"method": "POST", "path": "/tickets"}}
INVALID = {
    "kind": "http",
    "status": 422,
    "body": {"detail": [{"loc": ["body", "priority"], "msg": "unknown", "type": "value_error"}]},
    "request": {"method": "POST", "path": "/tickets"},
}
URL = "https://helpdesk.example/t-1"


@pytest.fixture(scope="module")
def people(database: Database) -> dict[str, Signer]:
    """Two people who may sign."""
    names = ("olive-t", "ada-t")
    return {
        name.partition("-")[0]: Signer(id=ensure_person(username=name, name=name, password="x" * 20), username=name)
        for name in names
    }


class Story:
    """One operation of a fresh workspace, told step by step."""

    def __init__(self, **contract: Any) -> None:
        self.bench: Bench = make_bench()
        self.bench.publish({**TICKETS, **contract})
        self.api = Api(self.bench.token)

    def opened(self, name: str = "op", *, attempt: bool = True, title: str = "t", **payload: Any) -> "Story":
        body = {
            "operation_id": name,
            "tool": "tickets.create",
            "payload": {"title": title, **payload},
            "attempt": attempt,
        }
        assert self.api.post("/operations", body).status_code == 201
        return self

    def saw(self, observation: dict[str, Any], *, attempt: int = 1, name: str = "op") -> "Story":
        path = f"/operations/{name}/attempts/attempt-{attempt:02d}/observations"
        assert self.api.post(path, observation).status_code == 200
        return self

    def held(self, name: str = "op") -> Held:
        found = held_by_name(workspace_id=self.bench.id, operation_id=name)
        assert found is not None
        return found

    def offer(self, answer: Answer, *, name: str = "op") -> Offer:
        known = self.held(name)
        twin = known.identity_digest is not None and not known.holds_identity and not known.distinct_intent
        return next(
            offer
            for offer in offers(facts=known.facts, contract=known.contract, now=known.now, blocked_by_identity=twin)
            if offer.answer is answer
        )

    def says(self, signer: Signer, answer: Answer, *, name: str = "op", **terms: Any) -> int | None:
        known = self.held(name)
        given = {
            "held": known,
            "signer": signer,
            "offer": self.offer(answer, name=name),
            "reason": "looked",
            "evidence_url": URL,
            "expected_version": known.facts.version,
            "signs": first_signature(id=known.id),
            **terms,
        }
        return attest(**given)

    def written(self, name: str = "op") -> dict[str, int]:
        """How many rows of each kind the operation has."""
        id = self.held(name).id
        tables = ("journal", "evidence", "attestation", "attempt", "revision", "original", "schedule")
        counted = ", ".join(f"(SELECT count(*) FROM {table} WHERE operation = %(id)s)" for table in tables)
        return dict(zip(tables, execute(f"SELECT {counted}", {"id": id})[0], strict=True))


def lapsed(known: Held) -> tuple[Held, Decision]:
    """The operation at its attempt's possible end, and what is decided then."""
    last = known.facts.last_attempt
    assert last is not None
    later = replace(known, now=last.lapses_at)
    effect = Effect.NONE if known.facts.is_read else Effect.UNKNOWN
    return later, decide_lapse(facts=later.facts, effect=effect, contract=later.contract, now=later.now, roll=0.5)


def over(known: Held) -> tuple[Held, Decision]:
    """The operation after its deadline, and what is decided then."""
    assert known.facts.deadline_at is not None
    later = replace(known, now=known.facts.deadline_at + timedelta(seconds=1))
    decision = decide_limits(
        facts=later.facts, effect=later.facts.effect, contract=later.contract, now=later.now, roll=0.5
    )
    assert decision is not None
    return later, decision


def lookup(
    known: Held, *, effect: Effect | None, outcome: LookupOutcome, proof: Proof | None, conflict: bool = False
) -> Any:
    """An owner's answer, its grade, and what is decided on it."""
    told = LookupFacts(
        source="helpdesk/status", by="status", answer=outcome.value, started_at=known.now, observed_at=known.now,
        exact_key=True, authoritative=True, complete=True, sees="all", matches=0 if effect is None else 1, effect=effect,
    )  # fmt: skip
    grade = Grade(
        outcome=outcome, effect=effect, proof=proof, clean_reads=0, absence_since=None, absent=False, conflict=conflict,
        reasons=("tested",), earliest_useful_at=None,
    )  # fmt: skip
    joined = looking.effect_with(held=known, grade=grade)
    decision = decide_lookup(
        grade=grade, lookup=told, facts=known.facts, effect=joined, contract=known.contract, now=known.now, roll=0.5
    )
    answer = looking.Answer(lookup=told, grade=grade, body='{"state":"x"}', detail={})
    return answer, decision


def record(known: Held, **answer: Any) -> int | None:
    told, decision = lookup(known, **answer)
    return looking.record_lookup(held=known, answer=told, decision=decision, at=known.now)


FOUND = {"effect": Effect.APPLIED, "outcome": LookupOutcome.FOUND, "proof": Proof.LOOKUP_MATCH}
FAILED = {"effect": None, "outcome": LookupOutcome.LOOKUP_FAILED, "proof": None}
RETRY_LATE = {"retry": {"first": "1h", "factor": 1, "max": "1h", "jitter": "full"}}


def _permit(known: Held) -> Any:
    answer = request_permit(held=known, actor="test")
    assert not isinstance(answer, Decision)
    return answer


def _revise(known: Held) -> int | None:
    return revise(
        held=known,
        kind=RevisionKind.REPAIR,
        payload={"title": "t", "priority": "high"},
        identity_digest="sha256:" + (known.identity_digest or b"").hex(),
        field="priority",
        reason="was refused",
        actor="test",
    )


def _offered(known: Held, people: dict[str, Signer]) -> int | None:
    offer = next(
        offer
        for offer in offers(facts=known.facts, contract=known.contract, now=known.now, blocked_by_identity=False)
        if offer.answer is Answer.APPLIED
    )
    return attest(
        held=known,
        signer=people["olive"],
        offer=offer,
        reason="seen",
        evidence_url=URL,
        expected_version=known.facts.version,
        signs=None,
    )


def _lapse(known: Held) -> int | None:
    later, decision = lapsed(known)
    return lapse_attempt(held=later, decision=decision)


def _end(known: Held) -> int | None:
    later, decision = over(known)
    return end_by_limit(held=later, decision=decision)


STEPS: list[tuple[str, Callable[[], Story], Callable[[Held, dict[str, Signer]], Any], dict[str, int]]] = [
    ("open_attempt", lambda: Story().opened(attempt=False), lambda known, _: _permit(known), {"attempt": 1}),
    ("lapse_attempt", lambda: Story().opened(), lambda known, _: _lapse(known), {}),
    ("end_wait", lambda: Story(**RETRY_LATE).opened().saw(REFUSED), lambda known, _: end_wait(held=known), {}),
    ("end_by_limit", lambda: Story().opened(attempt=False), lambda known, _: _end(known), {"schedule": -1}),
    ("look_again", lambda: Story().opened().saw(LOST), lambda known, _: look_again(held=known, actor="test"), {}),
    ("attest", lambda: Story().opened().saw(LOST), _offered, {"attestation": 1, "evidence": 1, "schedule": -1}),
    ("record_lookup found", lambda: Story().opened().saw(LOST), lambda known, _: record(known, **FOUND),
     {"evidence": 1, "original": 1, "schedule": -1}),
    ("record_lookup failed", lambda: Story().opened().saw(LOST), lambda known, _: record(known, **FAILED),
     {"evidence": 1, "original": 1}),
    ("revise", lambda: Story().opened(priority="urgentest").saw(INVALID), lambda known, _: _revise(known),
     {"revision": 1, "original": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("verb", "story", "step", "more"), STEPS, ids=[row[0] for row in STEPS])
def test_a_step_is_one_change_and_a_lost_race_is_none(
    verb: str,
    story: Callable[[], Story],
    step: Callable[[Held, dict[str, Signer]], Any],
    more: dict[str, int],
    people: dict[str, Signer],
) -> None:
    told = story()
    known, before = told.held(), told.written()
    done = step(known, people)
    assert (done.held.facts.version if isinstance(done, Permitted) else done) == known.facts.version + 1
    after = told.written()
    assert {name: after[name] - before[name] for name in after if after[name] != before[name]} == {"journal": 1, **more}
    [(last,)] = execute("SELECT verb FROM journal WHERE operation = %s ORDER BY seq DESC LIMIT 1", [known.id])
    assert last == verb.split()[0]
    moved = told.held()
    assert step(known, people) is None, "the version that was read is no longer the row's"
    assert told.written() == after, "and nothing at all was written"
    assert told.held().facts == moved.facts


def test_a_lost_race_of_two_reports_is_read_again(people: dict[str, Signer]) -> None:
    told = Story().opened()
    for observation in (LOST, CREATED, LOST, CREATED):
        digest = digest_of(canonical(observation))
        held = held_by_name(workspace_id=told.bench.id, operation_id="op", attempt=1, digest=raw(digest))
        assert held is not None
        report(held=held, attempt_id="attempt-01", observation=observation, digest=digest, actor="test")
    assert told.written()["evidence"] == 2, "the same observation is evidence once"
    assert told.written()["journal"] == 3
    assert told.held().facts.outcome is Outcome.APPLIED


def test_a_person_who_saw_an_older_version_is_refused(people: dict[str, Signer]) -> None:
    told = Story().opened().saw(LOST)
    seen = told.held().facts.version
    told.saw({**LOST, "message": "a second log line"})
    assert told.says(people["olive"], Answer.APPLIED, expected_version=seen) is None
    assert told.written()["attestation"] == 0
    assert told.says(people["olive"], Answer.APPLIED) is not None


def test_it_happened_counts_at_once(people: dict[str, Signer]) -> None:
    told = Story().opened().saw(LOST)
    told.says(people["olive"], Answer.APPLIED)
    facts = told.held().facts
    assert (facts.state, facts.outcome, facts.effect) == (State.SETTLED, Outcome.APPLIED, Effect.APPLIED)
    assert [attempt.proof for attempt in facts.attempts] == [Proof.ATTESTED]
    assert not told.held().holds_identity, "the intent is free again"


def test_it_did_not_happen_needs_a_second_person(people: dict[str, Signer]) -> None:
    told = Story().opened().saw(LOST)
    assert told.offer(Answer.NOT_APPLIED).needs_second_person
    told.says(people["olive"], Answer.NOT_APPLIED)
    known = told.held()
    assert (known.facts.state, known.facts.effect) == (State.RECONCILING, Effect.UNKNOWN)
    assert known.awaits_signature is not None
    before = told.written()
    with pytest.raises(ValueError, match="another person's"):
        told.says(people["olive"], Answer.NOT_APPLIED)
    with pytest.raises(ValueError, match="for the same answer"):
        told.says(people["ada"], Answer.APPLIED)
    assert told.written() == before
    told.says(people["ada"], Answer.NOT_APPLIED)
    known = told.held()
    assert (known.facts.state, known.facts.outcome, known.facts.effect) == (
        State.SETTLED, Outcome.NOT_APPLIED, Effect.NONE,
    )  # fmt: skip
    assert known.awaits_signature is None
    refusal = request_permit(held=known, actor="test")
    assert isinstance(refusal, Decision)
    assert refusal.code == "ALREADY_SETTLED"


def test_a_first_signature_that_somebody_else_overtakes_is_void(people: dict[str, Signer]) -> None:
    told = Story().opened().saw(LOST)
    told.says(people["olive"], Answer.NOT_APPLIED)
    told.saw(CREATED)
    known = told.held()
    assert (known.facts.outcome, known.awaits_signature) == (Outcome.APPLIED, None)
    assert not told.offer(Answer.NOT_APPLIED).allowed


ALONE = [
    ({"idempotency": {"guarantee": "natural"}}, False, "a natural guarantee"),
    ({"idempotency": {"guarantee": "key", "field": "header:Idempotency-Key", "retention": "24h"}}, False, "a live key"),
    ({"idempotency": {"guarantee": "key", "field": "header:Idempotency-Key"}}, True, "a key of unknown retention"),
    (
        {"idempotency": {"guarantee": "key", "field": "header:Idempotency-Key", "retention": "1s"}},
        True,
        "a key that ended",
    ),
    ({"idempotency": {"guarantee": "none", "field": "header:Idempotency-Key"}}, True, "no guarantee"),
    (
        {"idempotency": {"guarantee": "natural"}, "resolution": {"second_person_for": ["not_applied"]}},
        True,
        "a contract that asks for more",
    ),
]


@pytest.mark.parametrize(("contract", "second", "why"), ALONE, ids=[why for *_, why in ALONE])
def test_one_person_is_enough_where_a_wrong_answer_cannot_double(
    contract: dict[str, Any], second: bool, why: str, people: dict[str, Signer]
) -> None:
    told = Story(**contract).opened().saw(LOST)
    assert told.offer(Answer.NOT_APPLIED).needs_second_person is second, why
    told.says(people["olive"], Answer.NOT_APPLIED)
    assert (told.held().facts.state is State.SETTLED) is not second


def test_cannot_tell_changes_no_effect_and_asks_the_owner_now(people: dict[str, Signer]) -> None:
    told = Story(poll={"first": "1h", "max": "1h"}).opened().saw(LOST)
    before = told.held()
    assert before.next_check_at is not None
    assert before.next_check_at > before.now
    told.says(people["olive"], Answer.CANNOT_TELL)
    after = told.held()
    assert after.next_check_at is not None
    assert after.next_check_at <= after.now
    assert (after.facts.state, after.facts.effect) == (before.facts.state, before.facts.effect)
    assert told.written()["evidence"] == 1, "cannot tell is no evidence"


def test_an_answer_needs_evidence_or_a_reason(people: dict[str, Signer]) -> None:
    told = Story().opened().saw(LOST)
    before = told.written()
    with pytest.raises(IntegrityError) as refused:
        told.says(people["olive"], Answer.APPLIED, reason="", evidence_url="")
    assert sentence(refused.value) == "An answer needs evidence or a reason."
    assert told.written() == before


def test_an_answer_that_is_not_open_is_refused(people: dict[str, Signer]) -> None:
    told = Story().opened()
    with pytest.raises(ValueError, match="in flight"):
        told.says(people["olive"], Answer.APPLIED)
    assert told.written()["attestation"] == 0


def test_distinct_intent_releases_the_twin(people: dict[str, Signer]) -> None:
    told = Story().opened("first").opened("twin")
    assert told.held("twin").facts.state is State.OPEN
    refusal = request_permit(held=told.held("twin"), actor="test")
    assert isinstance(refusal, Decision)
    assert refusal.code == "POSSIBLE_DUPLICATE"
    told.says(people["olive"], Answer.DISTINCT_INTENT, name="twin")
    twin = told.held("twin")
    assert (twin.distinct_intent, twin.holds_identity) == (True, False)
    assert isinstance(request_permit(held=twin, actor="test"), Permitted)
    assert told.held("first").holds_identity, "the first keeps what it holds"
    assert not told.offer(Answer.DISTINCT_INTENT, name="first").allowed


def test_a_twin_takes_the_intent_once_the_first_has_settled(people: dict[str, Signer]) -> None:
    told = Story().opened("first").opened("twin")
    told.saw(CREATED, name="first")
    twin = told.held("twin")
    assert isinstance(request_permit(held=twin, actor="test"), Permitted)
    assert told.held("twin").holds_identity
    holder = holder_of(
        workspace_id=twin.workspace_id,
        tool_id=twin.tool_id,
        identity_digest=twin.identity_digest or b"",
        besides=told.held("first").id,
    )
    assert holder == "twin"


def test_two_twins_at_once_are_one_permit() -> None:
    told = Story().opened("first").opened("one").opened("two")
    one, two = told.held("one"), told.held("two")
    told.saw(CREATED, name="first")
    assert isinstance(request_permit(held=one, actor="test"), Permitted)
    second = request_permit(held=two, actor="test")
    assert isinstance(second, Decision)
    assert second.code == "POSSIBLE_DUPLICATE"


def test_late_evidence_reopens_what_was_settled(people: dict[str, Signer]) -> None:
    told = Story(idempotency={"guarantee": "natural"}).opened().saw(LOST)
    told.says(people["olive"], Answer.NOT_APPLIED)
    assert told.held().facts.outcome is Outcome.NOT_APPLIED
    told.saw(CREATED)
    known = told.held()
    assert (known.facts.state, known.facts.effect, known.facts.outcome) == (State.ESCALATED, Effect.APPLIED, None)
    assert known.decision["code"] == "OUTCOME_CONTRADICTED"
    [(settled_at, escalated_at)] = execute("SELECT settled_at, escalated_at FROM operation WHERE id = %s", [known.id])
    assert settled_at is None
    assert escalated_at is not None
    assert [attempt.effect for attempt in known.facts.attempts] == [Effect.APPLIED]
    assert known.holds_identity, "nothing else is sent for this intent while it is in doubt"
    told.says(people["ada"], Answer.APPLIED)
    assert told.held().facts.outcome is Outcome.APPLIED


@pytest.mark.parametrize(
    ("observation", "why"), [(LOST, "an echo of what is known"), (REFUSED, "a log of an earlier try")]
)
def test_late_evidence_that_says_nothing_new_is_only_kept(observation: dict[str, Any], why: str) -> None:
    told = Story().opened().saw(CREATED)
    before = told.held()
    told.saw({**observation, "message": "late"})
    after = told.held()
    assert (after.facts.state, after.facts.outcome, after.decision) == (
        State.SETTLED, Outcome.APPLIED, before.decision,
    ), why  # fmt: skip
    assert told.written()["evidence"] == 2
    assert after.next_check_at is None


def test_look_again_only_moves_the_schedule(people: dict[str, Signer]) -> None:
    told = Story(poll={"first": "1h", "max": "1h"}).opened().saw(LOST)
    before = told.held()
    assert look_again(held=before, actor="person:olive") == before.facts.version + 1
    after = told.held()
    assert after.next_check_at is not None
    assert after.next_check_at <= after.now
    assert replace(after.facts, version=before.facts.version) == before.facts


@pytest.mark.parametrize(
    ("story", "why"),
    [
        (lambda: Story().opened(attempt=False), "nothing was sent"),
        (lambda: Story().opened(), "it is in flight"),
        (lambda: Story().opened().saw(CREATED), "it is settled"),
    ],
)
def test_look_again_where_nobody_is_asked_is_nothing(story: Callable[[], Story], why: str) -> None:
    told = story()
    before = told.written()
    assert look_again(held=told.held(), actor="person:olive") is None, why
    assert told.written() == before


def test_a_lapse_makes_unknown_and_never_failed() -> None:
    told = Story().opened()
    later, decision = lapsed(told.held())
    early = replace(later, now=later.now - timedelta(microseconds=1))
    assert lapse_attempt(held=early, decision=decision) is None, "not a moment too soon"
    assert lapse_attempt(held=later, decision=decision) is not None
    facts = told.held().facts
    assert (facts.state, facts.effect, facts.request) == (State.RECONCILING, Effect.UNKNOWN, decision.request)
    assert (facts.attempts[0].effect, facts.attempts[0].closed_at) == (Effect.UNKNOWN, later.now)
    refusal = request_permit(held=told.held(), actor="test")
    assert isinstance(refusal, Decision)
    told.saw(REFUSED)
    assert told.held().facts.effect is Effect.NONE, "the report came late and still counts"


def test_a_lapse_after_the_report_is_nothing() -> None:
    told = Story().opened()
    later, decision = lapsed(told.held())
    told.saw(LOST)
    assert lapse_attempt(held=later, decision=decision) is None
    assert told.written()["journal"] == 2


def test_a_deadline_settles_what_was_never_sent_and_escalates_what_may_have_been() -> None:
    told = Story().opened(attempt=False)
    _end(told.held())
    facts = told.held().facts
    assert (facts.state, facts.outcome) == (State.SETTLED, Outcome.NOT_APPLIED)
    told = Story().opened().saw(LOST)
    _end(told.held())
    facts = told.held().facts
    assert (facts.state, facts.effect) == (State.ESCALATED, Effect.UNKNOWN)


def test_a_conflict_takes_back_what_was_pending() -> None:
    told = Story().opened().saw(LOST)
    record(told.held(), effect=Effect.PENDING, outcome=LookupOutcome.FOUND, proof=Proof.LOOKUP_MATCH)
    facts = told.held().facts
    assert (facts.effect, facts.attempts[0].effect) == (Effect.PENDING, Effect.PENDING)
    record(told.held(), effect=Effect.UNKNOWN, outcome=LookupOutcome.FOUND, proof=None, conflict=True)
    facts = told.held().facts
    assert facts.state is State.ESCALATED
    assert (facts.effect, facts.attempts[0].effect) == (Effect.UNKNOWN, Effect.UNKNOWN), "the sum of its attempts"


def test_a_claim_is_taken_once_and_lapses_by_itself() -> None:
    told = Story().opened().saw(LOST)
    look_again(held=told.held(), actor="test")
    id = told.held().id
    assert id in claim_due(most=1000, claim=timedelta(seconds=60))
    assert id not in claim_due(most=1000, claim=timedelta(seconds=60))
    release(ids=[id])
    assert id in claim_due(most=1000, claim=timedelta(0))
    assert id in claim_due(most=1000, claim=timedelta(seconds=60)), "the claim before it has lapsed"


def test_a_change_takes_the_claim_with_it() -> None:
    told = Story().opened().saw(LOST)
    look_again(held=told.held(), actor="test")
    assert told.held().id in claim_due(most=1000, claim=timedelta(seconds=60))
    look_again(held=told.held(), actor="test")
    assert told.held().id in claim_due(most=1000, claim=timedelta(seconds=60))


def test_a_contract_is_published_once_and_pins_what_began_with_it() -> None:
    told = Story().opened()
    again, number = publish_contract(
        workspace_id=told.bench.id,
        contract=parse_contract(TICKETS),
        owner_id=told.bench.owner_id,
        now=database_now(),
    )
    assert (again, number) == (told.held().contract_id, 1)
    told.bench.publish({**TICKETS, "deadline": "6m"})
    assert told.held().contract_label == "tickets.create@1"
    told.opened("later", title="later")
    assert told.held("later").contract_label == "tickets.create@2"


def test_an_unknown_operation_is_none() -> None:
    assert held(id=UUID(int=0)) is None


def test_after_all_of_it_the_ledger_verifies(database: Database) -> None:
    call_command("verify_ledger", verbosity=0)
