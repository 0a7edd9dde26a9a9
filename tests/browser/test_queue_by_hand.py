"""The queue under the hands: words that complete themselves, a summary beside the list, ticks that survive a poll."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from ledger.database import execute
from ledger.transitions.schedule import beat

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
LOOKS = [("light", 1280), ("dark", 390)]
"""Both themes and both widths; tests/browser/test_pages.py has every combination of the plain list."""


def _check(page, width, *, within=None):
    """`within`: what lies open over the page. What it covers can be no target while it does."""
    found = Axe().run(page, context=within, options={"runOnly": {"type": "tag", "values": TAGS}})
    assert found.violations_count == 0, found.generate_report()
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "the page scrolls sideways"


@pytest.mark.parametrize(("theme", "width"), LOOKS)
def test_every_part_of_the_queue_is_accessible(visit, scenes, stage, theme, width):
    beat(part="reconciler")
    execute(
        "INSERT INTO desk (operation, workspace_id, holder_id, held_until, wakes_on, labels, changed_at) "
        "VALUES (%s, %s, %s, now() + interval '9 min', '', '[\"known\"]', now())",
        [scenes["escalated"], stage.workspace_id, stage.people["otto"]],
    )
    page = visit("olive", "/queue/?group=cause", theme=theme, width=width)
    _check(page, width)
    page.goto("/queue/?group=owner&q=state:bad")
    _check(page, width)
    page.click("#filter-help summary")
    _check(page, width, within="#filter-help")
    page.goto("/queue/")
    page.click("#keep-view summary")
    _check(page, width, within="#keep-view")
    page.keyboard.press("Escape")
    page.check(".tick >> nth=0")
    _check(page, width, within="#bulk")
    page.keyboard.press("Escape")
    page.click("#q")
    page.keyboard.type(" tool:")
    expect(page.locator("#q-options li")).to_have_count(3)
    _check(page, width, within=".filter")
    page.keyboard.press("Escape")
    page.locator(f"#r-{scenes['escalated'].hex} .peek-link").click()
    expect(page.locator("#peek h2[tabindex]")).to_be_focused()
    _check(page, width)


def test_a_filter_is_written_by_keyboard_alone(visit, scenes):
    page = visit("olive", "/queue/")
    page.keyboard.press("/")
    page.keyboard.type("is:un")
    expect(page.locator("#q-options li").first).to_have_text("is:unresolved")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#q")).to_have_attribute("aria-activedescendant", "q-options-0")
    page.keyboard.press("Enter")
    page.keyboard.type("tool:pay")
    expect(page.locator("#q-options li")).to_have_count(1)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    expect(page.locator("#q")).to_have_value("is:unresolved tool:payments.capture ")
    page.keyboard.press("Enter")
    expect(page.locator("#rows tbody tr")).to_have_count(2)
    assert "tool%3Apayments.capture" in page.url


def test_one_key_clears_a_filter_that_matches_nothing(visit, scenes):
    beat(part="reconciler")
    page = visit("olive", "/queue/?q=id:zzz")
    expect(page.get_by_role("heading", name="No match")).to_be_visible()
    page.keyboard.press("Escape")
    page.wait_for_url("**/queue/")


def test_the_summary_follows_the_cursor_and_gives_the_focus_back(visit, scenes):
    page = visit("olive", "/queue/")
    before = page.locator(".bar").bounding_box()
    page.keyboard.press("j")
    page.keyboard.press("Space")
    first = page.evaluate("document.activeElement.closest('tr').id")
    expect(page.locator("#peek")).to_have_attribute("data-row", first)
    assert page.locator(".bar").bounding_box() == before, "what stands over the list does not move"
    page.keyboard.press("j")
    second = page.evaluate("document.activeElement.closest('tr').id")
    assert second != first
    expect(page.locator("#peek")).to_have_attribute("data-row", second)
    page.keyboard.press("Escape")
    expect(page.locator("#peek")).to_be_hidden()
    assert page.evaluate("document.activeElement.closest('tr').id") == second


def test_a_claim_beside_the_list_shows_in_its_row_at_once(visit, scenes):
    page = visit("olive", "/queue/")
    row = page.locator(f"#r-{scenes['escalated'].hex}")
    row.locator(".peek-link").click()
    page.locator("#peek").get_by_role("button", name=re.compile("^Claim")).click()
    expect(row.locator(".c-held .who")).to_have_text("You")
    expect(page.locator("#peek .holding")).to_contain_text("Held by you")


def test_ticks_survive_a_poll_that_draws_their_row_anew(visit, scenes, stage):
    page = visit("olive", "/queue/")
    row = page.locator(f"#r-{scenes['escalated'].hex}")
    row.locator(".tick").check()
    expect(page.locator("[data-ticked]")).to_have_text("1 selected")
    execute(
        "INSERT INTO desk (operation, workspace_id, holder_id, held_until, wakes_on, labels, changed_at) "
        "VALUES (%s, %s, %s, now() + interval '9 min', '', '[]', now())",
        [scenes["escalated"], stage.workspace_id, stage.people["otto"]],
    )
    expect(row.locator(".c-held")).to_contain_text("Otto Lindqvist", timeout=15_000)
    expect(row.locator(".tick")).to_be_checked()
    page.keyboard.press("Escape")
    expect(row.locator(".tick")).not_to_be_checked()
    row.locator(".tick").check()
    page.keyboard.press("Escape")
    expect(row.locator(".tick")).not_to_be_checked()


def test_without_javascript_the_list_is_filtered_grouped_peeked_and_kept(visit, scenes):
    page = visit("olive", "/queue/", javascript=False)
    page.fill("#q", "is:unresolved tool:payments.*")
    page.locator("#q").press("Enter")
    expect(page.locator("#rows tbody tr")).to_have_count(2)
    page.click("text=By cause")
    expect(page.locator("#rows.groups tbody tr")).to_have_count(1)
    page.locator("#rows a.open").first.click()
    expect(page.locator("#rows tbody tr")).to_have_count(2)
    page.locator(".peek-link").first.click()
    expect(page.locator("#peek h2[tabindex]")).to_contain_text("payments.capture")
    page.locator("#peek [data-closes-peek]").click()
    expect(page.locator("#peek")).to_be_hidden()
    page.click("#keep-view summary")
    page.fill("#view-name", "Payments")
    page.click("text=For me")
    expect(page.get_by_role("link", name="Payments", exact=True)).to_have_attribute("aria-current", "page")
