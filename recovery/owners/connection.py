"""A connection to a checked address, which knows how far the bytes got and when its time is up."""

import socket
import ssl
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import httpcore2
from typing_extensions import override

from ledger.rules.vocabulary import Phase
from recovery.owners.addresses import checked_addresses
from recovery.owners.base import Reach


@dataclass(slots=True, kw_only=True)
class Progress:
    """How far one exchange has come. Changed as it goes."""

    ends: float
    """When its time is up, by the monotonic clock."""
    connect_seconds: float
    phase: Phase = Phase.BEFORE_DISPATCH
    bytes_sent: int = 0
    """Bytes of the request that the system took from us: they may have left, whether or not they arrived."""
    status: int | None = None
    """Of the answer, once its head has arrived."""

    def left(self, at_most: float | None = None) -> float:
        """Seconds that the next step may take; 0 when the time is up."""
        left = max(self.ends - time.monotonic(), 0.0)
        return left if at_most is None else min(left, at_most)

    def follow(self, name: str, info: dict[str, Any]) -> None:
        """Told by the HTTP library of each step that it takes."""
        if name == "http11.send_request_headers.started":
            self.phase = Phase.SEND
        elif name == "http11.send_request_body.complete":
            self.phase = Phase.AWAIT
        elif name == "http11.receive_response_headers.complete":
            self.phase = Phase.AFTER_RESPONSE
            self.status = info["return_value"][1]


class CheckedBackend(httpcore2.NetworkBackend):
    """Opens connections for one exchange: resolves the name itself and connects to what it checked."""

    def __init__(self, *, reach: Reach, progress: Progress) -> None:
        self._reach = reach
        self._progress = progress

    @override
    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        """A stream to the first address that takes the connection.

        Raises:
            AddressRefused, NotResolved: nothing was connected to.
            httpcore2.ConnectError, httpcore2.ConnectTimeout: no address took it.
        """
        progress = self._progress
        progress.phase = Phase.RESOLVE
        found = checked_addresses(
            host=host, port=port, reach=self._reach, seconds=progress.left(progress.connect_seconds)
        )
        progress.phase = Phase.CONNECT
        failed: OSError = TimeoutError("The time was up before it began.")
        for tried, address in enumerate(found):
            # Each address gets its share, so that one that never answers does not use up the others' time.
            seconds = progress.left(progress.connect_seconds) / (len(found) - tried)
            if seconds <= 0:
                break
            try:
                connection = socket.create_connection((str(address), port), timeout=seconds)
            except OSError as error:
                failed = error
                continue
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return _Stream(connection, progress)
        if isinstance(failed, TimeoutError):
            raise httpcore2.ConnectTimeout from failed
        raise httpcore2.ConnectError from failed

    @override
    def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        """Never: owners are asked over the network."""
        raise httpcore2.UnsupportedProtocol("Owners are asked over the network only.")


class _Stream(httpcore2.NetworkStream):
    """Bytes to and from one address, until the exchange's time is up."""

    def __init__(self, connection: socket.socket, progress: Progress) -> None:
        self._socket = connection
        self._progress = progress

    @override
    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        try:
            self._limit()
            return self._socket.recv(max_bytes)
        except TimeoutError as error:
            raise httpcore2.ReadTimeout from error
        except OSError as error:
            raise httpcore2.ReadError from error

    @override
    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        rest = memoryview(buffer)
        if self._progress.phase in (Phase.CONNECT, Phase.TLS):
            self._progress.phase = Phase.SEND
        try:
            while rest:
                self._limit()
                sent = self._socket.send(rest)
                self._progress.bytes_sent += sent
                rest = rest[sent:]
        except TimeoutError as error:
            raise httpcore2.WriteTimeout from error
        except OSError as error:
            raise httpcore2.WriteError from error

    def close(self) -> None:
        self._socket.close()

    @override
    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        self._progress.phase = Phase.TLS
        try:
            self._limit()
            return _Stream(ssl_context.wrap_socket(self._socket, server_hostname=server_hostname), self._progress)
        except TimeoutError as error:
            self.close()
            raise httpcore2.ConnectTimeout from error
        except (OSError, ValueError) as error:
            self.close()
            raise httpcore2.ConnectError from error

    def get_extra_info(self, info: str) -> Any:
        if info == "ssl_object" and isinstance(self._socket, ssl.SSLSocket):
            return self._socket
        return None

    def _limit(self) -> None:
        left = self._progress.left()
        if left <= 0:
            raise TimeoutError("The exchange's time is up.")
        self._socket.settimeout(left)
