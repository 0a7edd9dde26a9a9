"""A proxy on loopback for protocols that are no HTTP: it forwards bytes, and loses answers on purpose.

`lose_answer_to(b"COMMIT")`: the next piece of a client that holds these bytes is passed on, the answer is waited for,
and the client's connection is reset without it. `hold()`: what the owner says stays here. `go_silent_after(b"…")`:
likewise, once a piece of a client holds these bytes. `cut_before(b"…")`: the connection is reset, and the piece that
holds these bytes stays here. `answer_instead(b"…", b"421 …")`: likewise, and the client reads this in the owner's place.
"""

import socket
import struct
import threading
from contextlib import suppress
from typing import Self


class WireProxy:
    """Start with `with`."""

    def __init__(self, *, upstream_port: int) -> None:
        self._upstream = ("127.0.0.1", upstream_port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._marker: bytes | None = None
        self._last_word: bytes | None = None
        self._kept_back: tuple[bytes, bytes] | None = None
        self.lost = 0
        """Answers that were lost so far."""
        self._passing = threading.Event()
        self._passing.set()
        self._open: list[socket.socket] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._passing.set()
        for one in (self._listener, *self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def lose_answer_to(self, marker: bytes) -> None:
        """Once."""
        self._marker = marker

    def hold(self) -> None:
        """The owner goes silent."""
        self._passing.clear()

    def go_silent_after(self, marker: bytes) -> None:
        """It goes silent when it is asked this."""
        self._last_word = marker

    def cut_before(self, marker: bytes) -> None:
        """Once. The owner never reads it."""
        self._kept_back = marker, b""

    def answer_instead(self, marker: bytes, answer: bytes) -> None:
        """Once. The owner never reads it."""
        self._kept_back = marker, answer

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                owner = socket.create_connection(self._upstream)
            except OSError:
                client.close()  # the owner is down for now
                continue
            self._open += [client, owner]
            threading.Thread(target=self._forward, args=(client, owner), daemon=True).start()
            threading.Thread(target=self._hand_back, args=(client, owner), daemon=True).start()

    def _forward(self, client: socket.socket, owner: socket.socket) -> None:
        with suppress(OSError):
            while piece := client.recv(65_536):
                if self._kept_back is not None and self._kept_back[0] in piece:
                    answer, self._kept_back = self._kept_back[1], None
                    client.sendall(answer)
                    if not answer:
                        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    _end(owner)
                    client.close()
                    return
                if self._last_word is not None and self._last_word in piece:
                    self._passing.clear()
                if self._marker is not None and self._marker in piece:
                    self._marker = None
                    self._passing.clear()
                    owner.sendall(piece)
                    # The answer is there: the owner has done it. Nobody reads it.
                    owner.recv(1, socket.MSG_PEEK)
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.lost += 1
                    client.close()
                    owner.close()
                    self._passing.set()
                    return
                owner.sendall(piece)
        _end(owner)

    def _hand_back(self, client: socket.socket, owner: socket.socket) -> None:
        with suppress(OSError):
            while owner.recv(1, socket.MSG_PEEK):
                self._passing.wait()
                client.sendall(owner.recv(65_536))
        _end(client)


def _end(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
