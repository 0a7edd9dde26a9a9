"""Acting in bulk as people meet it: previews, refusals, jobs, and who may. Without JavaScript: each POST is a redirect."""

import re
from datetime import timedelta

import pytest

from ledger.database import execute
from ledger.queries.bulk import job_of
from ledger.rules.bulk import OFFERED, Verb
from ledger.rules.desk import Subject
from ledger.transitions import desk
from ledger.transitions.person import Signer
from recovery.bulk import run
from recovery.web.scenes import opened

HOSTILE = "<script>alert(1)</script>\u202e" + "x" * 300


def _booking(stage, number):
    return opened(
        stage=stage,
        tool="rooms.book",
        operation_id=f"room:{number}",
        payload={},
        ago=timedelta(minutes=1),
        permit=False,
    )


def _preview(client, ids=(), **more):
    response = client.post("/bulk/preview/", {"ids": [id.hex for id in ids], **more})
    assert response.status_code == 303
    return response["Location"]


def _field(page, name):
    return re.search(rf'name="{name}" value="([^"]*)"', page)[1]


def _begin(client, address, verb, *, count, **fields):
    page = client.get(f"{address}?verb={verb}").content.decode()
    return client.post(f"{address}begin/", {"verb": verb, "digest": _field(page, "digest"), "count": count, **fields})


def _job(stage, address):
    return job_of(workspace_id=stage.workspace_id, id=address.split("/")[2])


def _finish(stage, address):
    while run(job_id=_job(stage, address).id):
        pass
    return _job(stage, address)


@pytest.fixture
def rooms(stage):
    return [_booking(stage, number) for number in range(3)]


def test_from_ticks_to_a_finished_job_without_javascript(stage, as_person, rooms):
    olive = as_person("olive")
    desk.claim(
        subject=Subject(workspace_id=stage.workspace_id, operation=rooms[0]),
        by=Signer(id=stage.people["otto"], username="otto"),
    )
    address = _preview(olive, rooms)
    first = olive.get(address).content.decode()
    assert "Act on 3 operations" in first
    assert "Choose above what to do" in first
    page = olive.get(f"{address}?verb=claim").content.decode()
    assert "2 eligible" in page
    assert "1 left out" in page
    assert "Otto Lindqvist holds it already." in page
    assert "Type 2 to confirm" in page
    wrong = _begin(olive, address, "claim", count="3")
    assert wrong.status_code == 422
    assert "Type 2, the number of operations this acts on." in wrong.content.decode()
    assert _job(stage, address).state == "waiting"
    began = _begin(olive, address, "claim", count="2", rate="50")
    assert (began.status_code, began["Location"]) == (303, address)
    running = olive.get(address).content.decode()
    assert "Claiming 2 operations" in running
    assert 'id="stop"' in running
    job = _finish(stage, address)
    assert (job.done, job.skipped, job.per_second) == (2, 1, 50)
    assert f'Began a job: <a href="{address}"' in olive.get("/").content.decode()
    done = olive.get(address).content.decode()
    assert "Claimed 2 operations" in done
    assert "Take it all back" in done
    assert "data-running" not in done
    undone = olive.post(f"{address}undo/")
    assert _finish(stage, undone["Location"]).done == 2
    assert "Took back 2 operations" in olive.get(undone["Location"]).content.decode()


def test_all_that_match_are_frozen_and_an_empty_filter_is_refused(stage, as_person, rooms, scenes):
    olive = as_person("olive")
    address = _preview(olive, all="1", q="tool:rooms.book state:open")
    assert _job(stage, address).total >= 3
    assert "tool:rooms.book state:open" in olive.get(address).content.decode()
    for q, says in (
        ("", "an empty one never means everything"),
        ("state:bad", "Correct state:bad first"),
        ("tool:nothing", "Nothing to act on"),
    ):
        refused = olive.post("/bulk/preview/", {"all": "1", "q": q}, follow=True)
        assert says in refused.content.decode()
    assert "Select at least one operation." in olive.post("/bulk/preview/", {"ids": "zz"}, follow=True).content.decode()


