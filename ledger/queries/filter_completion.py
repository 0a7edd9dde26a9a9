"""What could the word under the caret become? Names of the workspace; words of the vocabulary need no database."""

from dataclasses import dataclass
from uuid import UUID

from ledger.database import execute
from ledger.queries.desk import NAME
from ledger.rules.filters import ME, NOBODY, QUALIFIERS, quoted, word_at

MOST_OPTIONS = 10
RECENT = 2_000
"""Agents and causes are named from so many of the newest unsettled operations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One way to go on."""

    text: str
    """What the word becomes."""
    tip: str
    """What it means, in a few words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """The part of the text that an option takes the place of, and the options."""

    start: int
    end: int
    options: tuple[Option, ...]


def completion_of(*, workspace_id: UUID, text: str, caret: int) -> Completion:
    """Up to ten ways to go on with the word at `caret`."""
    word = word_at(text, caret)
    begun = word.text[: max(caret - word.start, 0)]
    sign = "-" if begun.startswith("-") else ""
    name, colon, value = begun[len(sign) :].partition(":")
    if colon and name in QUALIFIERS:
        done, _, last = value.rpartition(",")
        kept = f"{done}," if done and '"' not in value else ""
        begins = (last if kept else value).strip('"')
        found = _values(workspace_id, name, begins)
        options = tuple(
            Option(text=f"{sign}{name}:{kept}{quoted(said)}", tip=tip) for said, tip in found[:MOST_OPTIONS]
        )
    else:
        begins = name if not colon else ""
        options = tuple(
            Option(text=f"{sign}{one.name}:", tip=f"{one.meaning}: {one.example}")
            for one in QUALIFIERS.values()
            if not colon and one.name.startswith(begins)
        )
    # Once a word is whole there is nothing to offer.
    options = tuple(option for option in options if option.text != word.text)
    return Completion(start=word.start, end=word.end, options=options)


def _values(workspace_id: UUID, name: str, begins: str) -> list[tuple[str, str]]:
    words = QUALIFIERS[name].words
    if words:
        return [(word, "") for word in words if word.startswith(begins)]
    if name in ("age", "due"):
        spans = (">1h", ">1d", ">1w", "<1h", "<1d") if name == "age" else ("<15m", "<1h", "<4h", "<1d")
        return [(span, "") for span in spans if span.startswith(begins)]
    if name == "held":
        fixed = [(word, tip) for word, tip in ((ME, "you"), (NOBODY, "nobody")) if word.startswith(begins)]
        return fixed + _read(workspace_id, name, begins)
    if name not in _NAMES:
        return []
    return _read(workspace_id, name, begins)


def _read(workspace_id: UUID, name: str, begins: str) -> list[tuple[str, str]]:
    params = {"workspace": workspace_id, "begins": begins.lower(), "most": MOST_OPTIONS, "recent": RECENT}
    rows = execute(f"{_NAMES[name]} ORDER BY 1 LIMIT %(most)s", params)
    return [(said, tip or "") for said, tip in rows if said]


_OF_RECENT = (
    "SELECT DISTINCT {column}, '' FROM (SELECT o.agent, o.cause FROM operation o WHERE o.workspace_id = %(workspace)s "
    "AND o.state <> 'settled' ORDER BY o.created_at DESC, o.id DESC LIMIT %(recent)s) seen "
    "WHERE starts_with(lower({column}), %(begins)s)"
)
_NAMES = {
    "tool": (
        "SELECT t.name, COALESCE(cv.document::json ->> 'title', '') FROM tool t LEFT JOIN contract_version cv "
        "ON cv.id = t.current_id WHERE t.workspace_id = %(workspace)s AND starts_with(lower(t.name), %(begins)s)"
    ),
    "owner": (
        "SELECT w.name, '' FROM owner w WHERE w.workspace_id = %(workspace)s AND starts_with(lower(w.name), %(begins)s)"
    ),
    "contract": (
        "SELECT t.name || '@' || v.number, CASE WHEN v.id = t.current_id THEN 'current' ELSE '' END FROM tool t "
        "JOIN contract_version v ON v.tool_id = t.id WHERE t.workspace_id = %(workspace)s "
        "AND starts_with(lower(t.name || '@' || v.number), %(begins)s)"
    ),
    "held": (
        f"SELECT DISTINCT p.username, {NAME.format(p='p')} FROM membership m JOIN person p ON p.id = m.person_id "  # noqa: S608 - names are ours
        "WHERE m.workspace_id = %(workspace)s AND p.is_active AND m.role IN ('operator', 'admin') "
        "AND (starts_with(lower(p.username), %(begins)s) OR starts_with(lower(p.first_name), %(begins)s))"
    ),
    "label": (
        "SELECT DISTINCT l.label, '' FROM desk d, jsonb_array_elements_text(d.labels) AS l(label) "
        "WHERE d.workspace_id = %(workspace)s AND d.labels <> '[]' AND starts_with(lower(l.label), %(begins)s)"
    ),
    "agent": _OF_RECENT.format(column="seen.agent ->> 'name'"),
    "run": _OF_RECENT.format(column="seen.agent ->> 'run'"),
    "cause": _OF_RECENT.format(column="seen.cause"),
}
