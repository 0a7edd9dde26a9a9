"""Who holds a folder? A lock of the kernel's (flock): it ends with its holders, so it is never stale."""

import fcntl
import os
from pathlib import Path


def try_lock(path: Path) -> int | None:
    """Take the lock file at `path` (made when absent, mode 600): its descriptor, or None while another holds it.

    The lock lasts until every process that has the descriptor closed it or ended; `release` gives it back early.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def wait_lock(path: Path) -> int:
    """Take the lock file at `path`, waiting for as long as another holds it: its descriptor."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def release(descriptor: int) -> None:
    """Close our copy of a lock. A child that was given the descriptor keeps holding it."""
    os.close(descriptor)
