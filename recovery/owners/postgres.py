"""How is one question put to an owner's PostgreSQL without being able to change anything there?

| danger                                              | what stands against it                                          |
| --------------------------------------------------- | --------------------------------------------------------------- |
| the statement writes                                | it stands inside `SELECT … FROM (…)`, in a READ ONLY transaction that is rolled back |
| the statement is several                            | parameters are bound by the server, which then takes one alone  |
| it runs for long, or waits for a lock               | `statement_timeout`, `lock_timeout`, for this transaction only  |
| the network goes silent                             | the connection is cut from here when the time is up             |
| the answer is huge                                  | the server cuts each row; reading stops after so many bytes     |
| the address leads elsewhere                         | only hosts of the owner's record; what was checked is connected to |
| somebody listens on the way                         | TLS with the server's name verified, but for hosts named as private |

Nothing is set for the session: a pool such as PgBouncer may hand it to others after us.
"""

import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

import psycopg
from psycopg import conninfo
from psycopg.rows import TupleRow

from recovery.owners.addresses import AddressRefused, NotResolved, check_host, checked_addresses, is_private_host
from recovery.owners.base import Reach

_ALLOWED: Final = frozenset(
    {"host", "port", "dbname", "user", "password", "sslmode", "sslrootcert", "channel_binding", "require_auth"}
)
"""What an address may say. Everything else either names files of the worker or sets what is set here."""
_REFUSED_WORDS: Final = (
    "authentication failed",
    "no pg_hba.conf entry",
    "permission denied for database",
    "is not permitted to log in",
)
"""libpq hands over no SQLSTATE when connecting fails; an unrecognised sentence only costs a later alert."""
_NOT_ALLOWED: Final = frozenset({"42501", "28000", "28P01"})
_TOO_SLOW: Final = frozenset({"57014", "55P03"})


class CannotAsk(Exception):
    """The database was not asked, or gave no answer. `reason` is a sentence without values or secrets."""

    def __init__(
        self, reason: str, *, overloaded: bool = False, refused_credential: bool = False, state: str | None = None
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.overloaded = overloaded
        self.refused_credential = refused_credential
        self.state = state
        """The database's SQLSTATE, where it gave one."""


@contextmanager
def reading(*, address: str, reach: Reach, seconds: float) -> Iterator[psycopg.Cursor[TupleRow]]:
    """A cursor in a read-only transaction at `address` (a libpq connection string or URL), for at most `seconds`.

    Raises:
        CannotAsk: whatever goes wrong, inside the `with` too.
    """
    if seconds <= 0:
        raise CannotAsk("The time was up before the database was asked")
    ends = time.monotonic() + seconds
    connection = _connected(address, reach, ends)
    left = ends - time.monotonic()
    timer = threading.Timer(max(0.0, left), _cut, [connection])
    timer.daemon = True
    timer.start()
    try:
        connection.read_only = True
        with connection.cursor() as cursor:
            # Before ours, so that the database says itself what it gave up.
            milliseconds = max(1, int(left * 900))
            cursor.execute(
                "SELECT set_config('statement_timeout', %s, true), set_config('lock_timeout', %s, true)",
                [str(milliseconds), str(max(1, milliseconds // 2))],
            )
            yield cursor
    except psycopg.Error as error:
        raise _not_answered(error, late=time.monotonic() >= ends) from None
    finally:
        timer.cancel()
        # Closing rolls back, and waits for nothing.
        connection.close()


def _connected(address: str, reach: Reach, ends: float) -> psycopg.Connection[TupleRow]:
    said = _parameters(address, reach)
    problem = CannotAsk("The database took too long", overloaded=True)
    for place in _places(said, reach, ends):
        left = ends - time.monotonic()
        if left <= 0:
            break
        try:
            return psycopg.connect(
                **said,
                hostaddr=place,
                connect_timeout=max(2, round(left)),
                application_name="ascertain",
                prepare_threshold=None,
            )
        except psycopg.Error as error:
            problem = _not_connected(error)
            if problem.refused_credential:
                break
    raise problem


def _parameters(address: str, reach: Reach) -> dict[str, Any]:
    try:
        said = {name: str(value) for name, value in conninfo.conninfo_to_dict(address).items() if value is not None}
    except psycopg.Error:
        raise CannotAsk("The credential is not the address of a PostgreSQL database") from None
    others = sorted(set(said) - _ALLOWED)
    if others:
        raise CannotAsk(f"The database's address may not state {', '.join(others)[:100]}")
    host, port = said.get("host", ""), said.setdefault("port", "5432")
    if not host or host.startswith(("/", "@")) or "," in host or not port.isdigit():
        raise CannotAsk("The database's address must name one host, and at most one port")
    private = is_private_host(host=host, port=int(port), reach=reach)
    mode = said.setdefault("sslmode", "prefer" if private else "verify-full")
    if not private:
        if mode != "verify-full":
            raise CannotAsk(
                "The database's host is not listed as private, so its certificate must be verified: "
                "write sslmode=verify-full"
            )
        said.setdefault("sslrootcert", "system")
    return said


def _places(said: Mapping[str, Any], reach: Reach, ends: float) -> list[str]:
    """The addresses that may be connected to; libpq resolves nothing itself."""
    host, port = said["host"], int(said["port"])
    try:
        check_host(host=host, port=port, scheme="postgresql", reach=reach)
        found = checked_addresses(host=host, port=port, reach=reach, seconds=ends - time.monotonic())
    except AddressRefused as error:
        raise CannotAsk(str(error)) from None
    except NotResolved as error:
        raise CannotAsk(str(error), overloaded=True) from None
    return [str(each) for each in found]


def _cut(connection: psycopg.Connection[Any]) -> None:
    """End a connection that somebody else waits for."""
    with suppress(psycopg.Error, OSError), socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)


def _not_connected(error: psycopg.Error) -> CannotAsk:
    if isinstance(error, psycopg.errors.ConnectionTimeout):
        return CannotAsk("The database took too long", overloaded=True)
    text = str(error)
    if error.sqlstate in _NOT_ALLOWED or any(words in text for words in _REFUSED_WORDS):
        return CannotAsk("The database does not accept the credential", refused_credential=True)
    if "certificate" in text:
        return CannotAsk("The database's certificate could not be verified")
    return CannotAsk("The database cannot be reached", overloaded=True)


def _not_answered(error: psycopg.Error, *, late: bool) -> CannotAsk:
    state = error.sqlstate
    if late or state in _TOO_SLOW:
        return CannotAsk("The database took too long", overloaded=True)
    if state in _NOT_ALLOWED:
        return CannotAsk("The credential may not read this at the database", refused_credential=True)
    if state == "25006":
        return CannotAsk("The statement would have changed something; nothing was changed")
    if state is None:
        lost = isinstance(error, psycopg.OperationalError)
        reason = "The connection to the database was lost" if lost else "The statement or its values cannot be sent"
        return CannotAsk(reason, overloaded=lost)
    if state[:2] in ("08", "53", "57", "58"):
        return CannotAsk("The database is overloaded, or about to stop", overloaded=True)
    if state[:2] == "22":
        return CannotAsk(f"The database does not accept a value of the question ({state})", state=state)
    return CannotAsk(f"The database does not accept the statement ({state})", state=state)
