"""Journeys over the real programs, in a real browser where a person takes part."""

import os

import pytest

from tests.journeys.loading import pytest_configure

__all__ = ["browser_type_launch_args", "pytest_configure"]
# Playwright keeps an event loop in this thread; Django would refuse to read the database beside it.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args):
    found = os.environ.get("ASCERTAIN_CHROMIUM", "/usr/bin/chromium")
    return {
        **browser_type_launch_args,
        "executable_path": found if os.path.exists(found) else None,
        "args": ["--no-sandbox", "--disable-dev-shm-usage"],
    }
