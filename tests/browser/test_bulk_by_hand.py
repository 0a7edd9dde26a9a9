"""Acting in bulk by keyboard, as the queue, the preview and the job's page show it."""

from datetime import timedelta
from uuid import UUID

from recovery.bulk import run
from recovery.web.scenes import opened


def test_a_set_is_previewed_labelled_and_taken_back(stage, visit):
    for number in range(3):
        opened(
            stage=stage, tool="rooms.book", operation_id=f"room:{number}", payload={}, ago=timedelta(minutes=1),
            permit=False,
        )  # fmt: skip
    page = visit("olive", "/queue/?q=tool:rooms.book+is:unresolved")
    page.locator(".tick").first.check()
    page.click("button[name=all]")
    page.wait_for_url("**/bulk/**")
    address = page.url
    page.get_by_role("link", name="Label").click()
    page.wait_for_selector("#label")
    page.fill("#label", "known")
    page.fill("#count", "2")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#count-wrong")
    assert page.input_value("#label") == "known", "what was typed is kept"
    page.fill("#count", "3")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#stop")
    _finish(address)
    page.wait_for_selector("#undo-job")  # by itself: the page looks every second while a job runs
    assert "Labelled 3 operations" in page.inner_text("h1")
    page.keyboard.press("z")
    page.wait_for_selector("h1:has-text('Taking back 3 operations')")
    _finish(page.url)
    page.wait_for_selector("h1:has-text('Took back 3 operations')")
    page.goto("/queue/")
    page.wait_for_selector("#jobs-drawer")
    page.click("#jobs-drawer summary")
    assert "Labelled 3 operations" in page.inner_text("#jobs")


def _finish(address: str) -> None:
    while run(job_id=UUID(address.split("/bulk/")[1].split("/")[0])):
        pass
