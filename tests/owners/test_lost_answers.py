"""The answer of a write is lost at a real owner, and Ascertain finds out: one effect, and the right outcome."""

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import httpx2
import psycopg
import pytest

from tests.conftest import Api, Bench, make_bench
from tests.owners import mcp_desk
from tests.owners.conformance import SECRET
from tests.owners.fault_proxy import FaultProxy
from tests.owners.mcp_desk import Desk
from tests.owners.stages_sql import Warehouse
from tests.owners.wire_proxy import WireProxy
from tests.reconcile.stage import look_until

QUICK = {
    "effect": "write",
    "owner": "helpdesk",
    "timeout": "300ms",
    "dispatch_within": "300ms",
    "poll": {"first": "50ms", "factor": 1.5, "max": "500ms", "jitter": 0},
    "retry": {"first": "50ms", "factor": 1, "max": "50ms", "jitter": 0},
    "deadline": "2m",
}
RESERVE = {
    **QUICK,
    "contract": "warehouse.reserve",
    "receipt": {"xact": "request.xact_id"},
    "lookup": [
        {"by": "postgres_xact", "xact": "{receipt.xact}", "authoritative": True, "as": "env:WAREHOUSE"},
        {
            "by": "sql",
            "sql": {
                "statement": "SELECT id, key FROM effect WHERE key = %(key)s",
                "parameters": {"key": "{operation_id}"},
            },
            "authoritative": True,
            "sees": "all",
            "lag": "0s",
            "as": "env:WAREHOUSE",
        },
    ],
}
CREATE = {
    **QUICK,
    "contract": "desk.create_ticket",
    "lookup": [
        {
            "by": "mcp_tool",
            "mcp": {"tool": "find_ticket", "arguments": {"key": "{operation_id}"}},
            "items": "body.tickets",
            "match": "item.key == operation_id",
            "same": {"title": "body.title"},
            "authoritative": True,
            "sees": "all",
            "lag": "0s",
            "as": "env:DESK",
        }
    ],
}


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Bench, Api, UUID]]:
    """An operation with its permit, at an owner."""

    def begin(*, owner_url: str, contract: dict[str, Any]) -> tuple[Bench, Api, UUID]:
        bench = make_bench(owner_url=owner_url)
        bench.publish(contract)
        api = Api(bench.token)
        return bench, api, permit(api, contract["contract"])

    return begin


def permit(api: Api, tool: str) -> UUID:
    body = {"operation_id": "t-1", "tool": tool, "payload": {"title": "Export broken"}, "attempt": True}
    answer = api.post("/operations", body).json()
    assert answer["data"]["permit"] is not None, answer
    return UUID(answer["data"]["id"])


def report(api: Api, observation: dict[str, Any], *, attempt: str = "attempt-01") -> dict[str, Any]:
    answer = api.post(f"/operations/t-1/attempts/{attempt}/observations", observation)
    assert answer.status_code == 200, answer.content
    found: dict[str, Any] = answer.json()["data"]
    return found


# PostgreSQL: the transaction's id is known before COMMIT is sent.


@pytest.fixture
def proxied(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Warehouse, WireProxy]]:
    """The warehouse, and the way on which the harness loses its answers; Ascertain asks directly."""
    monkeypatch.setenv("WAREHOUSE", warehouse.address())
    with WireProxy(upstream_port=warehouse.port) as proxy:
        yield warehouse, proxy


def writing(warehouse: Warehouse, proxy: WireProxy) -> psycopg.Connection[Any]:
    parts = urlsplit(warehouse.admin_url)
    return psycopg.connect(parts._replace(netloc=f"{parts.username}:{parts.password}@127.0.0.1:{proxy.port}").geturl())


def reserve(connection: psycopg.Connection[Any]) -> str:
    """The write, and its transaction's id."""
    connection.execute("INSERT INTO effect (key) VALUES ('t-1')")
    row = connection.execute("SELECT pg_current_xact_id()::text").fetchone()
    assert row is not None
    return str(row[0])


def effects(warehouse: Warehouse) -> int:
    with warehouse.connect() as admin:
        row = admin.execute("SELECT count(*) FROM effect").fetchone()
    assert row is not None
    return int(row[0])


def lost(xact: str | None) -> dict[str, Any]:
    """What psycopg shows when the connection ends: no SQLSTATE."""
    seen = {"kind": "exception", "exception": "OperationalError", "phase": "await", "bytes_sent": 40, "sqlstate": None}
    return seen if xact is None else {**seen, "request": {"xact_id": xact}}


