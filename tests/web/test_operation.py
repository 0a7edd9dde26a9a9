"""The operation page: what it claims to know, what it lets a person record, and that nothing typed is lost."""

import re
from datetime import timedelta
from html import unescape
from urllib.parse import quote

import orjson
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from ledger.queries.facts import held
from ledger.queries.operations import journal_of
from ledger.rules.resolutions import Answer
from ledger.rules.vocabulary import Action
from recovery.web.operation_tabs import Tab
from recovery.web.scenes import answered, decided, opened, reported
from recovery.web.sentences import ANSWERS


def _page(client, id, **headers):
    page = unescape(client.get(f"/operations/{id}/", **headers).content.decode())
    return re.sub(r"</?bdi>", "", page)


def _answer(client, id, **fields):
    one = held(id=id)
    form = {"answer": "applied", "version": one.facts.version, "reason": "", "evidence_url": "", **fields}
    headers = {"HTTP_HX_REQUEST": "true"} if form.pop("htmx", False) else {}
    return client.post(f"/operations/{id}/answer/", form, **headers)


@pytest.mark.parametrize(
    ("scene", "sentences"),
    [
        ("open", ["No. No permit was given", "No. Nothing reached the owner.", "It did not happen. Nothing was sent"]),
        ("dispatched", ["In flight. attempt-01", "Not yet.", "We don't know. Nobody who may say so"]),
        (
            "reconciling",
            [
                "Yes. Permitted once. 412 of 412 bytes left.",
                "Perhaps. Bytes may have left",
                "We don't know. 4 looks at the owner",
            ],
        ),
        ("clean_read", ["180 of 412 bytes left", "1 clean reads in a row", "It stopped while sending."]),
        (
            "waiting",
            [
                "No. It was refused before anything was done. The answer was HTTP 429.",
                "It did not happen. The owner refused it before acting.",
            ],
        ),
        ("applied", ["It happened. An exact match was found at the owner."]),
        ("not_sent", ["each time it is proved that nothing left", "It did not happen. No byte of the request left."]),
        ("lapsed", ["We don't know. Permitted once. attempt-01 ended without a report"]),
        ("conflict", ["Intended and found differ", "Export broken, case 8455"]),
    ],
)
def test_what_we_know(scenes, as_person, scene, sentences):
    page = re.sub(r"</?b>", "", _page(as_person("olive"), scenes[scene]))
    for sentence in sentences:
        assert sentence in page


def test_the_page_costs_a_fixed_number_of_queries(scenes, as_person):
    olive = as_person("olive")
    _page(olive, scenes["reconciling"])
    with CaptureQueriesContext(connection) as queries:
        _page(olive, scenes["reconciling"])
    # session, person, seats; the operation, evidence, history, related, of its run;
    # that I look, the desk, its notes, who looks, whom to give it to, labels
    assert len(queries) == 14
    assert not [query for query in queries if "original r" in query["sql"] or "body" in query["sql"]]


@pytest.mark.parametrize(
    ("scene", "locked"),
    [
        ("dispatched", "An attempt is in flight."),
        ("open", "Nothing was ever permitted to be sent"),
        ("blocked", "The evidence already says none."),
    ],
)
def test_a_locked_answer_says_why(scenes, as_person, scene, locked):
    assert locked in _page(as_person("olive"), scenes[scene])


def test_distinct_intent_is_offered_only_to_what_is_held_back(scenes, as_person):
    olive = as_person("olive")
    assert "Distinct intent" in _page(olive, scenes["held_back"])
    assert "Distinct intent" not in _page(olive, scenes["escalated"])
    assert _answer(olive, scenes["held_back"], answer="distinct_intent", reason="Two exports broke").status_code == 303
    assert held(id=scenes["held_back"]).distinct_intent


@pytest.mark.parametrize("answer", [Answer.APPLIED, Answer.CANNOT_TELL])
def test_the_preview_is_what_is_recorded_and_told(scenes, as_person, answer):
    olive, id = as_person("olive"), scenes["escalated"]
    page = _page(olive, id)
    assert ANSWERS[answer].records in page
    assert ANSWERS[answer].agent in page
    assert _answer(olive, id, answer=answer.value, reason="I looked").status_code == 303
    one = held(id=id)
    if answer is Answer.APPLIED:
        assert one.decision["hint"] == ANSWERS[answer].agent
        assert (one.facts.state, one.facts.effect) == ("settled", "applied")
    else:
        assert (one.facts.state, one.facts.effect) == ("escalated", "unknown")


