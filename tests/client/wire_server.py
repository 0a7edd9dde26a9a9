"""A small real server that speaks the API's wire shapes, and can lose, delay and refuse answers.

It is no model of Ascertain's judgement: it tells `retry` when a report proves that nothing was sent, `done` on a 2xx,
`stop` on a 4xx and `reconcile` otherwise. That is enough to see what the client does with each.
"""

import hashlib
import json
import socket
import struct
import threading
import time
from collections import deque
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "asc_test_token"


def stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


class WireServer:
    """Start with `with`; `url` is its address."""

    def __init__(self) -> None:
        self.operations: dict[str, dict[str, Any]] = {}
        self.reports: list[tuple[str, dict[str, Any]]] = []
        """Every report that was processed, repeats too: (attempt_id, observation)."""
        self.requests: list[tuple[str, str]] = []
        self.faults: deque[str] = deque()
        """Taken one a request: drop_before, drop_after, busy, garbage, pass."""
        self.fault_paths = ""
        """Only requests whose path holds this take a fault."""
        self.timeout_ms = 2_000
        self.dispatch_within = timedelta(seconds=10)
        self.clock_ahead = timedelta(0)
        self.refuse_permits = False
        self.lock = threading.Lock()
        self._changed = threading.Condition(self.lock)
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 30

            def do_GET(self) -> None:
                server._handle(self, b"")

            def do_POST(self) -> None:
                server._handle(self, self.rfile.read(int(self.headers.get("content-length", 0))))

            def date_time_string(self, timestamp=None) -> str:
                return super().date_time_string(time.time() + server.clock_ahead.total_seconds())

            def log_message(self, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *args: object) -> None:
                pass

        self._http = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> "WireServer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def now(self) -> datetime:
        return datetime.now(UTC) + self.clock_ahead

    def settle(self, operation_id: str, outcome: str) -> None:
        with self._changed:
            operation = self.operations[operation_id]
            operation |= {"state": "settled", "outcome": outcome, "version": operation["version"] + 1}
            self._changed.notify_all()

    def _handle(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        url = urlsplit(handler.path)
        fault = "pass"
        with self.lock:
            self.requests.append((handler.command, url.path))
            if self.faults and self.fault_paths in url.path:
                fault = self.faults.popleft()
        if fault == "drop_before":
            return reset(handler)
        if fault == "busy":
            return self._answer(handler, *error(503, "BUSY", "transient", retryable=True, retry_after_ms=20))
        if fault == "garbage":
            return self._raw(handler, 200, b"<html>a captive portal</html>")
        if handler.headers.get("authorization") != f"Bearer {TOKEN}":
            return self._answer(handler, *error(401, "NOT_AUTHENTICATED", "permission"))
        status, answer = self._route(handler.command, url.path, parse_qs(url.query), body)
        if fault == "drop_after":
            return reset(handler)
        return self._answer(handler, status, answer)

    def _answer(self, handler: BaseHTTPRequestHandler, status: int, answer: dict[str, Any]) -> None:
        self._raw(handler, status, json.dumps(answer).encode())

    def _raw(self, handler: BaseHTTPRequestHandler, status: int, content: bytes) -> None:
        with suppress(OSError):
            handler.send_response(status)
            handler.send_header("content-type", "application/json")
            handler.send_header("content-length", str(len(content)))
            handler.end_headers()
            handler.wfile.write(content)

    def _route(self, method: str, path: str, query: dict[str, list[str]], body: bytes) -> tuple[int, dict[str, Any]]:
        steps = [unquote(step) for step in path.removeprefix("/api/v1/").split("/")]
        with self._changed:
            if method == "POST" and steps == ["operations"]:
                return self._open(json.loads(body))
            operation = self.operations.get(steps[1])
            if operation is None:
                return error(404, "OPERATION_NOT_FOUND", "business_rule")
            if method == "GET":
                version = int(query.get("version", ["-1"])[0])
                seconds = float(query.get("wait", ["0"])[0])
                self._changed.wait_for(lambda: operation["version"] > version, timeout=seconds)
                return 200, {"ok": True, "data": operation}
            if steps[2:] == ["attempts"]:
                return self._further(operation)
            if steps[2:] == ["revisions"]:
                revision = json.loads(body)
                operation |= {"payload": revision["payload"], "revision": operation["revision"] + 1}
                operation["decision"] = decision("retry", effect="none")
                return 201, {"ok": True, "data": operation}
            return self._observe(operation, steps[3], body)

    def _open(self, intent: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if intent["payload"] == {"title": ""}:
            return error(422, "ARGUMENT_INVALID", "validation", field="payload.title")
        known = self.operations.get(intent["operation_id"])
        if known is not None:
            if known["payload"] != intent["payload"]:
                return error(409, "OPERATION_MISMATCH", "business_rule")
            return 200, {"ok": True, "data": known | {"permit": None}}
        operation: dict[str, Any] = {
            "operation_id": intent["operation_id"],
            "id": "018f-new-member-that-the-client-does-not-know",
            "tool": intent["tool"],
            "payload": intent["payload"],
            "intent": intent,
            "version": 1,
            "state": "open",
            "effect": "none",
            "request": "not_sent",
            "revision": 1,
            "attempts": [],
            "outcome": None,
            "decision": None,
        }
        self.operations[intent["operation_id"]] = operation
        if self.refuse_permits:
            operation |= {"state": "blocked", "decision": decision("authorize", effect="none")}
            operation["approval"] = {"id": "ap-1", "status": "waiting", "expires_at": None, "reason": "over 500"}
            return 201, {"ok": True, "data": operation | {"permit": None}}
        return 201, {"ok": True, "data": operation | {"permit": self._permit(operation)}}

    def _permit(self, operation: dict[str, Any]) -> dict[str, Any]:
        now = self.now()
        number = len(operation["attempts"]) + 1
        attempt_id = f"attempt-{number:02}"
        operation["attempts"].append({"attempt_id": attempt_id, "opened_at": stamp(now), "closed_at": None})
        operation |= {"state": "dispatched", "version": operation["version"] + 1}
        return {
            "attempt_id": attempt_id,
            "idempotency_key": operation["operation_id"],
            "headers": {"Idempotency-Key": operation["operation_id"]},
            "dispatch_by": stamp(now + self.dispatch_within),
            "timeout_ms": self.timeout_ms,
        }

    def _further(self, operation: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        told = operation["decision"]
        if told is None or told["recovery_action"] != "retry":
            status, answer = error(409, "PERMIT_REFUSED", "business_rule")
            return status, answer | {"data": {"decision": told or decision("wait")}}
        return 201, {"ok": True, "data": operation | {"permit": self._permit(operation)}}

    def _observe(self, operation: dict[str, Any], attempt_id: str, body: bytes) -> tuple[int, dict[str, Any]]:
        observation = json.loads(body)
        self.reports.append((attempt_id, observation))
        digest = hashlib.sha256(body).hexdigest()
        seen = operation.setdefault("digests", {})
        if digest not in seen:
            seen[digest] = judge(observation)
            told = seen[digest]
            state = {"done": "settled", "stop": "settled", "retry": "open"}.get(told["recovery_action"], "reconciling")
            operation |= {"decision": told, "state": state, "version": operation["version"] + 1}
            operation["effect"] = told["effect_status"]
            operation["attempts"][-1]["closed_at"] = stamp(self.now())
            self._changed.notify_all()
        return 200, {"ok": True, "data": {"decision": seen[digest]}}


def judge(observation: dict[str, Any]) -> dict[str, Any]:
    if observation["kind"] == "http":
        status = observation["status"]
        if 200 <= status < 300:
            return decision("done", effect="applied")
        return decision("stop" if 400 <= status < 500 else "reconcile", effect="none" if status < 500 else "unknown")
    sent = observation.get("bytes_sent")
    before = observation["phase"] in ("before_dispatch", "resolve", "connect", "tls")
    return decision("retry", effect="none") if sent == 0 or before else decision("reconcile")


def decision(action: str, *, effect: str = "unknown") -> dict[str, Any]:
    return {
        "recovery_action": action,
        "failure_class": "unknown_outcome",
        "effect_status": effect,
        "code": "TESTED",
        "hint": "A hint.",
        "member_of_tomorrow": {"kept": True},
    }


def error(status: int, code: str, error_class: str, **more: Any) -> tuple[int, dict[str, Any]]:
    told = {
        "code": code,
        "class": error_class,
        "retryable": False,
        "retry_after_ms": None,
        "field": None,
        "hint": "A hint.",
        "message": "A message.",
    }
    return status, {"ok": False, "error": told | more}


def reset(handler: BaseHTTPRequestHandler) -> None:
    handler.close_connection = True
    rst(handler.connection)


def rst(connection: socket.socket) -> None:
    """Close at once with RST."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    # The handler's buffered files hold the descriptor open; shutdown would send FIN, so detach by closing the number.
    with suppress(OSError):
        connection.close()
