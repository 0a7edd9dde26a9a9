"""What does the result of a read tool entitle us to say?

| it says                                              | it counts as                          | because                                   |
| ---------------------------------------------------- | ------------------------------------- | ----------------------------------------- |
| ok, with values, their source and when it was read   | ok                                    |                                           |
| ok, and a member is null                             | partial; that member is unavailable   | null is no value                          |
| ok, and every member is null                         | unavailable                           | likewise                                  |
| ok, without its source or the time of reading        | ok, but not established               | nobody could trace it                     |
| no_match, with the index and the time of reading     | no_match: in that index, at that time | more was not looked at                    |
| no_match without them                                | unavailable                           | nobody could say what was looked at       |
| a page with items, the last one, and nothing was cut | ok                                    |                                           |
| a page with a cursor, or that may have been cut      | partial, with or without items        | there is more, or there may be            |
| the last page, without items, with the index         | no_match, likewise                    |                                           |
| timeout, forbidden, not_found, any other word        | unavailable                           | what is protected and what is absent look alike |
| parts that differ                                    | partial                               |                                           |
| a whole that is bolder than its parts                | what its parts come to                | the parts were read                       |

A result is kept as it came, beside the earlier ones; a later timeout takes nothing away from what was seen before.
How far pages reach is `read_pages.py`, how often may be read is `read_budget.py`, what a person is handed in the end
is `packet.py`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

Scalar = str | int | float | bool

LONGEST_VALUE: Final = 500
"""Characters of one value."""
MOST_PARTS: Final = 100
_OWN: Final = frozenset(
    {"outcome", "name", "source_id", "revision", "event_at", "observed_at", "index", "index_revision", "components",
     "items", "next_cursor", "truncated", "value"}
)  # fmt: skip
_MAY_PASS: Final = frozenset({"timeout", "transient", "unavailable", "rate_limited", "overloaded"})
"""Words of a part that another try may mend. What was refused or is not there is asked once."""


class ReadOutcome(StrEnum):
    """How a read came out."""

    OK = "ok"
    """Retrieved, with its source."""
    NO_MATCH = "no_match"
    """The completed lookup found no match in its declared index. It does not say that there is nothing."""
    UNAVAILABLE = "unavailable"
    """Access or service kept it from being read. It says nothing of what is there."""
    PARTIAL = "partial"
    """Some of it arrived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One component of a result: what was read from one source, or that it was not."""

    name: str
    outcome: ReadOutcome
    said: str
    """The tool's own word. Kept for diagnosis; nobody is told it."""
    values: Mapping[str, Scalar] = field(default_factory=dict)
    unavailable: tuple[str, ...] = ()
    """Members that were null: not read, whatever else they could mean."""
    source_id: str | None = None
    revision: str | None = None
    """Of the document, or of the index where nothing matched."""
    event_at: datetime | None = None
    """When what it describes happened."""
    observed_at: datetime | None = None
    """When it was read. Reading an old record today does not make its event recent."""
    problems: tuple[str, ...] = ()
    """What is wrong with how it was told, in words."""

    @property
    def established(self) -> bool:
        """Whether it may be called a fact: it has a value, a source and a time."""
        return bool(self.values) and self.source_id is not None and self.observed_at is not None

    @property
    def may_pass(self) -> bool:
        """Whether another try could bring what is missing."""
        return self.outcome is ReadOutcome.UNAVAILABLE and self.said in _MAY_PASS


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadResult:
    """One answer of a read tool, weighed."""

    tool: str
    arguments: Mapping[str, Any]
    """Exactly what was asked; an absence is of this and of nothing wider."""
    outcome: ReadOutcome
    parts: tuple[Part, ...]
    problems: tuple[str, ...] = ()

    @property
    def may_pass(self) -> bool:
        """Whether a repeat could bring what is missing."""
        return any(part.may_pass for part in self.parts)


