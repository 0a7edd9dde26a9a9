"""Become another program that ends when its parent ends. Run as a script by `children.start`, never imported.

A program of its own, because the same steps between fork and exec of a large process (`preexec_fn`) can deadlock.

    python -I -S launch.py PARENT_PID DEATH_SIGNAL UID GID /PATH/TO/COMMAND [ARGUMENT ...]     (UID and GID "-": ours)
"""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main() -> None:
    parent, death_signal, uid, gid, *command = sys.argv[1:]
    if uid != "-":
        # From here on nothing may be imported: the new user need not be able to read our Python.
        os.setgroups([])
        os.setgid(int(gid))
        os.setuid(int(uid))
    if sys.platform == "linux":
        # After the change of user, which would clear it; exec keeps it.
        if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) was refused")
        if os.getppid() != int(parent):
            sys.exit(1)  # The parent ended before we asked to be told.
    os.execv(command[0], command)  # noqa: S606 (our own fixed commands; no shell wanted)


main()