def test_two_people_settle_what_did_not_happen(stage, scenes, as_person):
    olive, max_, id = as_person("olive"), as_person("max"), scenes["escalated"]
    page = _page(olive, id)
    assert "It counts only once a second person has signed it." in page
    assert _answer(olive, id, answer="not_applied", reason="Not in the dashboard").status_code == 303
    assert held(id=id).facts.effect == "unknown"
    mine = _page(olive, id)
    assert "You said: it did not happen" in mine
    assert "Somebody else has to sign it" in mine
    assert "Sign it:" not in mine
    theirs = _page(max_, id)
    assert f"olive{stage.suffix} said: it did not happen" in theirs
    assert "Not in the dashboard" in theirs
    assert "Sign it: it did not happen" in theirs
    assert ANSWERS[Answer.NOT_APPLIED].agent in theirs
    assert _answer(max_, id, answer="not_applied", reason="Nor in the settlement file").status_code == 303
    one = held(id=id)
    assert (one.facts.state, one.facts.outcome, one.facts.effect) == ("settled", "not_applied", "none")
    assert one.decision["hint"] == ANSWERS[Answer.NOT_APPLIED].agent
    assert [row.verb for row in journal_of(id=id)][-2:] == ["attest", "countersign"]


def test_nobody_signs_their_own_answer(scenes, as_person):
    olive, id = as_person("olive"), scenes["escalated"]
    _answer(olive, id, answer="not_applied", reason="once")
    _answer(olive, id, answer="not_applied", reason="twice")
    assert held(id=id).facts.state == "escalated"


def test_who_may_not_answer_sees_who_said_what_and_why_they_cannot(stage, scenes, as_person):
    page = _page(as_person("vic"), scenes["awaiting"])
    assert f"otto{stage.suffix} said: it did not happen" in page
    assert "that needs the role operator or admin in Acme Support. Max Brandt can give it to you." in page
    assert '<form method="post" action="/operations/' not in page


@pytest.mark.parametrize("htmx", [False, True])
def test_a_lost_race_says_who_won_and_keeps_what_was_typed(stage, scenes, as_person, htmx):
    id = scenes["escalated"]
    seen = held(id=id).facts.version
    answered(stage=stage, id=id, username="max", answer=Answer.APPLIED, reason="It is in the settlement file")
    answer = _answer(
        as_person("olive"), id, version=seen, answer="cannot_tell", reason="Long thoughts of mine", htmx=htmx
    )
    page = unescape(answer.content.decode())
    assert answer.status_code == 409
    assert "Not recorded: this changed while you were writing." in page
    assert f"max{stage.suffix}" in page
    assert "answered: It happened." in page
    assert "It is now settled, effect applied." in page
    assert "Long thoughts of mine" in page
    assert ("<html" in page) is not htmx
    assert held(id=id).facts.version == seen + 1


def test_after_a_lost_race_the_answer_can_be_recorded_again(scenes, as_person):
    olive, id = as_person("olive"), scenes["reconciling"]
    seen = held(id=id).facts.version
    olive.post(f"/operations/{id}/look-again/")
    lost = _answer(olive, id, version=seen, reason="I saw the ticket", evidence_url="https://helpdesk.example/t/8472")
    page = unescape(lost.content.decode())
    assert lost.status_code == 409
    assert f'name="version" value="{seen + 1}"' in page
    assert ">I saw the ticket</textarea>" in page
    assert 'value="https://helpdesk.example/t/8472"' in page
    assert '<details class="answer" id="answer-applied" data-key="1" open>' in page


def test_without_reason_and_evidence_nothing_is_recorded(scenes, as_person):
    id = scenes["escalated"]
    before = held(id=id).facts.version
    answer = _answer(as_person("olive"), id)
    assert answer.status_code == 422
    assert "Give a reason, or a link to the evidence." in answer.content.decode()
    assert held(id=id).facts.version == before


@pytest.mark.parametrize("fields", [{"answer": "forgotten"}, {"answer": ""}, {"version": "abc", "reason": "x"}])
def test_damaged_forms_record_nothing(scenes, as_person, fields):
    id = scenes["escalated"]
    before = held(id=id).facts.version
    assert _answer(as_person("olive"), id, **fields).status_code in (409, 422)
    assert held(id=id).facts.version == before


def test_a_locked_answer_cannot_be_forced(scenes, as_person):
    answer = _answer(as_person("olive"), scenes["dispatched"], reason="I insist")
    assert answer.status_code == 409
    assert "An attempt is in flight." in unescape(answer.content.decode())
    assert "I insist" in answer.content.decode()


