"""The queue: what it says, what it costs, and how it keeps itself fresh."""

import re
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from ledger.database import execute
from ledger.queries.facts import held
from ledger.rules.resolutions import Answer
from ledger.rules.vocabulary import Action, Effect, FailureClass, Proof, Request
from ledger.transitions.schedule import beat
from recovery.web.scenes import answered, decided, opened, reported

QUERIES = 8
"""session, person, seats; rows, counts, heartbeats, tools, oldest."""


def _some(stage, count):
    for number in range(count):
        opened(
            stage=stage, tool="rooms.book", operation_id=f"room:{number:03d}", payload={"room": str(number)},
            ago=timedelta(minutes=number + 1),
        )  # fmt: skip


@pytest.mark.parametrize("count", [1, 50])
def test_a_page_costs_the_same_for_1_and_50_rows_and_reads_no_payload(stage, as_person, count):
    _some(stage, count)
    beat(part="reconciler")
    olive = as_person("olive")
    olive.get("/queue/")
    with CaptureQueriesContext(
        connection,
    ) as queries:
        page = olive.get("/queue/")
    assert page.content.count(b"<tr id=") == count
    assert len(queries) == QUERIES
    assert not [query for query in queries if "original" in query["sql"] or "revision" in query["sql"].lower()]


def test_the_sentence_over_the_list(stage, scenes, as_person):
    page = as_person("olive").get("/queue/").content.decode()
    assert "<strong>11 unresolved</strong> across 2 tools" in page
    assert "Reconciler ran" in page


def test_every_row_says_its_state_in_a_word_and_why_it_is_here(stage, scenes, as_person):
    page = as_person("vic").get("/queue/").content.decode()
    for word in ("Open", "Dispatched", "Waiting", "Reconciling", "Blocked", "Escalated"):
        assert f"</svg>{word}</span>" in page
    assert "The owner did not answer within the budget of 20 looks." in page
    assert "One person has answered. It counts once a second person signs." in page
    assert "Held back" in page


@pytest.mark.parametrize(
    ("q", "rows"),
    [
        ("is:settled", 3),
        ("state:escalated", 3),
        ("state:blocked", 1),
        ("is:unresolved tool:payments.*", 2),
        ("id:room:", 1),
        ("capture:order-22", 1),
        ("", 14),
    ],
)
def test_filters(scenes, as_person, q, rows):
    assert as_person("olive").get("/queue/", {"q": q}).content.count(b"<tr id=") == rows


def test_a_wrong_filter_names_the_token(scenes, as_person):
    page = as_person("olive").get("/queue/", {"q": "state:<b>bad</b>"}).content.decode()
    assert "state:&lt;b&gt;bad&lt;/b&gt;" in page
    assert "a state is one of open, dispatched" in page
    assert 'aria-invalid="true"' in page


def test_empty_says_nothing_unresolved_with_the_reconciler(stage, as_person):
    beat(part="reconciler")
    page = as_person("olive").get("/queue/").content.decode()
    assert "<h2>Nothing unresolved</h2>" in page
    assert "The reconciler ran" in page


def test_empty_says_no_match_with_one_link_that_clears(stage, as_person):
    beat(part="reconciler")
    page = as_person("olive").get("/queue/", {"q": "id:zzz"}).content.decode()
    assert "<h2>No match</h2>" in page
    assert '<a class="button" href="/queue/">Clear the filter</a>' in page


@pytest.mark.parametrize("age", [None, 61])
def test_empty_says_not_fed_when_the_reconciler_is_stale_or_was_never_there(stage, as_person, age):
    olive = as_person("olive")
    with transaction.atomic():
        # Real workers of other tests may beat on this database; they wait until this is rolled back.
        execute("LOCK TABLE heartbeat IN EXCLUSIVE MODE")
        execute("DELETE FROM heartbeat")
        if age:
            execute("INSERT INTO heartbeat (part, at) VALUES ('reconciler', now() - make_interval(secs => %s))", [age])
        page = olive.get("/queue/").content.decode()
        transaction.set_rollback(True)
    assert "<h2>Not fed</h2>" in page
    assert "tone-red" in page


