"""What is written in a contract's text, and on which line?

| written | read as |
| --- | --- |
| `true` `false` `null` `~`, plain numbers | what JSON calls them |
| `yes` `no` `on` `off` `1:30` `0x1f` `2026-11-30` | text: YAML's surprises are not taken |
| a key twice, an anchor, a tag, a key that is not text | a problem, named by line |
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

MAX_CHARACTERS: Final = 128 * 1024
"""Of one contract document."""
MAX_DEPTH: Final = 40

_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})")
_NUMBER = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})(\.[0-9]{1,20})?([eE][-+]?[0-9]{1,3})?")
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_PLAIN_TAGS = frozenset(
    f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "null", "timestamp", "merge", "value")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong with a contract, and where."""

    path: str
    """`lookup[0].found`; empty for the whole document."""
    line: int | None
    """In the text as it was given, from 1; None when there was no text."""
    message: str


class ContractInvalid(ValueError):
    """The contract cannot be taken. `problems` says what to change, each with its path and line."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        self.problems = problems
        super().__init__("; ".join(_shown(problem) for problem in problems[:20]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """Plain JSON values, and the line of every path in them."""

    value: dict[str, Any]
    lines: Mapping[str, int] = field(default_factory=dict)
    given: frozenset[str] = frozenset()
    """Paths of the parts that a preset gave: they stand in its file, not in this text."""
    given_by: str = ""
    """The preset's name."""

    def problem(self, path: str, message: str) -> Problem:
        """The problem with its line, or with the preset in which the part stands."""
        if any(path == part or path.startswith((f"{part}.", f"{part}[")) for part in self.given):
            return Problem(path=path, line=None, message=f"{message} It stands in the preset {self.given_by}.")
        return Problem(path=path, line=self.line_of(path), message=message)

    def line_of(self, path: str) -> int | None:
        """The line of a path, or of the nearest part of the document that holds it."""
        while path and path not in self.lines:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return self.lines.get(path)


def join_path(path: str, step: str | int) -> str:
    """`lookup` and 0 → `lookup[0]`; `lookup[0]` and `found` → `lookup[0].found`."""
    if isinstance(step, int):
        return f"{path}[{step}]"
    return f"{path}.{step}" if path else step


def read_document(source: str | Mapping[str, Any]) -> Document:
    """Reads YAML or JSON text, or a mapping of plain JSON values.

    Raises:
        ContractInvalid: the text cannot be read, is too large, nested too deep, or is not a mapping.
    """
    if isinstance(source, str):
        return _from_text(source)
    problems: list[Problem] = []
    value = _plain(source, "", 0, problems)
    if not isinstance(value, dict):
        problems.append(Problem(path="", line=None, message="A contract is a mapping of names to values."))
    if problems or not isinstance(value, dict):
        raise ContractInvalid(tuple(problems))
    return Document(value=value)


def is_plain_text(text: str) -> bool:
    """Whether text without quotes is read as itself, and not as a number, true, false or null."""
    return text not in _NULLS and text not in _BOOLS and _NUMBER.fullmatch(text) is None


def _shown(problem: Problem) -> str:
    where = problem.path or "contract"
    return f"{where} (line {problem.line}): {problem.message}" if problem.line else f"{where}: {problem.message}"


def _whole(message: str, *, line: int | None = None) -> ContractInvalid:
    return ContractInvalid((Problem(path="", line=line, message=message),))


def _from_text(text: str) -> Document:
    if len(text) > MAX_CHARACTERS:
        raise _whole(f"The document has {len(text)} characters; {MAX_CHARACTERS} are accepted.")
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _whole(
            f"The text is not YAML or JSON: {error.problem or error.context}.", line=mark.line + 1 if mark else None
        ) from None
    except (yaml.YAMLError, ValueError, OverflowError):
        raise _whole("The text holds characters that YAML does not allow.") from None
    except RecursionError:
        raise _whole("The text is nested too deep.") from None
    reading = _Reading()
    value = reading.read(node, "", 0) if node is not None else None
    if not reading.problems and not isinstance(value, dict):
        reading.problems.append(Problem(path="", line=1, message="A contract is a mapping of names to values."))
    if reading.problems or not isinstance(value, dict):
        raise ContractInvalid(tuple(reading.problems))
    return Document(value=value, lines=reading.lines)


class _Reading:
    """Turns YAML nodes into plain values and remembers the line of each."""

    def __init__(self) -> None:
        self.lines: dict[str, int] = {}
        self.problems: list[Problem] = []
        self._seen: set[int] = set()

    def read(self, node: yaml.Node, path: str, depth: int) -> Any:
        line = node.start_mark.line + 1
        self.lines[path] = line
        if id(node) in self._seen:
            return self._wrong(path, line, "Anchors and aliases are not taken; write the value out.")
        self._seen.add(id(node))
        if depth > MAX_DEPTH:
            return self._wrong(path, line, f"Nested deeper than {MAX_DEPTH} levels.")
        if isinstance(node, yaml.ScalarNode):
            if node.tag not in _PLAIN_TAGS:
                return self._wrong(path, line, f"The tag {node.tag} is not taken.")
            return _scalar(node)
        if isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
            return [self.read(member, join_path(path, index), depth + 1) for index, member in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode) and node.tag == "tag:yaml.org,2002:map":
            return self._mapping(node, path, depth)
        return self._wrong(path, line, f"The tag {node.tag} is not taken.")

    def _mapping(self, node: yaml.MappingNode, path: str, depth: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        for key_node, member in node.value:
            line = key_node.start_mark.line + 1
            # A key is the text as written, so that `on: …` and `404: …` are what they look like.
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if not isinstance(key, str):
                self._wrong(path, line, "A key is plain text.")
                continue
            at = join_path(path, key)
            if key in members:
                self._wrong(at, line, f"{key} is written twice.")
                continue
            members[key] = self.read(member, at, depth + 1)
            self.lines[at] = line
        return members

    def _wrong(self, path: str, line: int, message: str) -> None:
        self.problems.append(Problem(path=path, line=line, message=message))


def _scalar(node: yaml.ScalarNode) -> Any:
    text: str = node.value
    if node.style is not None or (node.tag == "tag:yaml.org,2002:str" and not _NUMBER.fullmatch(text)):
        return text
    if text in _NULLS:
        return None
    if text in _BOOLS:
        return _BOOLS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text):
        return float(text)
    return text


def _plain(value: Any, path: str, depth: int, problems: list[Problem]) -> Any:
    if depth > MAX_DEPTH:
        problems.append(Problem(path=path, line=None, message=f"Nested deeper than {MAX_DEPTH} levels."))
        return None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and value == value and abs(value) != float("inf"):
        return value
    if isinstance(value, Mapping):
        members = {}
        for key, member in value.items():
            if not isinstance(key, str):
                problems.append(Problem(path=path, line=None, message="A key is plain text."))
                continue
            members[key] = _plain(member, join_path(path, key), depth + 1, problems)
        return members
    if isinstance(value, list | tuple):
        return [_plain(member, join_path(path, index), depth + 1, problems) for index, member in enumerate(value)]
    problems.append(
        Problem(path=path, line=None, message="Only JSON values are taken: text, numbers, lists and mappings.")
    )
    return None
