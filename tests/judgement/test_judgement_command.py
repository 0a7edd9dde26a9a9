"""`manage.py judge`: a decision a line, no database."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SEEN = {"kind": "http", "status": 429, "headers": {"Retry-After": "7"}}
WRITE = {"effect": "write"}


def judged(*lines):
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    environment = {
        "PATH": os.environ["PATH"],
        "ASCERTAIN_SECRET_KEY": "x" * 50,
        # Nobody listens there: a database would be missed.
        "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/nothing",
    }
    ended = subprocess.run(
        [sys.executable, "manage.py", "judge"], input=text.encode("utf-8", "surrogatepass"), cwd=ROOT, env=environment,
        capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    return ended.returncode, [json.loads(line) for line in ended.stdout.splitlines()], ended.stderr.decode()


def test_every_line_is_answered_in_order():
    status, answers, complaint = judged(
        {"id": "a", "contract": WRITE, "history": [], "observation": SEEN, "now": "2026-12-01T09:00:00Z", "theme": "x"},
        "",
        {"id": 2, "contract": WRITE, "observation": {"kind": "exception", "phase": "await"}},
    )
    assert (status, complaint) == (0, "")
    assert [answer["id"] for answer in answers] == ["a", 2]
    first = answers[0]["decision"]
    assert (first["recovery_action"], first["retry_after_ms"], first["licence"], first["retryable"]) == (
        "retry", 7_000, "effect_none_proved", True,
    )  # fmt: skip
    assert first["not_before"] >= "2026-12-01T09:00:07"
    assert set(first) >= {"failure_class", "effect_status", "request", "code", "field", "hint", "rule", "ask_again",
                          "alternatives", "record", "for_agent", "items"}  # fmt: skip
    assert answers[1]["decision"]["for_agent"]["error"]["code"] == "OUTCOME_UNKNOWN"


def test_a_bad_line_is_told_and_the_others_are_answered():
    good = {"contract": WRITE, "observation": SEEN}
    status, answers, _ = judged(
        "{",
        "[1]",
        {"id": 1},
        {"id": 2, "contract": {"effect": "perhaps"}, "observation": SEEN},
        {"id": 3, "contract": WRITE, "observation": {"kind": "http"}},
        {"id": 4, "contract": WRITE, "history": [{"kind": "odd"}], "observation": SEEN},
        {"id": 5, "contract": WRITE, "observation": SEEN, "now": "yesterday"},
        {"id": 6, "contract": WRITE, "history": {}, "observation": SEEN},
        '{"id": 7, "contract": {"effect": "write"}, "observation": {"kind": "grpc", "status": NaN}}',
        "[" * 100_000,
        {"id": 8, **good},
        {"id": "\ud800", **good},
    )
    assert status == 1
    assert len(answers) == 12
    fields = [answer["error"]["field"] for answer in answers[:10]]
    assert fields == [
        None, None, "contract", "contract.effect", "observation.status", "history[0].kind", "now", "history", None, None,
    ]  # fmt: skip
    for answer in answers[:10]:
        assert set(answer["error"]) == {"code", "class", "retryable", "retry_after_ms", "field", "hint", "message"}
        assert answer["error"]["class"] == "validation"
    assert all("decision" in answer for answer in answers[10:])