def test_pages_follow_each_other_without_gap_or_repeat(stage, as_person):
    _some(stage, 120)
    olive, address, seen = as_person("olive"), "/queue/", []
    while address:
        page = olive.get(address).content.decode()
        seen += [piece.split('"')[0] for piece in page.split('<tr id="r-')[1:]]
        address = page.split('rel="next" href="')[1].split('"')[0].replace("&amp;", "&") if 'rel="next"' in page else ""
    assert len(seen) == len(set(seen)) == 120


def test_a_damaged_cursor_gives_the_first_page_and_says_so(scenes, as_person):
    page = as_person("olive").get("/queue/", {"after": "!!"})
    assert page.status_code == 200
    assert b"cannot be found any more" in page.content


def test_htmx_gets_the_list_alone(scenes, as_person):
    part = as_person("olive").get("/queue/", HTTP_HX_REQUEST="true").content.strip()
    assert part.startswith(b'<div id="list"')
    assert b"<html" not in part


def _live(client, shown, etag=None, q="is:unresolved"):
    headers = {"HTTP_X_LIVE": "1", **({"HTTP_IF_NONE_MATCH": etag} if etag else {})}
    return client.get("/queue/live/", {"q": q, "shown": ",".join(shown)}, **headers)


def _shown(page):
    rows = re.findall(r'<tr id="r-(\w{32})" role="row" data-version="(\d+)"', page.content.decode())
    return [f"{key}.{version}" for key, version in rows]


def test_polling_answers_304_until_something_changes(stage, scenes, as_person):
    olive = as_person("olive")
    shown = _shown(olive.get("/queue/"))
    first = _live(olive, shown)
    assert first.content.count(b"<tr id=") == 0
    assert _live(olive, shown, first["ETag"]).status_code == 304
    answered(stage=stage, id=scenes["escalated"], username="max", answer=Answer.APPLIED, reason="I saw it")
    then = _live(olive, shown, first["ETag"])
    assert then.status_code == 200
    assert then.content.count(b"<tr id=") == 1
    assert b'class="has-left"' in then.content
    assert b"left this view" in then.content


def test_new_rows_wait_behind_their_number(stage, scenes, as_person):
    olive = as_person("olive")
    shown = _shown(olive.get("/queue/"))
    opened(stage=stage, tool="rooms.book", operation_id="room:new", payload={}, ago=timedelta(seconds=1))
    part = _live(olive, shown).content.decode()
    assert "1 new" in part
    assert "room:new" not in part


def test_rows_that_only_moved_up_from_the_next_page_are_not_new(stage, as_person):
    _some(stage, 60)
    olive = as_person("olive")
    shown = _shown(olive.get("/queue/"))
    assert len(shown) == 50
    [(id,)] = execute(
        "SELECT id FROM operation WHERE workspace_id = %s AND operation_id = 'room:010'", [stage.workspace_id]
    )
    gone = held(id=id)
    assert gone is not None
    reported(
        id=gone.id, after=timedelta(seconds=2), effect=Effect.NONE, proof=Proof.NOT_SENT,
        decision=decided(Action.STOP, "CONNECT_FAILED", "Nothing left.", failure=FailureClass.TRANSIENT,
                         effect=Effect.NONE, request=Request.NOT_SENT),
    )  # fmt: skip
    assert b'id="newer" hidden' in _live(olive, shown).content


def test_polling_shows_nothing_of_another_workspace(stage, other_stage, as_person):
    theirs = opened(
        stage=other_stage, tool="rooms.book", operation_id="room:theirs", payload={}, ago=timedelta(seconds=1)
    )
    assert b"room:theirs" not in _live(as_person("olive"), [f"{theirs.hex}.0"]).content


@pytest.mark.parametrize("shown", ["x", "0" * 32, "zz" * 16 + ".1", ",,,", "a" * 5000])
def test_damaged_lists_of_rows_are_read_as_none(scenes, as_person, shown):
    assert as_person("olive").get("/queue/live/", {"shown": shown}).status_code == 200
