"""`lookup.by: status`: one authoritative question by our key, over HTTP.

| the owner                                        | outcome                                    |
| ------------------------------------------------ | ------------------------------------------ |
| matches `found`, and `effect` says what it is    | found                                      |
| matches `found`, but no effect condition holds   | inconclusive                               |
| matches `found`, a `same` field cannot be read   | inconclusive                               |
| matches `no_match`                               | no_match                                   |
| answers anything else, a redirect too            | inconclusive; 5xx, 401, 403, 429: failed   |
| cannot be reached, is too slow, answers too much | lookup_failed                              |
"""

import json
import time
from collections.abc import Iterator
from typing import Any, Final

import httpx2

from ledger.rules.expressions import MISSING, Context
from ledger.rules.templates import NotRendered, render_path
from ledger.rules.vocabulary import LookupOutcome
from recovery.owners.base import Question, Reply
from recovery.owners.credentials import CredentialMissing, authorization

LARGEST_ANSWER: Final = 1024 * 1024
"""Bytes, after decompression; an owner that answers more is not read to its end."""
SLOWEST: Final = 5.0
"""Seconds for one answer, from connecting to its last byte."""
_FAILED: Final = frozenset({401, 403, 407, 408, 425, 429})


class StatusLookup:
    """Asks an owner's status address. Follows no redirect and repeats nothing."""

    def ask(self, question: Question) -> Reply:
        """One GET, HEAD or POST as the contract writes it."""
        rule = question.lookup.rule
        if rule.http is None or rule.http.path is None:
            return _failed("The contract names no address to ask.", query="")
        try:
            path = render_path(rule.http.path, values=_values(question))
            credential = authorization(rule.credential)
        except NotRendered as error:
            return _inconclusive(f"The address needs {error.name}, which this operation does not have", query="")
        except CredentialMissing as error:
            return _failed(f"The credential {error} is not set where the worker runs", query=rule.http.path)
        url = question.reach.base_url.rstrip("/") + path
        query = f"{rule.http.method} {path}"
        try:
            status, headers, text = _fetch(
                method=rule.http.method,
                url=url,
                headers={"Accept": "application/json"} | ({"Authorization": credential} if credential else {}),
                seconds=min(SLOWEST, question.time_left),
            )
        except _TooMuch:
            return _failed(f"The answer was larger than {LARGEST_ANSWER // 1024} KiB", query=query)
        except _TooSlow:
            return _failed("The answer took too long", query=query)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            return _failed(f"The owner could not be asked: {_plainly(error)}", query=query)
        return _understood(
            question, status=status, headers=headers, text=text, query=query, principal=rule.credential or ""
        )


def _understood(
    question: Question, *, status: int, headers: dict[str, str], text: str, query: str, principal: str
) -> Reply:
    lookup = question.lookup
    context = Context.answer(status=status, headers=headers, body=_parsed(text), speaker="owner")
    told: dict[str, Any] = {"status": status, "query": query, "principal": principal, "body": text}
    if lookup.truncated is not None and lookup.truncated.matches(context) is not False:
        told["complete"] = False
    if lookup.revision is not None and isinstance(revision := lookup.revision.read(context), str | int):
        told["revision"] = str(revision)
    if lookup.found is not None and lookup.found.matches(context):
        effect = lookup.effect_of(context)
        if effect is None:
            return Reply(
                outcome=LookupOutcome.INCONCLUSIVE, reason="The object's state is none that the contract knows", **told
            )
        differs = []
        for member, field in lookup.same.items():
            seen, meant = field.read(context), _member(question.payload, member)
            if seen is MISSING or meant is MISSING:
                return Reply(
                    outcome=LookupOutcome.INCONCLUSIVE,
                    reason=f"{member} cannot be compared with what was meant",
                    **told,
                )
            if seen != meant:
                differs.append((member, meant, seen))
        return Reply(outcome=LookupOutcome.FOUND, effect=effect, matches=1, differs=tuple(differs), **told)
    if lookup.no_match is not None and lookup.no_match.matches(context):
        return Reply(outcome=LookupOutcome.NO_MATCH, **told)
    if status >= 500 or status in _FAILED:
        return Reply(outcome=LookupOutcome.LOOKUP_FAILED, reason=f"The owner answered {status}", **told)
    return Reply(
        outcome=LookupOutcome.INCONCLUSIVE,
        reason=f"The owner answered {status}, which the contract does not know",
        **told,
    )


class _TooMuch(Exception):
    """More bytes than we read."""


class _TooSlow(Exception):
    """Its time is up."""


def _fetch(*, method: str, url: str, headers: dict[str, str], seconds: float) -> tuple[int, dict[str, str], str]:
    ends = time.monotonic() + seconds
    timeout = httpx2.Timeout(seconds, connect=min(2.0, seconds))
    with (
        httpx2.Client(timeout=timeout, follow_redirects=False, trust_env=False) as client,
        client.stream(method, url, headers=headers) as answer,
    ):
        parts = bytearray()
        for part in _within(answer.iter_bytes(), ends):
            parts += part
            if len(parts) > LARGEST_ANSWER:
                raise _TooMuch
        return answer.status_code, dict(answer.headers), parts.decode(answer.encoding or "utf-8", "replace")


def _within(parts: Iterator[bytes], ends: float) -> Iterator[bytes]:
    for part in parts:
        if time.monotonic() > ends:
            raise _TooSlow
        yield part


def _values(question: Question) -> dict[str, Any]:
    return {
        "operation_id": question.operation_id,
        "idempotency_key": question.idempotency_key,
        "payload": question.payload,
        "receipt": question.receipt,
    }


def _member(payload: Any, path: str) -> Any:
    for step in path.split("."):
        if not isinstance(payload, dict) or step not in payload:
            return MISSING
        payload = payload[step]
    return payload


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _plainly(error: Exception) -> str:
    """The kind of failure, without addresses or secrets that a message may hold."""
    return type(error).__name__


def _failed(reason: str, *, query: str) -> Reply:
    return Reply(outcome=LookupOutcome.LOOKUP_FAILED, complete=False, reason=reason, query=query)


def _inconclusive(reason: str, *, query: str) -> Reply:
    return Reply(outcome=LookupOutcome.INCONCLUSIVE, complete=False, reason=reason, query=query)
