"""Does this machine have the programs that the tests drive? Run as `python -m recovery.local.machine NAME ...`.

| missing, and …                    | what happens                                             |
| --------------------------------- | -------------------------------------------------------- |
| root on a machine with apt-get    | installed, without starting any service                  |
| else in CI (CI is set)            | a sentence, exit 1                                       |
| else                              | a sentence; the tests that need it say so when they skip |
"""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

_SEARCH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"))
_POLICY = Path("/usr/sbin/policy-rc.d")  # Debian's packages ask it whether they may start their service: 101 is no


def main(names: Sequence[str], *, environ: Mapping[str, str], apt: str | None, root: bool) -> int:
    """Look for the programs in `names`; a package bears its program's name. The exit code."""
    missing = [name for name in names if shutil.which(name, path=_SEARCH) is None]
    if missing and apt is not None and root:
        print(f"Installing {', '.join(missing)} with apt-get …", flush=True)
        _install(apt, missing)
        missing = [name for name in names if shutil.which(name, path=_SEARCH) is None]
    if not missing:
        return 0
    print(
        f"Not on this machine: {', '.join(missing)}. Nothing was changed. "
        f"Install them (Debian: sudo apt-get install {' '.join(missing)}); tests that drive them cannot run without.",
        file=sys.stderr,
    )
    return 1 if environ.get("CI") else 0


def _install(apt: str, packages: Sequence[str]) -> None:
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with _no_services():
        subprocess.run([apt, "update", "-qq"], env=env, check=False)
        subprocess.run([apt, "install", "-y", "-qq", "--no-install-recommends", *packages], env=env, check=False)


@contextlib.contextmanager
def _no_services() -> Iterator[None]:
    """While the block runs, packages start no services; a machine with a policy of its own keeps that."""
    if _POLICY.exists():
        yield
        return
    _POLICY.write_text("#!/bin/sh\nexit 101\n")
    _POLICY.chmod(0o755)
    try:
        yield
    finally:
        _POLICY.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], environ=os.environ, apt=shutil.which("apt-get"), root=os.geteuid() == 0))
