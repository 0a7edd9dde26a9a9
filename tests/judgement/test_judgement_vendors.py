"""Further reports in the shapes of many owners, one a line in vendor_reports.jsonl, with what may be said of each.

`never` are the actions that could do harm there; `classes`, `effects` and `actions` are what is right or acceptable.
"""

import json
from pathlib import Path

import pytest
from stated import judged

REPORTS = [
    json.loads(line)
    for line in Path(__file__).with_name("vendor_reports.jsonl").read_text(encoding="utf-8").splitlines()
]


@pytest.mark.parametrize("report", REPORTS, ids=[report["report"] for report in REPORTS])
def test_what_is_said(report):
    told = judged(report["observation"], contract=report["contract"], history=report["history"])
    decision = told.decision
    why = f"{decision.rule} after {told.reading.rule}"
    assert decision.recovery_action not in report["never"], why
    assert decision.failure_class in report["classes"], why
    assert decision.effect_status in report["effects"], why
    assert decision.recovery_action in report["actions"], why
    assert "wait_ms" not in report or decision.retry_after_ms == report["wait_ms"], why
