"""How is a cluster reached? A file says it, kept in the cluster's folder and copied to `.local/postgres.json`."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from recovery.local.errors import LocalError
from recovery.local.roles import Role


@dataclass(frozen=True, slots=True)
class Address:
    """How to reach a cluster: kept in its folder, and copied to `.local/postgres.json` (both mode 600)."""

    host: str
    port: int
    database: str
    state: str
    passwords: Mapping[str, str] = field(repr=False)

    def url(self, role: str, database: str | None = None) -> str:
        """A PostgreSQL URL for `role`, to the cluster's database or another of the same server."""
        return f"postgresql://{role}:{self.passwords[role]}@{self.host}:{self.port}/{database or self.database}"


def read_address(path: Path) -> Address | None:
    try:
        told = json.loads(path.read_text())
        passwords = MappingProxyType({str(role): str(told["passwords"][role]) for role in Role})
        return Address(
            host=str(told["host"]),
            port=int(told["port"]),
            database=str(told["database"]),
            state=str(told["state"]),
            passwords=passwords,
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LocalError(
            happened=f"{path}, which says how to reach the database, cannot be read ({type(error).__name__}).",
            safe="The database was not touched.",
            do="Bring the file back from a copy. Without one, move its folder away to start with an empty database.",
        ) from error


def write_address(path: Path, value: Address) -> None:
    """Write whole or not at all, readable by us alone."""
    told = {
        "host": value.host,
        "port": value.port,
        "database": value.database,
        "state": value.state,
        "passwords": dict(value.passwords),
    }
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(told, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
