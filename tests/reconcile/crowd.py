"""An owner that can be down, slow or unwilling and counts who asks; and many operations that wait for it."""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import UUID

from ledger.database import execute
from recovery.sweeps import hands, sweep, take_in_hand
from tests.conftest import TICKETS, Api, Bench, make_bench

LOST = {"kind": "exception", "exception": "ReadTimeout", "phase": "await", "bytes_sent": 300, "request_bytes": 300}
TITLE = "Export broken"


class CountingOwner:
    """Answers every lookup as the test says, and keeps book of it."""

    def __init__(self) -> None:
        self.status = 200
        self.headers: dict[str, str] = {}
        self.seconds = 0.0
        """How long an answer takes."""
        self.accepts: str | None = None
        """The only credential that it accepts; None: whatever comes."""
        self.asked: list[float] = []
        """When each question came."""
        self.most_at_once = 0
        self._open = 0
        self._lock = threading.Lock()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                with owner._lock:
                    owner.asked.append(time.monotonic())
                    owner._open += 1
                    owner.most_at_once = max(owner.most_at_once, owner._open)
                try:
                    time.sleep(owner.seconds)
                    self._answer()
                except OSError:
                    pass  # whoever asked has gone
                finally:
                    with owner._lock:
                        owner._open -= 1

            def _answer(self) -> None:
                given = self.headers.get("Authorization")
                status = 401 if owner.accepts is not None and given != owner.accepts else owner.status
                text = f'{{"title": "{TITLE}"}}'.encode() if status == 200 else b"{}"
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", **owner.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

        self.server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def begin_again(self) -> None:
        """A new book."""
        with self._lock:
            self.asked, self.most_at_once = [], self._open

    def most_in(self, *, seconds: float) -> int:
        """The most questions that came within any so many seconds."""
        most, window = 0, deque[float]()
        for at in sorted(self.asked):
            window.append(at)
            while window[0] < at - seconds:
                window.popleft()
            most = max(most, len(window))
        return most

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def crowd(owner: CountingOwner, count: int, **more: Any) -> tuple[Bench, list[UUID]]:
    """A workspace with so many operations whose answers were lost, all due."""
    bench = make_bench(owner_url=f"http://127.0.0.1:{owner.server.server_port}")
    bench.publish({**TICKETS, "dispatch_within": "2s", **more})
    api, ids = Api(bench.token), []
    for number in range(count):
        payload = {"title": TITLE, "customer": f"c-{number}"}
        body = {"operation_id": f"t-{number}", "tool": "tickets.create", "payload": payload, "attempt": True}
        ids.append(UUID(api.post("/operations", body).json()["data"]["id"]))
        api.post(f"/operations/t-{number}/attempts/attempt-01/observations", LOST)
    due(ids)
    return bench, ids


def due(ids: list[UUID]) -> None:
    execute("UPDATE schedule SET next_check_at = now(), claimed_until = NULL WHERE operation = ANY(%s)", [ids])


def limits(bench: Bench, *, most_at_once: int, per_second: float | None = None) -> None:
    execute(
        "UPDATE owner SET most_at_once = %s, per_second = %s WHERE id = %s", [most_at_once, per_second, bench.owner_id]
    )


def states(ids: list[UUID]) -> Counter[str]:
    return Counter(state for (state,) in execute("SELECT state FROM operation WHERE id = ANY(%s)", [ids]))


def polls(ids: list[UUID]) -> int:
    return int(execute("SELECT sum(polls) FROM operation WHERE id = ANY(%s)", [ids])[0][0])


def work(*, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
    """One worker process and beat, without Celery: sweep, and take each batch in hand as a task does."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends and not until():
        began = time.monotonic()
        batches: list[list[str]] = []
        sweep(hand_out=batches.append)
        for batch in batches:
            take_in_hand(ids=[UUID(id) for id in batch])
            hands().wait_for_room(seconds=0.3)
        time.sleep(max(0.1 - (time.monotonic() - began), 0))
