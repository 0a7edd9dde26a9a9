"""An owner's signed notifications: which are taken, which operation they move, and what they may never do."""

import json
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command
from django.test import Client
from standardwebhooks import Webhook

from ledger.database import execute
from ledger.queries.clock import database_now
from ledger.rules.signatures import new_secret
from ledger.transitions.destinations import add_endpoint, disable_endpoint
from recovery.sealing import seal
from tests.conftest import TICKETS, Api, Bench, make_bench

NOTICE = {
    "operation_id": "body.data.reference",
    "idempotency_key": "body.data.key",
    "effect": {
        "applied": "body.type == 'ticket.created'",
        "pending": "body.type == 'ticket.queued'",
        "none": "body.type == 'ticket.rejected'",
    },
    "same": {"title": "body.data.title"},
    "event_at": "body.at",
    "revision": "body.revision",
}
HEARD = {**TICKETS, "notice": NOTICE, "escalation": {"priority": "high", "sla": "4h", "notify": ["support-oncall"]}}
QUIET = {**HEARD, "poll": {"first": "1h", "max": "1h"}}
"""Nobody looks up: whatever happens, the notification did it."""
LOST = {"kind": "exception", "exception": "ReadTimeout", "phase": "await", "bytes_sent": 300, "request_bytes": 300}
TITLE = "Export broken"


class Owner:
    """An owner that signs what it tells, with the reference library."""

    def __init__(self, bench: Bench, *secrets: str) -> None:
        self.secrets = secrets or (new_secret(),)
        self.endpoint = uuid.uuid4()
        add_endpoint(
            workspace_id=bench.id,
            owner_id=bench.owner_id,
            endpoint_id=self.endpoint,
            sealed_secrets=seal(json.dumps(list(self.secrets))),
            now=database_now(),
        )
        self.client = Client(raise_request_exception=False)

    def tell(self, type: str, *, id: str | None = None, headers: dict[str, str] | None = None, **data: Any) -> Any:
        at = data.pop("at", None)
        told: dict[str, Any] = {"type": type, "data": {"title": TITLE, **data}}
        if at is not None:
            told["at"] = at if isinstance(at, str) else at.isoformat()
        body = json.dumps(told).encode()
        return self.send(body, headers=headers or signed(self.secrets[0], body, id=id))

    def send(self, body: bytes, *, headers: dict[str, str], endpoint: str | UUID | None = None) -> Any:
        return self.client.post(
            f"/api/v1/notifications/{endpoint or self.endpoint}",
            data=body,
            content_type="application/json",
            headers=headers,
        )

    def came_to(self) -> list[str]:
        rows = execute("SELECT came_to FROM notice WHERE endpoint_id = %s ORDER BY received_at", [self.endpoint])
        return [row[0] for row in rows]


def signed(secret: str, body: bytes, *, id: str | None = None, ago: float = 0) -> dict[str, str]:
    message, at = id or f"msg_{uuid.uuid4().hex}", datetime.now(UTC) - timedelta(seconds=ago)
    return {
        "webhook-id": message,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(secret).sign(message, at, body.decode()),
    }


@pytest.fixture
def told(database: Any) -> Callable[..., tuple[Api, Owner, Bench]]:
    """An operation, by default one whose answer was lost, and its owner."""

    def make(document: dict[str, Any] = QUIET, *, report: Any = LOST, **body: Any) -> tuple[Api, Owner, Bench]:
        bench = make_bench()
        bench.publish(document)
        api = Api(bench.token)
        begun = {"operation_id": "t-1", "tool": "tickets.create", "payload": {"title": TITLE}, "attempt": True, **body}
        assert api.post("/operations", begun).status_code == 201
        if report is not None:
            assert api.post("/operations/t-1/attempts/attempt-01/observations", report).status_code == 200
        return api, Owner(bench), bench

    return make


def now(api: Api, name: str = "t-1") -> dict[str, Any]:
    data: dict[str, Any] = api.get(f"/operations/{name}").json()["data"]
    return data


def kinds(bench: Bench) -> list[str]:
    return [row[0] for row in execute("SELECT kind FROM event WHERE workspace_id = %s ORDER BY id", [bench.id])]