def test_a_set_that_moved_is_shown_anew(stage, as_person, rooms):
    olive = as_person("olive")
    address = _preview(olive, rooms)
    page = olive.get(f"{address}?verb=claim").content.decode()
    desk.claim(
        subject=Subject(workspace_id=stage.workspace_id, operation=rooms[0]),
        by=Signer(id=stage.people["otto"], username="otto"),
    )
    lost = olive.post(f"{address}begin/", {"verb": "claim", "digest": _field(page, "digest"), "count": "3"})
    assert lost.status_code == 409
    told = lost.content.decode()
    assert "some of these have changed since the preview" in told
    assert "Type 2 to confirm" in told
    assert _job(stage, address).state == "waiting"
    assert _begin(olive, address, "claim", count="2").status_code == 303


@pytest.mark.parametrize("digest", ["", "zz", "0" * 64, "é"])
def test_a_form_with_another_digest_begins_nothing(stage, as_person, rooms, digest):
    olive = as_person("olive")
    address = _preview(olive, rooms)
    sent = olive.post(f"{address}begin/", {"verb": "claim", "digest": digest, "count": "3"})
    assert sent.status_code == 409
    assert _job(stage, address).state == "waiting"


def test_a_form_that_is_sent_twice_is_one_job(stage, as_person, rooms):
    olive = as_person("olive")
    address = _preview(olive, rooms)
    page = olive.get(f"{address}?verb=claim").content.decode()
    form = {"verb": "claim", "digest": _field(page, "digest"), "count": "3"}
    for _ in range(2):
        assert olive.post(f"{address}begin/", form)["Location"] == address
    entries = execute("SELECT count(*) FROM desk_entry WHERE verb = 'bulk' AND workspace_id = %s", [stage.workspace_id])
    assert entries == [(1,)]


@pytest.mark.parametrize(
    ("verb", "fields", "says"),
    [
        ("assign", {"person": "0"}, "Choose an operator or an admin"),
        ("hand_over", {"person": ""}, "Write something first."),
        ("note", {}, "Write something first."),
        ("label", {"label": "<b>"}, "A label has letters"),
        ("snooze", {}, "Choose until when they sleep"),
        ("snooze", {"until": "2020-01-01T00:00"}, "Choose a time that is still to come."),
        ("applied", {}, "Give the reason that holds for all of them."),
        ("applied", {"reason": "seen", "evidence_url": "javascript:alert(1)"}, "Write a whole web address"),
    ],
)
def test_what_cannot_be_carried_out_says_why_and_keeps_what_was_typed(stage, as_person, scenes, verb, fields, says):
    olive = as_person("olive")
    address = _preview(olive, [scenes["reconciling"]])
    page = _begin(olive, address, verb, count="1", **fields)
    assert page.status_code == 422
    assert says in page.content.decode()
    for value in fields.values():
        assert value.replace("<", "&lt;").replace(">", "&gt;") in page.content.decode()
    assert _job(stage, address).state == "waiting"


def test_it_happened_is_recorded_with_the_shared_reason(stage, as_person, scenes):
    olive = as_person("olive")
    address = _preview(olive, [scenes["reconciling"], scenes["escalated"], scenes["applied"]])
    page = olive.get(f"{address}?verb=applied").content.decode()
    assert "It is settled. New evidence would reopen it." in page
    assert "This cannot be taken back." in page
    assert _begin(olive, address, "applied", count="2", reason="In the daily file.").status_code == 303
    assert _finish(stage, address).done == 2
    rows = execute("SELECT outcome FROM operation WHERE id = ANY(%s)", [[scenes["reconciling"], scenes["escalated"]]])
    assert rows == [("applied",), ("applied",)]
    assert "In the daily file." in olive.get(address).content.decode()
    assert "Take it all back" not in olive.get(address).content.decode()


def test_another_person_signs_what_two_decide(stage, as_person, scenes):
    olive, otto = as_person("olive"), as_person("otto")
    address = _preview(olive, [scenes["awaiting"]])
    page = olive.get(f"{address}?verb=not_applied").content.decode()
    assert "Two people" in page or "none of these is eligible" in page
    assert "0 eligible" in page, "its owner never answered"
    mine = _preview(otto, [scenes["awaiting"]])
    assert "You gave this answer already." in otto.get(f"{mine}?verb=not_applied").content.decode()


def test_each_verb_has_its_sheet(stage, as_person, scenes, rooms):
    olive = as_person("olive")
    address = _preview(olive, [*rooms, *scenes.values()])
    for verb in OFFERED:
        page = olive.get(f"{address}?verb={verb}")
        assert page.status_code == 200, verb
        assert "left out" in page.content.decode() or verb in (Verb.NOTE, Verb.LABEL), verb


