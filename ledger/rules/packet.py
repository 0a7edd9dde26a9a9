"""What is a person handed in the end: what is established, what is not, and why it stopped?

| what was seen                                              | stands under                                             |
| ---------------------------------------------------------- | -------------------------------------------------------- |
| a part with values, its source and when it was read        | established                                              |
| a completed lookup without a match                         | established of its index; beyond it: unverified          |
| a part that could not be read, a member that was null      | unverified, whatever the reason was                      |
| values without a source or a time                          | unverified; the values are not repeated                  |
| a state that was seen after an event was recorded          | established when it was seen; at the event: unverified   |
| a question that nothing read answers                       | unverified                                               |
| a search that is not complete                              | its documents: established; the rest: unverified         |
| a write that is proved applied, or proved not to have been | established                                              |
| any other write                                            | unverified, and not to be repeated                       |

Values are an owner's text. They stand in the packet as code, so that nothing in them is a heading, a link or an order;
no sentence of the packet is an owner's.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final

from ledger.rules.payload import digest
from ledger.rules.read_pages import Search
from ledger.rules.reads import Part, ReadOutcome, ReadResult, Scalar, seen_so_far
from ledger.rules.vocabulary import Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One read of the trace, with what it brought."""

    at: datetime
    result: ReadResult
    name: str = ""
    """What the task calls this read, such as its operation_id; empty: the tool's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Something that the packet is to answer, in the words of whoever asked."""

    text: str
    answered_by: str | None = None
    """The name of the part that answers it once it is established; None: nothing that is read here can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A write of the same task, as the ledger holds it."""

    operation_id: str
    tool: str
    effect: Effect
    dispatched: bool
    """Whether anything may have been sent for it at all."""
    source: str | None = None
    """Which evidence stands behind the effect."""
    revision: str | None = None
    observed_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Established:
    """One thing that may be relied on, as far as its source may."""

    what: str
    said: str
    """Ours: a sentence without any value in it."""
    values: Mapping[str, Scalar]
    source: str
    revision: str | None
    event_at: datetime | None
    observed_at: datetime | None
    attempts: tuple[int, ...] = ()
    """Which attempts of the trace read it, or tried to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unverified:
    """One thing that nobody may conclude, and why."""

    what: str
    why: str
    attempts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One line of the trace."""

    number: int
    name: str
    tool: str
    outcome: str
    """Of a read, what it brought; of a write's attempt, its effect."""
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Packet:
    """What a person is handed."""

    title: str
    established: tuple[Established, ...]
    unverified: tuple[Unverified, ...]
    trace: tuple[Trial, ...]
    stop: str
    as_of: datetime


STOPS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "not_stopped": "It has not stopped yet; this is how far it has come.",
        "settled": "Every operation has its outcome.",
        "answered": "What was asked for has been read.",
        "enough": "What was found answers the question.",
        "complete": "Everything there was to read has been read.",
        "budget": "The attempts that were allowed are used up.",
        "deadline": "The time that was allowed has ended.",
        "retried": "A read was repeated once, as often as is allowed, and is still not complete.",
        "refused": "A read was not answered, and the same read again would not be either.",
        "wait_outlasts_deadline": "The source asked for a longer wait than there was time left.",
        "repeated_cursor": "The source handed out the same page twice.",
        "truncated": "The source cut something short.",
        "unavailable": "Something could not be read.",
        "another_account": "Going on would have meant to read as somebody else, which is not done.",
        "waits_for_a_person": "What is left is for a person to settle.",
        "has_its_outcome": "It has its outcome.",
        "written_off": "Two people closed it without learning what happened.",
    }
)
"""Why it stopped, in words for people."""
_NOT_READ: Final = "It could not be read. That says nothing of what is there."