def test_a_lost_answer_is_settled_by_the_owners_word(told: Any) -> None:
    api, owner, _ = told()
    assert owner.tell("ticket.created", reference="t-1", at="2026-12-01T00:00:00Z").status_code == 204
    data = now(api)
    assert (data["state"], data["outcome"]) == ("settled", "applied")
    evidence = data["evidence"][-1]
    assert (evidence["speaker"], evidence["source"], evidence["proof"]) == (
        "owner_notice", "helpdesk/notice", "owner_result",
    )  # fmt: skip
    assert evidence["event_at"] == "2026-12-01T00:00:00Z"
    assert owner.came_to() == ["recorded"]
    assert api.post("/operations/t-1/attempts", {}).status_code == 409


def test_it_is_found_by_the_key_that_it_repeats(told: Any) -> None:
    api, owner, _ = told()
    assert owner.tell("ticket.created", key="t-1").status_code == 204
    assert now(api)["outcome"] == "applied"


def test_the_same_message_again_is_taken_and_changes_nothing(told: Any) -> None:
    api, owner, _ = told()
    for _ in range(3):
        assert owner.tell("ticket.created", id="msg_1", reference="t-1").status_code == 204
    data = now(api)
    assert len([row for row in data["evidence"] if row["speaker"] == "owner_notice"]) == 1
    assert owner.came_to() == ["recorded"]


def test_it_may_come_before_the_harness_has_its_own_answer(told: Any) -> None:
    api, owner, _ = told(report=None)
    assert now(api)["state"] == "dispatched"
    owner.tell("ticket.created", reference="t-1")
    data = now(api)
    assert (data["state"], data["outcome"]) == ("settled", "applied")
    assert data["attempts"][0]["closed_at"], "its attempt is over"
    late = {"kind": "http", "status": 201, "body": {"id": 7}}
    assert api.post("/operations/t-1/attempts/attempt-01/observations", late).status_code == 200
    assert now(api)["outcome"] == "applied", "the harness's own answer only adds to it"


def test_a_refusal_while_the_attempt_is_out_is_kept_and_permits_nothing(told: Any) -> None:
    """The SDK may be sending the same request again by itself; only the attempt's end says that it does not."""
    api, owner, _ = told(report=None)
    owner.tell("ticket.rejected", reference="t-1")
    data = now(api)
    assert (data["state"], data["effect"]) == ("dispatched", "unknown")
    assert owner.came_to() == ["settles_nothing"]
    assert api.post("/operations/t-1/attempts", {}).status_code == 409


def test_a_refusal_after_the_attempts_end_licenses_a_repeat(told: Any) -> None:
    api, owner, _ = told()
    owner.tell("ticket.rejected", reference="t-1")
    data = now(api)
    assert data["effect"] == "none"
    assert (data["state"], data["decision"]["licence"]) == ("waiting", "effect_none_proved")


def test_a_refusal_of_one_of_several_requests_says_nothing_of_the_others(told: Any) -> None:
    api, owner, _ = told(report={**LOST, "network_attempts": 3})
    owner.tell("ticket.rejected", reference="t-1")
    assert now(api)["effect"] == "unknown", "without a key guarantee each request may have had an effect of its own"


def test_what_is_running_waits_and_what_came_earlier_undoes_nothing(told: Any) -> None:
    api, owner, _ = told()
    early, late = database_now() - timedelta(minutes=3), database_now() - timedelta(minutes=1)
    owner.tell("ticket.queued", reference="t-1", at=late)
    assert (now(api)["state"], now(api)["effect"]) == ("waiting", "pending")
    owner.tell("ticket.rejected", reference="t-1", at=early)
    assert now(api)["effect"] == "pending", "the refusal happened before it was queued"
    owner.tell("ticket.created", reference="t-1", at=early)
    assert now(api)["outcome"] == "applied", "what has happened has happened, whenever it is told"


