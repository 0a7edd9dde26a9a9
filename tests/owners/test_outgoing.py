"""The one way out, before real servers: where it refuses to go, how it ends, and what it says of the bytes."""

import base64
import gzip
import os
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address, ip_address
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.rules.vocabulary import Phase
from recovery.owners import addresses, outgoing
from recovery.owners.addresses import AddressRefused, NotResolved, check_host, checked_addresses, refusal
from recovery.owners.base import Reach
from recovery.owners.outgoing import Exchanged, Failure, NotExchanged, Request, exchange
from tests.owners.scripted import Answer, Received, ScriptedOwner, bomb, drip

PRIVATE = frozenset({"127.0.0.1", "localhost"})


def reach_of(owner: ScriptedOwner, *hosts: str, private: frozenset[str] = PRIVATE) -> Reach:
    return Reach(base_url=owner.url, hosts=frozenset(hosts), private_hosts=private)


def get(owner: ScriptedOwner, path: str = "/x", *, seconds: float = 3, redirects: int = 0, **more: object) -> object:
    request = Request(method="GET", url=owner.url + path)
    return exchange(request, reach=reach_of(owner), seconds=seconds, redirects=redirects, **more)  # type: ignore[arg-type]


ADDRESSES = [
    ("93.184.215.14", False, True, "a public address"),
    ("2606:2800:21f:cb07:6820:80da:af6b:8b2c", False, True, "likewise"),
    ("127.0.0.1", False, False, "loopback"),
    ("127.8.8.8", False, False, "all of 127/8 is"),
    ("::1", False, False, "likewise"),
    ("10.1.2.3", False, False, "private"),
    ("172.31.0.1", False, False, "private"),
    ("192.168.1.1", False, False, "private"),
    ("fd12::1", False, False, "unique local"),
    ("fec0::1", False, False, "site-local, of old"),
    ("169.254.7.7", False, False, "link-local"),
    ("fe80::1", False, False, "link-local"),
    ("100.64.0.1", False, False, "shared by a carrier's customers"),
    ("198.18.0.1", False, False, "for benchmarks"),
    ("192.0.2.1", False, False, "for documentation"),
    ("3fff::1", False, False, "for documentation"),
    ("::ffff:10.0.0.1", False, False, "IPv4 in IPv6"),
    ("::ffff:93.184.215.14", False, True, "likewise, and public"),
    ("2002:7f00:0001::", False, False, "6to4 of loopback"),
    ("64:ff9b::7f00:1", False, False, "NAT64 of loopback"),
    ("64:ff9b::5db8:d70e", False, True, "NAT64 of a public address"),
    ("64:ff9b:1::1", False, False, "NAT64 for local use"),
    ("::7f00:1", False, False, "IPv4-compatible, of old"),
    ("127.0.0.1", True, True, "named as private"),
    ("fd12::1", True, True, "likewise"),
    ("169.254.7.7", True, True, "likewise"),
    ("169.254.169.254", True, False, "metadata, never"),
    ("::ffff:169.254.169.254", True, False, "metadata in another dress"),
    ("64:ff9b::a9fe:a9fe", True, False, "and in a third"),
    ("fd00:ec2::254", True, False, "metadata, never"),
    ("169.254.170.2", True, False, "a task's credentials, never"),
    ("100.100.100.200", True, False, "metadata, never"),
    ("168.63.129.16", False, False, "metadata at a public address"),
    ("0.0.0.0", True, False, "this machine, by another name"),
    ("::", True, False, "likewise"),
    ("224.0.0.1", True, False, "multicast"),
    ("ff02::1", True, False, "multicast"),
    ("255.255.255.255", True, False, "broadcast"),
    ("240.0.0.1", True, False, "reserved"),
]


@pytest.mark.parametrize(("address", "private", "allowed", "why"), ADDRESSES)
def test_which_addresses_may_be_connected_to(address: str, private: bool, allowed: bool, why: str) -> None:
    assert (refusal(ip_address(address), private_allowed=private) is None) is allowed, why


