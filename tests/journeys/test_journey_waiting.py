"""Two hundred requests wait at the real server: they hold no database connection, and others are served meanwhile."""

import json
import selectors
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx2
import psycopg

from tests.conftest import Bench, Database

WAITERS = 200
TOO_MANY = 80
"""More than the two server processes hold (100 each), so that some must be turned away."""


@dataclass(slots=True)
class Waiter:
    """One request that waits, on a plain socket: no thread of ours waits with it."""

    sock: socket.socket
    got: bytes = b""
    at: float | None = None
    """When the whole answer had come."""

    @property
    def status(self) -> int:
        return int(self.got.split(b" ", 2)[1])

    @property
    def headers(self) -> dict[str, str]:
        lines = self.got.partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
        return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}

    @property
    def body(self) -> Any:
        """The only object in it; the server sends it in chunks."""
        content = self.got.partition(b"\r\n\r\n")[2]
        return json.loads(content[content.index(b"{") : content.rindex(b"}") + 1])


@dataclass(slots=True)
class Crowd:
    """Many waiters at one operation."""

    waiters: list[Waiter] = field(default_factory=list)

    def join(self, *, web: str, token: str, path: str, how_many: int) -> None:
        """So many more requests; returns once all are sent."""
        parts = urlsplit(web)
        assert parts.hostname is not None
        for _ in range(how_many):
            sock = socket.create_connection((parts.hostname, parts.port or 80), timeout=30)
            sock.sendall(
                f"GET /api/v1{path} HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {token}\r\n"
                "Connection: close\r\n\r\n".encode()
            )
            sock.setblocking(False)
            self.waiters.append(Waiter(sock))

    def hear(self, *, seconds: float, all_of_them: bool = False) -> None:
        """Take what comes within the time; with `all_of_them` return as soon as every waiter has its answer."""
        ends = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            for waiter in self.still_waiting:
                selector.register(waiter.sock, selectors.EVENT_READ, waiter)
            while (left := ends - time.monotonic()) > 0 and not (all_of_them and not self.still_waiting):
                for key, _ in selector.select(min(left, 0.2)):
                    part = key.data.sock.recv(65536)
                    if part:
                        key.data.got += part
                    else:
                        key.data.at = time.monotonic()
                        selector.unregister(key.data.sock)

    @property
    def still_waiting(self) -> list[Waiter]:
        return [waiter for waiter in self.waiters if waiter.at is None]

    @property
    def answered(self) -> list[Waiter]:
        return [waiter for waiter in self.waiters if waiter.at is not None]


@contextmanager
def crowd() -> Iterator[Crowd]:
    made = Crowd()
    try:
        yield made
    finally:
        for waiter in made.waiters:
            waiter.sock.close()


def test_many_wait_without_a_connection_and_without_holding_others_up(
    web: str, bench: Bench, database: Database
) -> None:
    with (
        httpx2.Client(
            base_url=f"{web}/api/v1", headers={"authorization": f"Bearer {bench.token}"}, timeout=30, trust_env=False
        ) as client,
        crowd() as waiting,
    ):
        told = client.post("/operations", json=_intent("ticket:0")).json()["data"]
        alone = _slowest_intake(client, "alone")
        path = f"/operations/ticket:0?wait=20&version={told['version']}"
        waiting.join(web=web, token=bench.token, path=path, how_many=WAITERS + TOO_MANY)
        waiting.hear(seconds=4)

        assert len(waiting.still_waiting) >= WAITERS // 2, "at least one server process is full of waiters"
        assert len(waiting.still_waiting) <= WAITERS
        assert len(waiting.answered) >= TOO_MANY
        for turned_away in waiting.answered:
            assert turned_away.status == 503
            error = turned_away.body["error"]
            assert (error["code"], error["class"], error["retryable"]) == ("TOO_MANY_WAITING", "transient", True)
            assert error["retry_after_ms"] > 0
            assert int(turned_away.headers["retry-after"]) >= 1
        busy = _slowest_intake(client, "busy")
        assert busy < 10 * alone + 2, f"intake took {busy:.2f} s beside the waiters, {alone:.2f} s without"

        held, in_transaction = _connections(database)
        assert held < 30, f"{held} connections for {len(waiting.still_waiting)} waiters: they hold some"
        assert in_transaction == 0

        path = f"/operations/ticket:0/attempts/{told['permit']['attempt_id']}/observations"
        settled = client.post(path, json={"kind": "http", "status": 201, "body": {"id": "T-1"}}).json()["data"]
        assert settled["state"] == "settled"
        settled_at = time.monotonic()
        patient = list(waiting.still_waiting)
        waiting.hear(seconds=20, all_of_them=True)
        assert not waiting.still_waiting
        assert {(waiter.status, waiter.body["data"]["state"]) for waiter in patient} == {(200, "settled")}
        first = min(waiter.at or 0 for waiter in patient) - settled_at
        assert first < 3, f"the first waiter heard after {first:.1f} s"


