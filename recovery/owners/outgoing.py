"""The one way out: a request to an owner, over a connection that was checked, with an honest account of what became of it.

| what stands against                            | how                                                                    |
| ---------------------------------------------- | ---------------------------------------------------------------------- |
| hosts and addresses that are not the owner's   | addresses.py, for every connection, redirects and pages too            |
| a name that resolves differently the next time | we connect to the address that was checked; Host and SNI stay the name |
| a redirect to elsewhere                        | none is followed for writes; for reads only within the same origin     |
| somebody in between                            | TLS is verified; an owner with https is never asked over http          |
| proxies and credentials of the environment     | not read                                                               |
| huge answers, also after decompression         | 1 MiB, then the exchange ends                                          |
| answers that drip                              | one time limit over everything, from resolving to the last byte        |
| a repeat behind our back                       | one connection, one request; the library repeats nothing               |

An exchange that failed says in which phase and how many bytes of the request may have left. With `bytes_sent == 0` the
owner cannot have acted; with any other number nobody knows, until the owner is asked.
"""

import os
import ssl
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Final

import httpcore2
import httpx2

from ledger.rules.contract_sections import TRANSPORT_HEADERS
from ledger.rules.vocabulary import Phase
from recovery.owners.addresses import PORTS, AddressRefused, NotResolved, check_host
from recovery.owners.base import Reach
from recovery.owners.connection import CheckedBackend, Progress

LARGEST_ANSWER: Final = 1024 * 1024
"""Bytes, as sent and after decompression; an owner that answers more is not read to its end."""
CONNECT_SECONDS: Final = 3.0
"""Resolving and connecting together, at most."""

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


class Failure(StrEnum):
    """Why there is no answer."""

    REFUSED_BY_POLICY = "refused_by_policy"
    """We did not send it: the host, an address or the request itself is not allowed."""
    RESOLVE = "resolve"
    CONNECT = "connect"
    TLS = "tls"
    """No encrypted connection, most often because the certificate is not trusted."""
    TOO_SLOW = "too_slow"
    TOO_LARGE = "too_large"
    BROKEN = "broken"
    """The connection ended early, or what came is not HTTP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One HTTP request."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchanged:
    """An answer that was read to its end."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case; a repeated header is joined with a comma."""
    text: str
    url: str
    """Where the answer came from, after redirects."""
    redirects: int
    """How many were followed."""
    elapsed_ms: int
    bytes_sent: int
    request_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NotExchanged:
    """No answer, or none that could be read to its end."""

    failure: Failure
    phase: Phase
    bytes_sent: int
    """Of the request's bytes; any number but 0 means that the owner may have acted."""
    request_bytes: int
    reason: str
    """A sentence without addresses' paths, bodies or credentials."""
    exception: str
    """The kind of the underlying error, such as `ReadTimeout`; empty when there was none."""
    status: int | None
    """Of an answer whose body could not be read."""
    elapsed_ms: int

    @property
    def may_have_left(self) -> bool:
        """Whether any byte of the request may have left."""
        return self.bytes_sent > 0


def exchange(
    request: Request,
    *,
    reach: Reach,
    seconds: float,
    cap: int = LARGEST_ANSWER,
    redirects: int = 0,
    until: Callable[[bytearray], bool] | None = None,
) -> Exchanged | NotExchanged:
    """Send one request and read the answer. Never raises for what an owner, a network or an address does.

    `seconds` is for everything together. `redirects`: how many may be followed, for GET and HEAD within the same origin
    only; any other redirect is an answer like others. `cap`: the answer's bytes at most. `until`: shown the body so far
    after each part, says when it is whole (an event stream may stay open after the answer).
    """
    progress = Progress(ends=time.monotonic() + seconds, connect_seconds=CONNECT_SECONDS)
    started = time.monotonic()
    followed = 0
    while True:
        told = _Exchange(
            request, reach=reach, progress=progress, cap=cap, started=started, followed=followed, until=until
        ).run()
        if not isinstance(told, Exchanged) or followed >= redirects:
            return told
        onward = _onward(request, told)
        if onward is None:
            return told
        request, followed = onward, followed + 1
        progress.phase, progress.bytes_sent, progress.status = Phase.BEFORE_DISPATCH, 0, None


def ssl_context() -> ssl.SSLContext:
    """What TLS trusts: the system's certificates and, where ASCERTAIN_OWNER_CA_FILE names a file, those in it."""
    return _ssl_context(os.environ.get("ASCERTAIN_OWNER_CA_FILE", ""))


def checked_url(text: str, *, reach: Reach) -> httpx2.URL:
    """An address that may be asked, as far as it can be told before it is resolved.

    Raises:
        AddressRefused: it cannot be read, holds a password, is on another host, or gives up TLS.
    """
    try:
        url = httpx2.URL(text)
    except (httpx2.InvalidURL, ValueError, TypeError):
        raise AddressRefused("The address cannot be read.") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise AddressRefused("The address is not one of http or https.")
    if url.userinfo:
        raise AddressRefused("The address holds a name or password; credentials belong in `as`.")
    if url.scheme == "http" and reach.base_url.lower().startswith("https:"):
        raise AddressRefused("The owner is asked over https, and the address would give that up.")
    check_host(host=url.host, port=url.port or PORTS[url.scheme], scheme=url.scheme, reach=reach)
    return url


