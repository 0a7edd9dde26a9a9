"""`by: search` and `by: list`: how pages are asked for, where reading ends, and which objects are ours."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.rules.vocabulary import Effect, LookupOutcome
from recovery.owners.base import Reply
from recovery.owners.search import SearchLookup, _linked
from tests.owners.conformance import OPERATION_ID, PAYLOAD, question
from tests.owners.scripted import Answer, Received, ScriptedOwner
from tests.owners.stages_http import page, said

RULE: dict[str, Any] = {
    "by": "search",
    "http": {"path": "/tickets?q={operation_id}&after={cursor}&size=2"},
    "items": "body.items",
    "next": "body.next_cursor",
    "match": "item.external_id == operation_id",
}
OURS = {"id": "t-1", "external_id": OPERATION_ID, **PAYLOAD}
OTHER = {"id": "t-9", "external_id": "another", **PAYLOAD}
FOUND, NO_MATCH = LookupOutcome.FOUND, LookupOutcome.NO_MATCH
FAILED, NOTHING = LookupOutcome.LOOKUP_FAILED, LookupOutcome.INCONCLUSIVE


def ask(owner: ScriptedOwner, *, rule: dict[str, Any] | None = None, **more: Any) -> Reply:
    return SearchLookup().ask(question({**RULE, **(rule or {})}, base_url=owner.url, **more))


def by_after(pages: Mapping[str, Answer]) -> Callable[[Received], Answer | None]:
    return lambda received: pages[received.query.get("after", [""])[0]]


def test_a_cursor_goes_back_unchanged_and_the_query_stays(owner: ScriptedOwner) -> None:
    cursor = "a+b/c=&?#%20 ü"
    owner.answer = by_after({"": page(following=cursor), cursor: page(OURS)})
    reply = ask(owner)
    assert (reply.outcome, reply.pages, reply.complete) == (FOUND, 2, True)
    assert [received.query for received in owner.received] == [
        {"q": [OPERATION_ID], "size": ["2"]},
        {"q": [OPERATION_ID], "after": [cursor], "size": ["2"]},
    ]


ADDRESSES = [
    ("/tickets?page=2", "/tickets", "from the owner's root"),
    ("?page=2", "/list", "beside this one"),
    ("{url}/tickets?page=2", "/tickets", "whole"),
]


@pytest.mark.parametrize(("address", "path", "why"), ADDRESSES)
def test_an_address_is_followed(owner: ScriptedOwner, address: str, path: str, why: str) -> None:
    following = address.format(url=owner.url)
    owner.answer = lambda received: page(OURS) if received.query else page(following=following)
    reply = ask(owner, rule={"http": {"path": "/list"}})
    assert (reply.outcome, reply.pages) == (FOUND, 2), why
    assert (owner.received[1].path, owner.received[1].query) == (path, {"page": ["2"]})


def test_an_address_of_somebody_else_is_not(owner: ScriptedOwner, elsewhere: ScriptedOwner) -> None:
    elsewhere.answer = said({"items": [OURS], "next_cursor": None})
    for following in (f"{elsewhere.url}/tickets", "//169.254.169.254/latest", "file:///etc/passwd"):
        owner.answer = said({"items": [OTHER], "next_cursor": following})
        reply = ask(owner, rule={"http": {"path": "/list"}})
        assert (reply.outcome, reply.complete, reply.stop_reason) == (FAILED, False, "unavailable"), following
    assert elsewhere.received == []


def test_an_address_on_a_listed_host_is(owner: ScriptedOwner, elsewhere: ScriptedOwner) -> None:
    elsewhere.answer = said({"items": [OURS], "next_cursor": None})
    owner.answer = said({"items": [], "next_cursor": f"{elsewhere.url}/tickets"})
    reply = ask(owner, rule={"http": {"path": "/list"}}, hosts=frozenset({f"127.0.0.1:{elsewhere.port}"}))
    assert reply.outcome is FOUND


LINKS = [
    (
        '<https://a.example/x?page=2>; rel="next", <https://a.example/x?page=9>; rel="last"',
        "https://a.example/x?page=2",
    ),
    ('<https://a.example/x?page=1>; rel="prev"', None),
    ("</x?page=2>; rel=next", "/x?page=2"),
    ('</x?a=1,2;b>; title="a, b"; rel="self next"', "/x?a=1,2;b"),
    ('</x>; rel="nextgen"', None),
    ("<", None),
    ("<" * 50_000, None),
]


@pytest.mark.parametrize(("header", "address"), LINKS)
def test_link_headers(header: str, address: str | None) -> None:
    assert _linked(header) == address


def test_a_link_header_is_followed_to_its_end(owner: ScriptedOwner) -> None:
    def answer(received: Received) -> Answer:
        if received.query:
            return Answer(body=[OURS], headers={"Link": f'<{owner.url}/list>; rel="first"'})
        return Answer(body=[OTHER], headers={"Link": f'<{owner.url}/list?page=2>; rel="next"'})

    owner.answer = answer
    reply = ask(owner, rule={"http": {"path": "/list"}, "items": "body", "next": "headers.link"})
    assert (reply.outcome, reply.pages, reply.complete) == (FOUND, 2, True)


ENDS: list[tuple[Any, bool, str]] = [
    (None, True, "null"),
    ("", True, "empty"),
    (False, True, "false"),
    ({"a": 1}, False, "what is no cursor"),
    ("x" * 9_000, False, "one that is too long to be one"),
]


@pytest.mark.parametrize(("cursor", "complete", "why"), ENDS, ids=[why for *_, why in ENDS])
def test_where_it_ends(owner: ScriptedOwner, cursor: Any, complete: bool, why: str) -> None:
    owner.answer = said({"items": [OTHER], "next_cursor": cursor})
    reply = ask(owner)
    assert (reply.outcome, reply.complete, len(owner.received)) == (NO_MATCH, complete, 1), why


def test_a_member_that_is_not_there_is_the_end(owner: ScriptedOwner) -> None:
    owner.answer = said({"items": [OTHER]})
    assert ask(owner).complete


def test_a_number_is_a_cursor(owner: ScriptedOwner) -> None:
    owner.answer = by_after({"": page(following=2), "2": page(OURS)})  # type: ignore[arg-type]
    assert ask(owner).outcome is FOUND


def test_no_more_than_so_many_pages(owner: ScriptedOwner) -> None:
    def answer(received: Received) -> Answer:
        number = int(received.query.get("after", ["0"])[0])
        return page(OURS if number == 1 else OTHER, following=str(number + 1))

    owner.answer = answer
    reply = ask(owner, rule={"pages": 4})
    assert (reply.outcome, reply.pages, len(owner.received)) == (FOUND, 4, 4), "what was found stays found"
    assert (reply.complete, reply.stop_reason) == (False, "budget")


def test_no_longer_than_its_time(owner: ScriptedOwner) -> None:
    def answer(received: Received) -> Answer:
        time.sleep(0.3)
        return page(OTHER, following=received.query.get("after", ["0"])[0] + "1")

    owner.answer = answer
    began = time.monotonic()
    reply = ask(owner, time_left=0.8)
    assert time.monotonic() - began < 1.6
    assert reply.outcome is not FOUND
    assert not reply.complete


LATER: list[tuple[Answer, str, bool, str]] = [
    (Answer(status=503, body={}), "The owner answered 503", True, "it went down"),
    (Answer(status=429, body={}, headers={"Retry-After": "3"}), "The owner answered 429", True, "it had enough"),
    (Answer(status=403, body={}), "The owner answered 403", False, "this page is not for us"),
    (Answer(body={"items": "many"}), "no list", False, "it makes no sense"),
    (Answer(status=302, body={}, headers={"Location": "/x"}), "302", False, "it sends us away"),
]


@pytest.mark.parametrize(("second", "says", "overloaded", "why"), LATER, ids=[why for *_, why in LATER])
def test_a_later_page_that_cannot_be_read(
    owner: ScriptedOwner, second: Answer, says: str, overloaded: bool, why: str
) -> None:
    owner.answer = by_after({"": page(OTHER, following="c2"), "c2": second})
    reply = ask(owner)
    assert reply.outcome in (FAILED, NOTHING), "what was not read may hold it"
    assert says in reply.reason
    assert (reply.overloaded, reply.pages, reply.stop_reason) == (overloaded, 1, "unavailable")
    owner.answer = by_after({"": page(OURS, following="c2"), "c2": second})
    reply = ask(owner)
    assert (reply.outcome, reply.matches, reply.complete) == (FOUND, 1, False), "what was found stays found"


def test_truncation_stays_to_the_end(owner: ScriptedOwner) -> None:
    owner.answer = by_after({"": page(OTHER, following="c2", truncated=True), "c2": page(OTHER)})
    reply = ask(owner, rule={"truncated": "body.truncated"})
    assert (reply.outcome, reply.complete, reply.stop_reason) == (NO_MATCH, False, "truncated")


def test_an_owner_that_answers_404_for_nothing(owner: ScriptedOwner) -> None:
    owner.answer = said({}, status=404)
    assert ask(owner).outcome is NOTHING
    reply = ask(owner, rule={"no_match": "status == 404", "lag": "0s"})
    assert (reply.outcome, reply.complete) == (NO_MATCH, True)


def test_what_moved_to_a_later_page_is_one_object(owner: ScriptedOwner) -> None:
    owner.answer = by_after({"": page(OTHER, OURS, following="c2"), "c2": page(OURS)})
    assert ask(owner).matches == 1
    owner.answer = by_after({"": page(OURS, OURS)})
    assert ask(owner).matches == 2, "on one page they are two"
    twin = {**OURS, "id": None}
    owner.answer = by_after({"": page(twin, following="c2"), "c2": page(twin)})
    assert ask(owner).matches == 2, "without a name nobody knows: there may be a duplicate"


def test_no_more_than_twenty_are_named(owner: ScriptedOwner) -> None:
    owner.answer = by_after({"": page(*[{**OURS, "id": f"t-{number}"} for number in range(30)])})
    reply = ask(owner)
    assert (reply.matches, len(reply.found)) == (30, 20)
    assert reply.found[0] == {"id": "t-0"}


def test_an_item_that_cannot_be_compared_is_not_called_absent(owner: ScriptedOwner) -> None:
    owner.answer = by_after({"": page({"id": "t-3"}, OTHER)})
    reply = ask(owner)
    assert (reply.outcome, reply.complete) == (NO_MATCH, False)
    assert "1 of 2 objects" in reply.reason


def test_null_never_equals_null(owner: ScriptedOwner) -> None:
    """An operation without a key is not every object without one."""
    owner.answer = by_after({"": page({"id": "t-3", "key": None})})
    asked = question({**RULE, "match": "item.key == idempotency_key"}, base_url=owner.url)
    reply = SearchLookup().ask(replace(asked, idempotency_key=None))
    assert reply.outcome is NOTHING
    assert "idempotency_key" in reply.reason
    asked = question({**RULE, "match": "item.title == payload.title"}, base_url=owner.url)
    assert SearchLookup().ask(replace(asked, payload=None)).outcome is NOTHING


def test_what_is_read_of_the_item_and_what_of_the_page(owner: ScriptedOwner) -> None:
    owner.answer = said({"items": [{**OURS, "state": "paid"}], "index": "r8", "state": "unpaid"})
    reply = ask(
        owner,
        rule={
            "revision": "body.index",
            "effect": {"applied": "body.state == 'paid'", "none": "body.state == 'unpaid'"},
            "same": {"title": "body.title"},
        },
    )
    assert (reply.revision, reply.effect, reply.differs) == ("r8", Effect.APPLIED, ())


@given(
    sizes=st.lists(st.integers(0, 3), min_size=1, max_size=5),
    at=st.integers(0, 14),
    again=st.integers(0, 5),
)
@settings(deadline=None, max_examples=25)
def test_it_is_found_on_whichever_page_it_stands(sizes: list[int], at: int, again: int) -> None:
    """And nothing is called absent and complete that stands on a page, whatever the pages look like."""
    items = [[{**OTHER, "id": f"o-{number}-{each}"} for each in range(size)] for number, size in enumerate(sizes)]
    place = at % len(sizes)
    items[place].append(OURS)
    cursors = [f"c{number}" for number in range(1, len(sizes))]
    following = [*cursors, cursors[again % len(cursors)] if cursors and again < 3 else None]
    pages = {"": page(*items[0], following=following[0])}
    pages |= {f"c{number}": page(*items[number], following=following[number]) for number in range(1, len(sizes))}
    with ScriptedOwner() as owner:
        owner.answer = by_after(pages)
        reply = ask(owner, time_left=5)
        assert (reply.outcome, reply.matches) == (FOUND, 1)
        assert reply.complete is (following[-1] is None)
        assert len(owner.received) == len(sizes)


def test_a_page_of_countless_items_costs_no_more_than_its_time(owner: ScriptedOwner) -> None:
    owner.answer = lambda received: Answer(body=b'{"items": [' + b"{}," * 340_000 + b'{"last": 1}]}')
    large = {**PAYLOAD, "text": "x" * 40_000}
    asked = question({**RULE, "match": "item.title == payload.title && payload.text != ''"}, base_url=owner.url)
    began = time.monotonic()
    reply = SearchLookup().ask(replace(asked, payload=large, time_left=10))
    assert time.monotonic() - began < 8
    assert (reply.outcome, reply.complete, reply.stop_reason) == (NO_MATCH, False, "budget")
