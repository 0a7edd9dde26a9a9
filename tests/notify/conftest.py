"""A receiver that checks every signature itself, with the reference library, and does what the test says."""

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from standardwebhooks import Webhook


@dataclass
class Receiver:
    """Answers with `status`, after `slow` seconds; keeps what was rightly signed."""

    secret: str = ""
    status: int = 204
    slow: float = 0
    location: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    got: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    refused: int = 0
    port: int = 0
    server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?team=1"

    def up(self) -> None:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                time.sleep(receiver.slow)
                if receiver.secret:
                    try:
                        Webhook(receiver.secret).verify(body, dict(self.headers))
                    except Exception:  # noqa: BLE001 - whatever is wrong with it, it is refused
                        receiver.refused += 1
                        self.send_response(401)
                        self.end_headers()
                        return
                receiver.got.append((self.headers.get("webhook-id", ""), json.loads(body)))
                self.send_response(receiver.status)
                for name, value in receiver.headers.items():
                    self.send_header(name, value)
                if receiver.location:
                    self.send_header("Location", receiver.location)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def down(self) -> None:
        if self.server is not None:
            self.server.shutdown()
            self.server.server_close()
            self.server = None


@pytest.fixture
def receiver(settings: Any) -> Iterator[Receiver]:
    settings.ASCERTAIN_PRIVATE_DESTINATIONS = frozenset({"127.0.0.1"})
    made = Receiver()
    made.up()
    yield made
    made.down()
