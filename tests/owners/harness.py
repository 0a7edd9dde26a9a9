"""What a harness does with its permit at a real owner, and what it reports of it: measured, never made up."""

import json
import smtplib
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from email.message import EmailMessage
from typing import Any

import httpx2
import psycopg

from recovery.client.observations import Answer, Sent, failure, http
from recovery.client.operation import wire_length
from recovery.client.passage import Passage
from recovery.client.transport import PASSAGE, MeasuredTransport

PATIENCE = 1.5
"""Seconds that a harness waits for an owner: real ones need a moment, and each silence costs a test this much."""

Observation = dict[str, Any]


def over_http(
    method: str, url: str, *, key: str | None = None, patience: float = PATIENCE, **request: Any
) -> Observation:
    """One call, as the client library sends and tells it."""
    with httpx2.Client(transport=MeasuredTransport(), trust_env=False) as client:
        built = client.build_request(method, url, **request)
        passage = Passage(
            clock=time.monotonic,
            dispatch_by=time.monotonic() + patience,
            timeout=patience,
            request_bytes=wire_length(built),
            started_at=time.monotonic(),
        )
        timeout = httpx2.Timeout(patience).as_dict()
        built.extensions = {PASSAGE: passage, "trace": passage.trace, "timeout": timeout}
        sent = Sent(method=method, path=built.url.path, headers=dict(built.headers), idempotency_key=key)
        told = sent.told(permit_headers={})
        try:
            answer = client.send(built)
        except httpx2.TransportError as error:
            return failure(error=error, passage=passage, request=told, answer=None, observed_at=_now())
        return http(
            answer=Answer(status=answer.status_code, headers=dict(answer.headers), content=answer.content),
            request=told,
            elapsed_ms=round((time.monotonic() - passage.started_at) * 1000),
            observed_at=_now(),
            network_attempts=1,
        )


class McpHarness:
    """Calls tools of a server that speaks the handshake of 2025-11-25, over streamable HTTP."""

    VERSION = "2025-11-25"

    def __init__(self, url: str) -> None:
        self._url = url
        self._headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": self.VERSION}
        self.session: str | None = None

    def open(self) -> None:
        """Shake hands.

        Raises:
            ConnectionError: the server does not answer as it should.
        """
        params = {
            "protocolVersion": self.VERSION,
            "capabilities": {},
            "clientInfo": {"name": "harness", "version": "1"},
        }
        answer = self._post(self._message("initialize", params), patience=20)
        if answer.get("status") != 200:
            raise ConnectionError(f"no handshake: {answer}")
        self.session = answer["headers"].get("mcp-session-id")
        if self.session is not None:
            self._headers["mcp-session-id"] = self.session
        self._post({"jsonrpc": "2.0", "method": "notifications/initialized"}, patience=20)

    def try_to_ask(self, method: str, params: Mapping[str, Any]) -> Any:
        """A result; None where the server no longer knows the session."""
        seen = self._post(self._message(method, params), patience=20)
        return _result(seen) if seen.get("status") == 200 else None

    def call(self, tool: str, arguments: Mapping[str, Any], **more: Any) -> Observation:
        """One `tools/call`, once. `more`: further parameters, such as `task`."""
        seen = self._post(self._message("tools/call", {"name": tool, "arguments": arguments, **more}))
        seen["request"] = {"session_id": self.session}
        if seen["kind"] != "http" or seen["status"] != 200:
            return seen
        return {
            "kind": "mcp",
            "result": _result(seen),
            "tool": tool,
            "protocol_version": self.VERSION,
            "request": seen["request"],
        }

    def _post(self, message: Mapping[str, Any], *, patience: float = PATIENCE) -> Observation:
        return over_http("POST", self._url, json=message, headers=self._headers, patience=patience)

    @staticmethod
    def _message(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": method, "method": method, "params": params}


def _result(seen: Observation) -> Any:
    """The result in an answer, which is JSON or the last event of a stream."""
    body = seen["body"]
    if isinstance(body, str):
        (*_, last) = (line.removeprefix("data:") for line in body.splitlines() if line.startswith("data:"))
        body = json.loads(last)
    return body["result"]


def over_smtp(*, port: int, message: EmailMessage) -> Observation:
    """One mail, handed over once."""
    told: dict[str, Any] = {"last_command": "EHLO", "data_sent": False}
    seen = {"kind": "exception", "phase": "await", "smtp": told}
    try:
        with smtplib.SMTP("127.0.0.1", port, timeout=PATIENCE) as server:
            server.ehlo()
            for command in (f"MAIL FROM:<{message['From']}>", f"RCPT TO:<{message['To']}>", "DATA"):
                told["last_command"] = command.split(":")[0]
                code, text = server.docmd(command)
                if code >= 400:
                    return {**seen, "exception": "SMTPResponseException"} | _replied(told, code, text)
            told |= {"last_command": ".", "data_sent": True}
            server.send(message.as_bytes().replace(b"\n", b"\r\n") + b"\r\n.\r\n")
            code, text = server.getreply()
            return {**seen, "exception": "none", "phase": "after_response"} | _replied(told, code, text)
    except (smtplib.SMTPException, OSError) as error:
        return {**seen, "exception": type(error).__name__, "message": str(error)}


def _replied(told: Mapping[str, Any], code: int, text: bytes) -> Observation:
    return {"smtp": {**told, "reply": f"{code} {text.decode(errors='replace')}"}}


def in_postgres(*, url: str, statement: str, parameters: Mapping[str, Any]) -> Observation:
    """One transaction, committed once; its id is read before."""
    request: dict[str, Any] = {}
    seen: dict[str, Any] = {"request": request}
    try:
        with psycopg.connect(url, connect_timeout=2) as connection, _patience(connection):
            connection.execute(statement, parameters)
            row = connection.execute("SELECT pg_current_xact_id()::text").fetchone()
            request["xact_id"] = row[0] if row else None
            seen |= {"phase": "await", "bytes_sent": len(statement)}
            connection.commit()
            return {"kind": "process", "exit_code": 0, "cmd": "psql", **seen}
    except psycopg.Error as error:
        told = {"kind": "exception", "exception": type(error).__name__, "sqlstate": error.sqlstate}
        return {"phase": "connect", "bytes_sent": 0, **told, **seen}


@contextmanager
def _patience(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """The connection ends when that is used up: a client that waited for its COMMIT for ever would never report."""
    with socket.fromfd(connection.fileno(), socket.AF_INET, socket.SOCK_STREAM) as copy:
        timer = threading.Timer(PATIENCE, copy.shutdown, [socket.SHUT_RDWR])
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()


def _now() -> str:
    return datetime.now(UTC).isoformat()
