"""What people do at the desk: by keyboard alone, without JavaScript, and two at once."""

import re
from datetime import timedelta

from playwright.sync_api import expect

from ledger.queries.facts import held
from ledger.rules.resolutions import Answer
from recovery.web.scenes import answered, opened


def test_an_unknown_is_settled_by_keyboard_alone(visit, scenes):
    page = visit("olive", "/queue/?q=state:escalated")
    page.keyboard.press("j")
    page.keyboard.press("j")
    focused = page.evaluate("document.activeElement.getAttribute('href')")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{focused}")
    page.keyboard.press("1")
    expect(page.locator("#link-applied")).to_be_focused()
    page.keyboard.type("https://dashboard.example/captures/77")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#notice")).to_contain_text("Recorded: It happened.")
    expect(page.locator("#op-head .pill").first).to_contain_text("Settled · applied")
    assert held(id=focused.split("/")[2]).facts.outcome == "applied"


def test_a_key_opens_an_answer_and_records_nothing(visit, scenes):
    before = held(id=scenes["escalated"]).facts.version
    page = visit("olive", f"/operations/{scenes['escalated']}/")
    for key in ("1", "2", "4"):
        page.keyboard.press("Escape")
        page.keyboard.press(key)
    expect(page.locator("#answer-cannot_tell")).to_have_attribute("open", "")
    expect(page.locator("details.answer[open]")).to_have_count(1)
    assert held(id=scenes["escalated"]).facts.version == before


def test_help_filter_and_escape(visit, scenes):
    page = visit("olive", "/queue/")
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_hidden()
    page.keyboard.press("/")
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.type("state:blocked")
    page.keyboard.press("Enter")
    expect(page.locator("#rows tbody tr")).to_have_count(1)
    assert "q=state%3Ablocked" in page.url or "q=state:blocked" in page.url


def test_rows_are_selected_and_places_reached_by_keys_alone(visit, scenes):
    page = visit("olive", "/queue/")
    ticked, shown = page.locator(".tick:checked"), page.locator("#rows .tick").count()
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.locator("[data-ticked]")).to_have_text("1 selected")
    page.keyboard.press("Shift+J")
    expect(ticked).to_have_count(2)
    page.keyboard.press("x")
    expect(ticked).to_have_count(1)
    page.keyboard.type("*a")
    expect(ticked).to_have_count(shown)
    page.keyboard.press("Escape")
    expect(ticked).to_have_count(0)
    page.keyboard.type("gm")
    page.wait_for_url(lambda url: url.endswith("/") and "queue" not in url)
    page.keyboard.type("gj")
    page.wait_for_url("**/bulk/")
    page.keyboard.type("gq")
    page.wait_for_url("**/queue/")
    page.wait_for_selector("#rows .tick")
    page.keyboard.type("*m")
    page.wait_for_url("**/bulk/*/**")


def test_keys_can_be_switched_off(visit, scenes):
    page = visit("olive", "/queue/")
    page.locator("#account summary").click()
    page.get_by_role("button", name="Turn single keys off").click()
    page.wait_for_load_state()
    page.keyboard.press("?")
    page.keyboard.press("j")
    expect(page.locator("#help")).to_be_hidden()
    assert page.evaluate("document.activeElement === document.body")


def test_everything_works_without_javascript(visit, stage, scenes):
    page = visit("olive", "/queue/", javascript=False)
    page.fill("#q", "capture:order-2207")
    page.keyboard.press("Enter")
    page.wait_for_url("**/operations/**")  # a whole id leads to its page
    page.locator("#answer-not_applied summary").click()
    page.click("button:has-text('Record: it did not happen')")
    expect(page.locator("#wrong-reason-not_applied")).to_contain_text("Give a reason")
    page.fill("#reason-not_applied", "The processor has nothing")
    page.click("button:has-text('Record: it did not happen')")
    expect(page.locator("main")).to_contain_text("It counts once a second person signs it.")
    other = visit("max", f"/operations/{scenes['escalated']}/", javascript=False)
    other.fill("#reason-not_applied", "Nor has the settlement file")
    other.click("button:has-text('Sign: it did not happen')")
    expect(other.locator("#op-head .pill").first).to_contain_text("Settled · not applied")


