"""Ascertain sends licensed repeats itself, against a real owner behind a proxy that loses answers; without workers."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import httpx2
import pytest
from cryptography.fernet import Fernet
from django.conf import settings
from django.db import connection

from ledger.database import execute
from ledger.transitions.owners import pause, resume
from ledger.transitions.secrets import set_secret
from recovery.reconcile import Done, reconcile
from recovery.sealing import seal
from tests.conftest import TICKETS, Api, Bench, Database, make_bench
from tests.journeys.laws import assert_lawful
from tests.owners.fault_proxy import FaultProxy
from tests.owners.key_owner import KeyOwner, running

PAYLOAD = {"title": "Export broken", "customer": "c-19"}
LOST = {"kind": "exception", "exception": "ReadTimeout", "phase": "await", "bytes_sent": 300, "request_bytes": 300}
NOT_SENT = {"kind": "exception", "exception": "ConnectError", "phase": "connect", "bytes_sent": 0}
BY_KEY = {
    "by": "status",
    "http": {"method": "GET", "path": "/tickets/by-key/{idempotency_key}"},
    "found": "status == 200",
    "authoritative": True,
    "sees": "all",
    "same": {"title": "body.title", "customer": "body.customer"},
}
KEYED = {
    **TICKETS,
    "idempotency": {
        "guarantee": "key",
        "field": "header:Idempotency-Key",
        "retention": "1h",
        "on_payload_mismatch": "reject",
        "in_flight": "status == 409",
        "replay_marker": "headers['idempotent-replayed'] == 'true'",
    },
    "dispatch": {"http": {"method": "POST", "path": "/tickets"}},
    "lookup": [{"by": "replay"}],
    "timeout": "2s",
    "budgets": {"retries": 3, "polls": 4},
}


@dataclass(slots=True, kw_only=True)
class Stage:
    """One operation of one harness, at one owner."""

    api: Api
    bench: Bench
    owner: KeyOwner
    proxy: FaultProxy
    id: UUID

    def read(self) -> dict[str, Any]:
        data: dict[str, Any] = self.api.get("/operations/t-1").json()["data"]
        return data

    def report(self, observation: dict[str, Any], attempt: str = "attempt-01") -> dict[str, Any]:
        answer = self.api.post(f"/operations/t-1/attempts/{attempt}/observations", observation)
        assert answer.status_code == 200, answer.content
        data: dict[str, Any] = answer.json()["data"]
        return data

    def harness_sends(self, *, key: str = "t-1", payload: Any = PAYLOAD) -> httpx2.Response:
        """The harness's own first call, past the proxy."""
        headers = {"idempotency-key": key}
        return httpx2.post(f"{self.owner.url}/tickets", json=payload, headers=headers, trust_env=False)

    def until(self, *states: str, seconds: float = 15) -> dict[str, Any]:
        """Look whenever it is due, until the operation is in one of these states."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            reconcile(id=self.id, time_left=15)
            data = self.read()
            if data["state"] in states:
                return data
            time.sleep(0.03)
        rows = [(row["source"], row["outcome"], row["effect"], row["reasons"]) for row in data["evidence"][-4:]]
        raise AssertionError(f"still {data['state']}: {data['decision']['message']} {self.sent_by()} {rows}")

    def sent_by(self) -> list[tuple[str, str, str | None]]:
        return [(each["kind"], each["sender"], each["licence"]) for each in self.read()["attempts"]]

    def lawful(self) -> list[str]:
        return assert_lawful(workspace_id=self.bench.id, operation_id="t-1")


@pytest.fixture
def stage(database: Database) -> Iterator[Callable[..., Stage]]:
    with ExitStack() as stack:

        def make(*, owner: dict[str, Any] | None = None, body: dict[str, Any] | None = None, **more: Any) -> Stage:
            made = stack.enter_context(running(**(owner or {})))
            proxy = stack.enter_context(FaultProxy(upstream_port=made.port))
            bench = make_bench(owner_url=proxy.url)
            bench.publish({**KEYED, **more})
            api = Api(bench.token)
            intent = {"operation_id": "t-1", "tool": "tickets.create", "payload": PAYLOAD, "attempt": True}
            opened = api.post("/operations", {**intent, **(body or {})})
            assert opened.status_code == 201, opened.content
            return Stage(api=api, bench=bench, owner=made, proxy=proxy, id=UUID(opened.json()["data"]["id"]))

        yield make


def test_a_licensed_retry_is_sent_by_ascertain_and_the_harness_is_told_to_wait(stage: Callable[..., Stage]) -> None:
    s = stage()
    told = s.report(NOT_SENT)
    assert (told["state"], told["effect"]) == ("waiting", "none")
    assert told["recovery_action"] == "wait"
    assert told["retryable"] is False
    assert told["for_agent"]["error"] | {"message": ""} == {
        "code": "PENDING",
        "class": "fatal",
        "retryable": False,
        "retry_after_ms": None,
        "field": None,
        "hint": "Do not repeat the call: Ascertain sends it again itself. Ask again for this operation when told.",
        "message": "",
    }
    data = s.until("settled")
    assert (data["outcome"], len(s.owner.tickets)) == ("applied", 1)
    assert s.sent_by() == [("dispatch", "harness", None), ("retry", "worker", "effect_none_proved")]
    [post] = s.owner.posts()
    assert post.headers["idempotency-key"] == "t-1"
    assert post.body == '{"customer":"c-19","title":"Export broken"}'
    assert data["evidence"][-1]["source"] == "worker/http"
    assert data["evidence"][-1]["speaker"] == "owner_answer"
    assert s.lawful() == ["open_operation", "record_observation", "open_attempt", "record_observation"]


@pytest.mark.parametrize(
    ("reached", "fault", "posts"),
    [(True, None, 2), (False, None, 1), (True, "drop_after", 3), (False, "drop_after", 2), (False, "502_after", 2),
     (False, "truncate", 1), (False, "drop_before", 1)],
    ids=["committed-and-lost", "never-arrived", "the-replay-is-lost-too", "the-replay-commits-and-is-lost",
         "a-gateway-after-it-commits", "half-an-answer", "the-replay-does-not-arrive"],
)  # fmt: skip
def test_a_replay_finds_out_and_there_is_one_effect(
    stage: Callable[..., Stage], reached: bool, fault: str | None, posts: int
) -> None:
    s = stage()
    if reached:
        s.harness_sends()
    if fault:
        s.proxy.fail(fault, times=1, match="POST")
    told = s.report(LOST)
    assert told["state"] == "reconciling"
    data = s.until("settled")
    assert (data["outcome"], data["effect"], len(s.owner.tickets)) == ("applied", "applied", 1)
    assert len(s.owner.posts()) == posts
    assert {key.headers["idempotency-key"] for key in s.owner.posts()} == {"t-1"}
    # A status that the contract's success rule takes is enough, whatever became of the body.
    kinds = s.sent_by()
    assert kinds[0] == ("dispatch", "harness", None)
    assert set(kinds[1:]) == {("replay", "worker", "key_in_window")}
    replays = len(kinds) - 1
    assert data["budgets"]["polls"]["used"] == replays, "a replay spends a poll"
    assert data["budgets"]["retries"]["used"] == 0
    assert data["budgets"]["network_attempts"]["used"] == 1 + replays, "and is a network attempt"
    s.lawful()


def test_a_wait_that_the_owner_asks_for_is_kept_without_the_agent(stage: Callable[..., Stage]) -> None:
    s = stage()
    s.owner.next_answers.append((429, {"error": "slow down"}, {"retry-after": "2"}))
    s.report(NOT_SENT)
    data = s.until("settled")
    assert (data["outcome"], len(s.owner.tickets), len(s.owner.posts())) == ("applied", 1, 2)
    refused, sent = [each["opened_at"] for each in data["attempts"][1:]]
    waited = execute("SELECT %s::timestamptz - %s::timestamptz", [sent, refused])[0][0]
    assert 2.0 <= waited.total_seconds() < 6.0
    assert data["budgets"]["retries"]["used"] == 2


def test_a_key_whose_window_is_over_is_never_sent_again(stage: Callable[..., Stage]) -> None:
    """Of 62 seconds a minute is kept as a margin, so two are left."""
    s = stage(idempotency={**KEYED["idempotency"], "retention": "62s"})
    s.report({**LOST, "observed_at": None})
    time.sleep(2.1)
    data = s.until("escalated")
    assert data["decision"]["code"] == "NOBODY_TO_ASK"
    assert s.owner.posts() == []
    assert len(data["attempts"]) == 1
    assert s.api.post("/operations/t-1/attempts", {}).status_code == 409
    s.lawful()


def test_the_next_way_is_asked_when_the_window_is_over(stage: Callable[..., Stage]) -> None:
    s = stage(idempotency={**KEYED["idempotency"], "retention": "62s"}, lookup=[{"by": "replay"}, BY_KEY])
    s.harness_sends()
    s.report(LOST)
    time.sleep(2.1)
    data = s.until("settled")
    assert (data["outcome"], len(s.owner.posts()), len(data["attempts"])) == ("applied", 1, 1)


def test_the_order_of_the_ways_is_the_contracts(stage: Callable[..., Stage]) -> None:
    """The status is asked first, does not know it yet, and the replay has its turn in the same look."""
    s = stage(lookup=[BY_KEY, {"by": "replay"}])
    s.report(LOST)
    data = s.until("settled")
    assert [each.method for each in s.owner.asked] == ["GET", "POST"]
    assert (data["outcome"], len(s.owner.tickets)) == ("applied", 1)


def test_a_way_after_the_replay_is_asked_in_the_same_look(stage: Callable[..., Stage]) -> None:
    s = stage(lookup=[{"by": "replay"}, BY_KEY])
    s.harness_sends()
    s.proxy.fail("hang_before", match="POST")
    s.report(LOST)
    data = s.until("settled")
    assert (data["outcome"], len(s.owner.tickets)) == ("applied", 1)
    assert [evidence["source"] for evidence in data["evidence"]] == [
        "harness/exception",
        "worker/exception",
        "helpdesk/status",
    ]
    s.lawful()


@pytest.mark.parametrize(
    ("lookup", "state", "code"),
    [([{"by": "replay"}], "escalated", "CONFLICT"), ([{"by": "replay"}, BY_KEY], "escalated", "CONFLICT")],
    ids=["nobody-else-to-ask", "its-own-record-decides"],
)
def test_a_key_with_other_contents_is_not_sent_again(
    stage: Callable[..., Stage], lookup: list[dict[str, Any]], state: str, code: str
) -> None:
    s = stage(lookup=lookup)
    s.harness_sends(payload={**PAYLOAD, "customer": "c-20"})
    s.report(LOST)
    data = s.until(state)
    assert data["decision"]["code"] == code
    assert len(s.owner.posts()) == 2, "asked once more with the key, and never again"
    assert len(s.owner.tickets) == 1
    s.lawful()


def test_a_stored_failure_is_not_asked_for_again(stage: Callable[..., Stage]) -> None:
    s = stage(
        owner={"caches_errors": True},
        idempotency={**KEYED["idempotency"], "caches_errors": True},
    )
    s.owner.next_failures.append((500, {"error": "broken"}, {}))
    assert s.harness_sends().status_code == 500
    s.report(LOST)
    data = s.until("escalated")
    assert data["decision"]["code"] == "STORED_FAILURE"
    assert data["effect"] == "unknown"
    assert len(s.owner.posts()) == 2
    s.lawful()


def test_without_a_marker_the_same_failure_twice_is_enough(stage: Callable[..., Stage]) -> None:
    s = stage(
        owner={"caches_errors": True, "marks_replays": False},
        idempotency={**KEYED["idempotency"], "caches_errors": True},
    )
    s.owner.next_failures.append((500, {"error": "broken"}, {}))
    s.harness_sends()
    s.report(LOST)
    data = s.until("escalated")
    assert data["effect"] == "unknown"
    assert len(s.owner.posts()) == 3


def test_a_stored_refusal_is_the_answer_to_every_request_with_the_key(stage: Callable[..., Stage]) -> None:
    s = stage(
        owner={"caches_errors": True},
        idempotency={**KEYED["idempotency"], "caches_errors": True},
        errors=[{"when": "status == 402", "class": "business_rule", "effect": "none", "code": "CARD_DECLINED"}],
    )
    s.owner.next_failures.append((402, {"error": {"code": "card_declined"}}, {}))
    assert s.harness_sends().status_code == 402
    s.report(LOST)
    data = s.until("settled")
    assert (data["outcome"], data["effect"]) == ("not_applied", "none")
    assert data["decision"]["code"] == "CARD_DECLINED"
    assert [each["effect"] for each in data["attempts"]] == ["none", "none"]
    assert len(s.owner.posts()) == 2
    s.lawful()


def test_a_refusal_without_a_marker_says_nothing_of_the_first_request(stage: Callable[..., Stage]) -> None:
    s = stage(errors=[{"when": "status == 402", "class": "business_rule", "effect": "none", "code": "CARD_DECLINED"}])
    s.owner.next_answers.append((402, {"error": {"code": "card_declined"}}, {}))
    s.report(LOST)
    data = s.until("escalated")
    assert data["effect"] == "unknown"
    assert [each["effect"] for each in data["attempts"]] == ["unknown", "none"]
    assert len(s.owner.posts()) == 1, "it was refused for good: not again"


def test_a_key_in_use_is_pending_and_asked_again(stage: Callable[..., Stage]) -> None:
    s = stage()
    s.owner.next_answers.append((409, {"error": "in progress"}, {}))
    s.report(LOST)
    data = s.until("waiting")
    assert data["effect"] == "pending"
    assert [each["effect"] for each in data["attempts"]] == ["pending", "pending"]
    data = s.until("settled")
    assert (data["outcome"], len(s.owner.tickets)) == ("applied", 1)
    s.lawful()


@pytest.mark.parametrize(
    ("dispatch", "principal"),
    [({"principal": "svc-b"}, "svc-a"), ({"as": "env:KEY_OWNER_TOKEN"}, "svc-a"), ({"principal": "svc-b"}, None)],
    ids=["acts-as-another", "not-known-as-whom", "the-operation-states-none"],
)
def test_a_key_is_never_sent_as_another_principal(
    stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch, dispatch: dict[str, Any], principal: str | None
) -> None:
    monkeypatch.setenv("KEY_OWNER_TOKEN", "token-of-svc-b")
    body = {"principal": principal} if principal else {}
    s = stage(body=body, dispatch={**KEYED["dispatch"], **dispatch}, lookup=[{"by": "replay"}, BY_KEY])
    s.harness_sends()
    s.report(LOST)
    data = s.until("settled")
    assert (data["outcome"], len(s.owner.posts())) == ("applied", 1)
    assert [each["sender"] for each in data["attempts"]] == ["harness"]


def test_our_own_principal_may(stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY_OWNER_TOKEN", "token-of-svc-a")
    dispatch = {**KEYED["dispatch"], "as": "env:KEY_OWNER_TOKEN", "principal": "svc-a"}
    s = stage(body={"principal": "svc-a"}, dispatch=dispatch)
    s.report(LOST)
    assert s.until("settled")["outcome"] == "applied"
    [post] = s.owner.posts()
    assert post.headers["authorization"] == "Bearer token-of-svc-a"
    [original] = execute(
        "SELECT body FROM original WHERE operation = %s AND kind = 'observation' AND body LIKE '%%\"http\"%%'", [s.id]
    )
    assert "token-of-svc-a" not in original[0]


def test_what_cannot_be_put_together_is_left_to_the_harness(stage: Callable[..., Stage]) -> None:
    s = stage(dispatch={**KEYED["dispatch"], "as": "env:NO_SUCH_TOKEN_HERE"})
    told = s.report(NOT_SENT)
    assert told["state"] == "waiting"
    data = s.until("open")
    assert data["decision"]["recovery_action"] == "retry"
    assert (s.owner.posts(), len(data["attempts"])) == ([], 1)
    assert s.api.post("/operations/t-1/attempts", {}).status_code == 201
    assert s.lawful()[-2:] == ["end_wait", "open_attempt"]


def test_a_contract_without_dispatch_leaves_the_permit_to_the_harness(stage: Callable[..., Stage]) -> None:
    s = stage(dispatch=None, lookup=[BY_KEY])
    told = s.report(NOT_SENT)
    assert told["recovery_action"] == "retry"
    assert s.until("open")["decision"]["recovery_action"] == "retry"
    assert s.owner.posts() == []


def test_a_first_dispatch_is_never_ours(stage: Callable[..., Stage]) -> None:
    s = stage(body={"attempt": False}, deadline="2s")
    data = s.until("settled")
    assert (data["outcome"], s.owner.posts(), data["attempts"]) == ("not_applied", [], [])


def test_nothing_is_sent_after_the_deadline(stage: Callable[..., Stage]) -> None:
    s = stage(deadline="3s", retry={"first": "10s", "max": "10s", "jitter": 0})
    s.report({**NOT_SENT})
    time.sleep(3.1)
    data = s.until("settled")
    assert (data["outcome"], s.owner.posts()) == ("not_applied", [])


def test_a_replay_ends_with_the_deadline_too(stage: Callable[..., Stage]) -> None:
    s = stage(deadline="2s", poll={"first": "2500ms", "max": "3s", "jitter": 0})
    s.report(LOST)
    data = s.until("escalated")
    assert s.owner.posts() == []
    assert data["effect"] == "unknown"


def test_the_runs_own_budget_holds_for_what_we_send(stage: Callable[..., Stage]) -> None:
    s = stage()
    s.api.post("/runs", {"run": "run-1", "max_dispatches": 1})
    body = {
        "operation_id": "t-2", "tool": "tickets.create", "payload": {**PAYLOAD, "title": "Another"}, "attempt": True,
        "agent": {"run": "run-1", "step": "1"},
    }  # fmt: skip
    id = UUID(s.api.post("/operations", body).json()["data"]["id"])
    s.api.post("/operations/t-2/attempts/attempt-01/observations", NOT_SENT)
    ends = time.monotonic() + 10
    while (data := s.api.get("/operations/t-2").json()["data"])["state"] == "waiting" and time.monotonic() < ends:
        reconcile(id=id, time_left=15)
    assert (data["state"], data["outcome"]) == ("settled", "not_applied")
    assert data["decision"]["code"] == "RUN_DISPATCHES_BUDGET_ENDED"
    assert s.owner.posts() == []


def _look(id: UUID) -> Done:
    try:
        return reconcile(id=id, time_left=15)
    finally:
        connection.close()


def test_many_workers_at_once_send_once(stage: Callable[..., Stage]) -> None:
    s = stage()
    s.report(NOT_SENT)
    time.sleep(0.2)
    line = threading.Barrier(6)

    def one(_: int) -> Done:
        line.wait(10)
        return _look(s.id)

    with ThreadPoolExecutor(6) as pool:
        came = list(pool.map(one, range(6)))
    assert came.count(Done.SENT) == 1
    assert (len(s.owner.posts()), s.read()["outcome"]) == (1, "applied")
    s.lawful()


def test_many_workers_at_once_replay_once(stage: Callable[..., Stage]) -> None:
    s = stage()
    s.harness_sends()
    s.report(LOST)
    time.sleep(0.2)
    with ThreadPoolExecutor(6) as pool:
        came = list(pool.map(lambda _: _look(s.id), range(6)))
    assert came.count(Done.SENT) == 1
    assert (len(s.owner.posts()), len(s.owner.tickets)) == (2, 1)
    s.lawful()


def test_a_harness_and_a_worker_at_once_are_one_attempt(stage: Callable[..., Stage]) -> None:
    """Whoever comes first has the permit; the other is refused, and nothing is sent twice."""
    for _ in range(5):
        s = stage()
        s.report(NOT_SENT)
        time.sleep(0.2)
        line = threading.Barrier(4)

        def harness(line: threading.Barrier = line, s: Stage = s) -> bool:
            line.wait(10)
            try:
                return bool(Api(s.bench.token).post("/operations/t-1/attempts", {}).status_code == 201)
            finally:
                connection.close()

        def worker(line: threading.Barrier = line, s: Stage = s) -> bool:
            line.wait(10)
            return _look(s.id) is Done.SENT

        with ThreadPoolExecutor(4) as pool:
            won = [each.result() for each in [pool.submit(work) for work in (harness, worker, harness, worker)]]
        assert won.count(True) == 1
        assert len(s.owner.posts()) == won[1] + won[3]
        assert len(s.read()["attempts"]) == 2
        s.lawful()


def test_nobody_else_speaks_for_a_request_that_we_sent(stage: Callable[..., Stage]) -> None:
    s = stage()
    arrived, go_on = threading.Event(), threading.Event()

    def held() -> None:
        arrived.set()
        go_on.wait(10)

    s.owner.next_answers.append(held)
    s.report(NOT_SENT)
    time.sleep(0.2)
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(_look, s.id)
        assert arrived.wait(10)
        refused = s.api.post("/operations/t-1/attempts/attempt-02/observations", NOT_SENT)
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "NOT_THE_SENDER")
        again = s.api.post("/operations/t-1/attempts", {}).json()["data"]["decision"]
        assert again["code"] == "ATTEMPT_IN_FLIGHT"
        go_on.set()
        assert sending.result(10) is Done.SENT
    assert (s.read()["outcome"], len(s.owner.tickets)) == ("applied", 1)
    assert s.lawful() == ["open_operation", "record_observation", "open_attempt", "record_observation"]


def test_the_answer_to_another_payload_is_not_taken_for_ours(stage: Callable[..., Stage]) -> None:
    """The owner answers a known key with the first payload's success: only the check of the outcome can tell."""
    s = stage(
        owner={"silent_original": True},
        idempotency={**KEYED["idempotency"], "on_payload_mismatch": "silent_original"},
        verify={
            "http": {"method": "GET", "path": "/tickets/by-key/{idempotency_key}"},
            "expect": {"customer": "body.customer"},
        },
    )
    s.harness_sends(payload={**PAYLOAD, "customer": "c-20"})
    s.report(LOST)
    data = s.until("escalated", "settled")
    assert (data["state"], data["verification"]) == ("escalated", "failed")
    assert len(s.owner.tickets) == 1