HOSTS = [
    ("https://helpdesk.example", (), "https://helpdesk.example/x", True, "its own"),
    ("https://helpdesk.example", (), "https://HELPDESK.example./x", True, "another spelling of it"),
    ("https://helpdesk.example:8443", (), "https://helpdesk.example:8443/x", True, "its own port"),
    ("https://helpdesk.example", (), "https://helpdesk.example:8443/x", False, "another service of that machine"),
    ("https://helpdesk.example", (), "https://evil.example/x", False, "another host"),
    ("https://helpdesk.example", (), "https://helpdesk.example.evil.example/x", False, "it only begins alike"),
    ("https://helpdesk.example", (), "https://helpdesk.example@evil.example/x", False, "a name before another host"),
    ("https://helpdesk.example", (), "https://user:pw@helpdesk.example/x", False, "credentials in an address"),
    ("https://helpdesk.example", (), "http://helpdesk.example:443/x", False, "it would give up TLS"),
    ("https://helpdesk.example", ("jobs.example",), "https://jobs.example/x", True, "listed"),
    ("https://helpdesk.example", ("jobs.example",), "https://jobs.example:9/x", False, "listed, on its own port only"),
    ("https://helpdesk.example", ("jobs.example:9",), "https://jobs.example:9/x", True, "listed with its port"),
    ("https://helpdesk.example", ("jobs.example:9",), "https://jobs.example/x", False, "with that port only"),
    ("http://[::1]:8000", (), "http://[::1]:8000/x", True, "an IPv6 address"),
    ("https://helpdesk.example", ("[fd00::1]:80",), "https://[fd00::1]:80/x", True, "likewise"),
    ("https://bücher.example", (), "https://xn--bcher-kva.example/x", True, "as it goes over the wire"),
    ("https://helpdesk.example", (), "ftp://helpdesk.example/x", False, "another protocol"),
    ("https://helpdesk.example", (), "file:///etc/passwd", False, "a file"),
    ("https://helpdesk.example", (), "https://", False, "no host"),
    ("https://helpdesk.example", (), "https://helpdesk.example:99999/x", False, "no port"),
]


@pytest.mark.parametrize(("base", "hosts", "url", "allowed", "why"), HOSTS)
def test_which_hosts_may_be_asked(base: str, hosts: tuple[str, ...], url: str, allowed: bool, why: str) -> None:
    reach = Reach(base_url=base, hosts=frozenset(hosts))
    if allowed:
        assert outgoing.checked_url(url, reach=reach).host, why
    else:
        with pytest.raises(AddressRefused, match=r"\.$"):
            outgoing.checked_url(url, reach=reach)


def test_a_host_that_is_not_listed_is_refused_before_it_is_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "_resolve", lambda *_: pytest.fail("it was resolved"))
    told = exchange(
        Request(method="GET", url="http://evil.example/x"), reach=Reach(base_url="http://helpdesk.example"), seconds=1
    )
    assert isinstance(told, NotExchanged)
    assert (told.failure, told.phase, told.bytes_sent) == (Failure.REFUSED_BY_POLICY, Phase.BEFORE_DISPATCH, 0)


def resolving(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> list[str]:
    """The name server's answers, one a question; returns the names that were asked for."""
    asked: list[str] = []
    queue = list(answers)
    really = socket.getaddrinfo

    def answer(host: str, port: int, *more: object, **named: object) -> object:
        if host[0].isdigit():
            return really(host, port, *more, **named)  # type: ignore[arg-type]
        asked.append(host)
        return [(0, 0, 0, "", (address, port)) for address in queue.pop(0)]

    monkeypatch.setattr(addresses.socket, "getaddrinfo", answer)
    return asked


def test_one_bad_address_among_good_ones_refuses_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    resolving(monkeypatch, ["93.184.215.14", "10.0.0.5"])
    with pytest.raises(AddressRefused, match="private"):
        checked_addresses(
            host="helpdesk.example", port=443, reach=Reach(base_url="https://helpdesk.example"), seconds=1
        )


def test_what_was_checked_is_connected_to_and_the_name_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedOwner() as owner:
        asked = resolving(monkeypatch, ["127.0.0.1"], ["10.0.0.5"])
        reach = Reach(base_url=f"http://helpdesk.example:{owner.port}", private_hosts=frozenset({"helpdesk.example"}))
        told = exchange(Request(method="GET", url=f"{reach.base_url}/x"), reach=reach, seconds=2)
        assert isinstance(told, Exchanged), told
        assert asked == ["helpdesk.example"], "resolved once: the second answer would have led elsewhere"
        assert owner.received[0].headers["host"] == f"helpdesk.example:{owner.port}"


def test_a_name_of_loopback_is_refused_unless_it_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedOwner() as owner:
        reach = Reach(base_url=f"http://localhost:{owner.port}")
        told = exchange(Request(method="GET", url=f"{reach.base_url}/x"), reach=reach, seconds=2)
        assert isinstance(told, NotExchanged)
        assert (told.failure, told.phase, told.bytes_sent) == (Failure.REFUSED_BY_POLICY, Phase.RESOLVE, 0)
        assert "private hosts" in told.reason
        assert owner.received == []


def test_a_name_server_that_is_silent_costs_no_more_than_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses.socket, "getaddrinfo", lambda *_, **__: time.sleep(3) or [])
    began = time.monotonic()
    with pytest.raises(NotResolved):
        checked_addresses(host="helpdesk.example", port=443, reach=Reach(base_url="https://x"), seconds=0.2)
    assert time.monotonic() - began < 1


