"""Searches with a source that misbehaves, over real HTTP, by both clients: a row a reason."""

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.rules.read_pages import Search, SearchStop, next_page, with_page
from recovery.client import (
    AsyncHttpPages,
    Clock,
    HttpPages,
    PageRequest,
    Pages,
    ReadFailed,
    ReadLimits,
    ReadTask,
    read_pages,
    read_pages_async,
)
from tests.client.loops import run

QUERY = {"q": "export role", "scope": "workspace-7"}
QUICK = ReadLimits(within=5.0, timeout=1.0)
Step = Callable[["Source", BaseHTTPRequestHandler], None]


def doc(name: str, revision: str | None = "r1") -> dict[str, Any]:
    return {"id": name, "revision": revision, "title": name.upper()}


def page(*items: Any, cursor: str | None = None, truncated: Any = False) -> Step:
    def answer(source: "Source", handler: BaseHTTPRequestHandler) -> None:
        body = {"items": list(items), "next_cursor": cursor, "truncated": truncated}
        source.send(handler, 200, json.dumps(body).encode())

    return answer


def status(code: int, **headers: str) -> Step:
    return lambda source, handler: source.send(handler, code, b"{}", **headers)


def text(body: bytes) -> Step:
    return lambda source, handler: source.send(handler, 200, body)


def cut(_source: "Source", handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b'HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{"items": [')


def hang(source: "Source", _handler: BaseHTTPRequestHandler) -> None:
    source.over.wait(10)


def trickle(source: "Source", handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
    while not source.over.wait(0.02):
        handler.wfile.write(b" ")


def drop(_source: "Source", _handler: BaseHTTPRequestHandler) -> None:
    """Ends the connection without a word."""


class Source:
    """A search that answers with its steps in turn, the last one for ever, and keeps what it was asked."""

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)
        self.asked: list[dict[str, str]] = []
        self.accounts: set[str | None] = set()
        self.over = threading.Event()
        source = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                source.asked.append(dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True)))
                source.accounts.add(self.headers.get("authorization"))
                step = source.steps.pop(0) if len(source.steps) > 1 else source.steps[0]
                with suppress(OSError):
                    step(source, self)
                self.close_connection = True

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/search"

    def send(self, handler: BaseHTTPRequestHandler, code: int, body: bytes, **headers: str) -> None:
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def __enter__(self) -> "Source":
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()


def searched(source: Source, flavour: str = "blocking", *, task: ReadTask | None = None, **more: Any) -> Pages:
    task = task or ReadTask(limits=QUICK)
    headers = {"authorization": "Bearer reader-7"}
    if flavour == "blocking":
        with httpx2.Client(trust_env=False, verify=False) as client:
            return read_pages(task, HttpPages(client, source.url, headers=headers), query=QUERY, **more)

    async def story() -> Pages:
        async with httpx2.AsyncClient(trust_env=False, verify=False) as client:
            return await read_pages_async(
                task, AsyncHttpPages(client, source.url, headers=headers), query=QUERY, **more
            )

    found: Pages = run(story())
    return found


@pytest.fixture(params=["blocking", "asynchronous"])
def flavour(request: pytest.FixtureRequest) -> str:
    return str(request.param)


