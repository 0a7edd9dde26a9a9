"""My work: what waits for one person, in the order to do it, with a fixed number of queries."""

import re
from datetime import timedelta
from html import unescape

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from ledger.database import execute
from ledger.queries.clock import database_now
from ledger.queries.desk import desk_of, notes_of
from ledger.rules.desk import Subject, WakesOn
from ledger.rules.resolutions import Answer
from ledger.transitions import desk
from ledger.transitions.person import Signer
from recovery.web.desk import address_of
from recovery.web.scenes import answered, lapsed, limit_reached, opened, play

QUERIES = 13
"""session, person, seats; breaching, held, groups, woken, mentions, signatures, actions; the operations, the clock, people."""
ORDER = ("work-breaching", "work-held", "work-woken", "work-mentions", "work-signatures", "work-done")


def _subject(stage, id):
    return Subject(workspace_id=stage.workspace_id, operation=id)


def _by(stage, username):
    return Signer(id=stage.people[username], username=f"{username}{stage.suffix}")


def _page(client, **more):
    return re.sub(r"</?bdi[^>]*>", "", unescape(client.get("/", **more).content.decode()))


def _section(page, id):
    found = re.search(rf'<section class="card[^"]*" id="{id}".*?</section>', page, re.S)
    return found.group(0) if found else ""


def _booking(stage, number, permit=False):
    return opened(
        stage=stage, tool="rooms.book", operation_id=f"room:{number:03d}", payload={}, ago=timedelta(minutes=1),
        permit=permit,
    )  # fmt: skip


def _late(stage, number, sla):
    """Waits for a person, who should answer within `sla` (the contract gives four hours)."""
    payload = {"title": f"Case {number}", "customer": "c-1"}
    id = opened(
        stage=stage, tool="tickets.create", operation_id=f"ticket:{number:03d}", payload=payload, ago=timedelta(hours=8)
    )
    lapsed(id=id)
    limit_reached(id=id, ago=timedelta(hours=4) - sla, message="Nobody can tell.", next_look=timedelta(minutes=5))
    return id


def _to_sign(stage, number):
    """An answer of otto's that a second person has to sign."""
    id = opened(
        stage=stage, tool="payments.capture", operation_id=f"capture:{number:03d}", payload={"order": str(number)},
        ago=timedelta(hours=1),
    )  # fmt: skip
    lapsed(id=id)
    answered(stage=stage, id=id, username="otto", answer=Answer.NOT_APPLIED, reason="Not in their list.")
    return id


def _everything(stage, count=1):
    """Something in every section, for olive."""
    olive, otto = _by(stage, "olive"), _by(stage, "otto")
    for number in range(count):
        _late(stage, number, timedelta(minutes=30))
        desk.claim(subject=_subject(stage, _booking(stage, 100 + number)), by=olive)
        slept = _subject(stage, _booking(stage, 200 + number))
        desk.snooze(subject=slept, by=olive, until=database_now() + timedelta(hours=1), wakes_on=WakesOn.TIME)
        execute("UPDATE desk SET snoozed_until = now() - interval '1 second' WHERE operation = %s", [slept.operation])
        named = _subject(stage, _booking(stage, 300 + number))
        desk.note(subject=named, by=otto, text=f"@{olive.username} see the vendor's answer")
        _to_sign(stage, 400 + number)
    desk.wake_due()
    desk.claim(
        subject=Subject(workspace_id=stage.workspace_id, tool_id=stage.tools["rooms.book"][0], cause="x/Y"), by=olive
    )


@pytest.mark.parametrize("count", [1, 20])
def test_the_page_costs_the_same_for_1_and_20_of_everything(stage, as_person, count):
    _everything(stage, count)
    olive = as_person("olive")
    olive.get("/")
    with CaptureQueriesContext(connection) as queries:
        page = _page(olive)
    assert len(queries) == QUERIES, [query["sql"][:80] for query in queries]
    assert not [query for query in queries if "original" in query["sql"] or "revision" in query["sql"].lower()]
    for id in ORDER:
        assert _section(page, id), id


