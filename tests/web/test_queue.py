"""The queue: what it says, what it costs, and how it keeps itself fresh."""

import re
from datetime import timedelta

import psycopg
import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from ledger.database import execute
from ledger.queries.facts import held
from ledger.rules.resolutions import Answer
from ledger.rules.vocabulary import Action, Effect, FailureClass, Proof, Request
from ledger.transitions.schedule import beat
from recovery.web.scenes import answered, decided, opened, reported

QUERIES = 9
"""session, person, seats; kept views; begin, time limit, rows, all counts, commit."""
GROUPED = 10
"""One more: what the desk says of each cause."""
LIVE = 9
"""session, person, seats; begin, time limit, counts, watched rows, newer ones, commit."""


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
    with CaptureQueriesContext(connection) as queries:
        page = olive.get("/queue/")
    assert page.content.count(b"<tr id=") == count
    assert len(queries) == QUERIES
    assert not [query for query in queries if "original" in query["sql"] or "revision" in query["sql"].lower()]


def test_the_sentence_over_the_list(stage, scenes, as_person):
    beat(part="reconciler")
    page = as_person("olive").get("/queue/").content.decode()
    [(unresolved, tools)] = execute(
        "SELECT count(*), count(DISTINCT tool_id) FROM operation WHERE workspace_id = %s AND state <> 'settled'",
        [stage.workspace_id],
    )
    assert f"<strong>{unresolved} unresolved</strong> across {tools} tools, oldest" in page
    assert "; yours 0" in page
    assert "Reconciler ran" in page


def test_every_row_says_its_state_in_a_word_and_why_it_is_here(stage, scenes, as_person):
    page = as_person("vic").get("/queue/").content.decode()
    for word in ("Open", "Dispatched", "Waiting", "Reconciling", "Blocked", "Escalated"):
        assert f"</svg>{word}</span>" in page
    assert "The owner did not answer within the budget of 20 looks." in page
    assert "One person has answered. It counts once a second person signs." in page
    assert "Held back" in page


def test_a_pasted_id_opens_its_operation(stage, scenes, as_person):
    olive, here = as_person("olive"), f"/operations/{scenes['escalated']}/"
    for pasted in ("capture:order-2207", str(scenes["escalated"]), f" {scenes['escalated']} "):
        assert olive.get("/queue/", {"q": pasted})["Location"] == here
    assert olive.get("/queue/", {"q": "capture:order-2207"}, HTTP_HX_REQUEST="true")["HX-Redirect"] == here
    assert b"capture:order-2207" in olive.get("/queue/", {"q": "capture:order-22"}).content


def test_a_pasted_id_of_another_workspace_is_text_like_any_other(other_stage, stage, as_person):
    theirs = opened(
        stage=other_stage, tool="rooms.book", operation_id="room:theirs", payload={}, ago=timedelta(minutes=1)
    )
    beat(part="reconciler")
    for pasted in ("room:theirs", str(theirs)):
        page = as_person("olive").get("/queue/", {"q": pasted})
        assert page.status_code == 200
        assert b"<h2>No match</h2>" in page.content


def test_a_wrong_filter_names_the_token(scenes, as_person):
    page = as_person("olive").get("/queue/", {"q": "tool:rooms.* state:<b>bad</b>"}).content.decode()
    assert "state:&lt;b&gt;bad&lt;/b&gt;" in page
    assert "a state is one of open, dispatched" in page
    assert 'aria-invalid="true" aria-describedby="q-wrong"' in page
    assert '<span class="lead" aria-hidden="true">tool:rooms.* </span>' in page, "it stands under its word"
    assert page.count("<tr id=") == 1, "the rest of the filter works"


def test_a_word_that_is_no_qualifier_is_said_to_be_text(stage, as_person):
    beat(part="reconciler")
    page = as_person("olive").get("/queue/", {"q": "statee:open"}).content.decode()
    assert '<bdi class="mono">statee</bdi> is no qualifier' in page


