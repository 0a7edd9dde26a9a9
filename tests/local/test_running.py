"""One run at a time, on a free port, with sentences that say what to do."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from recovery.local.errors import LocalError
from recovery.local.machine import main as look_for
from recovery.local.running import check_free, kept_port, listens, only_one, wanted_port

HOST = "127.0.0.1"


def test_a_second_run_is_refused_and_told_where_the_first_is(tmp_path: Path) -> None:
    lock = tmp_path / "up.lock"
    with only_one(lock=lock, address="http://127.0.0.1:8000", say=pytest.fail):
        with (
            pytest.raises(LocalError, match=rf"process {os.getpid()}, http://127.0.0.1:8000"),
            only_one(lock=lock, address="http://127.0.0.1:8001", say=pytest.fail),
        ):
            pytest.fail("two at once")
        assert "8000" in lock.read_text(), "the refused one changed nothing"
    with only_one(lock=lock, address="x", say=pytest.fail):
        pass  # ended in order: nothing to say


def test_a_lock_that_a_killed_run_left_is_taken_over(tmp_path: Path) -> None:
    lock = tmp_path / "up.lock"
    lock.write_text(f"process {os.getpid()}, http://127.0.0.1:8000\n")  # a number that is in use, by another
    said: list[str] = []
    with only_one(lock=lock, address="http://127.0.0.1:8001", say=said.append):
        assert "taken over" in said[0]
        assert "8001" in lock.read_text()


@pytest.mark.parametrize(
    ("told", "port", "reason"),
    [
        ({}, 8000, "the default"),
        ({"PORT": ""}, 8000, "empty is as good as none"),
        ({"PORT": "8123"}, 8123, "named"),
        ({"PORT": "0"}, None, "would be any port, so nobody knew which"),
        ({"PORT": "65536"}, None, "beyond the last"),
        ({"PORT": "http"}, None, "no number"),
        ({"PORT": "²"}, None, "a digit, but no number"),
    ],
)
def test_port(told: dict[str, str], port: int | None, reason: str) -> None:
    if port is not None:
        assert wanted_port(told) == port, reason
        return
    with pytest.raises(LocalError, match="PORT is"):
        wanted_port(told)


def test_a_taken_port_is_a_sentence_that_names_the_way_out() -> None:
    with socket.create_server((HOST, 0)) as server:
        port = server.getsockname()[1]
        assert listens(host=HOST, port=port)
        with pytest.raises(LocalError, match=r"make up PORT=\d+"):
            check_free(host=HOST, port=port)
    check_free(host=HOST, port=port)
    assert not listens(host=HOST, port=port)


def test_a_kept_port_stays_until_it_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "port"
    first = kept_port(file=file, host=HOST)
    assert kept_port(file=file, host=HOST) == first
    with socket.create_server((HOST, first)):
        second = kept_port(file=file, host=HOST)
    assert second != first
    assert kept_port(file=file, host=HOST) == second
    file.write_text("nonsense")
    assert kept_port(file=file, host=HOST) > 0


@pytest.mark.parametrize(
    ("names", "environ", "code", "reason"),
    [
        (["sh"], {"CI": "true"}, 0, "it is there"),
        (["no-such-program"], {}, 0, "the rest of the suite still says something"),
        (["sh", "no-such-program"], {"CI": "true"}, 1, "CI must not pass with less than the whole suite"),
    ],
)
def test_missing_programs(
    names: list[str], environ: dict[str, str], code: int, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert look_for(names, environ=environ, apt=None, root=False) == code, reason
    assert ("no-such-program" in capsys.readouterr().err) == ("no-such-program" in names)


def test_this_python_can_make_the_environment() -> None:
    script = Path(__file__).resolve().parents[2] / ".ci" / "python_fits.py"
    subprocess.run([sys._base_executable, "-I", str(script)], check=True)  # type: ignore[attr-defined]
