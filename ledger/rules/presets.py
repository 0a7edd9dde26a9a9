"""Which half of a contract does the owner's own documentation write, and what must a contract add to it?

A preset is a file in `ledger/presets/`. A contract names it and says the rest:

| the contract says                                  | the whole contract has                                     |
| -------------------------------------------------- | ---------------------------------------------------------- |
| a member that the preset gives too                 | the contract's; of a mapping, member by member             |
| `errors`                                           | the contract's rules first, then the preset's              |
| `lookup`, or another list                          | the contract's alone                                       |
| `lookup`, and no `samples`                         | the preset's samples that answer no lookup                 |
| nothing                                            | the preset's                                               |
| `with: {collection: charges}`                      | `charges` wherever the preset says `${collection}`         |
| no value for an optional `${lag}`                  | neither the member that holds it nor those that need it    |

The whole contract is what is checked, published and stored; `preset: stripe-v1@2026-11-30` in it says where a part
came from and when that part was last compared with the owner's documentation. Such a contract is complete: nothing
is added to it again, whatever the preset says by then.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final

from pydantic import Field, ValidationError

from ledger.rules.contract_document import ContractInvalid, Document, Problem, join_path, read_document
from ledger.rules.contract_sections import PRESET_NAME, PRESET_TAKEN, Member, Section, Sentence, Source

_PLACE = re.compile(r"\$\{([a-z][a-z0-9_]*)\}")
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~/:-]*", re.ASCII)
"""What may be put into the middle of a preset's text: it can end neither an expression's quotes nor a path."""
_ONE_VALUE: Final = frozenset({"arguments", "result", "source"})
"""Mappings that are one value: half of the contract's beside half of the preset's would be neither."""


class _Absent:
    """Stands for a member that is left out, which is not the same as null."""


_ABSENT: Final = _Absent()


class Parameter(Section):
    """A value that the owner's documentation cannot know: `${name}` in the preset, `with: {name: …}` in the contract."""

    means: Sentence
    example: Any
    optional: bool = False
    together: tuple[Member, ...] = ()
    """Members beside the one that holds it that mean nothing without it."""


class PresetFile(Section):
    """One file of `ledger/presets/`."""

    preset: str = Field(pattern=PRESET_NAME)
    title: Sentence
    about: str = Field(default="", max_length=2_000)
    """What a person who writes a contract with it should know."""
    source: Source
    parameters: dict[str, Parameter] = Field(default_factory=dict)
    needs: dict[Member, Sentence] = Field(default_factory=dict)
    """Members that the contract must state itself, each with the sentence that says so."""
    advises: dict[Member, Sentence] = Field(default_factory=dict)
    """Members that the contract should state, and what it gives up without."""
    gives: dict[str, Any]
    """The part of a contract."""

    @property
    def label(self) -> str:
        """As a whole contract names it: `stripe-v1@2026-11-30`."""
        return f"{self.preset}@{self.source.checked_on.isoformat()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A contract document with its preset's part in it, and what is wrong or could be better."""

    document: Document
    problems: tuple[Problem, ...] = ()
    advice: tuple[Problem, ...] = ()


@cache
def preset_names() -> tuple[str, ...]:
    """Every preset, by name."""
    found = (file.name for file in _folder().iterdir() if file.name.endswith(".yaml"))
    return tuple(sorted(name.removesuffix(".yaml") for name in found))


@cache
def preset(name: str) -> PresetFile:
    """The preset of this name.

    Raises:
        LookupError: there is none.
        ContractInvalid: its file cannot be read; a fault of this release.
    """
    written = read_document(preset_text(name))
    try:
        return PresetFile.model_validate_json(json.dumps(written.value))
    except ValidationError as error:
        raise ContractInvalid(
            tuple(
                Problem(path=".".join(map(str, one["loc"])), line=None, message=f"In the preset {name}: {one['msg']}.")
                for one in error.errors(include_url=False)
            )
        ) from None


