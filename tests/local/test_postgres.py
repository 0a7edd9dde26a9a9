"""The embedded server: found again, private, and clear about what stands in its way. Each test runs a real one."""

import contextlib
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest

from recovery.local import children, postgres
from recovery.local.errors import LocalError
from recovery.local.locks import release, try_lock
from recovery.local.places import STATE_VARIABLE, ordinary_account, place
from recovery.local.postgres import ensure, pointer, temporary_cluster
from recovery.local.roles import Role

REPOSITORY = Path(__file__).resolve().parents[2]
ROOT = os.geteuid() == 0


@dataclass
class Checkout:
    root: Path
    said: list[str] = field(default_factory=list)
    clusters: list[postgres.Cluster] = field(default_factory=list)

    @property
    def state(self) -> Path:
        return place(self.root).state

    def start(self) -> postgres.Cluster:
        cluster = ensure(self.root, say=self.said.append)
        self.clusters.append(cluster)
        return cluster


@pytest.fixture
def checkout(monkeypatch: pytest.MonkeyPatch) -> Iterator[Checkout]:
    """A checkout below a folder that only its owner may enter, and root's state in a folder that goes away again."""
    with tempfile.TemporaryDirectory() as private, tempfile.TemporaryDirectory() as reachable:
        Path(reachable).chmod(0o755)
        monkeypatch.setenv(STATE_VARIABLE, f"{reachable}/state")
        root = Path(private) / "clone"
        root.mkdir()
        made = Checkout(root=root)
        yield made
        for cluster in made.clusters:
            cluster.stop()


@pytest.fixture(scope="module")
def shared() -> Iterator[postgres.Cluster]:
    with temporary_cluster(REPOSITORY) as cluster:
        yield cluster