def weigh_result(body: Any, *, tool: str, arguments: Mapping[str, Any]) -> ReadResult:
    """What a tool's result entitles to.

    `body` is the result as it came: parts in `components`, parts as members of their own, or one part that is the
    whole. What is malformed is kept as a problem and never mended.
    """
    if not isinstance(body, Mapping):
        return not_answered(tool=tool, arguments=arguments, said="malformed")
    told = list(_parts(body))[:MOST_PARTS]
    parts = tuple(_part(name, each, whole=body) for name, each in told) or (_part(tool, body, whole=body),)
    outcome = whole(parts)
    said = body.get("outcome")
    bolder = said in (ReadOutcome.OK, ReadOutcome.NO_MATCH) and outcome is not said
    problems = (f"It says {said}, and its parts come to {outcome}.",) if bolder and told else ()
    return ReadResult(tool=tool, arguments=dict(arguments), outcome=outcome, parts=parts, problems=problems)


def not_answered(*, tool: str, arguments: Mapping[str, Any], said: str) -> ReadResult:
    """The result of a read that brought none: it timed out, was refused, or its answer could not be read. All look
    alike from outside; `said` is kept for diagnosis."""
    part = Part(name=tool, outcome=ReadOutcome.UNAVAILABLE, said=said)
    return ReadResult(tool=tool, arguments=dict(arguments), outcome=ReadOutcome.UNAVAILABLE, parts=(part,))


def whole(parts: Sequence[Part]) -> ReadOutcome:
    """What the parts come to together; without any: unavailable."""
    outcomes = {part.outcome for part in parts}
    if len(outcomes) > 1:
        return ReadOutcome.PARTIAL
    return outcomes.pop() if outcomes else ReadOutcome.UNAVAILABLE


def seen_so_far(results: Sequence[ReadResult]) -> tuple[Part, ...]:
    """What was seen of each part over several reads of one thing, oldest first: every distinct thing that was seen,
    the last time that it was; a part that was never seen, as the last read of it left it."""
    seen: dict[tuple[str, str], Part] = {}
    missing: dict[str, Part] = {}
    whole: list[Part] = []
    for result in results:
        for part in result.parts:
            if part.values or part.outcome is ReadOutcome.NO_MATCH:
                key = (part.name, _alike(part))
                seen.pop(key, None)
                seen[key] = part
            elif part.name == result.tool:
                # The whole call brought nothing: that concerns every part, and none that has been seen.
                whole.append(part)
            else:
                missing[part.name] = part
    had = {name for name, _ in seen}
    left = [part for name, part in missing.items() if name not in had]
    if not seen and not left and whole:
        left = whole[-1:]
    return (*seen.values(), *left)


