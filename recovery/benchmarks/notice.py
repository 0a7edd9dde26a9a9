"""`notice`: how soon does an owner's word reach whoever waits, and how soon is a poll's answer the settled outcome?

| line                       | from                                              | to                                      | target     |
| -------------------------- | ------------------------------------------------- | --------------------------------------- | ---------- |
| notice.released            | the owner begins to send its signed notification  | the waiting harness has its answer      | p99 ≤ 150 ms |
| notice.poll_settled        | the owner has written its answer to our lookup    | the outcome is durable                  | p99 ≤ 60 ms  |

The targets are times, so the reference only says what the machine was like: one plain authenticated read through the same
server. Both go through real HTTP; the waiter listens before the clock starts.
"""

import json
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import UUID, uuid4

import httpx2
from django.conf import settings

from ledger.database import execute
from ledger.queries.clock import database_now
from ledger.rules.contract import parse_contract
from ledger.rules.signatures import new_secret, signed
from ledger.transitions.contracts import publish_contract
from ledger.transitions.destinations import add_endpoint
from ledger.transitions.workspace import ensure_owner
from recovery.benchmarks.rounds import Side, VoidRunError, compare, line
from recovery.benchmarks.stage import CONTRACT, TOOL, Stage, gather_statistics, stage, web
from recovery.reconcile import reconcile
from recovery.sealing import new_key, seal

TIMES = 100
"""Operations a round and line."""
LOST = {"kind": "exception", "exception": "ReadTimeout", "phase": "await", "bytes_sent": 300, "request_bytes": 300}
HEARD = {
    **CONTRACT,
    "notice": {"operation_id": "body.reference", "effect": {"applied": "body.state == 'open'"}},
    "poll": {"first": "1h", "max": "1h"},
}


def run(*, rounds: int = 5) -> Iterator[dict[str, Any]]:
    """Two lines.

    Raises:
        VoidRunError: too few rounds count, or an operation was not settled as told.
    """
    if not settings.ASCERTAIN_FIELD_KEYS:
        settings.ASCERTAIN_FIELD_KEYS = os.environ["ASCERTAIN_FIELD_KEYS"] = new_key()
    with stage() as here, _owner() as owner:
        owner_id = ensure_owner(
            workspace_id=here.workspace_id,
            name="helpdesk",
            base_url=f"http://127.0.0.1:{owner.server_port}",
            private_hosts=["127.0.0.1"],
        )
        now = database_now()
        publish_contract(workspace_id=here.workspace_id, contract=parse_contract(HEARD), owner_id=owner_id, now=now)
        secret, endpoint = new_secret(), uuid4()
        add_endpoint(
            workspace_id=here.workspace_id,
            owner_id=owner_id,
            endpoint_id=endpoint,
            sealed_secrets=seal(json.dumps([secret])),
            now=now,
        )
        with web(here.app_url) as (port, _):
            told = _Teller(here, port=port, endpoint=endpoint, secret=secret)
            told.notices("warm", 20)
            told.polls("warm-polled", 20, owner)
            gather_statistics(here)
            yield _told(
                "notice.released", most=150, rounds=rounds, told=told, measure=lambda turn: told.notices(turn, TIMES)
            )
            yield _told(
                "notice.poll_settled",
                most=60,
                rounds=rounds,
                told=told,
                measure=lambda turn: told.polls(turn, TIMES, owner),
            )
        _identical(rounds)


class _Owner(ThreadingHTTPServer):
    """Holds everything that it is asked about, and says when it has written each answer."""

    answered: dict[str, float]


@contextmanager
def _owner() -> Iterator[_Owner]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = b'{"state": "open"}'
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
            server.answered[self.path.rsplit("/", 1)[1]] = time.perf_counter()

        def log_message(self, *args: Any) -> None:
            pass

    server = _Owner(("127.0.0.1", 0), Handler)
    server.answered = {}
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


