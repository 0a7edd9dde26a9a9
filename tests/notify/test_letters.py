"""What a message says to a person: what happened, what is safe, what to do; and nothing that is not ours."""

import pytest

from ledger.rules.events import EventKind
from recovery.letters import letter

PAYLOAD = {
    "id": "01a2",
    "operation_id": "t-1",
    "tool": "tickets.create",
    "owner": "helpdesk",
    "sentence": "The budget for asking the owner is used up.",
    "priority": "high",
    "notify": ["support-oncall"],
    "dependants": ["t-2", "t-3"],
}


@pytest.mark.parametrize("kind", EventKind)
def test_every_kind_has_words_of_its_own(kind: EventKind) -> None:
    told = letter(kind=kind.value, payload=PAYLOAD, workspace="acme", address="https://a.example/")
    assert told.subject.startswith("[Ascertain] ")
    assert "Something happened" not in told.subject
    happened, safe, do, url, facts = told.text.split("\n\n")
    assert happened == PAYLOAD["sentence"]
    assert safe.endswith(".")
    assert do.endswith(".")
    assert url == "https://a.example/operations/01a2/"
    assert "Of the same run: t-2, t-3" in facts
    assert "Workspace: acme" in facts


def test_a_subject_is_one_line_whatever_it_is_about() -> None:
    told = letter(kind="operation.escalated", payload={"owner": "a" * 500}, workspace="w", address="https://a")
    assert len(told.subject) <= 200
    assert "\n" not in told.subject


def test_a_kind_that_is_not_known_is_told_all_the_same() -> None:
    told = letter(kind="later.added", payload={"sentence": "It was added later."}, workspace="w", address="https://a")
    assert told.text.startswith("It was added later.")
