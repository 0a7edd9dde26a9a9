"""May a read tool be asked again, when, and how far do the pages of a search reach?

Asked before every request; the first line that holds is the answer:

| no, because                                          | the search stops as      |
| ---------------------------------------------------- | ------------------------ |
| the time of the whole task has ended                 | `deadline`               |
| the requests of the whole task are used up           | `budget`                 |
| the same page was answered before                    | `answered`               |
| the same page was refused, or a repeat cannot mend it | `refused`               |
| the same page was repeated already                   | `retried`                |
| the wait that the source asked for outlasts the time | `wait_outlasts_deadline` |

| the page                                     | then                                                          |
| -------------------------------------------- | ------------------------------------------------------------- |
| has a cursor, with or without items          | the next is asked for with it, unchanged, and the same query  |
| has a cursor that was handed out before      | it stops: it would go round for ever (`repeated_cursor`)      |
| was cut (`truncated`), or does not say       | it counts, and the limitation stays to the end (`truncated`)  |
| has no cursor                                | it is at its end (`complete`, unless something was cut)       |
| holds a document in the same revision again  | that counts once; another revision is another document        |

Only a complete search may say that nothing matches. A search that stops keeps what it found.

    task = ReadTask()
    found = read_pages(task, HttpPages(client, "https://docs.example/search"), query={"q": "export role"})
    found.outcome, found.stop, found.items
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

import httpx2

from recovery.client.clock import Clock

LONGEST_PAGE: Final = 8 * 1024 * 1024
"""Bytes of one page."""
_MAY_PASS: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_FIRST_WAIT: Final = 0.5
"""Seconds before a repeat whose source asked for no wait."""


class ReadOutcome(StrEnum):
    """What a search came to."""

    OK = "ok"
    NO_MATCH = "no_match"
    """A complete search, and nothing on its pages. It speaks of this index, not of the world."""
    PARTIAL = "partial"
    """Some of it was read. What is not on those pages is not known."""
    UNAVAILABLE = "unavailable"
    """Nothing of it could be read. It says nothing of what is there."""


class ReadStop(StrEnum):
    """Why no further page was asked for. The tables above say when."""

    COMPLETE = "complete"
    TRUNCATED = "truncated"
    ENOUGH = "enough"
    REPEATED_CURSOR = "repeated_cursor"
    MALFORMED = "malformed"
    DEADLINE = "deadline"
    BUDGET = "budget"
    ANSWERED = "answered"
    REFUSED = "refused"
    RETRIED = "retried"
    WAIT_OUTLASTS_DEADLINE = "wait_outlasts_deadline"


class ReadFailed(Exception):
    """Raise it from a function that reads when the tool gave no page. `may_pass`: another try could bring it;
    `wait`: seconds that the source asked for. What was refused is asked once."""

    def __init__(self, message: str, *, may_pass: bool, wait: float | None = None) -> None:
        super().__init__(message)
        self.may_pass = may_pass
        self.wait = wait


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimits:
    """For one task, over all its reads. Times in seconds."""

    requests: int = 6
    within: float = 45.0
    retries: int = 1
    """Of one logical read: the same query with the same cursor."""
    timeout: float = 10.0
    """Of one request, while time is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """Exactly what to ask for. Change nothing of it: another query or cursor is another search."""

    query: Mapping[str, str]
    cursor: str | None
    """Copied from the page before; None for the first."""
    timeout: float
    """Seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """A search as far as it came."""

    query: Mapping[str, str]
    items: tuple[Mapping[str, Any], ...]
    pages: int
    requests: int
    """Real requests, repeats too."""
    stop: ReadStop
    truncated: bool
    next_cursor: str | None
    """Where it could go on, had it been let."""
    problems: tuple[str, ...]

    @property
    def outcome(self) -> ReadOutcome:
        """What may be said of it."""
        if self.pages == 0:
            return ReadOutcome.UNAVAILABLE
        if self.stop is ReadStop.COMPLETE:
            return ReadOutcome.OK if self.items else ReadOutcome.NO_MATCH
        return ReadOutcome.OK if self.stop is ReadStop.ENOUGH else ReadOutcome.PARTIAL

    def as_read_result(self, *, source_id: str, observed_at: str, revision: str | None = None) -> dict[str, Any]:
        """The search in the dialect of read results, to be reported as an `envelope` observation."""
        return {
            "outcome": self.outcome.value,
            "source_id": source_id,
            "revision": revision,
            "observed_at": observed_at,
            "items": [dict(item) for item in self.items],
            "next_cursor": self.next_cursor,
            "truncated": self.truncated,
            "stop_reason": self.stop.value,
        }


class ReadTask:
    """The limits that all reads of one task share. Its time begins now. Not for several threads at once."""

    def __init__(self, *, limits: ReadLimits | None = None, clock: Clock | None = None) -> None:
        self.limits = limits or ReadLimits()
        self._clock = clock or Clock()
        self._ends = self._clock.monotonic() + self.limits.within
        self._asked: dict[str, _Asked] = {}
        self.requests = 0
        """Made so far."""

    @property
    def time_left(self) -> float:
        """Seconds; 0 once its time has ended."""
        return max(self._ends - self._clock.monotonic(), 0.0)

    @property
    def requests_left(self) -> int:
        return max(self.limits.requests - self.requests, 0)


Fetch = Callable[[PageRequest], Any]
"""Reads one page: its JSON value. Raises ReadFailed, or httpx2's own transport errors."""
AsyncFetch = Callable[[PageRequest], Awaitable[Any]]
Enough = Callable[[Sequence[Mapping[str, Any]]], bool]


