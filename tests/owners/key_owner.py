"""An owner that honours idempotency keys, on loopback, with everything that owners are known to do about them.

`POST /tickets` makes a ticket; `GET /tickets/by-key/{key}` finds it. A key is remembered for whoever sent it
(`Authorization`), for `retention` seconds; the same key again is answered with what was stored, marked `Idempotent-Replayed`.
What a test wants otherwise is said by `next_answers`, and by the switches below.
"""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

Answer = tuple[int, dict[str, Any], dict[str, str]]
"""Status, body, headers."""


@dataclass(slots=True, kw_only=True)
class Asked:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: str


@dataclass(slots=True)
class KeyOwner:
    """Start with `running()`."""

    retention: float = 3600.0
    silent_original: bool = False
    """Another payload under a known key is answered with the first one's success."""
    caches_errors: bool = False
    marks_replays: bool = True
    tickets: list[dict[str, Any]] = field(default_factory=list)
    """The effects."""
    asked: list[Asked] = field(default_factory=list)
    next_answers: list[Answer | Callable[[], Answer | None]] = field(default_factory=list)
    """Before anything is done, one for each POST: an answer, or a call that gives one or None (go on as usual)."""
    next_failures: list[Answer] = field(default_factory=list)
    """Once execution has begun, in place of a ticket; stored under the key where errors are."""
    _stored: dict[tuple[str, str], tuple[float, str, Answer]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _server: ThreadingHTTPServer | None = None

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.server_port)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def posts(self) -> list[Asked]:
        return [each for each in self.asked if each.method == "POST"]

    def bind(self) -> None:
        """Take a port, and refuse nobody, but serve nobody yet."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler(), bind_and_activate=False)
        self._server.daemon_threads = True
        self._server.server_bind()

    def serve(self) -> None:
        """Serve from now on."""
        assert self._server is not None
        self._server.server_activate()
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self) -> None:
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()

    @contextmanager
    def nobody_gets_through(self) -> Iterator[None]:
        """Whoever connects meanwhile hangs while connecting: the port's queue is full and nobody takes from it."""
        assert self._server is not None
        self._server.socket.listen(0)
        first = []
        while True:
            one = socket.socket()
            one.settimeout(0.3)
            try:
                one.connect(("127.0.0.1", self.port))
            except TimeoutError:
                one.close()
                break
            first.append(one)
        try:
            yield
        finally:
            for one in first:
                one.close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._note("")
                key = unquote(self.path.rsplit("/", 1)[-1])
                found = [ticket for ticket in owner.tickets if ticket["key"] == key]
                self._answer((200, found[0], {}) if found else (404, {"error": "no such ticket"}, {}))

            def do_POST(self) -> None:
                text = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
                self._note(text)
                self._answer(owner.post(self.headers, text))

            def _note(self, text: str) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                owner.asked.append(Asked(method=self.command, path=self.path, headers=headers, body=text))

            def _answer(self, answer: Answer) -> None:
                status, body, headers = answer
                text = json.dumps(body).encode()
                self.send_response(status)
                for name, value in {"content-type": "application/json", **headers}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *args: Any) -> None:
                pass

        return Handler

    def post(self, headers: Any, text: str) -> Answer:
        """What a request to make a ticket comes to."""
        if self.next_answers:
            first = self.next_answers.pop(0)
            told = first() if callable(first) else first
            if told is not None:
                return told
        key, who = headers.get("idempotency-key"), headers.get("authorization", "")
        with self._lock:
            kept = self._stored.get((who, key)) if key else None
            if kept is not None and time.monotonic() - kept[0] < self.retention:
                _, first_text, answer = kept
                if json.loads(first_text) != json.loads(text) and not self.silent_original:
                    return 422, {"error": {"code": "idempotency_error"}}, {}
                marked = {"idempotent-replayed": "true"} if self.marks_replays else {}
                return answer[0], answer[1], {**answer[2], **marked}
            answer = self._execute(json.loads(text), key)
            if key and (answer[0] < 400 or self.caches_errors):
                self._stored[who, key] = (time.monotonic(), text, answer)
            return answer

    def _execute(self, body: Any, key: str | None) -> Answer:
        if self.next_failures:
            return self.next_failures.pop(0)
        ticket = {"id": f"t{len(self.tickets) + 1}", "key": key, **body}
        self.tickets.append(ticket)
        return 201, ticket, {}


@contextmanager
def running(**switches: Any) -> Iterator[KeyOwner]:
    """An owner that serves."""
    owner = KeyOwner(**switches)
    owner.bind()
    owner.serve()
    try:
        yield owner
    finally:
        owner.close()
