"""The desk: claims that lapse, races, snoozes that wake, notes, and taking back. On real PostgreSQL, by its clock."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from uuid import UUID, uuid4

import psycopg
import pytest
from django.db import connection

from ledger.database import execute
from ledger.identifiers import new_id
from ledger.queries.clock import database_now
from ledger.queries.desk import (
    desk_of,
    label_suggestions,
    notes_of,
    people_to_assign,
    whole_desk,
)
from ledger.queries.facts import held
from ledger.rules.desk import ASSIGNMENT_LASTS, CLAIM_LASTS, MOST_LABELS, Subject, WakesOn
from ledger.rules.resolutions import Answer
from ledger.transitions import desk
from ledger.transitions.change import Change, write
from ledger.transitions.desk import Acted, Refused, Seen
from ledger.transitions.person import Signer
from recovery.sweeps import _WAKING, wake_snoozed
from recovery.web.scenes import Stage, answered, opened, play, set_stage

HOUR = timedelta(hours=1)


@pytest.fixture
def stage(database, django_db_blocker, settings):
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    with django_db_blocker.unblock():
        yield _fresh()


@pytest.fixture
def other_stage(stage):
    return _fresh()


@pytest.fixture
def one(stage) -> Subject:
    """A booking, open."""
    return _subject(stage, _booking(stage, "one"))


def _fresh() -> Stage:
    mark = uuid4().hex[:8]
    return set_stage(slug=f"d-{mark}", name="Acme Support", password="x" * 12, suffix=f".{mark}")


def _booking(stage, name, permit=False) -> UUID:
    return opened(
        stage=stage, tool="rooms.book", operation_id=f"room:{name}", payload={}, ago=timedelta(minutes=1), permit=permit
    )


def _subject(stage, id) -> Subject:
    return Subject(workspace_id=stage.workspace_id, operation=id)


def _group(stage, cause="unknown_outcome/NO_REPORT", tool="rooms.book") -> Subject:
    return Subject(workspace_id=stage.workspace_id, tool_id=stage.tools[tool][0], cause=cause)


def _by(stage, username) -> Signer:
    return Signer(id=stage.people[username], username=f"{username}{stage.suffix}")


def _entries(subject):
    rows = execute(
        "SELECT verb, person_id, before::text, after::text, undoes_id FROM desk_entry WHERE operation = %s ORDER BY at, id",
        [subject.operation],
    )
    return [(row[0], row[1], *(json.loads(text) if text else None for text in row[2:4]), row[4]) for row in rows]


def _acted(came) -> Acted:
    assert isinstance(came, Acted), came
    return came


def _refused(came) -> Refused:
    assert isinstance(came, Refused), came
    return came


def _put(subject, **columns):
    """A desk as time would have left it."""
    assigned = ", ".join(f"{name} = %({name})s" for name in columns)
    execute(f"UPDATE desk SET {assigned} WHERE operation = %(id)s", {**columns, "id": subject.operation})


def test_a_claim_holds_for_half_an_hour_and_moves_no_version(stage, one):
    before = held(id=one.operation).facts.version
    came = _acted(desk.claim(subject=one, by=_by(stage, "olive")))
    now = database_now()
    assert came.desk.holder_name == "Olive Okafor"
    assert abs(came.desk.held_until - now - CLAIM_LASTS) < timedelta(seconds=5)
    assert came.undo_until is not None
    assert held(id=one.operation).facts.version == before
    assert [row[0] for row in _entries(one)] == ["claim"]


def test_who_claims_second_is_told_who_was_first(stage, one):
    _acted(desk.claim(subject=one, by=_by(stage, "olive")))
    came = _refused(desk.claim(subject=one, by=_by(stage, "otto")))
    assert came.lost
    assert came.sentence == "Olive Okafor holds it already."
    assert came.desk.holder_id == stage.people["olive"]
    assert len(_entries(one)) == 1


def test_two_people_claim_at_once_and_one_wins(stage, django_db_blocker):
    subjects = [_subject(stage, _booking(stage, f"race-{number}")) for number in range(8)]
    people = [_by(stage, name) for name in ("olive", "otto", "max")]
    line = Barrier(len(people))

    def race(who):
        came = []
        with django_db_blocker.unblock():
            for subject in subjects:
                line.wait(30)
                came.append(desk.claim(subject=subject, by=who))
            connection.close()
        return came

    with ThreadPoolExecutor(len(people)) as pool:
        for each in zip(*pool.map(race, people), strict=True):
            winners = [one for one in each if isinstance(one, Acted)]
            assert len(winners) == 1
            losers = [one for one in each if isinstance(one, Refused)]
            assert {loser.sentence for loser in losers} == {f"{winners[0].desk.holder_name} holds it already."}
            assert all(loser.lost for loser in losers)


def test_a_claim_lapses_by_the_databases_clock(stage, one):
    _acted(desk.claim(subject=one, by=_by(stage, "olive")))
    _put(one, held_until=database_now() - timedelta(milliseconds=1))
    assert desk_of(subject=one).holder_id is None
    came = _acted(desk.claim(subject=one, by=_by(stage, "otto")))
    assert came.desk.holder_id == stage.people["otto"]
    # What was before is what held: the lapsed claim is not given back.
    assert _entries(one)[-1][2] == {"holder_id": None, "held_until": None}


@pytest.mark.parametrize(
    ("left", "renewed", "reason"),
    [
        (timedelta(minutes=20), True, "less than 25 minutes left"),
        (timedelta(minutes=28), False, "hardly used: no write"),
        (timedelta(seconds=-1), False, "a lapsed claim is not brought back by looking"),
        (timedelta(hours=5), False, "what was given for a shift is not cut short"),
    ],
)
def test_looking_renews_ones_own_claim(stage, one, left, renewed, reason):
    _acted(desk.claim(subject=one, by=_by(stage, "olive")))
    until = database_now() + left
    _put(one, held_until=until)
    desk.look(subject=one, person_id=stage.people["otto"], acts=True)
    [(after,)] = execute("SELECT held_until FROM desk WHERE operation = %s", [one.operation])
    assert after == until, "somebody else's look renews nothing"
    desk.look(subject=one, person_id=stage.people["olive"], acts=True)
    [(after,)] = execute("SELECT held_until FROM desk WHERE operation = %s", [one.operation])
    assert (after > until) is renewed, reason


def test_a_claim_on_the_group_shows_on_its_rows_and_renews_with_them(stage, scenes_of_lapsed):
    first, second = scenes_of_lapsed
    group = _group(stage)
    _acted(desk.claim(subject=group, by=_by(stage, "olive")))
    rows = [desk_of(subject=subject) for subject in (first, second)]
    assert {(row.holder_id, row.held_by_group) for row in rows} == {(stage.people["olive"], True)}
    assert (
        _refused(desk.claim(subject=first, by=_by(stage, "otto"))).sentence == "Olive Okafor holds this group already."
    )
    assert "Release the group" in _refused(desk.release(subject=first, by=_by(stage, "olive"))).sentence
    _acted(desk.assign(subject=first, by=_by(stage, "olive"), person_id=stage.people["otto"]))
    assert desk_of(subject=first).holder_id == stage.people["otto"], "its own claim goes before the group's"
    assert desk_of(subject=second).holder_id == stage.people["olive"]
    execute("UPDATE cause_desk SET held_until = now() + interval '5 minutes' WHERE tool_id = %s", [group.tool_id])
    desk.look(subject=second, person_id=stage.people["olive"], acts=True)
    assert desk_of(subject=group).held_until > database_now() + timedelta(minutes=20)


@pytest.fixture
def scenes_of_lapsed(stage):
    from recovery.web.scenes import lapsed

    made = []
    for name in ("a", "b"):
        id = _booking(stage, name, permit=True)
        lapsed(id=id)
        made.append(_subject(stage, id))
    [(cause,)] = execute("SELECT DISTINCT cause FROM operation WHERE id = ANY(%s)", [[one.operation for one in made]])
    assert cause == _group(stage).cause
    return made


def test_releasing(stage, one):
    assert _acted(desk.release(subject=one, by=_by(stage, "olive"))).entry_id is None, (
        "nothing to release, nothing said"
    )
    _acted(desk.claim(subject=one, by=_by(stage, "olive")))
    came = _refused(desk.release(subject=one, by=_by(stage, "otto")))
    assert came.lost
    assert "Olive Okafor holds it, not you" in came.sentence
    assert _acted(desk.release(subject=one, by=_by(stage, "olive"))).desk.holder_id is None


@pytest.mark.parametrize(
    ("username", "fine", "reason"),
    [("otto", True, "operator"), ("max", True, "admin"), ("ada", False, "approver"), ("vic", False, "viewer")],
)
def test_who_can_be_given_work(stage, one, username, fine, reason):
    came = desk.assign(subject=one, by=_by(stage, "olive"), person_id=stage.people[username])
    assert isinstance(came, Acted) is fine, reason


def test_nobody_of_another_workspace_and_nobody_who_left_is_given_work(stage, other_stage, one):
    came = _refused(desk.assign(subject=one, by=_by(stage, "olive"), person_id=other_stage.people["otto"]))
    assert came.sentence == "Choose an operator or an admin of this workspace."
    execute("UPDATE person SET is_active = false WHERE id = %s", [stage.people["otto"]])
    assert isinstance(desk.assign(subject=one, by=_by(stage, "olive"), person_id=stage.people["otto"]), Refused)
    assert {person.name for person in people_to_assign(workspace_id=stage.workspace_id)} == {
        "Max Brandt",
        "Olive Okafor",
    }


def test_what_is_given_waits_for_a_shift(stage, one):
    came = _acted(desk.assign(subject=one, by=_by(stage, "olive"), person_id=stage.people["otto"]))
    assert came.desk.held_until > database_now() + ASSIGNMENT_LASTS - timedelta(minutes=1)


def test_assigning_against_what_was_seen(stage, one):
    nobody = Seen(holder_id=None, snoozed_until=None)
    _acted(desk.claim(subject=one, by=_by(stage, "max")))
    came = _refused(desk.assign(subject=one, by=_by(stage, "olive"), person_id=stage.people["otto"], seen=nobody))
    assert (came.lost, came.sentence) == (True, "Max Brandt holds it by now.")
    saw_max = Seen(holder_id=stage.people["max"], snoozed_until=None)
    _acted(desk.assign(subject=one, by=_by(stage, "olive"), person_id=stage.people["otto"], seen=saw_max))


def test_handing_over_leaves_a_note(stage, one):
    _acted(desk.claim(subject=one, by=_by(stage, "olive")))
    assert (
        "Write something"
        in _refused(
            desk.hand_over(subject=one, by=_by(stage, "olive"), person_id=stage.people["otto"], text="")
        ).sentence
    )
    came = _acted(
        desk.hand_over(
            subject=one, by=_by(stage, "olive"), person_id=stage.people["otto"], text="The vendor calls back."
        )
    )
    assert came.desk.holder_id == stage.people["otto"]
    assert [note.text for note in notes_of(subject=one)] == ["The vendor calls back."]
    _acted(desk.undo(workspace_id=stage.workspace_id, entry_id=came.entry_id, by=_by(stage, "olive")))
    assert desk_of(subject=one).holder_id == stage.people["olive"]
    assert len(notes_of(subject=one)) == 1, "the note stays"
    back = _acted(desk.hand_over(subject=one, by=_by(stage, "olive"), person_id=None, text="Off for today."))
    assert back.desk.holder_id is None


def test_a_shift_is_handed_over_whole(stage, scenes_of_lapsed):
    mine = [_subject(stage, _booking(stage, f"mine-{number}")) for number in range(3)]
    theirs = _subject(stage, _booking(stage, "theirs"))
    for subject in (*mine, _group(stage)):
        _acted(desk.claim(subject=subject, by=_by(stage, "olive")))
    _acted(desk.claim(subject=theirs, by=_by(stage, "max")))
    give = {
        "workspace_id": stage.workspace_id,
        "by": _by(stage, "olive"),
        "text": "Night shift, see the vendor's page.",
    }
    assert desk.hand_over_all(**{**give, "text": " " * 0}, person_id=None) == "Write something first."
    assert "Choose an operator" in desk.hand_over_all(**give, person_id=stage.people["vic"])
    assert desk_of(subject=mine[0]).holder_id == stage.people["olive"], "nothing moved"
    assert notes_of(subject=mine[0]) == ()
    assert desk.hand_over_all(**give, person_id=stage.people["otto"]) == 4
    assert {desk_of(subject=subject).holder_id for subject in (*mine, _group(stage))} == {stage.people["otto"]}
    assert desk_of(subject=theirs).holder_id == stage.people["max"]
    assert desk.hand_over_all(**give, person_id=stage.people["otto"]) == 0


def test_a_snooze_ends_at_its_time_and_says_so(stage, one):
    until = database_now() + HOUR
    came = _acted(desk.snooze(subject=one, by=_by(stage, "olive"), until=until))
    assert came.desk.snoozed_until == until
    desk.wake_due()
    assert desk_of(subject=one).snoozed_until == until
    _put(one, snoozed_until=database_now() - timedelta(seconds=1))
    assert desk_of(subject=one).snoozed_until is None, "over by the clock, whoever wakes it"
    desk.wake_due()
    row = desk_of(subject=one)
    assert row.woken_at is not None
    assert _entries(one)[-1][:4] == ("woke", stage.people["olive"], None, {"snoozed_until": None, "because": "time"})
    desk.look(subject=one, person_id=stage.people["vic"], acts=False)
    assert desk_of(subject=one).woken_at is not None, "a viewer's look is no answer"
    desk.look(subject=one, person_id=stage.people["otto"], acts=True)
    assert desk_of(subject=one).woken_at is None


def _succeeds(stage, at):
    owner_id = execute("SELECT owner_id FROM tool WHERE id = %s", [stage.tools["rooms.book"][0]])[0][0]
    execute(
        "INSERT INTO owner_state (owner, circuit, failures, last_reason, paused_by, paused_because, last_success_at) "
        "VALUES (%s, 'closed', 0, '', '', '', %s) ON CONFLICT (owner) DO UPDATE SET last_success_at = EXCLUDED.last_success_at",
        [owner_id, at],
    )
    return owner_id


def _evidence(subject, outcome):
    """As a lookup of the owner leaves it, with its row of history."""
    known = held(id=subject.operation)
    piece = {
        "id": new_id(), "attempt": None, "source": "s", "speaker": "owner_status", "outcome": outcome, "effect": None,
        "proof": None, "digest": uuid4().bytes, "query": "", "principal": "", "observed_at": known.now, "coverage": "",
        "detail": {},
    }  # fmt: skip
    change = Change(
        id=known.id, version=known.facts.version, at=known.now, verb="record_lookup", actor="worker", set={},
        next_check_at=known.next_check_at, evidence=(piece,),
    )  # fmt: skip
    assert write(change) is not None


@pytest.mark.parametrize(
    ("rule", "happens", "wakes", "reason"),
    [
        (WakesOn.EVIDENCE, "found", True, "news"),
        (WakesOn.EVIDENCE, "lookup_failed", False, "a lookup that failed is no news"),
        (WakesOn.EVIDENCE, "no_match", False, "nor is one that found nothing"),
        (WakesOn.EVIDENCE, "owner", False, "another rule's event"),
        (WakesOn.OWNER_BACK, "owner", True, "the owner answered"),
        (WakesOn.OWNER_BACK, "owner_before", False, "it had answered before the snooze"),
        (WakesOn.OWNER_BACK, "owner_paused", False, "a paused owner is not back"),
        (WakesOn.STATE_CHANGE, "lapse", True, "another state"),
        (WakesOn.STATE_CHANGE, "found", False, "evidence alone is no change of state"),
        (WakesOn.TIME, "found", False, "the time alone"),
    ],
)
def test_what_ends_a_snooze_sooner(stage, rule, happens, wakes, reason):
    from recovery.web.scenes import lapsed

    subject = _subject(stage, _booking(stage, "snoozed", permit=True))
    if happens == "owner_before":
        _succeeds(stage, database_now())
    _acted(desk.snooze(subject=subject, by=_by(stage, "olive"), until=database_now() + HOUR, wakes_on=rule))
    if happens == "lapse":
        lapsed(id=subject.operation)
    elif happens in ("owner", "owner_paused"):
        owner_id = _succeeds(stage, database_now() + timedelta(milliseconds=1))
        if happens == "owner_paused":
            execute("UPDATE owner_state SET paused_until = now() + interval '1 hour' WHERE owner = %s", [owner_id])
    elif happens != "owner_before":
        _evidence(subject, happens)
    desk.wake_due()
    assert (desk_of(subject=subject).woken_at is not None) is wakes, reason
    if wakes:
        assert _entries(subject)[-1][3]["because"] == rule.value


@pytest.mark.parametrize(
    ("rule", "happens", "wakes", "reason"),
    [
        (WakesOn.EVIDENCE, "found", True, "evidence of one of them"),
        (WakesOn.STATE_CHANGE, "another", True, "one more of them"),
        (WakesOn.STATE_CHANGE, "nothing", False, "as many as before"),
        (WakesOn.OWNER_BACK, "owner", True, "the owner answered"),
        (WakesOn.TIME, "another", False, "the time alone"),
    ],
)
def test_what_wakes_a_group(stage, scenes_of_lapsed, rule, happens, wakes, reason):
    from recovery.web.scenes import lapsed

    group = _group(stage)
    _acted(desk.snooze(subject=group, by=_by(stage, "olive"), until=database_now() + HOUR, wakes_on=rule))
    assert desk_of(subject=scenes_of_lapsed[0]).snoozed_by_group
    if happens == "found":
        _evidence(scenes_of_lapsed[0], "found")
        answered(stage=stage, id=scenes_of_lapsed[0].operation, username="max", answer=Answer.CANNOT_TELL, reason="?")
    elif happens == "another":
        id = _booking(stage, "c", permit=True)
        lapsed(id=id)
    elif happens == "owner":
        _succeeds(stage, database_now() + timedelta(milliseconds=1))
    desk.wake_due()
    assert (desk_of(subject=group).snoozed_until is None) is wakes, reason


def test_what_settled_wakes_nobody(stage):
    scenes = play(stage=stage)
    subject = _subject(stage, scenes["conflict"])
    _acted(desk.snooze(subject=subject, by=_by(stage, "olive"), until=database_now() + HOUR))
    answered(stage=stage, id=subject.operation, username="max", answer=Answer.APPLIED, reason="I saw it")
    desk.wake_due()
    row = desk_of(subject=subject)
    assert (row.snoozed_until, row.woken_at) == (None, None)
    assert "settled" in _refused(desk.claim(subject=subject, by=_by(stage, "olive"))).sentence
    assert (
        "settled"
        in _refused(desk.snooze(subject=subject, by=_by(stage, "olive"), until=database_now() + HOUR)).sentence
    )
    _acted(desk.note(subject=subject, by=_by(stage, "olive"), text="Closed well."))


def test_snoozing_against_what_was_seen_and_waking_by_hand(stage, one):
    awake = Seen(holder_id=None, snoozed_until=None)
    until = database_now() + HOUR
    _acted(desk.snooze(subject=one, by=_by(stage, "olive"), until=until, seen=awake))
    came = _refused(desk.snooze(subject=one, by=_by(stage, "otto"), until=until + HOUR, seen=awake))
    assert (came.lost, came.sentence) == (True, "Olive Okafor has put it to sleep since.")
    assert (
        "still to come"
        in _refused(desk.snooze(subject=one, by=_by(stage, "olive"), until=database_now() - HOUR)).sentence
    )
    came = _acted(desk.wake(subject=one, by=_by(stage, "otto"), seen=Seen(holder_id=None, snoozed_until=until)))
    assert (came.desk.snoozed_until, came.desk.woken_at) == (None, None)
    assert _acted(desk.wake(subject=one, by=_by(stage, "otto"))).entry_id is None


def test_labels_come_and_go(stage, one):
    _acted(desk.label(subject=one, by=_by(stage, "olive"), text="known"))
    assert _acted(desk.label(subject=one, by=_by(stage, "otto"), text="known")).entry_id is None
    assert desk_of(subject=one).labels == ("known",)
    came = _acted(desk.label(subject=one, by=_by(stage, "olive"), text="vendor"))
    _acted(desk.label(subject=one, by=_by(stage, "otto"), text="later"))
    _acted(desk.undo(workspace_id=stage.workspace_id, entry_id=came.entry_id, by=_by(stage, "olive")))
    assert desk_of(subject=one).labels == ("known", "later"), "another label is no reason to refuse, and stays"
    assert set(label_suggestions(workspace_id=stage.workspace_id)) == {"known", "vendor", "later"}
    _acted(desk.unlabel(subject=one, by=_by(stage, "olive"), text="known"))
    assert desk_of(subject=one).labels == ("later",)
    assert isinstance(desk.label(subject=one, by=_by(stage, "olive"), text="<b>"), Refused)
    for number in range(MOST_LABELS - 1):
        _acted(desk.label(subject=one, by=_by(stage, "olive"), text=f"l{number}"))
    assert "Take one away" in _refused(desk.label(subject=one, by=_by(stage, "olive"), text="more")).sentence


def test_notes_are_told_to_those_they_name_of_this_workspace(stage, other_stage, one):
    text = f"@otto{stage.suffix} and @otto{other_stage.suffix} and @nobody: look"
    _acted(desk.note(subject=one, by=_by(stage, "ada"), text=text))
    assert execute("SELECT mentions::text FROM note WHERE operation = %s", [one.operation]) == [
        (f'["otto{stage.suffix}"]',)
    ]
    [note] = notes_of(subject=one)
    assert (note.author, note.text, note.of_group) == ("Ada Moreau", text, False)


def test_a_groups_notes_stand_at_its_operations(stage, scenes_of_lapsed):
    _acted(desk.note(subject=_group(stage), by=_by(stage, "olive"), text="All the same outage."))
    _acted(desk.note(subject=scenes_of_lapsed[0], by=_by(stage, "olive"), text="This one first."))
    assert [(note.text, note.of_group) for note in notes_of(subject=scenes_of_lapsed[0])] == [
        ("This one first.", False),
        ("All the same outage.", True),
    ]
    assert [note.text for note in notes_of(subject=_group(stage))] == ["All the same outage."]


def test_taking_back_restores_what_was(stage, one):
    olive = _by(stage, "olive")
    came = _acted(desk.claim(subject=one, by=olive))
    back = _acted(desk.undo(workspace_id=stage.workspace_id, entry_id=came.entry_id, by=olive))
    assert back.desk.holder_id is None
    assert back.undo_until is None
    assert (
        "undone already"
        in _refused(desk.undo(workspace_id=stage.workspace_id, entry_id=came.entry_id, by=olive)).sentence
    )
    assert _entries(one)[-1][4] == came.entry_id
    until = database_now() + HOUR
    first = _acted(desk.snooze(subject=one, by=olive, until=until, wakes_on=WakesOn.EVIDENCE))
    second = _acted(desk.wake(subject=one, by=olive))
    assert first.entry_id != second.entry_id
    _acted(desk.undo(workspace_id=stage.workspace_id, entry_id=second.entry_id, by=olive))
    row = desk_of(subject=one)
    assert (row.snoozed_until, row.wakes_on) == (until, WakesOn.EVIDENCE)


def test_taking_back_is_refused_when_somebody_acted_since(stage, one):
    came = _acted(desk.claim(subject=one, by=_by(stage, "olive")))
    _acted(desk.assign(subject=one, by=_by(stage, "otto"), person_id=stage.people["otto"]))
    refused = _refused(desk.undo(workspace_id=stage.workspace_id, entry_id=came.entry_id, by=_by(stage, "olive")))
    assert refused.lost
    assert refused.sentence.startswith("Not undone: Otto Lindqvist has changed it since.")
    assert desk_of(subject=one).holder_id == stage.people["otto"]


def test_a_note_since_is_no_reason_not_to_take_back(stage, one):
    came = _acted(desk.claim(subject=one, by=_by(stage, "olive")))
    _acted(desk.note(subject=one, by=_by(stage, "otto"), text="Hm."))
    _acted(desk.undo(workspace_id=stage.workspace_id, entry_id=came.entry_id, by=_by(stage, "olive")))


def test_taking_back_too_late_and_by_another(stage, one):
    came = _acted(desk.claim(subject=one, by=_by(stage, "olive")))
    assert (
        "only the person"
        in _refused(desk.undo(workspace_id=stage.workspace_id, entry_id=came.entry_id, by=_by(stage, "otto"))).sentence
    )
    late = desk.undo(
        workspace_id=stage.workspace_id, entry_id=came.entry_id, by=_by(stage, "olive"), within=timedelta(0)
    )
    assert "10 seconds" in _refused(late).sentence


def test_nothing_passes_the_wall(stage, other_stage):
    theirs = _booking(other_stage, "theirs")
    across = Subject(workspace_id=stage.workspace_id, operation=theirs)
    across_group = Subject(workspace_id=stage.workspace_id, tool_id=other_stage.tools["rooms.book"][0], cause="x")
    olive = _by(stage, "olive")
    their_entry = _acted(desk.claim(subject=_subject(other_stage, theirs), by=_by(other_stage, "olive"))).entry_id
    for subject in (across, across_group):
        for act in (
            lambda s: desk.claim(subject=s, by=olive),
            lambda s: desk.release(subject=s, by=olive),
            lambda s: desk.assign(subject=s, by=olive, person_id=olive.id),
            lambda s: desk.hand_over(subject=s, by=olive, person_id=olive.id, text="x"),
            lambda s: desk.snooze(subject=s, by=olive, until=database_now() + HOUR),
            lambda s: desk.wake(subject=s, by=olive),
            lambda s: desk.note(subject=s, by=olive, text="x"),
            lambda s: desk.seen(subject=s, by=olive),
        ):
            with pytest.raises(LookupError):
                act(subject)
        assert desk_of(subject=subject) is None
        assert whole_desk(subject=subject, person_id=olive.id) is None
    with pytest.raises(LookupError):
        desk.undo(workspace_id=stage.workspace_id, entry_id=their_entry, by=olive)
    desk.look(subject=across, person_id=olive.id, acts=True)
    assert execute("SELECT count(*) FROM presence WHERE operation = %s", [theirs]) == [(0,)]


def test_who_is_looking(stage, one):
    for name in ("olive", "otto", "vic"):
        desk.look(subject=one, person_id=stage.people[name], acts=False)
    execute(
        "UPDATE presence SET seen_at = now() - interval '61 seconds' WHERE operation = %s AND person_id = %s",
        [one.operation, stage.people["vic"]],
    )
    seen = whole_desk(subject=one, person_id=stage.people["olive"])
    assert [person.name for person in seen.looking] == ["Otto Lindqvist"]
    execute("UPDATE presence SET seen_at = now() - interval '11 minutes' WHERE operation = %s", [one.operation])
    desk.wake_due()
    assert execute("SELECT count(*) FROM presence WHERE operation = %s", [one.operation]) == [(0,)]


def test_one_sweep_wakes_at_a_time(stage, one, database):
    _acted(desk.snooze(subject=one, by=_by(stage, "olive"), until=database_now() + HOUR))
    _put(one, snoozed_until=database_now() - timedelta(seconds=1))
    with psycopg.connect(database.app_url) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", [_WAKING])
        assert wake_snoozed() == 0
    assert desk_of(subject=one).woken_at is None
    assert wake_snoozed() >= 1
    assert desk_of(subject=one).woken_at is not None
