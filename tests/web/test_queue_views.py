"""Views that people keep, and how the filter's words go on. Everything here is a plain form or a plain address."""

from datetime import timedelta

import pytest

from ledger.database import execute
from recovery.web.scenes import opened


def _keep(client, name, *, q="is:unresolved tool:tickets.*", group="", whose="me"):
    return client.post("/queue/views/", {"name": name, "q": q, "group": group, "for": whose}, follow=True)


def test_a_view_is_kept_opened_by_its_address_and_deleted(stage, scenes, as_person):
    olive = as_person("olive")
    kept = _keep(olive, "  My   tickets ", group="cause")
    assert kept.redirect_chain[0][1] == 303
    page = kept.content.decode()
    assert "Kept as My tickets." in page
    assert 'value="is:unresolved tool:tickets.*"' in page
    assert 'aria-label="Groups of operations"' in page
    address = kept.redirect_chain[0][0]
    assert f'<a href="{address}" aria-current="page">' in page
    id = address.removeprefix("/queue/?view=")
    gone = olive.post(f"/queue/views/{id}/drop/", follow=True)
    assert "The view My tickets is deleted." in gone.content.decode()
    assert olive.post(f"/queue/views/{id}/drop/").status_code == 404


def test_a_persons_view_is_theirs_and_a_teams_view_is_everybodys(stage, scenes, as_person):
    _keep(as_person("olive"), "Olive's own")
    _keep(as_person("olive"), "The team's", whose="team")
    page = as_person("vic").get("/queue/").content.decode()
    assert "The team&#x27;s" in page
    assert "Olive&#x27;s own" not in page


@pytest.mark.parametrize(
    ("name", "q", "whose", "who", "says"),
    [
        ("", "is:unresolved", "me", "olive", "Give the view a name of at most 60 characters."),
        ("x" * 61, "is:unresolved", "me", "olive", "Give the view a name of at most 60 characters."),
        ("long", "x" * 401, "me", "olive", "This filter is too long to keep"),
        ("wrong", "state:bad", "me", "olive", "Correct state:bad first"),
        ("team", "is:unresolved", "team", "vic", "Views for everybody are kept by operators and admins."),
        ("team", "is:unresolved", "team", "ada", "Views for everybody are kept by operators and admins."),
    ],
)
def test_a_view_that_cannot_be_kept_says_why(stage, as_person, name, q, whose, who, says):
    page = _keep(as_person(who), name, q=q, whose=whose)
    assert says in page.content.decode()
    assert execute("SELECT count(*) FROM saved_view WHERE workspace_id = %s", [stage.workspace_id]) == [(0,)]


def test_two_views_of_one_person_have_two_names(stage, as_person):
    _keep(as_person("olive"), "Same")
    assert "There is a view called Same already." in _keep(as_person("olive"), "Same").content.decode()
    assert "Kept as Same." in _keep(as_person("otto"), "Same").content.decode(), "another person may"
    assert "Kept as Same for everybody." in _keep(as_person("olive"), "Same", whose="team").content.decode()


def test_a_teams_view_is_deleted_by_who_may_keep_one(stage, other_stage, as_person):
    _keep(as_person("olive"), "Team", whose="team")
    [(id,)] = execute("SELECT id FROM saved_view WHERE workspace_id = %s", [stage.workspace_id])
    assert as_person("vic").post(f"/queue/views/{id}/drop/").status_code == 404
    assert as_person("otto").post(f"/queue/views/{id}/drop/").status_code == 303
    execute(
        "INSERT INTO saved_view (id, workspace_id, person_id, name, query, grouping, created_at) "
        "VALUES (gen_random_uuid(), %s, NULL, 'Theirs', 'is:unresolved', '', now())",
        [other_stage.workspace_id],
    )
    [(id,)] = execute("SELECT id FROM saved_view WHERE workspace_id = %s", [other_stage.workspace_id])
    assert as_person("olive").post(f"/queue/views/{id}/drop/").status_code == 404
    assert "Theirs" not in as_person("olive").get("/queue/").content.decode()


