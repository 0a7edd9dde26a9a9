"""Which lookups ask by what is this operation's alone."""

import pytest

from ledger.rules.contract import parse_contract
from ledger.rules.lookup_keys import asks_by_handle, asks_by_operation_id, asks_exactly


def contract(rule, **more):
    return parse_contract({"contract": "t", "owner": "o", "effect": "write", "lookup": [rule], **more})


def by_path(path):
    return {"by": "status", "http": {"path": path}, "found": "status == 200"}


def by_list(match, path="/t"):
    return {"by": "list", "http": {"path": path}, "items": "body", "match": match}


NATURAL = {"idempotency": {"guarantee": "natural"}}
BATCH = {"effect": "batch", "items": {"path": "payload.tickets", "key": "ref"}}
SQL = {"by": "sql", "as": "env:D"}
RULES = [
    (by_path("/t/{idempotency_key}"), {}, True, False, False, "our key"),
    (by_path("/t/{operation_id}"), {}, True, False, True, "the operation's own name"),
    (by_path("/t?key={idempotency_key}&of={operation_id}"), {}, True, False, False, "both: the key narrows it"),
    (by_path("/t/{receipt.id}"), {}, True, True, False, "what the owner handed out"),
    (by_path("/t/{receipt.id}?of={operation_id}"), {}, True, True, False, "likewise, with our name beside it"),
    ({"by": "operation", "http": {"at": "location"}, "effect": {"applied": "body.ok"}}, {}, True, True, False,
     "an address that the owner handed out"),
    ({"by": "mcp_task", "task": "task-1"}, {}, True, True, False, "a task is one attempt's"),
    (by_path("/t/latest"), {}, False, False, False, "nothing of ours"),
    (by_path("/t?customer={payload.customer}"), {}, False, False, False, "another ticket of the same customer"),
    (by_path("/t/{payload.name}"), NATURAL, True, False, False, "the payload names what is made"),
    (by_path("/t/latest"), NATURAL, False, False, False, "but somewhere it must stand"),
    (by_list("item.ref == operation_id"), {}, True, False, False, "the whole list, matched by our name"),
    (by_list("item.title == payload.title"), {}, False, False, False, "matched by what others may have too"),
    (by_list("item.ref == idempotency_key"), {}, True, False, False, "matched by our key"),
    (by_path("/t/{item.ref}"), BATCH, True, False, False, "an item's own key"),
    (by_path("/t/{item.title}"), BATCH, False, False, False, "another member of an item"),
    ({"by": "status", "http": {"method": "POST", "path": "/q", "body": {"a": ["{operation_id}"]}},
      "found": "status == 200"}, {}, True, False, True, "in the body"),
    ({"by": "mcp_tool", "mcp": {"tool": "f", "arguments": {"q": "ref {operation_id}"}}, "found": "body.x"}, {}, True,
     False, True, "in a tool's arguments"),
    ({**SQL, "sql": {"statement": "SELECT %(k)s", "parameters": {"k": "{idempotency_key}"}}}, {}, True, False, False,
     "as a statement's parameter"),
    ({**SQL, "sql": {"statement": "SELECT %(c)s", "parameters": {"c": "{payload.customer}"}}}, {}, False, False, False,
     "by what others may have too"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "more", "exact", "handle", "name", "why"), RULES, ids=[why for *_, why in RULES])
def test_by_what_it_asks(rule, more, exact, handle, name, why):
    whole = contract(rule, **more)
    rule = whole.lookup[0]
    assert asks_exactly(rule, contract=whole) is exact, why
    assert asks_by_handle(rule) is handle, why
    assert asks_by_operation_id(rule) is name, why