def review_packet(
    *,
    title: str,
    tried: Sequence[Tried],
    stop: str,
    as_of: datetime,
    searches: Sequence[Search] = (),
    questions: Sequence[Question] = (),
    written: Sequence[Written] = (),
) -> Packet:
    """The packet of everything that was tried for one task, oldest first. `stop` is one of `STOPS`."""
    established: list[Established] = []
    unverified: list[Unverified] = []
    for attempts, results in _by_read(tried):
        for part in seen_so_far(results):
            facts, gaps = _of_part(part, results[-1])
            established += [replace(fact, attempts=attempts) for fact in facts]
            unverified += [replace(gap, attempts=attempts) for gap in gaps]
    unverified += _before_it_was_seen(established)
    for search in searches:
        facts, gaps = _of_search(search)
        established += facts
        unverified += gaps
    for each in written:
        facts, gaps = _of_write(each)
        established += facts
        unverified += gaps
    known = {fact.what for fact in established}
    unverified += [
        Unverified(what=question.text[:300], why="Nothing that was read answers it.")
        for question in questions
        if question.answered_by is None or question.answered_by not in known
    ]
    trace = tuple(
        Trial(
            number=number,
            name=each.name or each.result.tool,
            tool=each.result.tool,
            outcome=each.result.outcome,
            at=each.at,
        )
        for number, each in enumerate(tried, start=1)
    )
    return Packet(
        title=title,
        established=tuple(established),
        unverified=tuple(unverified),
        trace=trace,
        stop=stop if stop in STOPS else "not_stopped",
        as_of=as_of,
    )


def packet_document(packet: Packet) -> dict[str, Any]:
    """The packet as JSON values; times in RFC 3339, UTC."""
    return {
        "title": packet.title,
        "as_of": _stamp(packet.as_of),
        "stop_reason": packet.stop,
        "stopped_because": STOPS[packet.stop],
        "established": [
            {
                "what": fact.what,
                "says": fact.said,
                "values": dict(fact.values),
                "source_id": fact.source,
                "revision": fact.revision,
                "event_at": _stamp(fact.event_at),
                "observed_at": _stamp(fact.observed_at),
                "attempts": list(fact.attempts),
            }
            for fact in packet.established
        ],
        "unverified": [{"what": gap.what, "why": gap.why, "attempts": list(gap.attempts)} for gap in packet.unverified],
        "trace": [
            {
                "attempt": each.number,
                "name": each.name,
                "tool": each.tool,
                "outcome": each.outcome,
                "at": _stamp(each.at),
            }
            for each in packet.trace
        ],
    }


def packet_markdown(packet: Packet) -> str:
    """The packet as Markdown. Whatever an owner or a harness wrote stands in it as code."""
    lines = [f"# Review packet: {_code(packet.title)}", "", f"As of {_shown(packet.as_of)}. {STOPS[packet.stop]}"]
    lines += ["", "## Established", ""]
    lines += [_line(fact) for fact in packet.established] or ["Nothing."]
    lines += ["", "## Unverified", ""]
    lines += [f"- {_code(gap.what)}{_tried_in(gap.attempts)}: {gap.why}" for gap in packet.unverified] or [
        "Nothing is left open."
    ]
    if packet.trace:
        lines += [
            "",
            "## What was tried",
            "",
            "| attempt | name | tool | outcome | at |",
            "| --- | --- | --- | --- | --- |",
        ]
        lines += [
            f"| {each.number} | {_code(each.name)} | {_code(each.tool)} | {each.outcome} | {_shown(each.at)} |"
            for each in packet.trace
        ]
    return "\n".join([*lines, ""])


def _by_read(tried: Sequence[Tried]) -> Iterator[tuple[tuple[int, ...], list[ReadResult]]]:
    """Each logical read: which attempts it took, and their results, oldest first."""
    grouped: dict[tuple[str, str], list[int]] = {}
    for number, each in enumerate(tried, start=1):
        key = (each.result.tool, digest(dict(each.result.arguments)))
        grouped.setdefault(key, []).append(number)
    for numbers in grouped.values():
        yield tuple(numbers), [tried[number - 1].result for number in numbers]


def _of_part(part: Part, result: ReadResult) -> tuple[list[Established], list[Unverified]]:
    if part.outcome is ReadOutcome.NO_MATCH:
        index = part.revision or ""
        fact = Established(
            what=part.name,
            said="Nothing matched in this index, at this revision. What it does not hold was not looked at.",
            values={str(name): str(value)[:200] for name, value in result.arguments.items()},
            source=part.source_id or index,
            revision=index,
            event_at=None,
            observed_at=part.observed_at,
        )
        return [fact], [
            Unverified(what=part.name, why="Whether there is one that this index does not hold was not looked at.")
        ]
    if not part.values:
        return [], [Unverified(what=part.name, why=_NOT_READ)]
    gaps = [Unverified(what=f"{part.name}.{member}", why=_NOT_READ) for member in part.unavailable]
    gaps += [Unverified(what=part.name, why=problem) for problem in part.problems]
    if not part.established or part.source_id is None:
        return [], gaps
    fact = Established(
        what=part.name,
        said="Read from this source.",
        values=part.values,
        source=part.source_id,
        revision=part.revision,
        event_at=part.event_at,
        observed_at=part.observed_at,
    )
    return [fact], gaps


