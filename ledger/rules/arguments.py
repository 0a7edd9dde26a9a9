"""Do the arguments of a call fit the tool's JSON Schema, and if not, which member is wrong?"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError, best_match
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

_LONGEST_CONSTRAINT: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentProblem:
    """The member that is wrong, what is expected there, and the constraint that it breaks. Never its value."""

    field: str
    """JSON path into the call: `items[2].sku`. Empty: the payload as a whole."""
    expected: str
    """The type, or the values, that fit: `string`, `one of "low", "high"`."""
    constraint: str
    """The schema's own words: `maxLength: 200`."""


def validator(schema: Mapping[str, Any]) -> Draft202012Validator:
    """A validator that never fetches anything: a reference beyond the schema itself does not resolve."""
    return Draft202012Validator(dict(schema), registry=Registry())


def schema_problem(schema: Mapping[str, Any]) -> str | None:
    """Why this is not a usable JSON Schema (2020-12), in one sentence; None when it is."""
    try:
        Draft202012Validator.check_schema(dict(schema))
    except SchemaError as error:
        at = json_path(error.absolute_path)
        return f"This is not a JSON Schema: {at or 'it'} {_broken(error)}."
    except RecursionError:
        return "The schema is nested too deep."
    for reference in _references(schema):
        if not reference.startswith("#"):
            return f"{reference[:100]} lies outside this document; only references that start with # are followed."
        try:
            Registry().resolver_with_root(DRAFT202012.create_resource(dict(schema))).lookup(reference)
        except (Unresolvable, ValueError):
            return f"{reference[:100]} leads nowhere in this schema."
    try:
        best_match(validator(schema).iter_errors({}))
    except RecursionError:
        return "The schema refers to itself without end."
    except re.error:
        return "A pattern in the schema is not a regular expression."
    return None


def first_problem(against: Draft202012Validator, payload: Any) -> ArgumentProblem | None:
    """The most telling thing that is wrong with a payload, or None."""
    try:
        error = best_match(against.iter_errors(payload))
    except RecursionError:
        return ArgumentProblem(field="", expected="a value that is nested less deep", constraint="depth")
    if error is None:
        return None
    field = json_path(error.absolute_path)
    missing = _named(error)
    if missing is not None:
        field = f"{field}.{missing}" if field else missing
    return ArgumentProblem(field=field, expected=_expected(error, missing), constraint=_broken(error))


def json_path(steps: Any) -> str:
    """`items[2].sku` for the steps items, 2, sku."""
    path = ""
    for step in steps:
        path += f"[{step}]" if isinstance(step, int) else (f".{step}" if path else str(step))
    return path


def _named(error: ValidationError) -> str | None:
    """The member that an object lacks or has too many of, where the error is about a member and not the object."""
    held = error.instance if isinstance(error.instance, Mapping) else {}
    rule: Any = error.validator_value
    if error.validator == "required":
        return next((name for name in rule if name not in held), None)
    if error.validator == "dependentRequired":
        needed = (name for trigger, names in rule.items() if trigger in held for name in names)
        return next((name for name in needed if name not in held), None)
    if error.validator == "additionalProperties" and rule is False:
        known = error.schema.get("properties", {}) if isinstance(error.schema, Mapping) else {}
        return next((name for name in held if name not in known), None)
    return None


def _expected(error: ValidationError, missing: str | None) -> str:
    schema: Any = error.schema if isinstance(error.schema, Mapping) else {}
    if missing is not None:
        if error.validator == "additionalProperties":
            return "no such member"
        properties = schema.get("properties")
        schema = properties.get(missing, {}) if isinstance(properties, Mapping) else {}
    if not isinstance(schema, Mapping):
        return "a value"
    if "const" in schema:
        return _json(schema["const"])
    if isinstance(schema.get("enum"), list):
        return _cut("one of " + ", ".join(_json(value) for value in schema["enum"]))
    kind = schema.get("type")
    if isinstance(kind, list):
        return " or ".join(str(one) for one in kind)
    return str(kind) if kind else "a value that fits the schema"


def _broken(error: Any) -> str:
    if error.validator in ("required", "additionalProperties", "dependentRequired"):
        return str(error.validator)
    if error.validator in ("anyOf", "oneOf", "allOf", "not", "if", "then", "else", "properties"):
        return f"{error.validator}"
    return _cut(f"{error.validator}: {_json(error.validator_value)}")


def _json(value: Any) -> str:
    return _cut(json.dumps(value, ensure_ascii=False, default=str))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_CONSTRAINT else text[: _LONGEST_CONSTRAINT - 1] + "…"


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        for key, value in schema.items():
            if key in ("$ref", "$dynamicRef") and isinstance(value, str):
                yield value
            elif key not in ("const", "enum", "default", "examples"):
                yield from _references(value)
    elif isinstance(schema, list | tuple):
        for member in schema:
            yield from _references(member)
