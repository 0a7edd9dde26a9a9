"""Does this checkout run already, and is the address free?"""

import contextlib
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from recovery.local.errors import LocalError
from recovery.local.locks import release, try_lock


@contextlib.contextmanager
def only_one(*, lock: Path, address: str, say: Callable[[str], None]) -> Iterator[None]:
    """Hold `lock` for the block. Raises LocalError when another process has it; takes over what a killed one left."""
    descriptor = try_lock(lock)
    if descriptor is None:
        raise LocalError(
            happened=f"This checkout is running already ({lock.read_text().strip() or 'just starting'}).",
            safe="It was not disturbed.",
            do="Use that one, or stop it with Ctrl-C in its terminal (or `kill` with that process number).",
        )
    try:
        if left := os.read(descriptor, 200).decode(errors="replace").strip():
            say(f"The last run ({left}) ended without cleaning up; its lock was taken over.")
        _rewrite(descriptor, f"process {os.getpid()}, {address}\n")
        yield
        _rewrite(descriptor, "")
    finally:
        release(descriptor)


def wanted_port(environ: Mapping[str, str]) -> int:
    """The port that PORT names, else 8000. Raises LocalError when it is no port."""
    told = environ.get("PORT") or "8000"
    if not (told.isascii() and told.isdigit() and 0 < int(told) < 65536):
        raise LocalError(
            happened=f"PORT is {told!r}, which is no port number.",
            safe="Nothing was started.",
            do="Use a number from 1 to 65535, for example: make up PORT=8010",
        )
    return int(told)


def check_free(*, host: str, port: int) -> None:
    """Raise LocalError when `port` cannot be listened on."""
    if not is_free(host=host, port=port):
        raise LocalError(
            happened=f"Port {port} on {host} is taken by another program, or not ours to use.",
            safe="Nothing was started.",
            do=f"Stop that program, or choose another port: make up PORT={port + 10 if port < 65000 else 8010}",
        )


def is_free(*, host: str, port: int) -> bool:
    """Could a server listen there now?"""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def kept_port(*, file: Path, host: str) -> int:
    """The port that `file` names while it is free, else another, which the file then names."""
    with contextlib.suppress(OSError, ValueError):
        port = int(file.read_text())
        if 1024 <= port < 65536 and is_free(host=host, port=port):
            return port
    with socket.socket() as probe:
        probe.bind((host, 0))
        port = int(probe.getsockname()[1])
    file.write_text(f"{port}\n")
    return port


def listens(*, host: str, port: int) -> bool:
    """Does a server take connections there?"""
    try:
        with socket.create_connection((host, port), timeout=0.3):
            return True
    except OSError:
        return False


def _rewrite(descriptor: int, text: str) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, text.encode(), 0)
