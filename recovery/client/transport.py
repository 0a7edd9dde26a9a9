"""Our own way to the owner: every written byte is counted, the whole call ends in time, nothing is sent twice.

Each call gets a connection of its own. A kept-alive connection that the owner has just closed would turn calls
that never arrived into unknown outcomes, and that costs more than a handshake.
"""

import contextlib
import ssl
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import Any, cast

import httpcore2
import httpx2

from recovery.client.passage import Passage

PASSAGE = "ascertain_passage"
"""The request extension under which the transport finds the call's Passage."""

_PIECE = 16 * 1024
"""Bytes handed over at once: one TLS record, so that a failed write leaves at most this much in doubt."""


class MeasuredTransport(httpx2.BaseTransport):
    """A transport for `httpx2.Client` that measures calls made with a Passage in their extensions.

    HTTP/1.1 only, no proxy, no repeats, one connection a call.
    """

    def __init__(self, *, ssl_context: ssl.SSLContext | None = None) -> None:
        self._ssl_context = ssl_context if ssl_context is not None else httpx2.create_ssl_context()

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Make the call on a connection of its own."""
        passage = _passage_of(request)
        pool = httpcore2.ConnectionPool(
            ssl_context=self._ssl_context, max_keepalive_connections=0, network_backend=_Backend(passage)
        )
        try:
            with _engine_errors():
                answer = pool.handle_request(_engine_request(request))
        except BaseException:
            pool.close()
            raise
        body = _Body(cast(Iterable[bytes], answer.stream), pool)
        return httpx2.Response(answer.status, headers=answer.headers, stream=body, extensions=answer.extensions)


class AsyncMeasuredTransport(httpx2.AsyncBaseTransport):
    """`MeasuredTransport` for `httpx2.AsyncClient`, on asyncio or trio."""

    def __init__(self, *, ssl_context: ssl.SSLContext | None = None) -> None:
        self._ssl_context = ssl_context if ssl_context is not None else httpx2.create_ssl_context()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Make the call on a connection of its own."""
        passage = _passage_of(request)
        pool = httpcore2.AsyncConnectionPool(
            ssl_context=self._ssl_context, max_keepalive_connections=0, network_backend=_AsyncBackend(passage)
        )
        try:
            with _engine_errors():
                answer = await pool.handle_async_request(_engine_request(request))
        except BaseException:
            await pool.aclose()
            raise
        body = _AsyncBody(cast(AsyncIterable[bytes], answer.stream), pool)
        return httpx2.Response(answer.status, headers=answer.headers, stream=body, extensions=answer.extensions)


def _passage_of(request: httpx2.Request) -> Passage:
    passage = request.extensions.get(PASSAGE)
    if not isinstance(passage, Passage):
        raise RuntimeError("The measured transport sends only calls of an operation; use op.send().")
    passage.bytes_counted = True
    return passage


def _engine_request(request: httpx2.Request) -> httpcore2.Request:
    return httpcore2.Request(
        method=request.method,
        url=httpcore2.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        ),
        headers=request.headers.raw,
        content=cast(Iterable[bytes] | AsyncIterable[bytes], request.stream),
        extensions=request.extensions,
    )


@contextlib.contextmanager
def _engine_errors() -> Iterator[None]:
    """Turn the engine's exceptions into httpx2's, which bear the same names."""
    try:
        yield
    except (
        httpcore2.TimeoutException,
        httpcore2.NetworkError,
        httpcore2.ProtocolError,
        httpcore2.ProxyError,
        httpcore2.UnsupportedProtocol,
    ) as error:
        known: type[httpx2.TransportError] = getattr(httpx2, type(error).__name__)
        raise known(str(error)) from error


class _Body(httpx2.SyncByteStream):
    def __init__(self, stream: Iterable[bytes], pool: httpcore2.ConnectionPool) -> None:
        self._stream = stream
        self._pool = pool

    def __iter__(self) -> Iterator[bytes]:
        with _engine_errors():
            yield from self._stream

    def close(self) -> None:
        close = getattr(self._stream, "close", None)
        if close is not None:
            close()
        self._pool.close()