class _Exchange:
    """One request over one connection."""

    def __init__(
        self,
        request: Request,
        *,
        reach: Reach,
        progress: Progress,
        cap: int,
        started: float,
        followed: int,
        until: Callable[[bytearray], bool] | None,
    ) -> None:
        self._request = request
        self._reach = reach
        self._progress = progress
        self._cap = cap
        self._started = started
        self._followed = followed
        self._until = until
        self._bytes = 0

    def run(self) -> Exchanged | NotExchanged:
        try:
            url = checked_url(self._request.url, reach=self._reach)
            headers = self._headers(url)
        except AddressRefused as error:
            return self._not(Failure.REFUSED_BY_POLICY, str(error))
        body = self._request.body or b""
        self._bytes = _head_size(self._request.method, url, headers) + len(body)
        try:
            return self._over_the_wire(url, headers, body)
        except AddressRefused as error:
            return self._not(Failure.REFUSED_BY_POLICY, str(error))
        except NotResolved as error:
            return self._not(Failure.RESOLVE, str(error))
        except _TooLarge:
            return self._not(Failure.TOO_LARGE, f"The answer is larger than {self._cap // 1024} KiB.")
        except _Malformed as error:
            return self._not(Failure.BROKEN, str(error))
        except httpcore2.LocalProtocolError as error:
            # The library refused to write it; nothing of it left.
            return self._not(Failure.REFUSED_BY_POLICY, "The request cannot be written as HTTP.", error)
        except httpcore2.TimeoutException as error:
            return self._not(self._failure(Failure.TOO_SLOW), _TOO_SLOW[self._progress.phase], error)
        except (httpcore2.NetworkError, httpcore2.ProtocolError, OSError) as error:
            return self._not(self._failure(Failure.BROKEN), self._broken(error), error)

    def _over_the_wire(self, url: httpx2.URL, headers: list[tuple[bytes, bytes]], body: bytes) -> Exchanged:
        progress = self._progress
        backend = CheckedBackend(reach=self._reach, progress=progress)
        target = httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        request = httpcore2.Request(
            self._request.method, target, headers=headers, content=body, extensions={"trace": progress.follow}
        )
        context = ssl_context() if url.scheme == "https" else None
        with httpcore2.ConnectionPool(ssl_context=context, network_backend=backend, http2=False, retries=0) as pool:
            answer = pool.handle_request(request)
            try:
                told = _joined(answer.headers)
                text = self._body(answer.iter_stream(), told)
            finally:
                answer.close()
        return Exchanged(
            status=answer.status,
            headers=told,
            text=text,
            url=str(url),
            redirects=self._followed,
            elapsed_ms=self._elapsed(),
            bytes_sent=progress.bytes_sent,
            request_bytes=self._bytes,
        )

    def _headers(self, url: httpx2.URL) -> list[tuple[bytes, bytes]]:
        headers = {"user-agent": "Ascertain", "accept": "application/json"}
        for name, value in self._request.headers.items():
            if name.lower() in TRANSPORT_HEADERS:
                raise AddressRefused(f"The header {name.lower()} is not set by requests; leave it out.")
            headers[name.lower()] = value
        headers |= {"host": url.netloc.decode("ascii"), "accept-encoding": "gzip", "connection": "close"}
        if self._request.body is not None or self._request.method not in ("GET", "HEAD"):
            headers["content-length"] = str(len(self._request.body or b""))
        try:
            return [(name.encode("ascii"), _header_value(value)) for name, value in headers.items()]
        except (UnicodeEncodeError, ValueError):
            raise AddressRefused("A header holds characters that cannot be sent.") from None

    def _body(self, parts: Iterable[bytes], headers: Mapping[str, str]) -> str:
        decoder = _decoder(headers.get("content-encoding", ""))
        raw, whole = 0, bytearray()
        for part in parts:
            raw += len(part)
            if raw > self._cap:
                raise _TooLarge
            whole += decoder.feed(part, self._cap - len(whole)) if decoder is not None else part
            if len(whole) > self._cap:
                raise _TooLarge
            if self._until is not None and self._until(whole):
                return _text(bytes(whole), headers.get("content-type", ""))
        if decoder is not None and raw and not decoder.finished:
            raise _Malformed("The answer's compressed body ends early.")
        return _text(bytes(whole), headers.get("content-type", ""))

    def _failure(self, otherwise: Failure) -> Failure:
        return _BY_PHASE.get(self._progress.phase, otherwise)

    def _broken(self, error: Exception) -> str:
        phase = self._progress.phase
        if phase is Phase.TLS and _certificate_refused(error):
            return "The owner's certificate is not trusted."
        return _BROKEN[phase]

    def _not(self, failure: Failure, reason: str, error: Exception | None = None) -> NotExchanged:
        return NotExchanged(
            failure=failure,
            phase=self._progress.phase,
            bytes_sent=self._progress.bytes_sent,
            request_bytes=self._bytes,
            reason=reason,
            exception=type(error).__name__ if error is not None else "",
            status=self._progress.status,
            elapsed_ms=self._elapsed(),
        )

    def _elapsed(self) -> int:
        return round((time.monotonic() - self._started) * 1000)


