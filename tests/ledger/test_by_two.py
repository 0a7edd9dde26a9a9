"""What only two people decide, through the API and the transitions: written off, and sent once more at a known risk."""

from typing import Any

import pytest

from ledger.queries.facts import Held, held_by_name
from ledger.queries.operations import evidence_of
from ledger.queries.verification import verified
from ledger.rules.resolutions import TOLD, Answer, offers
from ledger.transitions.person import Signer, attest, first_signature
from ledger.transitions.workspace import ensure_person
from tests.conftest import Api, Bench

LOST = {"kind": "exception", "exception": "ReadTimeout", "phase": "await", "bytes_sent": 300, "request_bytes": 300}
NO_KEYS = {
    "contract": "letters.send",
    "effect": "write",
    "owner": "helpdesk",
    "identity": ["to"],
    "budgets": {"retries": 4},
    "lookup": [
        {
            "by": "status",
            "http": {"method": "GET", "path": "/letters/{operation_id}"},
            "found": "status == 200",
            "no_match": "status == 404",
            "authoritative": True,
            "sees": "all",
            "lag": "5s",
        }
    ],
}


@pytest.fixture
def people(bench: Bench) -> tuple[Signer, Signer]:
    return tuple(
        Signer(id=ensure_person(username=name, name=name, password="x" * 20), username=name)
        for name in (f"olive-{bench.id.hex[:8]}", f"ada-{bench.id.hex[:8]}")
    )  # type: ignore[return-value]


@pytest.fixture
def api(bench: Bench) -> Api:
    bench.publish(NO_KEYS)
    return Api(bench.token)


def lost(api: Api, name: str, *, to: str = "dana") -> dict[str, Any]:
    new = {"operation_id": name, "tool": "letters.send", "payload": {"to": to}, "attempt": True}
    answer = api.post("/operations", new)
    assert answer.status_code == 201, answer.json()
    return api.post(f"/operations/{name}/attempts/attempt-01/observations", LOST).json()["data"]


def held_of(bench: Bench, name: str) -> Held:
    held = held_by_name(workspace_id=bench.id, operation_id=name)
    assert held is not None
    return held


def said(bench: Bench, name: str, signer: Signer, answer: Answer) -> Held:
    held = held_of(bench, name)
    waiting = first_signature(id=held.id)
    offer = next(
        each
        for each in offers(facts=held.facts, contract=held.contract, now=held.now, blocked_by_identity=False)
        if each.answer is answer
    )
    signs = waiting if waiting and waiting.answer is answer and waiting.person_id != signer.id else None
    assert attest(
        held=held,
        signer=signer,
        offer=offer,
        reason="looked everywhere",
        evidence_url="",
        expected_version=held.facts.version,
        signs=signs,
    )
    return held_of(bench, name)


def test_two_people_write_it_off_and_its_intent_stays_taken(bench, api, people) -> None:
    olive, ada = people
    lost(api, "l-1")
    once = said(bench, "l-1", olive, Answer.WRITTEN_OFF)
    assert (once.facts.state, once.facts.effect) == ("reconciling", "unknown"), "one signature changes nothing"
    twice = said(bench, "l-1", olive, Answer.WRITTEN_OFF)
    assert twice.facts.state == "reconciling", "nor does the same person's second one"
    off = said(bench, "l-1", ada, Answer.WRITTEN_OFF)
    assert (off.facts.state, off.facts.outcome, off.facts.effect) == ("settled", "written_off", "unknown")
    assert off.holds_identity
    data = api.get("/operations/l-1").json()["data"]
    assert (data["outcome"], data["decision"]["code"]) == ("written_off", "WRITTEN_OFF")
    assert data["decision"]["hint"] == TOLD[Answer.WRITTEN_OFF]
    again = api.post("/operations/l-1/attempts", {})
    assert (again.status_code, again.json()["data"]["decision"]["code"]) == (409, "ALREADY_SETTLED")
    twin = {"operation_id": "l-2", "tool": "letters.send", "payload": {"to": "dana"}, "attempt": True}
    assert api.post("/operations", twin).json()["data"]["permit"] is None
    refused = api.post("/operations/l-2/attempts", {}).json()["data"]["decision"]
    assert (refused["code"], refused["alternatives"]) == ("POSSIBLE_DUPLICATE", ["l-1"])
    pieces = [piece for piece in evidence_of(id=off.id) if piece.speaker == "operator"]
    assert [(piece.effect, piece.proof, piece.detail["counts"]) for piece in pieces] == [
        (None, None, False),
        (None, None, False),
        (None, None, True),
    ]


def test_two_people_accept_the_risk_of_a_duplicate_for_one_permit(bench, api, people) -> None:
    olive, ada = people
    lost(api, "r-1")
    locked = api.post("/operations/r-1/attempts", {})
    assert (locked.status_code, locked.json()["data"]["decision"]["code"]) == (409, "EFFECT_UNKNOWN")
    said(bench, "r-1", olive, Answer.ACCEPT_DUPLICATE_RISK)
    assert api.post("/operations/r-1/attempts", {}).status_code == 409, "one signature licenses nothing"
    taken = said(bench, "r-1", ada, Answer.ACCEPT_DUPLICATE_RISK)
    assert (taken.facts.state, taken.facts.effect) == ("open", "unknown")
    decision = api.get("/operations/r-1").json()["data"]["decision"]
    assert (decision["recovery_action"], decision["licence"]) == ("retry", "accepted_duplicate_risk")
    told = decision["for_agent"]["error"]
    assert told["message"] == told["hint"] == TOLD[Answer.ACCEPT_DUPLICATE_RISK], "the agent is not told to hold still"
    assert (told["class"], told["code"]) == ("fatal", "OUTCOME_UNKNOWN"), "and still knows that nobody knows"
    permit = api.post("/operations/r-1/attempts", {})
    assert permit.status_code == 201
    assert permit.json()["data"]["licence"] == "accepted_duplicate_risk"
    api.post("/operations/r-1/attempts/attempt-02/observations", {**LOST, "bytes_sent": 200})
    after = api.post("/operations/r-1/attempts", {})
    assert (after.status_code, after.json()["data"]["decision"]["code"]) == (409, "EFFECT_UNKNOWN"), "for one permit"
    attempts = api.get("/operations/r-1").json()["data"]["attempts"]
    assert [attempt["licence"] for attempt in attempts] == [None, "accepted_duplicate_risk"]


def test_what_comes_to_light_first_ends_the_licence(bench, api, people) -> None:
    olive, ada = people
    lost(api, "k-1")
    for signer in (olive, ada):
        said(bench, "k-1", signer, Answer.ACCEPT_DUPLICATE_RISK)
    late = {**LOST, "bytes_sent": 299}
    assert api.post("/operations/k-1/attempts/attempt-01/observations", late).status_code == 200
    assert api.post("/operations/k-1/attempts", {}).status_code == 409


def test_every_history_still_follows(bench, api, people) -> None:
    olive, ada = people
    for name, answer in (("v-1", Answer.WRITTEN_OFF), ("v-2", Answer.ACCEPT_DUPLICATE_RISK)):
        lost(api, name, to=name)
        for signer in (olive, ada):
            said(bench, name, signer, answer)
    assert api.post("/operations/v-2/attempts", {}).status_code == 201
    ids = {held_of(bench, name).id for name in ("v-1", "v-2")}
    assert ids <= {each.id for each in verified()}