def preset_text(name: str) -> str:
    """A preset's file as it is written.

    Raises:
        LookupError: there is none of this name.
    """
    if name not in preset_names():
        raise LookupError(name)
    return (_folder() / f"{name}.yaml").read_text("utf-8")


def take_in(document: Document, *, stated: bool) -> Taken:
    """The document with its preset's part in it; as it is when it names none, or one that is in it already.

    `stated`: it comes with a question and is never published, so what only asking the owner needs may be left out.
    """
    named = document.value.get("preset")
    values = document.value.get("with")
    if named is None or (isinstance(named, str) and re.fullmatch(PRESET_TAKEN, named)):
        return _without(document, *_misplaced(document, taken=named is not None))
    if not isinstance(named, str) or named not in preset_names():
        return _without(
            document, _at(document, "preset", f"There is no such preset. There are: {', '.join(preset_names())}.")
        )
    if values is not None and not isinstance(values, Mapping):
        return _without(document, _at(document, "with", "Write names and values, such as {collection: charges}."))
    return _Taking(preset(named), document, values or {}, stated=stated).whole()


def _folder() -> Traversable:
    return files("ledger") / "presets"


def _at(document: Document, path: str, message: str) -> Problem:
    return Problem(path=path, line=document.line_of(path), message=message)


def _without(document: Document, *problems: Problem) -> Taken:
    """The document alone. What names a preset wrongly is told once, here."""
    if not problems:
        return Taken(document=document)
    rest = {name: value for name, value in document.value.items() if name not in ("preset", "with")}
    return Taken(document=replace(document, value=rest), problems=problems)


def _misplaced(document: Document, *, taken: bool) -> Iterator[Problem]:
    if "with" in document.value:
        yield _at(document, "with", "This belongs to a preset, and no preset is taken in here.")
    if taken and "source" not in document.value:
        name = str(document.value["preset"]).partition("@")[0]
        yield _at(
            document,
            "preset",
            "With a date this says that the preset's part stands in the document already, and it does not. "
            f"Write preset: {name}.",
        )


