"""What a packet of one operation says is established, and what it must not conclude: a row a reason."""

from datetime import UTC, datetime, timedelta

import pytest

from ledger.rules.facts import AttemptFacts, Facts, ItemAttempt, ItemFacts
from ledger.rules.operation_packet import Piece, operation_packet
from ledger.rules.packet import STOPS, packet_document, packet_markdown
from ledger.rules.vocabulary import (
    Effect,
    EffectKind,
    Licence,
    Outcome,
    Proof,
    Request,
    Speaker,
    State,
    Verification,
)

T0 = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
U, P, N, A, PART = Effect.UNKNOWN, Effect.PENDING, Effect.NONE, Effect.APPLIED, Effect.PARTIAL


def attempt(effect=U, **changes):
    known = {
        "attempt_id": "attempt-01",
        "number": 1,
        "revision": 1,
        "digest": "sha256:a",
        "principal": "svc",
        "idempotency_key": None,
        "licence": None,
        "opened_at": T0,
        "dispatch_by": T0,
        "lapses_at": T0 + timedelta(minutes=1),
        "closed_at": T0 + timedelta(minutes=1),
        "effect": effect,
    }
    return AttemptFacts(**{**known, **changes})


def facts(*attempts, **changes):
    known = {
        "operation_id": "op-1",
        "tool": "t",
        "kind": EffectKind.WRITE,
        "version": 3,
        "state": State.ESCALATED,
        "request": Request.ACCEPTED,
        "effect": U,
        "verification": Verification.NOT_REQUIRED,
        "outcome": None,
        "revision": 1,
        "payload_digest": "sha256:a",
        "attempts": attempts,
    }
    return Facts(**{**known, **changes})


def piece(speaker=Speaker.HARNESS, outcome="observed", effect=None, proof=None, **changes):
    known = {
        "source": f"src/{outcome}",
        "speaker": speaker,
        "outcome": outcome,
        "effect": effect,
        "proof": proof,
        "attempt": 1 if speaker is Speaker.HARNESS else None,
        "revision": None,
        "event_at": None,
        "observed_at": T0,
    }
    return Piece(**{**known, **changes})


SEEN = piece(effect=U)
FOUND = piece(Speaker.OWNER_STATUS, "found", A, Proof.LOOKUP_MATCH)
CHECK_FAILED = piece(Speaker.VERIFIER, "failed")
ITEMS = tuple(
    ItemFacts(number=n, key=f"i{n}", effect=effect, attempts=(ItemAttempt(attempt=1, effect=effect),))
    for n, effect in enumerate((A, U), start=1)
)

ROWS = [
    (facts(attempt()), [SEEN], {"the intent"}, {"the effect"}, "what nobody knows stays open"),
    (facts(attempt(), effect=P), [SEEN], {"the intent"}, {"the effect"}, "so does what is running"),
    (facts(attempt(A), effect=A), [SEEN, FOUND], {"the intent", "the effect"}, set(), "a proof establishes it"),
    (facts(attempt(A), effect=A), [SEEN], {"the intent"}, set(), "without its evidence nothing is said to be proved"),
    (facts(effect=N, state=State.OPEN), [], {"the intent", "the effect"}, set(), "what was never sent did not happen"),
    (facts(attempt()), [], {"the intent"}, {"the effect", "attempt-01"}, "an attempt without a word"),
    (facts(attempt(closed_at=None)), [], {"the intent"}, {"the effect", "attempt-01"}, "or one that is out"),
    (facts(attempt()), [SEEN, piece(Speaker.OWNER_STATUS, "lookup_failed")], {"the intent"},
     {"the effect", "src/lookup_failed"}, "a look that failed says nothing"),
    (facts(attempt()), [SEEN, piece(Speaker.OWNER_STATUS, "no_match")], {"the intent"},
     {"the effect", "src/no_match"}, "nothing there yet is not absent"),
    (facts(attempt(A), effect=A, verification=Verification.DUE), [SEEN, FOUND], {"the intent", "the effect"},
     {"the outcome"}, "a check that is due"),
    (facts(attempt(A), effect=A, verification=Verification.UNAVAILABLE), [SEEN, FOUND], {"the intent", "the effect"},
     {"the outcome"}, "a check that could not run"),
    (facts(attempt(A), effect=A, verification=Verification.FAILED), [SEEN, FOUND, CHECK_FAILED],
     {"the intent", "the effect", "the outcome"}, set(), "a check that failed is a finding"),
    (facts(attempt(), items=ITEMS, kind=EffectKind.BATCH), [SEEN], {"the intent", "item i1"},
     {"the effect", "item i2"}, "each item by itself"),
    (facts(attempt(), state=State.SETTLED, outcome=Outcome.WRITTEN_OFF),
     [SEEN, piece(Speaker.OPERATOR, "attested", counts=False), piece(Speaker.OPERATOR, "attested")],
     {"the intent", "the closing"}, {"the effect"}, "that two people closed it says nothing of the effect"),
    (facts(attempt(licence=Licence.ACCEPTED_DUPLICATE_RISK)), [SEEN], {"the intent", "attempt-01"}, {"the effect"},
     "nor that they accepted a risk"),
    (facts(attempt(), effect=N, kind=EffectKind.READ), [SEEN], {"the intent"}, set(), "a read has no effect to prove"),
]  # fmt: skip


@pytest.mark.parametrize(("known", "pieces", "established", "unverified", "why"), ROWS, ids=[row[4] for row in ROWS])
def test_what_is_established(known, pieces, established, unverified, why):
    packet = operation_packet(facts=known, contract="t@1", pieces=pieces, created_at=T0, as_of=T0)
    assert {fact.what for fact in packet.established} == established, why
    assert {gap.what for gap in packet.unverified} == unverified, why
    assert packet.stop in STOPS
    assert all(fact.source for fact in packet.established), "each names its source"
    assert packet_document(packet)["stopped_because"] in packet_markdown(packet)


def test_a_first_answer_that_waits_is_told_as_waiting():
    waiting = [SEEN, piece(Speaker.OPERATOR, "attested", source="operator/otto", counts=False)]
    known = facts(attempt())
    for awaits, told in ((True, {"the effect", "operator/otto"}), (False, {"the effect"})):
        packet = operation_packet(
            facts=known, contract="t@1", pieces=waiting, created_at=T0, as_of=T0, awaits_signature=awaits
        )
        assert {gap.what for gap in packet.unverified} == told


def test_foreign_names_are_inert_in_markdown():
    name = "x`](javascript:1)\n# Heading | <script>"
    packet = operation_packet(
        facts=facts(attempt(), operation_id=name), contract="t@1", pieces=[SEEN], created_at=T0, as_of=T0
    )
    text = packet_markdown(packet)
    assert "\n# Heading" not in text
    assert text.splitlines()[0].count("`") == 2
