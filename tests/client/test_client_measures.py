"""How far did the bytes get? Real sockets that refuse, reset, stall and cut, seen through both clients."""

import socket
import ssl
import threading
import time

import httpx2
import pytest

from recovery.client.operation import wire_length
from tests.client import raw_owner
from tests.client.raw_owner import RawOwner

LARGE = b"x" * (8 * 1024 * 1024)


def test_a_whole_answer(story):
    with RawOwner(raw_owner.created) as owner:
        decision = story.send(
            "POST",
            f"{owner.url}/tickets?token=hidden",
            json={"title": "Export broken"},
            headers={"Authorization": "Bearer secret"},
        )
    assert decision.recovery_action == "done"
    assert decision.is_done
    assert story.op.response.status_code == 201
    assert story.op.response.json()["id"] == "t-1"
    seen = story.observation
    assert seen["kind"] == "http"
    assert (seen["status"], seen["network_attempts"], seen["redirects"]) == (201, 1, [])
    assert seen["body"] == {"id": "t-1", "big": "9007199254740993"}
    assert seen["request"]["method"] == "POST"
    assert seen["request"]["path"] == "/tickets"
    assert seen["request"]["headers"]["idempotency-key"] == "op-1"
    assert seen["request"]["idempotency_key"] == "op-1"
    assert b"Idempotency-Key: op-1" in owner.heads[0]
    assert b"Authorization: Bearer secret" in owner.heads[0]
    assert "secret" not in str(seen), "credentials stay with the harness"
    assert "hidden" not in str(seen)
    assert story.op._passage.bytes_sent == story.op._passage.request_bytes == owner.received


def test_nobody_listens(story):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        decision = story.send("POST", f"http://127.0.0.1:{holder.getsockname()[1]}/tickets", json={})
    seen = story.observation
    assert decision.recovery_action == "retry"
    assert (seen["exception"], seen["phase"], seen["bytes_sent"]) == ("ConnectError", "connect", 0)
    assert seen["errno"] == "ECONNREFUSED"
    assert seen["network_attempts"] == 0
    assert seen["request_bytes"] > 0
    assert isinstance(story.op.exception, httpx2.ConnectError)
    assert story.op.response is None


def test_a_name_that_does_not_resolve(story):
    # An address literal that getaddrinfo refuses without asking any server.
    story.send("POST", "http://999.999.999.999.invalid:1/tickets", json={})
    assert (story.observation["phase"], story.observation["bytes_sent"]) == ("resolve", 0)


@pytest.mark.parametrize("behave", [raw_owner.not_tls, raw_owner.reset_in_handshake])
def test_the_handshake_fails(story, behave):
    with RawOwner(behave) as owner:
        story.send("POST", f"https://127.0.0.1:{owner.port}/tickets", json={})
    assert (story.observation["phase"], story.observation["bytes_sent"]) == ("tls", 0)
    assert story.ledger.operations["op-1"]["effect"] == "none"


def test_the_owner_resets_after_reading(story):
    with RawOwner(raw_owner.reset_after_reading) as owner:
        decision = story.send("POST", f"{owner.url}/tickets", json={"title": "x"})
    seen = story.observation
    assert decision.recovery_action == "reconcile"
    assert seen["phase"] == "await"
    assert seen["bytes_sent"] == seen["request_bytes"] == owner.received
    assert seen["errno"] == "ECONNRESET"
    assert seen["network_attempts"] == 1
    assert owner.connections == 1, "never sent again by itself"


def test_the_owner_ends_without_an_answer(story):
    with RawOwner(raw_owner.end_after_reading) as owner:
        story.send("POST", f"{owner.url}/tickets", json={})
    assert (story.observation["exception"], story.observation["phase"]) == ("RemoteProtocolError", "await")
    assert story.observation["reused_socket"] is False


def test_a_part_of_the_request_leaves(story):
    with RawOwner(raw_owner.reset_in_the_middle, receive_buffer=4096) as owner:
        decision = story.send("PUT", f"{owner.url}/tickets", content=LARGE)
    seen = story.observation
    assert decision.recovery_action == "reconcile"
    assert seen["phase"] == "send"
    assert 0 < seen["bytes_sent"] < seen["request_bytes"]