def test_empty_says_nothing_unresolved_with_the_reconciler(stage, as_person):
    beat(part="reconciler")
    page = as_person("olive").get("/queue/").content.decode()
    assert "<h2>Nothing unresolved</h2>" in page
    assert "The reconciler ran" in page


def test_empty_says_no_match_with_one_link_that_clears(stage, as_person):
    beat(part="reconciler")
    page = as_person("olive").get("/queue/", {"q": "id:zzz"}).content.decode()
    assert "<h2>No match</h2>" in page
    assert '<a class="button" href="/queue/" data-clear>Clear the filter' in page


def test_empty_says_that_what_is_left_sleeps(stage, as_person):
    beat(part="reconciler")
    id = opened(stage=stage, tool="rooms.book", operation_id="room:1", payload={}, ago=timedelta(minutes=1))
    execute(
        "INSERT INTO desk (operation, workspace_id, snoozed_until, wakes_on, labels, changed_at) "
        "VALUES (%s, %s, now() + interval '1 hour', '', '[]', now())",
        [id, stage.workspace_id],
    )
    page = as_person("olive").get("/queue/").content.decode()
    assert "<h2>Nothing to do now</h2>" in page
    assert "; 1 snoozed" in page


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
        address = _link(page, "next")
    assert len(seen) == len(set(seen)) == 120


def _link(page, rel):
    return page.split(f'rel="{rel}" href="')[1].split('"')[0].replace("&amp;", "&") if f'rel="{rel}"' in page else ""


def _keys(page):
    return re.findall(r'<tr id="r-(\w{32})"', page)


def test_the_way_back_meets_the_same_rows_while_new_ones_arrive(stage, as_person):
    _some(stage, 120)
    olive = as_person("olive")
    first = olive.get("/queue/").content.decode()
    assert not _link(first, "prev")
    second = olive.get(_link(first, "next")).content.decode()
    third = olive.get(_link(second, "next")).content.decode()
    assert not _link(third, "next")
    for number in range(3):
        opened(stage=stage, tool="rooms.book", operation_id=f"room:new-{number}", payload={}, ago=timedelta(seconds=5))
    assert _keys(olive.get(_link(third, "prev")).content.decode()) == _keys(second)
    back = olive.get(_link(second, "prev")).content.decode()
    assert _keys(back) == _keys(first)
    top = olive.get(_link(back, "prev")).content.decode()
    assert len(_keys(top)) == 50, "a whole first page, not the three new rows alone"
    assert _keys(top)[3:] == _keys(first)[:47]
    assert not _link(top, "prev")


def test_a_damaged_cursor_gives_the_first_page_and_says_so(scenes, as_person):
    page = as_person("olive").get("/queue/", {"after": "!!"})
    assert page.status_code == 200
    assert b"cannot be found any more" in page.content


def test_htmx_gets_the_list_alone(scenes, as_person):
    part = as_person("olive").get("/queue/", HTTP_HX_REQUEST="true").content.strip()
    assert part.startswith(b'<div id="list"')
    assert b"<html" not in part


def _live(client, shown, etag=None, q="is:unresolved", **besides):
    headers = {"HTTP_X_LIVE": "1", **({"HTTP_IF_NONE_MATCH": etag} if etag else {})}
    return client.get("/queue/live/", {"q": q, "shown": ",".join(shown), **besides}, **headers)


def _shown(page):
    rows = re.findall(r'<tr id="r-(\w{32})" role="row" data-version="(\w+)"', page.content.decode())
    return [f"{key}.{mark}" for key, mark in rows]


@pytest.mark.parametrize("count", [1, 50])
def test_a_poll_costs_the_same_for_1_and_50_rows(stage, as_person, count):
    _some(stage, count)
    olive = as_person("olive")
    shown = _shown(olive.get("/queue/"))
    with CaptureQueriesContext(connection) as queries:
        assert _live(olive, shown).content.count(b"<tr id=") == 0
    assert len(queries) == LIVE


