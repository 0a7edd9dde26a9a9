"""Which conditions does a contract carry, compiled once and ready to ask?"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from ledger.rules.contract_sections import ErrorRule, LookupEffects, LookupRule, Notice
from ledger.rules.expressions import (
    ANSWER_VARIABLES,
    MATCH_VARIABLES,
    RECEIPT_VARIABLES,
    REQUEST_VARIABLES,
    Condition,
    Context,
    ExpressionInvalid,
    Value,
    compile_condition,
    compile_value,
)
from ledger.rules.vocabulary import Effect

if TYPE_CHECKING:
    from ledger.rules.contract import Contract

MOST_ALTERNATIVES: Final = 5

_SLOT = re.compile(r"\{(\w+):([^{}]+)\}")
_SLOT_KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {"number": "a number", "date": "a date", "id": "an id", "enum": "one of its values"}
)
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@~/-]{0,99}", re.ASCII)
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """A sentence of ours with typed slots. An owner's free text never fills one."""

    template: str
    slots: Mapping[str, tuple[str, Value]] = field(default_factory=dict)

    def told(self, context: Context) -> str:
        """The sentence; a slot whose value is not there, or not of its kind, says so instead."""

        def fill(found: re.Match[str]) -> str:
            kind, value = self.slots[found[0]]
            return _slot_text(kind, value.read(context)) or f"({_SLOT_KINDS[kind]} that was not stated)"

        return _SLOT.sub(fill, self.template)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledError:
    """One error rule, ready to ask."""

    rule: ErrorRule
    when: Condition
    hint: Hint | None
    alternatives: Value | None

    def legal_alternatives(self, context: Context) -> tuple[str | int | float | bool, ...]:
        """At most five scalars; longer text than 100 characters is left out."""
        found = self.alternatives.read(context) if self.alternatives is not None else None
        if not isinstance(found, list | tuple):
            return ()
        scalars = [
            value for value in found if isinstance(value, int | float) or (isinstance(value, str) and len(value) <= 100)
        ]
        return tuple(scalars[:MOST_ALTERNATIVES])


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledLookup:
    """One lookup rule, ready to ask."""

    rule: LookupRule
    found: Condition | None
    no_match: Condition | None
    effects: tuple[tuple[Effect, Condition], ...]
    """In the order in which they are asked. Empty: a found object means applied."""
    same: Mapping[str, Value]
    items: Value | None
    next: Value | None
    match: Condition | None
    truncated: Condition | None
    revision: Value | None
    event_at: Value | None

    def effect_of(self, context: Context) -> Effect | None:
        """What a found object says; None when no condition holds (the lookup is inconclusive)."""
        return Effect.APPLIED if not self.effects else _first_effect(self.effects, context)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledNotice:
    """How a notification is read, ready to ask."""

    operation_id: Value | None
    idempotency_key: Value | None
    effects: tuple[tuple[Effect, Condition], ...]
    same: Mapping[str, Value]
    event_at: Value | None
    revision: Value | None

    def effect_of(self, context: Context) -> Effect | None:
        """What the notification says; None when no condition holds: it settles nothing."""
        return _first_effect(self.effects, context)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """Every condition of a contract."""

    success: Condition | None
    in_flight: Condition | None
    replay_marker: Condition | None
    required_when: Condition | None
    receipt: Mapping[str, Value]
    errors: tuple[CompiledError, ...]
    lookups: tuple[CompiledLookup, ...]
    expect: Mapping[str, Value]
    notice: CompiledNotice | None
    problems: tuple[tuple[str, str], ...]
    """(path, sentence) of every expression that may not stand; empty in a contract that was parsed."""

    def error_for(self, context: Context) -> CompiledError | None:
        """The first error rule that matches."""
        return next((rule for rule in self.errors if rule.when.matches(context)), None)

    def conditions(self) -> Iterator[tuple[str, Condition]]:
        """Every condition over an answer, with its path in the document."""
        named = [
            ("success", self.success),
            ("idempotency.in_flight", self.in_flight),
            ("idempotency.replay_marker", self.replay_marker),
        ]
        named += [(f"errors[{index}].when", error.when) for index, error in enumerate(self.errors)]
        for index, lookup in enumerate(self.lookups):
            at = f"lookup[{index}]"
            named += [
                (f"{at}.found", lookup.found),
                (f"{at}.no_match", lookup.no_match),
                (f"{at}.truncated", lookup.truncated),
            ]
            named += [(f"{at}.effect.{effect}", condition) for effect, condition in lookup.effects]
        return ((path, condition) for path, condition in named if condition is not None)


def compile_contract(contract: "Contract") -> Compiled:
    """Compiles every expression of a contract; what may not stand is listed in `problems`, never raised."""
    using = _Compiler()
    key = contract.idempotency
    return Compiled(
        success=using.condition("success", contract.success),
        in_flight=using.condition("idempotency.in_flight", key.in_flight),
        replay_marker=using.condition("idempotency.replay_marker", key.replay_marker),
        required_when=using.condition(
            "approval.required_when",
            contract.approval.required_when if contract.approval else None,
            variables=REQUEST_VARIABLES,
        ),
        receipt=using.values("receipt", contract.receipt, variables=RECEIPT_VARIABLES),
        errors=tuple(
            error
            for index, rule in enumerate(contract.errors)
            if (error := _error(using, f"errors[{index}]", rule)) is not None
        ),
        lookups=tuple(_lookup(using, f"lookup[{index}]", rule) for index, rule in enumerate(contract.lookup)),
        expect=using.values("verify.expect", contract.verify.expect if contract.verify else {}),
        notice=_notice(using, contract.notice) if contract.notice else None,
        problems=tuple(using.problems),
    )