ROWS = [
    ([page(doc("a"), doc("b"))], "ok", "complete", ["a", "b"], 1, "one whole page"),
    ([page()], "no_match", "complete", [], 1, "a whole search without a match, in this index"),
    ([page(cursor="c2"), page(doc("a"))], "ok", "complete", ["a"], 2, "an empty page with a cursor is not empty"),
    ([page(cursor="c2"), page()], "no_match", "complete", [], 2, "only at its end"),
    ([page(doc("a"), cursor="c2"), page(doc("b"), cursor="c2")], "partial", "repeated_cursor", ["a", "b"], 2,
     "a cursor that comes back would go round for ever"),
    ([page(doc("a"), cursor="c2", truncated=True), page(doc("b"))], "partial", "truncated", ["a", "b"], 2,
     "what was cut stays a limitation to the end"),
    ([page(truncated=None)], "partial", "truncated", [], 1, "a page that does not say whether it was cut"),
    ([page(doc("a"), cursor="c2"), page(doc("a"), doc("a", "r2"))], "ok", "complete", ["a", "a"], 2,
     "the same revision counts once, another is another document"),
    ([page({"title": "nameless"})], "partial", "truncated", [], 1, "a result without an identity was left out"),
    ([page(doc("a"), cursor="c2"), status(503), page(doc("b"))], "ok", "complete", ["a", "b"], 3, "one retry of a page"),
    ([page(doc("a"), cursor="c2"), status(503)], "partial", "retried", ["a"], 3, "one, not two"),
    ([status(503)], "unavailable", "retried", [], 2, "nothing could be read"),
    ([status(403)], "unavailable", "refused", [], 1, "what is refused is asked once"),
    ([status(404)], "unavailable", "refused", [], 1, "and looks like what is not there"),
    ([status(302, location="/elsewhere")], "unavailable", "refused", [], 1, "no other place is asked"),
    ([status(429, retry_after="60"), page()], "unavailable", "wait_outlasts_deadline", [], 1,
     "a wait is never shortened"),
    ([status(429, retry_after="0"), page(doc("a"))], "ok", "complete", ["a"], 2, "a wait that is over"),
    ([cut, page(doc("a"))], "ok", "complete", ["a"], 2, "half an answer, and then a whole one"),
    ([drop, page(doc("a"))], "ok", "complete", ["a"], 2, "no answer at all, and then one"),
    ([text(b"<html>"), page(doc("a"))], "unavailable", "refused", [], 1, "what is not JSON is not mended by a repeat"),
    ([text(b'{"items": {}}')], "unavailable", "malformed", [], 1, "no list of items"),
    ([text(b'{"items": [], "next_cursor": 7}')], "unavailable", "malformed", [], 1, "a cursor is text"),
    ([page(doc(str(n)), cursor=f"c{n}") for n in range(9)], "partial", "budget", list("012345"), 6, "six requests in all"),
]  # fmt: skip


@pytest.mark.parametrize(("steps", "outcome", "stop", "ids", "requests", "why"), ROWS, ids=[row[5] for row in ROWS])
def test_a_search(flavour, steps, outcome, stop, ids, requests, why) -> None:
    with Source(*steps) as source:
        found = searched(source, flavour)
    assert (found.outcome, found.stop) == (outcome, stop), why
    assert [item["id"] for item in found.items] == ids
    assert found.requests == requests == len(source.asked)
    assert all({**asked, "cursor": ""} == {**QUERY, "cursor": ""} for asked in source.asked), "the same query and scope"
    assert source.accounts == {"Bearer reader-7"}, "by the same account"


def test_cursors_are_copied_unchanged(flavour) -> None:
    odd = ["a b+c/=&?", "ünïcode", "0"]
    steps = [page(cursor=cursor) for cursor in odd]
    with Source(*steps, page()) as source:
        searched(source, flavour)
    assert [asked.get("cursor") for asked in source.asked] == [None, *odd]


@pytest.mark.parametrize("slow", [hang, trickle], ids=["no answer", "byte by byte"])
def test_a_slow_source_takes_no_more_than_the_time_there_is(flavour, slow) -> None:
    task = ReadTask(limits=ReadLimits(within=1.5, timeout=0.3))
    began = time.monotonic()
    with Source(slow) as source:
        found = searched(source, flavour, task=task)
        assert time.monotonic() - began < 3
    assert (found.outcome, found.stop, found.requests) == ("unavailable", "retried", 2)


def test_the_last_request_ends_with_the_task(flavour) -> None:
    task = ReadTask(limits=ReadLimits(within=0.4, timeout=10.0))
    with Source(hang) as source:
        found = searched(source, flavour, task=task)
    assert (found.stop, found.requests) == ("deadline", 1)


def test_limits_are_shared_by_all_searches_of_a_task() -> None:
    task = ReadTask(limits=ReadLimits(requests=3))
    with Source(page(doc("a"))) as source, httpx2.Client(trust_env=False, verify=False) as client:
        told = [read_pages(task, HttpPages(client, source.url), query={"q": str(n)}).stop for n in range(4)]
    assert told == ["complete", "complete", "complete", "budget"]
    assert (task.requests, task.requests_left) == (3, 0)