class _AsyncBody(httpx2.AsyncByteStream):
    def __init__(self, stream: AsyncIterable[bytes], pool: httpcore2.AsyncConnectionPool) -> None:
        self._stream = stream
        self._pool = pool

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _engine_errors():
            async for part in self._stream:
                yield part

    async def aclose(self) -> None:
        aclose = getattr(self._stream, "aclose", None)
        if aclose is not None:
            await aclose()
        await self._pool.aclose()


class _Backend(httpcore2.NetworkBackend):
    """Opens connections whose streams count for one call."""

    def __init__(self, passage: Passage) -> None:
        self._passage = passage
        self._inner = httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ARG002 - the engine's interface; the whole call has one limit
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        stream = self._inner.connect_tcp(
            host,
            port,
            timeout=_left(self._passage, httpcore2.ConnectTimeout),
            local_address=local_address,
            socket_options=socket_options,
        )
        return _Stream(stream, self._passage, encrypted=False)


class _Stream(httpcore2.NetworkStream):
    def __init__(self, inner: httpcore2.NetworkStream, passage: Passage, *, encrypted: bool) -> None:
        self._inner = inner
        self._passage = passage
        self._encrypted = encrypted

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002 - as above
        return self._inner.read(max_bytes, timeout=_left(self._passage, httpcore2.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002 - as above
        """Write all of it, counting what the system took; of an encrypted piece that failed, all counts as sent."""
        sock = self._inner.get_extra_info("socket")
        view = memoryview(buffer)
        while view:
            piece = view[:_PIECE]
            left = _left(self._passage, httpcore2.WriteTimeout)
            if self._encrypted:
                self._passage.written += len(piece)
            sock.settimeout(left)
            try:
                taken = sock.send(piece)
            except TimeoutError as error:
                raise httpcore2.WriteTimeout(error) from error
            except OSError as error:
                raise httpcore2.WriteError(error) from error
            if not self._encrypted:
                self._passage.written += taken
            view = view[taken:]

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ARG002 - as above
    ) -> httpcore2.NetworkStream:
        inner = self._inner.start_tls(
            ssl_context, server_hostname, timeout=_left(self._passage, httpcore2.ConnectTimeout)
        )
        return _Stream(inner, self._passage, encrypted=True)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _AsyncBackend(httpcore2.AsyncNetworkBackend):
    """Opens connections whose streams count for one call."""

    def __init__(self, passage: Passage) -> None:
        self._passage = passage
        self._inner = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ARG002 - the engine's interface; the whole call has one limit
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        stream = await self._inner.connect_tcp(
            host,
            port,
            timeout=_left(self._passage, httpcore2.ConnectTimeout),
            local_address=local_address,
            socket_options=socket_options,
        )
        return _AsyncStream(stream, self._passage)


class _AsyncStream(httpcore2.AsyncNetworkStream):
    def __init__(self, inner: httpcore2.AsyncNetworkStream, passage: Passage) -> None:
        self._inner = inner
        self._passage = passage

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002 - as above
        return await self._inner.read(max_bytes, timeout=_left(self._passage, httpcore2.ReadTimeout))

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002 - as above
        """Write all of it. The event loop buffers, so a piece counts as sent from the moment it is handed over."""
        view = memoryview(buffer)
        while view:
            piece = view[:_PIECE]
            left = _left(self._passage, httpcore2.WriteTimeout)
            self._passage.written += len(piece)
            await self._inner.write(bytes(piece), timeout=left)
            view = view[len(piece) :]

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ARG002 - as above
    ) -> httpcore2.AsyncNetworkStream:
        inner = await self._inner.start_tls(
            ssl_context, server_hostname, timeout=_left(self._passage, httpcore2.ConnectTimeout)
        )
        return _AsyncStream(inner, self._passage)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def _left(passage: Passage, too_long: type[httpcore2.TimeoutException]) -> float:
    """Seconds that this step may take, so that a trickling owner cannot outlast the permit."""
    seconds = passage.remaining()
    if seconds <= 0:
        raise too_long("The time that the permit allows for the whole call has passed.")
    return seconds
