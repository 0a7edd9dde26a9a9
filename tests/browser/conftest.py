"""A real browser at a real server: ours, in a thread, on the test database.

Every page that a test opens fails it on a console error, an uncaught exception or a violation of the content security
policy.
"""

import os
import re
import threading
from collections.abc import Callable, Iterator
from uuid import UUID, uuid4

import pytest
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler
from django.core.wsgi import get_wsgi_application
from playwright.sync_api import Browser, BrowserContext, Page

from recovery.web.scenes import Stage, play, set_stage

PASSWORD = "quiet-harbour-42"
# Playwright keeps an event loop in this thread; Django would refuse to read the database beside it.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"

Visit = Callable[..., Page]


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_args: object) -> None:
        return


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args):
    found = os.environ.get("ASCERTAIN_CHROMIUM", "/usr/bin/chromium")
    return {
        **browser_type_launch_args,
        "executable_path": found if os.path.exists(found) else None,
        "args": ["--no-sandbox", "--disable-dev-shm-usage"],
    }


@pytest.fixture(scope="session")
def site(database, django_db_blocker) -> Iterator[str]:
    """The address of a running server."""
    with django_db_blocker.unblock():
        server = ThreadedWSGIServer(("127.0.0.1", 0), _Quiet)
        server.daemon_threads = True
        server.set_app(get_wsgi_application())
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(scope="session")
def _quick_passwords(django_test_environment):
    from django.test.utils import override_settings

    with override_settings(PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"]):
        yield


@pytest.fixture
def stage(site, _quick_passwords) -> Stage:
    """A workspace of this test's own."""
    mark = uuid4().hex[:8]
    return set_stage(slug=f"b-{mark}", name="Acme Support", password=PASSWORD, suffix=f".{mark}")


@pytest.fixture
def scenes(stage: Stage) -> dict[str, UUID]:
    """One operation in each state, by name."""
    return play(stage=stage)


@pytest.fixture
def complaints() -> Iterator[list[str]]:
    """What browsers complained of; the test fails when anything is left in it at the end."""
    found: list[str] = []
    yield found
    assert not found


@pytest.fixture
def visit(browser: Browser, site: str, stage: Stage, complaints: list[str]) -> Iterator[Visit]:
    """Opens a page as somebody: `visit("olive", "/queue/", width=390, theme="dark", javascript=False)`."""
    contexts: list[BrowserContext] = []

    def open_page(
        username: str, path: str, *, width: int = 1280, theme: str = "light", javascript: bool = True
    ) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 844 if width < 600 else 800},
            color_scheme=theme,  # type: ignore[arg-type]
            java_script_enabled=javascript,
            reduced_motion="reduce",
            base_url=site,
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: _note(complaints, message.type, message.text))
        page.on("pageerror", lambda error: complaints.append(f"uncaught: {error}"))
        if javascript:
            page.add_init_script(
                "document.addEventListener('securitypolicyviolation',"
                " e => console.error('policy: ' + e.violatedDirective + ' ' + e.blockedURI))"
            )
        page.goto("/sign-in/")
        page.fill("#username", f"{username}{stage.suffix}")
        page.fill("#password", PASSWORD)
        page.click("button:has-text('Sign in')")
        page.wait_for_url("**/queue/", timeout=90_000)
        page.goto(path)
        return page

    yield open_page
    for context in contexts:
        context.close()


def _note(complaints: list[str], kind: str, text: str) -> None:
    # An answer that is meant to be an error is reported by the browser and by htmx; the tests look at those themselves.
    if kind in ("error", "warning") and not re.search("responded with a status of|Response Status Error Code", text):
        complaints.append(f"{kind}: {text}")
