"""A made-up owner system in a process of its own: it keeps what was done, shows it late, and loses answers on purpose.

    python -m recovery.benchmarks.settle_owner --port 8123 --faults mixed --seed 7

| address                                     | what it is                                                              |
| ------------------------------------------- | ----------------------------------------------------------------------- |
| POST /status/tickets                        | each request that is carried out makes a ticket: no key is honoured     |
| POST /key/tickets                           | an `Idempotency-Key` is honoured, errors are not stored                 |
| POST /index/tickets                         | as /status; but only an index can be asked                              |
| GET /status, /key: tickets/by-name/{name}   | 200 with the ticket, or 404                                             |
| GET /index/tickets?q={name}                 | a page of the index                                                     |
| GET /truth                                  | effects by name, how often it was asked, the longest lag that there was |

A ticket is there when its request is carried out, at the latest `PROCESSING` after it came; lookups show it after a
further `SHOWN_LATE` at most. Which request meets which fault is told by the seed, the ticket's name and how many came
before: the same whatever the order in which they come.
"""

import argparse
import asyncio
import json
import random
import socket
import struct
from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final
from urllib.parse import unquote

HOST: Final = "127.0.0.1"
PROCESSING: Final = 1.8
"""Seconds; those who asked have given up by then."""
SHOWN_LATE: Final = 0.7
"""Seconds."""


class Fault(StrEnum):
    """What happens to one request."""

    NONE = "none"
    LOST_AFTER = "lost_after"
    """Carried out; the answer is lost with a reset."""
    CUT = "cut"
    """Carried out; half of the answer arrives."""
    LATE = "late"
    """Carried out after whoever asked has given up."""
    GATEWAY_AFTER = "gateway_after"
    """Carried out; a gateway answers 502."""
    GATEWAY_BEFORE = "gateway_before"
    """A gateway answers 502, and the owner never saw it."""
    LOST_BEFORE = "lost_before"
    """A reset before anything was done."""
    HANGS = "hangs"
    """Silence; nothing is done."""
    LIMITED = "limited"
    """429 with a second to wait."""
    REFUSED = "refused"
    """The owner's own rule refuses it."""
    MALFORMED = "malformed"
    """A 200 that is no JSON."""


WRITES: Final = {
    Fault.NONE: 44,
    Fault.LOST_AFTER: 12,
    Fault.CUT: 4,
    Fault.LATE: 6,
    Fault.GATEWAY_AFTER: 8,
    Fault.GATEWAY_BEFORE: 5,
    Fault.LOST_BEFORE: 9,
    Fault.HANGS: 3,
    Fault.LIMITED: 5,
    Fault.REFUSED: 4,
}
"""Of a hundred first writes of a name."""
AGAIN: Final = {
    Fault.NONE: 79,
    Fault.LOST_AFTER: 5,
    Fault.CUT: 2,
    Fault.LATE: 3,
    Fault.GATEWAY_AFTER: 4,
    Fault.GATEWAY_BEFORE: 2,
    Fault.LOST_BEFORE: 3,
    Fault.HANGS: 1,
    Fault.LIMITED: 1,
}
"""Of a hundred later ones: an owner that fails every other request would rightly be asked no more."""
READS: Final = {
    Fault.NONE: 83,
    Fault.GATEWAY_BEFORE: 6,
    Fault.LOST_BEFORE: 4,
    Fault.CUT: 2,
    Fault.HANGS: 1,
    Fault.LIMITED: 1,
    Fault.MALFORMED: 3,
}
"""Of a hundred lookups."""
CARRIED_OUT: Final = frozenset({Fault.NONE, Fault.LOST_AFTER, Fault.CUT, Fault.LATE, Fault.GATEWAY_AFTER})
HANGS_FOR: Final = 3.0
"""Seconds until it closes the connection."""

Answer = tuple[int, Any]


def fault_of(*, seed: int, name: str, number: int, chances: dict[Fault, int]) -> Fault:
    """The fault that the `number`th request for `name` meets."""
    roll = random.Random(f"{seed}:{name}:{number}")  # noqa: S311 - made-up faults, told by a seed
    return roll.choices(list(chances), weights=list(chances.values()))[0]


