"""How is one question put to an MCP server over streamable HTTP, and what came back?

| the server                                                    | here                                              |
| ------------------------------------------------------------- | ------------------------------------------------- |
| answers with a result, as JSON or on an event stream          | the result                                        |
| answers with a JSON-RPC error, at any HTTP status             | `Refused`, with its code                          |
| 401, or 403 with `insufficient_scope`                         | `NotAnswered`, the credential is refused          |
| 429, 5xx without a JSON-RPC error                             | `NotAnswered`, overloaded, with its wait          |
| asks the client something while it works (elicitation …)      | `NotAnswered`, a person is needed; never answered |
| ends the stream before its answer, having numbered events     | read on once, where the revision has resumption   |
| closes otherwise, is too slow, sends too much, redirects      | `NotAnswered`                                     |

Both eras are spoken: revision 2026-07-28, where each request carries its version and capabilities, and the handshake
of 2025-03-26 to 2025-11-25 (modelcontextprotocol.io/specification). Which one is asked of the server itself unless the
contract says. No message is ever sent twice, and a server that reaches standard input and output only is bridged to
HTTP by whoever deploys it.

These few messages are spoken here, not through the official SDK (mcp 2.3.0), because that client keeps neither the
HTTP status nor Retry-After of a refusal, sends some calls again by itself, and has no words for the tasks of 2025-11-25.
"""

import base64
import json
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final, Literal

import httpx2

from ledger.rules.vocabulary import Phase
from recovery.judgement.waits import wait_in, wait_of
from recovery.owners.base import Reach
from recovery.owners.http import BUSY, DOWN
from recovery.owners.outgoing import Exchanged, NotExchanged, Request, exchange

MODERN: Final = "2026-07-28"
HANDSHAKE: Final = "2025-11-25"
_HANDSHAKES: Final = frozenset({"2024-11-05", "2025-03-26", "2025-06-18", HANDSHAKE})
TASKS: Final = "io.modelcontextprotocol/tasks"
OPERATION: Final = "ascertain/operation-id"
"""The member of `_meta` that names the operation a question is about."""

METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
UNSUPPORTED_VERSION: Final = -32022
URL_ELICITATION_REQUIRED: Final = -32042

_META: Final = "io.modelcontextprotocol/"
_CLIENT: Final = {"name": "ascertain", "version": "1"}
_ASKS_A_PERSON: Final = frozenset({"elicitation/create", "sampling/createMessage"})
_VISIBLE = re.compile(r"[\x20-\x7e]*")
_LONGEST_PAUSE: Final = 2.0
"""Seconds that are waited before an event stream is read on; a server that asks for more is asked another time."""

_NO_COMMON_REVISION: Final = "The server speaks no revision of MCP that is known here"

Mode = Literal["auto", "legacy", "2026-07-28"]


