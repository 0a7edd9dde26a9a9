"""Real brokers on free ports of loopback: Redis and RabbitMQ, each with all that it writes in a folder of its own."""

import os
import pwd
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recovery.benchmarks.programs import HOST, Program, free_port, listens, until
from recovery.local import children
from recovery.local.children import Account

_SEARCH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"))


def found(name: str) -> str | None:
    """Where a broker's program is on this machine."""
    return shutil.which(name, path=_SEARCH)


@contextmanager
def redis(folder: Path) -> Iterator[str]:
    """A Redis that keeps nothing: its CELERY_BROKER_URL."""
    port = free_port()
    command = ["redis-server", "--bind", HOST, "--port", str(port), "--save", "", "--appendonly", "no"]
    program = Program(name="redis", command=[*command, "--dir", str(folder)], env=_env(), log=folder / "redis.log")
    program.start()
    try:
        until(lambda: program.ended or listens(port), seconds=20, what=program.said)
        if program.ended:
            raise RuntimeError(program.said())
        yield f"redis://{HOST}:{port}/0"
    finally:
        program.stop()


@contextmanager
def rabbitmq(folder: Path) -> Iterator[str]:
    """A RabbitMQ node with a name and ports of its own: its CELERY_BROKER_URL. Never as root: Debian's start script
    refuses that, and so do we.
    """
    account = _account()
    with _home(account) as home, _node(home, folder, account) as url:
        yield url


@contextmanager
def _node(home: Path, folder: Path, account: Account | None) -> Iterator[str]:
    port, distribution, mapper = free_port(), free_port(), free_port()
    env = {
        **_env(),
        "HOME": str(home),
        "RABBITMQ_NODENAME": f"ascertain-{os.getpid()}@localhost",
        "RABBITMQ_MNESIA_BASE": str(home / "data"),
        "RABBITMQ_LOG_BASE": str(home / "log"),
        "RABBITMQ_LOGS": "-",
        "RABBITMQ_NODE_IP_ADDRESS": HOST,
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "enabled_plugins"),
        "RABBITMQ_PID_FILE": str(home / "pid"),
        "RABBITMQ_DIST_PORT": str(distribution),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} +S 1:1",
        "ERL_CRASH_DUMP": "/dev/null",
        # The port mapper is a child of ours too: one that Erlang starts by itself would outlive us.
        "ERL_EPMD_PORT": str(mapper),
        "ERL_EPMD_ADDRESS": HOST,
    }
    command = _without_wrapper()
    names = ["epmd", "-port", str(mapper), "-address", HOST]
    with (
        _running(names, env, folder / "epmd.log", mapper, account),
        _running([command], env, folder / "rabbitmq.log", port, account),
    ):
        yield f"amqp://guest:guest@{HOST}:{port}//"


@contextmanager
def _running(command: list[str], env: dict[str, str], log: Path, port: int, account: Account | None) -> Iterator[None]:
    program = Program(name=command[0], command=command, env=env, log=log)
    with log.open("ab") as output:
        program.process = children.start(command=command, env=env, cwd=Path("/"), output=output, account=account)
    try:
        until(lambda: program.ended or listens(port), seconds=90, what=program.said)
        if program.ended:
            raise RuntimeError(program.said())
        yield
    finally:
        program.stop()


def _without_wrapper() -> str:
    """The server's own script. Debian's wrapper in /usr/sbin changes the user itself, and loses our environment."""
    own = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
    return str(own) if own.exists() else str(found("rabbitmq-server"))


def _account() -> Account | None:
    """Whom a broker runs as when we are root; None when we are not."""
    if os.geteuid() != 0:
        return None
    for name in ("rabbitmq", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name=name, uid=entry.pw_uid, gid=entry.pw_gid)
    raise RuntimeError("This machine has no ordinary user to run a broker as.")


@contextmanager
def _home(account: Account | None) -> Iterator[Path]:
    """A folder straight below the system's temporary one: pytest keeps its own to their owner, and no parent's rights
    are changed.
    """
    with tempfile.TemporaryDirectory(prefix="ascertain-rabbitmq-") as made:
        home = Path(made)
        (home / "enabled_plugins").write_text("[].\n")
        (home / ".erlang.cookie").write_text(secrets.token_hex(16))
        (home / ".erlang.cookie").chmod(0o400)
        if account is not None:
            for path in (home, *home.iterdir()):
                os.chown(path, account.uid, account.gid)
        yield home


def _env() -> dict[str, str]:
    return {**os.environ, "PATH": _SEARCH}