def _parts(body: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    listed = body.get("components")
    if isinstance(listed, list):
        for number, each in enumerate(listed):
            if isinstance(each, Mapping):
                name = each.get("name")
                yield (name[:100] if isinstance(name, str) and name else f"part {number + 1}"), each
        return
    for name, each in body.items():
        if isinstance(each, Mapping) and isinstance(each.get("outcome"), str):
            yield str(name)[:100], each


def _part(name: str, told: Mapping[str, Any], *, whole: Mapping[str, Any]) -> Part:
    said = told.get("outcome")
    said = said[:40] if isinstance(said, str) else "malformed"
    values, missing = _members(told)
    page = told.get("items")
    if isinstance(page, list) and page:
        values["items"] = len(page)
    revision = next((text for key in ("revision", "index_revision", "index") if (text := _text(told.get(key)))), None)
    observed_at = _moment(told.get("observed_at")) or _moment(whole.get("observed_at"))
    event_at, problems = _event(told)
    if event_at is not None and observed_at is not None and event_at > observed_at:
        problems += ("It happened later than it was read, by its own times.",)
    source_id = _text(told.get("source_id"))
    indexed = revision is not None and observed_at is not None
    if isinstance(page, list) and said in (ReadOutcome.OK, ReadOutcome.NO_MATCH):
        # What a page says of itself goes before what its author calls it.
        ended = not told.get("next_cursor") and told.get("truncated") is False
        said = ReadOutcome.PARTIAL if not ended else ReadOutcome.OK if page else ReadOutcome.NO_MATCH
    outcome = _outcome(said, values=values, missing=missing, indexed=indexed, of_pages=isinstance(page, list))
    if said == ReadOutcome.NO_MATCH and outcome is ReadOutcome.UNAVAILABLE:
        problems += ("It says that nothing matches, but not in which index, or when it was read.",)
    if values and (source_id is None or observed_at is None):
        problems += ("It does not say which source was read, and when.",)
    return Part(
        name=name,
        outcome=outcome,
        said=said,
        # What a part that failed still carries is no evidence: nobody says that it was read.
        values=values if outcome in (ReadOutcome.OK, ReadOutcome.PARTIAL) else {},
        unavailable=missing,
        source_id=source_id,
        revision=revision,
        event_at=event_at,
        observed_at=observed_at,
        problems=problems,
    )


def _outcome(
    said: str, *, values: Mapping[str, Scalar], missing: tuple[str, ...], indexed: bool, of_pages: bool
) -> ReadOutcome:
    if of_pages and said == ReadOutcome.PARTIAL:
        return ReadOutcome.PARTIAL
    if said == ReadOutcome.NO_MATCH:
        return ReadOutcome.NO_MATCH if indexed else ReadOutcome.UNAVAILABLE
    if said not in (ReadOutcome.OK, ReadOutcome.PARTIAL) or not values:
        return ReadOutcome.UNAVAILABLE
    return ReadOutcome.PARTIAL if missing or said == ReadOutcome.PARTIAL else ReadOutcome.OK


def _members(told: Mapping[str, Any]) -> tuple[dict[str, Scalar], tuple[str, ...]]:
    """The values of a part, and the names of its members that are null."""
    value = told.get("value")
    members = dict(value) if isinstance(value, Mapping) else {"value": value} if "value" in told else {}
    members |= {name: each for name, each in told.items() if name not in _OWN}
    values: dict[str, Scalar] = {}
    missing = []
    for name, each in list(members.items())[:MOST_PARTS]:
        if each is None:
            missing.append(str(name)[:100])
        else:
            values[str(name)[:100]] = _scalar(each)
    return values, tuple(missing)


def _scalar(value: Any) -> Scalar:
    if isinstance(value, str):
        return value[:LONGEST_VALUE]
    if isinstance(value, bool | int | float):
        return value
    try:
        return json.dumps(value, sort_keys=True)[:LONGEST_VALUE]
    except (TypeError, ValueError, RecursionError):
        return "(cannot be shown)"


def _event(told: Mapping[str, Any]) -> tuple[datetime | None, tuple[str, ...]]:
    """When it happened: `event_at`, else the one other member that is named as a time."""
    if told.get("event_at") is not None:
        at = _moment(told["event_at"])
        return at, () if at is not None else ("event_at is not a time with an offset.",)
    others = [value for name, value in told.items() if str(name).endswith("_at") and name != "observed_at"]
    return (_moment(others[0]) if len(others) == 1 else None), ()


def _alike(part: Part) -> str:
    """Two reads saw the same when source, revision and values are the same; only the time of reading differs."""
    return json.dumps([part.source_id, part.revision, sorted((name, repr(v)) for name, v in part.values.items())])


def _text(value: Any) -> str | None:
    return value[:200] if isinstance(value, str) and value else None


def _moment(value: Any) -> datetime | None:
    """An RFC 3339 time with an offset, in UTC; None for anything else."""
    if not isinstance(value, str) or len(value) > 40:
        return None
    try:
        at = datetime.fromisoformat(value)
        return at.astimezone(UTC) if at.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None
