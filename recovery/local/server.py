"""How is one PostgreSQL server process started, and when is it ready?"""

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recovery.local import children
from recovery.local.address import Address
from recovery.local.errors import LocalError
from recovery.local.places import Place
from recovery.local.roles import Role

HOST = "127.0.0.1"
_PATIENCE_S = 120.0
"""How long a server may replay its log after a crash before we stop waiting."""


@dataclass(frozen=True, slots=True)
class Server:
    """The programs, and how they are called for one home folder."""

    where: Place
    home: Path
    programs: Path
    lock: int
    settings: Mapping[str, str]

    @property
    def log(self) -> Path:
        return self.home / "postgres.log"

    def initdb(self, data: Path, *, password: str) -> None:
        secret = self.home / "first-password"
        secret.unlink(missing_ok=True)
        with open(os.open(secret, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(password)
        self.where.give(secret)
        command = [str(self.programs / "initdb"), f"--pgdata={data}", f"--pwfile={secret}", "--username=postgres"]
        command += ["--auth=scram-sha-256", "--encoding=UTF8"]
        # Sorting and case that are the same on every machine, whatever locales it has.
        command += ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        try:
            with self._open_log() as output:
                begin = output.tell()
                code = self._start(command, output=output).wait()
        finally:
            secret.unlink()
        if code != 0:
            raise _failed(f"initdb ended with code {code}", log=self.log, begin=begin)

    def start(self, *, data: Path, port: int, password: str) -> tuple[subprocess.Popen[bytes], int]:
        """Start on `port`, or on a free one when it is taken; return when it takes our password."""
        for _ in range(5):
            if not _is_free(port):
                port = free_port()
            with self._open_log() as output:
                begin = output.tell()
                settings = {**self.settings, "port": str(port)}
                command = [str(self.programs / "postgres"), "-D", str(data)]
                command += [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
                process = self._start(command, output=output)
            if self._wait(process, port=port, password=password):
                return process, port
            if "Address already in use" not in _since(self.log, begin):
                break
            port = free_port()  # taken in the moment between our look and its start
        raise _failed("PostgreSQL ended while starting", log=self.log, begin=begin)

    def _start(self, command: list[str], *, output: Any) -> subprocess.Popen[bytes]:
        return children.start(
            command=command,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "PGTZ": "UTC"},
            cwd=self.home,
            output=output,
            account=self.where.account,
            death_signal=signal.SIGINT,
            keep_open=[self.lock],
        )

    def _wait(self, process: subprocess.Popen[bytes], *, port: int, password: str) -> bool:
        probe = Address(host=HOST, port=port, database="postgres", state="", passwords={Role.SUPERUSER: password})
        until = time.monotonic() + _PATIENCE_S
        try:
            while process.poll() is None:
                if answers(probe):
                    return True
                if time.monotonic() > until:
                    raise _failed(f"PostgreSQL was not ready after {_PATIENCE_S:.0f} seconds", log=self.log, begin=0)
                time.sleep(0.02)
        except BaseException:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                process.wait()
            raise
        return False

    def _open_log(self) -> Any:
        if self.log.exists() and self.log.stat().st_size > 5_000_000:
            self.log.replace(self.log.with_suffix(".log.1"))
        return open(os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600), "ab")


def answers(at: Address) -> bool:
    """Is our server there? Only scram is accepted: it proves that the server knows our password, too."""
    import psycopg

    try:
        with psycopg.connect(
            at.url(Role.SUPERUSER, "postgres"), connect_timeout=3, require_auth="scram-sha-256"
        ) as connection:
            connection.execute("SELECT 1")
    except psycopg.OperationalError:
        return False
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
    return port


def _failed(what: str, *, log: Path, begin: int) -> LocalError:
    lines = _since(log, begin).strip().splitlines()
    told = next((line for line in lines if "FATAL" in line or "PANIC" in line or "error:" in line), "")
    told = re.sub(r"^.*?(FATAL|PANIC|error): +", "", told) or (lines[-1] if lines else "nothing")
    return LocalError(
        happened=f"{what}. It said: {told.rstrip('.')}.",
        safe="The data was not changed.",
        do=f"The whole message is in {log}.",
    )


def _since(log: Path, begin: int) -> str:
    with log.open("rb") as file:
        file.seek(begin)
        return file.read().decode(errors="replace")
