"""Real reports, where they lie beside the checkout."""

import json
from pathlib import Path

import pytest
from stated import judged

from recovery.judgement.read import READERS

REPORTS = Path(__file__).resolve().parents[3] / "shared" / "cases" / "classify.jsonl"
ASKED = ("failure_class", "effect_status", "recovery_action", "retry_after_ms")


@pytest.fixture(scope="module")
def reports():
    if not REPORTS.is_file():
        pytest.skip("the real reports do not lie beside this checkout")
    found = [json.loads(line) for line in REPORTS.read_text(encoding="utf-8").splitlines()]
    return [report for report in found if report["observation"]["kind"] in READERS]


def told(report):
    decision = judged(report["observation"], contract=report["contract"], history=report["history"]).decision
    return {name: getattr(decision, name) for name in ASKED}


def test_no_decision_does_harm(reports):
    harmful = {report["id"]: told(report) for report in reports}
    unsafe = {report["id"]: report["unsafe_actions"] for report in reports}
    assert not [key for key, said in harmful.items() if said["recovery_action"] in unsafe[key]]


def test_nearly_every_decision_is_acceptable(reports):
    missed = []
    for report in reports:
        said = told(report)
        fits = [
            said[name] == report["expected"][name] or said[name] in report["acceptable"].get(name, ()) for name in ASKED
        ]
        if not all(fits):
            missed.append((report["id"], said))
    assert len(missed) <= 0.03 * len(reports), missed
