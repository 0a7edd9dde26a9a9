"""The desk's rules: who may do what, what a note mentions, what is taken back. A reason a row."""

from datetime import UTC, datetime, timedelta

import pytest

from ledger.rules.desk import (
    LONGEST_LABEL,
    LONGEST_NOTE,
    LONGEST_SNOOZE,
    MAY,
    UNDO_ACCEPTED,
    Kept,
    Verb,
    may_act,
    may_be_undone,
    mentioned,
    why_not_label,
    why_not_note,
    why_not_snooze,
    why_not_undo,
)
from ledger.rules.vocabulary import Role

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize("verb", [verb for verb in Verb if verb is not Verb.WOKE])
@pytest.mark.parametrize("role", list(Role))
def test_every_verb_with_every_role(verb, role):
    expected = role in (Role.OPERATOR, Role.ADMIN) or (role is Role.APPROVER and verb in (Verb.NOTE, Verb.SEEN))
    assert may_act(verb=verb, roles=frozenset({role})) is expected


def test_nobody_may_write_what_only_the_sweep_writes():
    assert Verb.WOKE not in MAY
    assert not may_act(verb=Verb.WOKE, roles=frozenset(Role))


@pytest.mark.parametrize(
    ("text", "names", "reason"),
    [
        ("@otto please look", ("otto",), "at the beginning"),
        ("see (@dana) and @otto, @dana", ("dana", "otto"), "each once, in order"),
        ("ask @anne.marie.", ("anne.marie",), "a full stop ends the sentence, not the name"),
        ("write to otto@example.org", (), "an address names nobody"),
        ("@@otto", (), "two of them are no mention"),
        ("cafe @zoë", ("zoë",), "letters of any language"),
        ("@", (), "nobody"),
        ("", (), "nothing"),
    ],
)
def test_mentions(text, names, reason):
    assert mentioned(text) == names, reason


@pytest.mark.parametrize(
    ("changed", "why", "reason"),
    [
        ({}, "", "fresh, one's own, untouched since"),
        ({"at": NOW - UNDO_ACCEPTED}, "", "the request took its time"),
        ({"at": NOW - UNDO_ACCEPTED - SECOND}, "Do the opposite instead", "too late"),
        ({"person_id": 2}, "only the person", "another's act"),
        ({"undone": True}, "undone already", "twice"),
        ({"since": "Otto"}, "Otto has changed it since", "somebody acted since"),
        ({"verb": "note"}, "Write a note", "a note stays"),
        ({"verb": "view_original"}, "this stays", "a look at an original was a look"),
        ({"verb": "undo"}, "this stays", "an undo is not undone"),
    ],
)
def test_taking_back(changed, why, reason):
    kept = Kept(**{"verb": "claim", "person_id": 1, "at": NOW, "undone": False, "since": "", **changed})
    told = why_not_undo(kept=kept, person_id=1, now=NOW)
    assert (why in told) if why else told == "", reason


def test_a_job_may_be_taken_back_for_longer():
    kept = Kept(verb="claim", person_id=1, at=NOW - timedelta(minutes=5), undone=False, since="")
    assert why_not_undo(kept=kept, person_id=1, now=NOW, within=timedelta(minutes=10)) == ""


def test_what_can_be_taken_back_at_all():
    assert {verb for verb in Verb if may_be_undone(verb=verb)} == {
        Verb.CLAIM, Verb.RELEASE, Verb.ASSIGN, Verb.HAND_OVER, Verb.SNOOZE, Verb.WAKE, Verb.LABEL, Verb.UNLABEL,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("until", "fine", "reason"),
    [
        (NOW + SECOND, True, "to come"),
        (NOW, False, "now is no sleep"),
        (NOW - SECOND, False, "past"),
        (NOW + LONGEST_SNOOZE, True, "the longest"),
        (NOW + LONGEST_SNOOZE + SECOND, False, "nothing sleeps for ever"),
    ],
)
def test_snoozes_have_an_end(until, fine, reason):
    assert (why_not_snooze(until=until, now=NOW) == "") is fine, reason


@pytest.mark.parametrize(
    ("label", "fine", "reason"),
    [
        ("known", True, "a word"),
        ("waiting on vendor", True, "words"),
        ("Zürich/EU-2", True, "letters of any language, a few marks"),
        ("x" * LONGEST_LABEL, True, "the longest"),
        ("x" * (LONGEST_LABEL + 1), False, "too long"),
        ("", False, "nothing"),
        (" x", False, "begins with a space"),
        ("a\u202eb", False, "turns the reading direction"),
        ("<b>", False, "marks of markup"),
        ("a\nb", False, "two lines"),
    ],
)
def test_labels(label, fine, reason):
    assert (why_not_label(label) == "") is fine, reason


def test_notes_say_something_and_end():
    assert why_not_note("")
    assert why_not_note("x" * LONGEST_NOTE) == ""
    assert f"{LONGEST_NOTE + 1:,}" in why_not_note("x" * (LONGEST_NOTE + 1))
