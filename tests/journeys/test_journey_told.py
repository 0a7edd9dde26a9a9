"""The owner tells us by itself, and we tell others: over the real server, workers and beat."""

import json
import threading
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx2
import pytest
from standardwebhooks import Webhook

from ledger.queries.clock import database_now
from ledger.rules.signatures import new_secret
from ledger.transitions.destinations import add_endpoint, ensure_destination
from recovery.sealing import seal
from tests.conftest import TICKETS, Bench, Database, make_bench
from tests.journeys.programs import Workers, until

HEARD = {
    **TICKETS,
    "notice": {
        "operation_id": "body.reference",
        "effect": {"applied": "body.state == 'open'", "none": "body.state == 'rejected'"},
        "same": {"title": "body.title"},
    },
    "poll": {"first": "1h", "max": "1h"},
    "escalation": {"notify": ["support-oncall"]},
}
LOST = {"kind": "exception", "exception": "ReadTimeout", "phase": "await", "bytes_sent": 300, "request_bytes": 300}


class Receiver:
    """Takes messages that are rightly signed."""

    def __init__(self) -> None:
        self.secret = new_secret()
        self.got: list[dict[str, Any]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.append(Webhook(receiver.secret).verify(body, dict(self.headers)))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def heard(database: Database) -> Bench:
    bench = make_bench()
    bench.publish(HEARD)
    return bench


def lost(client: httpx2.Client, name: str, **body: Any) -> dict[str, Any]:
    """An operation whose answer was lost."""
    begun = {"operation_id": name, "tool": "tickets.create", "payload": {"title": name}, "attempt": True, **body}
    assert client.post("/operations", json=begun).status_code == 201
    told: dict[str, Any] = client.post(f"/operations/{name}/attempts/attempt-01/observations", json=LOST).json()["data"]
    return told


def tell(web: str, bench: Bench, body: dict[str, Any]) -> int:
    """The owner's signed notification."""
    endpoint, secret = uuid.uuid4(), new_secret()
    add_endpoint(
        workspace_id=bench.id,
        owner_id=bench.owner_id,
        endpoint_id=endpoint,
        sealed_secrets=seal(json.dumps([secret])),
        now=database_now(),
    )
    text, id, at = json.dumps(body), f"msg_{uuid.uuid4().hex}", datetime.now(UTC)
    headers = {
        "content-type": "application/json",
        "webhook-id": id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(secret).sign(id, at, text),
    }
    return httpx2.post(
        f"{web}/api/v1/notifications/{endpoint}", content=text, headers=headers, timeout=30, trust_env=False
    ).status_code


def test_a_harness_that_waits_is_released_by_the_owners_word(web: str, heard: Bench) -> None:
    headers = {"authorization": f"Bearer {heard.token}"}
    with httpx2.Client(base_url=f"{web}/api/v1", headers=headers, timeout=30, trust_env=False) as client:
        version = lost(client, "t-1")["version"]
        answers: list[tuple[float, Any]] = []

        def wait() -> None:
            answer = client.get(f"/operations/t-1?wait=20&version={version}")
            answers.append((time.monotonic(), answer.json()["data"]))

        waiting = threading.Thread(target=wait)
        waiting.start()
        time.sleep(0.5)
        assert not answers
        began = time.monotonic()
        assert tell(web, heard, {"reference": "t-1", "state": "open", "title": "t-1"}) == 204
        waiting.join(20)
        [(at, data)] = answers
        assert (data["state"], data["outcome"]) == ("settled", "applied")
        assert at - began < 3, "by notification, not by the look every five seconds"


def test_what_settles_and_what_escalates_reaches_the_webhook(
    web: str, workers: Workers, heard: Bench, receiver: Receiver
) -> None:
    ensure_destination(
        workspace_id=heard.id,
        name="support-oncall",
        kind="webhook",
        sealed_address=seal(receiver.url),
        sealed_secret=seal(receiver.secret),
        kinds=["operation.settled"],
        now=database_now(),
    )
    headers = {"authorization": f"Bearer {heard.token}"}
    with httpx2.Client(base_url=f"{web}/api/v1", headers=headers, timeout=30, trust_env=False) as client:
        agent = {"name": "support-7", "run": "run-91", "step": "1"}
        lost(client, "t-1", agent=agent)
        lost(client, "t-2", agent={**agent, "step": "2"})
    assert tell(web, heard, {"reference": "t-1", "state": "open", "title": "t-1"}) == 204
    assert tell(web, heard, {"reference": "t-2", "state": "open", "title": "another"}) == 204
    until(lambda: len(receiver.got) == 2, seconds=30, what=lambda: f"{receiver.got} {workers.said()}")
    told = {message["data"]["operation_id"]: message for message in receiver.got}
    assert told["t-1"]["type"] == "operation.settled"
    assert told["t-1"]["data"]["dependants"] == ["t-2"]
    assert told["t-2"]["type"] == "operation.escalated"
    assert told["t-2"]["data"]["code"] == "CONFLICT"
    assert "another" not in json.dumps(told), "no owner's text"