def test_a_lost_race_keeps_what_was_typed(visit, stage, scenes):
    id = scenes["escalated"]
    page = visit("olive", f"/operations/{id}/")
    page.keyboard.press("4")
    page.fill("#reason-cannot_tell", "I have looked everywhere")
    answered(stage=stage, id=id, username="max", answer=Answer.CANNOT_TELL, reason="Nor do I know")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#notice")).to_contain_text("Not recorded: this changed while you were writing.")
    expect(page.locator("#notice")).to_contain_text("max")
    expect(page.locator("#reason-cannot_tell")).to_have_value("I have looked everywhere")
    page.locator("#reason-cannot_tell").press("Control+Enter")
    expect(page.locator("#notice")).to_contain_text("Recorded: Cannot tell.")


def test_polling_updates_the_page_but_never_what_is_being_written(visit, stage, scenes):
    id = scenes["escalated"]
    page = visit("olive", f"/operations/{id}/")
    page.keyboard.press("4")
    page.fill("#reason-cannot_tell", "Half a thought")
    answered(stage=stage, id=id, username="max", answer=Answer.CANNOT_TELL, reason="Nor do I know")
    expect(page.locator("#history")).to_contain_text("Nor do I know", timeout=9000)
    expect(page.locator("#reason-cannot_tell")).to_have_value("Half a thought")
    expect(page.locator("#reason-cannot_tell")).to_be_focused()
    expect(page.locator("#decide-moved")).to_be_visible()


def test_the_list_stays_still_while_data_moves(visit, stage, scenes):
    page = visit("olive", "/queue/")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("j")
    row = page.evaluate("document.activeElement.closest('tr').id")
    opened(stage=stage, tool="rooms.book", operation_id="room:new", payload={}, ago=timedelta(seconds=1))
    answered(stage=stage, id=scenes["escalated"], username="max", answer=Answer.APPLIED, reason="Seen")
    expect(page.locator("#newer")).to_contain_text("1 new", timeout=9000)
    expect(page.locator(f"#r-{scenes['escalated'].hex}")).to_contain_text("left this view")
    assert page.locator("text=room:new").count() == 0
    assert page.evaluate("document.activeElement.closest('tr').id") == row
    page.keyboard.press(".")
    expect(page.locator("#rows")).to_contain_text("room:new")
    expect(page.locator(f"#{row} a.open")).to_be_focused()


def test_a_session_that_ends_in_the_middle_loses_nothing(visit, stage, scenes):
    page = visit("olive", f"/operations/{scenes['escalated']}/")
    page.keyboard.press("1")
    page.fill("#reason-applied", "Long thoughts")
    page.context.clear_cookies(name="sessionid")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#toast")).to_contain_text(re.compile("signed out|not allowed"))
    expect(page.locator("#reason-applied")).to_have_value("Long thoughts")


def test_back_returns_to_the_list_as_it_was(visit, scenes):
    page = visit("olive", "/queue/?q=state:escalated")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/operations/**")
    expect(page.locator("#back-to-list")).to_have_attribute("href", re.compile(r"^/queue/\?q=state(:|%3A)escalated$"))
    page.go_back()
    expect(page.locator("#rows tbody tr")).to_have_count(3)


def test_a_page_weighs_under_60_kb_of_style_and_script(visit, scenes):
    import gzip

    page = visit("olive", "/queue/")
    names = page.evaluate("[...document.scripts].map(s => s.src).concat([...document.styleSheets].map(s => s.href))")
    assert sum(len(gzip.compress(page.request.get(name).body())) for name in names) < 60_000
