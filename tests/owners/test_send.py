"""How the call that has the effect is put together, and what is told of it, against real servers."""

import json
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from ledger.rules.contract import parse_contract
from ledger.rules.contract_sections import Dispatch
from ledger.rules.payload import canonical
from ledger.rules.vocabulary import Effect, Proof
from recovery.judgement.read import read_observation
from recovery.owners.base import Reach
from recovery.owners.send import Call, CannotSend, prepare, send
from tests.owners.fault_proxy import FaultProxy
from tests.owners.key_owner import KeyOwner, running

NOW = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
PAYLOAD = {"title": "Tür & Tor", "customer": "c-19", "meta": {"n": 3, "open": True}}
CONTRACT = parse_contract(
    {
        "contract": "tickets.create",
        "owner": "helpdesk",
        "effect": "write",
        "idempotency": {"guarantee": "key", "field": "header:Idempotency-Key", "retention": "1h"},
        "success": "status == 201",
    }
)


def call(*, url: str = "http://127.0.0.1:1", field: str | None = "header:Idempotency-Key", **more: Any) -> Call:
    http = {"method": "POST", "path": "/tickets", **more.pop("http", {})}
    known: dict[str, Any] = {
        "dispatch": Dispatch.model_validate({"http": http, **more.pop("dispatch", {})}),
        "reach": Reach(base_url=url, private_hosts=frozenset({"127.0.0.1"})),
        "key_field": field,
        "idempotency_key": "op/1",
        "operation_id": "op-1",
        "payload": PAYLOAD,
        "receipt": {"id": "x 1"},
        "principal": "svc",
    }
    return Call(**{**known, **more})


KEYS = [
    ("header:Idempotency-Key", {}, "/tickets", {"idempotency-key": "op/1"}, PAYLOAD, "a header"),
    ("body:meta.key", {}, "/tickets", {}, {**PAYLOAD, "meta": {**PAYLOAD["meta"], "key": "op/1"}}, "a member's member"),
    ("body:request_id", {"body": {"t": "{payload.title}"}}, "/tickets", {}, {"t": "Tür & Tor", "request_id": "op/1"},
     "a member of what the contract writes"),
    ("query:token", {"path": "/tickets?a=1&token=old"}, "/tickets?a=1&token=op%2F1", {}, PAYLOAD, "a parameter, once"),
    ("url", {"method": "PUT", "path": "/tickets/{idempotency_key}"}, "/tickets/op%2F1", {}, PAYLOAD, "the address"),
    (None, {"path": "/tickets/{receipt.id}"}, "/tickets/x%201", {}, PAYLOAD, "nowhere, and a receipt's member"),
]  # fmt: skip


@pytest.mark.parametrize(("field", "http", "path", "headers", "body", "why"), KEYS)
def test_where_the_key_travels(field: Any, http: Any, path: str, headers: Any, body: Any, why: str) -> None:
    made = prepare(call(field=field, http=http)).request
    assert made.url == f"http://127.0.0.1:1{path}", why
    assert headers.items() <= made.headers.items(), why
    assert json.loads(made.body or b"") == body, why


def test_a_form_has_a_field_for_each_member() -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    body = {"amount": 3, "live": False, "none": None, "metadata": {"op": "{operation_id}"}, "tags": ["a", "b c"]}
    made = prepare(call(http={"headers": headers, "body": body}))
    assert made.request.body == b"amount=3&live=false&metadata%5Bop%5D=op-1&tags%5B0%5D=a&tags%5B1%5D=b+c"


CANNOT = [
    ({"payload": None}, "no longer kept", "retention has destroyed it"),
    ({"http": {"path": "/tickets/{receipt.gone}"}}, "receipt.gone", "an answer that never came"),
    ({"dispatch": {"as": "env:NO_SUCH_TOKEN_HERE"}}, "NO_SUCH_TOKEN_HERE", "no credential"),
    ({"field": "url"}, "path does not hold the key", "the key would not travel"),
    ({"field": "body:key", "http": {"body": ["{payload}"]}}, "not an object", "no member to put it in"),
]


@pytest.mark.parametrize(("changed", "said", "why"), CANNOT)
def test_what_cannot_be_put_together_says_why(changed: dict[str, Any], said: str, why: str) -> None:
    with pytest.raises(CannotSend, match=said):
        prepare(call(**changed))