class Owner:
    """What it holds. All in one thread."""

    def __init__(self, *, seed: int, faulty: bool) -> None:
        self.effects: dict[str, list[float]] = {}
        """For each name, when lookups show each of its tickets."""
        self.asked: Counter[str] = Counter()
        self.longest_lag = 0.0
        self._seed, self._faulty = seed, faulty
        self._keys: dict[str, Answer | None] = {}
        """What was answered under a key; None while its request runs."""
        self._came: Counter[str] = Counter()
        self._loop = asyncio.get_running_loop()

    def write(self, *, desk: str, name: str, key: str | None, answer: Callable[[Fault, Answer], None]) -> None:
        """Carry a request out, or not; answer it, or not."""
        self.asked[f"{desk}/writes"] += 1
        fault = self._fault(f"write:{name}", WRITES if f"write:{name}" not in self._came else AGAIN)
        kept = f"{desk}:{key}" if desk == "key" and key else None
        known = kept is not None and kept in self._keys
        if known and fault in (*CARRIED_OUT, Fault.REFUSED):
            # It refuses no request that it carried out before; and a stored answer can be lost on its way as well.
            stored = self._keys[kept or ""]
            return answer(fault, stored) if stored is not None else answer(Fault.NONE, (409, {"code": "IN_FLIGHT"}))
        if fault not in CARRIED_OUT:
            return answer(fault, (409, {"code": "SLOT_TAKEN"}) if fault is Fault.REFUSED else (0, None))
        if kept is not None:
            self._keys[kept] = None
        came = self._loop.time()

        def carry_out() -> None:
            shown = self._loop.time() + self._delay(name, SHOWN_LATE)
            self.effects.setdefault(name, []).append(shown)
            self.longest_lag = max(self.longest_lag, shown - came)
            told: Answer = (201, {"id": f"t-{len(self.effects)}", "name": name})
            if kept is not None:
                self._keys[kept] = told
            answer(fault, told)

        if fault is Fault.LATE:
            self._loop.call_later(1.1 + self._delay(f"late:{name}", PROCESSING - 1.1), carry_out)
        else:
            carry_out()
        return None

    def read(self, *, desk: str, name: str, answer: Callable[[Fault, Answer], None]) -> None:
        """Show what is there, or not."""
        self.asked[f"{desk}/lookups"] += 1
        fault = self._fault(f"read:{name}", READS)
        now = self._loop.time()
        shown = [{"name": name, "title": f"Ticket {name}"} for at in self.effects.get(name, ()) if at <= now]
        if desk == "index":
            return answer(fault, (200, {"items": shown, "next": None}))
        return answer(fault, (200, shown[0]) if shown else (404, {"code": "NO_SUCH_TICKET"}))

    def truth(self) -> dict[str, Any]:
        """What was really done."""
        effects = {name: len(tickets) for name, tickets in self.effects.items()}
        return {"effects": effects, "asked": dict(self.asked), "longest_lag": self.longest_lag}

    def _fault(self, name: str, chances: dict[Fault, int]) -> Fault:
        if not self._faulty:
            return Fault.NONE
        self._came[name] += 1
        return fault_of(seed=self._seed, name=name, number=self._came[name], chances=chances)

    def _delay(self, name: str, most: float) -> float:
        return random.Random(f"{self._seed}:{name}").uniform(0, most) if self._faulty else 0.0  # noqa: S311 - likewise


class _Connection(asyncio.Protocol):
    """Just enough HTTP/1.1: requests with a Content-Length or none, kept alive."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._got = b""
        self._busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self._got += data
        self._next()

    def _next(self) -> None:
        head, end, rest = self._got.partition(b"\r\n\r\n")
        if self._busy or not end:
            return
        line, *lines = head.decode("latin-1").split("\r\n")
        fields = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in lines)}
        length = int(fields.get("content-length", "0"))
        if len(rest) < length:
            return
        self._got, self._busy = rest[length:], True
        method, path, _ = line.split(" ", 2)
        self._serve(method, path, fields, rest[:length])

    def _serve(self, method: str, path: str, fields: dict[str, str], body: bytes) -> None:
        desk = path.split("/", 2)[1]
        if path == "/truth":
            self._answer(Fault.NONE, (200, self._owner.truth()))
        elif method == "POST":
            name, key = json.loads(body)["name"], fields.get("idempotency-key")
            self._owner.write(desk=desk, name=name, key=key, answer=self._answer)
        else:
            name = unquote(path.rpartition("=" if "?" in path else "/")[2])
            self._owner.read(desk=desk, name=name, answer=self._answer)

    def _answer(self, fault: Fault, answer: Answer) -> None:
        if self._transport.is_closing():
            return
        if fault in (Fault.LOST_AFTER, Fault.LOST_BEFORE):
            self._reset()
        elif fault is Fault.HANGS:
            asyncio.get_running_loop().call_later(HANGS_FOR, self._transport.close)
        elif fault in (Fault.GATEWAY_AFTER, Fault.GATEWAY_BEFORE):
            self._write(502, b"<html>502 Bad Gateway</html>", "server: made-up-gateway\r\n")
        elif fault is Fault.LIMITED:
            self._write(429, b'{"code": "SLOW_DOWN"}', "retry-after: 1\r\n")
        elif fault is Fault.MALFORMED:
            self._write(200, b'{"name": ', "")
        else:
            status, value = answer
            body = json.dumps(value).encode()
            if fault is Fault.CUT:
                self._transport.write(_head(status, len(body), "") + body[: len(body) // 2])
                self._transport.close()
                return
            self._write(status, body, "")

    def _write(self, status: int, body: bytes, fields: str) -> None:
        self._transport.write(_head(status, len(body), fields) + body)
        self._busy = False
        self._next()

    def _reset(self) -> None:
        sock = self._transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()


def _head(status: int, length: int, fields: str) -> bytes:
    told = f"HTTP/1.1 {status} Answered\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{fields}\r\n"
    return told.encode()


async def serve(*, port: int, seed: int, faulty: bool) -> None:
    """Serve until the process is ended."""
    owner = Owner(seed=seed, faulty=faulty)
    server = await asyncio.get_running_loop().create_server(lambda: _Connection(owner), HOST, port, backlog=512)
    await server.serve_forever()


def main() -> None:
    """Run alone."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--faults", choices=["none", "mixed"], default="mixed")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    asyncio.run(serve(port=chosen.port, seed=chosen.seed, faulty=chosen.faults == "mixed"))


if __name__ == "__main__":
    main()
