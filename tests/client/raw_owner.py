"""An owner made of a bare socket, that behaves as badly as a test asks."""

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress


class RawOwner:
    """Serves each connection with `behave(connection, owner)` in a thread of its own."""

    def __init__(
        self, behave: Callable[[socket.socket, "RawOwner"], None], *, receive_buffer: int | None = None
    ) -> None:
        self._behave = behave
        self.heads: list[bytes] = []
        """The head of each request that arrived whole."""
        self.received = 0
        """Bytes of requests that arrived."""
        self.connections = 0
        self.released = threading.Event()
        """Set when the test ends, so that hanging behaviours end too."""
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if receive_buffer is not None:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen()
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    def __enter__(self) -> "RawOwner":
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(5)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            self._behave(connection, self)

    def read_request(self, connection: socket.socket) -> bytes:
        """One whole request: its body."""
        data = b""
        while b"\r\n\r\n" not in data:
            part = connection.recv(65536)
            if not part:
                return b""
            data += part
        head, _, body = data.partition(b"\r\n\r\n")
        length = 0
        for line in head.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        while len(body) < length:
            part = connection.recv(65536)
            if not part:
                return b""
            body += part
        self.heads.append(head)
        self.received += len(head) + 4 + len(body)
        return body


def rst(connection: socket.socket) -> None:
    """Close at once with RST."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def created(connection: socket.socket, owner: RawOwner) -> None:
    owner.read_request(connection)
    body = b'{"id": "t-1", "big": 9007199254740993}'
    connection.sendall(
        b"HTTP/1.1 201 Created\r\ncontent-type: application/json\r\nset-cookie: session=secret\r\n"
        b"content-length: %d\r\n\r\n%s" % (len(body), body)
    )


def reset_after_reading(connection: socket.socket, owner: RawOwner) -> None:
    owner.read_request(connection)
    rst(connection)


def end_after_reading(connection: socket.socket, owner: RawOwner) -> None:
    owner.read_request(connection)


def reset_in_the_middle(connection: socket.socket, owner: RawOwner) -> None:
    connection.recv(1000)
    owner.released.wait(0.2)
    rst(connection)


def never_read(connection: socket.socket, owner: RawOwner) -> None:
    owner.released.wait(20)


def never_answer(connection: socket.socket, owner: RawOwner) -> None:
    owner.read_request(connection)
    owner.released.wait(20)


def cut_body(connection: socket.socket, owner: RawOwner) -> None:
    owner.read_request(connection)
    connection.sendall(b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"id": "t-')


def trickle(connection: socket.socket, owner: RawOwner) -> None:
    owner.read_request(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
    for _ in range(1000):
        if owner.released.wait(0.05):
            return
        connection.sendall(b".")


def redirect(connection: socket.socket, owner: RawOwner) -> None:
    owner.read_request(connection)
    connection.sendall(b"HTTP/1.1 307 Temporary Redirect\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n")


def not_tls(connection: socket.socket, owner: RawOwner) -> None:
    connection.recv(1000)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")


def reset_in_handshake(connection: socket.socket, owner: RawOwner) -> None:
    connection.recv(10)
    rst(connection)
