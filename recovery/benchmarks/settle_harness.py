"""The harness side of `settle` and of the soak: three tools with different promises, called by several threads.

| desk   | what the owner promises                        | how the truth is learnt                              |
| ------ | ---------------------------------------------- | ---------------------------------------------------- |
| status | nothing about repeats; its own record is shown | by status: found, or absent after the lag             |
| key    | a repeat with the same key has no further effect | Ascertain sends it again, licensed by the key        |
| index  | nothing about repeats; only an index is shown  | found settles; what it does not show goes to a person |

A harness does what every harness is asked to do: record, send once with the permit, report, follow the decision. It
forgets nothing when the server is away: it comes back with the same operation.
"""

import heapq
import random
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import httpx2

from ledger.queries.clock import database_now
from ledger.rules.contract import parse_contract
from ledger.rules.vocabulary import Scope
from ledger.transitions.contracts import publish_contract
from ledger.transitions.workspace import create_token, ensure_owner, ensure_workspace
from recovery.benchmarks.programs import HOST
from recovery.client import Ascertain, AscertainError, GuardedOperation, Patience

LAG: Final = timedelta(seconds=3)
"""What the contracts promise; the owner's longest is PROCESSING + SHOWN_LATE of settle_owner.py, and less."""
NOBODY_LISTENS: Final = 3
"""Of a hundred first calls: they go to a port at which nobody listens."""
DIES: Final = 3
"""Of a hundred first calls: whoever made them dies before the report."""
MOST_LATE: Final = 1.5
"""Seconds after asking for a permit in which such a call is made; permits last twice as long."""
_COMMON: Final[dict[str, Any]] = {
    "effect": "write",
    "identity": ["name"],
    "success": "status == 201",
    "errors": [
        {
            "when": "status == 409 && body.code == 'SLOT_TAKEN'",
            "class": "business_rule",
            "effect": "none",
            "code": "SLOT_TAKEN",
        }
    ],
    "budgets": {"polls": 12, "retries": 5, "network_attempts": 60},
    "timeout": "1s",
    "dispatch_within": "3s",
    "poll": {"first": "500ms", "factor": 1.5, "max": "4s", "jitter": 0.2},
    "retry": {"first": "300ms", "factor": 2, "max": "3s", "jitter": "full"},
    "deadline": "4m",
    "reconcile_until": "1h",
}
CONTRACTS: Final[dict[str, dict[str, Any]]] = {
    "status": {
        **_COMMON,
        "lookup": [
            {
                "by": "status",
                "http": {"method": "GET", "path": "/status/tickets/by-name/{operation_id}"},
                "found": "status == 200",
                "no_match": "status == 404",
                "same": {"title": "body.title"},
                "authoritative": True,
                "sees": "all",
                "lag": "3s",
                "clean_reads": 2,
            }
        ],
    },
    "key": {
        **_COMMON,
        "idempotency": {
            "guarantee": "key",
            "field": "header:Idempotency-Key",
            "retention": "24h",
            "in_flight": "status == 409 && body.code == 'IN_FLIGHT'",
        },
        "dispatch": {"http": {"method": "POST", "path": "/key/tickets"}},
        "lookup": [{"by": "replay"}],
    },
    "index": {
        **_COMMON,
        "lookup": [
            {
                "by": "search",
                "http": {"method": "GET", "path": "/index/tickets?q={operation_id}"},
                "items": "body.items",
                "next": "body.next",
                "match": "item.name == operation_id",
                "same": {"title": "body.title"},
            }
        ],
    },
}
"""By desk; the tool of a desk is called `{desk}.create`."""
DESKS: Final = tuple(CONTRACTS)
PATIENCE: Final = Patience(timeout=10.0, tries=4, first_pause=0.2, longest_pause=2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """Where the harness is at home."""

    id: UUID
    token: str


def make_workspace(*, owner_port: int, slug: str) -> Workspace:
    """A fresh workspace in which the three tools are published; their owner answers at `owner_port` of loopback."""
    now = database_now()
    workspace = ensure_workspace(slug=slug, name=f"Workspace {slug}", now=now)
    for desk, contract in CONTRACTS.items():
        owner = ensure_owner(
            workspace_id=workspace,
            name=f"{desk}-desk",
            base_url=f"http://{HOST}:{owner_port}",
            private_hosts=[HOST],
            most_at_once=8,
        )
        document = parse_contract({"contract": f"{desk}.create", "owner": f"{desk}-desk", **contract})
        publish_contract(workspace_id=workspace, contract=document, owner_id=owner, now=now)
    made = create_token(
        workspace_id=workspace, name="harness", scopes=list(Scope), now=now, expires_at=now + timedelta(days=1)
    )
    return Workspace(id=workspace, token=made.token)


def payload_of(name: str) -> dict[str, Any]:
    """What a ticket is to say."""
    return {"name": name, "title": f"Ticket {name}"}


@dataclass(slots=True, kw_only=True)
class Harness:
    """Several threads that bring operations to their end. `DESK-…` is the name of an operation at that desk."""

    address: str
    token: str
    owner_port: int
    dead_port: int
    """Nobody listens there."""
    seed: int
    troubles: list[str] = field(default_factory=list)
    """What no harness should meet."""
    _client: Ascertain = field(init=False)
    _due: list[tuple[float, str]] = field(default_factory=list)
    _open: set[str] = field(default_factory=set)
    _begun: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _over: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._client = Ascertain(self.address, self.token, patience=PATIENCE)

    def begin(self, names: Sequence[str]) -> None:
        """Further operations."""
        with self._lock:
            for name in names:
                self._open.add(name)
                heapq.heappush(self._due, (time.monotonic(), name))

    def start(self, *, threads: int) -> None:
        """Work on what was begun, and on what will be."""
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def open(self) -> int:
        """How many operations are neither settled nor with a person, as far as the harness knows."""
        with self._lock:
            return len(self._open)

    def stop(self) -> None:
        """End the threads."""
        self._over.set()
        for thread in self._threads:
            thread.join(30)
        self._client.close()

    def _work(self) -> None:
        while not self._over.is_set():
            name = self._next()
            if name is None:
                time.sleep(0.02)
                continue
            try:
                again = self._one_step(name)
            except AscertainError:
                again = 0.5  # the server is away or busy; the ledger knows how far it came
            except Exception as error:  # noqa: BLE001 - told at the end, and the operation is gone on with
                self.troubles.append(f"{name}: {type(error).__name__}: {error}")
                again = 1.0
            with self._lock:
                if again is None:
                    self._open.discard(name)
                else:
                    heapq.heappush(self._due, (time.monotonic() + again, name))

    def _next(self) -> str | None:
        with self._lock:
            if self._due and self._due[0][0] <= time.monotonic():
                return heapq.heappop(self._due)[1]
        return None

    def _one_step(self, name: str) -> float | None:
        """Do what is the harness's to do. Seconds until the next look, or None: nothing is left to do."""
        if name in self._begun:
            told = self._client.read(operation_id=name)
            if told.settled or told.state == "escalated":
                return None
            if told.state != "open":
                return 1.0
        desk = name.partition("-")[0]
        payload = payload_of(name)
        first = name not in self._begun
        guarded = self._client.operation(tool=f"{desk}.create", operation_id=name, payload=payload)
        if first and self._rolls("dies", name) < DIES:
            return self._die(name, guarded, desk=desk)
        with guarded as operation:
            self._begun.add(name)
            if not operation.permitted and operation.operation is not None and operation.operation.state == "open":
                operation.retry()
            if operation.permitted:
                nobody = first and self._rolls("port", name) < NOBODY_LISTENS
                port = self.dead_port if nobody else self.owner_port
                operation.send("POST", f"http://{HOST}:{port}/{desk}/tickets", json=payload)
        return 0.5

    def _die(self, name: str, operation: GuardedOperation, *, desk: str) -> float:
        """Record, call, and never report: all that Ascertain sees of it is a permit that lapses."""
        began = time.monotonic()
        operation.__enter__()
        self._begun.add(name)
        permit = operation.permit
        if permit is not None and time.monotonic() < began + MOST_LATE:
            with suppress(httpx2.HTTPError):
                httpx2.post(
                    f"http://{HOST}:{self.owner_port}/{desk}/tickets",
                    json=payload_of(name),
                    headers=permit.headers,
                    timeout=permit.timeout,
                    trust_env=False,
                )
        return 0.5

    def _rolls(self, what: str, name: str) -> int:
        return random.Random(f"{self.seed}:{what}:{name}").randrange(100)  # noqa: S311 - made-up faults, told by a seed
