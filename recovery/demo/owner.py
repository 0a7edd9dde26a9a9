"""A small honest owner for the demo, that loses answers on purpose.

    python -m recovery.demo.owner --port 8090 [--seed 7] [--calm] [--store FILE]

| call                                  | promise                                                              |
| ------------------------------------- | -------------------------------------------------------------------- |
| `POST /tickets`                       | `Idempotency-Key` required, its result stored; other payload: 422    |
| `GET /tickets/by-key/{key}`           | the ticket made under that key, or 404: authoritative                |
| `POST /refunds`                       | no key: each request makes another refund                            |
| `GET /refunds/by-reference/{ref}`     | authoritative, up to 2 s behind                                      |
| `POST /bookings`, `…/by-reference/…`  | a slot is given once: 409 `SLOT_TAKEN`                               |
| `POST /imports`, `…/by-reference/…`   | many tickets in one call, each by itself: some are answered 429      |
| `GET /customers/{id}`                 | a read                                                               |
| `POST /invoices`                      | taken, but `GET /invoices/by-reference/…` never answers better than 503 |

Which misfortune meets a call is drawn from MISFORTUNES with the seed. What was made is kept in a file, so that an
owner that was restarted still tells the truth.
"""

import argparse
import json
import random
import socket
import sqlite3
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

MISFORTUNES: dict[str, float] = {
    "drop_before": 0.07,  # read, then cut before anything is done
    "drop_after": 0.15,  # done, then cut
    "slow": 0.04,  # done at once, answered when nobody waits any more
    "late": 0.03,  # done when nobody waits any more
    "502_after": 0.06,  # done, then a gateway says 502
    "429": 0.06,  # refused before anything is done
}
"""The chance of each for one dispatched call; the rest goes well."""

TOO_MANY = 0.15
"""The chance that one ticket of an import is refused for now."""
LOOKUP_TROUBLE = 0.05
"""The chance that a lookup answers 503."""

REFUND_LIMIT_CENTS = 50_000
PRIORITIES = ("low", "normal", "high")
SLOTS = tuple(
    f"{day}-{hour:02}{minute:02}" for day in ("mon", "tue", "wed") for hour in (9, 11, 14) for minute in (0, 30)
)
REFUND_LAG = 2.0
"""Seconds until a refund shows."""
LATE = 5.0
"""Seconds that a slow or late call takes: longer than any demo contract's timeout."""
_KEPT = 5_000
"""Objects that the store keeps; the oldest go first."""

Answer = tuple[int, dict[str, Any]]


class Store:
    """What the owner has made, in a file (or in memory for `:memory:`). Safe for many threads."""

    def __init__(self, *, path: str) -> None:
        self._lock = threading.Lock()
        self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS made"
            " (number INTEGER PRIMARY KEY, kind TEXT, reference TEXT, body TEXT, made_at REAL)"
        )
        self._database.execute("CREATE INDEX IF NOT EXISTS made_reference ON made (kind, reference)")

    def make(
        self, *, kind: str, reference: str, body: dict[str, Any], once: str | None = None
    ) -> dict[str, Any] | None:
        """Keep an object and return it with its id. With `once`, None when that member's value is taken already."""
        with self._lock:
            if once is not None and self._taken(kind, once, body[once]):
                return None
            made_at = time.time()
            cursor = self._database.execute(
                "INSERT INTO made (kind, reference, body, made_at) VALUES (?, ?, ?, ?)",
                (kind, reference, json.dumps(body), made_at),
            )
            self._database.execute("DELETE FROM made WHERE number <= ?", ((cursor.lastrowid or 0) - _KEPT,))
            return {"id": f"{kind[0].upper()}-{cursor.lastrowid}", **body}

    def find(self, *, kind: str, reference: str, older_than: float = 0.0) -> dict[str, Any] | None:
        """The first object of that reference which is so many seconds old."""
        with self._lock:
            row = self._database.execute(
                "SELECT number, body FROM made WHERE kind = ? AND reference = ? AND made_at <= ? ORDER BY number",
                (kind, reference, time.time() - older_than),
            ).fetchone()
        return None if row is None else {"id": f"{kind[0].upper()}-{row[0]}", **json.loads(row[1])}

    def taken(self, *, kind: str, member: str, since: float) -> set[str]:
        """The values of one member among objects made in the last `since` seconds."""
        with self._lock:
            rows = self._database.execute(
                "SELECT json_extract(body, ?) FROM made WHERE kind = ? AND made_at > ?",
                (f"$.{member}", kind, time.time() - since),
            ).fetchall()
        return {row[0] for row in rows}

    def _taken(self, kind: str, member: str, value: str) -> bool:
        row = self._database.execute(
            "SELECT 1 FROM made WHERE kind = ? AND json_extract(body, ?) = ? AND made_at > ?",
            (kind, f"$.{member}", value, time.time() - 60),
        ).fetchone()
        return row is not None


