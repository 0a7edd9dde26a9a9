"""The lookups of the presets against owners that answer in their vendors' documented shapes, over real HTTP.

Each owner here holds one object of ours or none. With it, the preset must find exactly one and say what became of it;
without it, the preset must find nothing, and alone it never proves that nothing is there.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import pytest

from ledger.rules.contract import Contract, idempotency_key, parse_contract
from ledger.rules.evidence import grade_lookup
from ledger.rules.facts import LookupFacts
from ledger.rules.presets import preset, preset_names
from ledger.rules.vocabulary import Effect, LookupOutcome, Visibility
from recovery.owners.base import Question, Reach, Reply
from recovery.owners.registry import adapters
from tests.judgement.stated import NOW, attempt, facts
from tests.owners.scripted import Answer, Received, ScriptedOwner

OPERATION = "refund:case-8472"


@dataclass(frozen=True, slots=True)
class Held:
    """What an owner is asked for, and whether it has it."""

    key: str
    there: bool


def stripe(asked: Received, held: Held) -> Answer:
    assert asked.path == "/v1/refunds/search"
    assert asked.query == {"query": [f"metadata['operation_id']:'{OPERATION}'"]}
    assert asked.headers["authorization"] == "Bearer token-1"
    found = [{"id": "re_1", "object": "refund", "metadata": {"operation_id": OPERATION}}]
    other = {"id": "re_0", "object": "refund", "metadata": {}}
    return Answer(body={"object": "search_result", "has_more": False, "data": [other, *(found if held.there else [])]})


def paypal(asked: Received, held: Held) -> Answer:
    assert asked.path == "/v2/checkout/orders/5O1"
    return (
        Answer(body={"id": "5O1", "status": "COMPLETED"})
        if held.there
        else Answer(status=404, body={"name": "RESOURCE_NOT_FOUND"})
    )


def square(asked: Received, held: Held) -> Answer:
    """Two pages; ours is on the second."""
    assert asked.path == "/v2/payments"
    if "cursor" not in asked.query:
        return Answer(body={"payments": [{"id": "p9", "reference_id": "another"}], "cursor": "c2"})
    assert asked.query["cursor"] == ["c2"]
    return Answer(body={"payments": [{"id": "p1", "reference_id": OPERATION}] if held.there else []})


def shopify(asked: Received, held: Held) -> Answer:
    assert (asked.method, asked.path) == ("POST", "/admin/api/2026-04/graphql.json")
    said = json.loads(asked.body)
    assert said["query"].startswith("query Made($tag: String!) { orders(first: 10, query: $tag) { nodes { id tags }")
    assert said["query"].count("{") == said["query"].count("}")
    assert said["variables"] == {"tag": f"tag:'{held.key}'"}
    nodes = [{"id": "gid://shopify/Order/1", "tags": ["vip", held.key]}] if held.there else []
    return Answer(body={"data": {"orders": {"nodes": nodes, "pageInfo": {"hasNextPage": False}}}})


def zendesk(asked: Received, held: Held) -> Answer:
    assert (asked.path, asked.query["external_id"]) == ("/api/v2/tickets", [OPERATION])
    tickets = [{"id": 35436, "external_id": OPERATION}] if held.there else []
    return Answer(body={"tickets": tickets, "next_page": None, "count": len(tickets)})


def google(asked: Received, held: Held) -> Answer:
    assert asked.path == "/v1/operations/o-1", "the slash in the name stays a slash"
    done = {"done": True, "response": {"@type": "…"}} if held.there else {}
    return Answer(body={"name": "operations/o-1", "metadata": {}, **done})


def azure(asked: Received, held: Held) -> Answer:
    assert asked.path == f"/widgets/operations/{held.key}"
    return (
        Answer(body={"id": held.key, "status": "Succeeded"})
        if held.there
        else Answer(status=404, body={"error": {"code": "NotFound"}})
    )


def kubernetes(asked: Received, held: Held) -> Answer:
    assert asked.path == f"/apis/apps/v1/namespaces/shop/deployments/{held.key}"
    if not held.there:
        return Answer(status=404, body={"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404})
    return Answer(body={"kind": "Deployment", "metadata": {"name": held.key, "resourceVersion": "7"}})


def kinto(asked: Received, held: Held) -> Answer:
    assert asked.path == f"/buckets/b/collections/c/records/{held.key}"
    return Answer(body={"data": {"id": held.key}}) if held.there else Answer(status=404, body={"errno": 110})


def tracker(asked: Received, held: Held) -> Answer:
    assert (asked.path, asked.query) == ("/rest/issues", {"label": [OPERATION]})
    return Answer(body={"issues": [{"key": "EX-1", "labels": [OPERATION]}] if held.there else []})


def matrix(asked: Received, held: Held) -> Answer:
    assert unquote(asked.path) == "/_matrix/client/v3/rooms/!r:local.test/messages"
    mine = {"event_id": "$e", "type": "m.room.message", "unsigned": {"transaction_id": held.key}}
    others = {"event_id": "$d", "type": "m.room.message", "unsigned": {}}
    return Answer(body={"start": "t1", "chunk": [others, *([mine] if held.there else [])]})


def prefect(asked: Received, held: Held) -> Answer:
    assert (asked.method, asked.path) == ("POST", "/api/flow_runs/filter")
    assert json.loads(asked.body)["flow_runs"] == {"idempotency_key": {"any_": [held.key]}}
    return Answer(body=[{"id": "r", "idempotency_key": held.key, "state_type": "COMPLETED"}] if held.there else [])


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """An owner, and what a contract and an operation bring along."""

    owner: Callable[[Received, Held], Answer]
    values: dict[str, Any]
    receipt: dict[str, Any] | None = None
    absent: LookupOutcome = LookupOutcome.NO_MATCH
    """What its answer without our object comes to, before it is graded."""
    absent_effect: Effect | None = None


TOKEN = "env:PRESET_TOKEN"
OPEN, SETTLES_NOTHING = LookupOutcome.FOUND, LookupOutcome.INCONCLUSIVE
STANDS = {
    "stripe-v1": Stand(owner=stripe, values={"collection": "refunds", "credential": TOKEN}),
    "paypal": Stand(owner=paypal, values={"collection": "checkout/orders"}, receipt={"id": "5O1"}, absent=SETTLES_NOTHING),
    "square": Stand(owner=square, values={"collection": "payments"}),
    "shopify-graphql": Stand(owner=shopify, values={"collection": "orders", "version": "2026-04"}),
    "zendesk": Stand(owner=zendesk, values={}),
    "google-aip": Stand(
        owner=google, values={"version": "v1"}, receipt={"operation": "/v1/operations/o-1"}, absent=OPEN, absent_effect=Effect.PENDING
    ),
    "azure-operation-id": Stand(owner=azure, values={"monitors": "widgets/operations"}, absent=SETTLES_NOTHING),
    "kubernetes": Stand(owner=kubernetes, values={"path": "apis/apps/v1/namespaces/shop/deployments"}, absent=SETTLES_NOTHING),
    "http-conditional-put": Stand(owner=kinto, values={"path": "buckets/b/collections/c/records"}, absent=SETTLES_NOTHING),
    "http-no-key-lookup": Stand(
        owner=tracker,
        values={"search": "/rest/issues?label={operation_id}", "items": "body.issues", "match": "operation_id in item.labels"},
    ),
    "matrix": Stand(owner=matrix, values={"room": "room_id", "credential": TOKEN}),
    "prefect": Stand(owner=prefect, values={}, absent=SETTLES_NOTHING),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRESET_TOKEN", "token-1")


def contract_of(name: str, values: dict[str, Any]) -> Contract:
    named = {"contract": "things.create", "effect": "write", "owner": "things", "preset": name}
    return parse_contract({**named, "with": values} if values else named)


def asked(contract: Contract, stand: Stand, *, there: bool) -> Reply:
    key = idempotency_key(contract, operation_id=OPERATION, revision=1)
    held = Held(key=key or "", there=there)
    lookup = contract.compiled.lookups[0]
    with ScriptedOwner() as owner:
        wrong: list[AssertionError] = []

        def answer(received: Received) -> Answer:
            try:
                return stand.owner(received, held)
            except AssertionError as error:
                wrong.append(error)
                return Answer(status=500)

        owner.answer = answer
        reply = adapters()[lookup.rule.by].ask(
            Question(
                owner="things",
                reach=Reach(base_url=owner.url, private_hosts=frozenset({"127.0.0.1"})),
                lookup=lookup,
                operation_id=OPERATION,
                idempotency_key=key,
                payload={"room_id": "!r:local.test"},
                receipt=stand.receipt or {},
                receipts=contract.compiled.receipt,
                started_at=datetime.now(UTC),
                time_left=3.0,
            )
        )
    if wrong:
        raise wrong[0]
    return reply


@pytest.mark.parametrize("name", STANDS)
def test_what_is_there_is_found(name: str) -> None:
    stand = STANDS[name]
    reply = asked(contract_of(name, stand.values), stand, there=True)
    assert (reply.outcome, reply.effect, reply.matches) == (LookupOutcome.FOUND, Effect.APPLIED, 1), reply


def graded(contract: Contract, reply: Reply) -> Any:
    rule = contract.lookup[0]
    lookup = LookupFacts(
        source=f"things/{rule.by}",
        by=rule.by,
        answer=reply.outcome,
        started_at=NOW,
        observed_at=NOW,
        exact_key=True,
        authoritative=rule.authoritative,
        complete=reply.complete,
        sees=rule.sees,
        matches=reply.matches,
        effect=reply.effect,
    )
    return grade_lookup(lookup=lookup, rule=rule, facts=facts(contract, attempt(1)))


@pytest.mark.parametrize("name", STANDS)
def test_what_is_not_there_proves_nothing_by_the_preset_alone(name: str) -> None:
    stand = STANDS[name]
    contract = contract_of(name, stand.values)
    reply = asked(contract, stand, there=False)
    assert (reply.outcome, reply.effect) == (stand.absent, stand.absent_effect), reply
    grade = graded(contract, reply)
    assert not grade.absent
    assert grade.effect is not Effect.NONE


@pytest.mark.parametrize("name", ["kubernetes", "http-conditional-put", "prefect"])
def test_absence_counts_with_what_the_administrator_states(name: str) -> None:
    stand = STANDS[name]
    contract = contract_of(name, {**stand.values, "lag": "30s", "sees": Visibility.ALL.value})
    reply = asked(contract, stand, there=False)
    assert reply.outcome is LookupOutcome.NO_MATCH
    assert graded(contract, reply).absent, "begun nine minutes after the attempt"


def test_every_preset_that_asks_over_http_stands_here() -> None:
    asking = {name for name in preset_names() if any("http" in rule for rule in preset(name).gives.get("lookup", ()))}
    assert asking == set(STANDS)
