"""Which operations match a filter, and where does a page of them end?

`ledger.rules.filters` reads what was written; here it becomes conditions over `operation o` alone, in one SQL text for
the queue, its counts, its groups, bulk and the API. Tools, owners and the desk come in as subqueries, so that a rare
claim or label is found from its own index and not by reading everything that is open.
"""

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from ledger.rules.contract_sections import Priority
from ledger.rules.filters import ME, NOBODY, QUALIFIERS, Is, Parsed, Problem, Term, parse
from ledger.rules.vocabulary import State

BREACHES_WITHIN: Final = timedelta(hours=1)
"""An answer that is due within this time is about to be late."""


class FilterInvalid(ValueError):
    """A token of the filter is not understood. `token` is the token as written; the sentence says what is."""

    def __init__(self, token: str, sentence: str) -> None:
        super().__init__(f"{token}: {sentence}")
        self.token = token
        self.sentence = sentence


class CursorInvalid(ValueError):
    """The cursor is not one of ours. Start again from the first page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What to look for; empty means everything in the workspace."""

    terms: tuple[Term, ...] = ()
    me: int | None = None
    """Who asks, for `is:mine` and `held:me`."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is asked. What acts on many operations must never take that for all of them."""
        return not self.terms

    def where(self, *, prefix: str = "f") -> tuple[str, dict[str, Any]]:
        """SQL conditions over `operation o`, each beginning with AND, and their parameters, whose names begin with
        `prefix`; `%(workspace)s` is to be bound beside them."""
        params: dict[str, Any] = {}
        conditions: list[str] = []
        for qualifier, values, term in _gathered(self.terms):
            negated = term.negated

            def bind(value: Any) -> str:
                name = f"{prefix}{len(params)}"
                params[name] = value
                return f"%({name})s"

            if qualifier in ("is", "held"):
                parts = [_at_the_desk(value, negated=negated, me=self.me, bind=bind) for value in values]
                conditions.append(f"({(' AND ' if negated else ' OR ').join(parts)})")
                continue
            condition = _CONDITIONS[qualifier](values, term, bind)
            conditions.append(f"({condition}) IS NOT TRUE" if negated else f"({condition})")
            if qualifier == "state" and not negated and State.SETTLED.value not in values:
                conditions.append(UNSETTLED)
        return "".join(f" AND {condition}" for condition in conditions), params


def read_filter(text: str, *, me: int | None = None) -> tuple[Filter, tuple[Problem, ...]]:
    """A filter from what a person wrote, as far as it is understood, and what of it is not."""
    parsed = parse(text)
    nobody = _needs_a_person(parsed) if me is None else ()
    unclear = {problem.word for problem in nobody}
    terms = tuple(term for term in parsed.terms if term.word not in unclear)
    problems = sorted((*parsed.problems, *nobody), key=lambda problem: problem.word.start)
    return Filter(terms=terms, me=me), tuple(problems)


def parse_filter(text: str, *, me: int | None = None) -> Filter:
    """A filter from what a harness wrote.

    Raises:
        FilterInvalid: with the first word that is not understood.
    """
    found, problems = read_filter(text, me=me)
    if problems:
        raise FilterInvalid(problems[0].word.text, problems[0].sentence)
    return found


UNSETTLED: Final = "o.state <> 'settled'"
"""As the partial indexes say it."""

_ALL_OF: Final = frozenset({"is", "label", "age", "due"})
"""Qualifiers of which several narrow; of all others, several are alternatives."""
_CLAIMED: Final = "d.held_until > now()"
_ASLEEP: Final = "d.snoozed_until > now()"
Bind = Callable[[Any], str]


def _gathered(terms: Iterable[Term]) -> list[tuple[str, tuple[str, ...], Term]]:
    alternatives: dict[str, tuple[tuple[str, ...], Term]] = {}
    found: list[tuple[str, tuple[str, ...], Term]] = []
    for term in terms:
        if term.negated or term.qualifier in _ALL_OF:
            found.append((term.qualifier, term.values, term))
        else:
            before, first = alternatives.get(term.qualifier, ((), term))
            alternatives[term.qualifier] = ((*before, *term.values), first)
    return [*((qualifier, values, term) for qualifier, (values, term) in alternatives.items()), *found]