class Owner:
    """The rules of the demo owner, without HTTP."""

    def __init__(self, *, store: Store, seed: int, calm: bool = False) -> None:
        self._store = store
        self._dice = random.Random(seed)
        self._lock = threading.Lock()
        self._calm = calm

    def misfortune(self) -> str | None:
        """What goes wrong with the next dispatched call, if anything."""
        if self._calm:
            return None
        with self._lock:
            roll = self._dice.random()
        for name, chance in MISFORTUNES.items():
            roll -= chance
            if roll < 0:
                return name
        return None

    def lookup_fails(self) -> bool:
        """Whether the next lookup meets trouble."""
        with self._lock:
            return not self._calm and self._dice.random() < LOOKUP_TROUBLE

    def create(self, *, kind: str, body: dict[str, Any], key: str | None) -> Answer:
        """Have the effect, or refuse it before it happens."""
        match kind:
            case "tickets":
                return self._ticket(body, key)
            case "refunds":
                return self._refund(body)
            case "bookings":
                return self._booking(body)
            case "imports":
                return 200, {"results": [self._imported(ticket) for ticket in body["tickets"]]}
            case "invoices":
                made = self._store.make(kind=kind, reference=str(body.get("reference")), body=body)
                return 202, {**(made or {}), "state": "queued"}
        return 404, {"code": "NO_SUCH_ROUTE"}

    def look_up(self, *, kind: str, reference: str) -> Answer:
        """The truth about one reference."""
        if kind == "invoices":
            return 503, {"code": "ARCHIVE_CLOSED", "message": "The archive is being moved."}
        found = self._store.find(kind=kind, reference=reference, older_than=REFUND_LAG if kind == "refunds" else 0)
        return (404, {"code": "NOT_FOUND"}) if found is None else (200, found)

    def _ticket(self, body: dict[str, Any], key: str | None) -> Answer:
        if not key:
            return 400, {"code": "KEY_MISSING", "message": "Send an Idempotency-Key."}
        known = self._store.find(kind="tickets", reference=key)
        if known is not None:
            same = all(known.get(member) == value for member, value in body.items())
            return (200, known) if same else (422, {"code": "KEY_REUSED", "message": "Another payload has this key."})
        if body.get("priority") not in PRIORITIES:
            return 422, {"code": "PRIORITY_UNKNOWN", "field": "priority", "allowed": list(PRIORITIES)}
        made = self._store.make(kind="tickets", reference=key, body={**body, "state": "open"})
        return 201, made or {}

    def _refund(self, body: dict[str, Any]) -> Answer:
        if body["amount_cents"] > REFUND_LIMIT_CENTS:
            return 403, {"code": "ABOVE_LIMIT", "message": "This credential may not refund so much."}
        made = self._store.make(kind="refunds", reference=str(body["reference"]), body={**body, "state": "paid"})
        return 201, made or {}

    def _imported(self, ticket: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            refused = not self._calm and self._dice.random() < TOO_MANY
        if refused:
            return {"id": ticket["ref"], "status": 429, "code": "SLOW_DOWN"}
        self._store.make(kind="imports", reference=ticket["ref"], body=ticket)
        return {"id": ticket["ref"], "status": 201}

    def _booking(self, body: dict[str, Any]) -> Answer:
        booked = {**body, "state": "booked"}
        made = self._store.make(kind="bookings", reference=str(body["reference"]), body=booked, once="slot")
        if made is not None:
            return 201, made
        taken = self._store.taken(kind="bookings", member="slot", since=60)
        return 409, {"code": "SLOT_TAKEN", "free_slots": [slot for slot in SLOTS if slot not in taken][:3]}


class Handler(BaseHTTPRequestHandler):
    """The owner's HTTP."""

    protocol_version = "HTTP/1.1"
    timeout = 30
    owner: Owner

    def do_GET(self) -> None:
        steps = self.path.partition("?")[0].strip("/").split("/")
        match steps:
            case ["health"]:
                self._answer(200, {"ok": True})
            case [kind, "by-key" | "by-reference", reference]:
                if self.owner.lookup_fails():
                    self._answer(503, {"code": "TRY_LATER"})
                else:
                    self._answer(*self.owner.look_up(kind=kind, reference=unquote(reference)))
            case ["customers", customer]:
                self._with_misfortune(lambda: (200, {"id": unquote(customer), "plan": "team", "name": "A customer"}))
            case _:
                self._answer(404, {"code": "NO_SUCH_ROUTE"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", "0"))))
        kind = self.path.strip("/")
        key = self.headers.get("idempotency-key")
        self._with_misfortune(lambda: self.owner.create(kind=kind, body=body, key=key))

    def log_message(self, format: str, *args: object) -> None:
        """Stay quiet: the demo's terminal belongs to Ascertain."""

    def _with_misfortune(self, act: Callable[[], Answer]) -> None:
        misfortune = self.owner.misfortune()
        if misfortune == "429":
            self._answer(429, {"code": "SLOW_DOWN"}, retry_after="2")
        elif misfortune == "drop_before":
            self._cut()
        else:
            if misfortune == "late":
                time.sleep(LATE)
            status, answer = act()
            if misfortune == "slow":
                time.sleep(LATE)
            if misfortune == "drop_after":
                self._cut()
            elif misfortune == "502_after":
                self._answer(502, {"message": "Bad Gateway"}, server="demo-gateway")
            else:
                self._answer(status, answer)

    def _answer(self, status: int, answer: dict[str, Any], **headers: str) -> None:
        content = json.dumps(answer).encode()
        with suppress(OSError):
            self.send_response_only(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(content)

    def _cut(self) -> None:
        """Reset the connection instead of answering."""
        self.close_connection = True
        with suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()


class Server(ThreadingHTTPServer):
    """Quiet about clients that gave up."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A broken connection is this owner's everyday business."""


def serve(*, port: int, seed: int, calm: bool, store: str) -> Server:
    """A server on loopback, ready to `serve_forever`; port 0 takes a free one."""
    handler = type("OwnerHandler", (Handler,), {"owner": Owner(store=Store(path=store), seed=seed, calm=calm)})
    return Server(("127.0.0.1", port), handler)


def main() -> None:
    """Serve until stopped."""
    parser = argparse.ArgumentParser(prog="recovery.demo.owner", description="The demo's owner.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--calm", action="store_true", help="lose nothing")
    parser.add_argument("--store", default=".local/demo-owner.sqlite3")
    chosen = parser.parse_args()
    if chosen.store != ":memory:":
        Path(chosen.store).parent.mkdir(parents=True, exist_ok=True)
    server = serve(port=chosen.port, seed=chosen.seed, calm=chosen.calm, store=chosen.store)
    with suppress(KeyboardInterrupt), server:
        server.serve_forever()


if __name__ == "__main__":
    main()
