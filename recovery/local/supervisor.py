"""How do several programs run as one in the foreground?

| what happens                    | what the supervisor does                                                       |
| ------------------------------- | ------------------------------------------------------------------------------ |
| a program ends by itself        | kills what it left in its process group, says so, starts it again after 1 … 30 s |
| Ctrl-C, TERM or a closed terminal | TERM to each program; after 25 s QUIT; 5 s later KILL to its process group       |
| Ctrl-C again                    | the next of these steps now                                                    |
| the supervisor itself is killed | the kernel sends TERM to each program                                          |

One thread: the kernel counts the thread that starts a child as its parent (see children.py).
"""

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

from recovery.local import children

TERM_AFTER_S = 25.0
"""How long a program may take to end after TERM: longer than any task (20 s)."""
QUIT_AFTER_S = 5.0
_FIRST_WAIT_S, _LONGEST_WAIT_S, _STEADY_S = 1.0, 30.0, 60.0
_TICK_S = 0.5
_COLOURS = (36, 32, 33, 35, 34, 31)


@dataclass(frozen=True, slots=True)
class Program:
    """One program: the name before its lines, its command, its environment."""

    name: str
    command: Sequence[str]
    env: Mapping[str, str]


def supervise(
    *,
    programs: Sequence[Program],
    cwd: Path,
    write: Callable[[str], None],
    watch: Callable[[], str | None] = lambda: None,
    term_after_s: float = TERM_AFTER_S,
    quit_after_s: float = QUIT_AFTER_S,
    first_wait_s: float = _FIRST_WAIT_S,
) -> str:
    """Run `programs` until a signal comes or `watch` (asked twice a second) returns a reason: that reason.

    Every line they print goes to `write` with the program's name before it. Returns when all have ended. Main thread.
    """
    loop = _Loop(cwd=cwd, write=write, term_after_s=term_after_s, quit_after_s=quit_after_s, first_wait_s=first_wait_s)
    width = max((len(program.name) for program in programs), default=0)
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    loop.running = [
        _Running(program=program, prefix=_prefix(program.name, width=width, number=number, colour=colour))
        for number, program in enumerate(programs)
    ]
    with _signals_wake(loop):
        return loop.run(watch=watch)


class _Stage(IntEnum):
    RUN = 0
    TERM = 1
    QUIT = 2
    KILL = 3


@dataclass(slots=True)
class _Running:
    program: Program
    prefix: str
    process: subprocess.Popen[bytes] | None = None
    rest: bytes = b""
    started: float = 0.0
    start_at: float = 0.0
    wait_s: float = 0.0