class _Taking:
    """Puts one preset's part into one document."""

    def __init__(self, preset: PresetFile, document: Document, values: Mapping[str, Any], *, stated: bool) -> None:
        self._preset = preset
        self._document = document
        self._values = values
        self._stated = stated
        self._used: set[str] = set()
        self._given: set[str] = set()
        self._problems: dict[str, Problem] = {}
        self._advice: dict[str, Problem] = {}

    def whole(self) -> Taken:
        """The whole document, and everything to say of it."""
        own = {name: value for name, value in self._document.value.items() if name != "with"}
        source = self._preset.source.model_dump(mode="json", exclude_unset=True)
        whole: dict[str, Any] = {**own, "preset": self._preset.label}
        for member, theirs in {**self._preset.gives, "source": source}.items():
            merged = self._member(member, own.get(member, _ABSENT), theirs)
            if merged is not _ABSENT:
                whole[member] = merged
        document = replace(self._document, value=whole, given=frozenset(self._given), given_by=self._preset.preset)
        self._judge_values()
        if not self._stated:
            self._judge_members(whole)
        return Taken(document=document, problems=tuple(self._problems.values()), advice=tuple(self._advice.values()))

    def _member(self, member: str, own: Any, theirs: Any) -> Any:
        if own is _ABSENT:
            self._given.add(member)
            return self._filled(self._fitting(theirs) if member == "samples" else theirs)
        if member == "errors" and isinstance(own, list) and isinstance(theirs, list):
            self._given |= {join_path(member, index) for index in range(len(own), len(own) + len(theirs))}
            return [*own, *self._filled(theirs)]
        if isinstance(own, Mapping) and isinstance(theirs, Mapping) and member not in _ONE_VALUE:
            rest = self._filled({name: value for name, value in theirs.items() if name not in own})
            self._given |= {join_path(member, name) for name in rest}
            return {**rest, **own}
        return own

    def _fitting(self, samples: Any) -> list[Any]:
        """The preset's samples but for those that answer a part that the contract states itself."""
        stated = self._document.value
        return [sample for sample in samples if str(sample.get("to")).partition("[")[0] not in stated]

    def _filled(self, value: Any) -> Any:
        """The value with its places filled; `_ABSENT` when it holds one that is optional and has no value."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Mapping):
            members: dict[str, Any] = {}
            dropped: set[str] = set()
            for name, member in value.items():
                filled = self._filled(member)
                if filled is _ABSENT:
                    dropped |= {name, *self._together(member)}
                else:
                    members[str(self._text(name))] = filled
            return {name: member for name, member in members.items() if name not in dropped}
        if isinstance(value, list):
            return [filled for member in value if (filled := self._filled(member)) is not _ABSENT]
        return value

    def _text(self, text: str) -> Any:
        whole = _PLACE.fullmatch(text)
        if whole is not None:
            return self._value(whole[1])
        found = {name: self._value(name) for name in _PLACE.findall(text)}
        if any(value is _ABSENT for value in found.values()):
            return _ABSENT
        for name, value in found.items():
            if isinstance(value, bool) or not isinstance(value, str | int) or not _PLAIN.fullmatch(str(value)):
                self._wrong(name, "Here stand letters, digits and . _ ~ / : - only, because it is put into other text.")
                return text
        return _PLACE.sub(lambda place: str(found[place[1]]), text)

    def _value(self, name: str) -> Any:
        parameter = self._preset.parameters[name]
        self._used.add(name)
        if name in self._values:
            return self._values[name]
        if parameter.optional:
            left_out = (
                f" Without it the contract has no {' and no '.join(parameter.together)}." if parameter.together else ""
            )
            self._advise(f"with.{name}", f"{parameter.means}{left_out} {self._written(name)}")
            return _ABSENT
        if not self._stated:
            self._wrong(name, f"The preset {self._preset.preset} needs it: {parameter.means} {self._written(name)}")
        return parameter.example

    def _written(self, name: str) -> str:
        example = json.dumps(self._preset.parameters[name].example, ensure_ascii=False)
        return f"For example with: {{{name}: {example}}}."

    def _together(self, text: Any) -> tuple[str, ...]:
        names = _PLACE.findall(text) if isinstance(text, str) else []
        return tuple(member for name in names for member in self._preset.parameters[name].together)

    def _wrong(self, name: str, message: str) -> None:
        path = f"with.{name}"
        at = path if name in self._values else ("with" if "with" in self._document.value else "preset")
        self._problems.setdefault(path, Problem(path=path, line=self._document.line_of(at), message=message))

    def _advise(self, path: str, message: str) -> None:
        line = self._document.line_of("with" if "with" in self._document.value else "preset")
        self._advice.setdefault(path, Problem(path=path, line=line, message=message))

    def _judge_values(self) -> None:
        known = self._preset.parameters
        for name in self._values:
            if name not in known:
                knows = f"It knows {', '.join(known)}." if known else "It knows none."
                self._wrong(name, f"The preset {self._preset.preset} knows no such value. {knows}")
            elif name not in self._used:
                self._advise(
                    f"with.{name}", "Nothing uses this: the contract states the part itself in which it stood."
                )

    def _judge_members(self, whole: Mapping[str, Any]) -> None:
        line = self._document.line_of("preset")
        for path, sentence in self._preset.needs.items():
            if not _stands(whole, path):
                self._problems.setdefault(path, Problem(path=path, line=line, message=sentence))
        for path, sentence in self._preset.advises.items():
            if not _stands(whole, path):
                self._advice.setdefault(path, Problem(path=path, line=line, message=sentence))


def _stands(value: Any, path: str) -> bool:
    for step in path.split("."):
        if not isinstance(value, Mapping) or value.get(step) is None:
            return False
        value = value[step]
    return not (isinstance(value, list) and not value)
