"""The desk's endpoints: every verb with every role, lost races told, no JavaScript, htmx, walls, hostile text."""

import json
from datetime import timedelta
from html import unescape
from uuid import uuid4

import pytest

from ledger.database import execute
from ledger.queries.clock import database_now
from ledger.queries.desk import desk_of, notes_of
from ledger.rules.desk import MAY, Subject, Verb
from ledger.rules.vocabulary import Role
from ledger.transitions import desk
from ledger.transitions.person import Signer
from recovery.web.desk import address_of, snoozes
from recovery.web.queue_rows import cause_key
from recovery.web.scenes import PEOPLE, opened

ROLES = {username: role for username, _, role in PEOPLE}
HTMX = {"HTTP_HX_REQUEST": "true"}


@pytest.fixture
def id(stage):
    return opened(
        stage=stage, tool="rooms.book", operation_id="room:1", payload={}, ago=timedelta(minutes=1), permit=False
    )


def _subject(stage, id):
    return Subject(workspace_id=stage.workspace_id, operation=id)


def _group(stage, cause="unknown_outcome/NO_REPORT/it #1 said ../ no"):
    return Subject(workspace_id=stage.workspace_id, tool_id=stage.tools["rooms.book"][0], cause=cause)


def _by(stage, username):
    return Signer(id=stage.people[username], username=f"{username}{stage.suffix}")


def _form(stage, verb):
    return {
        "person": str(stage.people["otto"]),
        "text": "As said on the phone.",
        "label": "known",
        "until": (database_now() + timedelta(hours=3)).isoformat(),
        "wakes_on": "evidence",
    }


@pytest.mark.parametrize("username", ROLES)
@pytest.mark.parametrize("verb", [verb for verb in Verb if verb not in (Verb.UNDO, Verb.WOKE)])
def test_every_verb_with_every_role(stage, as_person, id, verb, username):
    person = as_person(username)
    may = ROLES[username] in MAY[verb]
    for subject in (_subject(stage, id), _group(stage)):
        if subject.is_group and verb in (Verb.LABEL, Verb.UNLABEL):
            continue
        answer = person.post(f"{address_of(subject)}{verb}/", _form(stage, verb), **HTMX)
        assert answer.status_code == (200 if may else 403), answer.content
        entries = execute(
            "SELECT count(*) FROM desk_entry WHERE workspace_id = %s AND verb = %s", [stage.workspace_id, verb.value]
        )[0][0]
        if not may:
            assert entries == 0
            assert b"Max Brandt" in answer.content


@pytest.mark.parametrize("username", ROLES)
def test_everybody_sees_the_desk_and_who_may_act_is_offered_it(stage, as_person, id, username):
    page = as_person(username).get(f"/operations/{id}/").content.decode()
    assert "Nobody holds it" in page
    assert ("desk/claim/" in page) is (ROLES[username] in MAY[Verb.CLAIM])
    assert ("An operator or an admin can claim it" in page) is (ROLES[username] not in MAY[Verb.CLAIM])
    assert ("desk/note/" in page) is (ROLES[username] in MAY[Verb.NOTE])


def test_claiming_with_htmx_gives_the_fresh_strip_and_the_way_back(stage, as_person, id):
    olive = as_person("olive")
    answer = olive.post(f"/operations/{id}/desk/claim/", **HTMX)
    assert answer.content.strip().startswith(f'<section class="card desk" id="desk-{id.hex}"'.encode())
    assert b"Held by you" in answer.content
    told = json.loads(answer["HX-Trigger"])["desk"]
    assert told["said"].startswith("You hold it")
    back = olive.post(told["undo"], **HTMX)
    assert b"Undone." in back.content
    assert desk_of(subject=_subject(stage, id)).holder_id is None
    assert json.loads(back["HX-Trigger"])["desk"]["undo"] == ""


def test_without_htmx_an_act_redirects_to_where_one_was(stage, as_person, id):
    olive = as_person("olive")
    answer = olive.post(f"/operations/{id}/desk/claim/", {"next": "/queue/?q=is:held"})
    assert (answer.status_code, answer["Location"]) == (303, "/queue/?q=is:held")
    answer = olive.post(f"/operations/{id}/desk/release/", {"next": "https://evil.example/"})
    assert answer["Location"] == f"/operations/{id}/"
    assert b"Released. Anybody can take it." in olive.get(f"/operations/{id}/").content
    assert olive.get(f"/operations/{id}/desk/claim/")["Location"] == f"/operations/{id}/", "coming back by address"


