"""Every state has its page: the right offers for each role, the right words, and every side of it."""

import re
from html import unescape
from uuid import UUID

import orjson
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from ledger.database import execute
from ledger.queries.desk import desk_of
from ledger.queries.facts import held
from ledger.rules.desk import Subject
from ledger.rules.resolutions import TOLD, Answer
from recovery.web.further_scenes import play_further
from recovery.web.operation_tabs import NAMES, Tab
from recovery.web.sentences import ANSWERS
from tests.web.conftest import AsPerson

SIDES = tuple(Tab)


@pytest.fixture
def further(stage) -> dict[str, UUID]:
    return play_further(stage=stage)


def _text(client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, address
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", answer.content.decode())))


def _say(client, id: UUID, answer: Answer, **fields: str):
    one = held(id=id)
    form = {"answer": answer.value, "version": one.facts.version, "reason": "looked", "evidence_url": "", **fields}
    return client.post(f"/operations/{id}/answer/", form)


def _offered(page: str) -> set[str]:
    return set(re.findall(r'<details class="answer" id="answer-(\w+)"', page))


OFFERED = {
    "verifying": {"applied"},
    "check_failed": {"applied"},
    "check_unavailable": {"applied"},
    "found_twice": {"applied", "not_applied", "cannot_tell", "written_off", "accept_duplicate_risk"},
    "written_off": set(),
    "awaits_write_off": {"applied", "not_applied", "cannot_tell", "written_off", "accept_duplicate_risk"},
    "risk_accepted": {"applied", "not_applied", "cannot_tell", "written_off"},
    "sent_at_risk": set(),
    "reopened": {"applied"},
    "pending": {"applied", "not_applied", "cannot_tell", "written_off", "accept_duplicate_risk"},
    "in_part": {"partially_applied", "cannot_tell"},
    "items_open": {"partially_applied", "cannot_tell", "written_off"},
}
SAYS = {
    "verifying": ["Verifying · effect applied", "It happened. ", "Not yet. The check comes"],
    "check_failed": [
        "Not as intended",
        "Intended and seen differ",
        "total 4900 49",
        "No. The outcome is not what was meant",
    ],
    "check_unavailable": ["The check could not run."],
    "found_twice": ["2 found", "More than one was found", "in_7781", "https://pay.example/invoices/in_7782"],
    "written_off": ["Settled · written off", "signed otto", "Write off", TOLD[Answer.WRITTEN_OFF]],
    "awaits_write_off": ["1 of 2 signatures", "said: write off", "Sign it: write off"],
    "risk_accepted": ["Open · effect unknown", "Two people accepted it already.", TOLD[Answer.ACCEPT_DUPLICATE_RISK]],
    "sent_at_risk": ["two people accepted the risk of a duplicate", "An attempt is in flight."],
    "reopened": ["Reopened, was not applied", "contradicted in a signed notice", "It is proved that it happened."],
    "pending": ["Still running.", "Waiting · effect pending"],
    "in_part": ["Submitted 3, accounted for 3.", "Close it in part", "An operator closed it: some items are done"],
    "items_open": ["Submitted 10, accounted for 9.", "1 unknown", "Answer for the items"],
}


def test_what_each_state_offers_and_says(stage, further, as_person: AsPerson):
    assert set(further) == set(OFFERED) == set(SAYS)
    olive, vic = as_person("olive"), as_person("vic")
    for name, id in further.items():
        page = olive.get(f"/operations/{id}/").content.decode()
        assert _offered(page) == OFFERED[name], name
        text = _text(olive, f"/operations/{id}/")
        for sentence in SAYS[name]:
            assert sentence in text, (name, sentence)
        seen = vic.get(f"/operations/{id}/").content.decode()
        assert _offered(seen) == set(), "a viewer is offered nothing"
        assert f'action="/operations/{id}/answer/' not in seen


@pytest.mark.parametrize(
    ("username", "side"), [("olive", side) for side in SIDES] + [("vic", Tab.FOUND), ("vic", Tab.RAW)]
)
def test_every_side_of_every_state(further, as_person: AsPerson, username, side):
    client = as_person(username)
    for name, id in further.items():
        page = client.get(f"/operations/{id}/?tab={side.value}").content.decode()
        current = re.search(r'<nav class="sides".*?aria-current="page">([^<]+)<', page, re.DOTALL)
        assert current is not None, name
        assert current[1] == NAMES[side]


def test_an_unknown_side_is_the_overview(further, as_person: AsPerson):
    assert "What we know, and what we don’t" in _text(as_person("olive"), f"/operations/{further['pending']}/?tab=%00x")


def test_the_contract_used_and_the_current_one(stage, further, as_person: AsPerson):
    from recovery.web.further_scenes import CONTRACTS
    from recovery.web.scenes import taught

    id, olive = further["pending"], as_person("olive")
    assert "it began with the version that is current" in _text(olive, f"/operations/{id}/?tab=contract")
    taught(stage=stage, documents=[{**CONTRACTS[0], "title": "Send an invoice by post"}])
    text = _text(olive, f"/operations/{id}/?tab=contract")
    assert "-title: Send an invoice" in text
    assert "+title: Send an invoice by post" in text
    assert "invoices.send@1" in text
    assert "invoices.send@2" in text


def test_the_raw_history_says_whether_its_chain_holds(further, as_person: AsPerson):
    id, olive = further["written_off"], as_person("olive")
    rows = execute("SELECT count(*) FROM journal WHERE operation = %s", [id])[0][0]
    text = _text(olive, f"/operations/{id}/?tab=raw")
    assert f"The chain is whole to row {rows}" in text
    assert "countersign" in text


def test_the_packet_is_the_same_on_the_page_and_in_both_files(further, as_person: AsPerson):
    id, olive = further["check_failed"], as_person("olive")
    markdown = olive.get(f"/operations/{id}/packet.md")
    document = olive.get(f"/operations/{id}/packet.json")
    assert markdown["Content-Disposition"] == 'attachment; filename="packet-invoicesend312.md"'
    assert document["Content-Type"] == "application/json"
    told = orjson.loads(document.content)
    assert {fact["what"] for fact in told["established"]} == {"the intent", "the effect", "the outcome"}
    page = _text(olive, f"/operations/{id}/?tab=packet")
    for fact in told["established"]:
        assert fact["says"] in markdown.content.decode()
        assert fact["says"] in page
    assert "DE89" not in markdown.content.decode(), "nothing of a payload is in it"


def test_what_another_workspace_has_is_not_there(further, other_stage, as_person: AsPerson):
    from django.contrib.auth import get_user_model
    from django.test import Client

    stranger = Client()
    stranger.force_login(get_user_model().objects.get(pk=other_stage.people["max"]))
    id = further["pending"]
    [(original,)] = execute("SELECT original FROM revision WHERE operation = %s", [id])
    for path in ("", "?tab=raw", "packet.md", "packet.json", "payload/1/", f"originals/{original}/"):
        assert stranger.get(f"/operations/{id}/{path}").status_code == 404, path


@pytest.mark.parametrize("username", ["olive", "ada", "max", "vic"])
def test_each_look_at_an_original_is_recorded_and_redacted(stage, further, as_person: AsPerson, username):
    id, client = further["check_failed"], as_person(username)
    [(original,)] = execute("SELECT original FROM evidence WHERE operation = %s AND speaker = 'verifier'", [id])
    may = username != "vic"
    for path in ("payload/1/", f"originals/{original}/"):
        answer = client.get(f"/operations/{id}/{path}")
        assert answer.status_code == (200 if may else 403)
        assert "DE89" not in answer.content.decode()
        if may:
            assert "That you looked at this now is recorded." in answer.content.decode()
    looks = execute(
        "SELECT after ->> 'kind' FROM desk_entry WHERE operation = %s AND person_id = %s AND verb = 'view_original' ORDER BY at",
        [id, stage.people[username]],
    )
    assert looks == ([("payload",), ("answer",)] if may else [])
    assert client.get(f"/operations/{id}/originals/{id}/").status_code == (404 if may else 403), (
        "no original of that name"
    )
    assert client.get(f"/operations/{id}/payload/2/").status_code == (404 if may else 403)


def test_two_people_write_it_off_on_the_page(further, as_person: AsPerson):
    id, olive, otto = further["found_twice"], as_person("olive"), as_person("otto")
    assert ANSWERS[Answer.WRITTEN_OFF].records_first in _text(olive, f"/operations/{id}/")
    assert _say(olive, id, Answer.WRITTEN_OFF).status_code == 303
    assert held(id=id).facts.effect == "unknown"
    assert ANSWERS[Answer.WRITTEN_OFF].records in _text(otto, f"/operations/{id}/")
    assert _say(otto, id, Answer.WRITTEN_OFF).status_code == 303
    assert held(id=id).facts.outcome == "written_off"
    assert held(id=id).decision["hint"] == TOLD[Answer.WRITTEN_OFF]


def test_the_sheet_for_a_risk_shows_what_would_be_sent(further, as_person: AsPerson):
    text = _text(as_person("olive"), f"/operations/{further['found_twice']}/")
    one = held(id=further["found_twice"])
    assert one.facts.payload_digest in text
    assert "nothing lets the owner tell the two requests apart" in text
    assert "It is there, " in text, "the last look and its age"
    assert "the owner promises nothing about repeats" in text


def test_cannot_tell_puts_to_sleep_and_hands_over(stage, further, as_person: AsPerson):
    id, olive = further["found_twice"], as_person("olive")
    page = olive.get(f"/operations/{id}/").content.decode()
    until = re.search(r'<option value="([^"]+)">Asleep: 4 hours', page).group(1)
    answer = _say(olive, id, Answer.CANNOT_TELL, sleeps=until, wakes_on="owner_back", person=str(stage.people["otto"]))
    assert answer.status_code == 303
    desk = desk_of(subject=Subject(workspace_id=stage.workspace_id, operation=id))
    assert (desk.holder_id, desk.wakes_on) == (stage.people["otto"], "owner_back")
    assert desk.snoozed_until is not None
    assert "It sleeps until then. It is handed over." in _text(olive, f"/operations/{id}/")


def test_what_could_not_be_put_to_sleep_is_said(further, as_person: AsPerson):
    id, olive = further["found_twice"], as_person("olive")
    assert _say(olive, id, Answer.CANNOT_TELL, sleeps="2020-01-01T00:00:00+00:00").status_code == 303
    text = _text(olive, f"/operations/{id}/")
    assert "Recorded: Cannot tell." in text
    assert "But it was not put to sleep: Choose a time that is still to come." in text


def test_a_batch_is_not_answered_as_a_whole(further, as_person: AsPerson):
    id, olive = further["items_open"], as_person("olive")
    before = held(id=id).facts.version
    assert _say(olive, id, Answer.APPLIED).status_code == 409
    assert _say(olive, id, Answer.PARTIALLY_APPLIED).status_code == 422
    assert held(id=id).facts.version == before


def test_two_people_write_off_what_is_left_of_a_batch(further, as_person: AsPerson):
    id = further["items_open"]
    for username in ("olive", "otto"):
        assert _say(as_person(username), id, Answer.WRITTEN_OFF).status_code == 303
    one = held(id=id)
    assert one.facts.outcome == "written_off"
    assert [item.outcome for item in one.facts.items] == ["applied"] * 9 + ["written_off"]


def test_the_neighbours_in_the_list_and_the_way_back(further, as_person: AsPerson):
    olive = as_person("olive")
    ids = [row[0] for row in execute(
        "SELECT o.id FROM operation o JOIN tool t ON t.id = o.tool_id WHERE t.name = 'invoices.send' AND o.workspace_id = "
        "(SELECT workspace_id FROM operation WHERE id = %s) AND o.state <> 'settled' ORDER BY o.created_at DESC, o.id DESC",
        [further["pending"]],
    )]  # fmt: skip
    asked = "?from=is%3Aunresolved+tool%3Ainvoices.send"
    for above, here, below in zip([None, *ids], ids, [*ids[1:], None], strict=False):
        page = olive.get(f"/operations/{here}/{asked}").content.decode()
        assert (f'href="/operations/{above}/{asked}" data-key="["' in page) is (above is not None)
        assert (f'href="/operations/{below}/{asked}" data-key="]"' in page) is (below is not None)
        assert 'href="/queue/?q=is%3Aunresolved+tool%3Ainvoices.send"' in page
    assert 'data-key="["' not in olive.get(f"/operations/{ids[0]}/").content.decode(), "from nowhere there is no next"
    assert olive.get(f"/operations/{ids[0]}/?from=%00nonsense:").status_code == 200


def test_an_act_keeps_the_side_and_the_list(further, as_person: AsPerson):
    id, olive = further["found_twice"], as_person("olive")
    asked = "?tab=raw&from=is%3Aunresolved"
    page = olive.get(f"/operations/{id}/{asked}").content.decode()
    assert f'action="/operations/{id}/answer/?tab=raw&amp;from=is%3Aunresolved"' in page
    assert f'data-live="/operations/{id}/live/?tab=raw&amp;from=is%3Aunresolved"' in page
    done = olive.post(f"/operations/{id}/look-again/{asked}")
    assert done["Location"] == f"/operations/{id}/{asked}"


@pytest.mark.parametrize(("side", "more"), [("found", 0), ("contract", 2), ("related", 6), ("packet", 0), ("raw", 0)])
def test_each_side_costs_what_it_shows(further, as_person: AsPerson, side, more):
    olive, id = as_person("olive"), further["found_twice"]
    olive.get(f"/operations/{id}/")
    with CaptureQueriesContext(connection) as whole:
        olive.get(f"/operations/{id}/")
    with CaptureQueriesContext(connection) as queries:
        olive.get(f"/operations/{id}/?tab={side}")
    assert len(queries) - len(whole) == more