class _Teller:
    """The harness and the owner of one benchmark."""

    def __init__(self, here: Stage, *, port: int, endpoint: UUID, secret: str) -> None:
        self._api = f"http://127.0.0.1:{port}/api/v1"
        self._headers = {"authorization": f"Bearer {here.token}"}
        self._secret = secret
        self._endpoint = endpoint
        self._harness = httpx2.Client(headers=self._headers, timeout=30, trust_env=False)
        self._sender = httpx2.Client(timeout=30, trust_env=False)
        self._waiter = httpx2.Client(headers=self._headers, timeout=30, trust_env=False)

    def notices(self, prefix: str, times: int) -> list[float]:
        """Milliseconds from a notification to the waiting harness's answer."""
        return [self._one_notice(f"{prefix}-{number}") for number in range(times)]

    def polls(self, prefix: str, times: int, owner: _Owner) -> list[float]:
        """Milliseconds from an owner's answer to the durable outcome."""
        found = []
        for number in range(times):
            name = f"{prefix}-{number}"
            id, _ = self._lost(name)
            execute("UPDATE schedule SET next_check_at = now() WHERE operation = %s", [id])
            reconcile(id=id, time_left=5)
            settled = time.perf_counter()
            found.append((settled - owner.answered[name]) * 1000)
        return found

    def reads(self, times: int) -> list[float]:
        """Milliseconds of a plain read."""
        found = []
        for _ in range(times):
            began = time.perf_counter()
            self._harness.get(f"{self._api}/operations/warm-0")
            found.append((time.perf_counter() - began) * 1000)
        return found

    def _one_notice(self, name: str) -> float:
        _, version = self._lost(name)
        released: list[float] = []

        def wait() -> None:
            answer = self._waiter.get(f"{self._api}/operations/{name}?wait=20&version={version}").json()
            if answer["data"]["outcome"] == "applied":
                released.append(time.perf_counter())

        waiting = threading.Thread(target=wait)
        waiting.start()
        time.sleep(0.03)  # the waiter stands by then
        body = json.dumps({"reference": name, "state": "open"}).encode()
        headers = signed(secret=self._secret, message_id=f"msg_{name}", at=database_now(), body=body)
        began = time.perf_counter()
        status = self._sender.post(
            f"{self._api}/notifications/{self._endpoint}",
            content=body,
            headers={"content-type": "application/json", **headers},
        ).status_code
        waiting.join(20)
        if status != 204 or not released:
            raise VoidRunError(f"the notification of {name} was answered {status} and released nobody")
        return (released[0] - began) * 1000

    def _lost(self, name: str) -> tuple[UUID, int]:
        body = {"operation_id": name, "tool": TOOL, "payload": {"reference": name}, "attempt": True}
        self._harness.post(f"{self._api}/operations", json=body).raise_for_status()
        told = self._harness.post(f"{self._api}/operations/{name}/attempts/attempt-01/observations", json=LOST)
        data = told.raise_for_status().json()["data"]
        return UUID(execute("SELECT id::text FROM operation WHERE operation_id = %s", [name])[0][0]), data["version"]


def _told(name: str, *, most: int, rounds: int, told: _Teller, measure: Callable[[str], list[float]]) -> dict[str, Any]:
    turns = iter(range(rounds))
    done = compare(
        ours=lambda: _side(measure(f"{name}-{next(turns)}")), reference=lambda: _side(told.reads(TIMES)), rounds=rounds
    )
    figures = line(name=name, rounds=done, unit="ms, p99", target=f"p99 ≤ {most} ms", met=lambda _: True)
    return {**figures, "met": (figures["p99"] or 0) <= most}


def _side(milliseconds: list[float]) -> Side:
    ordered = sorted(milliseconds)
    p99 = ordered[min(len(ordered) - 1, round(len(ordered) * 0.99))]
    return Side(figure=p99, p50=statistics.median(ordered), p99=p99)


def _identical(rounds: int) -> None:
    [(settled,)] = execute("SELECT count(*) FROM operation WHERE outcome = 'applied' AND operation_id LIKE 'notice.%%'")
    if settled != 2 * rounds * TIMES:
        raise VoidRunError(f"told or asked {2 * rounds * TIMES} times, settled {settled}")