def test_who_loses_a_claim_is_told_who_won(stage, as_person, id):
    as_person("otto").post(f"/operations/{id}/desk/claim/")
    for headers in (HTMX, {}):
        answer = as_person("olive").post(f"/operations/{id}/desk/claim/", **headers)
        assert answer.status_code == 409
        assert b"Otto Lindqvist holds it already." in answer.content
        assert b"Take it over" in answer.content, "and what can be done about it"


def test_what_was_seen_counts_when_taking_over(stage, as_person, id):
    as_person("otto").post(f"/operations/{id}/desk/claim/")
    olive = as_person("olive")
    form = {"person": str(stage.people["olive"]), "seen": f"{stage.people['otto']}|"}
    desk.assign(subject=_subject(stage, id), by=_by(stage, "max"), person_id=stage.people["max"])
    answer = olive.post(f"/operations/{id}/desk/assign/", form, **HTMX)
    assert answer.status_code == 409
    assert b"Max Brandt holds it by now." in answer.content
    assert olive.post(f"/operations/{id}/desk/assign/", {**form, "seen": f"{stage.people['max']}|"}).status_code == 303


@pytest.mark.parametrize(
    ("verb", "form", "sentence", "kept"),
    [
        ("note", {"text": "  "}, "Write something first.", ""),
        ("note", {"text": "x" * 4001}, "Keep a note under 4,000 characters. It has 4,001.", "x" * 4001),
        ("label", {"label": "<b>bold"}, "A label has letters", "&lt;b&gt;bold"),
        ("assign", {"person": "", "text": ""}, "Write something first.", ""),
        ("assign", {"person": "999999999", "text": ""}, "Choose an operator or an admin", ""),
        ("snooze", {"until": "soon", "wakes_on": ""}, "Choose until when it sleeps", ""),
        ("snooze", {"until": "9999-12-31T23:59:59+00:00", "wakes_on": ""}, "within 30 days", ""),
        ("snooze", {"until": "0001-01-01T00:00", "wakes_on": ""}, "Choose", ""),
        ("snooze", {"until": "2020-01-01T00:00", "wakes_on": ""}, "still to come", ""),
        ("snooze", {"until": "2030-01-01T00:00", "wakes_on": "full moon"}, "Choose until when", ""),
    ],
)
def test_what_cannot_be_kept_says_why_and_loses_nothing(stage, as_person, id, verb, form, sentence, kept):
    for headers in (HTMX, {}):
        answer = as_person("olive").post(f"/operations/{id}/desk/{verb}/", form, **headers)
        assert answer.status_code == 422
        assert sentence in unescape(answer.content.decode())
        assert kept in answer.content.decode()
    assert execute("SELECT count(*) FROM desk_entry WHERE workspace_id = %s", [stage.workspace_id]) == [(0,)]


def test_a_group_has_no_labels(stage, as_person):
    answer = as_person("olive").post(f"{address_of(_group(stage))}label/", {"label": "known"}, **HTMX)
    assert (answer.status_code, b"A group has no labels" in answer.content) == (422, True)


def test_a_groups_desk_is_a_page_and_its_cause_may_be_any_text(stage, as_person):
    olive, group = as_person("olive"), _group(stage)
    assert cause_key(group.cause) not in ("-", "")
    assert olive.post(f"{address_of(group)}claim/").status_code == 303
    assert desk_of(subject=group).holder_id == stage.people["olive"]
    page = unescape(olive.get(address_of(group)).content.decode())
    assert "it #1 said ../ no" in page
    assert "Held by you" in page
    assert olive.get(address_of(_group(stage, cause=""))).status_code == 200


@pytest.mark.parametrize("key", ["!", "a", "AAAA", "_w"])
def test_damaged_addresses_of_groups_lead_nowhere(stage, as_person, key):
    assert as_person("olive").get(f"/groups/{stage.tools['rooms.book'][0]}/{key}/desk/").status_code == 404


def test_unknown_verbs_lead_nowhere(stage, as_person, id):
    for verb in ("woke", "undo", "settle", "x"):
        assert as_person("olive").post(f"/operations/{id}/desk/{verb}/").status_code == 404


