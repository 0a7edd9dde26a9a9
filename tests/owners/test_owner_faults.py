"""Real owners, real losses: how often did it happen at the owner, what does the ledger say in the end, and why is that
right?

Each row is played against every owner that it names. An effect is never repeated on a guess, and one that happened is
never called absent: where an owner's answers cannot prove absence, a person is asked.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.owners.faulty import SUBJECTS, Fault, Subject
from tests.owners.play import Play

NATURAL = ("kinto",)
"""A second write at the same address changes nothing there, so the contract lets a harness repeat at once."""
RECORDS = ("prefect", "mcp_memory", "postgres_owner")
"""Asked by key, they are the record itself: what they do not hold is not there."""
SHOWING = ("localstripe", "maildev", "mcp_git")
"""They show what is there, and prove nothing by not showing it."""
HANDLES = ("mcp_everything",)
"""Asked by an id that they choose themselves and tell in the answer."""
LASTING = ("prefect", "localstripe", "maildev", "mcp_git", "mcp_memory", "postgres_owner")
CHECKED = ("kinto", "prefect", "localstripe", "maildev")
"""Their contracts check the outcome; a check asks over HTTP."""
GATEWAYS = ("prefect", "localstripe", "mcp_git", "mcp_memory")
"""A mail server's replies are its own, and a database has nobody on the way who answers in its place."""


@dataclass(frozen=True, slots=True)
class Row:
    """What a fault comes to at some owners."""

    fault: Fault
    owners: tuple[str, ...]
    writes: int
    """Requests that the harness was permitted."""
    effects: int
    """At the owner, in the end."""
    outcome: str
    """`applied`, or `escalated`: a person has to say."""
    why: str


ROWS = (
    Row(Fault.ANSWER_LOST, (*RECORDS, *SHOWING), 1, 1, "applied", "what was made is found again"),
    Row(Fault.ANSWER_LOST, NATURAL, 2, 1, "applied", "the repeat is refused with 412; what is there is compared"),
    Row(Fault.ANSWER_LOST, HANDLES, 1, 1, "escalated", "the task's id went with the answer; nothing else names it"),
    Row(Fault.SILENCE, (*RECORDS, *SHOWING), 1, 1, "applied", "a silence is no failure"),
    Row(Fault.SILENCE, NATURAL, 2, 1, "applied", "and a repeat is none either"),
    Row(Fault.SILENCE, HANDLES, 1, 1, "escalated", "the id never came"),
    Row(Fault.BAD_GATEWAY, GATEWAYS, 1, 1, "applied", "a gateway cannot know what the owner did"),
    Row(Fault.BAD_GATEWAY, NATURAL, 2, 1, "applied", "nor whether the repeat is the first"),
    Row(Fault.BAD_GATEWAY, HANDLES, 1, 1, "escalated", "nor what its id is"),
    Row(Fault.REQUEST_LOST, RECORDS, 2, 1, "applied", "the record proves that it is not there: the repeat is licensed"),
    Row(Fault.REQUEST_LOST, NATURAL, 2, 1, "applied", "the repeat needs no proof"),
    Row(Fault.REQUEST_LOST, SHOWING, 1, 0, "escalated", "what an index or a failing tool does not show may be there"),
    Row(Fault.REQUEST_LOST, HANDLES, 1, 0, "escalated", "without an id a lost call and a lost answer look alike"),
    Row(Fault.LIMITED, tuple(SUBJECTS), 2, 1, "applied", "a limiter's refusal proves that nothing began"),
    Row(Fault.CRASH, LASTING, 1, 1, "applied", "lookups that fail say nothing; the owner remembers when it is back"),
    Row(Fault.CRASH, NATURAL, 1, 0, "escalated", "it forgot everything, and its 403 is no absence"),
    Row(Fault.CRASH, HANDLES, 1, 0, "escalated", "it forgot its tasks, whose ids are lost besides"),
    Row(Fault.UNCHECKED, CHECKED, 1, 1, "applied", "the next step is to verify, and never to write again"),
)
CASES = [
    pytest.param(row, owner, id=f"{row.fault}-{owner}", marks=pytest.mark.xdist_group(owner))
    for owner in SUBJECTS
    for row in ROWS
    if owner in row.owners
]


def test_every_owner_meets_every_fault_that_it_can_meet() -> None:
    cannot = {(owner, Fault.UNCHECKED) for owner in SUBJECTS if owner not in CHECKED}
    cannot |= {(owner, Fault.BAD_GATEWAY) for owner in SUBJECTS if owner not in (*GATEWAYS, *NATURAL, *HANDLES)}
    played = [(owner, row.fault) for row in ROWS for owner in row.owners]
    assert len(set(played)) == len(played)
    assert set(played) | cannot == {(owner, fault) for owner in SUBJECTS for fault in Fault}


@pytest.mark.parametrize(("row", "owner"), CASES)
def test_one_effect_and_the_right_outcome(row: Row, owner: str, subject_at: Callable[[str], Subject]) -> None:
    subject = subject_at(owner)
    # Where it ends with a person it need not end late.
    play = Play(subject, budgets={"polls": 40 if row.outcome == "applied" else 6})
    if row.fault is Fault.UNCHECKED:
        data = unchecked(play)
    else:
        subject.break_next_write(row.fault)
        told = play.write()
        assert told["effect"] == ("none" if row.fault is Fault.LIMITED else "unknown"), (row.why, told["decision"])
        if row.fault not in (Fault.LIMITED, Fault.CRASH) and play.may_write_again():
            assert owner in NATURAL, "nobody repeats what may have happened"
            play.write()
        if row.fault is Fault.CRASH:
            crashed(play)
        data = play.end()
    ended = data["outcome"] if data["state"] == "settled" else data["state"]
    assert ended == row.outcome, (row.why, data["decision"], data["evidence"])
    assert (subject.effects(), play.writes) == (row.effects, row.writes), row.why
    assert data["effect"] == ("applied" if row.outcome == "applied" else "unknown")
    assert owner in NATURAL or not play.may_write_again(), "nothing more is permitted"


def crashed(play: Play) -> None:
    """The owner dies, is looked for in vain, and comes back."""
    play.subject.program.kill()
    try:
        play.look_until(lambda data: data["budgets"]["polls"]["used"] > 0)
    finally:
        play.subject.program.start()


def unchecked(play: Play) -> dict[str, Any]:
    """A good write, and nobody who could confirm it; then somebody can."""
    told = play.write()
    assert (told["decision"]["recovery_action"], told["effect"]) == ("verify", "applied"), told["decision"]
    proxy = play.subject.proxy
    assert proxy is not None
    proxy.fail("down")
    data = play.look_until(lambda data: data["budgets"]["checks"]["used"] >= 2)
    assert (data["decision"]["recovery_action"], data["verification"]) == ("verify", "unavailable")
    assert not play.may_write_again()
    proxy.heal()
    data = play.end()
    assert data["verification"] == "verified"
    return data