def test_htmx_gets_the_fragment_and_the_rest_a_redirect(scenes, as_person):
    olive = as_person("olive")
    part = _answer(olive, scenes["escalated"], reason="I saw it", htmx=True)
    assert part.status_code == 200
    assert part.content.strip().startswith(b'<div id="operation"')
    assert b"Recorded: It happened." in part.content
    whole = _answer(olive, scenes["conflict"], reason="I saw it")
    assert (whole.status_code, whole["Location"]) == (303, f"/operations/{scenes['conflict']}/")
    assert "Recorded: It happened." in _page(olive, scenes["conflict"])


def test_looking_again_is_recorded_and_scheduled(scenes, as_person):
    olive, id = as_person("olive"), scenes["escalated"]
    assert olive.post(f"/operations/{id}/look-again/").status_code == 303
    one = held(id=id)
    assert one.next_check_at <= one.now
    assert journal_of(id=id)[-1].verb == "look_again"
    assert "asked for another look at the owner now." in _page(olive, id)


def test_there_is_nothing_to_look_up_once_it_is_settled(scenes, as_person):
    id = scenes["applied"]
    before = held(id=id).facts.version
    as_person("olive").post(f"/operations/{id}/look-again/")
    assert held(id=id).facts.version == before


@pytest.mark.parametrize(("username", "may"), [("olive", True), ("max", True), ("ada", True), ("vic", False)])
def test_who_is_offered_the_payload(scenes, as_person, username, may):
    page = _page(as_person(username), scenes["escalated"])
    assert ("Show what was to be sent" in page) is may
    assert ("Restricted:" in page) is not may
    assert "order-2207" not in page.replace("capture:order-2207", ""), "the page itself holds none of it"


def test_polling_is_304_until_the_version_moves(scenes, as_person):
    olive, id = as_person("olive"), scenes["escalated"]
    etag = re.search(r'data-etag=\'("[^"]+")\'', olive.get(f"/operations/{id}/").content.decode()).group(1)
    assert olive.get(f"/operations/{id}/live/", HTTP_IF_NONE_MATCH=etag).status_code == 304
    olive.post(f"/operations/{id}/look-again/")
    fresh = olive.get(f"/operations/{id}/live/", HTTP_IF_NONE_MATCH=etag)
    assert fresh.status_code == 200
    assert fresh["ETag"] != etag


HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "\u202egnp.exe",
    "W" * 5000,
    "🧨" * 200,
    "{{ seat }}{% include 'x' %}",
    "]]>-->",
    "'; DROP TABLE operation; --",
    "a null \x00 byte",
    "\u2066\u202e\u200f turned",
)


@pytest.mark.parametrize("words", HOSTILE)
def test_hostile_words_are_inert_wherever_they_come_from(stage, as_person, words):
    id = opened(
        stage=stage,
        tool="rooms.book",
        operation_id="room:hostile",
        payload={"room": words.replace("\x00", ""), words[:100].replace("\x00", ""): 1},
        ago=timedelta(minutes=3),
        agent={"name": words[:200].replace("\x00", ""), "run": words[:200].replace("\x00", "")},
    )
    reported(
        id=id,
        after=timedelta(seconds=2),
        decision=decided(Action.RECONCILE, "TRANSPORT_TIMEOUT", "No answer came."),
        detail={
            name: orjson.loads(orjson.dumps(value).replace(b"\\u0000", b""))
            for name, value in {
                "phase": "await",
                "quoted": [words],
                "reasons": [words],
                "bytes_sent": words,
                "status": words,
                "differs": [[words, words, words]],
                "found": [{words: words}],
                "matches": 2,
                "keys": [words],
            }.items()
        },
    )
    olive = as_person("olive")
    _answer(olive, id, answer="cannot_tell", reason=words[:3000])
    sides = [olive.get(f"/operations/{id}/?tab={side.value}&from={quote(words)}") for side in Tab]
    for page in (*sides, olive.get(f"/operations/{id}/payload/1/"), olive.get("/queue/")):
        raw = page.content.decode()
        assert page.status_code == 200
        assert "<script>alert" not in raw
        assert "<img src=x" not in raw
        assert "Acme Support" in raw
    assert "said by the tool, not used for the decision" in olive.get(f"/operations/{id}/").content.decode()
    assert "\u202e" not in olive.get(f"/operations/{id}/payload/1/").content.decode()
    assert "<script" not in olive.get(f"/operations/{id}/packet.md").content.decode()