def test_something_else_than_was_meant_is_a_conflict(told: Any) -> None:
    api, owner, bench = told()
    owner.tell("ticket.created", reference="t-1", title="Another")
    data = now(api)
    assert (data["state"], data["effect"], data["decision"]["code"]) == ("escalated", "unknown", "CONFLICT")
    assert "title" in data["decision"]["message"]
    assert kinds(bench) == ["operation.escalated"]


def test_what_cannot_be_compared_proves_nothing(told: Any) -> None:
    api, owner, _ = told()
    owner.tell("ticket.created", reference="t-1", title=None)
    assert now(api)["state"] == "escalated", "null is not the title that was meant"
    api, owner, _ = told()
    body = json.dumps({"type": "ticket.created", "data": {"reference": "t-1"}}).encode()
    owner.send(body, headers=signed(owner.secrets[0], body))
    assert now(api)["effect"] == "unknown"
    assert owner.came_to() == ["settles_nothing"]


def test_a_message_of_no_known_kind_is_kept_as_evidence(told: Any) -> None:
    api, owner, _ = told()
    assert owner.tell("ticket.viewed", reference="t-1").status_code == 204
    data = now(api)
    assert (data["effect"], data["state"]) == ("unknown", "reconciling")
    assert data["evidence"][-1]["reasons"] == ["What it says of the effect is not in the contract."]
    assert owner.came_to() == ["settles_nothing"]


def test_late_evidence_confirms_or_reopens_and_says_what_it_contradicts(told: Any) -> None:
    api, owner, bench = told()
    owner.tell("ticket.created", reference="t-1", at=database_now() - timedelta(minutes=2))
    version = now(api)["version"]
    owner.tell("ticket.created", reference="t-1")
    data = now(api)
    assert (data["state"], data["version"]) == ("settled", version + 1), "kept, and nothing else"
    owner.tell("ticket.rejected", reference="t-1", at=database_now() - timedelta(minutes=5))
    assert now(api)["state"] == "settled", "the refusal came before the creation"
    owner.tell("ticket.rejected", reference="t-1", at=database_now())
    data = now(api)
    assert (data["state"], data["outcome"], data["effect"]) == ("escalated", None, "applied")
    assert data["decision"]["code"] == "OUTCOME_CONTRADICTED"
    [(payload,)] = execute(
        "SELECT payload::text FROM event WHERE workspace_id = %s AND kind = 'operation.reopened'", [bench.id]
    )
    payload = json.loads(payload)
    assert payload["contradicts"] == "applied"
    assert payload["notify"] == ["support-oncall"]
    assert payload["priority"] == "high"
    assert payload["sla_at"]
    assert TITLE not in json.dumps(payload), "an event holds no payload members"


def test_an_absence_that_was_settled_is_reopened_and_holds_its_identity_again(told: Any) -> None:
    api, owner, _ = told(report={"kind": "http", "status": 422, "body": {"error": "no"}})
    assert api.post("/operations/t-1/attempts/attempt-01/observations", {}).status_code in (200, 422)
    execute(  # as the deadline would: nothing happened, and no time is left
        "UPDATE schedule SET next_check_at = now() WHERE operation = %s", [now(api)["id"]]
    )
    settle_as_not_applied(api)
    assert now(api)["outcome"] == "not_applied"
    owner.tell("ticket.created", reference="t-1")
    data = now(api)
    assert (data["state"], data["effect"]) == ("escalated", "applied")
    again = {"operation_id": "t-2", "tool": "tickets.create", "payload": {"title": TITLE}, "attempt": True}
    answer = api.post("/operations", again).json()["data"]
    assert answer["permit"] is None, "the same intent is not sent a second time while this one is in doubt"
    call_command("verify_ledger")


def settle_as_not_applied(api: Api) -> None:
    """End a refused operation as its deadline does."""
    from ledger.queries.facts import held_by_name
    from ledger.rules.decision import Decision
    from ledger.rules.vocabulary import Action, Effect, FailureClass, Request
    from ledger.transitions.passing_of_time import end_by_limit

    workspace = execute("SELECT workspace_id FROM operation WHERE id = %s", [now(api)["id"]])[0][0]
    held = held_by_name(workspace_id=workspace, operation_id="t-1")
    assert held is not None
    decision = Decision(
        recovery_action=Action.STOP,
        failure_class=FailureClass.FATAL,
        effect_status=Effect.NONE,
        request=Request.REJECTED,
        rule="limit.nothing_happened",
        code="DEADLINE_PASSED",
        hint="",
        message="",
    )
    assert end_by_limit(held=held, decision=decision) is not None