def test_a_claim_and_its_end_save_the_row_in_place(stage, scenes, as_person):
    olive = as_person("olive")
    shown = _shown(olive.get("/queue/"))
    execute(
        "INSERT INTO desk (operation, workspace_id, holder_id, held_until, wakes_on, labels, changed_at) "
        "VALUES (%s, %s, %s, now() + interval '1 hour', '', '[\"known\"]', now())",
        [scenes["escalated"], stage.workspace_id, stage.people["otto"]],
    )
    claimed = _live(olive, shown)
    assert claimed.content.count(b"<tr id=") == 1
    assert "Otto Lindqvist" in claimed.content.decode()
    assert '<span class="tag"><bdi>known</bdi></span>' in claimed.content.decode()
    execute("UPDATE desk SET held_until = now() - interval '1 s' WHERE operation = %s", [scenes["escalated"]])
    assert "Otto Lindqvist" not in _live(olive, _shown(claimed)).content.decode()


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


def test_groups_say_what_went_wrong_and_open_to_their_operations(stage, scenes, as_person):
    olive = as_person("olive")
    page = olive.get("/queue/", {"group": "cause"}).content.decode()
    assert "Nothing went wrong so far" in page
    assert "Unknown outcome" in page
    for href in re.findall(r'<a class="open" href="([^"]+)"', page):
        opens = olive.get(href.replace("&amp;", "&"))
        assert opens.status_code == 200
        assert opens.content.count(b"<tr id=") >= 1, href


def test_a_group_opens_to_its_own_operations_whatever_found_it(stage, scenes, as_person):
    olive = as_person("olive")
    page = olive.get("/queue/", {"q": "is:unresolved tool:tickets.*,payments.*", "group": "cause"}).content.decode()
    [row] = [piece for piece in page.split("<tr id=") if "payments.capture" in piece]
    count = int(re.search(r"<strong>(\d+)</strong>", row)[1])
    href = re.search(r'<a class="open" href="([^"]+)"', row)[1].replace("&amp;", "&")
    assert olive.get(href).content.count(b"<tr id=") == count


def test_a_group_counts_its_operations_and_shows_its_desk_and_newest_note(stage, scenes, as_person):
    tool_id = stage.tools["payments.capture"][0]
    [(cause, count)] = execute(
        "SELECT cause, count(*) FROM operation WHERE tool_id = %s AND state <> 'settled' GROUP BY cause", [tool_id]
    )
    execute(
        "INSERT INTO cause_desk (tool_id, cause, workspace_id, holder_id, held_until, wakes_on, changed_at) "
        "VALUES (%s, %s, %s, %s, now() + interval '1 hour', '', now())",
        [tool_id, cause, stage.workspace_id, stage.people["otto"]],
    )
    for number, text in enumerate(("first", "<b>second</b>")):
        execute(
            "INSERT INTO note (id, workspace_id, tool_id, cause, author_id, text, mentions, at) "
            "VALUES (gen_random_uuid(), %s, %s, %s, %s, %s, '[]', now() + make_interval(secs => %s))",
            [stage.workspace_id, tool_id, cause, stage.people["max"], text, number],
        )
    page = as_person("olive").get("/queue/", {"group": "cause"}).content.decode()
    [row] = [piece for piece in page.split("<tr id=") if "payments.capture" in piece]
    assert f"<strong>{count}</strong>" in row
    assert "Otto Lindqvist" in row
    assert "&lt;b&gt;second&lt;/b&gt;" in row
    assert "Max Brandt" in row
    assert "1 more" in row
    flat = as_person("olive").get("/queue/", {"q": "tool:payments.capture is:unresolved"}).content.decode()
    assert flat.count("With its group") == count, "a claim on the group shows on its rows"


@pytest.mark.parametrize("by", ["cause", "owner"])
@pytest.mark.parametrize("count", [1, 50])
def test_groups_cost_the_same_for_1_and_50_operations(stage, as_person, by, count):
    _some(stage, count)
    olive = as_person("olive")
    olive.get("/queue/", {"group": by})
    with CaptureQueriesContext(connection) as queries:
        page = olive.get("/queue/", {"group": by})
    assert page.content.count(b"<tr id=") == 1
    assert len(queries) == (GROUPED if by == "cause" else QUERIES)


