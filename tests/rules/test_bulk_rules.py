"""What may be done in bulk, and to whom: tables with a reason a row."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.rules.bulk import BY_TWO, OFFERED, REVERSIBLE, Member, Verb, digest_of, may_act, why_left_out
from ledger.rules.desk import MOST_LABELS
from ledger.rules.resolutions import Answer, Offer
from ledger.rules.vocabulary import Role, State

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
ME, OTHER = 1, 2
FREE = Member(number=1, id=UUID(int=1), version_seen=3, version=3, state=State.RECONCILING, known="reconciling unknown")
SETTLED = replace(FREE, state=State.SETTLED)
THEIRS = replace(FREE, holder_id=OTHER, holder="Dana Reyes")
MINE = replace(FREE, holder_id=ME, holder="Me")
FULL = replace(FREE, labels=MOST_LABELS)
NOTHING_TO_HOLD = "It is settled: there is nothing left to hold or to wait for."


@pytest.mark.parametrize(
    ("verb", "member", "why", "reason"),
    [
        (Verb.CLAIM, FREE, "", "nobody holds it"),
        (Verb.CLAIM, MINE, "", "one's own claim begins anew"),
        (Verb.CLAIM, THEIRS, "Dana Reyes holds it already.", "a claim is never taken by a claim"),
        (Verb.CLAIM, SETTLED, NOTHING_TO_HOLD, "nothing is left to do"),
        (Verb.RELEASE, MINE, "", "mine to give back"),
        (Verb.RELEASE, FREE, "Nobody holds it.", "nothing to give back"),
        (Verb.RELEASE, THEIRS, "Dana Reyes holds it, not you.", "not mine to give back"),
        (
            Verb.RELEASE,
            replace(MINE, held_by_group=True),
            "You hold its whole group: release the group.",
            "one claim on many",
        ),
        (Verb.ASSIGN, THEIRS, "", "a shift lead may pass on what somebody holds"),
        (Verb.ASSIGN, SETTLED, NOTHING_TO_HOLD, "nothing is left to do"),
        (Verb.HAND_OVER, SETTLED, NOTHING_TO_HOLD, "nothing is left to do"),
        (Verb.SNOOZE, FREE, "", "it may sleep"),
        (Verb.SNOOZE, SETTLED, NOTHING_TO_HOLD, "it waits for nothing"),
        (Verb.LABEL, SETTLED, "", "what is settled may be sorted"),
        (Verb.LABEL, FULL, f"It has {MOST_LABELS} labels already.", "there is no room"),
        (Verb.NOTE, SETTLED, "", "a note may always be written"),
        (Verb.LOOK_AGAIN, FREE, "", "its owner is being asked"),
        (Verb.LOOK_AGAIN, SETTLED, "Nobody asks its owner in this state.", "nothing is open"),
        (
            Verb.LOOK_AGAIN,
            replace(FREE, state=State.DISPATCHED),
            "Nobody asks its owner in this state.",
            "it is in flight",
        ),
    ],
)
def test_who_is_left_out_at_the_desk(verb, member, why, reason):
    assert why_left_out(verb=verb, member=member, me=ME, frozen_at=NOW) == why, reason


def _open(answer=Answer.NOT_APPLIED, **more):
    offer = Offer(answer=answer, allowed=True, why_not="", needs_second_person=True)
    fresh = {"looked_at": NOW - timedelta(seconds=10), "lag": timedelta(seconds=30)}
    return replace(FREE, offer=offer, **{**fresh, **more})


@pytest.mark.parametrize(
    ("member", "why", "reason"),
    [
        (_open(), "", "looked at a moment ago, and nobody answered yet"),
        (_open(looked_at=NOW - timedelta(seconds=30)), "longer ago than", "as old as the lag is not younger"),
        (_open(looked_at=NOW - timedelta(seconds=29)), "", "younger than the lag"),
        (_open(looked_at=None), "never been asked to the end", "absence of an answer is no answer"),
        (_open(lag=None), "says no lag", "nobody knows how recent is recent enough"),
        (_open(lag=timedelta()), "longer ago than", "with no time at all no look is young enough"),
        (_open(waits_for=Answer.NOT_APPLIED, waits_from=OTHER), "", "mine is the second signature"),
        (
            _open(waits_for=Answer.NOT_APPLIED, waits_from=ME),
            "You gave this answer already",
            "one person is one signature",
        ),
        (
            _open(waits_for=Answer.APPLIED, waits_from=OTHER),
            "Another answer waits",
            "two people disagree: a page of its own",
        ),
        (replace(_open(), offer=None), "at most 200", "each risk is weighed by itself"),
        (
            replace(_open(), offer=replace(_open().offer, allowed=False, why_not="A batch is answered item by item.")),
            "A batch is answered item by item.",
            "what one answer may not say, a hundred may not",
        ),
    ],
)
@pytest.mark.parametrize("verb", sorted(BY_TWO))
def test_what_two_people_decide_in_bulk_needs_a_fresh_look_at_each(verb, member, why, reason):
    offer = member.offer and replace(member.offer, answer=Answer(verb.value))
    waits = Answer(verb.value) if member.waits_for is Answer.NOT_APPLIED else member.waits_for
    told = why_left_out(verb=verb, member=replace(member, offer=offer, waits_for=waits), me=ME, frozen_at=NOW)
    assert (why in told) if why else told == "", reason


def test_it_happened_needs_no_fresh_look():
    member = _open(Answer.APPLIED, looked_at=None, lag=None)
    assert why_left_out(verb=Verb.APPLIED, member=member, me=ME, frozen_at=NOW) == ""


@pytest.mark.parametrize("verb", OFFERED)
def test_roles_are_those_of_the_single_verbs(verb):
    may = {role for role in Role if may_act(verb=verb, roles=frozenset({role}))}
    assert may == {Role.OPERATOR, Role.ADMIN} | ({Role.APPROVER} if verb is Verb.NOTE else set())


def test_no_answer_is_taken_back():
    assert not REVERSIBLE & {Verb.APPLIED, Verb.NOTE, Verb.LOOK_AGAIN, *BY_TWO}


@given(
    st.lists(st.tuples(st.integers(1, 9), st.text("ab", max_size=3), st.booleans()), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(1, 9), st.text("ab", max_size=3), st.booleans()), min_size=1, max_size=5),
    st.sampled_from(OFFERED),
    st.sampled_from(OFFERED),
)
def test_one_digest_stands_for_one_preview(first, second, verb, other):
    def digest(verb, rows):
        members = (
            (replace(FREE, number=at, version_seen=version, version=99, known=known), eligible)
            for at, (version, known, eligible) in enumerate(rows)
        )
        return digest_of(verb=verb, members=members)

    assert (digest(verb, first) == digest(other, second)) == ((verb, first) == (other, second))


def test_a_look_with_nothing_new_is_no_other_preview():
    looked = replace(FREE, version=FREE.version + 1)
    assert digest_of(verb=Verb.CLAIM, members=[(FREE, True)]) == digest_of(verb=Verb.CLAIM, members=[(looked, True)])