def test_another_workspaces_operation_and_another_owners_are_none(told: Any) -> None:
    api, _, bench = told()
    _, stranger, _ = told()
    assert stranger.tell("ticket.created", reference="t-1").status_code == 204
    assert stranger.came_to() == ["recorded"], "it has a t-1 of its own"
    assert now(api)["effect"] == "unknown", "and this one is not touched"
    from ledger.transitions.workspace import ensure_owner

    other = ensure_owner(workspace_id=bench.id, name="payments", base_url="http://127.0.0.1:1")
    second = Owner(Bench(id=bench.id, slug=bench.slug, token=bench.token, owner_id=other))
    assert second.tell("ticket.created", reference="t-1").status_code == 204
    assert second.came_to() == ["no_operation"]
    assert now(api)["effect"] == "unknown"


def test_a_message_that_names_no_operation_is_kept_as_such(told: Any) -> None:
    _, owner, _ = told()
    for reference in ("t-404", "", "x" * 300, "\x00", "t-1'; DROP TABLE operation"):
        assert owner.tell("ticket.created", reference=reference).status_code == 204
    assert owner.tell("ticket.created", reference=["t-1"]).status_code == 204
    assert owner.came_to() == ["no_operation"] * 6


def test_a_name_and_a_key_that_disagree_name_nothing(told: Any) -> None:
    api, owner, _ = told()
    owner.tell("ticket.created", reference="t-1", key="t-2")
    assert owner.came_to() == ["no_operation"]
    assert now(api)["effect"] == "unknown"


def test_an_operation_is_read_by_the_contract_that_it_began_with(told: Any) -> None:
    api, owner, bench = told()
    newer = {**QUIET, "title": "Newer", "notice": {**NOTICE, "operation_id": "body.data.ref2"}}
    bench.publish(newer)
    owner.tell("ticket.created", ref2="t-1")
    assert now(api)["effect"] == "unknown", "the newer contract's place is not this operation's"
    owner.tell("ticket.created", reference="t-1")
    assert now(api)["outcome"] == "applied"


BAD = [
    ("no headers at all", lambda owner, body: {}),
    ("another secret", lambda owner, body: signed(new_secret(), body)),
    ("six minutes old", lambda owner, body: signed(owner.secrets[0], body, ago=360)),
    ("six minutes ahead", lambda owner, body: signed(owner.secrets[0], body, ago=-360)),
    ("another body was signed", lambda owner, body: signed(owner.secrets[0], body + b" ")),
    ("another id was signed", lambda owner, body: {**signed(owner.secrets[0], body), "webhook-id": "msg_other"}),
    ("an unknown version", lambda owner, body: _with(signed(owner.secrets[0], body), "v1,", "v2,")),
    (
        "a signature that is no base64",
        lambda owner, body: {**signed(owner.secrets[0], body), "webhook-signature": "v1,é"},
    ),
    ("an empty signature", lambda owner, body: {**signed(owner.secrets[0], body), "webhook-signature": "v1,"}),
    ("a time that is none", lambda owner, body: {**signed(owner.secrets[0], body), "webhook-timestamp": "1e9"}),
    ("an id that cannot be kept", lambda owner, body: signed(owner.secrets[0], body, id="x" * 201)),
]


def _with(headers: dict[str, str], old: str, new: str) -> dict[str, str]:
    return {name: value.replace(old, new) for name, value in headers.items()}


