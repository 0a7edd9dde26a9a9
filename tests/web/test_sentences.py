"""No word of the vocabulary is without its look and its sentence, and no verb of the history is hidden."""

import heroicons
import pytest

from ledger.rules.resolutions import Answer
from ledger.rules.vocabulary import Effect, Licence, LookupOutcome, Outcome, Proof, Role, Speaker, State
from recovery.web import sentences


@pytest.mark.parametrize(
    ("words", "table"),
    [
        (State, sentences.STATES),
        (Outcome, sentences.OUTCOMES),
        (Effect, sentences.EFFECTS),
        (Proof, sentences.PROOFS),
        (Licence, sentences.LICENCES),
        (Speaker, sentences.SPEAKERS),
        (Answer, sentences.ANSWERS),
        (Role, sentences.ROLES),
    ],
)
def test_every_word_has_its_entry(words, table):
    assert set(table) == set(words)


def test_every_lookup_outcome_has_its_sentence():
    outcomes = {outcome.value for outcome in LookupOutcome}
    assert set(sentences.LOOKUPS) == set(sentences.LOOKUP_WORDS) == outcomes


def test_every_icon_exists():
    looks = [*sentences.STATES.values(), *sentences.OUTCOMES.values(), *sentences.ANSWERS.values()]
    for look in looks:
        assert "<svg" in heroicons._render_icon("mini", look.icon, 16, {})


def test_a_verb_without_a_sentence_is_shown_by_name():
    line = sentences.told(verb="turn_over", actor="person:olive", entry={"set": {}})
    assert line.said == "did “turn over”."
    assert line.actor == "olive"


@pytest.mark.parametrize(
    ("verb", "entry", "said"),
    [
        (
            "open_operation",
            {"opens": {"number": 1}},
            "recorded the intent and its payload, and was permitted attempt-01.",
        ),
        (
            "open_attempt",
            {"opens": {"number": 2, "licence": "key_in_window"}},
            "was permitted attempt-02 because the owner still honours the same key.",
        ),
        (
            "open_attempt",
            {"opens": {"number": 2, "kind": "retry", "sender": "worker", "licence": "effect_none_proved"}},
            "sends it again itself, as attempt-02 because it is proved that nothing happened before.",
        ),
        (
            "open_attempt",
            {"opens": {"number": 3, "kind": "replay", "sender": "worker", "licence": "key_in_window"}},
            "sends the same request once more, as attempt-03, to learn what became of it because the owner still honours "
            "the same key.",
        ),
        (
            "end_wait",
            {"because": "The credential env:TOKEN is not set where the worker runs."},
            "The wait is over. Ascertain cannot send it itself, so the harness may ask again. The credential env:TOKEN is "
            "not set where the worker runs.",
        ),
        (
            "lapse_attempt",
            {"attempt": "attempt-01"},
            "attempt-01 ended without a report. Its effect is unknown, not failed.",
        ),
        (
            "record_lookup",
            {"lookup": "helpdesk/status", "evidence": [{"outcome": "no_match"}]},
            "asked helpdesk/status: nothing there.",
        ),
        ("attest", {"answer": "applied", "counts": True}, "answered: It happened."),
        (
            "attest",
            {"answer": "not_applied", "counts": False},
            "answered: It did not happen. It waits for a second person's signature.",
        ),
        ("countersign", {"answer": "not_applied", "signs": "otto"}, "signed otto's answer: It did not happen."),
    ],
)
def test_history_in_words(verb, entry, said):
    assert sentences.told(verb=verb, actor="worker", entry=entry).said == said