class NotAnswered(Exception):
    """The server gave no answer to this question. `reason` is a sentence without secrets."""

    def __init__(
        self,
        reason: str,
        *,
        status: int | None = None,
        retry_after_ms: int | None = None,
        refused_credential: bool = False,
        overloaded: bool = False,
        needs_person: bool = False,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status
        self.retry_after_ms = retry_after_ms
        self.refused_credential = refused_credential
        self.overloaded = overloaded
        self.needs_person = needs_person


class Refused(Exception):
    """The server answered with a JSON-RPC error. Its text is prose: shown to people, never read by a rule."""

    def __init__(self, error: Mapping[str, Any], *, status: int) -> None:
        code = error.get("code")
        self.code: int | None = code if isinstance(code, int) and not isinstance(code, bool) else None
        text = error.get("message")
        self.text = text[:200] if isinstance(text, str) else ""
        data = error.get("data")
        self.data: Mapping[str, Any] = data if isinstance(data, Mapping) else {}
        wait = wait_in(dict(error))
        self.retry_after_ms = None if wait is None else wait.milliseconds
        self.status = status
        super().__init__(f"{self.code} {self.text}")


class Conversation:
    """One server and one question. Open it, ask, close it; for one thread. `status` is that of the last answer."""

    def __init__(
        self,
        *,
        reach: Reach,
        authorization: Mapping[str, str],
        operation_id: str,
        now: datetime,
        seconds: float,
        session: str | None = None,
    ) -> None:
        """`authorization`: the headers that say who asks. `now` is the database's clock; `seconds` is for all of it.
        `session`: one that somebody else began, which is joined and not ended."""
        self._reach = reach
        self._authorization = authorization
        self._operation_id = operation_id
        self._now = now
        self._ends = time.monotonic() + seconds
        # In a session that was joined, others count their requests too.
        self._ours = f"ascertain-{secrets.token_hex(6)}"
        self._asked = ""
        self._messages = 0
        self._session = session
        self._joined = session is not None
        self.version = ""
        """The revision that is spoken; empty before `open`."""
        self.status: int | None = None

    @property
    def modern(self) -> bool:
        """Whether each request carries its own version (2026-07-28), instead of a handshake."""
        return self.version == MODERN

    def open(self, *, mode: Mode) -> None:
        """Settle which revision is spoken.

        Raises:
            NotAnswered: the server cannot be asked, or speaks no revision that we do.
            Refused: the server refuses the handshake.
        """
        if self._joined:
            self.version = HANDSHAKE
            return
        if mode == MODERN or (mode == "auto" and self._is_modern()):
            self.version = MODERN
            return
        self.version = ""
        offered = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": _CLIENT}
        version = self.ask("initialize", offered).get("protocolVersion")
        if version not in _HANDSHAKES:
            raise NotAnswered(_NO_COMMON_REVISION, status=self.status)
        self.version = str(version)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"}, beside={})

    def ask(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        name: str | None = None,
        extension: str | None = None,
        mirrored: Mapping[str, str] | None = None,
    ) -> Mapping[str, Any]:
        """The result of one request.

        `name`: what it is about, a tool's name or a task's id. `extension`: one that it needs. `mirrored`: arguments
        that the server wants to see as headers too.

        Raises:
            NotAnswered: no answer came.
            Refused: the answer is an error.
        """
        self._messages += 1
        self._asked = f"{self._ours}-{self._messages}"
        meta: dict[str, Any] = {OPERATION: self._operation_id}
        beside: dict[str, str] = {}
        if self.modern:
            meta |= {
                f"{_META}protocolVersion": MODERN,
                f"{_META}clientInfo": _CLIENT,
                f"{_META}clientCapabilities": {"extensions": {extension: {}}} if extension else {},
            }
            beside = {**(mirrored or {}), "mcp-method": method}
            if name is not None:
                beside["mcp-name"] = header_value(name)
        message = {"jsonrpc": "2.0", "id": self._asked, "method": method, "params": {**params, "_meta": meta}}
        answer = self._send(message, beside=beside)
        if answer.status == 202:
            raise NotAnswered("The server took the question and said that no answer follows", status=202)
        if method == "initialize":
            self._session = answer.headers.get("mcp-session-id")
        found = self._in(answer)
        return self._result(found if found is not None else self._read_on(answer))

    def close(self) -> None:
        """End the session where there is one. What goes wrong here changes nothing any more."""
        if self._session is not None and not self._joined and (left := self._ends - time.monotonic()) > 0:
            self._exchange("DELETE", seconds=min(1.0, left))

    def _is_modern(self) -> bool:
        """Whether the server says, or shows by its error, that it speaks the modern revision."""
        self.version = MODERN
        try:
            supported = self.ask("server/discover", {}).get("supportedVersions")
        except Refused as error:
            supported = error.data.get("supported") if error.code == UNSUPPORTED_VERSION else None
            if isinstance(supported, list) and not {MODERN, *_HANDSHAKES}.intersection(map(str, supported)):
                raise NotAnswered(_NO_COMMON_REVISION, status=error.status) from None
        except NotAnswered as error:
            # A server of the handshake's era refuses what it does not know with a plain 4xx. Nothing else is a verdict.
            if error.status is None or not 400 <= error.status < 500 or error.overloaded or error.refused_credential:
                raise
            return False
        return isinstance(supported, list) and MODERN in supported

    def _send(self, message: Mapping[str, Any], *, beside: Mapping[str, str]) -> Exchanged:
        answer = self._exchange("POST", body=json.dumps(message).encode(), beside=beside)
        if isinstance(answer, NotExchanged):
            asked = answer.phase is not Phase.BEFORE_DISPATCH
            raise NotAnswered(answer.reason, status=answer.status, overloaded=asked and answer.failure in DOWN)
        self.status = answer.status
        if not 200 <= answer.status < 300:
            raise self._failure(answer)
        return answer

    def _exchange(
        self,
        method: str,
        *,
        body: bytes | None = None,
        beside: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> Exchanged | NotExchanged:
        headers = {"accept": "application/json, text/event-stream"}
        if body is not None:
            headers["content-type"] = "application/json"
        if self._session is not None:
            headers["mcp-session-id"] = self._session
        if self.version:
            headers["mcp-protocol-version"] = self.version
        return exchange(
            Request(
                method=method,
                url=self._reach.base_url,
                headers={**headers, **(beside or {}), **self._authorization},
                body=body,
            ),
            reach=self._reach,
            seconds=self._ends - time.monotonic() if seconds is None else seconds,
            until=self._is_whole if body is not None else None,
        )

    def _is_whole(self, body: bytearray) -> bool:
        """Whether the answer stands in what an event stream has brought so far: servers may keep it open for long."""
        if not body.endswith((b"\n\n", b"\r\n\r\n", b"\r\r")):
            return False
        last = list(_events(body.decode("utf-8", "replace")))[-1:]
        try:
            messages = [_json(event.data, status=200) for event in last if event.data]
        except NotAnswered:
            return False
        return any("method" not in message or message["method"] in _ASKS_A_PERSON for message in messages)

    def _in(self, answer: Exchanged) -> Mapping[str, Any] | None:
        """The message that answers the last request; None when the stream ended before it."""
        if not _is_stream(answer):
            return _json(answer.text, status=answer.status)
        for event in _events(answer.text):
            if not event.data:
                continue
            message = _json(event.data, status=answer.status)
            if message.get("method") in _ASKS_A_PERSON:
                raise NotAnswered(
                    "The server asks for something that only a person may give", status=self.status, needs_person=True
                )
            if "method" not in message and message.get("id") == self._asked:
                return message
        return None

    def _read_on(self, answer: Exchanged) -> Mapping[str, Any]:
        """What remains of an event stream that ended before its answer: the same answer, never the same question."""
        events = list(_events(answer.text))
        last = next((event.id for event in reversed(events) if event.id), "")
        pause = next((event.retry for event in reversed(events) if event.retry is not None), 0) / 1000
        cut = NotAnswered("The connection ended before the answer", status=self.status)
        if not last or self.modern or pause > min(_LONGEST_PAUSE, self._ends - time.monotonic()):
            raise cut
        time.sleep(pause)
        rest = self._exchange("GET", beside={"accept": "text/event-stream", "last-event-id": last})
        found = self._in(rest) if isinstance(rest, Exchanged) and rest.status == 200 and _is_stream(rest) else None
        if found is None:
            raise cut
        return found

    def _result(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        error, result = message.get("error"), message.get("result")
        if isinstance(error, Mapping):
            raise Refused(error, status=self.status or 0)
        if not isinstance(result, Mapping):
            raise NotAnswered("The answer is not what MCP prescribes", status=self.status)
        return result

    def _failure(self, answer: Exchanged) -> NotAnswered | Refused:
        if 300 <= answer.status < 400:
            return NotAnswered("The server sends us to another address, which is not followed", status=answer.status)
        wait = wait_of(
            headers=answer.headers,
            body=None,
            observed_at=None,
            now=self._now,
            refused_by_limiter=answer.status == 429,
        )
        challenge = answer.headers.get("www-authenticate", "")
        refused = answer.status == 401 or (answer.status == 403 and "insufficient_scope" in challenge)
        reason = f"The server answered {answer.status}"
        if refused:
            reason += ": it does not accept the credential"
        elif self._joined and answer.status in (400, 404):
            reason = "The session that the task was begun in has ended"
        plain = NotAnswered(
            reason,
            status=answer.status,
            retry_after_ms=None if wait is None else wait.milliseconds,
            refused_credential=refused,
            overloaded=answer.status in BUSY or answer.status >= 500,
        )
        if refused:
            return plain
        try:
            error = _json(answer.text, status=answer.status).get("error")
        except NotAnswered:
            return plain
        return Refused(error, status=answer.status) if isinstance(error, Mapping) else plain


def header_value(value: str) -> str:
    """A text as MCP puts it into a header: as it is where it can stand there, else marked and in Base64."""
    plain = _VISIBLE.fullmatch(value) is not None and value == value.strip()
    if plain and not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="


def mirrored_arguments(schema: Any, arguments: Mapping[str, Any]) -> dict[str, str]:
    """The headers that repeat the arguments which a tool's input schema marks with `x-mcp-header` (2026-07-28)."""
    headers: dict[str, str] = {}
    for path, token in _marked(schema, ()):
        value: Any = arguments
        for step in path:
            value = value.get(step) if isinstance(value, Mapping) else None
        if isinstance(value, bool):
            headers[f"mcp-param-{token}"] = "true" if value else "false"
        elif isinstance(value, str | int | float):
            headers[f"mcp-param-{token}"] = header_value(str(value))
    return headers


def _marked(schema: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping) or len(path) > 10:
        return
    for name, below in properties.items():
        token = below.get("x-mcp-header") if isinstance(below, Mapping) else None
        if isinstance(token, str) and re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}", token, re.ASCII):
            yield (*path, str(name)), token
        yield from _marked(below, (*path, str(name)))


def _is_stream(answer: Exchanged) -> bool:
    return answer.headers.get("content-type", "").partition(";")[0].strip().lower() == "text/event-stream"


def _events(text: str) -> Iterator[httpx2.ServerSentEvent]:
    answer = httpx2.Response(
        200,
        headers={"content-type": "text/event-stream; charset=utf-8"},
        content=text.encode(),
        request=httpx2.Request("POST", "http://read/"),
    )
    return iter(httpx2.EventSource(answer, max_event_size=None))


def _json(text: str, *, status: int) -> Mapping[str, Any]:
    """One JSON-RPC message.

    Raises:
        NotAnswered: it is none.
    """
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        raise NotAnswered("The answer is not what MCP prescribes", status=status)
    return message
