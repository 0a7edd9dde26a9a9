"""An event loop of its own for each story: the browser's tests keep one in the main thread."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def run(story: Coroutine[Any, Any, Any]) -> Any:
    """Runs a coroutine to its end in a thread of its own and returns, or raises, what it does."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(asyncio.run, story).result()
