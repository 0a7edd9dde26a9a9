"""A PostgreSQL server of its own as an owner, which may die and come back: what was committed is there again."""

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from recovery.local.binaries import programs
from recovery.local.locks import release, try_lock
from recovery.local.places import place
from recovery.local.server import Server, free_port

CREDENTIAL = "BOOKS_CREDENTIAL"
PASSWORD = "tests-only"
CONTRACT = f"""\
contract: books.enter
effect: write
owner: helpdesk
preset: postgres-xact
with: {{credential: env:{CREDENTIAL}}}
lookup:
  - {{by: postgres_xact, xact: "{{receipt.xact}}", authoritative: true, sees: all, as: env:{CREDENTIAL}}}
  # For the case that the transaction's id was lost too.
  - by: sql
    sql:
      statement: "SELECT id, title FROM entry WHERE key = %(key)s"
      parameters: {{key: "{{operation_id}}"}}
    same: {{title: body.title}}
    authoritative: true
    sees: all
    lag: 0s
    as: env:{CREDENTIAL}
"""
WRITE = "INSERT INTO entry (key, title) VALUES (%(key)s, %(title)s)"


class Postgres:
    """A server with one table, `entry`, that takes the same key twice."""

    def __init__(self, *, server: Server, data: Path) -> None:
        self._server, self._data = server, data
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()

    def start(self) -> None:
        """On the same port as before."""
        self._process, self.port = self._server.start(data=self._data, port=self.port, password=PASSWORD)

    def kill(self) -> None:
        """As in a crash."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(30)
            self._process = None

    def url(self, *, port: int | None = None, role: str = "writer") -> str:
        """Where `writer` writes and `reader` reads; at the server itself or at a proxy's port."""
        return f"postgresql://{role}:{PASSWORD}@127.0.0.1:{port or self.port}/postgres"

    def entries(self, key: str) -> int:
        """How many there are, asked past any proxy."""
        row = self.admin("SELECT count(*) FROM entry WHERE key = %s", [key])
        return int(row[0])

    def admin(self, statement: str, parameters: list[Any] | None = None) -> Any:
        """The first row, or None."""
        with psycopg.connect(self.url(role="postgres"), autocommit=True) as connection:
            cursor = connection.execute(statement, parameters)
            return cursor.fetchone() if cursor.description else None


@contextmanager
def running(root: Path) -> Iterator[Postgres]:
    """A fresh server, removed at the end."""
    where = place(root)
    home = Path(tempfile.mkdtemp(prefix="o", dir=where.make("temporary")))
    where.give(home)
    lock = try_lock(home / "lock")
    assert lock is not None, "a folder just made has no other holder"
    settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off"}
    server = Server(where=where, home=home, programs=programs(where), lock=lock, settings=settings)
    owner = Postgres(server=server, data=home / "data")
    try:
        server.initdb(home / "data", password=PASSWORD)
        owner.start()
        owner.admin("CREATE TABLE entry (id bigserial PRIMARY KEY, key text NOT NULL, title text NOT NULL)")
        for role, may in (("writer", "INSERT"), ("reader", "SELECT")):
            owner.admin(f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'")
            owner.admin(f"GRANT {may} ON entry TO {role}")
        owner.admin("GRANT USAGE ON SEQUENCE entry_id_seq TO writer")
        yield owner
    finally:
        owner.kill()
        release(lock)
        shutil.rmtree(home, ignore_errors=True)