class _TooLarge(Exception):
    """More bytes than we read."""


class _Malformed(Exception):
    """A body that cannot be read; the message says how."""


class _Gzip:
    """Decompresses piece by piece and never more than it is allowed: a bomb ends at the limit, not in memory."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(wbits=47)  # gzip or zlib, as the data says

    @property
    def finished(self) -> bool:
        return self._member.eof

    def feed(self, part: bytes, allowed: int) -> bytes:
        whole = bytearray()
        try:
            while part:
                if self._member.eof:
                    self._member = zlib.decompressobj(wbits=47)
                whole += self._member.decompress(part, allowed - len(whole) + 1)
                if len(whole) > allowed:
                    raise _TooLarge
                part = self._member.unused_data
        except zlib.error:
            raise _Malformed("The answer's body is not compressed as it says.") from None
        return bytes(whole)


_BY_PHASE: Final = {Phase.RESOLVE: Failure.RESOLVE, Phase.CONNECT: Failure.CONNECT, Phase.TLS: Failure.TLS}
_TOO_SLOW: Final = {
    Phase.BEFORE_DISPATCH: "The time was up before anything was sent.",
    Phase.RESOLVE: "The owner's name was not resolved in time.",
    Phase.CONNECT: "The owner took no connection in time.",
    Phase.TLS: "No encrypted connection came about in time.",
    Phase.SEND: "The owner did not take the whole request in time.",
    Phase.AWAIT: "The owner did not answer in time.",
    Phase.AFTER_RESPONSE: "The owner's answer did not end in time.",
}
_BROKEN: Final = {
    Phase.BEFORE_DISPATCH: "The request could not be sent.",
    Phase.RESOLVE: "The owner's name could not be resolved.",
    Phase.CONNECT: "The owner took no connection.",
    Phase.TLS: "No encrypted connection came about.",
    Phase.SEND: "The connection broke while the request was being sent.",
    Phase.AWAIT: "The connection broke before an answer came.",
    Phase.AFTER_RESPONSE: "The answer ended early or is not HTTP.",
}


@cache
def _ssl_context(more: str) -> ssl.SSLContext:
    context = httpx2.create_ssl_context(trust_env=False)
    if more:
        context.load_verify_locations(cafile=more)
    return context


def _onward(request: Request, told: Exchanged) -> Request | None:
    """The request that a redirect asks for, when it may be followed."""
    location = told.headers.get("location")
    if told.status not in _REDIRECTS or not location or request.method not in ("GET", "HEAD"):
        return None
    here = httpx2.URL(told.url)
    try:
        there = here.join(location)
    except (httpx2.InvalidURL, ValueError):
        return None
    same = (there.scheme, there.host, there.port or PORTS.get(there.scheme)) == (
        here.scheme,
        here.host,
        here.port or PORTS.get(here.scheme),
    )
    return Request(method=request.method, url=str(there), headers=request.headers) if same else None


def _head_size(method: str, url: httpx2.URL, headers: Iterable[tuple[bytes, bytes]]) -> int:
    """Bytes of the request's head as HTTP/1.1 writes it."""
    line = len(method) + len(url.raw_path) + len("  HTTP/1.1\r\n")
    return line + sum(len(name) + len(value) + len(": \r\n") for name, value in headers) + len("\r\n")


def _header_value(value: str) -> bytes:
    if not value.isprintable() and any(not (c.isprintable() or c == "\t") for c in value):
        raise ValueError("control characters")
    return value.strip().encode()


def _joined(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    joined: dict[str, str] = {}
    for name, value in headers:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        joined[key] = f"{joined[key]}, {text}" if key in joined else text
    return joined


def _decoder(encoding: str) -> _Gzip | None:
    named = encoding.strip().lower()
    if named in ("", "identity"):
        return None
    if named in ("gzip", "x-gzip", "deflate"):
        return _Gzip()
    raise _Malformed("The answer is compressed in a way that was not asked for.")


def _text(body: bytes, content_type: str) -> str:
    _, _, parameters = content_type.partition(";")
    charset = ""
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            charset = value.strip().strip("\"'")
    try:
        return body.decode(charset or "utf-8-sig", "replace")
    except LookupError:
        return body.decode("utf-8-sig", "replace")


def _certificate_refused(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__  # the library raises anew, from None
    return False
