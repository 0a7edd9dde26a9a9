"""How far do the pages of a search reach, and what may be said of what is not on them?

| the page                                  | then                                                            |
| ----------------------------------------- | --------------------------------------------------------------- |
| has a cursor                              | the next one is asked for with it, unchanged; same query, same scope |
| is empty and has a cursor                 | likewise: it does not make the search empty                     |
| has a cursor that was seen before         | the search stops: it would go round for ever                    |
| is cut short (`truncated`)                | it counts, and the limitation stays to the end                  |
| has no cursor                             | the search is at its end; complete, unless something was cut    |
| is to another query, scope or cursor      | refused                                                         |
| repeats a document in the same revision   | it counts once; another revision is another document            |

A match may end a search early. That nothing matches may be said of a complete search alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from ledger.rules.reads import ReadOutcome


class SearchStop(StrEnum):
    """Why no further page is asked for."""

    COMPLETE = "complete"
    """The source says that there is no more, and cut nothing."""
    TRUNCATED = "truncated"
    """The source says that there is no more, and cut something: what was cut is not known."""
    ENOUGH = "enough"
    """What was found answers the question. It does not say that there is nothing else."""
    REPEATED_CURSOR = "repeated_cursor"
    """The source handed out a cursor for the second time."""
    BUDGET = "budget"
    """Attempts or time ended first."""
    UNAVAILABLE = "unavailable"
    """A page could not be read."""


class PageRefused(ValueError):
    """The page does not belong to this search. Ask for the page that `next_page` names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One document that a search found."""

    id: str
    revision: str | None
    values: Mapping[str, Any]
    observed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """Exactly what to ask for next."""

    query: str
    scope: str
    cursor: str | None
    """Copied from the page before; None for the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A search as far as it has come."""

    query: str
    scope: str
    pages: int = 0
    cursor: str | None = None
    """Of the next page."""
    cursors: frozenset[str] = frozenset()
    """All that were handed out."""
    documents: tuple[Document, ...] = ()
    truncated: bool = False
    """Something was cut from a page. Nothing later takes this back."""
    observed_at: datetime | None = None
    """When its last page was read."""
    stop: SearchStop | None = None
    problems: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether everything that matches has been seen."""
        return self.stop is SearchStop.COMPLETE

    @property
    def outcome(self) -> ReadOutcome:
        """What may be said of it now."""
        if self.documents:
            return ReadOutcome.OK if self.stop in (SearchStop.COMPLETE, SearchStop.ENOUGH) else ReadOutcome.PARTIAL
        if self.complete:
            return ReadOutcome.NO_MATCH
        return ReadOutcome.PARTIAL if self.pages else ReadOutcome.UNAVAILABLE

    @property
    def limitation(self) -> str | None:
        """What keeps it from being complete, in words; None when nothing does."""
        if self.stop is None:
            return "There are more pages to read."
        if self.truncated and self.stop in (SearchStop.ENOUGH, SearchStop.TRUNCATED):
            return "The source cut something short, so what else there is is not known."
        return _LIMITATIONS.get(self.stop)


def next_page(search: Search) -> PageRequest | None:
    """What to ask for next; None when the search has stopped. Ask `read_budget.may_read` before sending it."""
    if search.stop is not None:
        return None
    return PageRequest(query=search.query, scope=search.scope, cursor=search.cursor)


def with_page(search: Search, *, request: PageRequest, page: Any, observed_at: datetime) -> Search:
    """The search with one more page.

    Raises:
        PageRefused: it was asked with another query, scope or cursor than `next_page` names, or the search has stopped.
    """
    if request != next_page(search):
        raise PageRefused("The page was asked for with another query, scope or cursor than this search has.")
    items = page.get("items") if isinstance(page, Mapping) else None
    cursor = page.get("next_cursor") if isinstance(page, Mapping) else None
    if not isinstance(items, list) or not (cursor is None or isinstance(cursor, str)):
        return replace(search, stop=SearchStop.UNAVAILABLE, problems=(*search.problems, "A page is malformed."))
    # A page that does not say whether it was cut is not known to be whole.
    truncated = search.truncated or page.get("truncated") is not False
    documents, nameless = _with(search.documents, items, observed_at)
    problems = search.problems
    if nameless:
        truncated = True
        problems = (*problems, f"{nameless} results have no identity and were left out.")
    found = replace(
        search,
        pages=search.pages + 1,
        documents=documents,
        truncated=truncated,
        observed_at=observed_at,
        problems=problems,
    )
    if not cursor:
        return replace(found, cursor=None, stop=SearchStop.TRUNCATED if truncated else SearchStop.COMPLETE)
    if cursor in search.cursors:
        return replace(found, cursor=None, stop=SearchStop.REPEATED_CURSOR)
    return replace(found, cursor=cursor, cursors=search.cursors | {cursor})


def stopped(search: Search, *, reason: SearchStop) -> Search:
    """The search when somebody else ends it. One that has stopped already keeps its own reason."""
    return search if search.stop is not None else replace(search, stop=reason)


def _with(known: tuple[Document, ...], items: list[Any], observed_at: datetime) -> tuple[tuple[Document, ...], int]:
    documents = list(known)
    identities = {(document.id, document.revision) for document in known}
    nameless = 0
    for item in items:
        id = item.get("id") if isinstance(item, Mapping) else None
        if not isinstance(id, str) or not id:
            nameless += 1
            continue
        revision = item.get("revision")
        revision = revision if isinstance(revision, str) and revision else None
        if (id, revision) not in identities:
            identities.add((id, revision))
            documents.append(Document(id=id, revision=revision, values=dict(item), observed_at=observed_at))
    return tuple(documents), nameless


_LIMITATIONS = {
    SearchStop.TRUNCATED: "The source cut something short, so what else there is is not known.",
    SearchStop.ENOUGH: "It was ended once it answered the question; what else there is was not read.",
    SearchStop.REPEATED_CURSOR: "The source handed out the same cursor twice, so the rest could not be read.",
    SearchStop.BUDGET: "Attempts or time ended before the last page.",
    SearchStop.UNAVAILABLE: "A page could not be read.",
}