@dataclass(slots=True)
class _Loop:
    cwd: Path
    write: Callable[[str], None]
    term_after_s: float
    quit_after_s: float
    first_wait_s: float
    running: list[_Running] = field(default_factory=list)
    selector: selectors.DefaultSelector = field(default_factory=selectors.DefaultSelector)
    stage: _Stage = _Stage.RUN
    next_stage_at: float = 0.0
    reason: str = ""
    signals: list[int] = field(default_factory=list)

    def run(self, *, watch: Callable[[], str | None]) -> str:
        try:
            while self.stage is _Stage.RUN or any(one.process for one in self.running):
                self._hear(watch)
                for one in self.running:
                    self._collect(one)
                    if self.stage is _Stage.RUN and one.process is None and time.monotonic() >= one.start_at:
                        self._start(one)
                self._read()
        finally:
            for one in self.running:
                self._kill_group(one)
            self.selector.close()
        return self.reason

    def _hear(self, watch: Callable[[], str | None]) -> None:
        """Act on signals, the watch and the time since the last stage."""
        heard = [signal.Signals(self.signals.pop(0)) for _ in range(len(self.signals))]
        if self.stage is _Stage.RUN:
            found = heard[0].name if heard else watch()
            if found is None:
                return
            self.reason = found
            self.write("Stopping. (Ctrl-C again stops harder.)")
            self._enter(_Stage.TERM)
        elif self.stage is not _Stage.KILL and (heard or time.monotonic() >= self.next_stage_at):
            late = ", ".join(one.program.name for one in self.running if one.process)
            self._enter(_Stage(self.stage + 1))
            self.write(f"Still running: {late}. Sent {self.stage.name}.")

    def _enter(self, stage: _Stage) -> None:
        self.stage = stage
        self.next_stage_at = time.monotonic() + (self.term_after_s if stage is _Stage.TERM else self.quit_after_s)
        for one in self.running:
            if one.process is None:
                continue
            # TERM and QUIT go to the program alone: it ends its own children in order. KILL goes to all of them.
            if stage is _Stage.TERM:
                one.process.send_signal(signal.SIGTERM)
            elif stage is _Stage.QUIT:
                one.process.send_signal(signal.SIGQUIT)
            else:
                self._kill_group(one)

    def _start(self, one: _Running) -> None:
        process = children.start(command=one.program.command, env=one.program.env, cwd=self.cwd, output=subprocess.PIPE)
        assert process.stdout is not None  # noqa: S101 (asked for with PIPE)
        os.set_blocking(process.stdout.fileno(), False)
        self.selector.register(process.stdout, selectors.EVENT_READ, one)
        one.process, one.started = process, time.monotonic()

    def _collect(self, one: _Running) -> None:
        """Notice that a program ended. Its number stays ours until `wait`, so the group is killed before that."""
        process = one.process
        if process is None or os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return
        self._kill_group(one)
        code = process.wait()
        assert process.stdout is not None  # noqa: S101 (asked for with PIPE)
        self._take(one)
        if one.rest:
            self.write(one.prefix + one.rest.decode(errors="replace"))
            one.rest = b""
        self.selector.unregister(process.stdout)
        process.stdout.close()
        one.process = None
        if self.stage is _Stage.RUN:
            steady = time.monotonic() - one.started >= _STEADY_S
            one.wait_s = self.first_wait_s if steady or not one.wait_s else min(one.wait_s * 2, _LONGEST_WAIT_S)
            one.start_at = time.monotonic() + one.wait_s
            how = f"code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
            self.write(f"{one.prefix}ended with {how}; starting it again in {one.wait_s:g} s.")

    def _kill_group(self, one: _Running) -> None:
        if one.process is not None and one.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(one.process.pid, signal.SIGKILL)

    def _read(self) -> None:
        for key, _ in self.selector.select(_TICK_S):
            if isinstance(key.data, _Running):
                self._take(key.data)
            else:
                os.read(key.fd, 100)

    def _take(self, one: _Running) -> None:
        assert one.process is not None  # noqa: S101 (registered while it runs)
        assert one.process.stdout is not None  # noqa: S101 (asked for with PIPE)
        try:
            while chunk := os.read(one.process.stdout.fileno(), 65536):
                *lines, one.rest = (one.rest + chunk).split(b"\n")
                for line in lines:
                    self.write(one.prefix + line.decode(errors="replace"))
        except BlockingIOError:
            return
        time.sleep(0.01)  # The pipe is closed, the program not yet ended: do not spin.


@contextlib.contextmanager
def _signals_wake(loop: _Loop) -> Iterator[None]:
    """Collect stop signals in `loop.signals` and wake its selector. A hang-up that nohup ignores stays ignored."""
    wanted = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        wanted.append(signal.SIGHUP)
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    loop.selector.register(reader, selectors.EVENT_READ, None)
    before_wake = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    before = {number: signal.signal(number, lambda heard, _: loop.signals.append(heard)) for number in wanted}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(before_wake)
        os.close(reader)
        os.close(writer)


def _prefix(name: str, *, width: int, number: int, colour: bool) -> str:
    text = f"{name:<{width}} | "
    return f"\x1b[{_COLOURS[number % len(_COLOURS)]}m{text}\x1b[0m" if colour else text
