"""Every page, in both themes and at both widths: no violation of WCAG 2.2 AA, nothing cut, no complaint."""

from datetime import timedelta

import pytest
from axe_playwright_python.sync_playwright import Axe

from ledger.rules.vocabulary import Action
from recovery.web.scenes import decided, opened, reported

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
LOOKS = [(theme, width) for theme in ("light", "dark") for width in (1280, 390)]
SCENES = (
    "escalated", "awaiting", "reconciling", "conflict", "blocked", "held_back", "dispatched", "waiting", "by_two",
    "applied", "not_sent",
)  # fmt: skip


def _check(page, width, *, within=None):
    """`within`: what lies open over the page. What it covers can be no target while it does."""
    page.evaluate("scrollTo(0, 0)")  # what happens to lie half under the header says nothing of its size
    found = Axe().run(page, context=within, options={"runOnly": {"type": "tag", "values": TAGS}})
    assert found.violations_count == 0, found.generate_report()
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "the page scrolls sideways"


def _check_in_every_look(page, *, within=None):
    """One page, loaded once, in both themes and at both widths."""
    for theme, width in LOOKS:
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        page.set_viewport_size({"width": width, "height": 844 if width < 600 else 800})
        _check(page, width, within=within)


def test_the_queue_in_every_state(visit, scenes):
    page = visit("olive", "/queue/")
    _check_in_every_look(page)
    for q in ("is:settled", "state:nonsense", "id:zzz", ""):
        page.goto(f"/queue/?q={q}")
        _check_in_every_look(page)
    page.locator("#account summary").click()
    _check_in_every_look(page, within="#account")
    page.keyboard.press("Escape")
    page.locator("[data-opens=help]").click()
    _check_in_every_look(page)


def test_every_operation_page(visit, scenes):
    page = visit("olive", "/queue/")
    for scene in SCENES:
        page.goto(f"/operations/{scenes[scene]}/")
        if page.locator("details.answer").count():
            page.locator("details.answer summary").last.click()
        _check_in_every_look(page)


def test_my_work_groups_bulk_and_preferences(visit, scenes):
    page = visit("olive", "/queue/?group=cause")
    _check_in_every_look(page)
    page.goto(page.locator("#rows .peek-link").first.get_attribute("href"))  # the desk of a whole group
    _check_in_every_look(page)
    page.goto("/queue/")
    page.locator("#rows .tick").first.check()
    page.click("#bulk button:not([name])")
    page.wait_for_url("**/bulk/**")
    _check_in_every_look(page)
    page.get_by_role("link", name="Label").click()
    page.wait_for_selector("#label")
    _check_in_every_look(page)
    page.fill("#label", "known")
    page.fill("#count", "1")
    page.locator("#label").press("Control+Enter")
    page.wait_for_selector("#stop")
    _check_in_every_look(page)
    for path in ("/bulk/", "/", "/preferences/"):
        page.goto(path)
        _check_in_every_look(page)


def test_pages_that_say_no(visit, scenes):
    page = visit("vic", f"/operations/{scenes['awaiting']}/")
    _check_in_every_look(page)
    page.goto("/operations/00000000-0000-7000-8000-000000000000/")
    _check_in_every_look(page)
    page.context.clear_cookies()
    page.goto("/queue/")
    page.fill("#username", "nobody")
    page.fill("#password", "wrong")
    page.click("button:has-text('Sign in')")
    assert page.get_by_role("alert").is_visible()
    _check_in_every_look(page)


HOSTILE = "<script>alert(1)</script>\u202e" + "W" * 5000 + "🧨" * 50 + '"><img src=x onerror=alert(2)>'


def test_hostile_words_break_neither_page_nor_layout(visit, stage):
    id = opened(
        stage=stage, tool="rooms.book", operation_id="room:" + "W" * 195, payload={"room": HOSTILE},
        ago=timedelta(minutes=2), agent={"name": HOSTILE[:300]},
    )  # fmt: skip
    reported(
        id=id, after=timedelta(seconds=2), decision=decided(Action.RECONCILE, "TRANSPORT_TIMEOUT", "No answer came."),
        detail={"phase": "await", "quoted": [HOSTILE], "reasons": [HOSTILE], "differs": [[HOSTILE, HOSTILE, 1]]},
    )  # fmt: skip
    page = visit("olive", f"/operations/{id}/")
    page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    _check_in_every_look(page)
    page.goto("/queue/")
    _check_in_every_look(page)