def test_one_that_waits_is_released_by_the_settling(web: str, bench: Bench) -> None:
    headers = {"authorization": f"Bearer {bench.token}"}
    with httpx2.Client(base_url=f"{web}/api/v1", headers=headers, timeout=30, trust_env=False) as client:
        told = client.post("/operations", json=_intent("ticket:0")).json()["data"]
        with crowd() as waiting:
            waiting.join(web=web, token=bench.token, path="/operations/ticket:0?wait=20&version=1", how_many=1)
            waiting.hear(seconds=0.7)
            assert waiting.still_waiting, "nothing has moved yet"
            path = f"/operations/ticket:0/attempts/{told['permit']['attempt_id']}/observations"
            client.post(path, json={"kind": "http", "status": 201, "body": {"id": "T-1"}})
            settled_at = time.monotonic()
            waiting.hear(seconds=10, all_of_them=True)
            [waiter] = waiting.answered
            assert waiter.body["data"]["outcome"] == "applied"
            assert (waiter.at or 0) - settled_at < 3, "by notification, not by the look every five seconds"


def test_a_wait_in_which_nothing_moves_ends_with_the_operation_as_it_is(web: str, bench: Bench) -> None:
    headers = {"authorization": f"Bearer {bench.token}"}
    with httpx2.Client(base_url=f"{web}/api/v1", headers=headers, timeout=30, trust_env=False) as client:
        client.post("/operations", json={**_intent("ticket:0"), "attempt": False})
        began = time.monotonic()
        answer = client.get("/operations/ticket:0?wait=1")
        assert (answer.status_code, answer.json()["data"]["version"]) == (200, 1)
        assert 0.9 < time.monotonic() - began < 10


def _intent(operation_id: str) -> dict[str, Any]:
    payload = {"title": f"Export broken ({operation_id})", "customer": "c-19"}
    return {"operation_id": operation_id, "tool": "tickets.create", "payload": payload, "attempt": True}


def _slowest_intake(client: httpx2.Client, name: str) -> float:
    """Seconds of the slowest of ten intents."""
    slowest = 0.0
    for number in range(10):
        began = time.monotonic()
        answer = client.post("/operations", json=_intent(f"{name}:{number}"))
        assert answer.status_code == 201
        slowest = max(slowest, time.monotonic() - began)
    return slowest


def _connections(database: Database) -> tuple[int, int]:
    """The application's connections now, and those of them inside a transaction."""
    with psycopg.connect(database.superuser_url) as connection:
        row = connection.execute(
            "SELECT count(*), count(*) FILTER (WHERE state LIKE 'idle in transaction%') "
            "FROM pg_stat_activity WHERE usename = 'ascertain_app' AND datname = current_database()"
        ).fetchone()
    assert row is not None
    return row[0], row[1]