def _needs_a_person(parsed: Parsed) -> tuple[Problem, ...]:
    return tuple(
        Problem(word=term.word, sentence="only a person at the desk holds anything; write held: and their name")
        for term in parsed.terms
        if (term.qualifier == "is" and Is.MINE.value in term.values) or (term.qualifier == "held" and ME in term.values)
    )


def _at_the_desk(value: str, *, negated: bool, me: int | None, bind: Bind) -> str:
    """A condition of `is:` or `held:`, or its contrary."""
    if value == Is.UNRESOLVED or value == Is.SETTLED:
        return UNSETTLED if (value == Is.UNRESOLVED) is not negated else "o.state = 'settled'"
    if value == Is.BREACHING:
        soon = f"o.sla_at < now() + make_interval(secs => {bind(BREACHES_WITHIN.total_seconds())})"
        breaching = f"{UNSETTLED} AND o.sla_at IS NOT NULL AND {soon}"
        return f"({breaching}) IS NOT TRUE" if negated else f"({breaching})"
    if value == Is.SNOOZED:
        return _not_in(_ASLEEP) if negated else _in(_ASLEEP)
    if value in (Is.UNCLAIMED, NOBODY):
        return _in(_CLAIMED) if negated else _not_in(_CLAIMED)
    if value == Is.HELD:
        return _not_in(_CLAIMED) if negated else _in(_CLAIMED)
    if value in (Is.MINE, ME):
        whom = f"d.holder_id = {bind(me)}"
    else:
        whom = f"d.holder_id IN (SELECT id FROM person WHERE lower(username) = lower({bind(value)}))"  # noqa: S608 - names are ours
    if negated:
        return _not_in(f"{_CLAIMED} AND {whom}")
    return _in(f"{_CLAIMED} AND {whom}", besides=_CLAIMED)


def _in(condition: str, *, besides: str = "") -> str:
    """Operations whose own desk, or else whose cause's, meets it. `besides`: what of their own outranks the cause's."""
    outranked = (
        f" AND NOT EXISTS (SELECT 1 FROM desk d WHERE d.operation = x.id AND {besides})" if besides else ""  # noqa: S608 - names are ours
    )
    return (
        f"o.id IN (SELECT d.operation FROM desk d WHERE d.workspace_id = %(workspace)s AND {condition} UNION ALL "  # noqa: S608 - names are ours
        "SELECT x.id FROM cause_desk d JOIN operation x ON x.workspace_id = d.workspace_id AND x.tool_id = d.tool_id "
        "AND x.cause = d.cause AND x.state <> 'settled' "
        f"WHERE d.workspace_id = %(workspace)s AND {condition}{outranked})"
    )


def _not_in(condition: str) -> str:
    return (
        f"(NOT EXISTS (SELECT 1 FROM desk d WHERE d.operation = o.id AND {condition}) AND NOT EXISTS (SELECT 1 "  # noqa: S608 - names are ours
        f"FROM cause_desk d WHERE d.tool_id = o.tool_id AND d.cause = o.cause AND o.state <> 'settled' AND {condition}))"
    )


def _words(column: str) -> Callable[[tuple[str, ...], Term, Bind], str]:
    """Words of the vocabulary, written out: a bound one would hide from the planner which partial index it may use."""

    def condition(values: tuple[str, ...], term: Term, bind: Bind) -> str:
        if not set(values) <= set(QUALIFIERS[term.qualifier].words):
            return f"{column} = ANY({bind(list(values))})"
        words = [f"'{word}'" for word in sorted({str(value) for value in values})]
        return f"{column} IN ({', '.join(words)})" if len(words) > 1 else f"{column} = {words[0]}"

    return condition


def _names(column: str) -> Callable[[tuple[str, ...], Term, Bind], str]:
    """Whole names, or with a star their beginnings."""

    def condition(values: tuple[str, ...], _term: Term, bind: Bind) -> str:
        whole = [value for value in values if not value.endswith("*")]
        parts = [f"starts_with({column}, {bind(value[:-1])})" for value in values if value.endswith("*")]
        if whole:
            parts.append(f"{column} = ANY({bind(whole)})")
        return " OR ".join(parts)

    return condition


