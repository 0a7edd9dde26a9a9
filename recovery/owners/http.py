"""Putting a lookup's HTTP question, and what every answer means before the contract is asked.

| the owner                                          | outcome                                               |
| -------------------------------------------------- | ----------------------------------------------------- |
| cannot be reached, is too slow, answers too much   | lookup_failed                                         |
| answers 401                                        | lookup_failed: it does not accept the credential      |
| answers 408, 425, 429 or any 5xx                   | lookup_failed: it is overloaded, and may say how long |
| says JSON and sends something else                 | lookup_failed                                         |
| answers anything else                              | what the contract says of it                          |

A lookup that failed is never "not found", whatever a contract's `no_match` says.
"""

import json
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from ledger.rules.contract_compiled import CompiledLookup
from ledger.rules.contract_sections import LookupRequest
from ledger.rules.templates import NotRendered
from ledger.rules.vocabulary import LookupOutcome
from recovery.judgement.waits import wait_of
from recovery.owners.answers import Told, missing, not_asked, values_of
from recovery.owners.base import Question, Reply
from recovery.owners.credentials import CredentialMissing
from recovery.owners.outgoing import Exchanged, Failure, NotExchanged, exchange
from recovery.owners.requests import rendered

SLOWEST: Final = 5.0
"""Seconds for one answer, from resolving the name to its last byte."""
BUSY: Final = frozenset({408, 425, 429})
"""Statuses below 500 by which an owner says that it is overloaded."""
DOWN: Final = frozenset({Failure.RESOLVE, Failure.CONNECT, Failure.TLS, Failure.TOO_SLOW, Failure.BROKEN})
"""Failures that say the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """An answer that the contract may be asked about."""

    value: Any
    """The body: JSON where it is that, else text."""
    told: Told
    url: str
    """Where it came from, after redirects."""
    is_page_for_people: bool
    """HTML, as a login page or a gateway sends it, where JSON was asked for."""


def ask_over_http(
    question: Question,
    http: LookupRequest,
    *,
    seconds: float,
    cursor: str | None = None,
    url: str | None = None,
    redirects: int = 0,
) -> Answered | Reply:
    """One question. A Reply is final: it could not be put, or was not answered in a way that says anything."""
    rule = question.lookup.rule
    told = Told(query=f"{http.method} {http.path or http.at}", principal=rule.credential or "")
    try:
        request, query = rendered(
            http,
            values=values_of(question),
            reach=question.reach,
            credential=rule.credential,
            secrets=question.secrets,
            cursor=cursor,
            url=url,
        )
    except NotRendered as error:
        return missing(error.name, told)
    except CredentialMissing as error:
        return not_asked(str(error), told)
    told = replace(told, query=query)
    answer = exchange(request, reach=question.reach, seconds=min(SLOWEST, seconds), redirects=redirects)
    if isinstance(answer, NotExchanged):
        return not_exchanged(answer, told)
    return _answered(question, answer, told)


def unless_for_people(question: Question, answer: Answered, reply: Reply) -> Reply:
    """The reply, but for something found on a page of HTML in which the contract looks at nothing: a login page answers
    200 too."""
    if reply.outcome is LookupOutcome.FOUND and answer.is_page_for_people and not _looks_inside(question.lookup):
        reason = "The answer is a page for people, and the contract looks at nothing in it"
        return answer.told.reply(LookupOutcome.INCONCLUSIVE, reason=reason)
    return reply


def not_exchanged(answer: NotExchanged, told: Told) -> Reply:
    """What a question comes to that was not answered."""
    return replace(not_asked(answer.reason, told), status=answer.status, overloaded=answer.failure in DOWN)


def parsed(text: str) -> tuple[Any, bool]:
    """JSON where it is that, else the text itself; and whether it was."""
    try:
        return json.loads(text), True
    except (ValueError, RecursionError):
        return text, False


def _looks_inside(lookup: CompiledLookup) -> bool:
    conditions = [lookup.found, *(condition for _, condition in lookup.effects)]
    looked_at = [condition.variables for condition in conditions if condition is not None]
    looked_at += [place.variables for place in lookup.same.values()]
    return any(variables & {"body", "headers"} for variables in looked_at)


def _answered(question: Question, answer: Exchanged, told: Told) -> Answered | Reply:
    status, headers = answer.status, answer.headers
    kind = headers.get("content-type", "").partition(";")[0].lower()
    value, is_json = parsed(answer.text)
    wait = wait_of(
        headers=headers,
        body=value,
        observed_at=None,
        now=question.started_at + timedelta(milliseconds=answer.elapsed_ms),
        refused_by_limiter=status == 429,
    )
    told = replace(
        told,
        status=status,
        headers=headers,
        body=answer.text,
        retry_after_ms=wait.milliseconds if wait is not None else None,
    )
    if status == 401:
        reason = "The owner answered 401: it does not accept the credential"
        return told.reply(LookupOutcome.LOOKUP_FAILED, complete=False, reason=reason, refused_credential=True)
    if status >= 500 or status in BUSY:
        reason = f"The owner answered {status}"
        return told.reply(LookupOutcome.LOOKUP_FAILED, complete=False, reason=reason, overloaded=True)
    if "json" in kind and not is_json and answer.text.strip():
        reason = "The answer is not the JSON that it says it is"
        return told.reply(LookupOutcome.LOOKUP_FAILED, complete=False, reason=reason)
    return Answered(value=value, told=told, url=answer.url, is_page_for_people=not is_json and "html" in kind)
