"""How do we start a process that cannot outlive us?"""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple

_LAUNCHER = Path(__file__).with_name("launch.py")


class Account(NamedTuple):
    """A user of the operating system whom a child runs as."""

    name: str
    uid: int
    gid: int


def start(
    *,
    command: Sequence[str],
    env: Mapping[str, str],
    cwd: Path,
    output: IO[bytes] | int,
    account: Account | None = None,
    death_signal: signal.Signals = signal.SIGTERM,
    keep_open: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start `command` in a process session of its own; on Linux the kernel sends it `death_signal` when we end.

    The kernel counts the *thread* that started the child as its parent, so only the main thread may call this
    (RuntimeError otherwise). Output and errors both go to `output`. Descriptors in `keep_open` stay open in the child.
    Raises FileNotFoundError when there is no such program on the PATH of `env`.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("a child with a parent-death signal must be started from the main thread")
    program = shutil.which(command[0], path=env.get("PATH", os.defpath))
    if program is None:
        raise FileNotFoundError(command[0])
    uid, gid = ("-", "-") if account is None else (str(account.uid), str(account.gid))
    return subprocess.Popen(
        [
            sys.executable,
            "-I",
            "-S",
            str(_LAUNCHER),
            str(os.getpid()),
            str(int(death_signal)),
            uid,
            gid,
            program,
            *command[1:],
        ],
        env=dict(env),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        pass_fds=tuple(keep_open),
    )