def test_polling_groups_saves_what_changed_and_marks_what_is_gone(stage, as_person):
    olive = as_person("olive")
    id = opened(stage=stage, tool="rooms.book", operation_id="room:1", payload={}, ago=timedelta(minutes=2))
    shown = _shown(olive.get("/queue/", {"group": "cause"}))
    first = _live(olive, shown, group="cause")
    assert _live(olive, shown, first["ETag"], group="cause").status_code == 304
    opened(stage=stage, tool="rooms.book", operation_id="room:2", payload={}, ago=timedelta(minutes=1))
    changed = _live(olive, shown, first["ETag"], group="cause").content.decode()
    assert changed.count("<tr id=") == 1
    assert "<strong>2</strong>" in changed
    reported(
        id=id, after=timedelta(seconds=2),
        decision=decided(Action.RECONCILE, "TRANSPORT_TIMEOUT", "No answer came.", failure=FailureClass.UNKNOWN_OUTCOME),
    )  # fmt: skip
    assert "1 new" in _live(olive, shown, group="cause").content.decode()
    assert 'data-keys=""' in _live(olive, shown, group="cause").content.decode()
    gone = _live(olive, ["0" * 32 + ".abc"], group="cause").content.decode()
    assert f'data-keys="{"0" * 32}"' in gone


def test_the_summary_beside_the_list(stage, scenes, as_person):
    olive = as_person("olive")
    part = olive.get(f"/queue/peek/{scenes['conflict']}/").content.decode()
    assert part.strip().startswith('<aside id="peek"')
    assert "ticket:create:case-8455" in part
    assert "What was said last" in part
    assert "Nobody holds it" in part
    whole = olive.get("/queue/", {"peek": str(scenes["conflict"])}).content.decode()
    assert f'data-row="r-{scenes["conflict"].hex}"' in whole, "and without JavaScript, in the page"
    assert olive.get("/queue/", {"peek": "nonsense"}).status_code == 200


def test_the_summary_of_another_workspace_is_not_there(stage, other_stage, as_person):
    theirs = opened(stage=other_stage, tool="rooms.book", operation_id="room:x", payload={}, ago=timedelta(seconds=9))
    olive = as_person("olive")
    assert olive.get(f"/queue/peek/{theirs}/").status_code == 404
    their_tool = other_stage.tools["rooms.book"][0]
    assert olive.get("/queue/peek/group/", {"tool": str(their_tool), "cause": "fatal"}).status_code == 404
    assert olive.get("/queue/peek/group/", {"tool": "nonsense", "cause": "fatal"}).status_code == 404


def test_the_summary_of_a_group_is_its_desk(stage, scenes, as_person):
    tool_id = stage.tools["payments.capture"][0]
    told = {"tool": str(tool_id), "cause": "unknown_outcome/NO_REPORT/<b>odd</b>"}
    part = as_person("olive").get("/queue/peek/group/", told).content.decode()
    assert "Who works on this group" in part
    assert "&lt;b&gt;odd&lt;/b&gt;" in part


def test_a_filter_that_takes_too_long_says_so(stage, as_person, database, monkeypatch):
    monkeypatch.setattr("recovery.web.queue.PATIENCE_MS", 60)
    olive = as_person("olive")
    with psycopg.connect(database.superuser_url) as other:
        other.execute("LOCK TABLE schedule IN ACCESS EXCLUSIVE MODE")  # the list needs it, the counts do not
        page = olive.get("/queue/")
        poll = _live(olive, [f"{'0' * 32}.1"])
        other.rollback()
    assert page.status_code == 422
    assert b"<h2>This filter was too wide</h2>" in page.content
    assert b"Nothing unresolved</strong>" in page.content, "the counts still stand"
    assert poll.status_code == 503
    assert olive.get("/queue/").status_code == 200


def test_viewers_see_the_list_and_tick_nothing(scenes, as_person):
    page = as_person("vic").get("/queue/").content.decode()
    assert 'class="tick"' not in page
    assert 'id="bulk"' not in page
    assert 'class="tick"' in as_person("otto").get("/queue/").content.decode()
