"""Programs run as one: started again, stopped in steps, never left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from recovery.local.supervisor import Program, supervise

REPOSITORY = Path(__file__).resolve().parents[2]


def program(name: str, code: str) -> Program:
    return Program(name=name, command=[sys.executable, "-u", "-c", code], env=os.environ)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def run(*programs: Program, until: str, lines: list[str], then: int | None = None) -> str:
    """Supervise until a line with `until` was printed; then send ourselves the signal `then`, or end by the watch."""
    give_up = time.monotonic() + 20

    def watch() -> str | None:
        if time.monotonic() > give_up:
            return f"gave up; seen: {lines}"
        if not any(until in line for line in lines):
            return None
        if then is None:
            return "seen"
        os.kill(os.getpid(), then)
        return None

    return supervise(
        programs=programs,
        cwd=REPOSITORY,
        write=lines.append,
        watch=watch,
        term_after_s=0.5,
        quit_after_s=0.5,
        first_wait_s=0.05,
    )


def test_lines_bear_their_programs_name_and_a_last_line_without_end_is_kept() -> None:
    lines: list[str] = []
    reason = run(
        program("a", "print('first'); print('second', end='')"),
        program("longer", "print('other'); import time; time.sleep(60)"),
        until="starting it again",
        lines=lines,
    )
    assert reason == "seen"
    assert {"a      | first", "a      | second", "longer | other"} <= set(lines)


def test_a_program_that_ends_is_started_again_later_each_time() -> None:
    lines: list[str] = []
    assert run(program("dies", "raise SystemExit(3)"), until="again in 0.2 s", lines=lines) == "seen"
    said = [line for line in lines if "again" in line]
    assert said[:3] == [f"dies | ended with code 3; starting it again in {wait} s." for wait in ("0.05", "0.1", "0.2")]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stop_signal_ends_every_program_in_order(number: signal.Signals) -> None:
    lines: list[str] = []
    code = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('told to stop'), sys.exit(0)))\n"
        "print('ready'); time.sleep(60)\n"
    )
    before = signal.getsignal(number)
    assert run(program("one", code), until="ready", lines=lines, then=number) == number.name
    assert "one | told to stop" in lines
    assert not any("again in" in line for line in lines)
    assert signal.getsignal(number) is before


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_program_that_will_not_stop_is_killed_with_its_children() -> None:
    lines: list[str] = []
    code = (
        "import signal, subprocess, time\n"
        "[signal.signal(s, signal.SIG_IGN) for s in (signal.SIGTERM, signal.SIGQUIT)]\n"
        "print('child', subprocess.Popen(['sleep', '60']).pid); time.sleep(60)\n"
    )
    assert run(program("deaf", code), until="child", lines=lines) == "seen"
    assert "Still running: deaf. Sent QUIT." in lines
    assert "Still running: deaf. Sent KILL." in lines
    child = int(next(line for line in lines if "child" in line).split()[-1])
    assert not is_alive(child)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_what_a_died_program_left_is_killed_before_it_starts_again() -> None:
    lines: list[str] = []
    code = "import subprocess; print('child', subprocess.Popen(['sleep', '60']).pid)"
    assert run(program("leaves", code), until="again", lines=lines) == "seen"
    child = int(next(line for line in lines if "child" in line).split()[-1])
    assert not is_alive(child)


@pytest.mark.skipif(sys.platform != "linux", reason="parent-death signals are Linux's")
def test_programs_end_when_the_supervisor_is_killed() -> None:
    script = (
        "import os, sys; from pathlib import Path; from recovery.local.supervisor import Program, supervise\n"
        "p = Program(name='p', command=['sh', '-c', 'echo pid $$; exec sleep 60'], env=os.environ)\n"
        "supervise(programs=[p], cwd=Path('.'), write=lambda line: print(line, flush=True))\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], cwd=REPOSITORY, stdout=subprocess.PIPE) as supervisor:
        assert supervisor.stdout is not None
        pid = int(supervisor.stdout.readline().split()[-1])
        assert is_alive(pid)
        supervisor.kill()
    until = time.monotonic() + 5
    while is_alive(pid) and time.monotonic() < until:
        time.sleep(0.02)
    assert not is_alive(pid)