@pytest.mark.parametrize(
    ("who", "status"),
    [("olive", 303), ("max", 303), ("ada", 303), ("vic", 403)],
    ids=["operator", "admin", "approver", "viewer"],
)
def test_who_may_preview(stage, as_person, rooms, who, status):
    client = as_person(who)
    response = client.post("/bulk/preview/", {"ids": [rooms[0].hex]})
    assert response.status_code == status
    if who == "ada":
        page = client.get(response["Location"]).content.decode()
        assert re.findall(r'href="\?verb=(\w+)"', page) == ["note"]
        sent = client.post(f"{response['Location']}begin/", {"verb": "claim", "digest": "0" * 64, "count": "1"})
        assert sent.status_code == 403


def test_only_who_previewed_confirms_and_goes_on_and_viewers_stop_nothing(stage, as_person, rooms):
    olive, otto, vic = as_person("olive"), as_person("otto"), as_person("vic")
    address = _preview(olive, rooms)
    page = olive.get(f"{address}?verb=claim").content.decode()
    form = {"verb": "claim", "digest": _field(page, "digest"), "count": "3"}
    assert "another person’s preview" in otto.get(f"{address}?verb=claim").content.decode()
    assert otto.post(f"{address}begin/", form).status_code == 403
    olive.post(f"{address}begin/", {**form, "first": "1"})
    job = _finish(stage, address)
    assert (job.state, job.done) == ("stopped", 1)
    assert "The first ones are done." in olive.get(address).content.decode()
    assert "Only Olive Okafor, who began it" in otto.post(f"{address}go-on/", follow=True).content.decode()
    assert olive.post(f"{address}go-on/").status_code == 303
    assert vic.post(f"{address}stop/").status_code == 403
    assert _job(stage, address).state == "running"
    assert otto.post(f"{address}stop/", {"next": "/queue/"})["Location"] == "/queue/"
    assert _job(stage, address).state == "stopped"


def test_polling_answers_304_until_something_moves(stage, as_person, rooms):
    olive = as_person("olive")
    assert olive.get("/bulk/live/").status_code == 200
    address = _preview(olive, rooms)
    _begin(olive, address, "claim", count="3")
    for at in ("/bulk/live/", f"{address}live/"):
        told = olive.get(at)
        assert told.status_code == 200
        assert "data-running" in told.content.decode()
        assert olive.get(at, headers={"If-None-Match": told["ETag"]}).status_code == 304
    _finish(stage, address)
    assert olive.get(f"{address}live/", headers={"If-None-Match": told["ETag"]}).status_code == 200
    assert "Claimed 3 operations" in olive.get("/bulk/").content.decode()


def test_nothing_of_a_job_is_seen_from_another_workspace(stage, other_stage, as_person, rooms):
    address = _preview(as_person("olive"), rooms)
    from django.contrib.auth import get_user_model
    from django.test import Client

    theirs = Client()
    theirs.force_login(get_user_model().objects.get(pk=other_stage.people["max"]))
    for path in ("", "live/", "begin/"):
        assert theirs.get(f"{address}{path}").status_code == 404
    for path in ("begin/", "stop/", "go-on/", "undo/", "again/", "sign/"):
        assert theirs.post(f"{address}{path}").status_code == 404
    refused = theirs.post("/bulk/preview/", {"ids": [rooms[0].hex]}, follow=True)
    assert "Nothing to act on" in refused.content.decode()


def test_hostile_text_is_only_text(stage, as_person, rooms):
    olive = as_person("olive")
    address = _preview(olive, rooms)
    _begin(olive, address, "note", count="3", text=HOSTILE + "\x00")
    assert _finish(stage, address).done == 3
    page = olive.post("/bulk/preview/", {"ids": [rooms[0].hex], "q": HOSTILE}, follow=True).content.decode()
    assert "<script>alert" not in page


@pytest.mark.parametrize("count", [1, 50])
def test_a_preview_asks_the_database_as_often_for_one_as_for_fifty(stage, as_person, django_assert_num_queries, count):
    olive = as_person("olive")
    address = _preview(olive, [_booking(stage, f"q{number}") for number in range(count)])
    with django_assert_num_queries(9):
        olive.get(f"{address}?verb=claim")
