"""Batches end to end: API, reports, lookups item by item, recovery; against a real HTTP owner, without workers."""

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import UUID

import pytest

from ledger.queries.facts import held
from ledger.queries.verification import verified
from ledger.rules.resolutions import Answer
from ledger.transitions.item_answers import attest_items
from ledger.transitions.person import Signer, first_signature
from ledger.transitions.workspace import ensure_person
from recovery.reconcile import reconcile
from tests.conftest import TICKETS, Api, Database, make_bench

LOST = {"kind": "exception", "exception": "ReadTimeout", "phase": "await", "bytes_sent": 300, "request_bytes": 300}
REFUSED = {"kind": "exception", "exception": "ConnectError", "phase": "connect", "bytes_sent": 0}
BATCH: dict[str, Any] = {
    **{name: part for name, part in TICKETS.items() if name not in ("arguments", "success", "lookup", "identity")},
    "contract": "tickets.import",
    "effect": "batch",
    "identity": "none",
    "items": {"path": "payload.tickets", "key": "ref"},
    "lookup": [{**TICKETS["lookup"][0], "http": {"method": "GET", "path": "/tickets/{item.ref}"}}],
}


class Desk:
    """An owner that holds tickets by their ref, and answers a lookup with what it holds."""

    def __init__(self) -> None:
        self.holds: dict[str, dict[str, Any]] = {}
        self.down = False
        self.asked: list[str] = []
        self.sent: list[list[str]] = []
        desk = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                ref = self.path.rpartition("/")[2]
                desk.asked.append(ref)
                found = desk.holds.get(ref)
                text = json.dumps(found or {}).encode()
                self.send_response(503 if desk.down else 404 if found is None else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def do_POST(self) -> None:
                sent = json.loads(self.rfile.read(int(self.headers["content-length"])))["tickets"]
                desk.sent.append([ticket["ref"] for ticket in sent])
                desk.holds |= {ticket["ref"]: ticket for ticket in sent}
                text = json.dumps({"results": [{"id": ticket["ref"], "status": 201} for ticket in sent]}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.server.shutdown()
    made.server.server_close()


class Batch:
    """One operation `b-1` of `tickets.import`, as a harness and a worker see it."""

    def __init__(self, desk: Desk, *, keys: str, **more: Any) -> None:
        self.desk = desk
        self.bench = make_bench(owner_url=desk.url)
        self.bench.publish({**BATCH, **more})
        self.api = Api(self.bench.token)
        tickets = [{"ref": key, "title": f"T {key}"} for key in keys]
        body = {"operation_id": "b-1", "tool": "tickets.import", "payload": {"tickets": tickets}, "attempt": True}
        answer = self.api.post("/operations", body)
        assert answer.status_code == 201, answer.json()
        self.permit = answer.json()["data"]["permit"]
        self.id = UUID(answer.json()["data"]["id"])

    def report(self, observation: dict[str, Any], attempt: str = "attempt-01") -> dict[str, Any]:
        answer = self.api.post(f"/operations/b-1/attempts/{attempt}/observations", observation)
        assert answer.status_code == 200, answer.json()
        return answer.json()["data"]

    def read(self) -> dict[str, Any]:
        return self.api.get("/operations/b-1").json()["data"]

    def ask(self) -> Any:
        return self.api.post("/operations/b-1/attempts", {})

    def permitted(self, *, seconds: float = 5) -> dict[str, Any]:
        """The next permit, as soon as it is given."""
        ends = time.monotonic() + seconds
        while (answer := self.ask()).status_code != 201 and time.monotonic() < ends:
            time.sleep(0.05)
        assert answer.status_code == 201, answer.json()
        data = answer.json()["data"]
        return {**data, **data["permit"]}

    def look_until(self, holds: Any, *, seconds: float = 15) -> dict[str, Any]:
        """Look whenever it is due, until the operation is as wanted."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            reconcile(id=self.id, time_left=5)
            data = self.read()
            if holds(data):
                return data
            time.sleep(0.05)
        raise AssertionError(f"still {data['state']}: {data['decision']} {effects(data)}")


def effects(data: dict[str, Any]) -> dict[str, str]:
    return {item["key"]: item["effect"] for item in data["items"]}


def answer(status: int = 200, **results: int) -> dict[str, Any]:
    entries = [{"id": key, "status": code} for key, code in results.items()]
    return {"kind": "http", "status": status, "body": {"results": entries}, "request": {"method": "POST", "path": "/"}}


@pytest.fixture(autouse=True)
def histories_hold(database: Database) -> Iterator[None]:
    """After every test here each row still follows from its history."""
    yield
    for _ in verified():
        pass


def test_every_item_applied_settles_it(database: Database, desk: Desk) -> None:
    batch = Batch(desk, keys="abc")
    assert batch.permit["items"] == ["a", "b", "c"]
    told = batch.report(answer(a=201, b=201, c=201))
    assert (told["state"], told["effect"], told["outcome"]) == ("settled", "applied", "applied")
    data = batch.read()
    assert [item["outcome"] for item in data["items"]] == ["applied"] * 3
    assert all(item["evidence"] == [data["evidence"][0]["evidence_id"]] for item in data["items"])


def test_a_part_is_sent_again_by_itself(database: Database, desk: Desk) -> None:
    batch = Batch(desk, keys="abc")
    told = batch.report(answer(a=201, b=429, c=429))
    assert (told["state"], told["effect"], told["recovery_action"]) == ("open", "partial", "recover_items")
    permit = batch.permitted()
    assert permit["items"] == ["b", "c"]
    assert [ticket["ref"] for ticket in permit["payload"]["tickets"]] == ["b", "c"]
    assert permit["licence"] == "effect_none_proved"
    assert (permit["revision"], permit["effect"]) == (2, "unknown")
    told = batch.report(answer(b=201, c=201), attempt="attempt-02")
    assert (told["state"], told["outcome"]) == ("settled", "applied")


def test_a_lost_answer_opens_every_item_and_each_is_found_out_by_itself(database: Database, desk: Desk) -> None:
    batch = Batch(desk, keys="abc")
    assert batch.report(LOST)["recovery_action"] == "reconcile"
    assert effects(batch.read()) == {"a": "unknown", "b": "unknown", "c": "unknown"}
    assert batch.ask().status_code == 409
    desk.holds["a"] = {"title": "T a"}
    data = batch.look_until(lambda data: data["state"] == "open")
    assert effects(data)["a"] == "applied"
    assert data["items"][0]["outcome"] == "applied"
    assert data["decision"]["recovery_action"] == "recover_items"
    data = batch.look_until(lambda data: effects(data) == {"a": "applied", "b": "none", "c": "none"})
    assert data["effect"] == "partial"
    permit = batch.permitted()
    assert permit["items"] == ["b", "c"]
    told = batch.report(answer(b=201, c=201), attempt="attempt-02")
    assert told["outcome"] == "applied"
    lookups = [row for row in batch.read()["evidence"] if row["source"] == "helpdesk/status"]
    first = next(item for item in batch.read()["items"] if item["key"] == "a")
    assert {row["evidence_id"] for row in lookups} & set(first["evidence"]), "each item has its own evidence"


def test_an_unknown_item_stays_out_and_is_looked_up_while_the_others_are_in_flight(
    database: Database, desk: Desk
) -> None:
    batch = Batch(desk, keys="abc", timeout="30s")
    told = batch.report(answer(a=201, b=429))
    assert (told["effect"], told["recovery_action"]) == ("unknown", "recover_items"), "c is not accounted for"
    assert effects(batch.read()) == {"a": "applied", "b": "none", "c": "unknown"}
    evidence = batch.read()["evidence"][0]
    permit = batch.permitted()
    assert permit["items"] == ["b"]
    desk.holds["c"] = {"title": "T c"}
    data = batch.look_until(lambda data: effects(data)["c"] == "applied")
    assert data["state"] == "dispatched", "and only what is known has changed"
    assert desk.asked == ["c"] * len(desk.asked), "nobody asks about what is done, or in flight"
    told = batch.report(answer(b=201), attempt="attempt-02")
    assert told["outcome"] == "applied"
    assert evidence["outcome"] == "observed"


def test_the_count_check_is_kept_and_foreign_keys_are_never_used(database: Database, desk: Desk) -> None:
    batch = Batch(desk, keys="ab")
    batch.report(answer(a=201, z=201))
    from ledger.queries.operations import evidence_of

    detail = evidence_of(id=batch.id)[0].detail
    assert detail["items"] == {"submitted": 2, "accounted": 1, "unaccounted": ["b"], "foreign": ["z"]}
    assert detail["violations"] == [
        "The answer names 1 items that were not sent with it.",
        "The answer accounts for 1 of 2 items.",
    ]
    assert effects(batch.read()) == {"a": "applied", "b": "unknown"}


def test_a_lookup_of_the_whole_says_nothing_of_its_items(database: Database, desk: Desk) -> None:
    batch = Batch(desk, keys="ab")
    batch.report(LOST)
    batch.report({"kind": "lookup", "lookup": "by_key", "exact_key": True, "matches": 1})
    assert effects(batch.read()) == {"a": "unknown", "b": "unknown"}


def test_all_refused_alike_is_sent_again_as_it_was(database: Database, desk: Desk) -> None:
    batch = Batch(desk, keys="ab")
    told = batch.report(REFUSED)
    assert (told["effect"], told["recovery_action"]) == ("none", "retry")
    permit = batch.permitted()
    assert permit["items"] == ["a", "b"]
    assert permit["revision"] == 1
    assert batch.report(answer(a=201, b=201), attempt="attempt-02")["outcome"] == "applied"


def test_one_bad_item_does_not_hold_the_others(database: Database, desk: Desk) -> None:
    batch = Batch(desk, keys="abc", errors=[])
    told = batch.report(answer(a=402, b=429, c=201))
    data = batch.read()
    assert told["recovery_action"] == "recover_items", told
    assert batch.permitted()["items"] == ["b"], data["items"]


def test_what_is_partial_for_good_goes_to_a_person(database: Database, desk: Desk) -> None:
    rule = {"when": "status == 200 && has(body.nothing)", "class": "business_rule", "effect": "none"}
    batch = Batch(desk, keys="ab", errors=[rule], budgets={"retries": 0})
    told = batch.report(answer(a=201, b=429))
    assert (told["state"], told["effect"]) == ("escalated", "partial")
    assert told["code"] == "PARTIAL_RESULT"
    assert batch.ask().status_code == 409
    data = batch.read()
    assert [item["outcome"] for item in data["items"]] == ["applied", "not_applied"]
    reconcile(id=batch.id, time_left=5)
    assert batch.read()["version"] == data["version"], "nothing is left to look up"


def test_a_permit_that_lapses_opens_its_items(database: Database, desk: Desk) -> None:
    batch = Batch(desk, keys="ab", dispatch_within="200ms", timeout="200ms")
    data = batch.look_until(lambda data: data["state"] == "reconciling")
    assert effects(data) == {"a": "unknown", "b": "unknown"}
    assert {item["decision"]["recovery_action"] for item in data["items"]} == {"reconcile"}
    desk.holds |= {"a": {"title": "T a"}, "b": {"title": "T b"}}
    assert batch.look_until(lambda data: data["state"] == "settled")["outcome"] == "applied"


def test_one_conflict_keeps_nobody_from_settling(database: Database, desk: Desk) -> None:
    batch = Batch(desk, keys="ab")
    batch.report(LOST)
    desk.holds |= {"a": {"title": "something else"}, "b": {"title": "T b"}}
    data = batch.look_until(lambda data: data["state"] == "escalated")
    assert effects(data) == {"a": "unknown", "b": "applied"}
    assert data["decision"]["code"] == "CONFLICT"
    assert data["items"][1]["outcome"] == "applied"


def test_an_owner_in_trouble_is_not_asked_about_every_item(database: Database, desk: Desk) -> None:
    batch = Batch(desk, keys="abcdefgh", poll={"first": "1s", "max": "1s", "jitter": 0.0})
    batch.report(LOST)
    desk.down = True
    ends = time.monotonic() + 2.5
    while time.monotonic() < ends:
        reconcile(id=batch.id, time_left=5)
        time.sleep(0.05)
    assert 1 <= len(desk.asked) <= 3, "one question a look"


def test_the_same_key_lets_the_same_request_go_again_and_never_a_part(database: Database, desk: Desk) -> None:
    promise = {"guarantee": "key", "field": "header:Idempotency-Key", "retention": "24h"}
    batch = Batch(desk, keys="ab", idempotency=promise, lookup=[])
    told = batch.report(LOST)
    assert told["recovery_action"] == "recover_items"
    permit = batch.permitted()
    assert (permit["items"], permit["licence"], permit["revision"]) == (["a", "b"], "key_in_window", 1)
    assert permit["idempotency_key"] == batch.permit["idempotency_key"]
    told = batch.report(answer(a=201, b=500), attempt="attempt-02")
    assert (told["state"], told["effect"], told["code"]) == ("escalated", "unknown", "NOBODY_TO_ASK")
    assert batch.ask().status_code == 409, "a is done, and b alone would have another key"


def revision(*tickets: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"kind": "repair", "payload": {"tickets": list(tickets), **more}, "reason": "corrected"}


def test_a_refused_item_is_repaired_by_itself(database: Database, desk: Desk) -> None:
    batch = Batch(desk, keys="abc")
    told = batch.report(answer(a=201, b=422, c=201))
    assert told["recovery_action"] == "recover_items"
    assert batch.ask().json()["data"]["decision"]["code"] == "ITEMS_NEED_CHANGES"
    for wrong, code in (
        (revision({"ref": "a", "title": "New"}), "EFFECT_NOT_NONE"),
        (revision({"ref": "z", "title": "New"}), "ITEM_UNKNOWN"),
        (revision({"ref": "b", "title": "T b"}), "UNCHANGED"),
        (revision({"ref": "b", "title": "New"}, more=1), "CHANGED_BESIDE_FIELD"),
    ):
        refused = batch.api.post("/operations/b-1/revisions", wrong)
        assert (refused.status_code, refused.json()["data"]["reason"]) == (409, code)
    made = batch.api.post("/operations/b-1/revisions", revision({"ref": "b", "title": "New"}))
    assert made.status_code == 201, made.json()
    permit = batch.permitted()
    assert (permit["items"], permit["licence"]) == (["b"], "effect_none_proved")
    assert permit["payload"] == {"tickets": [{"ref": "b", "title": "New"}]}
    assert batch.report(answer(b=201), attempt="attempt-02")["outcome"] == "applied"


def test_a_repaired_item_is_sent_again_as_it_was_last_meant(database: Database, desk: Desk) -> None:
    batch = Batch(desk, keys="ab")
    batch.report(answer(a=201, b=422))
    assert batch.api.post("/operations/b-1/revisions", revision({"ref": "b", "title": "New"})).status_code == 201
    batch.permitted()
    batch.report(answer(b=429), attempt="attempt-02")
    permit = batch.permitted()
    assert (permit["revision"], permit["payload"]) == (2, {"tickets": [{"ref": "b", "title": "New"}]})


@pytest.fixture
def people(database: Database) -> dict[str, Signer]:
    """Two people who may sign."""
    names = ("olive-b", "ada-b")
    return {
        name: Signer(id=ensure_person(username=name, name=name, password="x" * 20), username=name) for name in names
    }


def attested(batch: Batch, signer: Signer, **answers: str) -> int | None:
    now = held(id=batch.id)
    assert now is not None
    return attest_items(
        held=now,
        signer=signer,
        answers={key: Answer(answer) for key, answer in answers.items()},
        reason="looked at the owner's list",
        evidence_url="",
        expected_version=now.facts.version,
        signs=first_signature(id=batch.id),
    )


def test_a_person_answers_for_each_open_item(database: Database, desk: Desk, people: dict[str, Signer]) -> None:
    batch = Batch(desk, keys="abc", lookup=[])
    assert batch.report(answer(a=201))["state"] == "escalated"
    assert attested(batch, people["olive-b"], b="applied")
    data = batch.read()
    assert (data["state"], effects(data)) == ("escalated", {"a": "applied", "b": "applied", "c": "unknown"})
    assert attested(batch, people["olive-b"], c="not_applied"), "waits for a second person: no guarantee covers it"
    assert effects(batch.read())["c"] == "unknown"
    with pytest.raises(ValueError, match="another person's"):
        attested(batch, people["olive-b"], c="not_applied")
    with pytest.raises(ValueError, match="same answers"):
        attested(batch, people["ada-b"], c="applied")
    assert attested(batch, people["ada-b"], c="not_applied")
    data = batch.read()
    assert (data["state"], data["outcome"], data["effect"]) == ("settled", "partially_applied", "partial")
    assert [item["outcome"] for item in data["items"]] == ["applied", "applied", "not_applied"]
    assert len(data["items"][2]["evidence"]) == 3, "the report and two people"


def test_a_person_closes_what_is_partial_for_good(database: Database, desk: Desk, people: dict[str, Signer]) -> None:
    batch = Batch(desk, keys="ab", budgets={"retries": 0})
    batch.report(answer(a=201, b=429))
    assert attested(batch, people["olive-b"])
    assert batch.read()["outcome"] == "partially_applied"


def test_only_open_items_are_asked_about(database: Database, desk: Desk, people: dict[str, Signer]) -> None:
    batch = Batch(desk, keys="ab", lookup=[])
    batch.report(answer(a=201))
    for answers in ({"a": "not_applied"}, {"z": "applied"}, {"b": "cannot_tell"}, {}):
        with pytest.raises(ValueError, match=r"not open|at least one"):
            attested(batch, people["olive-b"], **answers)


def test_ascertain_itself_sends_what_may_go_again(database: Database, desk: Desk) -> None:
    dispatch = {"http": {"method": "POST", "path": "/tickets"}}
    batch = Batch(desk, keys="abcd", dispatch=dispatch)
    desk.holds["a"] = {"title": "T a"}
    told = batch.report(answer(a=201, b=429, c=429))
    assert told["state"] == "waiting", "the harness has nothing to do"
    data = batch.look_until(lambda data: data["state"] == "settled", seconds=25)
    assert data["outcome"] == "applied"
    assert desk.sent[0] == ["b", "c"]
    assert sorted(key for request in desk.sent for key in request) == ["b", "c", "d"], "each once, d after its absence"
    assert batch.ask().status_code == 409


def test_rounds_that_end_go_to_a_person_and_lookups_go_on(database: Database, desk: Desk) -> None:
    batch = Batch(desk, keys="abcdefghijklmnopqrstuvwxyz", budgets={"polls": 2})
    batch.report(LOST)
    desk.down = True
    data = batch.look_until(lambda data: data["state"] == "escalated")
    assert (data["decision"]["code"], data["budgets"]["polls"]["used"]) == ("POLLS_ENDED", 2)
    desk.down = False
    desk.holds |= {key: {"title": f"T {key}"} for key in "abcdefghijklmnopqrstuvwxyz"}
    assert batch.look_until(lambda data: data["state"] == "settled")["outcome"] == "applied"


def test_the_deadline_ends_what_is_left_with_a_person(database: Database, desk: Desk) -> None:
    batch = Batch(desk, keys="ab", deadline="1s", lookup=[])
    assert batch.report(answer(a=201, b=422))["state"] == "open"
    data = batch.look_until(lambda data: data["state"] == "escalated")
    assert (data["effect"], data["decision"]["code"]) == ("partial", "DEADLINE_PASSED")
    assert batch.ask().status_code == 409
