"""`lookup.by: search` and `lookup.by: list`: every page of the owner's index, and what on them is ours.

| the page                                          | then                                                                    |
| ------------------------------------------------- | ----------------------------------------------------------------------- |
| `no_match` holds                                  | it is the last one, and empty                                           |
| is no success, or `items` yields no list          | reading ends; what was found before still counts, nothing is absent     |
| has a next one (`next`)                           | it is read, found or not: a second match is a possible duplicate        |
| is empty and has a next one                       | likewise: it does not make the result empty                             |
| names a page that was read already                | reading ends: not complete                                              |
| is cut short (`truncated`)                        | it counts, and the result is not complete                               |
| comes after `pages` pages or 20,000 items, or the time is up | reading ends: not complete                                   |

`next` yields the cursor, which goes unchanged where the template says `{cursor}`; a template without `{cursor}` expects
the next page's address, whole or relative, or a Link header (RFC 8288). On the first page the parameter or member with
`{cursor}` is left out. `next` that yields nothing, null, false or empty text means that there is no more.

`found`, `effect`, `same` and `event_at` are asked of the item that matches (`body` is the item); `no_match`, `items`,
`next`, `truncated` and `revision` of the page.

An index proves what it shows, never what it does not show: grading sees to that.
"""

import json
import re
import time
from dataclasses import dataclass, field, replace
from typing import Any, Final

import httpx2

from ledger.rules.contract_sections import LookupRequest
from ledger.rules.expressions import MISSING, Context
from ledger.rules.read_pages import SearchStop
from ledger.rules.vocabulary import LookupOutcome
from recovery.owners.answers import Told, not_asked, of_items, unknown_to_the_contract, with_page
from recovery.owners.base import Question, Reply
from recovery.owners.http import Answered, ask_over_http
from recovery.owners.requests import takes_cursor

LONGEST: Final = 12.0
"""Seconds for all pages together."""
READING: Final = 0.8
"""The share of a question's time that reading may take; the rest is for comparing."""
MOST_ITEMS: Final = 20_000
_LONGEST_CURSOR: Final = 8_192
_LINK = re.compile(r"<([^<>]*)>((?:\s*;\s*[^,;<>\"]+(?:\"[^\"]*\")?)*)")
_NEXT = re.compile(r";\s*rel\s*=\s*(?:\"(?:[^\"]*\s)?next(?:\s[^\"]*)?\"|next\b)", re.IGNORECASE)


class SearchLookup:
    """Reads a search or a list to its end, as far as the contract, the time and the owner allow."""

    def ask(self, question: Question) -> Reply:
        """One GET or POST a page."""
        rule = question.lookup.rule
        if rule.http is None or question.lookup.items is None:
            return not_asked("The contract does not say what to ask for, or where the items stand")
        ends = time.monotonic() + question.time_left
        reading = _Reading(question=question, http=rule.http)
        failed = reading.read()
        if failed is not None and not reading.pages:
            return failed
        reply = of_items(question, reading.items, reading.told, ends=ends)
        if reply.outcome is LookupOutcome.NO_MATCH and failed is not None:
            # What was not read may hold it: this is no answer at all.
            return replace(failed, pages=reading.pages, complete=False, stop_reason=reading.told.stop_reason)
        return reply


