"""May a server be started on this data folder?

| what is found                                | answer                                                         |
| -------------------------------------------- | -------------------------------------------------------------- |
| no folder                                    | yes: it is made                                                |
| pieces missing, or another version           | no, with a sentence; nothing is touched                        |
| a process number in `postmaster.pid`, ended  | yes: PostgreSQL sees that for itself                           |
| … of a process that is not this PostgreSQL   | yes: the file is removed, the process left alone               |
| … of a PostgreSQL on this folder             | no, with a sentence: somebody started it by hand               |
"""

import os
from collections.abc import Callable
from pathlib import Path

from recovery.local.errors import LocalError


def check_whole(home: Path) -> None:
    data = home / "data"
    if not data.exists():
        return
    for piece in ("PG_VERSION", "global/pg_control", "postgresql.conf", "pg_hba.conf", "base", "pg_wal"):
        if not (data / piece).exists():
            raise half_made(home, missing=piece)
    version = (data / "PG_VERSION").read_text().strip()
    if version != "18":
        raise LocalError(
            happened=f"The database in {data} was made by PostgreSQL {version or 'of no version'}; ours is 18.",
            safe="It was not touched.",
            do=f"Move it away (mv {data} {data}.old) to start with an empty one, or bring it over with pg_dump.",
        )


def half_made(home: Path, *, missing: str) -> LocalError:
    data = home / "data"
    return LocalError(
        happened=f"The database folder {data} is not whole: {missing} is missing.",
        safe="It was not touched, and nothing was started.",
        do=f"Bring the missing piece back from a copy; or move the folder away (mv {data} {data}.old) "
        "and start again with an empty database.",
    )


def drop_stale_pid(data: Path, *, say: Callable[[str], None]) -> None:
    """PostgreSQL believes the number in `postmaster.pid` when any process bears it, so we look which process that is.

    We hold the lock, so no server of ours lives; one started by hand on this folder is left alone, with a sentence.
    """
    file = data / "postmaster.pid"
    try:
        number = int(file.read_text().split("\n", 1)[0])
    except (OSError, ValueError):
        return
    process = Path("/proc") / str(number)
    if not process.exists():
        return  # PostgreSQL sees for itself that the process is gone (or there is no /proc to look into).
    try:
        works_here = os.path.samefile(process / "cwd", data)  # a server's working folder is its data
    except OSError:
        works_here = False
    if works_here and (process / "comm").read_text().strip() == "postgres":
        raise LocalError(
            happened=f"A PostgreSQL that we did not start (process {number}) runs on {data}.",
            safe="Neither it nor the data was touched.",
            do="Stop it the way it was started, then start again.",
        )
    file.unlink()
    say(
        f"The database was not shut down last time; the number it left ({number}) now belongs to another process, "
        "which was left alone. Committed data is safe: the database recovers it now."
    )
