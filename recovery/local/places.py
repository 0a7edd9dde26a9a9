"""Where do the embedded server's files lie, and who owns them?

| called by        | files                                                | server runs as | programs           |
| ---------------- | ---------------------------------------------------- | -------------- | ------------------ |
| an ordinary user | `.local/postgres/` in the checkout                   | that user      | in the wheel       |
| root             | `/var/lib/ascertain-<hash>/` (else in /opt, in /srv) | `nobody`       | copied beside them |

PostgreSQL refuses to run as root, and another user can neither reach nor execute files under a folder that only root
may enter. So root gets a folder outside the checkout; no existing folder's rights are ever changed.
"""

import errno
import hashlib
import os
import pwd
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from recovery.local.children import Account
from recovery.local.errors import LocalError

STATE_VARIABLE = "ASCERTAIN_LOCAL_STATE"
"""Environment variable: the folder to use instead, when root's choice does not suit a machine."""
_BASES = (Path("/var/lib"), Path("/opt"), Path("/srv"))


@dataclass(frozen=True, slots=True)
class Place:
    """A state folder that exists, and the account that owns it (None: our own)."""

    root: Path
    state: Path
    account: Account | None

    @property
    def pointer(self) -> Path:
        return self.root / ".local" / "postgres.json"

    def give(self, path: Path) -> None:
        """Make `path` the server's."""
        if self.account is not None:
            os.chown(path, self.account.uid, self.account.gid, follow_symlinks=False)

    def make(self, *names: str) -> Path:
        """Make a folder below the state folder (mode 700, the server's); existing ones stay as they are."""
        folder = self.state
        for name in names:
            folder = folder / name
            if not folder.exists():
                _make_private(folder, account=self.account)
        return folder


def place(root: Path) -> Place:
    """Find or make the state folder of the checkout at `root`. Raises LocalError when there can be none."""
    root = root.resolve()
    local = root / ".local"
    try:
        local.mkdir(mode=0o700, exist_ok=True)
        if not os.access(local, os.R_OK | os.W_OK | os.X_OK):
            raise PermissionError(local)
    except OSError as error:
        raise LocalError(
            happened=f"The folder {local} cannot be written ({error.strerror or 'it belongs to another user'}).",
            safe="Nothing was changed.",
            do="Use a checkout that belongs to you, or give the folder back to you with chown (was it made by root?).",
        ) from error
    if os.geteuid() != 0:
        return Place(root=root, state=_own_state(local), account=None)
    account = ordinary_account()
    return Place(root=root, state=_root_state(root, account=account), account=account)


def ordinary_account() -> Account:
    """The account that runs the server when root starts it: `nobody`. Raises LocalError where there is none."""
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError:
        raise LocalError(
            happened="PostgreSQL does not run as root, and this machine has no user `nobody` to run it.",
            safe="Nothing was changed.",
            do="Run the command as an ordinary user.",
        ) from None
    return Account(name=entry.pw_name, uid=entry.pw_uid, gid=entry.pw_gid)


def _own_state(local: Path) -> Path:
    state = local / "postgres"
    if not state.exists():
        _make_private(state, account=None)
    return _checked(state, uid=os.geteuid())


def _root_state(root: Path, *, account: Account) -> Path:
    name = "ascertain-" + hashlib.sha256(os.fsencode(root)).hexdigest()[:12]
    chosen = os.environ.get(STATE_VARIABLE)
    candidates = [Path(chosen)] if chosen else [base / name for base in _BASES]
    for state in candidates:
        if state.is_symlink() or state.exists():
            return _checked(state, uid=account.uid)
    for state in candidates:
        if _all_may_enter(state.parent) and os.access(state.parent, os.W_OK):
            _make_private(state, account=account)
            return state
    raise LocalError(
        happened=f"Found no folder for the database that user `{account.name}` may reach "
        f"(tried {', '.join(str(state) for state in candidates)}).",
        safe="Nothing was changed.",
        do=f"Set {STATE_VARIABLE} to a new path in a folder that all users may enter, or run as an ordinary user.",
    )


def _all_may_enter(folder: Path) -> bool:
    """May every user pass through, and only root add to it? (In a folder that all may write, a name can be taken.)"""
    for step in (folder, *folder.parents):
        try:
            found = step.stat()
        except OSError:
            return False
        if not found.st_mode & stat.S_IXOTH or (found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX):
            return False
    return True


def _make_private(folder: Path, *, account: Account | None) -> None:
    """Made beside its place and renamed into it, so that processes that begin together see it whole or not at all."""
    making = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        if account is not None:
            os.chown(making, account.uid, account.gid, follow_symlinks=False)
        making.rename(folder)  # over an empty folder, that is another process's, made a moment ago
    except OSError as error:
        making.rmdir()
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise


def _checked(state: Path, *, uid: int) -> Path:
    found = state.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != uid or found.st_mode & 0o077:
        raise LocalError(
            happened=f"{state} is not the private folder that we made: other owner, other rights or no folder.",
            safe="It was not touched.",
            do=f"Look at it; when nobody needs it, move it away (mv {state} {state}.old) and start again.",
        )
    return state