@dataclass(slots=True, kw_only=True)
class _Reading:
    """The pages as far as they have been read."""

    question: Question
    http: LookupRequest
    told: Told = field(default_factory=Told)
    items: list[Any] = field(default_factory=list)
    pages: int = 0
    _asked: set[str] = field(default_factory=set)
    _known: set[str] = field(default_factory=set)

    def read(self) -> Reply | None:
        """Reads until there is no more. The reply of the page that could not be read, if one could not."""
        ends = time.monotonic() + min(LONGEST, self.question.time_left * READING)
        cursor = url = None
        while True:
            left = ends - time.monotonic()
            if self.pages >= self.question.lookup.rule.pages or left <= 0:
                self._stop(SearchStop.BUDGET)
                return None
            answer = ask_over_http(self.question, self.http, seconds=left, cursor=cursor, url=url)
            if not isinstance(answer, Answered):
                self._stop(SearchStop.UNAVAILABLE)
                return answer
            context = Context.answer(
                status=answer.told.status,
                headers=answer.told.headers,
                body=answer.value,
                speaker="owner",
                lowered=True,
            )
            failed = self._take(answer, context)
            if failed is not None:
                self._stop(SearchStop.UNAVAILABLE)
                return failed
            following = self._following(answer, context)
            if following is None or self.told.stop_reason == SearchStop.BUDGET:
                return None
            if following in self._asked:
                self._stop(SearchStop.REPEATED_CURSOR)
                return None
            self._asked.add(following)
            if takes_cursor(self.http):
                cursor = following
            else:
                url = following

    def _take(self, answer: Answered, context: Context) -> Reply | None:
        """Counts one page in; a reply when it cannot be read."""
        lookup, told = self.question.lookup, answer.told
        nothing = lookup.no_match is not None and lookup.no_match.matches(context)
        page = [] if nothing else lookup.items.read(context) if lookup.items is not None else MISSING
        if not nothing and not told.is_success:
            return unknown_to_the_contract(told)
        if not isinstance(page, list | tuple):
            reason = "The answer holds no list where the contract looks for one"
            return told.reply(LookupOutcome.INCONCLUSIVE, complete=False, reason=reason)
        if not self.pages:
            self._asked.add(answer.url if not takes_cursor(self.http) else "")
        self.pages += 1
        before = self.told
        self.told = with_page(self.question, context, replace(told, complete=before.complete, pages=self.pages))
        self.told = replace(
            self.told,
            query=before.query or told.query,
            body=before.body or told.body,
            stop_reason=before.stop_reason or self.told.stop_reason,
        )
        self._add(page)
        return None

    def _add(self, page: list[Any] | tuple[Any, ...]) -> None:
        """An object that moved to a later page while we read is one object, where something names it."""
        new = []
        room = max(MOST_ITEMS - len(self.items), 0)
        if len(page) > room:
            self._stop(SearchStop.BUDGET)
        for item in page[:room]:
            name = _identity(self.question, item)
            if name is None or name not in self._known:
                self.items.append(item)
            if name is not None:
                new.append(name)
        self._known.update(new)

    def _following(self, answer: Answered, context: Context) -> str | None:
        """The next page's cursor or address; None when there is none."""
        lookup = self.question.lookup
        if lookup.next is None:
            return None
        value = lookup.next.read(context)
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if value in (MISSING, None, False, ""):
            return None
        if not isinstance(value, str) or len(value) > _LONGEST_CURSOR:
            self._stop(SearchStop.UNAVAILABLE)
            return None
        if takes_cursor(self.http):
            return value
        address = _linked(value) if value.lstrip().startswith("<") else value
        if address is None:
            return None
        try:
            return str(httpx2.URL(answer.url).join(address))
        except (httpx2.InvalidURL, ValueError):
            self._stop(SearchStop.UNAVAILABLE)
            return None

    def _stop(self, reason: SearchStop) -> None:
        self.told = replace(self.told, complete=False, stop_reason=reason.value)


def _linked(header: str) -> str | None:
    """The address with `rel=next` of a Link header."""
    for address, parameters in _LINK.findall(header[:_LONGEST_CURSOR]):
        if _NEXT.search(parameters):
            return str(address)
    return None


def _identity(question: Question, item: Any) -> str | None:
    """An object as a whole, where the contract's receipt reads a name from it; else two alike may be two."""
    if not question.receipts:
        return None
    context = Context.answer(body=item)
    if not all(isinstance(value.read(context), str | int) for value in question.receipts.values()):
        return None
    try:
        return json.dumps(item, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        return None
