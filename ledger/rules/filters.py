"""What does somebody ask for when they write a filter?

The language of the queue page and of `GET /api/v1/operations?q=…`. Words are separated by spaces; each narrows the list.

| written                                    | means                                                                |
| ------------------------------------------ | -------------------------------------------------------------------- |
| `is:unresolved` `is:settled`               | not settled; settled                                                 |
| `is:snoozed` `is:held` `is:unclaimed`      | asleep at the desk; held by somebody; held by nobody                 |
| `is:mine`                                  | held by the person who asks                                          |
| `is:breaching`                             | its time to answer has passed, or passes within the hour             |
| `state:escalated` `effect:unknown`         | that word of the vocabulary; so with `outcome:` and `verification:`  |
| `tool:tickets.create` `tool:tickets.*`     | that tool; tools whose name begins so; so with `agent:` and `cause:` |
| `owner:helpdesk` `priority:high`           | by the owner; by the priority that the contract gives                |
| `contract:tickets.create@3`                | begun under that version of the contract                             |
| `run:run-91` `agent:support-7`             | by the run, by the agent's name                                      |
| `held:me` `held:nobody` `held:dana`        | who holds it                                                         |
| `label:known`                              | has the label                                                        |
| `cause:unknown_outcome/NO_REPORT`          | what went wrong                                                      |
| `age:>1h` `age:<3d`                        | opened longer ago; less long ago                                     |
| `due:<1h`                                  | to be answered within the hour, or overdue                           |
| `id:ticket:case-1`, or text by itself      | operation ids that begin so                                          |

The same qualifier twice, or two words with a comma, means either (`label:` `age:` `due:` `is:` mean all). A minus before a word turns it
around. Quotes keep spaces together. A word that is not understood is named, and the rest still works.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from ledger.rules.contract_sections import Priority
from ledger.rules.vocabulary import Effect, Outcome, State, Verification

LONGEST = 800
MOST_WORDS = 40
ME = "me"
NOBODY = "nobody"
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_SPAN: Final = re.compile(r"([<>])(\d{1,6})([smhdw])")


class Is(StrEnum):
    """What `is:` knows."""

    UNRESOLVED = "unresolved"
    SETTLED = "settled"
    SNOOZED = "snoozed"
    HELD = "held"
    UNCLAIMED = "unclaimed"
    BREACHING = "breaching"
    MINE = "mine"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """More or less than a length of time."""

    more: bool
    length: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """One word of a filter as it was written, and where it stands in the text."""

    text: str
    start: int
    end: int
    closed: bool = True
    """False: a quote in it is never closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One understood word: what `qualifier` must be, or with `negated` must not be. `values` are alternatives."""

    qualifier: str
    values: tuple[str, ...]
    negated: bool
    word: Word
    span: Span | None = None
    """Of `age:` and `due:`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A word that is not understood, and what could be written instead."""

    word: Word
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """A filter as far as it is understood."""

    terms: tuple[Term, ...]
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Qualifier:
    """What may stand before the colon."""

    name: str
    example: str
    meaning: str
    words: tuple[str, ...] = ()
    """Everything that may stand behind it; empty: names of the workspace, or free text."""


def parse(text: str) -> Parsed:
    """A filter from what somebody wrote. Never refuses: what is not understood stands among the problems."""
    terms: list[Term] = []
    problems: list[Problem] = []
    for word in words_of(text):
        try:
            terms.append(_term(word))
        except _NotUnderstoodError as error:
            problems.append(Problem(word=word, sentence=str(error)))
    return Parsed(terms=tuple(terms), problems=tuple(problems))


def words_of(text: str) -> tuple[Word, ...]:
    """The words of a filter: split at spaces, but not within quotes."""
    found: list[Word] = []
    start, quoted, escaped = -1, False, False
    for at, character in enumerate(text[:LONGEST]):
        if start < 0:
            if character.isspace() or character == "\x00":
                continue
            start = at
        elif not quoted and (character.isspace() or character == "\x00"):
            found.append(Word(text=text[start:at], start=start, end=at))
            start = -1
            continue
        if character == '"' and not escaped:
            quoted = not quoted
        escaped = character == "\\" and not escaped
    if start >= 0:
        end = min(len(text), LONGEST)
        found.append(Word(text=text[start:end], start=start, end=end, closed=not quoted))
    return tuple(found[:MOST_WORDS])


def word_at(text: str, caret: int) -> Word:
    """The word that a caret stands in or right behind; an empty one where it stands between words."""
    return next(
        (word for word in words_of(text) if word.start <= caret <= word.end), Word(text="", start=caret, end=caret)
    )


def narrowed(text: str, *, to: dict[str, str]) -> str:
    """The filter with each of these qualifiers asking for this value alone, where it asked for wider ones before."""
    kept = [word.text for word in words_of(text) if word.text.startswith("-") or word.text.partition(":")[0] not in to]
    return " ".join([*kept, *(f"{name}:{quoted(value)}" for name, value in to.items())])


def quoted(value: str) -> str:
    """A value as it can be written behind a colon."""
    if value and not re.search(r'[\s",\\]', value):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


class _NotUnderstoodError(ValueError):
    pass


def _term(word: Word) -> Term:
    if not word.closed:
        raise _NotUnderstoodError("close the quote")
    negated = word.text.startswith("-") and len(word.text) > 1
    body = word.text[1:] if negated else word.text
    name, colon, written = body.partition(":")
    if not colon or name not in QUALIFIERS:
        return Term(qualifier="id", values=(_unquoted(body),), negated=negated, word=word)
    # What is free text may hold commas; a list of alternatives is for words and names.
    values = (_unquoted(written),) if name in _WHOLE else _alternatives(written)
    if not any(values) and name != "cause":
        raise _NotUnderstoodError(_MISSING.get(name, f"write a name, like {QUALIFIERS[name].example}"))
    check = _CHECKS.get(name)
    span = check(name, values) if check is not None else None
    return Term(qualifier=name, values=values, negated=negated, word=word, span=span)


def _unquoted(text: str) -> str:
    if '"' not in text:
        return text
    return re.sub(r"\\(.)|\"", lambda found: found.group(1) or "", text)


def _alternatives(text: str) -> tuple[str, ...]:
    parts = re.findall(r'(?:"(?:[^"\\]|\\.)*"|[^",])+', text)
    return tuple(_unquoted(part) for part in parts) or ("",)


def _known(name: str, values: tuple[str, ...]) -> None:
    known = QUALIFIERS[name].words
    if any(value not in known for value in values):
        article = "an" if name[0] in "aeiou" and name != "is" else "a"
        kind = f"after {name}: write" if name == "is" else f"{article} {name} is"
        raise _NotUnderstoodError(f"{kind} one of {', '.join(known)}")


def _length(name: str, values: tuple[str, ...]) -> Span:
    found = _SPAN.fullmatch(values[0])
    if found is None:
        raise _NotUnderstoodError(f"write a length of time, like {name}:>1h or {name}:<3d (s, m, h, d, w)")
    more, count, unit = found.groups()
    return Span(more=more == ">", length=timedelta(seconds=int(count) * _UNITS[unit]))


def _version(name: str, values: tuple[str, ...]) -> None:
    for value in values:
        tool, _, number = value.rpartition("@")
        if not tool or not number.isascii() or not number.isdigit() or len(number) > 9:
            raise _NotUnderstoodError(f"write a tool and its contract's number, like {QUALIFIERS[name].example}")


_CHECKS: Final[Mapping[str, Callable[[str, tuple[str, ...]], Span | None]]] = {
    **dict.fromkeys(("is", "state", "effect", "outcome", "verification", "priority"), _known),
    **dict.fromkeys(("age", "due"), _length),
    "contract": _version,
}
_WHOLE: Final = frozenset({"id", "cause", "run", "age", "due"})
_MISSING: Final = {
    "tool": "write a tool's name, or its beginning and a star",
    "id": "write the beginning of an operation id",
    "held": "write held:me, held:nobody or a person's name",
}


def _qualifiers(*rows: Qualifier) -> Mapping[str, Qualifier]:
    return MappingProxyType({row.name: row for row in rows})


QUALIFIERS: Final = _qualifiers(
    Qualifier(name="is", example="is:unresolved", meaning="what it is to you and the desk", words=tuple(Is)),
    Qualifier(name="state", example="state:escalated", meaning="who acts next", words=tuple(State)),
    Qualifier(name="effect", example="effect:unknown", meaning="what happened outside", words=tuple(Effect)),
    Qualifier(name="outcome", example="outcome:applied", meaning="how it was settled", words=tuple(Outcome)),
    Qualifier(
        name="verification", example="verification:failed", meaning="whether it was checked", words=tuple(Verification)
    ),
    Qualifier(name="tool", example="tool:tickets.*", meaning="the tool; a star ends a beginning"),
    Qualifier(name="owner", example="owner:helpdesk", meaning="the system that holds the truth"),
    Qualifier(name="agent", example="agent:support-7", meaning="the agent's name; a star ends a beginning"),
    Qualifier(name="run", example="run:run-91", meaning="the run that it belongs to"),
    Qualifier(name="contract", example="contract:tickets.create@3", meaning="the contract's version"),
    Qualifier(name="held", example="held:me", meaning="me, nobody, or a person's name"),
    Qualifier(name="label", example="label:known", meaning="a label that somebody gave it"),
    Qualifier(name="age", example="age:>1h", meaning="opened longer or less long ago"),
    Qualifier(name="due", example="due:<1h", meaning="to be answered within, or overdue"),
    Qualifier(name="cause", example="cause:unknown_outcome/*", meaning="what went wrong; a star ends a beginning"),
    Qualifier(name="priority", example="priority:high", meaning="how soon somebody should look", words=tuple(Priority)),
    Qualifier(name="id", example="id:ticket:case-8", meaning="how the operation id begins; text alone means the same"),
)