def test_a_name_without_an_address() -> None:
    reach = Reach(base_url="http://no-such-host.invalid")
    told = exchange(Request(method="GET", url="http://no-such-host.invalid/"), reach=reach, seconds=3)
    assert isinstance(told, NotExchanged)
    assert (told.failure, told.phase, told.may_have_left) == (Failure.RESOLVE, Phase.RESOLVE, False)


def test_check_host_needs_an_address_of_the_owner() -> None:
    with pytest.raises(AddressRefused):
        check_host(host="", port=80, scheme="http", reach=Reach(base_url="not an address"))


def test_an_answer_comes_back_whole() -> None:
    with ScriptedOwner() as owner:
        owner.answer = lambda received: Answer(status=201, body={"ok": True}, headers={"X-Trace": "t"})
        request = Request(method="POST", url=f"{owner.url}/tickets", headers={"X-Key": "k"}, body=b'{"a": 1}')
        told = exchange(request, reach=reach_of(owner), seconds=3)
        assert isinstance(told, Exchanged)
        assert (told.status, told.text, told.headers["x-trace"]) == (201, '{"ok": true}', "t")
        assert told.bytes_sent == told.request_bytes > len(b'{"a": 1}')
        assert (owner.received[0].body, owner.received[0].headers["x-key"]) == (b'{"a": 1}', "k")
        assert "proxy-authorization" not in owner.received[0].headers


def test_the_environments_proxy_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    with ScriptedOwner() as owner:
        assert isinstance(get(owner), Exchanged)


def raw(content: bytes) -> Callable[[Received], None]:
    return lambda received: received.write(content)