def test_sections_stand_in_the_order_to_do_them(stage, as_person):
    _everything(stage)
    page = _page(as_person("olive"))
    places = [page.index(f'id="{id}"') for id in ORDER]
    assert places == sorted(places)
    assert "1 to answer within the hour or late, 2 held by you, 1 woke up, 1 mention, 1 signature asked for." in page
    assert "ticket:000" in _section(page, "work-breaching")
    assert "nobody holds it" in _section(page, "work-breaching")
    assert "room:100" in _section(page, "work-held")
    assert "Its time has come." in _section(page, "work-woken")
    assert "see the vendor's answer" in _section(page, "work-mentions")
    assert "Otto Lindqvist said: it did not happen" in _section(page, "work-signatures")


def test_an_empty_page_says_what_to_do_next(stage, as_person):
    page = _page(as_person("olive"))
    assert "Nothing waits for you" in page
    assert "Claim something there and it is here." in page
    assert "Nothing yet. What you claim" in page
    assert "Whoever names you with @" in _page(as_person("vic"))


@pytest.mark.parametrize(
    ("sla", "holder", "asleep", "there", "reason"),
    [
        (timedelta(minutes=59), None, False, True, "due within the hour"),
        (timedelta(hours=-2), None, False, True, "late already"),
        (timedelta(minutes=61), None, False, False, "not yet"),
        (timedelta(minutes=5), "olive", False, True, "mine"),
        (timedelta(minutes=5), "otto", False, False, "somebody else's"),
        (timedelta(minutes=5), None, True, False, "asleep on purpose"),
    ],
)
def test_what_is_to_be_answered_first(stage, as_person, sla, holder, asleep, there, reason):
    id = _late(stage, 1, sla)
    if holder:
        desk.claim(subject=_subject(stage, id), by=_by(stage, holder))
    if asleep:
        desk.snooze(subject=_subject(stage, id), by=_by(stage, "otto"), until=database_now() + timedelta(hours=1))
    assert bool(_section(_page(as_person("olive")), "work-breaching")) is there, reason


def test_lapsed_and_settled_things_are_not_held(stage, as_person, scenes):
    for name in ("conflict", "escalated"):
        desk.claim(subject=_subject(stage, scenes[name]), by=_by(stage, "olive"))
    assert _page(as_person("olive")).count("/desk/release/") == 2
    answered(stage=stage, id=scenes["conflict"], username="max", answer=Answer.APPLIED, reason="I saw it")
    execute("UPDATE desk SET held_until = now() - interval '1 second' WHERE operation = %s", [scenes["escalated"]])
    assert not _section(_page(as_person("olive")), "work-held")


def test_a_mention_leaves_once_it_was_seen_or_acted_on(stage, as_person):
    olive = as_person("olive")
    for number, act in enumerate(("seen", "note")):
        subject = _subject(stage, _booking(stage, number))
        desk.note(subject=subject, by=_by(stage, "otto"), text=f"@olive{stage.suffix} look")
        assert _section(_page(olive), "work-mentions")
        assert not _section(_page(as_person("max")), "work-mentions"), "it named somebody else"
        olive.post(f"{address_of(subject)}{act}/", {"text": "I did.", "next": "/"})
        assert not _section(_page(olive), "work-mentions")


def test_what_woke_leaves_once_it_was_seen(stage, as_person):
    group = Subject(workspace_id=stage.workspace_id, tool_id=stage.tools["rooms.book"][0], cause="unknown_outcome/X")
    one = _subject(stage, _booking(stage, 1))
    for subject in (group, one):
        desk.snooze(subject=subject, by=_by(stage, "olive"), until=database_now() + timedelta(hours=1))
    execute("UPDATE desk SET snoozed_until = now() WHERE operation = %s", [one.operation])
    execute("UPDATE cause_desk SET snoozed_until = now() WHERE tool_id = %s", [group.tool_id])
    desk.wake_due()
    olive = as_person("olive")
    section = _section(_page(olive), "work-woken")
    assert "room:001" in section
    assert "Group" in section
    assert not _section(_page(as_person("otto")), "work-woken"), "nobody else had put them to sleep"
    for subject in (group, one):
        olive.post(f"{address_of(subject)}seen/", {"next": "/"})
    assert not _section(_page(olive), "work-woken")


@pytest.mark.parametrize(
    ("username", "there", "reason"),
    [
        ("olive", True, "an operator signs what another said"),
        ("max", True, "so does an admin"),
        ("otto", False, "nobody signs their own"),
        ("ada", False, "an approver signs no outcomes"),
        ("vic", False, "a viewer signs nothing"),
    ],
)
def test_signatures_that_wait(stage, scenes, as_person, username, there, reason):
    assert bool(_section(_page(as_person(username)), "work-signatures")) is there, reason


