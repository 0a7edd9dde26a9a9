"""A real HTTP owner that answers what a test says, and a look at an operation whenever it is due."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import UUID

from recovery.reconcile import reconcile
from tests.conftest import Api


class Owner:
    """Answers every lookup with what the test says."""

    def __init__(self) -> None:
        self.status: int
        self.body: Any
        self.status, self.body = 404, {}
        self.at: dict[str, tuple[int, Any]] = {}
        """What single paths answer, beside the rest."""
        self.asked = 0
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                owner.asked += 1
                status, body = owner.at.get(self.path, (owner.status, owner.body))
                text = json.dumps(body).encode()
                self.send_response(status)
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
