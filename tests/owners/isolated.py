"""Owners that are written in Python live in environments of their own, built once and shared by all test processes."""

import fcntl
import subprocess
import sys
import venv
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2] / ".local" / "owners"


def environment(*, name: str, requirements: tuple[str, ...]) -> Path:
    """The `bin` folder of an environment with these requirements, made first when it is not there.

    Safe to call from many processes at once.
    """
    home = _ROOT / name
    stamp = home / "finished"
    recipe = f"{sys.version_info[:2]} {requirements}\n"
    _ROOT.mkdir(parents=True, exist_ok=True)
    with (_ROOT / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != recipe:
            venv.EnvBuilder(clear=True, with_pip=True).create(home)
            pip = [home / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, *requirements], check=True, timeout=600)
            # Last, so that an environment that was interrupted half-way is built again.
            stamp.write_text(recipe)
    return home / "bin"