def read_pages(
    task: ReadTask, fetch: Fetch, *, query: Mapping[str, str], source: str = "", enough: Enough | None = None
) -> Pages:
    """Reads the pages of a search one after another, within the task's limits. Never raises for what the source does.

    `source` tells apart two sources that are asked the same; `enough` may end the search early, by what was found.
    """
    flow = _search(task, query=query, source=source, enough=enough)
    heard: _Heard | None = None
    while True:
        try:
            step = flow.send(heard)
        except StopIteration as end:
            pages: Pages = end.value
            return pages
        heard = None
        if isinstance(step, float):
            time.sleep(step)
            continue
        try:
            heard = _Heard(value=fetch(step))
        except (ReadFailed, httpx2.RequestError) as error:
            heard = _Heard(failure=_failure(error))


async def read_pages_async(
    task: ReadTask, fetch: AsyncFetch, *, query: Mapping[str, str], source: str = "", enough: Enough | None = None
) -> Pages:
    """As `read_pages`, on an event loop."""
    flow = _search(task, query=query, source=source, enough=enough)
    heard: _Heard | None = None
    while True:
        try:
            step = flow.send(heard)
        except StopIteration as end:
            pages: Pages = end.value
            return pages
        heard = None
        if isinstance(step, float):
            await asyncio.sleep(step)
            continue
        try:
            async with asyncio.timeout(step.timeout):
                heard = _Heard(value=await fetch(step))
        except TimeoutError:
            heard = _Heard(failure=ReadFailed("The page did not come in time.", may_pass=True))
        except (ReadFailed, httpx2.RequestError) as error:
            heard = _Heard(failure=_failure(error))


@dataclass(frozen=True, slots=True)
class HttpPages:
    """Reads pages with GET by a client of yours, whose account and headers stay as they are for the whole search."""

    client: httpx2.Client
    url: str
    cursor_param: str = "cursor"
    headers: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, request: PageRequest) -> Any:
        """One page.

        Raises:
            ReadFailed: no page came.
            httpx2.RequestError: likewise, by the connection.
        """
        ends = time.monotonic() + request.timeout
        body = bytearray()
        with self.client.stream(
            "GET", self.url, params=_params(request, self.cursor_param), headers=dict(self.headers), timeout=request.timeout
        ) as response:  # fmt: skip
            for part in response.iter_bytes():
                body += part
                _check(body, late=time.monotonic() >= ends)
        return _page(response, bytes(body))


@dataclass(frozen=True, slots=True)
class AsyncHttpPages:
    """As `HttpPages`, with an asynchronous client."""

    client: httpx2.AsyncClient
    url: str
    cursor_param: str = "cursor"
    headers: Mapping[str, str] = field(default_factory=dict)

    async def __call__(self, request: PageRequest) -> Any:
        """One page. Raises as `HttpPages` does."""
        body = bytearray()
        async with self.client.stream(
            "GET", self.url, params=_params(request, self.cursor_param), headers=dict(self.headers), timeout=request.timeout
        ) as response:  # fmt: skip
            async for part in response.aiter_bytes():
                body += part
                _check(body, late=False)
        return _page(response, bytes(body))


# ---- The search, without any I/O.


@dataclass(slots=True)
class _Asked:
    """One logical read of the task."""

    times: int = 0
    may_pass: bool = True
    answered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Heard:
    value: Any = None
    failure: ReadFailed | None = None


_Flow = Generator[PageRequest | float, "_Heard | None", "Pages"]


