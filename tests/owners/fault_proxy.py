"""A proxy on loopback that loses answers on purpose, and keeps account of what reached the owner.

| mode           | the owner gets the request | the client sees                                   |
| -------------- | -------------------------- | ------------------------------------------------- |
| `pass`         | yes                        | the owner's answer                                |
| `drop_before`  | no                         | a reset after its request was read                |
| `hang_before`  | no                         | silence until it gives up                         |
| `429`          | no                         | 429 with `Retry-After: 1`                         |
| `down`         | no                         | a refused connection (for all), or a reset (for some) |
| `drop_after`   | yes, and it has answered   | a reset                                           |
| `truncate`     | yes, and it has answered   | head and half of the body, then a reset           |
| `fin_truncate` | yes, and it has answered   | head and half of the body, then the end           |
| `hang_after`   | yes, and it has answered   | silence until it gives up                         |
| `502_after`    | yes, and it has answered   | 502 from a gateway                                |

In process: `with FaultProxy(upstream_port=…) as proxy: proxy.fail("drop_after", times=1, match="PUT ")`.
From another process: `POST {control_url}/faults` with `{"mode", "times", "match", "within"}`, `DELETE` it to pass again,
`GET {control_url}/log`; or run it alone: `python -m tests.owners.fault_proxy --upstream-port 8888`.
"""

import argparse
import asyncio
import json
import socket
import struct
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Self

MODES = frozenset(
    {
        *("pass", "drop_before", "hang_before", "429", "down"),
        *("drop_after", "truncate", "fin_truncate", "hang_after", "502_after"),
    }
)
_BEFORE = frozenset({"drop_before", "hang_before", "429", "down"})


@dataclass(slots=True)
class Fault:
    """What happens to matching requests."""

    mode: str
    times: int | None = None
    """How many matching requests; None for all."""
    match: str = ""
    """A part of the request's first line, such as `PUT /v1/buckets`."""
    within: str = ""
    """A part of the request's body, where one address takes many kinds of requests."""


@dataclass(frozen=True, slots=True)
class Passed:
    """One request as the proxy saw it."""

    method: str
    path: str
    mode: str
    forwarded: bool
    """The owner received all of it."""
    status: int | None
    """The owner's answer, also when the client never saw it."""