def execute(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def test_the_next_start_finds_the_same_database_at_the_same_address(checkout: Checkout) -> None:
    first = checkout.start()
    execute(first.url(Role.OWNER), "CREATE TABLE kept AS SELECT 41 + 1 AS answer")
    first.stop()
    second = checkout.start()
    assert execute(second.url(Role.OWNER), "SELECT answer FROM kept") == [(42,)]
    assert second.url(Role.APP) == first.url(Role.APP)
    assert checkout.said == []


def test_a_running_server_is_used_and_left_to_whoever_started_it(checkout: Checkout) -> None:
    first, second = checkout.start(), checkout.start()
    second.stop()
    assert first.alive()
    assert execute(second.url(Role.APP), "SELECT 1") == [(1,)]


def test_no_folder_above_changes_its_rights_and_no_password_is_readable(checkout: Checkout) -> None:
    above = [*checkout.root.parents, *Path(os.environ[STATE_VARIABLE]).parents, checkout.root]
    before = [folder.stat().st_mode for folder in above]
    checkout.start()
    assert [folder.stat().st_mode for folder in above] == before
    for secret in (checkout.root / ".local" / "postgres.json", checkout.state / "cluster.json"):
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    for folder in (checkout.state, checkout.root / ".local"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not list(checkout.state.glob("first-password"))


@pytest.mark.skipif(not ROOT, reason="only root starts it as another user")
def test_called_by_root_it_runs_as_an_ordinary_user(checkout: Checkout) -> None:
    cluster = checkout.start()
    assert cluster.process is not None
    assert Path(f"/proc/{cluster.process.pid}").stat().st_uid == ordinary_account().uid != 0


def test_a_taken_port_is_left_and_said(checkout: Checkout) -> None:
    first = checkout.start()
    first.stop()
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", first.address.port))
        other.listen()
        second = checkout.start()
    assert second.address.port != first.address.port
    assert "was taken by another program" in checkout.said[0]
    told = pointer(checkout.root)
    assert told is not None
    assert execute(told["app_url"], "SELECT 1") == [(1,)]


def test_a_first_start_that_was_cut_off_is_made_anew_and_said(checkout: Checkout) -> None:
    half = place(checkout.root).make("data.new")
    (half / "PG_VERSION").write_text("18\n")
    checkout.start()
    assert "unfinished database" in checkout.said[0]
    assert not half.exists()


@pytest.mark.parametrize("piece", ["data/PG_VERSION", "data/global/pg_control", "data/pg_hba.conf", "cluster.json"])
def test_a_half_made_folder_is_a_clear_sentence_and_stays_untouched(checkout: Checkout, piece: str) -> None:
    checkout.start().stop()
    (checkout.state / piece).unlink()
    before = sorted(path.name for path in (checkout.state / "data").rglob("*"))
    with pytest.raises(LocalError) as caught:
        checkout.start()
    assert Path(piece).name in str(caught.value)
    assert "It was not touched" in caught.value.safe
    assert "mv " in caught.value.do
    assert sorted(path.name for path in (checkout.state / "data").rglob("*")) == before


def test_the_number_in_a_stale_pid_file_is_believed_no_more_than_killed(checkout: Checkout) -> None:
    cluster = checkout.start()
    execute(cluster.url(Role.OWNER), "CREATE TABLE kept AS SELECT 1 AS x")
    assert cluster.process is not None
    left = (checkout.state / "data" / "postmaster.pid").read_text()
    cluster.process.send_signal(signal.SIGQUIT)  # stops at once, as a crash would
    cluster.process.wait()
    where = place(checkout.root)
    foreign = children.start(
        command=["sleep", "60"], env=os.environ, cwd=Path("/"), output=subprocess.DEVNULL, account=where.account
    )
    try:
        file = checkout.state / "data" / "postmaster.pid"
        file.write_text(f"{foreign.pid}\n" + left.split("\n", 1)[1])
        where.give(file)
        again = checkout.start()
        assert "now belongs to another process" in checkout.said[0]
        assert foreign.poll() is None
        again.stop()
        assert foreign.poll() is None
    finally:
        foreign.kill()
        foreign.wait()


def test_a_server_that_somebody_started_by_hand_is_left_alone(checkout: Checkout) -> None:
    cluster = checkout.start()
    release_lock_only(checkout)
    with pytest.raises(LocalError, match="that we did not start") as caught:
        ensure(checkout.root)
    assert "Neither it nor the data was touched" in str(caught.value)
    assert execute(cluster.url(Role.APP), "SELECT 1") == [(1,)]


def release_lock_only(checkout: Checkout) -> None:
    """A server without our lock: as if started by hand. (A new lock file is one that nobody holds.)"""
    (checkout.state / "lock").unlink()


def test_a_holder_that_never_answers_is_a_clear_sentence(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "_PATIENCE_S", 0.2)
    lock = try_lock(checkout.state / "lock")
    assert lock is not None
    try:
        with pytest.raises(LocalError, match="does not answer"):
            checkout.start()
    finally:
        release(lock)


@pytest.mark.skipif(sys.platform != "linux", reason="parent-death signals are Linux's")
def test_the_server_ends_when_its_starter_is_killed(checkout: Checkout) -> None:
    script = (
        "import os, signal, sys; from pathlib import Path; from recovery.local.postgres import ensure\n"
        "print(ensure(Path(sys.argv[1])).process.pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, str(checkout.root)], cwd=REPOSITORY, stdout=subprocess.PIPE, check=False
    )
    assert ran.returncode == -signal.SIGKILL
    assert ran.stdout.strip().isdigit(), "it had started"
    until = time.monotonic() + 5
    while (lock := try_lock(checkout.state / "lock")) is None and time.monotonic() < until:
        time.sleep(0.02)
    assert lock is not None, "a process of the server still lives"
    release(lock)
    checkout.start()
    assert checkout.said == [], "it was shut down in order"


@pytest.mark.skipif(not ROOT, reason="an ordinary user's database goes with the checkout")
def test_a_database_of_a_checkout_that_was_removed_is_set_aside(checkout: Checkout) -> None:
    first = checkout.start()
    first.stop()
    shutil.rmtree(checkout.root / ".local")
    second = checkout.start()
    assert "earlier checkout" in checkout.said[0]
    assert (checkout.state / "aside-1" / "data" / "PG_VERSION").exists()
    assert (checkout.state / "aside-1" / "cluster.json").exists()
    assert second.url(Role.APP) != first.url(Role.APP)


def test_a_pointer_that_cannot_be_read_is_written_anew(checkout: Checkout) -> None:
    assert pointer(checkout.root) is None
    cluster = checkout.start()
    (checkout.root / ".local" / "postgres.json").write_text('{"host": ')
    assert pointer(checkout.root) is None
    checkout.start()
    told = pointer(checkout.root)
    assert told is not None
    assert told["app_url"] == cluster.url(Role.APP)
    assert set(told) == {"app_url", "owner_url", "retention_url", "broker_url"}


def test_a_state_folder_that_others_may_enter_is_refused(checkout: Checkout) -> None:
    checkout.state.chmod(0o755)
    with pytest.raises(LocalError, match="not the private folder that we made"):
        checkout.start()


@pytest.mark.skipif(not ROOT, reason="an ordinary user has one place")
def test_a_place_that_the_server_cannot_reach_is_refused(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(checkout.root / "state"))  # below a folder that only root may enter
    with pytest.raises(LocalError, match="Found no folder"):
        checkout.start()


@pytest.mark.parametrize(
    ("role", "statement", "reason"),
    [
        (Role.APP, "CREATE TABLE x ()", "tables belong to the owner"),
        (Role.APP, "CREATE SCHEMA x", "likewise schemas"),
        (Role.APP, "CREATE TEMP TABLE x ()", "no rights by way of PUBLIC"),
        (Role.APP, "SET ROLE ascertain_owner", "or the grants would prove nothing"),
        (Role.APP, "CREATE TABLE pgmq.x ()", "the queue has a role of its own"),
        (Role.RETENTION, "CREATE TABLE x ()", "it only deletes"),
        (Role.BROKER, "CREATE TABLE x ()", "it owns schema pgmq alone"),
        (Role.BROKER, "CREATE SCHEMA x", "likewise"),
        (Role.OWNER, "CREATE ROLE x", "roles are the superuser's"),
        (Role.OWNER, "CREATE TABLE pgmq.x ()", "the queue is not the ledger's"),
    ],
)
def test_a_role_may_do_no_more_than_its_work(shared: postgres.Cluster, role: Role, statement: str, reason: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        execute(shared.url(role), statement)


def test_each_role_may_do_its_work(shared: postgres.Cluster) -> None:
    execute(shared.url(Role.OWNER), "CREATE TABLE owned (); GRANT SELECT ON owned TO ascertain_app")
    assert execute(shared.url(Role.APP), "SELECT count(*) FROM owned") == [(0,)]
    execute(shared.url(Role.BROKER), "CREATE TABLE pgmq.mine ()")
    execute(shared.url(Role.OWNER), "CREATE DATABASE cloned TEMPLATE ascertain")
    assert execute(shared.url(Role.OWNER, "cloned"), "SELECT count(*) FROM owned") == [(0,)]


def test_a_wrong_password_is_refused(shared: postgres.Cluster) -> None:
    url = shared.url(Role.APP).replace(shared.address.passwords[Role.APP], "wrong")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        execute(url, "SELECT 1")


def test_commits_are_durable_in_tests_too(shared: postgres.Cluster) -> None:
    assert execute(shared.url(Role.APP), "SHOW fsync") == [("on",)]
    assert execute(shared.url(Role.APP), "SHOW synchronous_commit") == [("on",)]


def test_temporary_clusters_are_apart_and_leave_nothing() -> None:
    top = place(REPOSITORY).make("temporary")
    abandoned = top / "t-abandoned"
    abandoned.mkdir()
    with temporary_cluster(REPOSITORY) as one, temporary_cluster(REPOSITORY, settings={"work_mem": "7MB"}) as two:
        assert not abandoned.exists()
        assert execute(two.url(Role.APP), "SHOW work_mem") == [("7MB",)]
        execute(one.url(Role.OWNER), "CREATE TABLE only_here ()")
        with pytest.raises(psycopg.errors.UndefinedTable):
            execute(two.url(Role.OWNER), "TABLE only_here")
        folders = [Path(one.address.state), Path(two.address.state)]
        assert all(folder.exists() for folder in folders)
    assert not any(folder.exists() for folder in folders)
    for cluster in (one, two):
        with contextlib.suppress(psycopg.OperationalError):
            execute(cluster.url(Role.APP), "SELECT 1")
            pytest.fail("it still answers")


def test_what_was_committed_outlives_a_crash_at_the_same_address() -> None:
    with temporary_cluster(REPOSITORY) as cluster:
        url = cluster.url(Role.SUPERUSER)
        execute(url, "CREATE TABLE kept AS SELECT 1 AS one")
        postgres.crash(cluster)
        assert not cluster.alive()
        postgres.start_again(REPOSITORY, cluster=cluster)
        assert cluster.alive()
        assert execute(url, "SELECT one FROM kept") == [(1,)]
    assert not cluster.alive()


def test_it_imports_without_any_installed_package() -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); import recovery.local.postgres, recovery.local.supervisor"
    subprocess.run([sys.executable, "-I", "-S", "-c", code, str(REPOSITORY)], check=True)