WHOLE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
BAD_ANSWERS: list[tuple[Callable[[Received], Answer | None], Failure, Phase, str]] = [
    (lambda received: drip(received, seconds=4), Failure.TOO_SLOW, Phase.AFTER_RESPONSE, "it drips"),
    (lambda received: time.sleep(4), Failure.TOO_SLOW, Phase.AWAIT, "it never answers"),
    (raw(b""), Failure.BROKEN, Phase.AWAIT, "it hangs up"),
    (raw(b"220 smtp.example ESMTP\r\n"), Failure.BROKEN, Phase.AWAIT, "it is no HTTP"),
    (raw(WHOLE + b"Content-Length: 99\r\n\r\n{"), Failure.BROKEN, Phase.AFTER_RESPONSE, "it ends early"),
    (raw(WHOLE + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{"), Failure.BROKEN, Phase.AFTER_RESPONSE, "likewise"),
    (raw(WHOLE + b"X: " + b"y" * 200_000), Failure.BROKEN, Phase.AWAIT, "a head without an end"),
    (lambda received: bomb(), Failure.TOO_LARGE, Phase.AFTER_RESPONSE, "64 MB out of 64 KB"),
    (lambda received: Answer(body=b" " * 1_100_000), Failure.TOO_LARGE, Phase.AFTER_RESPONSE, "over 1 MiB as it is"),
    (lambda received: Answer(body=b"x", headers={"Content-Encoding": "br"}), Failure.BROKEN, Phase.AFTER_RESPONSE,
     "compressed in a way that we did not ask for"),
    (lambda received: Answer(body=gzip.compress(b"{}")[:-9], headers={"Content-Encoding": "gzip"}), Failure.BROKEN,
     Phase.AFTER_RESPONSE, "compressed and cut short"),
    (lambda received: Answer(body=b"plain", headers={"Content-Encoding": "gzip"}), Failure.BROKEN,
     Phase.AFTER_RESPONSE, "not compressed at all"),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "failure", "phase", "why"), BAD_ANSWERS, ids=[why for *_, why in BAD_ANSWERS])
def test_bad_answers(answer: Callable[[Received], Answer | None], failure: Failure, phase: Phase, why: str) -> None:
    bomb()
    with ScriptedOwner() as owner:
        owner.answer = answer
        began = time.monotonic()
        told = get(owner, "/secret-path?token=hunter2", seconds=1)
        assert isinstance(told, NotExchanged), why
        assert (told.failure, told.phase) == (failure, phase), told
        assert told.bytes_sent == told.request_bytes, "all of it left"
        assert told.may_have_left
        assert told.status == (200 if phase is Phase.AFTER_RESPONSE else None)
        assert "hunter2" not in told.reason
        assert told.reason.endswith(".")
        assert time.monotonic() - began < 2.5, "it kept to its time"


def test_several_gzip_members_are_one_body() -> None:
    with ScriptedOwner() as owner:
        packed = gzip.compress(b'{"a"') + gzip.compress(b": 1}")
        owner.answer = lambda received: Answer(body=packed, headers={"Content-Encoding": "gzip"})
        told = get(owner)
        assert isinstance(told, Exchanged)
        assert told.text == '{"a": 1}'


def test_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        reach = Reach(base_url=url, private_hosts=PRIVATE)
        told = exchange(Request(method="POST", url=url, body=b"{}"), reach=reach, seconds=2)
    assert isinstance(told, NotExchanged)
    assert (told.failure, told.phase, told.bytes_sent) == (Failure.CONNECT, Phase.CONNECT, 0)
    assert told.exception == "ConnectError"


def test_nobody_accepts() -> None:
    """A full queue: connecting takes for ever."""
    with socket.socket() as full, socket.socket() as filling:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        filling.connect(full.getsockname())
        queued = [socket.socket() for _ in range(4)]
        for each in queued:
            each.setblocking(False)
            each.connect_ex(full.getsockname())
        url = f"http://127.0.0.1:{full.getsockname()[1]}"
        began = time.monotonic()
        reach = Reach(base_url=url, private_hosts=PRIVATE)
        told = exchange(Request(method="POST", url=url, body=b"{}"), reach=reach, seconds=1)
        for each in queued:
            each.close()
    assert isinstance(told, NotExchanged)
    assert (told.failure, told.phase, told.bytes_sent) == (Failure.CONNECT, Phase.CONNECT, 0)
    assert time.monotonic() - began < 2


def test_an_owner_that_does_not_take_the_whole_request() -> None:
    """Some bytes left, not all: the owner may have acted on what it has."""
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        reach = Reach(base_url=url, private_hosts=PRIVATE)
        told = exchange(Request(method="POST", url=url, body=b"x" * 20_000_000), reach=reach, seconds=1)
    assert isinstance(told, NotExchanged)
    assert (told.failure, told.phase) == (Failure.TOO_SLOW, Phase.SEND)
    assert 0 < told.bytes_sent < told.request_bytes
    assert told.request_bytes > 20_000_000


def test_an_owner_that_refuses_a_large_request_early_is_heard() -> None:
    """It answers 413 and closes while we are still sending: that answer is worth more than the broken pipe."""

    def serve(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(1024)
            connection.sendall(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n")
            connection.shutdown(socket.SHUT_WR)
            time.sleep(0.5)

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        threading.Thread(target=serve, args=(listening,), daemon=True).start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        reach = Reach(base_url=url, private_hosts=PRIVATE)
        told = exchange(Request(method="POST", url=url, body=b"x" * 20_000_000), reach=reach, seconds=3)
    if isinstance(told, Exchanged):
        assert told.status == 413
        assert told.bytes_sent < told.request_bytes
    else:
        assert told.phase is Phase.SEND, "a reset took the answer away; then nobody knows"


REFUSED_HEADERS = [
    ({"Host": "evil.example"}, "another host's name"),
    ({"Content-Length": "3"}, "a length of its own"),
    ({"Transfer-Encoding": "chunked"}, "a second message hides behind it"),
    ({"X-Title": "a\r\nX-Admin: yes"}, "a second header hides in it"),
    ({"X-Titlé": "a"}, "a name that cannot be sent"),
    ({"X Title": "a"}, "likewise"),
]


@pytest.mark.parametrize(("headers", "why"), REFUSED_HEADERS, ids=[why for _, why in REFUSED_HEADERS])
def test_headers_that_are_never_sent(headers: dict[str, str], why: str) -> None:
    with ScriptedOwner() as owner:
        told = exchange(Request(method="GET", url=owner.url, headers=headers), reach=reach_of(owner), seconds=2)
        assert isinstance(told, NotExchanged), why
        assert (told.failure, told.bytes_sent) == (Failure.REFUSED_BY_POLICY, 0), told
        assert owner.received == []


@pytest.fixture
def two() -> Iterator[tuple[ScriptedOwner, ScriptedOwner]]:
    with ScriptedOwner() as owner, ScriptedOwner() as elsewhere:
        yield owner, elsewhere


def redirecting(*locations: str) -> Callable[[Received], Answer]:
    """Each request is sent on to the next location; then there is an answer."""
    queue = list(locations)
    return lambda received: Answer(status=303, headers={"Location": queue.pop(0)}) if queue else Answer(body={"at": 1})


def test_redirects_are_followed_where_they_may_be(two: tuple[ScriptedOwner, ScriptedOwner]) -> None:
    owner, elsewhere = two
    owner.answer = redirecting("/b", "c?x=1")
    told = get(owner, "/a/", redirects=3)
    assert isinstance(told, Exchanged)
    assert (told.status, told.redirects, told.url) == (200, 2, f"{owner.url}/c?x=1")
    owner.answer = redirecting("/1", "/2", "/3", "/4")
    told = get(owner, redirects=3)
    assert isinstance(told, Exchanged)
    assert (told.status, told.redirects) == (303, 3), "no further"
    owner.answer = redirecting("/b")
    told = get(owner)
    assert isinstance(told, Exchanged)
    assert told.status == 303, "unless it is asked for, a redirect is an answer"
    assert elsewhere.received == []


AWAY = [
    ("{elsewhere}/x", "another port is another owner"),
    ("http://169.254.169.254/latest/meta-data/", "metadata"),
    ("//evil.example/x", "another host, without a scheme"),
    ("https://127.0.0.1:{port}/x", "another protocol"),
    ("http://localhost:{port}/x", "another name, even of the same machine"),
    ("file:///etc/passwd", "a file"),
    ("http://[", "no address"),
]


@pytest.mark.parametrize(("location", "why"), AWAY, ids=[why for _, why in AWAY])
def test_no_redirect_leads_away(two: tuple[ScriptedOwner, ScriptedOwner], location: str, why: str) -> None:
    owner, elsewhere = two
    where = location.format(elsewhere=elsewhere.url, port=owner.port)
    owner.answer = lambda received: Answer(status=302, headers={"Location": where})
    told = get(owner, redirects=3)
    assert isinstance(told, Exchanged), why
    assert (told.status, told.redirects, len(owner.received)) == (302, 0, 1)
    assert elsewhere.received == []


def test_a_write_is_never_redirected(two: tuple[ScriptedOwner, ScriptedOwner]) -> None:
    owner, _ = two
    owner.answer = lambda received: Answer(status=307, headers={"Location": "/again"})
    told = exchange(Request(method="POST", url=owner.url, body=b"{}"), reach=reach_of(owner), seconds=2, redirects=3)
    assert isinstance(told, Exchanged)
    assert (told.status, len(owner.received)) == (307, 1)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate for `localhost` that nobody has signed but itself."""
    file = tmp_path_factory.mktemp("tls") / "owner.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", file, "-out", f"{file}.crt",
         "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
        check=True, capture_output=True,
    )  # fmt: skip
    file.write_text(file.read_text() + Path(f"{file}.crt").read_text())
    return file


def over_tls(owner: ScriptedOwner, host: str) -> Exchanged | NotExchanged:
    url = f"https://{host}:{owner.port}"
    reach = Reach(base_url=url, private_hosts=PRIVATE)
    return exchange(Request(method="POST", url=f"{url}/x", body=b"{}"), reach=reach, seconds=3)


def test_a_certificate_that_nobody_vouches_for_is_refused(certificate: Path) -> None:
    with ScriptedOwner(certificate=certificate) as owner:
        told = over_tls(owner, "localhost")
        assert isinstance(told, NotExchanged)
        assert (told.failure, told.phase, told.bytes_sent) == (Failure.TLS, Phase.TLS, 0)
        assert told.reason == "The owner's certificate is not trusted."
        assert owner.received == []


def test_a_certificate_of_the_deployments_own_is_trusted_for_its_name_alone(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASCERTAIN_OWNER_CA_FILE", f"{certificate}.crt")
    with ScriptedOwner(certificate=certificate) as owner:
        told = over_tls(owner, "localhost")
        assert isinstance(told, Exchanged), told
        assert told.bytes_sent == told.request_bytes, "bytes are those of the request, not of the encryption"
        told = over_tls(owner, "127.0.0.1")
        assert isinstance(told, NotExchanged)
        assert told.failure is Failure.TLS, "the certificate names another"


def test_an_owner_that_speaks_no_tls() -> None:
    with ScriptedOwner() as owner:
        told = over_tls(owner, "localhost")
        assert isinstance(told, NotExchanged)
        assert (told.failure, told.phase, told.bytes_sent) == (Failure.TLS, Phase.TLS, 0)


def test_a_handshake_that_never_ends_costs_no_more_than_the_time() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        reach = Reach(base_url=url, private_hosts=PRIVATE)
        told = exchange(Request(method="GET", url=url), reach=reach, seconds=0.6)
        assert isinstance(told, NotExchanged)
        assert (told.failure, told.phase) == (Failure.TLS, Phase.TLS)
        assert time.monotonic() - began < 2


def test_old_tls_is_refused() -> None:
    assert outgoing.ssl_context().minimum_version >= ssl.TLSVersion.TLSv1_2
    assert outgoing.ssl_context().verify_mode is ssl.CERT_REQUIRED
    assert outgoing.ssl_context().check_hostname


def test_no_connection_stays_open() -> None:
    def open_files() -> int:
        return len(os.listdir("/proc/self/fd"))

    with ScriptedOwner() as owner:
        get(owner)
        before = open_files()
        for _ in range(20):
            get(owner)
        assert open_files() <= before + 2


@given(address=st.ip_addresses(v=4), dress=st.sampled_from(["{}", "::ffff:{}", "64:ff9b::{}", "2002:{h}::"]))
def test_no_dress_hides_an_address(address: IPv4Address, dress: str) -> None:
    """An IPv4 address inside an IPv6 one is judged as itself."""
    worn = ip_address(dress.format(address, h=f"{int(address) >> 16:x}:{int(address) & 0xFFFF:x}"))
    for private in (True, False):
        plain = refusal(address, private_allowed=private)
        assert (refusal(worn, private_allowed=private) is None) is (plain is None)
    if not address.is_global:
        assert refusal(worn, private_allowed=False) is not None


HEADS = [
    b"",
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
]


@given(head=st.sampled_from(HEADS), rest=st.binary(max_size=200))
@settings(deadline=None, max_examples=60)
def test_nothing_that_comes_back_breaks_it(head: bytes, rest: bytes) -> None:
    """Whatever bytes an owner sends, there is an account of the exchange."""
    told = exchange(_garbled(head + rest), reach=_GARBLED_REACH[0], seconds=2)
    assert isinstance(told, Exchanged | NotExchanged)
    assert told.bytes_sent == told.request_bytes
    if isinstance(told, NotExchanged):
        assert told.phase in (Phase.AWAIT, Phase.AFTER_RESPONSE)


_GARBLED_REACH: list[Reach] = []


@pytest.fixture(autouse=True, scope="module")
def garbler() -> Iterator[None]:
    """One owner for all the garbage."""
    with ScriptedOwner() as owner:
        owner.answer = lambda received: received.write(base64.urlsafe_b64decode(received.query["say"][0]))  # type: ignore[func-returns-value]
        _GARBLED_REACH.append(reach_of(owner))
        yield


def _garbled(content: bytes) -> Request:
    said = base64.urlsafe_b64encode(content or b"\n").decode()
    return Request(method="GET", url=f"{_GARBLED_REACH[0].base_url}/?say={said}")
