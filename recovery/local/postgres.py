"""Is the embedded PostgreSQL running, and if not, how does it start?

| what is found                                   | what happens                                                   |
| ----------------------------------------------- | -------------------------------------------------------------- |
| a server that takes our password                | it is used; whoever started it stops it                        |
| the lock free, a whole data folder              | started on its port, or on another when that one is taken      |
| the lock free, no data folder                   | made under another name, then renamed: `data` is always whole  |
| an unfinished `data.new`                        | said, thrown away (nobody ever had its address), made anew     |
| a data folder with pieces or passwords missing  | LocalError: nothing is touched (see folder.py)                 |
| root's folder, but no pointer in the checkout   | the old database is set aside, said, and a new one made        |

"Running" is decided by connecting. "Lives" is decided by a kernel lock that the server inherits, never by a number.
"""

import contextlib
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from recovery.local.address import Address, read_address, write_address
from recovery.local.binaries import programs
from recovery.local.broker import celery_url
from recovery.local.errors import LocalError
from recovery.local.folder import check_whole, drop_stale_pid, half_made
from recovery.local.locks import release, try_lock, wait_lock
from recovery.local.places import Place, place
from recovery.local.roles import DATABASE, Role, arrange_database, create_roles
from recovery.local.server import HOST, Server, answers, free_port

_SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",  # no socket path to be too long, none for others to try
    "max_connections": "100",
    "shared_buffers": "64MB",
    "jit": "off",  # our queries are short: compiling them costs more than it saves
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_error_verbosity": "terse",  # no row contents in the log
    "log_min_error_statement": "panic",  # nor statements
    "log_line_prefix": "%m [%p] %u ",
}
_PATIENCE_S = 130.0
"""How long another process may take to start the server, which may replay its log after a crash."""


def pointer(root: Path) -> dict[str, str] | None:
    """The URLs behind `.local/postgres.json` under `root`: `app_url`, `owner_url`, `retention_url`; `broker_url` for
    Celery (see broker.py).

    None when there is no such file, or none that can be read (`ensure` then writes it anew). Connects to nothing: the
    server may have stopped.
    """
    try:
        found = read_address(root.resolve() / ".local" / "postgres.json")
    except LocalError:
        return None
    if found is None:
        return None
    return {
        "app_url": found.url(Role.APP),
        "owner_url": found.url(Role.OWNER),
        "retention_url": found.url(Role.RETENTION),
        "broker_url": celery_url(url=found.url(Role.BROKER)),
    }


@dataclass(slots=True)
class Cluster:
    """A running PostgreSQL server. It stops with `stop()`, or when the process that started it ends."""

    address: Address
    log: Path
    process: subprocess.Popen[bytes] | None
    """The server when we started it, None when it was running already."""

    def url(self, role: str, database: str | None = None) -> str:
        """A PostgreSQL URL for `role`, to the cluster's database or another of the same server."""
        return self.address.url(role, database)

    def alive(self) -> bool:
        """Has the server that we started not ended? (True for one that we only found.)"""
        return self.process is None or self.process.poll() is None

    def stop(self) -> None:
        """Stop the server if we started it: SIGINT (open transactions are rolled back), after 20 s SIGQUIT.

        Raises LocalError when it still runs 10 s later.
        """
        if self.process is None:
            return
        for sign, patience_s in ((signal.SIGINT, 20), (signal.SIGQUIT, 10)):
            if self.process.poll() is None:
                self.process.send_signal(sign)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=patience_s)
                return
        raise LocalError(
            happened=f"PostgreSQL (process {self.process.pid}) did not stop within 30 seconds.",
            safe="Committed data is safe.",
            do=f"Look at {self.log}; the process may wait for a disk.",
        )


def ensure(root: Path, *, say: Callable[[str], None] = lambda _: None) -> Cluster:
    """The checkout's server, running: found, or made and started from the main thread. Effects in order: the state
    folder, the data folder with roles and database, the server process, the pointer file.

    `say` is told in sentences what was out of the ordinary. Raises LocalError.
    """
    where = place(root)
    until = time.monotonic() + _PATIENCE_S
    while (lock := try_lock(where.state / "lock")) is None:
        # Another process starts it, has it, or is stopping it.
        found = read_address(where.state / "cluster.json")
        if found is not None and answers(found):
            _point(where, at=found)
            return Cluster(address=found, log=where.state / "postgres.log", process=None)
        if time.monotonic() > until:
            raise LocalError(
                happened=f"A PostgreSQL that was started from this checkout holds {where.state} but does not answer.",
                safe="Its data was not touched.",
                do=f"Stop the other `make up` (or see {where.state / 'postgres.log'}), then start again.",
            )
        time.sleep(0.1)
    try:
        _set_aside_when_forgotten(where, say=say)
        return _make_and_start(where, where.state, lock=lock, say=say, settings={}, may_create=False)
    finally:
        release(lock)