@pytest.mark.parametrize(("why", "headers"), BAD, ids=[why for why, _ in BAD])
def test_what_is_not_accepted_is_answered_alike(told: Any, why: str, headers: Any) -> None:
    api, owner, _ = told()
    body = json.dumps({"type": "ticket.created", "data": {"reference": "t-1", "title": TITLE}}).encode()
    answer = owner.send(body, headers=headers(owner, body))
    unknown = owner.send(body, headers=signed(owner.secrets[0], body), endpoint=uuid.uuid4())
    garbage = owner.send(body, headers=signed(owner.secrets[0], body), endpoint="no-uuid")
    malformed = owner.send(b"{", headers=signed(owner.secrets[0], b"{"))
    assert {each.status_code for each in (answer, unknown, garbage, malformed)} == {401}
    assert answer.content == unknown.content == garbage.content == malformed.content
    assert answer.json()["error"]["class"] == "permission"
    assert now(api)["effect"] == "unknown"
    assert owner.came_to() == []


def test_an_address_that_is_switched_off_looks_like_none(told: Any) -> None:
    _, owner, _ = told()
    disable_endpoint(id=owner.endpoint, now=database_now())
    assert owner.tell("ticket.created", reference="t-1").status_code == 401


def test_both_secrets_count_while_one_is_being_changed(database: Any) -> None:
    bench = make_bench()
    bench.publish(QUIET)
    new, old = new_secret(), new_secret()
    owner = Owner(bench, new, old)
    body = b'{"type": "ticket.viewed"}'
    assert owner.send(body, headers=signed(old, body)).status_code == 204
    assert owner.send(body, headers=signed(new, body)).status_code == 204
    both = signed(new_secret(), body, id="msg_both")
    both["webhook-signature"] += " " + signed(new, body, id="msg_both")["webhook-signature"]
    assert owner.send(body, headers=both).status_code == 204, "one good signature of several is enough"


def test_a_body_over_256_kib_is_refused_whether_or_not_the_address_exists(told: Any) -> None:
    _, owner, _ = told()
    body = b'"' + b"x" * (256 * 1024) + b'"'
    headers = signed(owner.secrets[0], body)
    known, unknown = owner.send(body, headers=headers), owner.send(body, headers=headers, endpoint=uuid.uuid4())
    assert known.status_code == unknown.status_code == 413
    assert known.content == unknown.content


def test_an_operation_with_items_left_alone_keeps_its_next_look(told: Any) -> None:
    api, owner, _ = told(HEARD)
    before = execute("SELECT next_check_at FROM schedule WHERE operation = %s", [now(api)["id"]])
    owner.tell("ticket.viewed", reference="t-1")
    assert execute("SELECT next_check_at FROM schedule WHERE operation = %s", [now(api)["id"]]) == before


def test_many_at_once_are_all_kept_and_the_history_is_whole(told: Any, database: Any) -> None:
    from concurrent.futures import ThreadPoolExecutor

    from django.db import connection

    api, owner, _ = told()

    def one(number: int) -> int:
        try:
            type = ("ticket.queued", "ticket.created", "ticket.viewed")[number % 3]
            return int(owner.tell(type, id=f"msg_{number % 8}", reference="t-1").status_code)
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=6) as hands:
        assert set(hands.map(one, range(24))) == {204}
    data = now(api)
    assert (data["state"], data["outcome"]) == ("settled", "applied")
    assert len([row for row in data["evidence"] if row["speaker"] == "owner_notice"]) == 8, "each id once"
    call_command("verify_ledger")


def test_a_crash_before_the_end_leaves_a_message_that_was_never_received(told: Any, monkeypatch: Any) -> None:
    import recovery.notices as notices

    api, owner, _ = told()

    def dies(**_: Any) -> None:
        raise RuntimeError("killed here")

    with monkeypatch.context() as patched:
        patched.setattr(notices, "record_notice", dies)
        assert owner.tell("ticket.created", id="msg_1", reference="t-1").status_code == 500
    assert owner.came_to() == []
    assert owner.tell("ticket.created", id="msg_1", reference="t-1").status_code == 204
    assert now(api)["outcome"] == "applied"