def _search(task: ReadTask, *, query: Mapping[str, str], source: str, enough: Enough | None) -> _Flow:
    query = MappingProxyType(dict(query))
    before = task.requests
    items: dict[tuple[str, str | None], Mapping[str, Any]] = {}
    problems: list[str] = []
    handed_out: set[str] = set()
    cursor: str | None = None
    pages, truncated = 0, False
    while True:
        heard = yield from _one(task, query=query, source=source, cursor=cursor)
        if isinstance(heard, ReadStop):
            stop = heard
            break
        page = heard.value
        if not _is_page(page):
            problems.append("A page is malformed.")
            stop = ReadStop.MALFORMED
            break
        pages += 1
        nameless = _take(page["items"], items)
        if nameless:
            problems.append(f"{nameless} results have no identity and were left out.")
        truncated = truncated or nameless > 0 or page.get("truncated") is not False
        cursor = page.get("next_cursor") or None
        if enough is not None and enough(tuple(items.values())):
            stop = ReadStop.ENOUGH
            break
        if cursor is None:
            stop = ReadStop.TRUNCATED if truncated else ReadStop.COMPLETE
            break
        if cursor in handed_out:
            stop = ReadStop.REPEATED_CURSOR
            break
        handed_out.add(cursor)
    return Pages(
        query=query,
        items=tuple(items.values()),
        pages=pages,
        requests=task.requests - before,
        stop=stop,
        truncated=truncated,
        next_cursor=cursor,
        problems=tuple(problems),
    )


def _one(
    task: ReadTask, *, query: Mapping[str, str], source: str, cursor: str | None
) -> Generator[PageRequest | float, _Heard | None, _Heard | ReadStop]:
    """One logical read with its repeats: its page, or why there is none."""
    asked = task._asked.setdefault(json.dumps([source, sorted(query.items()), cursor]), _Asked())
    wait = 0.0
    while True:
        if (refusal := _refused(task, asked, wait=wait)) is not None:
            return refusal
        if wait > 0:
            yield wait
        asked.times += 1
        task.requests += 1
        heard = yield PageRequest(query=query, cursor=cursor, timeout=min(task.limits.timeout, task.time_left))
        if heard is None or heard.failure is None:
            asked.answered = True
            return heard or _Heard()
        asked.may_pass = heard.failure.may_pass
        wait = _FIRST_WAIT if heard.failure.wait is None else max(heard.failure.wait, 0.0)


def _refused(task: ReadTask, asked: _Asked, *, wait: float) -> ReadStop | None:
    if task.time_left <= 0:
        return ReadStop.DEADLINE
    if task.requests_left == 0:
        return ReadStop.BUDGET
    if asked.answered:
        return ReadStop.ANSWERED
    if not asked.may_pass:
        return ReadStop.REFUSED
    if asked.times > task.limits.retries:
        return ReadStop.RETRIED
    return ReadStop.WAIT_OUTLASTS_DEADLINE if wait >= task.time_left else None


def _is_page(page: Any) -> bool:
    if not isinstance(page, Mapping) or not isinstance(page.get("items"), list):
        return False
    cursor = page.get("next_cursor")
    return cursor is None or isinstance(cursor, str)


def _take(listed: list[Any], items: dict[tuple[str, str | None], Mapping[str, Any]]) -> int:
    """Adds what is new; how many have no identity."""
    nameless = 0
    for item in listed:
        id = item.get("id") if isinstance(item, Mapping) else None
        if not isinstance(id, str) or not id:
            nameless += 1
            continue
        revision = item.get("revision")
        items.setdefault((id, revision if isinstance(revision, str) and revision else None), item)
    return nameless


def _failure(error: ReadFailed | httpx2.RequestError) -> ReadFailed:
    """A connection that failed may work the next time; a read harms nothing."""
    return error if isinstance(error, ReadFailed) else ReadFailed(type(error).__name__, may_pass=True)


# ---- Pages over HTTP.


def _params(request: PageRequest, cursor_param: str) -> dict[str, str]:
    return {**request.query, cursor_param: request.cursor} if request.cursor is not None else dict(request.query)


def _check(body: bytearray, *, late: bool) -> None:
    if late:
        raise ReadFailed("The page did not come in time.", may_pass=True)
    if len(body) > LONGEST_PAGE:
        raise ReadFailed("The page is larger than any page should be.", may_pass=False)


def _page(response: httpx2.Response, body: bytes) -> Any:
    if response.is_success:
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise ReadFailed("The page is not JSON.", may_pass=False) from error
    may_pass = response.status_code in _MAY_PASS
    raise ReadFailed(f"The source answered {response.status_code}.", may_pass=may_pass, wait=_asked_wait(response))


def _asked_wait(response: httpx2.Response) -> float | None:
    """Seconds of `Retry-After`, in either of its forms; a date counts from the source's own clock."""
    written = response.headers.get("retry-after", "").strip()
    if written.isascii() and written.isdigit() and len(written) < 10:
        return float(written)
    try:
        at, here = (parsedate_to_datetime(text) for text in (written, response.headers.get("date", "")))
        return max((at.astimezone(UTC) - here.astimezone(UTC)).total_seconds(), 0.0)
    except (TypeError, ValueError, OverflowError):
        return None