def test_the_owner_never_reads(story):
    story.ledger.timeout_ms = 300
    with RawOwner(raw_owner.never_read, receive_buffer=4096) as owner:
        story.send("PUT", f"{owner.url}/tickets", content=LARGE)
    seen = story.observation
    assert (seen["exception"], seen["phase"]) in (("WriteTimeout", "send"), ("ReadTimeout", "send"))
    assert 0 < seen["bytes_sent"] < seen["request_bytes"]


def test_the_owner_never_answers(story):
    story.ledger.timeout_ms = 300
    with RawOwner(raw_owner.never_answer) as owner:
        before = time.monotonic()
        story.send("POST", f"{owner.url}/tickets", json={})
        assert time.monotonic() - before < 2
    seen = story.observation
    assert (seen["exception"], seen["phase"]) == ("ReadTimeout", "await")
    assert seen["bytes_sent"] == seen["request_bytes"]


def test_a_trickling_answer_ends_with_the_permit(story):
    story.ledger.timeout_ms = 300
    with RawOwner(raw_owner.trickle) as owner:
        before = time.monotonic()
        story.send("POST", f"{owner.url}/tickets", json={})
        assert time.monotonic() - before < 2
    seen = story.observation
    assert (seen["exception"], seen["phase"]) == ("ReadTimeout", "after_response")
    assert seen["response"]["status"] == 200
    assert seen["response"]["body"].startswith(".")


def test_the_body_is_cut(story):
    with RawOwner(raw_owner.cut_body) as owner:
        story.send("POST", f"{owner.url}/tickets", json={})
    seen = story.observation
    assert (seen["kind"], seen["phase"]) == ("exception", "after_response")
    assert seen["response"]["status"] == 200
    assert seen["response"]["body"] == '{"id": "t-'
    assert story.op.response is None


def test_a_redirect_is_an_answer(story):
    with RawOwner(raw_owner.redirect) as owner:
        story.send("POST", f"{owner.url}/tickets", json={})
    assert story.observation["status"] == 307
    assert story.observation["headers"]["location"] == "/elsewhere"
    assert owner.connections == 1


def test_a_client_of_ones_own_tells_phases_but_not_bytes(story):
    kind = httpx2.Client if story.flavour == "blocking" else httpx2.AsyncClient
    with RawOwner(raw_owner.reset_after_reading) as owner:
        client = kind(base_url=owner.url, trust_env=False)
        story.send("POST", "/tickets", json={}, client=client)
    seen = story.observation
    assert seen["phase"] == "await"
    assert "bytes_sent" not in seen
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        client = kind(base_url=f"http://127.0.0.1:{holder.getsockname()[1]}", trust_env=False)
        story.send("POST", "/tickets", json={}, client=client, operation_id="op-2")
    assert story.ledger.reports[1][1]["phase"] == "connect"
    assert story.ledger.reports[1][1]["bytes_sent"] == 0


def test_a_streamed_body_is_measured_too(story):
    with RawOwner(raw_owner.created) as owner:
        if story.flavour == "blocking":
            content = iter([b"a" * 1000, b"b" * 1000])
        else:

            async def parts():
                yield b"a" * 1000
                yield b"b" * 1000

            content = parts()
        assert story.send("POST", f"{owner.url}/tickets", content=content).is_done
    assert story.op._passage.bytes_sent == story.op._passage.request_bytes == owner.received


def test_wire_length_is_what_goes_out():
    request = httpx2.Request("POST", "http://owner.example/a%20b?q=1", json={"é": 1}, headers={"X-One": "1"})
    body = b'{"\xc3\xa9":1}'
    head = (
        f"POST /a%20b?q=1 HTTP/1.1\r\nHost: owner.example\r\nX-One: 1\r\n"
        f"Content-Length: {len(body)}\r\nContent-Type: application/json\r\n\r\n"
    )
    assert wire_length(request) == len(head) + len(body)


def test_a_certificate_that_nobody_vouches_for(story, self_signed):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(self_signed)
    listener = socket.create_server(("127.0.0.1", 0))
    received = []

    def serve():
        connection, _ = listener.accept()
        with connection:
            try:
                with context.wrap_socket(connection, server_side=True) as secured:
                    received.append(secured.recv(10))
            except OSError:
                pass

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    with listener:
        story.send("POST", f"https://127.0.0.1:{listener.getsockname()[1]}/tickets", json={})
        thread.join(5)
    assert (story.observation["phase"], story.observation["bytes_sent"]) == ("tls", 0)
    assert story.observation["cause"] == "SSLCertVerificationError"
    assert received in ([], [b""])