def test_credentials_and_other_headers_are_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OWNER_TOKEN", "very-secret")
    http = {"path": "/tickets?sig=hidden", "headers": {"X-Other": "also-secret", "If-None-Match": "*"}}
    made = prepare(call(http=http, dispatch={"as": "env:OWNER_TOKEN"}))
    assert made.request.headers["authorization"] == "Bearer very-secret"
    assert made.told == {
        "method": "POST",
        "path": "/tickets",
        "headers": {"content-type": "application/json", "if-none-match": "*", "idempotency-key": "op/1"},
        "idempotency_key": "op/1",
        "principal": "svc",
    }


@pytest.fixture
def owner() -> Iterator[KeyOwner]:
    with running() as made:
        yield made


SEEN = [
    ("pass", "http", None, Effect.APPLIED, Proof.OWNER_RESULT, "the owner's answer is the owner's"),
    ("429", "http", None, Effect.NONE, Proof.REFUSED, "refused before acting"),
    ("down", "exception", "connect", Effect.NONE, Proof.NOT_SENT, "nothing left"),
    ("drop_before", "exception", "await", Effect.UNKNOWN, None, "bytes left and no answer came"),
    ("hang_before", "exception", "await", Effect.UNKNOWN, None, "silence proves nothing"),
    ("drop_after", "exception", "await", Effect.UNKNOWN, None, "nor does a reset"),
    ("hang_after", "exception", "await", Effect.UNKNOWN, None, "whatever the owner did"),
    ("502_after", "http", None, Effect.UNKNOWN, None, "a gateway speaks for itself"),
]


@pytest.mark.parametrize(("fault", "kind", "phase", "effect", "proof", "why"), SEEN)
def test_what_was_seen_is_told_as_a_harness_would(
    owner: KeyOwner, fault: str, kind: str, phase: str | None, effect: Effect, proof: Proof | None, why: str
) -> None:
    with FaultProxy(upstream_port=owner.port) as proxy:
        if fault != "pass":
            proxy.fail(fault)
        made = call(url=proxy.url)
        told = send(prepare(made), reach=made.reach, seconds=0.8, now=NOW)
    canonical(told)
    assert (told["kind"], told.get("phase")) == (kind, phase), why
    if kind == "exception":
        assert (told["bytes_sent"] == 0) is (proof is Proof.NOT_SENT), why
    assert told["network_attempts"] == 1
    assert told["observed_at"] >= "2026-12-01T09:00:00"
    reading = read_observation(told, contract=CONTRACT, earlier=(), now=NOW)
    assert (reading.effect, reading.proof) == (effect, proof), why
    assert reading.unread == ()


def _answering(text: bytes) -> tuple[socket.socket, str]:
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        one, _ = listening.accept()
        with one:
            one.recv(65536)
            one.sendall(text)

    threading.Thread(target=serve, daemon=True).start()
    return listening, f"http://127.0.0.1:{listening.getsockname()[1]}"


ODD = [
    (b'HTTP/1.1 201 Created\r\ncontent-length: 23\r\n\r\n{"n": 9007199254740993}', "a number beyond what JSON readers agree on"),
    (b'HTTP/1.1 201 Created\r\ncontent-length: 15\r\n\r\n{"n": "\\u0000"}', "a NUL"),
    (b'HTTP/1.1 201 Created\r\ncontent-length: 15\r\n\r\n{"n": "\\ud800"} ', "half a character"),
    (b'HTTP/1.1 201 Created\r\ncontent-length: 16\r\n\r\n{"a": 1, "a": 2}', "the same member twice"),
    (b"HTTP/1.1 201 Created\r\ncontent-length: 4\r\n\r\n\xff\x00ab", "no text at all"),
    (b"HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n", "a redirect, not followed"),
    (b"HTTP/1.1 201 Created\r\ncontent-length: 5000000\r\n\r\n" + b"x" * 2_000_000, "more than is read"),
    (b"nothing like HTTP\r\n\r\n", "not HTTP"),
    (b"", "the connection's end"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "why"), ODD)
def test_whatever_an_owner_answers_can_be_recorded(text: bytes, why: str) -> None:
    listening, url = _answering(text)
    with listening:
        made = call(url=url)
        told = send(prepare(made), reach=made.reach, seconds=3, now=NOW)
    canonical(told)
    reading = read_observation(told, contract=CONTRACT, earlier=(), now=NOW)
    assert reading.effect in (Effect.UNKNOWN, Effect.APPLIED), why