def test_a_sealed_credential_is_sent_with_and_never_told(
    stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "ASCERTAIN_FIELD_KEYS", Fernet.generate_key().decode())
    s = stage(dispatch={**KEYED["dispatch"], "as": "secret:desk"})
    set_secret(workspace_id=s.bench.id, name="desk", sealed=seal("X-Api-Key: very-secret"))
    s.report(NOT_SENT)
    assert s.until("settled")["outcome"] == "applied"
    assert s.owner.posts()[0].headers["x-api-key"] == "very-secret"
    kept = execute("SELECT body FROM original WHERE operation = %s", [s.id])
    assert not [body for (body,) in kept if "very-secret" in body]


def test_a_credential_that_cannot_be_opened_leaves_it_to_the_harness(
    stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "ASCERTAIN_FIELD_KEYS", Fernet.generate_key().decode())
    s = stage(dispatch={**KEYED["dispatch"], "as": "secret:desk"})
    set_secret(workspace_id=s.bench.id, name="desk", sealed=seal("very-secret"))
    monkeypatch.setattr(settings, "ASCERTAIN_FIELD_KEYS", Fernet.generate_key().decode())
    s.report(NOT_SENT)
    assert s.until("open")["decision"]["recovery_action"] == "retry"
    assert s.owner.posts() == []


def test_an_owner_that_is_paused_is_sent_nothing_and_nothing_is_spent(stage: Callable[..., Stage]) -> None:
    s = stage()
    until = execute("SELECT now() + interval '1 hour'")[0][0]
    pause(owner_id=s.bench.owner_id, until=until, because="maintenance", actor="person:olive")
    s.report(NOT_SENT)
    time.sleep(0.3)
    assert _look(s.id) is Done.PUT_BACK
    data = s.read()
    assert (data["state"], len(data["attempts"]), data["budgets"]["retries"]["used"]) == ("waiting", 1, 0)
    resume(owner_id=s.bench.owner_id, actor="person:olive")
    execute("UPDATE schedule SET next_check_at = now() WHERE operation = %s", [s.id])
    assert s.until("settled")["outcome"] == "applied"
