"""What Prefect promises, and what the ledger makes of it: a key that finds the first run again whatever is meant now,
and runs that take their time."""

from collections.abc import Callable

import pytest

from tests.owners.faulty import PrefectSubject
from tests.owners.play import Play

pytestmark = pytest.mark.xdist_group("prefect")


@pytest.fixture
def subject(subject_at: Callable[[str], PrefectSubject]) -> PrefectSubject:
    return subject_at("prefect")


def test_a_known_key_answers_the_first_run_whatever_the_parameters_say(subject: PrefectSubject) -> None:
    first = subject.run("k", {"title": "Something else"}, patience=20)
    again = subject.run("k", subject.payload, patience=20)
    assert (first["status"], again["status"]) == (201, 200)
    assert again["body"]["id"] == first["body"]["id"]
    assert again["body"]["parameters"] == {"title": "Something else"}
    assert subject.effects() == 1


@pytest.mark.parametrize(
    ("states", "state", "effect", "why"),
    [
        (["RUNNING", "COMPLETED"], "settled", "applied", "it was open for a while, and then it was done"),
        (["CRASHED"], "escalated", "pending", "a run that crashed may have done part of its work"),
        (["RUNNING", "CANCELLED"], "escalated", "pending", "so may one that was cancelled"),
    ],
)
def test_a_run_takes_its_time(subject: PrefectSubject, states: list[str], state: str, effect: str, why: str) -> None:
    subject.state = None
    play = Play(subject, budgets={"polls": 8})
    told = play.write()
    assert (told["effect"], told["decision"]["recovery_action"]) == ("pending", "wait"), told["decision"]
    (run,) = subject.owner.runs(subject.flow)
    for moved in states:
        looks = len(play.look_until(lambda data: data["effect"] == "pending")["evidence"])
        assert not play.may_write_again(), "one run is enough"
        subject.owner.move(run["id"], moved)
        play.look_until(lambda data, looks=looks: len(data["evidence"]) > looks)  # type: ignore[misc]
    data = play.end()
    assert (data["state"], data["effect"]) == (state, effect), (why, data["decision"])
    assert (subject.effects(), play.writes) == (1, 1)


def test_another_run_under_our_key_is_not_ours(subject: PrefectSubject) -> None:
    """Its answer looks like a success; only the check shows that something else was meant."""
    play = Play(subject)
    subject.run(play.permit["idempotency_key"], {"title": "Something else"}, patience=20)
    play.write()
    data = play.end()
    assert (data["state"], data["verification"]) == ("escalated", "failed"), data["decision"]
    assert subject.effects() == 1
    assert not play.may_write_again()
