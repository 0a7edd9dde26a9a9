"""Does this condition of a contract hold for what was seen?

Conditions are CEL (Common Expression Language), kept on a short leash:

| danger | what stands against it |
| --- | --- |
| unbounded work (`all`, `exists`, `map`, `filter` …) | comprehensions are refused when the contract is read |
| misspelt names and functions, which CEL accepts silently | only listed names and functions pass |
| `headers.retry-after`, which CEL reads as a subtraction | refused, with the right spelling in the message |
| `headers['Retry-After']`, which never matches | refused: header names are lower-cased before they are compared |
| deep or huge answers, which crash or stall the evaluator | a value deeper than 64 or larger than 64 KiB is left out |
| whole numbers beyond 64 bits, which would be rounded | a value that holds one is left out |
| missing members, type errors, results that are not true or false | `None`: the caller takes the cautious side |

A value that was left out is *absent*, never shortened: a rule such as `!has(body.error)` must not become true
because we cut the error away.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Literal

import cel

MAX_SOURCE: Final = 1_000
"""Characters of one expression."""
MAX_DEPTH: Final = 64
"""Levels of lists and objects inside one variable."""
MAX_SIZE: Final = 64 * 1024
"""Bytes of one variable, counted roughly as JSON text."""

ANSWER_VARIABLES: Final = frozenset({"status", "headers", "body", "error", "code", "speaker", "phase", "effect"})
RECEIPT_VARIABLES: Final = ANSWER_VARIABLES | {"request"}
"""`request` is what the harness says of what it sent; the members of one expression come from one of the two."""
REQUEST_VARIABLES: Final = frozenset({"payload", "principal", "agent"})
MATCH_VARIABLES: Final = frozenset({"item", "operation_id", "payload", "idempotency_key"})

FUNCTIONS: Final = frozenset({"size", "startsWith", "endsWith", "contains", "matches", "string", "int", "double"})
"""What an expression may call by name; `has(…)` is part of the language and always allowed."""

_OPERATORS: Final = frozenset(
    {"_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "_&&_", "_||_", "!_", "_?_:_", "@in", "_[_]", "_+_", "-_"}
)
_COMMENTS = r"(?:\s|//[^\n]*(?:\n|$))*"
_COMPREHENSION = re.compile(rf"\b(all|exists|exists_one|existsOne|map|filter|transform\w*){_COMMENTS}\(")
_DASHED_MEMBER = re.compile(r"\b([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\.([A-Za-z_]\w*(?:-[A-Za-z_]\w*)+)")
_HEADER_NAME = re.compile(r"""\bheaders\s*(?:\.\s*(\w+)|\[\s*(['"])([^'"]*)\2\s*\])""")
_MATCHES = re.compile(r"\bmatches\s*\(\s*(?:(r?'[^'\n]*'|r?\"[^\"\n]*\")\s*\))?")
_STRING = re.compile(r"""'[^'\n]*'|"[^"\n]*\"""")
_MEMBER_PATH = re.compile(r"""[A-Za-z_]\w*(?:\.[A-Za-z_]\w*|\[\d{1,6}\]|\['[^'\\\n]*'\]|\["[^"\\\n]*"\])*""", re.ASCII)
_STEP = re.compile(r"""\.([A-Za-z_]\w*)|\[(\d{1,6})\]|\['([^'\\\n]*)'\]|\["([^"\\\n]*)"\]""", re.ASCII)
_STATUS_FIRST = re.compile(
    r"\s*status\s*(?:==\s*(\d{1,9})|in\s*\[((?:\s*\d{1,9}\s*,)*\s*\d{1,9})\s*\])\s*(&&|$)", re.ASCII
)
_EQUAL_TEXT = re.compile(rf"""\s*({_MEMBER_PATH.pattern})\s*==\s*('[^'\n]*'|"[^"\n]*")\s*""", re.ASCII)
_ABOUT_TEXT = re.compile(
    rf"""\s*({_MEMBER_PATH.pattern})\.(startsWith|endsWith|contains)\(\s*('[^'\n]*'|"[^"\n]*")\s*\)\s*""", re.ASCII
)
_INT64_FROM: Final = -(2**63)
_INT64_TO: Final = 2**63
_CEL_ERRORS: Final = (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError)
"""How the evaluator reports missing members, type mismatches, overflow, bad patterns and text it cannot hold."""


class ExpressionInvalid(ValueError):
    """An expression that a contract may not carry. The message says what to write instead."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Missing(Enum):
    """The one value that stands for "not there", which is not the same as null."""

    MISSING = "missing"

    def __bool__(self) -> bool:
        return False


MISSING: Final = Missing.MISSING
Absent = Literal[Missing.MISSING]


class Context:
    """What expressions can see: built once per observation, converted for CEL one variable at a time, when needed.

    Build it with `Context.answer`, `Context.match` or `Context.request`.
    """

    __slots__ = ("_cel", "_known", "_raw", "cut")

    def __init__(self, variables: Mapping[str, Any]) -> None:
        self._raw: dict[str, Any] = dict(variables)
        self._cel: Any = None
        self._known: dict[str, bool] = {}
        self.cut: dict[str, str] = {}
        """Variables that were left out of CEL, with the reason in words."""

    @classmethod
    def answer(
        cls,
        *,
        status: int | None = None,
        headers: Mapping[str, Any] | None = None,
        body: Any = MISSING,
        error: Any = None,
        code: Any = None,
        speaker: str | None = None,
        phase: str | None = None,
        effect: str | None = None,
        lowered: bool = False,
    ) -> "Context":
        """What an owner (or somebody before it) answered. Header names are lower-cased; a repeated header is joined
        with a comma. An absent `body` is absent, not null. `lowered`: the headers went through `lower_cased` already."""
        variables: dict[str, Any] = {
            "status": status,
            "headers": dict(headers or {}) if lowered else lower_cased(headers or {}),
            "error": error,
            "code": code,
            "speaker": None if speaker is None else str(speaker),
            "phase": None if phase is None else str(phase),
            "effect": None if effect is None else str(effect),
        }
        if body is not MISSING:
            variables["body"] = body
        return cls(variables)

    @classmethod
    def match(cls, *, item: Any, operation_id: str, payload: Any, idempotency_key: str | None) -> "Context":
        """One item of an owner's list beside what we meant."""
        return cls({"item": item, "operation_id": operation_id, "payload": payload, "idempotency_key": idempotency_key})

    @classmethod
    def request(cls, *, payload: Any, principal: str, agent: Mapping[str, Any] | None) -> "Context":
        """What a harness is about to do, for `approval.required_when`."""
        return cls({"payload": payload, "principal": principal, "agent": dict(agent or {})})

    def raw(self, name: str) -> Any:
        """A variable as it was given, or MISSING. Nothing is cut here: plain member paths read the whole answer."""
        return self._raw.get(name, MISSING)

    def _evaluate(self, program: cel.Program, variables: frozenset[str]) -> Any:
        if self._cel is None:
            self._cel = cel.Context()
        for name in variables:
            if name not in self._known:
                self._known[name] = self._convert(name)
            if not self._known[name]:
                raise LookupError(name)
        return program.execute(self._cel)

    def _convert(self, name: str) -> bool:
        value = self._raw.get(name, MISSING)
        if value is MISSING:
            return False
        reason = _too_much(value)
        if reason is None:
            try:
                self._cel.add_variable(name, value)
            except _CEL_ERRORS:
                # Lone surrogates and the like: the converter's own refusal is one more reason to leave the value out.
                reason = "it holds text that cannot be compared"
        if reason is not None:
            self.cut[name] = reason
            return False
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A compiled condition. Build it with `compile_condition`."""

    source: str
    variables: frozenset[str]
    _program: Any = field(repr=False, compare=False)
    _statuses: frozenset[int] | None = field(default=None, repr=False)
    _status_only: bool = field(default=False, repr=False)
    _path: "_Path | None" = field(default=None, repr=False)
    _texts: "tuple[_AboutText, ...]" = field(default=(), repr=False)
    _text_only: bool = field(default=False, repr=False)

    @property
    def statuses(self) -> frozenset[int] | None:
        """The only statuses with which it can hold; None when it does not begin with them."""
        return self._statuses

    def matches(self, context: Context) -> bool | None:
        """True or false; None when the expression errors, lacks a member or is not boolean. Never raises."""
        result = self.evaluate(context)
        return result if isinstance(result, bool) else None

    def holds(self, context: Context) -> bool:
        """Whether it is true for certain. Quicker than `matches` where false and "cannot be computed" are one."""
        if self._statuses is not None and context._raw.get("status") not in self._statuses:
            return False
        for test in self._texts:
            found = test.path.read(context)
            if type(found) is not str or not test.fits(found):
                return False
        return self.matches(context) is True

    def evaluate(self, context: Context) -> Any:
        """The expression's value as it is, or MISSING when it cannot be computed. Never raises."""
        if self._statuses is not None:
            status = context.raw("status")
            if status is None or (isinstance(status, int) and not isinstance(status, bool)):
                if status not in self._statuses:
                    return False
                if self._status_only:
                    return True
        if self._path is not None:
            return self._path.read(context)
        for test in self._texts:
            # Another text there makes the whole false for certain, whatever stands beside it.
            found = test.path.read(context)
            if isinstance(found, str):
                if not test.fits(found):
                    return False
            elif found is MISSING and self._text_only:
                return MISSING
        try:
            return context._evaluate(self._program, self.variables)
        except _CEL_ERRORS:
            # Whatever went wrong means the same here: this condition says nothing.
            return MISSING


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A compiled expression that yields a value, usually a member path such as `body.id`."""

    source: str
    variables: frozenset[str]
    _condition: Condition = field(repr=False)

    def read(self, context: Context) -> Any | Absent:
        """The value, or MISSING when a member is not there or the expression errors. Never raises."""
        return self._condition.evaluate(context)


def compile_condition(source: str, *, variables: frozenset[str]) -> Condition:
    """Compiles a condition over the named variables.

    Raises ExpressionInvalid, with a sentence that says what to write instead, for: a source that is too long or
    does not parse, names and functions outside the lists, comprehensions, header names that can never match, and
    patterns that are not regular expressions.
    """
    condition = _compile(source, variables=variables)
    if condition._path is None and not condition.variables:
        raise ExpressionInvalid("This condition looks at nothing that was seen: it would always give the same answer.")
    return condition


def compile_value(source: str, *, variables: frozenset[str]) -> Value:
    """Compiles an expression that yields a value, such as `body.id`. Raises ExpressionInvalid as above."""
    condition = _compile(source, variables=variables)
    if condition._path is None and not condition.variables:
        raise ExpressionInvalid("This value looks at nothing that was seen: write a path such as body.id.")
    return Value(source=source, variables=condition.variables, _condition=condition)


def lower_cased(headers: Mapping[str, Any]) -> dict[str, Any]:
    """Header names in lower case; values of names that differ only in case are joined with a comma."""
    lowered: dict[str, Any] = {}
    for name, value in headers.items():
        key = str(name).lower()
        if isinstance(value, (list, tuple)):
            value = ", ".join(str(part) for part in value)
        lowered[key] = f"{lowered[key]}, {value}" if key in lowered else value
    return lowered


def _compile(source: str, *, variables: frozenset[str]) -> Condition:
    _refuse_by_text(source)
    path = _Path.parse(source)
    if path is not None:
        if path.root not in variables:
            raise _unknown_name(path.root, variables)
        return Condition(source=source, variables=frozenset({path.root}), _program=None, _path=path)
    program = _parse(source)
    used = program.references()
    names = frozenset(used["variables"])
    for name in sorted(names - variables):
        raise _unknown_name(name, variables)
    for name in sorted(set(used["functions"]) - FUNCTIONS - _OPERATORS):
        shown = name.replace("_", "") if name.startswith("_") else name
        raise ExpressionInvalid(f"{shown} cannot be used here; allowed are {', '.join(sorted(FUNCTIONS))} and has.")
    _check_patterns(source)
    statuses, status_only = _statuses(source)
    texts, text_only = _about_texts(source)
    return Condition(
        source=source,
        variables=names,
        _program=program,
        _statuses=statuses,
        _status_only=status_only,
        _texts=texts,
        _text_only=text_only,
    )


def _refuse_by_text(source: str) -> None:
    if len(source) > MAX_SOURCE:
        raise ExpressionInvalid(f"An expression may have {MAX_SOURCE} characters; this one has {len(source)}.")
    if not source.strip():
        raise ExpressionInvalid("The expression is empty.")
    if not source.isprintable() and any(not (c.isprintable() or c in "\n\t") for c in source):
        raise ExpressionInvalid("The expression holds characters that cannot be shown.")
    # Looked for in the whole text, strings included: a false alarm costs a spelling, a miss costs the process.
    found = _COMPREHENSION.search(source)
    if found is not None:
        raise ExpressionInvalid(f"{found[1]}(…) runs over a list without a bound, so it cannot be used here.")
    dashed = _DASHED_MEMBER.search(_STRING.sub("''", source))
    if dashed is not None:
        raise ExpressionInvalid(
            f"{dashed[0]} would be read as a subtraction: write {dashed[1]}['{dashed[2]}'] instead."
        )
    for header in _HEADER_NAME.finditer(source):
        name = header[1] if header[1] is not None else header[3]
        if name != name.lower():
            raise ExpressionInvalid(
                f"Header names are in lower case here: write headers['{name.lower()}'] instead of {header[0]}."
            )


def _parse(source: str) -> cel.Program:
    try:
        return cel.compile(source)
    except _CEL_ERRORS as error:
        first = str(error).split("\n", 1)[0]
        detail = first.rsplit("ERROR: <input>:", 1)[-1] if "ERROR: <input>:" in first else first
        raise ExpressionInvalid(f"The expression cannot be read (line:column {detail[:200]}).") from None


def _unknown_name(name: str, variables: frozenset[str]) -> ExpressionInvalid:
    seen = ", ".join(sorted(variables))
    return ExpressionInvalid(f"{name} is not known here; an expression in this place sees {seen}.")


def _check_patterns(source: str) -> None:
    for call in _MATCHES.finditer(source):
        literal = call[1]
        if literal is None:
            raise ExpressionInvalid("matches(…) takes one pattern written out in quotes, without a backslash-quote.")
        try:
            cel.compile(f"''.matches({literal})").execute({})
        except _CEL_ERRORS:
            raise ExpressionInvalid(f"{literal} is not a regular expression (RE2 syntax).") from None


def _statuses(source: str) -> tuple[frozenset[int] | None, bool]:
    """The literal statuses without which the condition is false for certain, and whether they are all of it.

    Conservative: anything that could make the reading of the text doubtful gives None, which only costs time.
    """
    if "//" in source or "\\" in source or "'''" in source or '"""' in source:
        return None, False
    bare = _STRING.sub("''", source)
    first = _STATUS_FIRST.match(bare)
    if first is None:
        return None, False
    rest = bare[first.end() :]
    while (shorter := re.sub(r"\([^()]*\)", "", rest)) != rest:
        rest = shorter
    if "||" in rest or "?" in rest:
        return None, False
    numbers = first[1] if first[1] is not None else first[2]
    return frozenset(int(number) for number in numbers.split(",")), first[3] == ""


def _about_texts(source: str) -> "tuple[tuple[_AboutText, ...], bool]":
    """The tests of one member's text (`path == 'text'`, `path.startsWith('text')` …) without which the condition is
    false for certain, and whether one of them is all of it. Converting an answer for CEL costs far more than looking
    at one member.

    Conservative: anything that could make the reading of the source doubtful gives none, which only costs time.
    """
    doubtful = any(mark in source for mark in ("//", "\\", "'''", '"""', "||", "?"))
    if doubtful or any("&&" in text for text in _STRING.findall(source)):
        return (), False
    parts = source.split("&&")
    found: list[_AboutText] = []
    depth = 0
    for part in parts:
        test = _AboutText.parse(part) if depth == 0 else None
        if test is not None:
            found.append(test)
        bare = _STRING.sub("''", part)
        depth += sum(bare.count(mark) for mark in "([{") - sum(bare.count(mark) for mark in ")]}")
    return tuple(found), len(parts) == 1 and len(found) == 1


def _too_much(value: Any) -> str | None:
    """Why a value must not reach the evaluator, or None. Stops counting as soon as the answer is known."""
    if value is None or (isinstance(value, str) and len(value) < MAX_SIZE):
        return None
    size = 0
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH + 1):
        below: list[Any] = []
        for member in level:
            if member is None or isinstance(member, float):
                size += 8
            elif isinstance(member, int):
                if not _INT64_FROM <= member < _INT64_TO:
                    return "it holds a whole number beyond 64 bits"
                size += 8
            elif isinstance(member, str):
                size += len(member) + 2
            elif isinstance(member, dict):
                for key in member:
                    if not isinstance(key, str):
                        return "it is not plain JSON"
                    size += len(key) + 4
                below.extend(member.values())
            elif isinstance(member, (list, tuple)):
                size += 2
                below.extend(member)
            else:
                return "it is not plain JSON"
        if size > MAX_SIZE or size + 2 * len(below) > MAX_SIZE:
            return f"it is larger than {MAX_SIZE // 1024} KiB"
        if not below:
            return None
        level = below
    return f"it is nested deeper than {MAX_DEPTH} levels"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Path:
    """A plain member path, read without CEL from the whole answer."""

    root: str
    steps: tuple[str | int, ...]

    @classmethod
    def parse(cls, source: str) -> "_Path | None":
        text = source.strip()
        if _MEMBER_PATH.fullmatch(text) is None or text in {"true", "false", "null"}:
            return None
        root = re.split(r"[.\[]", text, maxsplit=1)[0]
        steps: list[str | int] = []
        for name, index, single, double in _STEP.findall(text[len(root) :]):
            steps.append(int(index) if index else (name or single or double))
        return cls(root=root, steps=tuple(steps))

    def read(self, context: Context) -> Any:
        value = context._raw.get(self.root, MISSING)
        for step in self.steps:
            if type(value) is dict and isinstance(step, str):
                if step not in value:
                    return MISSING
                value = value[step]
                continue
            named = isinstance(step, str) and isinstance(value, Mapping) and step in value
            counted = isinstance(step, int) and isinstance(value, (list, tuple)) and step < len(value)
            if not (named or counted):
                return MISSING
            value = value[step]
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class _AboutText:
    """One test of one member's text, which CEL and Python answer alike."""

    path: _Path
    operator: str
    text: str

    @classmethod
    def parse(cls, source: str) -> "_AboutText | None":
        found = _EQUAL_TEXT.fullmatch(source)
        name, operator, quoted = (found[1], "==", found[2]) if found is not None else ("", "", "")
        if found is None:
            found = _ABOUT_TEXT.fullmatch(source)
            if found is None:
                return None
            name, operator, quoted = found[1], found[2], found[3]
        path = _Path.parse(name)
        return None if path is None else cls(path=path, operator=operator, text=quoted[1:-1])

    def fits(self, found: str) -> bool:
        if self.operator == "==":
            return found == self.text
        if self.operator == "startsWith":
            return found.startswith(self.text)
        return found.endswith(self.text) if self.operator == "endsWith" else self.text in found
