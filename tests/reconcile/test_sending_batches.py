"""Ascertain recovers the items of a batch itself: only those that hold a licence, each once; against a real owner."""

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import UUID

import pytest

from ledger.queries.verification import verified
from recovery.reconcile import reconcile
from tests.conftest import TICKETS, Api, Database, make_bench
from tests.journeys.laws import assert_lawful
from tests.owners.fault_proxy import FaultProxy

LOST = {"kind": "exception", "exception": "ReadTimeout", "phase": "await", "bytes_sent": 300, "request_bytes": 300}
CONTRACT: dict[str, Any] = {
    **{name: part for name, part in TICKETS.items() if name not in ("arguments", "success", "lookup", "identity")},
    "contract": "tickets.import",
    "effect": "batch",
    "identity": "none",
    "items": {"path": "payload.tickets", "key": "ref"},
    "lookup": [{**TICKETS["lookup"][0], "http": {"method": "GET", "path": "/tickets/{item.ref}"}}],
    "dispatch": {"http": {"method": "POST", "path": "/import"}},
}


class Importer:
    """Takes tickets in lists, and refuses those that a test names, once."""

    def __init__(self) -> None:
        self.made: Counter[str] = Counter()
        self.busy: set[str] = set()
        self.requests: list[list[str]] = []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                ref = self.path.rpartition("/")[2]
                self._answer(200 if owner.made[ref] else 404, {"title": f"T {ref}"})

            def do_POST(self) -> None:
                payload = json.loads(self.rfile.read(int(self.headers["content-length"])))
                self._answer(207, {"results": owner.take([ticket["ref"] for ticket in payload["tickets"]])})

            def _answer(self, status: int, body: Any) -> None:
                text = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, refs: list[str]) -> list[dict[str, Any]]:
        self.requests.append(refs)
        told = [{"id": ref, "status": 429 if ref in self.busy else 201} for ref in refs]
        self.made.update(ref for ref in refs if ref not in self.busy)
        self.busy.clear()
        return told


@pytest.fixture
def owner() -> Iterator[Importer]:
    made = Importer()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def proxy(owner: Importer) -> Iterator[FaultProxy]:
    with FaultProxy(upstream_port=owner.server.server_port) as made:
        yield made


STORIES = [
    ("abc", "bc", False, None, [["a", "b", "c"], ["b", "c"]], "refused for a moment: those two again"),
    ("abc", "", True, None, [["a", "b", "c"]], "the whole answer is lost: each is found, none is sent"),
    ("abc", "c", True, None, [["a", "b", "c"], ["c"]], "two are found, the third is not there: it alone again"),
    ("abcd", "bd", False, "drop_after", [["a", "b", "c", "d"], ["b", "d"]], "our own answer is lost: found one by one"),
    ("abc", "bc", False, "502_after", [["a", "b", "c"], ["b", "c"]], "or a gateway's word comes in its place"),
    ("ab", "b", False, "drop_before", [["a", "b"], ["b"]], "ours does not arrive: absence, and once more"),
]


@pytest.mark.parametrize(
    ("keys", "busy", "lost", "fault", "requests", "why"), STORIES, ids=[why for *_, why in STORIES]
)
def test_each_item_happens_once(
    database: Database,
    owner: Importer,
    proxy: FaultProxy,
    keys: str,
    busy: str,
    lost: bool,
    fault: str | None,
    requests: list[list[str]],
    why: str,
) -> None:
    bench = make_bench(owner_url=proxy.url)
    bench.publish(CONTRACT)
    api = Api(bench.token)
    tickets = [{"ref": key, "title": f"T {key}"} for key in keys]
    body = {"operation_id": "b-1", "tool": "tickets.import", "payload": {"tickets": tickets}, "attempt": True}
    id = UUID(api.post("/operations", body).json()["data"]["id"])
    owner.busy = set(busy)
    results = owner.take(list(keys))
    if fault:
        proxy.fail(fault, times=1, match="POST")
    seen = (
        LOST if lost else {"kind": "http", "status": 207, "body": {"results": results}, "request": {"method": "POST"}}
    )
    told = api.post("/operations/b-1/attempts/attempt-01/observations", seen).json()["data"]
    if not lost:
        assert (told["state"], told["recovery_action"]) == ("waiting", "wait"), told
    ends = time.monotonic() + 40
    while (data := api.get("/operations/b-1").json()["data"])["state"] != "settled" and time.monotonic() < ends:
        reconcile(id=id, time_left=15)
        time.sleep(0.03)
    assert (data["state"], data["outcome"]) == ("settled", "applied"), (why, data["decision"])
    assert owner.requests == requests, why
    assert set(owner.made.values()) == {1}, "no item happened twice"
    assert {each["sender"] for each in data["attempts"][1:]} <= {"worker"}
    assert_lawful(workspace_id=bench.id, operation_id="b-1")
    for _ in verified():
        pass
