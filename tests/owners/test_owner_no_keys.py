"""Owners that take the same thing twice: localstripe ignores keys, and a mail server delivers what it is handed. A harness
that sends again by itself makes two, and the ledger names both to a person."""

from collections.abc import Callable

import pytest

from tests.owners.faulty import Subject
from tests.owners.play import Play

LOST = {"kind": "exception", "exception": "ReadTimeout", "phase": "await", "bytes_sent": 300, "network_attempts": 2}


@pytest.mark.parametrize(
    "owner", [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in ("localstripe", "maildev")]
)
def test_two_requests_are_two_effects_and_a_person_hears_of_both(
    owner: str, subject_at: Callable[[str], Subject]
) -> None:
    subject = subject_at(owner)
    play = Play(subject)
    for _ in range(2):
        subject.write(play.permit["idempotency_key"])
    assert subject.effects() == 2, "the same key, the same words"
    play.report(LOST)
    data = play.end()
    assert (data["state"], data["effect"]) == ("escalated", "unknown"), data["decision"]
    assert not play.may_write_again()
    assert data["decision"]["code"] == "FOUND_TWICE"