def test_what_was_answered_is_not_asked_again() -> None:
    task = ReadTask(limits=QUICK)
    with Source(page(doc("a"))) as source:
        assert searched(source, task=task).stop == "complete"
        assert searched(source, task=task).stop == "answered"
        with httpx2.Client(trust_env=False, verify=False) as client:
            other = read_pages(task, HttpPages(client, source.url), query=QUERY, source="another")
        assert other.stop == "complete", "of another source"
    assert len(source.asked) == 2


def test_what_was_found_may_end_it_early(flavour) -> None:
    with Source(page(doc("a"), cursor="c2"), page(doc("b"))) as source:
        found = searched(source, flavour, enough=lambda items: items[-1]["id"] == "a")
    assert (found.outcome, found.stop, found.next_cursor, found.requests) == ("ok", "enough", "c2", 1)


def test_a_wait_is_kept(flavour) -> None:
    with Source(status(503, retry_after="1"), page(doc("a"))) as source:
        began = time.monotonic()
        assert searched(source, flavour).outcome == "ok"
        assert time.monotonic() - began >= 1


def test_a_tool_without_http() -> None:
    asked: list[PageRequest] = []

    def tool(request: PageRequest) -> Any:
        asked.append(request)
        if len(asked) == 1:
            raise ReadFailed("overloaded", may_pass=True, wait=0.0)
        return {"items": [doc("a")], "next_cursor": None, "truncated": False}

    found = read_pages(ReadTask(), tool, query=QUERY)
    assert (found.outcome, found.requests) == ("ok", 2)
    assert [(request.query, request.cursor) for request in asked] == [(QUERY, None)] * 2
    told = found.as_read_result(source_id="docs", observed_at="2026-12-01T09:00:00Z", revision="r8")
    assert (told["outcome"], told["truncated"], told["revision"]) == ("ok", False, "r8")


def test_a_tool_that_changes_the_query_cannot() -> None:
    def tool(request: PageRequest) -> Any:
        with pytest.raises(TypeError):
            request.query["scope"] = "another"  # type: ignore[index]
        return {"items": [], "next_cursor": None, "truncated": False}

    assert read_pages(ReadTask(), tool, query=QUERY).outcome == "no_match"


CURSORS = st.none() | st.sampled_from(["", "c1", "c2", "c3"])
ITEMS = st.lists(st.sampled_from([doc("a"), doc("b"), doc("a", "r2"), doc("c", None), {"title": "x"}, 7]), max_size=3)
PAGES = st.lists(
    st.fixed_dictionaries(
        {"items": ITEMS}, optional={"next_cursor": CURSORS, "truncated": st.sampled_from([False, True, None])}
    )
    | st.sampled_from([{}, [], None, {"items": 1}, {"items": [], "next_cursor": 1}]),
    min_size=1,
    max_size=5,
)


@settings(max_examples=300, deadline=None)
@given(pages=PAGES)
def test_the_client_and_the_ledger_read_pages_alike(pages: list[Any]) -> None:
    """The client imports nothing of the ledger, so its rules are held against the ledger's here."""
    left = list(pages)
    frozen = Clock(monotonic=lambda: 0.0)
    task = ReadTask(limits=ReadLimits(requests=100), clock=frozen)

    def tool(_request: PageRequest) -> Any:
        if not left:
            raise ReadFailed("gone", may_pass=False)
        return left.pop(0)

    found = read_pages(task, tool, query=QUERY)
    search = Search(query="q", scope="s")
    for each in pages:
        if (request := next_page(search)) is not None:
            search = with_page(search, request=request, page=each, observed_at=datetime(2026, 12, 1, tzinfo=UTC))
    assert [(item["id"], item.get("revision")) for item in found.items] == [
        (document.id, document.revision) for document in search.documents
    ]
    assert found.truncated == search.truncated
    same = {SearchStop.UNAVAILABLE: "malformed", None: "refused"}
    assert found.stop == same.get(search.stop, search.stop)
    assert (found.outcome == "no_match") == (search.complete and not search.documents)
