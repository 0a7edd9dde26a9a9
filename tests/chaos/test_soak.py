"""Forty seconds of the soak (soak.py): whatever breaks, everything ends as its owner knows it, and once."""

import json
import subprocess
import sys
from pathlib import Path

SECONDS = 40
SEED = 7


def test_everything_ends_as_its_owner_knows_it_whatever_breaks() -> None:
    command = [sys.executable, "-m", "tests.chaos.soak", "--seconds", str(SECONDS), "--claim-seconds", "10"]
    done = subprocess.run(
        [*command, "--seed", str(SEED)],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout, done.stderr[-4000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["holds"], told
    assert done.returncode == 0
    assert told["duplicates"] == told["wrong"] == told["unfinished"] == 0
    assert told["ledger_verifies"]
    assert told["operations"] == told["sent"] > 100
    assert len(told["broken"]) >= 4, "most of it was broken meanwhile"
    assert told["settled_by_machine"] > 20, "something was lost meanwhile"
