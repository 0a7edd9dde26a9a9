"""What one look at an operation comes to, against a real HTTP owner, without workers."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import UUID

import pytest

from recovery.reconcile import Done, reconcile
from tests.conftest import TICKETS, Api, Bench, Database, make_bench

LOST = {"kind": "exception", "exception": "ReadTimeout", "phase": "await", "bytes_sent": 300, "request_bytes": 300}
TITLE = "Export broken"


class Owner:
    """Answers every lookup with what the test says."""

    def __init__(self) -> None:
        self.status, self.body = 404, {}
        self.asked = 0
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                owner.asked += 1
                text = json.dumps(owner.body).encode()
                self.send_response(owner.status)
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
def owner() -> Iterator[Owner]:
    made = Owner()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def lost(database: Database, owner: Owner) -> Callable[..., tuple[Api, UUID]]:
    """An operation whose answer was lost, at an owner that answers what the test says."""

    def make(**more: Any) -> tuple[Api, UUID]:
        bench: Bench = make_bench(owner_url=owner.url)
        bench.publish({**TICKETS, **more})
        api = Api(bench.token)
        body = {"operation_id": "t-1", "tool": "tickets.create", "payload": {"title": TITLE}, "attempt": True}
        id = UUID(api.post("/operations", body).json()["data"]["id"])
        api.post("/operations/t-1/attempts/attempt-01/observations", LOST)
        return api, id

    return make


def look_until(id: UUID, api: Api, *, state: str, seconds: float = 15) -> dict[str, Any]:
    """Look whenever it is due, until the operation is in a state."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        reconcile(id=id, time_left=5)
        data = api.get("/operations/t-1").json()["data"]
        if data["state"] == state:
            return data
        time.sleep(0.05)
    raise AssertionError(f"still {data['state']}: {data['decision']} {data['evidence']}")


def test_what_the_owner_holds_settles_it_as_applied(lost: Any, owner: Owner) -> None:
    api, id = lost()
    owner.status, owner.body = 200, {"title": TITLE}
    data = look_until(id, api, state="settled")
    assert data["outcome"] == "applied"
    assert data["evidence"][-1]["proof"] == "lookup_match"
    assert api.post("/operations/t-1/attempts", {}).status_code == 409


def test_absence_counts_only_after_the_possible_end_and_twice(lost: Any, owner: Owner) -> None:
    api, id = lost()
    data = look_until(id, api, state="open")
    lapses_at = data["attempts"][0]["lapses_at"]
    counted = [row for row in data["evidence"] if row["outcome"] == "no_match"]
    assert counted[-1]["proof"] == "graded_absence"
    assert counted[-2]["observed_at"] > lapses_at, "the first of the two clean reads came after the possible end"
    assert data["effect"] == "none"
    again = api.post("/operations/t-1/attempts", {})
    assert again.status_code == 201
    assert again.json()["data"]["licence"] == "effect_none_proved"


def test_something_else_under_our_key_is_a_conflict_for_a_person(lost: Any, owner: Owner) -> None:
    api, id = lost()
    owner.status, owner.body = 200, {"title": "Something else"}
    data = look_until(id, api, state="escalated")
    assert data["effect"] == "unknown"


def test_an_owner_that_stays_down_ends_the_polls_and_escalates(lost: Any, owner: Owner) -> None:
    api, id = lost(budgets={"polls": 3})
    owner.status = 503
    data = look_until(id, api, state="escalated")
    assert data["effect"] == "unknown"
    assert data["decision"]["code"] == "POLLS_ENDED"
    owner.status, owner.body = 200, {"title": TITLE}
    assert look_until(id, api, state="settled")["outcome"] == "applied", "lookups go on after the escalation"


def test_nothing_is_done_before_its_time(lost: Any, owner: Owner) -> None:
    _, id = lost(poll={"first": "1h", "max": "1h"})
    assert reconcile(id=id, time_left=5) is Done.NOTHING
    assert owner.asked == 0
