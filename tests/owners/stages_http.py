"""The HTTP kinds on the stage of the conformance suite, before a scripted owner on loopback."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from recovery.owners.base import OwnerAdapter, Reply
from recovery.owners.operation import OperationLookup
from recovery.owners.search import SearchLookup
from recovery.owners.status import StatusLookup
from tests.owners.conformance import OPERATION_ID, PAYLOAD, SECRET, Situation, question
from tests.owners.scripted import Answer, Received, ScriptedOwner, bomb, drip

OURS = {"truncated": False, "id": "t-1", "external_id": OPERATION_ID, "state": "open", **PAYLOAD}
OTHER = {"id": "t-9", "external_id": "another", "state": "open", **PAYLOAD}
EFFECT = {"applied": "body.state == 'open'", "pending": "body.state == 'creating'", "none": "body.state == 'rejected'"}
SAME = {"title": "body.title", "customer": "body.customer"}
STATUS = {
    "by": "status",
    "http": {"path": "/tickets/by-key/{idempotency_key}"},
    "found": "status == 200",
    "no_match": "status == 404",
    "effect": EFFECT,
    "same": SAME,
    "truncated": "body.truncated == true",
    "authoritative": True,
    "as": "secret:helpdesk",
    "sees": "all",
    "lag": "0s",
}
SEARCH = {
    "by": "search",
    "http": {"path": "/tickets?q={operation_id}&cursor={cursor}"},
    "items": "body.items",
    "next": "body.next_cursor",
    "match": "item.external_id == operation_id",
    "effect": EFFECT,
    "same": SAME,
    "truncated": "body.truncated == true",
    "as": "secret:helpdesk",
}
OPERATION = {
    "by": "operation",
    "http": {"at": "operation"},
    "effect": EFFECT,
    "same": SAME,
    "truncated": "body.truncated == true",
    "as": "secret:helpdesk",
}
Answers = Mapping[Situation, Callable[[Received], Answer | None]]


def said(body: Any, *, status: int = 200, **headers: str) -> Callable[[Received], Answer | None]:
    """The same answer to every request."""
    return lambda received: Answer(status=status, body=body, headers=headers)


def garbage(received: Received) -> None:
    """What is no HTTP."""
    received.write(b"220 smtp.example ESMTP\r\n")


SAME_EVERYWHERE: Answers = {
    Situation.FAILED: said({"error": "down"}, status=503),
    Situation.SLOW: drip,
    Situation.HUGE: lambda received: bomb(),
    Situation.WRONG_PRINCIPAL: said({"error": "who are you"}, status=401),
}
NO_PAGES = {Situation.REPEATED_CURSOR: "one answer has no pages", Situation.SEVERAL: "one answer shows one object"}


class HttpStage:
    """One HTTP adapter before one scripted owner."""

    def __init__(
        self,
        *,
        adapter: OwnerAdapter,
        rule: Mapping[str, Any],
        owner: ScriptedOwner,
        elsewhere: ScriptedOwner,
        answers: Answers,
        cannot: Mapping[Situation, str],
        receipt: Mapping[str, Any] | None = None,
    ) -> None:
        self.cannot = cannot
        self._adapter = adapter
        self._rule = dict(rule)
        self._owner = owner
        self._elsewhere = elsewhere
        self._answers = {**SAME_EVERYWHERE, **answers}
        self._receipt = receipt or {}

    def ask(self, situation: Situation) -> Reply:
        """As the reconciler asks."""
        bomb()
        self._elsewhere.answer = said(OURS)
        self._owner.answer = self._answers.get(situation) or said(
            "", status=302, Location=f"{self._elsewhere.url}/tickets/t-1"
        )
        receipt = {} if situation is Situation.WITHOUT_HANDLE else self._receipt
        asked = question(self._rule, base_url=self._owner.url, receipt=receipt, secrets={"helpdesk": SECRET})
        reply = self._adapter.ask(asked)
        assert self._elsewhere.received == [], "nobody else was asked"
        assert all(received.headers["authorization"] == f"Bearer {SECRET}" for received in self._owner.received)
        return reply


@pytest.fixture
def owner() -> Iterator[ScriptedOwner]:
    """The owner."""
    with ScriptedOwner() as running:
        yield running


@pytest.fixture
def elsewhere() -> Iterator[ScriptedOwner]:
    """Somebody whom nobody may ask."""
    with ScriptedOwner() as running:
        yield running


@pytest.fixture
def status_stage(owner: ScriptedOwner, elsewhere: ScriptedOwner) -> HttpStage:
    """`by: status`."""
    return HttpStage(
        adapter=StatusLookup(),
        rule=STATUS,
        owner=owner,
        elsewhere=elsewhere,
        answers={
            Situation.FOUND: said(OURS),
            Situation.NO_MATCH: said({"error": "no such ticket", "truncated": False}, status=404),
            Situation.PENDING: said({**OURS, "state": "creating"}),
            Situation.DIFFERENT: said({**OURS, "title": "Other"}),
            Situation.MALFORMED: said('{"state": "open", "title"'),
            Situation.TRUNCATED: said({"truncated": True}, status=404),
        },
        cannot={**NO_PAGES, Situation.WITHOUT_HANDLE: "it is asked by our own key"},
    )


def by_pages(pages: Mapping[str, Answer]) -> Callable[[Received], Answer | None]:
    """The page that the cursor names; the first one has none."""
    return lambda received: pages[received.query.get("cursor", [""])[0]]


def page(*items: Any, following: str | None = None, **more: Any) -> Answer:
    """One page of a search."""
    return Answer(body={"items": list(items), "next_cursor": following, "truncated": False, **more})


SEARCHED: Answers = {
    Situation.FOUND: by_pages({"": page(following="c 2/+"), "c 2/+": page(OTHER, OURS)}),
    Situation.NO_MATCH: by_pages({"": page(OTHER, following="c2"), "c2": page()}),
    Situation.PENDING: by_pages({"": page({**OURS, "state": "creating"})}),
    Situation.DIFFERENT: by_pages({"": page({**OURS, "title": "Other"})}),
    Situation.SEVERAL: by_pages({"": page(OURS, following="c2"), "c2": page({**OURS, "id": "t-2"})}),
    Situation.MALFORMED: said({"items": "many"}),
    Situation.TRUNCATED: by_pages({"": page(OTHER, truncated=True)}),
    Situation.REPEATED_CURSOR: by_pages({"": page(OTHER, following="c2"), "c2": page(OTHER, following="c2")}),
}


@pytest.fixture
def search_stage(owner: ScriptedOwner, elsewhere: ScriptedOwner) -> HttpStage:
    """`by: search`."""
    cannot = {Situation.WITHOUT_HANDLE: "it is asked by our own name for it"}
    return HttpStage(
        adapter=SearchLookup(), rule=SEARCH, owner=owner, elsewhere=elsewhere, answers=SEARCHED, cannot=cannot
    )


@pytest.fixture
def list_stage(owner: ScriptedOwner, elsewhere: ScriptedOwner) -> HttpStage:
    """`by: list`, asked with POST, the cursor in the body."""

    def of_body(answers: Callable[[Received], Answer | None]) -> Callable[[Received], Answer | None]:
        import json

        def answer(received: Received) -> Answer | None:
            asked = json.loads(received.body)
            query = {"cursor": [asked["page"]["after"]]} if "after" in asked["page"] else {}
            return answers(Received(**{**{n: getattr(received, n) for n in Received.__slots__}, "query": query}))

        return answer

    rule = {
        **SEARCH,
        "by": "list",
        "http": {"method": "POST", "path": "/tickets/filter", "body": {"page": {"after": "{cursor}", "size": 2}}},
    }
    return HttpStage(
        adapter=SearchLookup(),
        rule=rule,
        owner=owner,
        elsewhere=elsewhere,
        answers={situation: of_body(answer) for situation, answer in SEARCHED.items()},
        cannot={Situation.WITHOUT_HANDLE: "it is asked by our own name for it"},
    )


@pytest.fixture
def operation_stage(owner: ScriptedOwner, elsewhere: ScriptedOwner) -> HttpStage:
    """`by: operation`, by the address that the owner handed out."""
    return HttpStage(
        adapter=OperationLookup(),
        rule=OPERATION,
        owner=owner,
        elsewhere=elsewhere,
        receipt={"operation": "/operations/o-1"},
        answers={
            Situation.FOUND: said(OURS),
            Situation.PENDING: said({"state": "creating"}, status=202, **{"Retry-After": "7"}),
            Situation.DIFFERENT: said({**OURS, "title": "Other"}),
            Situation.MALFORMED: garbage,
            Situation.TRUNCATED: said({"truncated": True}),
        },
        cannot={**NO_PAGES, Situation.NO_MATCH: "a handle that is not known may have expired: 404 is no absence"},
    )