def test_the_answer_to_commit_is_lost(proxied: Any, begun: Any) -> None:
    warehouse, proxy = proxied
    _, api, id = begun(owner_url=f"postgresql://127.0.0.1:{warehouse.port}", contract=RESERVE)
    connection = writing(warehouse, proxy)
    xact = reserve(connection)
    proxy.lose_answer_to(b"COMMIT")
    with pytest.raises(psycopg.OperationalError):
        connection.commit()
    assert proxy.lost == 1
    decision = report(api, lost(xact))["decision"]
    assert (decision["effect_status"], decision["recovery_action"]) == ("unknown", "reconcile")
    data = look_until(id, api, state="settled")
    assert (data["outcome"], effects(warehouse)) == ("applied", 1)
    assert [row["source"] for row in data["evidence"] if row["proof"] == "lookup_match"] == ["helpdesk/postgres_xact"]
    assert api.post("/operations/t-1/attempts", {}).status_code == 409


def test_the_connection_ends_before_commit(proxied: Any, begun: Any) -> None:
    warehouse, proxy = proxied
    _, api, id = begun(owner_url=f"postgresql://127.0.0.1:{warehouse.port}", contract=RESERVE)
    connection = writing(warehouse, proxy)
    xact = reserve(connection)
    connection.close()
    report(api, lost(xact))
    data = look_until(id, api, state="open")
    assert (data["effect"], effects(warehouse)) == ("none", 0)
    again = api.post("/operations/t-1/attempts", {}).json()["data"]
    assert again["licence"] == "effect_none_proved"
    connection = writing(warehouse, proxy)
    second = reserve(connection)
    proxy.lose_answer_to(b"COMMIT")
    with pytest.raises(psycopg.OperationalError):
        connection.commit()
    report(api, lost(second), attempt="attempt-02")
    data = look_until(id, api, state="settled")
    assert (data["outcome"], effects(warehouse)) == ("applied", 1)


def test_the_harness_dies_after_it_told_the_id(proxied: Any, begun: Any) -> None:
    warehouse, proxy = proxied
    _, api, id = begun(owner_url=f"postgresql://127.0.0.1:{warehouse.port}", contract=RESERVE)
    connection = writing(warehouse, proxy)
    xact = reserve(connection)
    told = {"kind": "lro", "operation": {"status": "running"}, "request": {"xact_id": xact}}
    assert report(api, told)["decision"]["effect_status"] == "pending"
    connection.commit()
    connection.close()
    data = look_until(id, api, state="settled")
    assert (data["outcome"], effects(warehouse)) == ("applied", 1)


def test_the_id_is_lost_too_and_the_next_lookup_is_asked(proxied: Any, begun: Any) -> None:
    warehouse, proxy = proxied
    _, api, id = begun(owner_url=f"postgresql://127.0.0.1:{warehouse.port}", contract=RESERVE)
    connection = writing(warehouse, proxy)
    reserve(connection)
    connection.commit()
    connection.close()
    report(api, lost(None))
    data = look_until(id, api, state="settled")
    assert (data["outcome"], effects(warehouse)) == ("applied", 1)
    assert data["evidence"][-1]["source"] == "helpdesk/sql"


# MCP: the tool is called through a proxy that loses its answer; the lookup asks directly.


@pytest.fixture
def desk_of_our_own(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A desk whose effects are counted from nothing."""
    monkeypatch.setenv("DESK", SECRET)
    with mcp_desk.running(tmp_path, token=SECRET) as running:
        yield running


@pytest.mark.parametrize(
    ("mode", "effect"),
    [("drop_after", True), ("drop_before", False), ("hang_after", True), ("502_after", True), ("truncate", True)],
)
def test_the_answer_of_a_tool_is_lost(desk_of_our_own: Desk, begun: Any, mode: str, effect: bool) -> None:
    desk = desk_of_our_own
    _, api, id = begun(owner_url=desk.url, contract=CREATE)
    with FaultProxy(upstream_port=desk.port) as proxy:
        proxy.fail(mode, times=1)
        report(api, call(f"{proxy.url}/mcp"))
    assert desk.effects() == (["t-1"] if effect else [])
    data = look_until(id, api, state="settled" if effect else "open")
    assert data["effect"] == ("applied" if effect else "none")
    assert desk.effects() == (["t-1"] if effect else []), "finding out changed nothing"
    assert (api.post("/operations/t-1/attempts", {}).status_code == 201) is not effect


def call(url: str) -> dict[str, Any]:
    """One `tools/call` of `create_ticket` in the revision without a handshake, and what the harness saw of it."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "harness", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "create_ticket", "arguments": {"key": "t-1", "title": "Export broken"}, "_meta": meta}
    headers = {
        "authorization": f"Bearer {SECRET}",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "create_ticket",
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    try:
        answer = httpx2.post(url, json=message, headers=headers, timeout=1.0, trust_env=False)
    except httpx2.TransportError as error:
        return {"kind": "exception", "exception": type(error).__name__, "phase": "await", "bytes_sent": 300}
    return {"kind": "http", "status": answer.status_code, "headers": dict(answer.headers), "body": answer.text}
