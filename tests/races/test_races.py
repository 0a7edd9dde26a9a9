"""Many threads at one operation, through the real web server: the laws hold whoever wins."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import httpx2
import pytest

from ledger.database import execute
from tests.conftest import TICKETS, Bench, make_bench
from tests.journeys.laws import assert_lawful

MANY = 20
PAYLOAD = {"title": "Export broken", "customer": "c-19"}
NOT_SENT = {"kind": "exception", "exception": "ConnectError", "phase": "connect", "network_attempts": 1}
LOST = {"kind": "exception", "exception": "ReadTimeout", "phase": "await", "bytes_sent": 300, "request_bytes": 300}


@pytest.fixture
def bench(database: object) -> Bench:
    """A workspace whose tool may be retried at once, often."""
    made = make_bench()
    made.publish(
        {
            **TICKETS,
            "budgets": {"retries": 50},
            "retry": {"first": "1ms", "factor": 1, "max": "1ms", "jitter": 0},
            "dispatch_within": "10s",
            "timeout": "10s",
        }
    )
    return made


class Calls:
    """Harnesses that share a token."""

    def __init__(self, web: str, bench: Bench) -> None:
        self._client = httpx2.Client(
            base_url=f"{web}/api/v1",
            headers={"authorization": f"Bearer {bench.token}"},
            timeout=60,
            trust_env=False,
            limits=httpx2.Limits(max_connections=MANY),
        )

    def close(self) -> None:
        self._client.close()

    def post(self, path: str, body: Any) -> httpx2.Response:
        return self._client.post(path, json=body)

    def get(self, path: str) -> Any:
        return self._client.get(path).json()["data"]

    def open(self, *, attempt: bool, payload: Any = PAYLOAD) -> httpx2.Response:
        body = {"operation_id": "t-1", "tool": "tickets.create", "payload": payload, "attempt": attempt}
        return self.post("/operations", body)

    def at_once(self, call: Callable[[int], httpx2.Response]) -> list[httpx2.Response]:
        """MANY threads that all start at the same moment."""
        line = threading.Barrier(MANY)

        def one(number: int) -> httpx2.Response:
            line.wait(30)
            return call(number)

        with ThreadPoolExecutor(MANY) as pool:
            answers = list(pool.map(one, range(MANY)))
        assert not [answer.text for answer in answers if answer.status_code >= 500], "a race is never an error of ours"
        return answers


@pytest.fixture
def calls(web: str, bench: Bench) -> Iterator[Calls]:
    with closing(Calls(web, bench)) as made:
        yield made


def test_the_same_operation_opened_by_all_gives_one_permit(calls: Calls, bench: Bench) -> None:
    answers = calls.at_once(lambda number: calls.open(attempt=True))
    permits = [answer for answer in answers if answer.json()["data"].get("permit")]
    assert len(permits) == 1
    assert Counter(answer.status_code for answer in answers) == {201: 1, 200: MANY - 1}
    assert len({answer.json()["data"]["id"] for answer in answers}) == 1
    assert assert_lawful(workspace_id=bench.id, operation_id="t-1") == ["open_operation"]


def test_one_permit_when_all_ask_for_the_first(calls: Calls, bench: Bench) -> None:
    calls.open(attempt=False)
    answers = calls.at_once(lambda number: calls.post("/operations/t-1/attempts", {}))
    assert Counter(answer.status_code for answer in answers) == {201: 1, 409: MANY - 1}
    refused = {answer.json()["data"]["decision"]["code"] for answer in answers if answer.status_code == 409}
    assert refused == {"ATTEMPT_IN_FLIGHT"}
    assert_lawful(workspace_id=bench.id, operation_id="t-1")


def test_all_report_and_ask_again_at_once(calls: Calls, bench: Bench) -> None:
    """Each attempt is proved not sent, so each may be followed by one more; never two are out at the same time."""
    calls.open(attempt=True)

    def one(number: int) -> httpx2.Response:
        for attempt in range(1, 4):
            calls.post(f"/operations/t-1/attempts/attempt-{attempt:02d}/observations", {**NOT_SENT, "errno": number})
            answer = calls.post("/operations/t-1/attempts", {})
        return answer

    calls.at_once(one)
    told = calls.get("/operations/t-1")
    assert len(told["attempts"]) >= 2, "some thread got a second permit"
    verbs = Counter(assert_lawful(workspace_id=bench.id, operation_id="t-1"))
    assert verbs["open_attempt"] == len(told["attempts"]) - 1
    digests = execute(
        "SELECT count(*), count(DISTINCT (attempt, digest)) FROM evidence WHERE operation = %s", [told["id"]]
    )
    assert digests[0][0] == digests[0][1] == verbs["record_observation"], "each report is evidence once"


def test_the_same_report_from_all_is_one_piece_of_evidence(calls: Calls, bench: Bench) -> None:
    calls.open(attempt=True)
    path = "/operations/t-1/attempts/attempt-01/observations"
    answers = calls.at_once(lambda number: calls.post(path, LOST))
    assert {answer.status_code for answer in answers} == {200}
    assert {answer.json()["data"]["recovery_action"] for answer in answers} == {"reconcile"}
    told = calls.get("/operations/t-1")
    assert (len(told["evidence"]), told["version"], told["effect"]) == (1, 2, "unknown")
    assert_lawful(workspace_id=bench.id, operation_id="t-1")


def test_different_reports_and_asking_while_unknown_give_no_permit(calls: Calls, bench: Bench) -> None:
    calls.open(attempt=True)
    path = "/operations/t-1/attempts/attempt-01/observations"

    def one(number: int) -> httpx2.Response:
        if number % 2:
            return calls.post("/operations/t-1/attempts", {})
        return calls.post(path, {**LOST, "bytes_sent": number})

    answers = calls.at_once(one)
    assert Counter(answer.status_code for answer in answers) == {200: MANY // 2, 409: MANY // 2}
    told = calls.get("/operations/t-1")
    assert (len(told["attempts"]), told["effect"], len(told["evidence"])) == (1, "unknown", MANY // 2)
    assert_lawful(workspace_id=bench.id, operation_id="t-1")


def test_other_payloads_in_the_same_moment_overwrite_nothing(calls: Calls, bench: Bench) -> None:
    answers = calls.at_once(lambda number: calls.open(attempt=True, payload={**PAYLOAD, "title": f"Title {number}"}))
    assert Counter(answer.status_code for answer in answers) == {201: 1, 409: MANY - 1}
    won = next(answer.json()["data"] for answer in answers if answer.status_code == 201)
    for answer in answers:
        if answer.status_code == 409:
            assert answer.json()["error"]["code"] == "OPERATION_MISMATCH"
            assert answer.json()["data"]["recorded"]["payload_digest"] == won["payload_digest"]
    kept = execute("SELECT count(*) FROM revision WHERE operation = %s", [won["id"]])
    assert kept[0][0] == 1
    assert calls.get("/operations/t-1")["payload_digest"] == won["payload_digest"]


def test_the_same_identity_under_many_names_gives_one_permit(calls: Calls, bench: Bench) -> None:
    """Law 11: only one of several operations with the same identity is sent."""

    def one(number: int) -> httpx2.Response:
        body = {"operation_id": f"t-{number}", "tool": "tickets.create", "payload": PAYLOAD, "attempt": True}
        return calls.post("/operations", body)

    answers = calls.at_once(one)
    assert {answer.status_code for answer in answers} == {201}
    assert sum(answer.json()["data"]["permit"] is not None for answer in answers) == 1
    for number in range(MANY):
        assert_lawful(workspace_id=bench.id, operation_id=f"t-{number}")