@contextlib.contextmanager
def temporary_cluster(root: Path, *, settings: Mapping[str, str] = MappingProxyType({})) -> Iterator[Cluster]:
    """A new server of its own for tests, with the same roles (the owner may create databases), removed afterwards.

    Ready in about a second; as many as you like at once, also from several processes. `settings` are added to the
    server's. Remains of a run that was killed are removed by the next. Main thread only.
    """
    where = place(root)
    top = where.make("temporary")
    guard = wait_lock(where.state / "temporary.lock")
    try:
        _remove_abandoned(top)
        folder = Path(tempfile.mkdtemp(prefix="t", dir=top))
        where.give(folder)
        lock = try_lock(folder / "lock")
    finally:
        release(guard)
    assert lock is not None, "a folder just made has no other holder"  # noqa: S101 (a law of this function, not input)
    cluster = None
    try:
        try:
            cluster = _make_and_start(where, folder, lock=lock, say=lambda _: None, settings=settings, may_create=True)
        finally:
            release(lock)
        yield cluster
    finally:
        if cluster is not None:
            cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


def crash(cluster: Cluster) -> None:
    """Stop a server that we started at once, as a power cut would (SIGQUIT, `stop -m immediate`). For tests of crashes."""
    if cluster.process is not None:
        cluster.process.send_signal(signal.SIGQUIT)
        cluster.process.wait(timeout=20)


def start_again(root: Path, *, cluster: Cluster, settings: Mapping[str, str] = MappingProxyType({})) -> None:
    """Start a temporary cluster's server again after it ended, on the same port; it replays its log. Main thread only.

    Raises LocalError, also when another program has the port by now.
    """
    where, home = place(root), Path(cluster.address.state)
    lock = wait_lock(home / "lock")  # the last of its processes may still be ending
    try:
        started = _make_and_start(where, home, lock=lock, say=lambda _: None, settings=settings, may_create=True)
    finally:
        release(lock)
    cluster.process = started.process
    if started.address != cluster.address:
        raise LocalError(
            happened=f"Port {cluster.address.port} of the database was taken while it was down.",
            safe="Its data is whole; it now runs on another port.",
            do="Run it again.",
        )


def _make_and_start(
    where: Place,
    home: Path,
    *,
    lock: int,
    say: Callable[[str], None],
    settings: Mapping[str, str],
    may_create: bool,
) -> Cluster:
    """Make the data in `home` unless it is there, start the server, write the pointer. We hold `home`'s lock."""
    server = Server(where=where, home=home, programs=programs(where), lock=lock, settings={**_SETTINGS, **settings})
    kept = home / "cluster.json"
    check_whole(home)
    if not (home / "data").exists():
        if (home / "data.new").exists():
            shutil.rmtree(home / "data.new")
            say(
                f"An earlier first start was cut off and left an unfinished database in {home}. "
                "It never held anything; it was removed and is made anew."
            )
        _make(server, home=home, may_create=may_create)
    found = read_address(kept)
    if found is None:
        raise half_made(home, missing="the file with its passwords, cluster.json")
    drop_stale_pid(home / "data", say=say)
    process, port = server.start(data=home / "data", port=found.port, password=found.passwords[Role.SUPERUSER])
    try:
        if port != found.port:
            say(f"Port {found.port} of the database was taken by another program; it now uses {port}.")
            found = Address(host=HOST, port=port, database=DATABASE, state=str(home), passwords=found.passwords)
            write_address(kept, found)
        if home == where.state:
            _point(where, at=found)
    except BaseException:
        process.send_signal(signal.SIGINT)
        process.wait()
        raise
    return Cluster(address=found, log=server.log, process=process)


def _make(server: "Server", *, home: Path, may_create: bool) -> None:
    """initdb, roles and database in `data.new`; then the passwords; then the rename that makes it count."""
    import psycopg

    passwords: dict[str, str] = {role: secrets.token_hex(24) for role in Role}
    new = home / "data.new"
    server.initdb(new, password=passwords[Role.SUPERUSER])
    process, port = server.start(data=new, port=free_port(), password=passwords[Role.SUPERUSER])
    made = Address(host=HOST, port=port, database=DATABASE, state=str(home), passwords=passwords)
    try:
        with psycopg.connect(made.url(Role.SUPERUSER, "postgres"), autocommit=True) as connection:
            create_roles(connection, passwords=passwords, may_create=may_create)
        with psycopg.connect(made.url(Role.SUPERUSER), autocommit=True) as connection:
            arrange_database(connection)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()
    write_address(home / "cluster.json", made)
    new.rename(home / "data")


def _point(where: Place, *, at: Address) -> None:
    with contextlib.suppress(LocalError):
        if read_address(where.pointer) == at:
            return
    write_address(where.pointer, at)


def _set_aside_when_forgotten(where: Place, *, say: Callable[[str], None]) -> None:
    """Root's state folder outlives the checkout; a database of an earlier checkout must not meet the new one's code."""
    data = where.state / "data"
    if where.account is None or where.pointer.exists() or not data.exists():
        return
    number = 1
    while (aside := where.state / f"aside-{number}").exists():
        number += 1
    where.make(aside.name)
    for piece in ("cluster.json", "data"):
        with contextlib.suppress(FileNotFoundError):
            (where.state / piece).rename(aside / piece)
    say(
        f"A database of an earlier checkout at {where.root} was found, without its pointer .local/postgres.json. "
        f"It was kept as {aside} and is not used; remove it when you do not need it. A new one is made."
    )


def _remove_abandoned(top: Path) -> None:
    for folder in top.iterdir():
        lock = try_lock(folder / "lock")
        if lock is not None:
            shutil.rmtree(folder, ignore_errors=True)
            release(lock)