class FaultProxy:
    """Start with `with`. Thread-safe. One connection carries one request."""

    def __init__(self, *, upstream_port: int, port: int = 0, control_port: int = 0) -> None:
        self._upstream = ("127.0.0.1", upstream_port)
        self._faults: list[Fault] = []
        self._log: list[Passed] = []
        self._lock = threading.Lock()
        # Bound but not listening: keeps the port ours, and refuses connections while the listener is closed.
        self._holder = _bound(port)
        self.port: int = self._holder.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._control = _bound(control_port)
        self.control_url = f"http://127.0.0.1:{self._control.getsockname()[1]}"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy", daemon=True)
        self._listener: asyncio.Server | None = None
        self._controller: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        self._wait(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._wait(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()
        self._holder.close()

    def fail(self, mode: str, *, times: int | None = None, match: str = "", within: str = "") -> None:
        """Add a fault. The newest that matches applies first; one that is used up is forgotten."""
        if mode not in MODES:
            raise ValueError(f"{mode} is none of {', '.join(sorted(MODES))}")
        with self._lock:
            self._faults.insert(0, Fault(mode=mode, times=times, match=match, within=within))
        self._wait(self._listen())

    def heal(self) -> None:
        """Pass everything again."""
        with self._lock:
            self._faults.clear()
        self._wait(self._listen())

    @property
    def log(self) -> tuple[Passed, ...]:
        """What passed so far, oldest first."""
        with self._lock:
            return tuple(self._log)

    def forwarded(self, match: str = "") -> int:
        """How many matching requests reached the owner whole."""
        return sum(one.forwarded and match in f"{one.method} {one.path}" for one in self.log)

    def _wait(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _start(self) -> None:
        self._controller = await asyncio.start_server(self._serve_control, sock=self._control)
        await self._listen()

    async def _stop(self) -> None:
        for server in (self._listener, self._controller):
            if server is not None:
                server.close()
        for task in tuple(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _listen(self) -> None:
        """Close the listener while everything is down, open it otherwise."""
        with self._lock:
            down = any(
                fault.mode == "down" and fault.times is None and not fault.match and not fault.within
                for fault in self._faults
            )
        if down and self._listener is not None:
            self._listener.close()
            self._listener = None
        elif not down and self._listener is None:
            self._listener = await asyncio.start_server(self._serve, sock=_bound(self.port), limit=2**20)

    def _take(self, line: str, body: bytes) -> str:
        with self._lock:
            for fault in self._faults:
                if fault.match not in line or fault.within.encode() not in body:
                    continue
                if fault.times is not None:
                    fault.times -= 1
                    if fault.times == 0:
                        self._faults.remove(fault)
                return fault.mode
        return "pass"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                await self._pass(reader, writer)
        except asyncio.CancelledError:
            pass  # The proxy stops; nobody waits for this connection.
        finally:
            self._open.discard(task)
            with suppress(OSError):
                writer.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head, body = await _read_request(reader)
        method, path, _ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
        mode = self._take(f"{method} {path}", body)
        if mode in _BEFORE:
            self._note(Passed(method=method, path=path, mode=mode, forwarded=False, status=None))
            if mode == "hang_before":
                await _until_given_up(reader)
            elif mode == "429":
                await _answer(writer, 429, "Too Many Requests", b"retry-after: 1\r\n", b'{"message": "slow down"}')
            else:
                _reset(writer)
            return
        try:
            answer = await self._forward(head, body)
        except OSError:
            self._note(Passed(method=method, path=path, mode=mode, forwarded=False, status=None))
            await _answer(writer, 502, "Bad Gateway", b"", b"The owner cannot be reached.")
            return
        status = int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/") else None
        self._note(Passed(method=method, path=path, mode=mode, forwarded=True, status=status))
        await self._hand_back(mode, answer, reader, writer)

    async def _hand_back(
        self, mode: str, answer: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if mode == "pass":
            writer.write(answer)
            await writer.drain()
        elif mode == "drop_after":
            _reset(writer)
        elif mode == "hang_after":
            await _until_given_up(reader)
        elif mode == "502_after":
            await _answer(writer, 502, "Bad Gateway", b"server: fault-proxy\r\n", b"<html>502 Bad Gateway</html>")
        else:
            head, _, body = answer.partition(b"\r\n\r\n")
            writer.write(head + b"\r\n\r\n" + body[: len(body) // 2])
            await writer.drain()
            if mode == "truncate":
                # A reset throws away what the client has not read yet; let the half arrive first.
                await asyncio.sleep(0.05)
                _reset(writer)

    async def _forward(self, head: bytes, body: bytes) -> bytes:
        """One request on a connection of its own; the owner's whole answer as it came."""
        reader, writer = await asyncio.open_connection(*self._upstream)
        try:
            lines = [line for line in head.split(b"\r\n") if not line.lower().startswith((b"connection:", b"expect:"))]
            writer.write(b"\r\n".join([*lines, b"Connection: close"]) + b"\r\n\r\n" + body)
            await writer.drain()
            answer = await _read_answer(reader, to=head.partition(b" ")[0])
        finally:
            writer.close()
        if not answer:
            raise ConnectionResetError("the owner ended without an answer")
        return answer

    def _note(self, passed: Passed) -> None:
        with self._lock:
            self._log.append(passed)

    async def _serve_control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            head, body = await _read_request(reader)
            method, path, _ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
            told: Any = {"ok": True}
            status = 200
            if (method, path) == ("GET", "/log"):
                told = [asdict(one) for one in self.log]
            elif (method, path) == ("DELETE", "/faults"):
                with self._lock:
                    self._faults.clear()
                await self._listen()
            elif (method, path) == ("POST", "/faults"):
                fault = Fault(**json.loads(body))
                if fault.mode in MODES:
                    with self._lock:
                        self._faults.insert(0, fault)
                    await self._listen()
                else:
                    status, told = 422, {"ok": False}
            else:
                status, told = 404, {"ok": False}
            content = json.dumps(told).encode()
            await _answer(writer, status, "Answered", b"content-type: application/json\r\n", content)
        writer.close()


def _bound(port: int) -> socket.socket:
    """A socket on loopback whose port others of ours may share; not listening yet."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    one.bind(("127.0.0.1", port))
    return one


async def _read_request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Head without its empty line, and the body as it came (chunked stays chunked)."""
    head = (await reader.readuntil(b"\r\n\r\n"))[:-4]
    fields = _fields(head)
    if fields.get(b"transfer-encoding", b"").lower() != b"chunked":
        return head, await reader.readexactly(int(fields.get(b"content-length", b"0")))
    return head, b"".join([piece async for piece in _chunks(reader)])


async def _read_answer(reader: asyncio.StreamReader, *, to: bytes) -> bytes:
    """Head and body as they came, to the body's own end: some owners keep the connection, whatever they are asked. Less,
    where the owner broke off. `to`: the request's method."""
    answer = b""
    try:
        answer = await reader.readuntil(b"\r\n\r\n")
        fields = _fields(answer)
        if to == b"HEAD" or answer.split(b" ", 2)[1] in (b"204", b"304"):
            return answer
        if fields.get(b"transfer-encoding", b"").lower() == b"chunked":
            async for piece in _chunks(reader):
                answer += piece
        elif b"content-length" in fields:
            answer += await reader.readexactly(int(fields[b"content-length"]))
        else:
            answer += await reader.read(-1)
    except asyncio.IncompleteReadError as error:
        answer += error.partial
    return answer


def _fields(head: bytes) -> dict[bytes, bytes]:
    return {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(b":") for line in head.split(b"\r\n")[1:])
    }


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Each chunk with its frame, the last one too."""
    length = -1
    while length != 0:
        size = await reader.readuntil(b"\r\n")
        length = int(size.split(b";")[0], 16)
        yield size + await reader.readexactly(length + 2)


async def _answer(writer: asyncio.StreamWriter, status: int, reason: str, fields: bytes, body: bytes) -> None:
    head = f"HTTP/1.1 {status} {reason}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n".encode()
    writer.write(head + fields + b"\r\n" + body)
    await writer.drain()


async def _until_given_up(reader: asyncio.StreamReader) -> None:
    await reader.read(-1)


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST instead of FIN."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def main() -> None:
    """Run alone until standard input ends; print the addresses as one line of JSON."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--upstream-port", type=int, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--control-port", type=int, default=0)
    chosen = parser.parse_args()
    with FaultProxy(upstream_port=chosen.upstream_port, port=chosen.port, control_port=chosen.control_port) as proxy:
        print(json.dumps({"url": proxy.url, "control_url": proxy.control_url}), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