def _tool(values: tuple[str, ...], term: Term, bind: Bind) -> str:
    named = _names("t.name")(values, term, bind)
    return f"o.tool_id IN (SELECT t.id FROM tool t WHERE t.workspace_id = %(workspace)s AND ({named}))"  # noqa: S608 - names are ours


def _owner(values: tuple[str, ...], _term: Term, bind: Bind) -> str:
    return (
        "o.tool_id IN (SELECT t.id FROM tool t JOIN owner w ON w.id = t.owner_id "  # noqa: S608 - names are ours
        f"WHERE t.workspace_id = %(workspace)s AND w.name = ANY({bind(list(values))}))"
    )


def _contract(values: tuple[str, ...], _term: Term, bind: Bind) -> str:
    return (
        "o.contract_id IN (SELECT v.id FROM contract_version v JOIN tool t ON t.id = v.tool_id "  # noqa: S608 - names are ours
        f"WHERE t.workspace_id = %(workspace)s AND t.name || '@' || v.number = ANY({bind(list(values))}))"
    )


def _priority(values: tuple[str, ...], _term: Term, bind: Bind) -> str:
    given = "COALESCE(v.document::json #>> '{escalation,priority}', " + f"'{Priority.NORMAL.value}')"
    return (
        "o.contract_id IN (SELECT v.id FROM contract_version v JOIN tool t ON t.id = v.tool_id "  # noqa: S608 - names are ours
        f"WHERE t.workspace_id = %(workspace)s AND {given} = ANY({bind(list(values))}))"
    )


def _label(values: tuple[str, ...], _term: Term, bind: Bind) -> str:
    has = " OR ".join(f"d.labels @> jsonb_build_array({bind(value)}::text)" for value in values)
    return f"o.id IN (SELECT d.operation FROM desk d WHERE d.workspace_id = %(workspace)s AND ({has}))"  # noqa: S608 - names are ours


def _age(_values: tuple[str, ...], term: Term, bind: Bind) -> str:
    if term.span is None:
        return "false"
    sign = "<" if term.span.more else ">"
    return f"o.created_at {sign} now() - make_interval(secs => {bind(term.span.length.total_seconds())})"


def _due(_values: tuple[str, ...], term: Term, bind: Bind) -> str:
    if term.span is None:
        return "false"
    sign = ">" if term.span.more else "<"
    within = f"now() + make_interval(secs => {bind(term.span.length.total_seconds())})"
    return f"{UNSETTLED} AND COALESCE(o.sla_at, o.deadline_at) {sign} {within}"


def _id(values: tuple[str, ...], _term: Term, bind: Bind) -> str:
    return " OR ".join(f"starts_with(o.operation_id, {bind(value)})" for value in values)


_CONDITIONS: Final[Mapping[str, Callable[[tuple[str, ...], Term, Bind], str]]] = {
    "state": _words("o.state"),
    "effect": _words("o.effect"),
    "outcome": _words("o.outcome"),
    "verification": _words("o.verification"),
    "tool": _tool,
    "owner": _owner,
    "agent": _names("(o.agent ->> 'name')"),
    "run": _words("(o.agent ->> 'run')"),
    "contract": _contract,
    "label": _label,
    "age": _age,
    "due": _due,
    "cause": _names("o.cause"),
    "priority": _priority,
    "id": _id,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """A place in a list that is ordered by creation: the last row seen."""

    created_at: datetime
    id: UUID

    def written(self) -> str:
        """Opaque text for a URL."""
        return base64.urlsafe_b64encode(f"{self.created_at.isoformat()}|{self.id}".encode()).decode().rstrip("=")


def parse_cursor(text: str) -> Cursor:
    """The place behind an opaque cursor.

    Raises:
        CursorInvalid: it is not one that we gave.
    """
    try:
        created_at, _, id = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode().partition("|")
        moment = datetime.fromisoformat(created_at)
        if moment.tzinfo is None:
            raise CursorInvalid("the cursor is not one that we gave; start from the first page")
        return Cursor(created_at=moment, id=UUID(id))
    except (ValueError, binascii.Error, UnicodeError) as error:
        raise CursorInvalid("the cursor is not one that we gave; start from the first page") from error