class _Compiler:
    """Compiles one expression after the other and keeps what is wrong with them."""

    def __init__(self) -> None:
        self.problems: list[tuple[str, str]] = []

    def condition(
        self, path: str, source: str | None, *, variables: frozenset[str] = ANSWER_VARIABLES
    ) -> Condition | None:
        try:
            return None if source is None else compile_condition(source, variables=variables)
        except ExpressionInvalid as error:
            self.problems.append((path, error.message))
            return None

    def value(self, path: str, source: str | None, *, variables: frozenset[str] = ANSWER_VARIABLES) -> Value | None:
        try:
            return None if source is None else compile_value(source, variables=variables)
        except ExpressionInvalid as error:
            self.problems.append((path, error.message))
            return None

    def values(
        self, path: str, sources: Mapping[str, str], *, variables: frozenset[str] = ANSWER_VARIABLES
    ) -> Mapping[str, Value]:
        found = {name: self.value(f"{path}.{name}", source, variables=variables) for name, source in sources.items()}
        return MappingProxyType({name: value for name, value in found.items() if value is not None})


def _error(using: _Compiler, path: str, rule: ErrorRule) -> CompiledError | None:
    when = using.condition(f"{path}.when", rule.when)
    hint = _hint(using, f"{path}.hint", rule.hint) if rule.hint is not None else None
    alternatives = using.value(f"{path}.alternatives", rule.alternatives)
    return CompiledError(rule=rule, when=when, hint=hint, alternatives=alternatives) if when is not None else None


def _hint(using: _Compiler, path: str, template: str) -> Hint:
    slots: dict[str, tuple[str, Value]] = {}
    for found in _SLOT.finditer(template):
        if found[1] not in _SLOT_KINDS:
            using.problems.append((path, f"{found[1]} is not a kind of slot; write number, date, id or enum."))
            continue
        value = using.value(path, found[2])
        if value is not None:
            slots[found[0]] = (found[1], value)
    rest = _SLOT.sub("", template)
    if "{" in rest or "}" in rest:
        using.problems.append((path, "A slot is written {date:body.slot}: its kind, a colon, and where it is found."))
    return Hint(template=template, slots=MappingProxyType(slots))


def _effects(using: _Compiler, path: str, stated: LookupEffects | None) -> tuple[tuple[Effect, Condition], ...]:
    effects: list[tuple[Effect, Condition]] = []
    if stated is not None:
        for effect, source in (
            (Effect.APPLIED, stated.applied),
            (Effect.PENDING, stated.pending),
            (Effect.PARTIAL, stated.partial),
            (Effect.NONE, stated.none),
        ):
            condition = using.condition(f"{path}.{effect}", source)
            if condition is not None:
                effects.append((effect, condition))
    return tuple(effects)


def _first_effect(effects: tuple[tuple[Effect, Condition], ...], context: Context) -> Effect | None:
    return next((effect for effect, condition in effects if condition.matches(context)), None)


def _notice(using: _Compiler, notice: Notice) -> CompiledNotice:
    return CompiledNotice(
        operation_id=using.value("notice.operation_id", notice.operation_id),
        idempotency_key=using.value("notice.idempotency_key", notice.idempotency_key),
        effects=_effects(using, "notice.effect", notice.effect),
        same=using.values("notice.same", notice.same),
        event_at=using.value("notice.event_at", notice.event_at),
        revision=using.value("notice.revision", notice.revision),
    )


def _lookup(using: _Compiler, path: str, rule: LookupRule) -> CompiledLookup:
    return CompiledLookup(
        rule=rule,
        found=using.condition(f"{path}.found", rule.found),
        no_match=using.condition(f"{path}.no_match", rule.no_match),
        effects=_effects(using, f"{path}.effect", rule.effect),
        same=using.values(f"{path}.same", rule.same),
        items=using.value(f"{path}.items", rule.items),
        next=using.value(f"{path}.next", rule.next),
        match=using.condition(f"{path}.match", rule.match, variables=MATCH_VARIABLES),
        truncated=using.condition(f"{path}.truncated", rule.truncated),
        revision=using.value(f"{path}.revision", rule.revision),
        event_at=using.value(f"{path}.event_at", rule.event_at),
    )


def _slot_text(kind: str, value: Any) -> str:
    """The value written out when it is of the slot's kind, else nothing."""
    if isinstance(value, bool):
        return ""
    text = str(value) if isinstance(value, int | float) else value
    if not isinstance(text, str):
        return ""
    if kind == "number":
        return text if re.fullmatch(r"-?\d{1,15}(\.\d{1,10})?", text, re.ASCII) else ""
    if kind == "date":
        return text if _is_date(text) else ""
    pattern = _ID if kind == "id" else _WORD
    return text if pattern.fullmatch(text) else ""


def _is_date(text: str) -> bool:
    if len(text) > 40:
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        try:
            datetime.fromisoformat(text)
        except ValueError:
            return False
    return True
