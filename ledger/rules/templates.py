"""What is put into `{…}` of a key or a path, and what may stand there?

| place | may name |
| --- | --- |
| `idempotency.key` | `operation_id`, `operation_uuid`, `revision` |
| the `http.path` of `lookup[]`, `verify` and `dispatch` | `operation_id`, `idempotency_key`, `payload.…`, `receipt.…`, and for one item of a batch `item.…` |
| their headers and bodies, MCP arguments, SQL parameters | the same |

`{{` and `}}` stand for the braces themselves, as GraphQL needs them.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

_SLOT = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
"""A doubled brace, which is text, or a slot, whose name is the group. Read from the left."""
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_][\w-]*)*", re.ASCII)

KEY_NAMES = frozenset({"operation_id", "operation_uuid", "revision"})
PATH_NAMES = frozenset({"operation_id", "idempotency_key"})
PATH_ROOTS = frozenset({"payload", "receipt", "item"})


class NotRendered(ValueError):
    """A template names a value that is not there, or is not text or a number. `name` is the slot."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} has no value that can stand in a key or an address.")
        self.name = name


def slots(template: str) -> tuple[str, ...]:
    """The names between braces, in order.

    Raises:
        ValueError: braces that do not pair, or a name that is not one.
    """
    names = tuple(found[1] for found in _SLOT.finditer(template) if found[1] is not None)
    if "{" in (bare := _SLOT.sub("", template)) or "}" in bare:
        raise ValueError("A brace has no partner; write {operation_id} in full, and {{ or }} for a brace itself.")
    for name in names:
        if _NAME.fullmatch(name) is None:
            raise ValueError(f"{{{name}}} is not a name; write {{operation_id}} or {{payload.customer}}.")
    return names


def render_path(template: str, *, values: Mapping[str, Any]) -> str:
    """A path with its slots filled from nested `values` (`operation_id`, `idempotency_key`, `payload`, `receipt`).

    Every value is percent-encoded whole, slashes too, so a value can neither leave its place in the path nor add a
    query; a value of `.` or `..` is refused.

    Raises:
        NotRendered: a slot has no value, or one that is neither text nor a whole number.
    """

    def fill(found: re.Match[str]) -> str:
        if found[1] is None:
            return quote(found[0][0], safe="")
        value = _lookup(found[1], values)
        text = value if isinstance(value, str) else str(value)
        if text in {"", ".", ".."}:
            raise NotRendered(found[1])
        try:
            return quote(text, safe="")
        except UnicodeEncodeError:
            raise NotRendered(found[1]) from None

    return _SLOT.sub(fill, template)


def render_value(template: Any, *, values: Mapping[str, Any]) -> Any:
    """JSON with the slots of its strings filled. A string that is one slot and nothing else becomes the value itself,
    of whatever type; within other text a value is written out.

    Raises:
        NotRendered: a slot has no value, or within text one that is neither text nor a whole number.
    """
    if isinstance(template, str):
        if (whole := _SLOT.fullmatch(template)) is not None and whole[1] is not None:
            return _found(whole[1], values)
        return render_text(template, values=values)
    if isinstance(template, Mapping):
        return {name: render_value(value, values=values) for name, value in template.items()}
    if isinstance(template, list | tuple):
        return [render_value(value, values=values) for value in template]
    return template


def render_text(template: str, *, values: Mapping[str, Any]) -> str:
    """Text with its slots filled, and nothing of a value changed.

    Raises:
        NotRendered: a slot has no value, or one that is neither text nor a whole number.
    """

    def fill(found: re.Match[str]) -> str:
        return found[0][0] if found[1] is None else str(_lookup(found[1], values))

    return _SLOT.sub(fill, template)


def strings(template: Any) -> Iterator[str]:
    """Every string of a JSON template, wherever it stands; names of members are none."""
    if isinstance(template, str):
        yield template
    elif isinstance(template, Mapping):
        for value in template.values():
            yield from strings(value)
    elif isinstance(template, list | tuple):
        for value in template:
            yield from strings(value)


def _found(name: str, values: Mapping[str, Any]) -> Any:
    value: Any = values
    for step in name.split("."):
        if not isinstance(value, Mapping) or step not in value:
            raise NotRendered(name)
        value = value[step]
    return value


def _lookup(name: str, values: Mapping[str, Any]) -> str | int:
    value: Any = values
    for step in name.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise NotRendered(name)
    return value