def test_what_is_another_workspaces_looks_like_what_does_not_exist(stage, other_stage, as_person):
    theirs = opened(stage=other_stage, tool="rooms.book", operation_id="room:1", payload={}, ago=timedelta(minutes=1))
    entry = desk.claim(subject=_subject(other_stage, theirs), by=_by(other_stage, "olive")).entry_id
    olive = as_person("olive")
    for here, nowhere in (
        (f"/operations/{theirs}/desk/", f"/operations/{uuid4()}/desk/"),
        (address_of(_group(other_stage)), f"/groups/{uuid4()}/-/desk/"),
    ):
        answers = [olive.get(address) for address in (here, nowhere)]
        assert {answer.status_code for answer in answers} == {404}
        assert answers[0].content == answers[1].content
        for verb in ("claim", "release", "assign", "hand_over", "snooze", "wake", "note", "seen"):
            answers = [olive.post(f"{address}{verb}/", _form(stage, verb)) for address in (here, nowhere)]
            assert {answer.status_code for answer in answers} == {404}, verb
            assert answers[0].content == answers[1].content
    answers = [olive.post(f"/desk/undo/{one}/") for one in (entry, uuid4())]
    assert {answer.status_code for answer in answers} == {404}
    assert answers[0].content == answers[1].content
    assert execute("SELECT count(*) FROM desk_entry WHERE workspace_id = %s", [other_stage.workspace_id]) == [(1,)]


def test_undo_too_late_is_told(stage, as_person, id):
    entry = desk.claim(subject=_subject(stage, id), by=_by(stage, "olive")).entry_id
    desk.assign(subject=_subject(stage, id), by=_by(stage, "otto"), person_id=stage.people["otto"])
    answer = as_person("olive").post(f"/desk/undo/{entry}/")
    assert answer.status_code == 409
    assert b"Otto Lindqvist has changed it since" in answer.content
    assert as_person("vic").post(f"/desk/undo/{entry}/").status_code == 403
    assert as_person("olive").get(f"/desk/undo/{entry}/")["Location"] == "/"


def test_the_operation_page_moves_with_its_desk_and_shows_who_looks(stage, as_person, id):
    olive, otto = as_person("olive"), as_person("otto")
    olive.get(f"/operations/{id}/")
    first = olive.get(f"/operations/{id}/live/", HTTP_X_LIVE="1")
    assert olive.get(f"/operations/{id}/live/", HTTP_X_LIVE="1", HTTP_IF_NONE_MATCH=first["ETag"]).status_code == 304
    otto.get(f"/operations/{id}/")
    then = olive.get(f"/operations/{id}/live/", HTTP_X_LIVE="1", HTTP_IF_NONE_MATCH=first["ETag"])
    assert then.status_code == 200
    assert b"Otto Lindqvist</bdi> is looking" in then.content
    otto.post(f"/operations/{id}/desk/note/", {"text": "Mine."})
    again = olive.get(f"/operations/{id}/live/", HTTP_X_LIVE="1", HTTP_IF_NONE_MATCH=then["ETag"])
    assert again.status_code == 200


HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "W" * 4000,
    "🧨" * 400,
    "a\x00b",
    "{{ seat }}",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_notes_are_inert(stage, as_person, id, text):
    olive = as_person("olive")
    assert olive.post(f"/operations/{id}/desk/note/", {"text": text}).status_code == 303
    [note] = notes_of(subject=_subject(stage, id))
    assert note.text == text.replace("\x00", "")
    page = olive.get(f"/operations/{id}/").content.decode()
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert text.replace("\x00", "") in unescape(page)


def test_snoozes_are_offered_in_the_persons_zone(stage):
    from datetime import UTC, datetime
    from zoneinfo import ZoneInfo

    from django.utils import timezone

    friday = datetime(2026, 12, 4, 22, 30, tzinfo=UTC)
    with timezone.override(ZoneInfo("Asia/Tokyo")):
        offered = dict(snoozes(now=friday))
    assert offered["Tomorrow 9:00"].isoformat() == "2026-12-06T09:00:00+09:00", "there it is Saturday already"
    assert offered["Monday 9:00"].isoformat() == "2026-12-07T09:00:00+09:00"
    assert offered["1 hour"] - friday == timedelta(hours=1)


def test_a_local_time_is_read_in_the_persons_zone(stage, as_person, id):
    olive = as_person("olive")
    olive.post("/preferences/", {"zone": "Asia/Tokyo"})
    local = (database_now() + timedelta(hours=30)).replace(tzinfo=None, microsecond=0)
    olive.post(f"/operations/{id}/desk/snooze/", {"until": local.isoformat(), "wakes_on": ""})
    until = desk_of(subject=_subject(stage, id)).snoozed_until
    assert until.replace(tzinfo=None) == local - timedelta(hours=9)


def test_roles_of_the_stage_cover_what_is_tested():
    assert set(ROLES.values()) == {Role.OPERATOR, Role.APPROVER, Role.ADMIN, Role.VIEWER}
