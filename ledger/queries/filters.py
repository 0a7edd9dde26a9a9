"""Which operations match a filter, and where does a page of them end?

The filter language of the queue page and of `GET /api/v1/operations?q=…`, indexed qualifiers only:

| written                       | means                                            |
| ----------------------------- | ------------------------------------------------ |
| `is:unresolved` `is:settled`  | not settled; settled                             |
| `state:escalated`             | exactly that state                               |
| `effect:unknown`              | exactly that effect                              |
| `tool:tickets.create` `tool:tickets.*` | that tool; tools whose name starts so   |
| `id:ticket:case-1` or bare text | operation ids that start with the text         |
"""

import base64
import binascii
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from ledger.rules.vocabulary import Effect, State


class FilterInvalid(ValueError):
    """A token of the filter is not understood. `token` is the token as written; the sentence says what is."""

    def __init__(self, token: str, sentence: str) -> None:
        super().__init__(f"{token}: {sentence}")
        self.token = token
        self.sentence = sentence


class CursorInvalid(ValueError):
    """The cursor is not one of ours. Start again from the first page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What to look for; empty means everything in the workspace."""

    unresolved: bool | None = None
    states: tuple[State, ...] = ()
    effects: tuple[Effect, ...] = ()
    tool: str | None = None
    starts_with: str | None = None

    def where(self) -> tuple[str, dict[str, Any]]:
        """SQL conditions over `operation o JOIN tool t`, and their parameters."""
        conditions: list[str] = []
        params: dict[str, Any] = {}
        if self.unresolved is not None:
            conditions.append("o.state <> 'settled'" if self.unresolved else "o.state = 'settled'")
        if self.states:
            conditions.append("o.state = ANY(%(states)s)")
            params["states"] = [state.value for state in self.states]
            if self.unresolved is None and State.SETTLED not in self.states:
                conditions.append("o.state <> 'settled'")
        if self.effects:
            conditions.append("o.effect = ANY(%(effects)s)")
            params["effects"] = [effect.value for effect in self.effects]
        if self.tool is not None:
            if self.tool.endswith("*"):
                conditions.append("starts_with(t.name, %(tool)s)")
                params["tool"] = self.tool[:-1]
            else:
                conditions.append("t.name = %(tool)s")
                params["tool"] = self.tool
        if self.starts_with is not None:
            conditions.append("starts_with(o.operation_id, %(starts_with)s)")
            params["starts_with"] = self.starts_with
        return "".join(f" AND {condition}" for condition in conditions), params


def parse_filter(text: str) -> Filter:
    """A filter from what a person or a harness wrote.

    Raises:
        FilterInvalid: with the token that is not understood.
    """
    found: dict[str, Any] = {"states": (), "effects": ()}
    for token in text.replace("\x00", " ").split()[:40]:
        name, colon, value = token.partition(":")
        if not colon or name not in _QUALIFIERS:
            found["starts_with"] = token
            continue
        _QUALIFIERS[name](token, value, found)
    return Filter(**found)


def _is(token: str, value: str, found: dict[str, Any]) -> None:
    if value not in ("unresolved", "settled"):
        raise FilterInvalid(token, "write is:unresolved or is:settled")
    found["unresolved"] = value == "unresolved"


def _state(token: str, value: str, found: dict[str, Any]) -> None:
    if value not in list(State):
        raise FilterInvalid(token, f"a state is one of {', '.join(State)}")
    found["states"] += (State(value),)


def _effect(token: str, value: str, found: dict[str, Any]) -> None:
    if value not in list(Effect):
        raise FilterInvalid(token, f"an effect is one of {', '.join(Effect)}")
    found["effects"] += (Effect(value),)


def _tool(token: str, value: str, found: dict[str, Any]) -> None:
    if not value:
        raise FilterInvalid(token, "write a tool's name, or its beginning and a star")
    found["tool"] = value


def _id(token: str, value: str, found: dict[str, Any]) -> None:
    if not value:
        raise FilterInvalid(token, "write the beginning of an operation id")
    found["starts_with"] = value


_QUALIFIERS = {"is": _is, "state": _state, "effect": _effect, "tool": _tool, "id": _id}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """A place in a list that is ordered by creation: the last row seen."""

    created_at: datetime
    id: UUID

    def written(self) -> str:
        """Opaque text for a URL."""
        return base64.urlsafe_b64encode(f"{self.created_at.isoformat()}|{self.id}".encode()).decode().rstrip("=")


def parse_cursor(text: str) -> Cursor:
    """The place behind an opaque cursor.

    Raises:
        CursorInvalid: it is not one that we gave.
    """
    try:
        created_at, _, id = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode().partition("|")
        moment = datetime.fromisoformat(created_at)
        if moment.tzinfo is None:
            raise CursorInvalid("the cursor is not one that we gave; start from the first page")
        return Cursor(created_at=moment, id=UUID(id))
    except (ValueError, binascii.Error, UnicodeError) as error:
        raise CursorInvalid("the cursor is not one that we gave; start from the first page") from error