def test_what_i_did_last_and_its_undo(stage, scenes, as_person):
    olive = as_person("olive")
    subject = _subject(stage, scenes["escalated"])
    answered(stage=stage, id=scenes["conflict"], username="olive", answer=Answer.APPLIED, reason="I saw it")
    desk.claim(subject=subject, by=_by(stage, "olive"))
    desk.label(subject=subject, by=_by(stage, "olive"), text="known")
    desk.assign(subject=subject, by=_by(stage, "olive"), person_id=stage.people["otto"])
    section = _section(_page(olive), "work-done")
    for words in ("Gave to Otto Lindqvist", "Labelled known", "Claimed", "Answered “It happened” on"):
        assert words in section
    assert section.count(">Undo") == 3
    assert section.count('data-key="z"') == 1, "the key takes the last one back"
    undo = re.search(r'action="(/desk/undo/[^"]+)"', section).group(1)
    assert olive.post(undo, {"next": "/"})["Location"] == "/"
    assert desk_of(subject=subject).holder_id == stage.people["olive"]
    section = _section(_page(olive), "work-done")
    assert "Took something back" in section
    assert ">undone<" in section
    assert "Claimed" not in _section(_page(as_person("otto")), "work-done")


def test_handing_a_shift_over(stage, as_person):
    held = [_subject(stage, _booking(stage, number)) for number in range(3)]
    for subject in held:
        desk.claim(subject=subject, by=_by(stage, "olive"))
    olive = as_person("olive")
    refused = olive.post("/my-work/hand-over/", {"person": str(stage.people["otto"]), "text": " "})
    assert refused.status_code == 422
    assert b"Write something first." in refused.content
    assert olive.post("/my-work/hand-over/", {"person": "", "text": "x"}).status_code == 422
    assert olive.post("/my-work/hand-over/", {"person": "9" * 9, "text": "kept text"}).status_code == 422
    form = {"person": str(stage.people["otto"]), "text": "Vendor calls at nine."}
    assert olive.post("/my-work/hand-over/", form)["Location"] == "/"
    assert "Handed over: 3 pieces of work." in _page(olive)
    assert {desk_of(subject=subject).holder_id for subject in held} == {stage.people["otto"]}
    assert {notes_of(subject=subject)[0].text for subject in held} == {"Vendor calls at nine."}
    otto = as_person("otto")
    assert _section(_page(otto), "work-held").count("room:00") >= 3
    assert otto.post("/my-work/hand-over/", {"person": "queue", "text": "Back."}).status_code == 303
    assert {desk_of(subject=subject).holder_id for subject in held} == {None}
    assert otto.get("/my-work/hand-over/")["Location"] == "/"
    assert as_person("vic").post("/my-work/hand-over/", form).status_code == 403
    assert as_person("ada").post("/my-work/hand-over/", form).status_code == 403


def test_polling_is_304_until_something_changes(stage, as_person, scenes):
    olive = as_person("olive")
    page = olive.get("/").content.decode()
    etag = re.search(r"data-etag='(\"[^']+\")'", page).group(1)
    assert olive.get("/my-work/live/", HTTP_IF_NONE_MATCH=etag, HTTP_X_LIVE="1").status_code == 304
    desk.assign(subject=_subject(stage, scenes["escalated"]), by=_by(stage, "otto"), person_id=stage.people["olive"])
    fresh = olive.get("/my-work/live/", HTTP_IF_NONE_MATCH=etag, HTTP_X_LIVE="1")
    assert fresh.status_code == 200
    assert b'id="work-held"' in fresh.content
    assert b"<html" not in fresh.content


def test_nothing_of_another_workspace_is_mine(stage, other_stage, as_person):
    from ledger.rules.vocabulary import Role
    from ledger.transitions.workspace import ensure_role

    ensure_role(workspace_id=other_stage.workspace_id, person_id=stage.people["olive"], role=Role.OPERATOR)
    theirs = _subject(other_stage, _booking(other_stage, 1))
    desk.claim(subject=theirs, by=_by(stage, "olive"))
    desk.note(subject=theirs, by=_by(other_stage, "otto"), text=f"@olive{stage.suffix} look")
    play(stage=other_stage)
    page = _page(as_person("olive"))
    assert "Nothing waits for you" in page
    assert "room:001" not in page
    assert "Claimed" not in page
