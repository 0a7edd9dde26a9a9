"""The owner stays down: the polls end, a person settles it in a real browser, and the waiting harness is told."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.conf import global_settings
from django.test import override_settings
from playwright.sync_api import Browser, expect

from ledger.rules.vocabulary import Role
from ledger.transitions.workspace import ensure_person, ensure_role
from recovery.client import Operation
from tests.journeys.laws import assert_lawful
from tests.journeys.programs import Workers
from tests.journeys.running import Journey

PASSWORD = "quiet-harbour-42"
EVIDENCE = "https://status.helpdesk.example/incidents/77"


# Three looks within a second or so, and the next a minute later: each look moves the version that a person has seen.
CONTRACT = {
    "dispatch_within": "6s",
    "budgets": {"retries": 3, "polls": 3},
    "poll": {"first": "200ms", "factor": 1, "max": "60s", "jitter": 0},
}


@pytest.mark.parametrize("contract", [CONTRACT], ids=[""])
def test_polls_end_and_a_person_settles_it_while_the_harness_waits(
    journey: Journey, workers: Workers, browser: Browser
) -> None:
    olive = f"olive.{journey.bench.slug}"
    # Other browser tests hash passwords the quick way in this process; the web server takes only the real one.
    with override_settings(PASSWORD_HASHERS=global_settings.PASSWORD_HASHERS):
        person = ensure_person(username=olive, name="Olive Okafor", password=PASSWORD)
    ensure_role(workspace_id=journey.bench.id, person_id=person, role=Role.OPERATOR)
    journey.owner.fail("drop_after", match="PUT ", times=1)
    with journey.begin() as operation:
        journey.send(operation)
        journey.owner.fail("down")
        escalated = _followed(journey, state="escalated", seconds=40)
        assert escalated.decision is not None
        assert escalated.decision.code == "POLLS_ENDED", escalated.decision
        assert (escalated.effect, escalated.budgets["polls"]["used"]) == ("unknown", 3)
        assert not operation.retry(), "an escalated operation gets no permit"
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(operation.wait, 60)
            _settle(browser, journey, olive, escalated)
            decided = time.monotonic()
            settled = waiting.result(timeout=30)
            assert time.monotonic() - decided < 10, "the waiting harness is told promptly"
    assert (settled.state, settled.outcome) == ("settled", "applied")
    attested = settled.evidence[-1]
    assert (attested["speaker"], attested["proof"], attested["query"]) == ("operator", "attested", EVIDENCE)
    assert (journey.writes(), journey.records.count()) == (1, 1)
    verbs = assert_lawful(workspace_id=journey.bench.id, operation_id=journey.operation_id)
    assert "attest" in verbs


def _followed(journey: Journey, *, state: str, seconds: float) -> Operation:
    ends = time.monotonic() + seconds
    while (known := journey.read()).state != state:
        assert time.monotonic() < ends, f"still {known.state}: {known.decision}"
        time.sleep(0.2)
    return known


def _settle(browser: Browser, journey: Journey, username: str, operation: Operation) -> None:
    """Sign in, find it in the queue, say that it happened."""
    complaints: list[str] = []
    context = browser.new_context(base_url=journey.web, reduced_motion="reduce")
    try:
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.goto("/queue/")
        page.fill("#username", username)
        page.fill("#password", PASSWORD)
        page.click("button:has-text('Sign in')")
        page.wait_for_selector("#rows, #wrong", timeout=90_000)
        assert "/queue/" in page.url, (page.url, page.inner_text("body")[:400], complaints)
        row = page.locator("#rows tr", has_text=journey.operation_id)
        expect(row).to_contain_text("Escalated")
        row.locator("a").first.click()
        page.wait_for_url("**/operations/**", timeout=90_000)
        expect(page.locator("#op-head")).to_contain_text("Escalated")
        page.locator("#answer-applied summary").click()
        page.fill("#link-applied", EVIDENCE)
        page.click("button:has-text('Record: it happened')")
        expect(page.locator("#notice")).to_contain_text("Recorded: It happened.")
        expect(page.locator("#op-head .pill").first).to_contain_text("Settled · applied")
    finally:
        context.close()
    assert not complaints