@pytest.mark.parametrize(
    ("text", "at", "first", "start", "reason"),
    [
        ("", None, "is:", 0, "every qualifier is offered first"),
        ("st", None, "state:", 0, "qualifiers that begin so"),
        ("is:unresolved -st", None, "-state:", 14, "the minus stays"),
        ("state:esc", None, "state:escalated", 0, "words of the vocabulary"),
        ("state:open,esc", None, "state:open,escalated", 0, "what is listed before the comma stays"),
        ("tool:TICK", None, "tool:tickets.create", 0, "names of the workspace, whatever the capitals"),
        ("owner:", None, "owner:calendar", 0, "all of them while there are few"),
        ("contract:rooms", None, "contract:rooms.book@1", 0, "versions of contracts"),
        ("held:", None, "held:me", 0, "who asks comes first"),
        ("agent:s", None, "agent:support-7", 0, "agents of what is open now"),
        ("priority:", None, "priority:low", 0, "priorities"),
        ("age:", None, "age:>1h", 0, "lengths of time"),
        ("tool:t is:settled", 6, "tool:tickets.create", 0, "the word under the caret, not the last one"),
    ],
)
def test_the_word_under_the_caret_is_completed(stage, scenes, as_person, text, at, first, start, reason):
    asked = {"q": text, **({"at": at} if at is not None else {})}
    told = as_person("olive").get("/queue/complete/", asked).json()
    assert told["options"][0]["text"] == first, reason
    assert told["from"] == start, reason
    assert len(told["options"]) <= 17, reason


@pytest.mark.parametrize("text", ["state:escalated", "nothing:", "zzz", "label:", "run:none"])
def test_nothing_is_offered_where_nothing_goes_on(stage, scenes, as_person, text):
    assert as_person("olive").get("/queue/complete/", {"q": text}).json()["options"] == []


def test_causes_and_labels_with_odd_characters_are_offered_in_quotes(stage, as_person):
    id = opened(stage=stage, tool="rooms.book", operation_id="room:1", payload={}, ago=timedelta(minutes=1))
    execute(
        "INSERT INTO desk (operation, workspace_id, wakes_on, labels, changed_at) VALUES (%s, %s, '', %s::jsonb, now())",
        [id, stage.workspace_id, '["a, b", "plain"]'],
    )
    olive = as_person("olive")
    offered = [option["text"] for option in olive.get("/queue/complete/", {"q": "label:"}).json()["options"]]
    assert offered == ['label:"a, b"', "label:plain"]
    assert b"room:1" in olive.get("/queue/", {"q": f"is:unresolved {offered[0]}"}).content


def test_completion_tells_nothing_of_another_workspace(stage, other_stage, as_person):
    opened(
        stage=other_stage, tool="rooms.book", operation_id="r", payload={}, ago=timedelta(minutes=1),
        agent={"name": "their-agent", "run": "their-run"},
    )  # fmt: skip
    olive = as_person("olive")
    for text in ("agent:their", "run:their", f"held:otto{other_stage.suffix}"):
        assert olive.get("/queue/complete/", {"q": text}).json()["options"] == []
    people = [option["text"] for option in olive.get("/queue/complete/", {"q": "held:o"}).json()["options"]]
    assert people == [f"held:olive{stage.suffix}", f"held:otto{stage.suffix}"]


def test_hostile_text_in_a_filter_is_only_text(stage, scenes, as_person):
    olive = as_person("olive")
    for text in (
        "\x00",
        "'; DROP TABLE operation; --",
        "%s %(workspace)s",
        "\u202eis:open",
        "🜁" * 300,
        "a" * 5000,
        '"' * 99,
    ):
        assert olive.get("/queue/", {"q": text}).status_code == 200
        assert olive.get("/queue/", {"q": text, "group": "cause"}).status_code == 200
        assert olive.get("/queue/live/", {"q": text}).status_code == 200
        assert olive.get("/queue/complete/", {"q": text, "at": "99999"}).status_code == 200
