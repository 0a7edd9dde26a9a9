"""The operation page's further sides in a real browser: whole for everybody, by keys alone, and without JavaScript."""

from uuid import UUID

import pytest
from axe_playwright_python.sync_playwright import Axe

from ledger.queries.facts import held
from recovery.web.further_scenes import play_further

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
SIDES = (
    ("check_failed", ""),
    ("found_twice", ""),
    ("items_open", ""),
    ("awaits_write_off", ""),
    ("check_failed", "found"),
    ("found_twice", "contract"),
    ("found_twice", "related"),
    ("check_failed", "packet"),
    ("written_off", "raw"),
)


@pytest.fixture
def further(stage) -> dict[str, UUID]:
    return play_further(stage=stage)


def _check(page, width):
    page.evaluate("scrollTo(0, 0)")  # what happens to lie half under the header says nothing of its size
    found = Axe().run(page, options={"runOnly": {"type": "tag", "values": TAGS}})
    assert found.violations_count == 0, found.generate_report()
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "the page scrolls sideways"


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390)])
def test_every_side_is_whole(visit, further, theme, width):
    page = visit("olive", "/queue/", theme=theme, width=width)
    for scene, side in SIDES:
        page.goto(f"/operations/{further[scene]}/?tab={side}&from=is:unresolved")
        for details in page.locator("details.answer > summary, .journal summary").all()[-2:]:
            details.click()
        _check(page, width)
    page.goto(f"/operations/{further['check_failed']}/payload/1/")
    _check(page, width)


def test_a_duplicate_is_written_off_by_keys_alone(visit, further):
    id = further["found_twice"]
    page = visit("olive", f"/operations/{id}/?from=is:unresolved")
    page.keyboard.press("]")
    page.wait_for_url(lambda url: str(id) not in url)
    page.keyboard.press("[")
    page.wait_for_url(f"**/operations/{id}/**")
    page.keyboard.press("5")
    page.keyboard.press("Tab")
    page.keyboard.type("Nobody can tell any more")
    page.keyboard.press("Control+Enter")
    page.get_by_text("You said: write off").wait_for()
    other = visit("otto", f"/operations/{id}/")
    other.keyboard.press("5")
    other.locator("#reason-written_off").fill("Nor can I find out")
    other.keyboard.press("Control+Enter")
    other.get_by_text("Settled: written off.").wait_for()
    assert held(id=id).facts.outcome == "written_off"


def test_two_people_accept_a_risk_without_javascript(visit, further):
    id = further["found_twice"]
    for username, reason in (("olive", "It is worth it"), ("otto", "I think so too")):
        page = visit(username, f"/operations/{id}/", javascript=False)
        details = page.locator("#answer-accept_duplicate_risk")
        if details.get_attribute("open") is None:
            details.locator("summary").click()
        details.locator("textarea").fill(reason)
        details.locator("button.is-first").click()
        assert page.get_by_text("Recorded: Accept the risk of a duplicate.").is_visible()
    assert held(id=id).decision["licence"] == "accepted_duplicate_risk"


def test_the_packet_prints_on_one_page(visit, further):
    page = visit("olive", f"/operations/{further['check_failed']}/?tab=packet")
    pdf = page.pdf(format="A4", prefer_css_page_size=True)
    assert pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") + pdf.count(b"/Type /Page/") == 1
    page.emulate_media(media="print")
    assert not page.locator("#decide").is_visible()
    assert page.locator("#packet").is_visible()
