"""The filter language as a table: what is written, what is understood, and what is said of the rest."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.rules.filters import LONGEST, MOST_WORDS, QUALIFIERS, Span, narrowed, parse, quoted, word_at, words_of


@pytest.mark.parametrize(
    ("text", "qualifier", "values", "negated", "reason"),
    [
        ("is:unresolved", "is", ("unresolved",), False, "a word of the vocabulary"),
        ("-is:snoozed", "is", ("snoozed",), True, "a minus turns it around"),
        ("state:blocked,escalated", "state", ("blocked", "escalated"), False, "a comma means either"),
        ("effect:unknown", "effect", ("unknown",), False, "an effect"),
        ("outcome:written_off", "outcome", ("written_off",), False, "an outcome"),
        ("verification:failed", "verification", ("failed",), False, "a verification"),
        ("priority:urgent", "priority", ("urgent",), False, "a priority of a contract"),
        ("tool:tickets.*", "tool", ("tickets.*",), False, "the star stays for the search"),
        ("owner:helpdesk", "owner", ("helpdesk",), False, "a name"),
        ('owner:"Help, Desk"', "owner", ("Help, Desk",), False, "quotes keep a comma and a space"),
        (r'label:"say \"no\""', "label", ('say "no"',), False, "a quote within quotes"),
        ("agent:support-7", "agent", ("support-7",), False, "a minus inside a word is no negation"),
        ("run:a,b", "run", ("a,b",), False, "a run is named by its harness: a comma is part of the name"),
        ("contract:tickets.create@3", "contract", ("tickets.create@3",), False, "a version of a contract"),
        ("held:me", "held", ("me",), False, "who asks"),
        ("cause:unknown_outcome/NO_REPORT", "cause", ("unknown_outcome/NO_REPORT",), False, "what went wrong"),
        ('cause:""', "cause", ("",), False, "nothing went wrong yet"),
        ('cause:"fatal/X/out of, ink"', "cause", ("fatal/X/out of, ink",), False, "an owner's code may hold anything"),
        ("id:room:1", "id", ("room:1",), False, "an operation id may hold a colon"),
        ("room:1", "id", ("room:1",), False, "a word before a colon that is no qualifier begins an operation id"),
        ("case", "id", ("case",), False, "text alone begins an operation id"),
        ('"is:settled"', "id", ("is:settled",), False, "in quotes, a qualifier is text"),
        ("-case", "id", ("case",), True, "text turned around"),
        ("-", "id", ("-",), False, "a minus alone is text"),
        (":x", "id", (":x",), False, "a colon with nothing before it is text"),
    ],
)
def test_a_word_is_understood(text, qualifier, values, negated, reason):
    parsed = parse(text)
    assert not parsed.problems, reason
    [term] = parsed.terms
    assert (term.qualifier, term.values, term.negated) == (qualifier, values, negated), reason


@pytest.mark.parametrize(
    ("text", "more", "length"),
    [
        ("age:>1h", True, timedelta(hours=1)),
        ("age:<3d", False, timedelta(days=3)),
        ("due:<15m", False, timedelta(minutes=15)),
        ("age:>2w", True, timedelta(weeks=2)),
        ("age:<30s", False, timedelta(seconds=30)),
    ],
)
def test_lengths_of_time(text, more, length):
    [term] = parse(text).terms
    assert term.span == Span(more=more, length=length)


@pytest.mark.parametrize(
    ("text", "token", "says", "reason"),
    [
        ("state:asleep", "state:asleep", "a state is one of open, dispatched", "no such state"),
        ("effect:gone", "effect:gone", "an effect is one of none, pending", "an, where it is said so"),
        ("is:open", "is:open", "after is: write one of unresolved", "no such question"),
        ("outcome:done", "outcome:done", "an outcome is one of applied", "no such outcome"),
        ("is:", "is:", "write a name, like is:unresolved", "nothing behind the colon"),
        ("tool:", "tool:", "write a tool's name, or its beginning and a star", "nothing behind the colon"),
        ("state:open,asleep", "state:open,asleep", "a state is one of", "one of a list is wrong"),
        ("id:", "id:", "write the beginning of an operation id", "nothing behind the colon"),
        ("held:", "held:", "write held:me, held:nobody or a person's name", "nothing behind the colon"),
        ("age:1h", "age:1h", "write a length of time, like age:>1h", "more or less?"),
        ("age:>1 h", "age:>1", "write a length of time", "the unit belongs to the number"),
        ("due:<1y", "due:<1y", "(s, m, h, d, w)", "years are no unit"),
        ("age:>9999999d", "age:>9999999d", "write a length of time", "longer than the calendar"),
        ("contract:tickets.create", "contract:tickets.create", "a tool and its contract's number", "which version?"),
        ("contract:a@b", "contract:a@b", "a tool and its contract's number", "a version is a number"),
        ("contract:a@²", "contract:a@²", "a tool and its contract's number", "a digit that is no number"),
        ('owner:"help', 'owner:"help', "close the quote", "a quote that is never closed"),
    ],
)
def test_a_word_that_is_not_understood_is_named(text, token, says, reason):
    problem = parse(text).problems[0]
    assert problem.word.text == token, reason
    assert says in problem.sentence, reason


def test_the_rest_of_a_filter_still_works():
    parsed = parse("is:unresolved state:bad tool:tickets.* age:soon")
    assert [term.qualifier for term in parsed.terms] == ["is", "tool"]
    assert [problem.word.start for problem in parsed.problems] == [14, 39]


@pytest.mark.parametrize(
    ("text", "caret", "word", "reason"),
    [
        ("is:unresolved too", 17, "too", "behind the last letter"),
        ("is:unresolved too", 5, "is:unresolved", "within a word"),
        ("is:unresolved  too", 14, "", "between two words"),
        ("", 0, "", "nothing is written yet"),
        ('owner:"help de', 14, 'owner:"help de', "a quote that is still open"),
    ],
)
def test_the_word_under_the_caret(text, caret, word, reason):
    assert word_at(text, caret).text == word, reason


@pytest.mark.parametrize(
    ("text", "becomes", "reason"),
    [
        ("is:unresolved", "is:unresolved tool:a.b", "it is added"),
        ("tool:a.* is:unresolved", "is:unresolved tool:a.b", "it takes a wider one's place: two would mean either"),
        ("-tool:a.c", "-tool:a.c tool:a.b", "what is left out stays left out"),
        ("", "tool:a.b", "to nothing"),
    ],
)
def test_a_filter_is_narrowed(text, becomes, reason):
    assert narrowed(text, to={"tool": "a.b"}) == becomes, reason


def test_every_qualifier_shows_an_example_that_is_understood():
    for one in QUALIFIERS.values():
        parsed = parse(one.example)
        assert not parsed.problems
        assert parsed.terms[0].qualifier == one.name


def test_a_filter_has_an_end():
    assert len(words_of("a " * 500)) == MOST_WORDS
    assert parse("x" * 5000).terms[0].values == ("x" * LONGEST,)


@given(st.text(max_size=60))
def test_a_quoted_value_comes_back_as_it_was(value):
    value = value.replace("\x00", "")
    if value:
        [term] = parse(f"label:{quoted(value)} ").terms
        assert term.values == (value,)


@given(st.text(max_size=200))
def test_nothing_that_can_be_typed_breaks_it_and_every_word_is_accounted_for(text):
    parsed = parse(text)
    words = words_of(text)
    assert len(parsed.terms) + len(parsed.problems) == len(words)
    for word in words:
        assert text[word.start : word.end] == word.text
