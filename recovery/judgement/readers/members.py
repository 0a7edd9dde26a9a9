"""Is each member of an observation of the type that its kind has?

A member of the wrong type makes the whole observation structurally wrong (`ObservationInvalid`, naming it);
a member that is missing or null is simply not known.
"""

from collections.abc import Mapping
from typing import Any

from recovery.judgement.reading import ObservationInvalid

COMMON = frozenset({"kind", "network_attempts", "cost", "observed_at", "request", "synthetic"})
"""Members that every kind may carry."""


def whole_number(holder: Mapping[str, Any], name: str, *, least: int, most: int, inside: str = "") -> int | None:
    """A whole number between two bounds, or None."""
    value = holder.get(name)
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ObservationInvalid(inside + name, f"must be a whole number from {least} to {most}.")
    return value


def text(holder: Mapping[str, Any], name: str, *, inside: str = "") -> str | None:
    """A text, or None."""
    value = holder.get(name)
    if value is not None and not isinstance(value, str):
        raise ObservationInvalid(inside + name, "must be text.")
    return value


def mapping(holder: Mapping[str, Any], name: str, *, inside: str = "") -> Mapping[str, Any]:
    """An object; empty when it is missing or null."""
    value = holder.get(name)
    if value is None:
        return {}
    if type(value) is not dict and not isinstance(value, Mapping):
        raise ObservationInvalid(inside + name, "must be an object.")
    return value


def flag(holder: Mapping[str, Any], name: str, *, inside: str = "") -> bool | None:
    """True, false or None."""
    value = holder.get(name)
    if value is not None and not isinstance(value, bool):
        raise ObservationInvalid(inside + name, "must be true or false.")
    return value


def network_attempts(observation: Mapping[str, Any]) -> int:
    """Real requests behind an observation; one when it does not say."""
    cost = observation.get("cost")
    if cost is not None and (isinstance(cost, bool) or not isinstance(cost, int | float)):
        raise ObservationInvalid("cost", "must be a number.")
    found = whole_number(observation, "network_attempts", least=0, most=1_000_000)
    return 1 if found is None else found


def split(observation: Mapping[str, Any], known: frozenset[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of the members that are looked at, and of those that nothing here knows (at most fifty)."""
    if known.issuperset(observation):
        return tuple(sorted(observation)), ()
    names = sorted([name if isinstance(name, str) else str(name) for name in observation])
    looked_at = [name for name in names if name in known]
    return tuple(looked_at), tuple([name[:100] for name in names if name not in known][:50])
