"""Who may say what, how attempts join, and every reason for which "not found" does not count."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.rules.contract import parse_contract
from ledger.rules.evidence import CONDITIONS, grade_lookup, join_effects, may_assert
from ledger.rules.facts import AttemptFacts, Facts, LookupFacts
from ledger.rules.vocabulary import (
    Effect,
    EffectKind,
    LookupOutcome,
    Proof,
    Request,
    Speaker,
    State,
    Verification,
    Visibility,
)

T0 = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
LAPSES = T0 + timedelta(minutes=1)
LAG = timedelta(seconds=30)
LATE = LAPSES + LAG + timedelta(seconds=1)

SAYS = [
    (Speaker.HARNESS, Effect.UNKNOWN, None, True, "it may always say that it does not know"),
    (Speaker.HARNESS, Effect.NONE, None, False, "its word alone proves nothing"),
    (Speaker.HARNESS, Effect.NONE, Proof.NOT_SENT, True, "no byte left"),
    (Speaker.HARNESS, Effect.NONE, Proof.REFUSED, True, "a documented refusal before acting"),
    (Speaker.HARNESS, Effect.NONE, Proof.GRADED_ABSENCE, False, "absence is only for lookups of our own"),
    (Speaker.HARNESS, Effect.NONE, Proof.LOOKUP_MATCH, False, "a harness's lookup never proves none"),
    (Speaker.HARNESS, Effect.APPLIED, Proof.LOOKUP_MATCH, True, "an exact match that it reports"),
    (Speaker.HARNESS, Effect.APPLIED, Proof.OWNER_RESULT, True, "the contract's success rule matched"),
    (Speaker.HARNESS, Effect.APPLIED, None, False, "its word alone proves nothing"),
    (Speaker.HARNESS, Effect.PARTIAL, Proof.LOOKUP_MATCH, False, "items are accounted for by the owner"),
    (Speaker.GATEWAY, Effect.NONE, Proof.REFUSED, True, "its own limiter, or documented as never reached"),
    (Speaker.GATEWAY, Effect.NONE, None, False, "it may have passed the request on"),
    (Speaker.GATEWAY, Effect.APPLIED, Proof.OWNER_RESULT, False, "it is not the owner"),
    (Speaker.GATEWAY, Effect.PENDING, None, False, "nor does it know what the owner does"),
    (Speaker.OWNER_ANSWER, Effect.APPLIED, Proof.OWNER_RESULT, True, "the success rule matched"),
    (Speaker.OWNER_ANSWER, Effect.APPLIED, Proof.LOOKUP_MATCH, False, "an answer is not a lookup"),
    (Speaker.OWNER_ANSWER, Effect.APPLIED, None, False, "a 2xx that no rule knows is not enough"),
    (Speaker.OWNER_ANSWER, Effect.PENDING, None, True, "it says that it works on it"),
    (Speaker.OWNER_ANSWER, Effect.NONE, Proof.CONTRACT_RULE, True, "an error rule of the contract"),
    (Speaker.OWNER_STATUS, Effect.NONE, Proof.GRADED_ABSENCE, True, "graded"),
    (Speaker.OWNER_STATUS, Effect.NONE, Proof.LOOKUP_MATCH, True, "found, and says that it was rejected"),
    (Speaker.OWNER_STATUS, Effect.NONE, None, False, "not graded"),
    (Speaker.OWNER_INDEX, Effect.APPLIED, Proof.LOOKUP_MATCH, True, "an exact positive match"),
    (Speaker.OWNER_INDEX, Effect.NONE, Proof.GRADED_ABSENCE, False, "an index may lag"),
    (Speaker.OWNER_INDEX, Effect.NONE, Proof.LOOKUP_MATCH, False, "an index never says none"),
    (Speaker.OWNER_NOTICE, Effect.APPLIED, Proof.OWNER_RESULT, True, "signed by the owner"),
    (Speaker.VERIFIER, Effect.APPLIED, Proof.OWNER_RESULT, False, "it speaks of verification only"),
    (Speaker.TOOL_TEXT, Effect.NONE, Proof.REFUSED, False, "prose decides nothing"),
    (Speaker.TOOL_TEXT, Effect.APPLIED, Proof.OWNER_RESULT, False, "prose decides nothing"),
    (Speaker.TOOL_TEXT, Effect.UNKNOWN, None, True, "which claims nothing"),
    (Speaker.LEDGER, Effect.NONE, Proof.NOT_SENT, False, "a lapse proves nothing"),
    (Speaker.OPERATOR, Effect.NONE, Proof.ATTESTED, True, "a person answers for it"),
    (Speaker.OPERATOR, Effect.APPLIED, None, False, "but never without evidence or a reason"),
]


@pytest.mark.parametrize(("speaker", "effect", "proof", "allowed", "why"), SAYS)
def test_who_may_assert_what(speaker, effect, proof, allowed, why):
    assert may_assert(speaker=speaker, effect=effect, proof=proof) is allowed, why


@pytest.mark.parametrize("speaker", Speaker)
@pytest.mark.parametrize("effect", [Effect.NONE, Effect.APPLIED, Effect.PARTIAL])
def test_nobody_proves_anything_without_a_proof(speaker, effect):
    assert may_assert(speaker=speaker, effect=effect, proof=None) is False


def attempt(effect=Effect.UNKNOWN, *, number=1, lapses_at=LAPSES, **changes):
    known = {
        "attempt_id": f"attempt-{number:02d}",
        "number": number,
        "revision": 1,
        "digest": "sha256:a",
        "principal": "svc",
        "idempotency_key": "op-1",
        "licence": None,
        "opened_at": T0,
        "dispatch_by": T0,
        "lapses_at": lapses_at,
        "closed_at": lapses_at,
        "effect": effect,
    }
    return AttemptFacts(**{**known, **changes})


U, P, A, N, PART = Effect.UNKNOWN, Effect.PENDING, Effect.APPLIED, Effect.NONE, Effect.PARTIAL
JOINS = [
    ([], None, N, "never dispatched"),
    ([N], None, N, "proved none"),
    ([N, N], None, N, "every one proved none"),
    ([U], None, U, "nobody has said"),
    ([U, N], None, U, "a later refusal never says what became of an earlier attempt"),
    ([N, U], None, U, "nor does an earlier one"),
    ([U, A], None, A, "one that is proved is enough"),
    ([P, N], None, P, "still running"),
    ([P, U], None, U, "the least certain"),
    ([PART, P], None, P, "running is less certain than accounted for"),
    ([PART, N], None, PART, "accounted for"),
    ([U], LAPSES + timedelta(seconds=1), N, "a graded absence after its possible end"),
    ([U], LAPSES, U, "not at its end, but after it"),
    ([A], LAPSES + timedelta(days=1), A, "absence does not unsay what was proved"),
]


@pytest.mark.parametrize(("effects", "absence", "joined", "why"), JOINS)
def test_attempts_join(effects, absence, joined, why):
    attempts = [attempt(effect, number=number) for number, effect in enumerate(effects, 1)]
    assert join_effects(attempts=attempts, absence_since=absence, kind=EffectKind.WRITE) is joined, why
    assert join_effects(attempts=attempts, absence_since=absence, kind=EffectKind.READ) is N, "reads have none"


ATTEMPTS = st.builds(
    attempt,
    st.sampled_from(Effect),
    number=st.integers(1, 9),
    lapses_at=st.integers(0, 600).map(lambda s: T0 + timedelta(seconds=s)),
)
MOMENTS = st.none() | st.integers(0, 600).map(lambda s: T0 + timedelta(seconds=s))


@given(attempts=st.lists(ATTEMPTS, max_size=4), one_more=ATTEMPTS, absence=MOMENTS)
@settings(deadline=None)
def test_another_attempt_never_turns_doubt_into_none(attempts, one_more, absence):
    before = join_effects(attempts=attempts, absence_since=absence, kind=EffectKind.WRITE)
    after = join_effects(attempts=[*attempts, one_more], absence_since=absence, kind=EffectKind.WRITE)
    if before in (U, P, PART):
        assert after is not N
    if before is A:
        assert after is A


@given(attempts=st.lists(ATTEMPTS, max_size=4), absence=MOMENTS, seed=st.randoms())
@settings(deadline=None)
def test_the_order_of_attempts_does_not_matter(attempts, absence, seed):
    shuffled = list(attempts)
    seed.shuffle(shuffled)
    assert join_effects(attempts=attempts, absence_since=absence, kind=EffectKind.WRITE) is join_effects(
        attempts=shuffled, absence_since=absence, kind=EffectKind.WRITE
    )


def rule(**changes):
    document = {
        "by": "status",
        "http": {"path": "/x"},
        "found": "status == 200",
        "no_match": "status == 404",
        "authoritative": True,
        "sees": "all",
        "lag": "30s",
        "clean_reads": 2,
        **changes,
    }
    return parse_contract({"contract": "t", "owner": "o", "effect": "write", "lookup": [document]}).lookup[0]


def facts(*attempts, **changes):
    known = {
        "operation_id": "op-1",
        "tool": "t",
        "kind": EffectKind.WRITE,
        "version": 3,
        "state": State.RECONCILING,
        "request": Request.ACCEPTED,
        "effect": Effect.UNKNOWN,
        "verification": Verification.NOT_REQUIRED,
        "outcome": None,
        "revision": 1,
        "payload_digest": "sha256:a",
        "principal": "svc",
        "attempts": attempts or (attempt(),),
    }
    return Facts(**{**known, **changes})


def lookup(answer="no_match", **changes):
    known = {
        "source": "o/status",
        "by": "status",
        "answer": answer,
        "started_at": LATE,
        "observed_at": LATE,
        "exact_key": True,
        "authoritative": True,
        "complete": True,
        "sees": "all",
        "matches": 1 if answer == "found" else 0,
        "principal": "svc",
    }
    return LookupFacts(**{**known, **changes})


def second_read(**changes):
    return facts(clean_reads=1, absence_since=LATE, **changes)


def test_absence_takes_every_condition_and_enough_reads():
    first = grade_lookup(lookup=lookup(), rule=rule(), facts=facts())
    assert (first.absent, first.effect, first.clean_reads, first.absence_since) == (False, None, 1, LATE)
    assert "1 of 2" in first.reasons[0]
    assert first.earliest_useful_at == LAPSES + LAG
    later = LATE + timedelta(minutes=1)
    second = grade_lookup(lookup=lookup(started_at=later), rule=rule(), facts=second_read())
    assert (second.absent, second.effect, second.proof) == (True, Effect.NONE, Proof.GRADED_ABSENCE)
    assert (second.clean_reads, second.absence_since) == (2, LATE)
    assert may_assert(speaker=Speaker.OWNER_STATUS, effect=Effect.NONE, proof=second.proof)
    assert join_effects(attempts=(attempt(),), absence_since=second.absence_since, kind=EffectKind.WRITE) is N


KEPT = [
    ({"by_ascertain": False}, {}, {}, "harness reported", "a harness's lookup never proves absence"),
    ({"exact_key": False}, {}, {}, "exact key", "another key may name another thing"),
    ({"authoritative": False}, {}, {}, "authority", "the answer's own source"),
    ({}, {"authoritative": False}, {}, "authority", "the contract's word"),
    ({"complete": False}, {}, {}, "every page", "an empty page with a cursor is no empty result"),
    ({"matches": 1}, {}, {}, "shows a match", "it contradicts itself"),
    ({"sees": "unproved"}, {}, {}, "can see", "an owner may say 404 for forbidden"),
    ({}, {"sees": "unproved"}, {}, "can see", "the contract's word"),
    ({"sees": "own", "principal": "svc-recon"}, {"sees": "own"}, {}, "can see", "its own, but somebody else's attempt"),
    ({"sees": "anything"}, {}, {}, "can see", "a word that is not known"),
    ({"started_at": LAPSES + LAG}, {}, {}, "possible end", "not later, but at the moment"),
    ({"started_at": T0}, {}, {}, "possible end", "while it may still arrive"),
    (
        {},
        {},
        {"attempts": (attempt(), attempt(number=2, lapses_at=LATE))},
        "possible end",
        "a later attempt may still arrive",
    ),
    (
        {},
        {},
        {"attempts": (attempt(idempotency_key="op-1#r2", number=2), attempt())},
        "another key",
        "the first key was not looked up",
    ),
]


@pytest.mark.parametrize(("in_lookup", "in_rule", "in_facts", "says", "why"), KEPT)
def test_what_keeps_an_absence_from_counting(in_lookup, in_rule, in_facts, says, why):
    grade = grade_lookup(lookup=lookup(**in_lookup), rule=rule(**in_rule), facts=second_read(**in_facts))
    assert grade.absent is False, why
    assert (grade.effect, grade.proof, grade.clean_reads, grade.absence_since) == (None, None, 0, None), why
    assert any(says in reason for reason in grade.reasons), why
    assert all(reason.endswith(".") for reason in grade.reasons)


def test_every_condition_is_named_that_does_not_hold():
    worst = lookup(
        by_ascertain=False, exact_key=False, authoritative=False, complete=False, sees="unproved", started_at=T0
    )
    assert len(grade_lookup(lookup=worst, rule=rule(), facts=facts()).reasons) == 6


def test_without_lag_nothing_counts():
    grade = grade_lookup(lookup=lookup(), rule=rule().model_copy(update={"lag": None}), facts=facts())
    assert grade.absent is False
    assert grade.earliest_useful_at is None


def test_its_own_is_seen_by_the_same_principal():
    grade = grade_lookup(lookup=lookup(sees="own"), rule=rule(sees="own"), facts=second_read())
    assert grade.absent


def test_reads_before_a_later_dispatch_belong_to_another_row():
    late = attempt(number=2, lapses_at=LATE + timedelta(minutes=5))
    then = late.lapses_at + LAG + timedelta(seconds=1)
    grade = grade_lookup(lookup=lookup(started_at=then), rule=rule(), facts=second_read(attempts=(attempt(), late)))
    assert (grade.absent, grade.clean_reads, grade.absence_since) == (False, 1, then)


BREAKS = [
    ("lookup_failed", LookupOutcome.LOOKUP_FAILED, "a lookup that failed is never not found"),
    ("inconclusive", LookupOutcome.INCONCLUSIVE, "nor is one that settles nothing"),
]


@pytest.mark.parametrize(("answer", "outcome", "why"), BREAKS)
def test_what_breaks_the_row(answer, outcome, why):
    grade = grade_lookup(lookup=lookup(answer, reason="it took too long"), rule=rule(), facts=second_read())
    assert (grade.outcome, grade.effect, grade.absent, grade.clean_reads) == (outcome, None, False, 0), why
    assert "it took too long" in grade.reasons[0]


MAP = {"applied": "body.s == 1", "none": "body.s == 2"}
FOUND = [
    ({"effect": Effect.APPLIED}, {}, Effect.APPLIED, Proof.LOOKUP_MATCH, False, "found"),
    ({"effect": None}, {}, Effect.APPLIED, Proof.LOOKUP_MATCH, False, "without a map, found means applied"),
    ({"effect": None}, {"effect": MAP}, None, None, False, "with a map, what it does not know settles nothing"),
    ({"effect": Effect.PENDING}, {"effect": MAP}, Effect.PENDING, Proof.LOOKUP_MATCH, False, "still running"),
    ({"effect": Effect.NONE}, {"effect": MAP}, Effect.NONE, Proof.LOOKUP_MATCH, False, "found, and it was rejected"),
    ({"effect": Effect.NONE, "authoritative": False}, {}, None, None, False, "an index never says none"),
    ({"effect": Effect.NONE, "by_ascertain": False}, {}, None, None, False, "nor does a harness"),
    (
        {"effect": Effect.APPLIED, "authoritative": False},
        {},
        Effect.APPLIED,
        Proof.LOOKUP_MATCH,
        False,
        "an exact match",
    ),
    ({"effect": Effect.APPLIED, "by_ascertain": False}, {}, Effect.APPLIED, Proof.LOOKUP_MATCH, False, "likewise"),
    ({"effect": Effect.APPLIED, "exact_key": False}, {}, None, None, False, "it may be another's"),
    ({"effect": Effect.APPLIED, "matches": 2}, {}, Effect.UNKNOWN, None, True, "there may be a duplicate"),
    (
        {"effect": Effect.APPLIED, "differs": (("title", "a", "b"),)},
        {},
        Effect.UNKNOWN,
        None,
        True,
        "it is there, but not what we meant",
    ),
]


@pytest.mark.parametrize(("in_lookup", "in_rule", "effect", "proof", "conflict", "why"), FOUND)
def test_found(in_lookup, in_rule, effect, proof, conflict, why):
    grade = grade_lookup(lookup=lookup("found", **in_lookup), rule=rule(**in_rule), facts=second_read())
    assert (grade.effect, grade.proof, grade.conflict) == (effect, proof, conflict), why
    assert (grade.absent, grade.clean_reads) == (False, 0), "whatever was found is not absent"


def test_a_refusal_that_was_found_speaks_for_its_own_key_only():
    before = facts(attempt(idempotency_key="op-1"), attempt(number=2, idempotency_key="op-1#r2"))
    grade = grade_lookup(lookup=lookup("found", effect=Effect.NONE), rule=rule(), facts=before)
    assert (grade.outcome, grade.effect, grade.proof) == (LookupOutcome.INCONCLUSIVE, None, None)
    grade = grade_lookup(lookup=lookup("found", effect=Effect.APPLIED), rule=rule(), facts=before)
    assert grade.effect is Effect.APPLIED, "one that happened is enough"


HANDED_OUT = {
    "status": {"by": "status", "http": {"path": "/t/{receipt.id}"}, "found": "status == 200"},
    "operation": {"by": "operation", "http": {"at": "location"}, "effect": MAP},
    "operation by a name that we chose": {
        "by": "operation", "http": {"path": "/o/{idempotency_key}"}, "effect": MAP,
    },
    "mcp_task": {"by": "mcp_task", "task": "{receipt.task}"},
    "postgres_xact": {"by": "postgres_xact", "xact": "{receipt.xact}", "as": "env:DSN"},
    "status by key": {"by": "status", "http": {"path": "/t/{idempotency_key}"}, "found": "status == 200"},
}  # fmt: skip
SENT = [
    ((attempt(),), True, True, "the one attempt"),
    ((attempt(N, proof=Proof.NOT_SENT), attempt(number=2)), True, True, "the first was never sent: no handle is its"),
    ((attempt(N, proof=Proof.REFUSED), attempt(number=2)), True, True, "the first was refused: likewise"),
    ((attempt(N, proof=Proof.LOOKUP_MATCH), attempt(number=2)), False, True, "the handle may be the first one's still"),
    ((attempt(), attempt(number=2)), False, True, "it is the handle of one, and the other is open too"),
    ((attempt(), attempt(number=2, idempotency_key="op-1#r2")), False, False, "nor do they carry one key"),
    ((attempt(network_attempts=3),), False, True, "an SDK sent it three times, and told the last handle"),
]


@pytest.mark.parametrize(("attempts", "by_handle", "by_key", "why"), SENT, ids=[why for *_, why in SENT])
@pytest.mark.parametrize("kind", HANDED_OUT)
def test_a_handle_speaks_for_the_attempt_that_it_was_handed_out_for(kind, attempts, by_handle, by_key, why):
    by = written({**HANDED_OUT[kind], "authoritative": True, "sees": "all"})
    grade = grade_lookup(lookup=lookup("found", effect=Effect.NONE), rule=by, facts=facts(*attempts))
    speaks = by_key if kind in ("status by key", "operation by a name that we chose") else by_handle
    assert (grade.effect is Effect.NONE) is speaks, why
    grade = grade_lookup(lookup=lookup("found", effect=Effect.APPLIED), rule=by, facts=facts(*attempts))
    assert grade.effect is Effect.APPLIED, "one that happened is enough"


KINDS = [
    # by, authoritative: may say applied, may say none by what it found, may say none by absence
    ("status", True, True, True, True),
    ("status", False, True, False, False),
    ("search", False, True, False, False),
    ("list", False, True, False, False),
    ("operation", True, True, True, False),
    ("operation", False, True, False, False),
    ("mcp_tool", True, True, True, True),
    ("mcp_tool", False, True, False, False),
    ("mcp_task", True, True, True, False),
    ("mcp_task", False, True, False, False),
    ("sql", True, True, True, True),
    ("sql", False, True, False, False),
    ("postgres_xact", True, True, True, False),
    ("postgres_xact", False, True, False, False),
]
WRITTEN = {
    "status": {"http": {"path": "/t/{idempotency_key}"}, "found": "status == 200"},
    "search": {"http": {"path": "/t?q={operation_id}"}, "items": "body", "match": "item.ref == operation_id"},
    "list": {"http": {"path": "/t"}, "items": "body", "match": "item.ref == operation_id"},
    "operation": {"http": {"at": "location"}, "effect": MAP},
    "mcp_tool": {"mcp": {"tool": "find", "arguments": {"ref": "{operation_id}"}}, "found": "body.ref != ''"},
    "mcp_task": {"task": "{receipt.task}"},
    "sql": {"sql": {"statement": "SELECT %(ref)s", "parameters": {"ref": "{operation_id}"}}, "as": "env:D"},
    "postgres_xact": {"xact": "{receipt.xact}", "as": "env:D"},
}


def written(document):
    return parse_contract({"contract": "t", "owner": "o", "effect": "write", "lookup": [document]}).lookup[0]


@pytest.mark.parametrize(("by", "authoritative", "applied", "none", "absent"), KINDS)
def test_what_each_kind_may_say(by, authoritative, applied, none, absent):
    kind = written({"by": by, **WRITTEN[by], "authoritative": authoritative, "sees": "all", "lag": "30s"})
    told = {"authoritative": authoritative}
    grade = grade_lookup(lookup=lookup("found", effect=Effect.APPLIED, **told), rule=kind, facts=facts())
    assert (grade.effect is Effect.APPLIED) is applied
    grade = grade_lookup(lookup=lookup("found", effect=Effect.NONE, **told), rule=kind, facts=facts())
    assert (grade.effect is Effect.NONE) is none
    grade = grade_lookup(lookup=lookup(**told), rule=kind, facts=facts())
    assert grade.absent is absent, grade.reasons


def test_an_absence_under_the_operations_own_name_covers_every_key():
    keys = (attempt(idempotency_key="op-1"), attempt(number=2, idempotency_key="op-1#r2"))
    by_name = written(
        {"by": "status", "http": {"path": "/t/{operation_id}"}, "found": "status == 200", "no_match": "status == 404",
         "authoritative": True, "sees": "all", "lag": "30s"}
    )  # fmt: skip
    assert grade_lookup(lookup=lookup(), rule=by_name, facts=facts(*keys)).absent
    refused = grade_lookup(lookup=lookup("found", effect=Effect.NONE), rule=by_name, facts=facts(*keys))
    assert refused.effect is None, "a refusal that was found is one of them, and nobody knows which"


def test_what_is_another_operations_is_no_conflict_of_ours():
    for told in ({"matches": 3}, {"differs": (("title", "a", "b"),)}):
        grade = grade_lookup(lookup=lookup("found", exact_key=False, **told), rule=rule(), facts=facts())
        assert (grade.outcome, grade.conflict) == (LookupOutcome.INCONCLUSIVE, False)


def test_a_conflict_names_the_members_never_the_values():
    differs = (("title", "secret one", "secret two"), ("customer", 1, 2))
    grade = grade_lookup(lookup=lookup("found", differs=differs), rule=rule(), facts=facts())
    assert "title, customer" in grade.reasons[0]
    assert "secret" not in grade.reasons[0]


@given(
    answer=st.sampled_from(["no_match", "found", "lookup_failed", "inconclusive"]),
    started=st.integers(-60, 600),
    flags=st.tuples(*[st.booleans()] * 4),
    sees=st.sampled_from(Visibility),
    matches=st.integers(0, 2),
    principal=st.sampled_from(["svc", "other"]),
    reads=st.integers(0, 3),
    since=MOMENTS,
    attempts=st.lists(ATTEMPTS, min_size=1, max_size=3),
    needed=st.integers(1, 3),
)
@settings(deadline=None, max_examples=300)
def test_never_absent_while_any_condition_fails(
    answer, started, flags, sees, matches, principal, reads, since, attempts, needed
):
    ours, exact, authoritative, complete = flags
    asked = lookup(
        answer,
        started_at=T0 + timedelta(seconds=started),
        by_ascertain=ours,
        exact_key=exact,
        authoritative=authoritative,
        complete=complete,
        sees=sees,
        matches=matches,
        principal=principal,
    )
    before = facts(*attempts, clean_reads=reads, absence_since=since)
    by = rule(clean_reads=needed)
    grade = grade_lookup(lookup=asked, rule=by, facts=before)
    last_end = max(one.lapses_at for one in attempts)
    if grade.absent:
        assert answer == "no_match"
        assert all(flags)
        assert matches == 0
        assert sees == "all" or (sees == "own" and principal == "svc"), "who sees only its own must be who sent it"
        assert asked.started_at > last_end + LAG
        assert grade.absence_since is not None
        assert grade.absence_since > last_end + LAG
        assert grade.clean_reads >= needed
    assert grade.absent == (grade.proof is Proof.GRADED_ABSENCE)
    assert (grade.effect is Effect.NONE) <= (grade.proof is not None)
    if any(not holds(asked, by, before) for holds, _ in CONDITIONS):
        assert not grade.absent