def test_an_answer_takes_about_as_long_for_an_address_that_does_not_exist(told: Any) -> None:
    """Not measured to the microsecond: both do the same work, a signature is checked in either case."""
    _, owner, _ = told()
    body = b'{"type": "ticket.viewed"}'

    def took(endpoint: Any) -> float:
        begun = time.perf_counter()
        for _ in range(20):
            owner.send(body, headers=signed(new_secret(), body), endpoint=endpoint)
        return time.perf_counter() - begun

    took(None)
    known, unknown = took(None), took(uuid.uuid4())
    assert 0.2 < known / unknown < 5


def test_where_nobody_can_be_asked_the_owners_word_is_waited_for_until_the_deadline(told: Any) -> None:
    document = {name: part for name, part in QUIET.items() if name != "lookup"}
    api, owner, bench = told(document)
    data = now(api)
    assert (data["state"], data["effect"], data["decision"]["rule"]) == ("waiting", "unknown", "write.owner_will_tell")
    assert data["decision"]["not_before"][:23] == data["deadline_at"][:23], "nothing of ours happens before it"
    assert api.post("/operations/t-1/attempts", {}).status_code == 409
    owner.tell("ticket.created", reference="t-1")
    assert now(api)["outcome"] == "applied"
    assert kinds(bench) == [], "no person was asked"


def test_the_deadline_asks_a_person_where_the_owner_said_nothing(told: Any) -> None:
    from recovery.reconcile import Done, reconcile

    document = {name: part for name, part in QUIET.items() if name != "lookup"}
    api, _, bench = told({**document, "deadline": "2s"})
    assert now(api)["state"] == "waiting"
    time.sleep(2.1)
    assert reconcile(id=UUID(now(api)["id"]), time_left=5) is Done.ENDED
    data = now(api)
    assert (data["state"], data["decision"]["code"]) == ("escalated", "DEADLINE_PASSED")
    assert kinds(bench) == ["operation.escalated"]


def test_any_order_of_messages_reports_and_permits_leaves_a_whole_ledger(database: Any) -> None:
    """Made-up orders, the same each time: nothing breaks, what is applied stays applied, and no repeat slips through."""
    import random

    rolls = random.Random(8_4)
    bench = make_bench()
    bench.publish({**QUIET, "retry": {"first": "1ms", "max": "1ms", "jitter": 0}})
    api, owner = Api(bench.token), Owner(bench)
    reports: list[dict[str, Any]] = [
        LOST,
        {"kind": "http", "status": 201, "body": {"id": 7}},
        {"kind": "http", "status": 422, "body": {"error": "no"}},
        {"kind": "http", "status": 202, "body": {}},
        {"kind": "exception", "exception": "ConnectError", "phase": "connect", "bytes_sent": 0},
    ]
    for number in range(40):
        name = f"t-{number}"
        payload = {"title": TITLE, "customer": f"c-{number}"}
        body = {"operation_id": name, "tool": "tickets.create", "payload": payload, "attempt": rolls.random() < 0.9}
        assert api.post("/operations", body).status_code == 201
        attempts, was_applied = 1, False
        for _ in range(7):
            roll = rolls.random()
            if roll < 0.55:
                at = rolls.choice([None, None, database_now() - timedelta(seconds=rolls.randrange(600))])
                kind = rolls.choice(["ticket.created", "ticket.queued", "ticket.rejected", "ticket.viewed"])
                title = TITLE if rolls.random() < 0.9 else "Another"
                assert owner.tell(kind, reference=name, at=at, title=title).status_code == 204
            elif roll < 0.85:
                which = rolls.randrange(1, attempts + 1)
                report = {**rolls.choice(reports), "elapsed_ms": rolls.randrange(10**6)}
                answer = api.post(f"/operations/{name}/attempts/attempt-{which:02d}/observations", report)
                assert answer.status_code in (200, 404), answer.content
            else:
                before = now(api, name)
                answer = api.post(f"/operations/{name}/attempts", {})
                assert answer.status_code in (201, 409), answer.content
                if answer.status_code == 201:
                    assert before["effect"] == "none", "this contract licenses a repeat of nothing else"
                    attempts = len(now(api, name)["attempts"])
            data = now(api, name)
            assert not (was_applied and data["effect"] != "applied")
            was_applied = data["effect"] == "applied"
    call_command("verify_ledger")
