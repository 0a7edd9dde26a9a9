"""Can this Python make the environment? Says what to do when not. Runs on any Python 3, before there is anything."""

import os
import sys

if sys.version_info < (3, 11):  # noqa: UP036 (older ones are whom this is for)
    found = ".".join(str(part) for part in sys.version_info[:2])
    print("Python 3.11 or newer is needed;", sys.executable, "is", found + ". Nothing was changed.")
    sys.exit("Install a newer one, or name one: make PYTHON=/path/to/python3.11 up")
try:
    import ensurepip  # noqa: F401 (only whether it is there)
except ImportError:
    fix = "apt-get install python3-venv" if os.path.exists("/usr/bin/apt-get") else "install Python's venv package"
    sys.exit("This Python lacks its `venv` and `pip` parts. Nothing was changed. To get them: " + fix)