def _before_it_was_seen(established: Sequence[Established]) -> Iterator[Unverified]:
    """What is seen now does not say what was when an earlier event was recorded. A document with a revision names its
    own time."""
    for seen in established:
        if seen.event_at is not None or seen.revision is not None or seen.observed_at is None:
            continue
        before = [
            (event.event_at, event.what)
            for event in established
            if event.event_at is not None and event.event_at < seen.observed_at
        ]
        if not before:
            continue
        at, what = max(before)
        more = f" and at {len(before) - 1} earlier events" if len(before) > 1 else ""
        yield Unverified(
            what=seen.what,
            why=f"How it was at {_shown(at)}, when {_code(what)} happened,{more} was not read; it was seen at "
            f"{_shown(seen.observed_at)}.",
            attempts=seen.attempts,
        )


def _of_search(search: Search) -> tuple[list[Established], list[Unverified]]:
    facts = [
        Established(
            what=document.id,
            said="Found by this search.",
            values={"query": search.query},
            source=document.id,
            revision=document.revision,
            event_at=None,
            observed_at=document.observed_at,
        )
        for document in search.documents
    ]
    if search.outcome is ReadOutcome.NO_MATCH:
        said = "All pages were read, and nothing matched in this scope. What lies outside it was not looked at."
        return [
            Established(
                what=search.query,
                said=said,
                values={"query": search.query},
                source=search.scope,
                revision=None,
                event_at=None,
                observed_at=search.observed_at,
            )
        ], []
    limitation = search.limitation
    return facts, [Unverified(what=search.query, why=limitation)] if limitation is not None else []


def _of_write(write: Written) -> tuple[list[Established], list[Unverified]]:
    if not write.dispatched:
        return [
            Established(
                what=write.operation_id,
                said="It was recorded and not sent.",
                values={"tool": write.tool},
                source="ledger",
                revision=None,
                event_at=None,
                observed_at=None,
            )
        ], []
    if write.effect not in (Effect.APPLIED, Effect.NONE) or write.source is None:
        return [], [
            Unverified(what=write.operation_id, why=OPEN_EFFECTS.get(write.effect, OPEN_EFFECTS[Effect.UNKNOWN]))
        ]
    return [
        Established(
            what=write.operation_id,
            said="It is done." if write.effect is Effect.APPLIED else "It is proved that it did not happen.",
            values={"tool": write.tool, "effect": write.effect.value},
            source=write.source,
            revision=write.revision,
            event_at=None,
            observed_at=write.observed_at,
        )
    ], []


OPEN_EFFECTS: Final = {
    Effect.UNKNOWN: "Whether it happened is not known. It must not be repeated.",
    Effect.PENDING: "The owner took it and has not finished. It must not be repeated.",
    Effect.PARTIAL: "A part of it happened. It must not be repeated as a whole.",
}
"""Why an effect that is not known is not to be acted on."""


def _line(fact: Established) -> str:
    values = ", ".join(f"{_code(name)} = {_code(str(value))}" for name, value in fact.values.items())
    source = f"source {_code(fact.source)}" + (f" revision {_code(fact.revision)}" if fact.revision else "")
    times = [f"happened {_shown(fact.event_at)}"] if fact.event_at else []
    times += [f"seen {_shown(fact.observed_at)}"] if fact.observed_at else []
    return f"- {_code(fact.what)}{_tried_in(fact.attempts)}: {fact.said} {values} ({'; '.join([source, *times])})"


def _tried_in(attempts: Sequence[int]) -> str:
    if not attempts:
        return ""
    return f" (attempt{'s' if len(attempts) > 1 else ''} {', '.join(map(str, attempts))})"


def _code(text: str) -> str:
    """Somebody else's text, inert: one line, no markup, cut."""
    plain = "".join(character if character.isprintable() else " " for character in text[:300])
    return f"`{plain.replace('`', chr(39)).replace('|', '¦')}`" if plain.strip() else "` `"


def _shown(at: datetime | None) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if at is not None else "at no stated time"


def _stamp(at: datetime | None) -> str | None:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z") if at is not None else None
