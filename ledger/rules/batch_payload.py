"""Where does a batch keep its items, what is each one's key, and what does a request with only some of them look like?

| the contract says                             | then an item is                     | and its key                      |
| --------------------------------------------- | ----------------------------------- | -------------------------------- |
| `items: {path: payload.tickets, key: ref}`    | each entry of the payload's tickets | the entry's own `ref`            |
| the same, and the entries are texts or numbers | each entry                          | the entry itself                 |

Keys are compared as text, exactly. They name an item for good: every later request carries items of the first one.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from ledger.rules.contract import Contract

MOST_ITEMS: Final = 10_000
LONGEST_KEY: Final = 200
ROOT: Final = "payload"


class ItemsInvalid(ValueError):
    """A batch's items cannot be told apart. Correct the member that `field` names; nothing was recorded."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(f"{field}: {sentence}")
        self.field = field
        self.sentence = sentence


def items_in(contract: Contract, payload: Any) -> dict[str, Any]:
    """Every item by its key, in the payload's order.

    Raises:
        ItemsInvalid: there is no list there, it has none or too many entries, or a key is missing, too long or taken.
        ValueError: the contract is no batch's.
    """
    at = _path(contract)
    entries = _found(payload, at)
    if not isinstance(entries, list):
        raise ItemsInvalid(at, "must be the list of the batch's items.")
    if not 1 <= len(entries) <= MOST_ITEMS:
        raise ItemsInvalid(at, f"must hold 1 to {MOST_ITEMS:,} items, not {len(entries):,}.")
    found: dict[str, Any] = {}
    for index, entry in enumerate(entries):
        where = f"{at}[{index}]"
        key = _key(contract, entry, where)
        if key in found:
            raise ItemsInvalid(where, f"has the key {key[:80]}, which an earlier item has already.")
        found[key] = entry
    return found


def with_items(contract: Contract, payload: Any, items: list[Any]) -> Any:
    """The payload with its items put where the contract has them. They are one request, and one digest covers it.

    Raises:
        ItemsInvalid: the payload holds other items there already, or no object to put them into.
    """
    at = _path(contract)
    present = _found(payload, at)
    if present is not None and present != items:
        raise ItemsInvalid("items", f"differ from what stands in {at}. State them once.")
    if present is None and not isinstance(payload, Mapping):
        raise ItemsInvalid(at, "must be an object that the items can stand in.")
    return payload if present is not None else _put(payload, at.split(".")[1:], list(items))


def carrying(contract: Contract, payload: Any, bodies: Iterable[Any]) -> Any:
    """The same request with these items in place of its own."""
    return _put(payload, _path(contract).split(".")[1:], list(bodies))


def without_items(contract: Contract, payload: Any) -> Any:
    """What a request holds beside its items."""
    return carrying(contract, payload, ())


def named_item(key: str, body: Any) -> dict[str, Any]:
    """An item as templates and comparisons see it: its members, and `key`."""
    members = dict(body) if isinstance(body, Mapping) else {}
    return {"key": key, **members}


def missing_keys(items: Mapping[str, Any], known: Collection[str]) -> list[str]:
    """Keys that name no item of the batch."""
    return [key for key in items if key not in known]


def _path(contract: Contract) -> str:
    if contract.items is None:
        raise ValueError("the contract names no items")
    return contract.items.path


def _key(contract: Contract, entry: Any, where: str) -> str:
    key = entry
    if isinstance(entry, Mapping) and contract.items is not None:
        where = f"{where}.{contract.items.key}"
        for step in contract.items.key.split("."):
            key = key.get(step) if isinstance(key, Mapping) else None
    if isinstance(key, bool) or not isinstance(key, str | int):
        raise ItemsInvalid(where, "must be the item's key: a text or a whole number.")
    text = str(key)
    if not 1 <= len(text) <= LONGEST_KEY:
        raise ItemsInvalid(where, f"must be a key of 1 to {LONGEST_KEY} characters.")
    return text


def _found(payload: Any, path: str) -> Any:
    value = payload
    for step in path.split(".")[1:]:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _put(value: Any, steps: list[str], items: list[Any]) -> Any:
    if not steps:
        return items
    members = dict(value) if isinstance(value, Mapping) else {}
    members[steps[0]] = _put(members.get(steps[0]), steps[1:], items)
    return members
