"""Run all of Ascertain on this machine, from nothing: `make up`."""

import contextlib
import ctypes
import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from recovery.local import broker, postgres
from recovery.local.errors import LocalError
from recovery.local.places import place
from recovery.local.running import check_free, kept_port, listens, only_one, wanted_port
from recovery.local.supervisor import Program, supervise
from recovery.sealing import new_key

HOST = "127.0.0.1"


class Command(BaseCommand):
    help = "Run all of Ascertain here: PostgreSQL, web, worker, beat, and a demo that makes traffic. Ctrl-C stops it."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002 (Django's signature)
        """Start in order (database, queue, migrations, demo, programs); stop in reverse. Exit 1 with a sentence."""
        _end_with_make()
        try:
            self._run(root=Path(settings.BASE_DIR))
        except LocalError as error:
            self.stderr.write(f"\n{error}")
            sys.exit(1)
        except KeyboardInterrupt:
            self._say("Stopped before it was up.")
            sys.exit(130)

    def _run(self, *, root: Path) -> None:
        port = wanted_port(os.environ)
        local = root / ".local"
        place(root)  # says clearly when `.local` cannot be written
        address = f"http://{HOST}:{port}"
        with only_one(lock=local / "up.lock", address=address, say=self._say):
            check_free(host=HOST, port=port)
            (local / "static").mkdir(exist_ok=True)
            _keep(local / "secret_key", variable="ASCERTAIN_SECRET_KEY", make=lambda: secrets.token_urlsafe(50))
            _keep(local / "field_key", variable="ASCERTAIN_FIELD_KEYS", make=new_key)
            with self._database(root) as (cluster, env):
                owner_port = kept_port(file=local / "demo_owner_port", host=HOST)
                env.setdefault("ASCERTAIN_ADDRESS", address)
                env.setdefault("EMAIL_URL", "console:")
                env["ASCERTAIN_DEMO_OWNER_URL"] = f"http://{HOST}:{owner_port}"
                self._say("Bringing the database's tables up to date …")
                _step([sys.executable, "manage.py", "migrate", "--database", "owner", "--verbosity", "0"], env, root)
                env.pop("ASCERTAIN_OWNER_DATABASE_URL", None)  # no running program may own the tables
                demo = local / "demo.json"
                _step([sys.executable, "-m", "recovery.local.demo_file", address, str(demo)], env, root)

                told_ready = False

                def watch() -> str | None:
                    nonlocal told_ready
                    if not told_ready and listens(host=HOST, port=port):
                        told_ready = True
                        self._tell_sign_ins(demo)
                    if cluster is not None and not cluster.alive():
                        return f"PostgreSQL ended; {cluster.log} says why"
                    return None

                programs = _programs(env=env, port=port, owner_port=owner_port, local=local)
                reason = supervise(programs=programs, cwd=root, write=self._say, watch=watch)
            self._say("Stopped.")
        if cluster is not None and "PostgreSQL" in reason:
            raise LocalError(happened=f"{reason}.", safe="Committed data is safe.", do="Start again with `make up`.")

    @contextlib.contextmanager
    def _database(self, root: Path) -> Iterator[tuple[postgres.Cluster | None, dict[str, str]]]:
        """The embedded server, or the one in DATABASE_URL; and the environment that leads the programs there."""
        env = {**os.environ, "PYTHONUNBUFFERED": "1"}
        if own := env.get("DATABASE_URL"):
            queue = env.setdefault("CELERY_BROKER_URL", broker.celery_url(url=own))
            if broker.is_pgmq(url=queue):
                broker.install(url=broker.postgres_url(url=queue))
            yield None, env
            return
        cluster = postgres.ensure(root, say=self._say)
        try:
            broker.install_as_superuser(url=cluster.url("postgres", cluster.address.database))
            env["DATABASE_URL"] = cluster.url("ascertain_app")
            env["ASCERTAIN_OWNER_DATABASE_URL"] = cluster.url("ascertain_owner")
            env.setdefault("CELERY_BROKER_URL", broker.celery_url(url=cluster.url("ascertain_broker")))
            yield cluster, env
        finally:
            cluster.stop()

    def _tell_sign_ins(self, demo: Path) -> None:
        told = json.loads(demo.read_text())
        lines = ["", f"Ascertain runs at {told['url']}", "", "Sign in as"]
        lines += [f"  {person['name']:<8} {person['password']:<24} {person['role']}" for person in told["people"]]
        lines += ["", f"API tokens and the same sign-ins: {demo}", "Ctrl-C stops all of it.", ""]
        self._say("\n".join(lines))

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()


def _programs(*, env: dict[str, str], port: int, owner_port: int, local: Path) -> list[Program]:
    python = sys.executable
    web = [python, "-m", "granian", "--interface", "wsgi", "--workers", "2", "--no-ws", "--blocking-threads", "128"]
    web += ["--host", HOST, "--port", str(port), "--log-level", "error", "recovery.wsgi:application"]
    celery = [python, "-m", "celery", "--quiet", "-A", "recovery"]
    worker = [*celery, "worker", "--concurrency", "2", "--without-gossip", "--without-mingle", "--without-heartbeat"]
    worker += ["--hostname", "worker@localhost", "--loglevel", "WARNING"]  # a long node name would stop it at start
    beat = [*celery, "beat", "--schedule", str(local / "beat-schedule"), "--loglevel", "WARNING"]
    if os.geteuid() == 0:
        # Celery warns about root; the checkout may lie where only root may enter, so nobody else could run it.
        env = {**env, "PYTHONWARNINGS": "ignore:You're running the worker with superuser"}
    commands = {
        "web": web,
        "worker": worker,
        "beat": beat,
        "owner": [python, "-m", "recovery.demo.owner", "--port", str(owner_port)],
        "harness": [python, "-m", "recovery.demo.harness"],
    }
    return [Program(name=name, command=command, env=env) for name, command in commands.items()]


def _step(command: list[str], env: dict[str, str], root: Path) -> None:
    """Run one program to its end; its words reach the terminal."""
    code = subprocess.run(command, env=env, cwd=root, check=False).returncode
    if code != 0:
        raise LocalError(
            happened=f"`{' '.join(command[1:])}` ended with code {code}; what it said stands above.",
            safe="The database is stopped again; what was committed is kept.",
            do="Read the message; start again with `make up` when its cause is gone.",
        )


def _keep(file: Path, *, variable: str, make: Callable[[], str]) -> None:
    """Make a key once, readable by us alone, so that sign-ins and sealed values outlive a restart."""
    if not os.environ.get(variable) and not file.exists():
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as kept:
            kept.write(make())


def _end_with_make() -> None:
    """Called by make: end when make is killed, in the ordered way (TERM)."""
    if "MAKELEVEL" in os.environ and sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, int(signal.SIGTERM), 0, 0, 0)
