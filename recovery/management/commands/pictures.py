"""`manage.py pictures`: draws the README's pictures anew from a workspace that it plays itself, in `static/pictures/`.

Needs a database that it may write to (a development one: the workspace stays) and a Chromium; nothing of it runs in
production. Each picture stays under 150 KB.
"""

import os
import secrets
import threading
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler
from django.core.wsgi import get_wsgi_application

from recovery.web.scenes import play, set_stage

MOST_BYTES = 150_000
LOOKS = ((1280, 760, "light"), (1280, 760, "dark"), (390, 844, "light"))


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_args: object) -> None:
        """Says nothing: the command prints what it drew."""


class Command(BaseCommand):
    """Plays the scenes, serves the pages, and photographs them."""

    help = "Draws the README's pictures into static/pictures/."

    def add_arguments(self, parser: CommandParser) -> None:
        """Where the browser is and where the pictures go."""
        parser.add_argument("--chromium", default="/usr/bin/chromium", help="the browser to draw with")
        parser.add_argument("--into", type=Path, default=Path(settings.BASE_DIR) / "static" / "pictures")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Draws the queue and one operation in each look.

        Raises:
            CommandError: no browser, or a picture is too large to be kept.
        """
        if not Path(options["chromium"]).exists():
            raise CommandError(f"There is no browser at {options['chromium']}. Name one with --chromium.")
        # Playwright keeps an event loop in this thread; Django would refuse to read the database beside it.
        os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
        mark, password = secrets.token_hex(4), secrets.token_urlsafe(16)
        stage = set_stage(slug=f"pictures-{mark}", name="Acme Support", password=password, suffix=f".{mark}")
        scenes = play(stage=stage)
        server = ThreadedWSGIServer(("127.0.0.1", 0), _Quiet)
        server.daemon_threads = True
        server.set_app(get_wsgi_application())
        threading.Thread(target=server.serve_forever, daemon=True).start()
        pages = {
            "queue": ("/queue/", None),
            "operation": (f"/operations/{scenes['escalated']}/", None),
            "decide": (f"/operations/{scenes['escalated']}/", "1"),
        }
        try:
            self._draw(options, f"http://127.0.0.1:{server.server_port}", f"olive.{mark}", password, pages)
        finally:
            server.shutdown()
            server.server_close()

    def _draw(
        self,
        options: dict[str, Any],
        site: str,
        username: str,
        password: str,
        pages: dict[str, tuple[str, str | None]],
    ) -> None:
        from playwright.sync_api import sync_playwright  # a development tool, absent in production

        into: Path = options["into"]
        into.mkdir(parents=True, exist_ok=True)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=options["chromium"], args=["--no-sandbox"])
            for width, height, theme in LOOKS:
                page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=theme, base_url=site)  # type: ignore[arg-type]
                page.goto("/sign-in/")
                page.fill("#username", username)
                page.fill("#password", password)
                page.click("button:has-text('Sign in')")
                page.wait_for_url("**/queue/")
                for name, (path, key) in pages.items():
                    page.goto(path)
                    if key:
                        page.keyboard.press(key)
                    picture = into / f"{name}-{theme}-{width}.jpg"
                    drawn = page.screenshot(animations="disabled", type="jpeg", quality=80)
                    if len(drawn) > MOST_BYTES:
                        raise CommandError(f"{picture.name} has {len(drawn):,} bytes; at most {MOST_BYTES:,} are kept.")
                    picture.write_bytes(drawn)
                    self.stdout.write(f"{picture.name} {len(drawn):,} bytes")
            browser.close()
