"""Prepare the demo workspaces and write `.local/demo.json`: the address, the sign-ins, a token per workspace.

    python -m recovery.local.demo_file ADDRESS FILE

A program of its own, because `manage.py up` read its settings before there was a database to name in them.
"""

import json
import os
import sys
from pathlib import Path

import django


def main() -> None:
    """Prepare, then write the file whole or not at all, readable by us alone (mode 600)."""
    address, target = sys.argv[1], Path(sys.argv[2])
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "recovery.settings")
    django.setup()
    from recovery.demo.workspace import prepare  # after setup: it imports models

    part = target.with_suffix(".part")
    part.unlink(missing_ok=True)
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(prepare(url=address), file, indent=1)
        file.write("\n")
    part.replace(target)


if __name__ == "__main__":
    main()
