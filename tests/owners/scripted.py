"""A real HTTP owner on loopback whose answers a test writes, down to the bytes."""

import gzip
import json
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A request as it came over the wire."""

    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: bytes
    write: Callable[[bytes], None]
    """Sends bytes as they are, for answers that are no HTTP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is answered."""

    status: int = 200
    body: Any = None
    """JSON; bytes are sent as they are, text too."""
    headers: Mapping[str, str] = field(default_factory=dict)

    def content(self) -> bytes:
        if isinstance(self.body, bytes):
            return self.body
        return self.body.encode() if isinstance(self.body, str) else json.dumps(self.body).encode()


class ScriptedOwner:
    """Answers each request with what `answer` returns; None means that it wrote its own bytes."""

    def __init__(self, *, certificate: Path | None = None) -> None:
        self.answer: Callable[[Received], Answer | None] = lambda received: Answer(body={})
        self.received: list[Received] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._scheme = "https" if certificate else "http"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> "ScriptedOwner":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def port(self) -> int:
        return self._server.server_port

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def handle_any(self) -> None:
                self.close_connection = True
                parts = urlsplit(self.path)
                received = Received(
                    method=self.command,
                    path=parts.path,
                    query=parse_qs(parts.query, keep_blank_values=True),
                    headers={name.lower(): value for name, value in self.headers.items()},
                    body=self.rfile.read(int(self.headers.get("Content-Length") or 0)),
                    write=self._write,
                )
                owner.received.append(received)
                answer = owner.answer(received)
                if answer is None:
                    return
                content = answer.content()
                self.send_response(answer.status)
                headers = {"Content-Type": "application/json", "Content-Length": str(len(content)), **answer.headers}
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self._write(content)

            def _write(self, content: bytes) -> None:
                try:
                    self.wfile.write(content)
                    self.wfile.flush()
                except OSError:
                    pass  # the client went away, as it should

            def log_message(self, *_: Any) -> None:
                pass

            do_GET = do_POST = do_PUT = do_HEAD = do_PATCH = do_DELETE = handle_any  # noqa: N815 - http.server's names

        return Handler


def drip(received: Received, *, seconds: float = 8.0) -> None:
    """A byte now and then: never silent for long, never finished."""
    received.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n[")
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        received.write(b" ")
        time.sleep(0.1)


@cache
def bomb(*, megabytes: int = 64) -> Answer:
    """A few kilobytes that decompress to many megabytes. Packed once, before anybody's time runs."""
    packed = gzip.compress(b'{"state": "' + b"x" * (megabytes * 1024 * 1024) + b'"}')
    return Answer(body=packed, headers={"Content-Encoding": "gzip"})
