"""A standby of the test process's PostgreSQL: it replays what the primary does, until it is told to pause."""

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from recovery.local.binaries import programs
from recovery.local.children import start
from recovery.local.locks import release, try_lock
from recovery.local.places import place
from recovery.local.server import Server, free_port


@contextmanager
def standby_of(*, root: Path, superuser_url: str) -> Iterator[int]:
    """A running standby; yields its port. It takes the primary's roles and passwords."""
    where = place(root)
    home = Path(tempfile.mkdtemp(prefix="s", dir=where.make("temporary")))
    where.give(home)
    lock = try_lock(home / "lock")
    assert lock is not None, "a folder just made has no other holder"
    found = programs(where)
    process: subprocess.Popen[bytes] | None = None
    parts = urlsplit(superuser_url)
    try:
        with (home / "backup.log").open("wb") as output:
            backup = start(
                command=[
                    str(found / "pg_basebackup"),
                    *("--pgdata", str(home / "data"), "--write-recovery-conf", "--wal-method=stream"),
                    *("--checkpoint=fast", "--no-sync", "--dbname", parts._replace(path="/postgres").geturl()),
                ],
                env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
                cwd=home,
                output=output,
                account=where.account,
                death_signal=signal.SIGINT,
                keep_open=[],
            )
            assert backup.wait(60) == 0, (home / "backup.log").read_text()
        settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "max_connections": "200"}
        server = Server(where=where, home=home, programs=found, lock=lock, settings=settings)
        process, port = server.start(data=home / "data", port=free_port(), password=parts.password or "")
        yield port
    finally:
        if process is not None:
            process.send_signal(signal.SIGQUIT)
            process.wait(30)
        release(lock)
        shutil.rmtree(home, ignore_errors=True)
