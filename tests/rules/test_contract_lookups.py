"""What a contract's HTTP lookups may say, and what is refused when it is published."""

import pytest

from ledger.rules.contract import ContractInvalid, parse_contract

SEARCH = {
    "by": "search",
    "http": {"path": "/t?q={operation_id}&after={cursor}"},
    "items": "body.items",
    "next": "body.next",
    "match": "item.ref == operation_id",
}
POST = {"method": "POST", "path": "/t/filter", "body": {"page": {"after": "{cursor}"}}}
OPERATION = {"by": "operation", "http": {"at": "location"}, "effect": {"applied": "body.done"}}
STATUS = {"by": "status", "http": {"path": "/t/{operation_id}"}, "found": "status == 200"}


def contract(rule):
    return parse_contract({"contract": "t", "owner": "o", "effect": "write", "lookup": [rule]})


GOOD = [
    (SEARCH, "a cursor in a parameter of its own"),
    ({**SEARCH, "http": {"path": "/t?after={cursor}"}}, "the only parameter"),
    ({**SEARCH, "http": {"path": "/t"}}, "addresses need no cursor"),
    ({**SEARCH, "http": POST}, "a cursor in a member of its own"),
    (OPERATION, "an address that the owner handed out"),
    ({**STATUS, "http": {"path": "/t", "headers": {"X-Ref": "{operation_id}"}}}, "a header of its own"),
]


@pytest.mark.parametrize(("rule", "why"), GOOD, ids=[why for _, why in GOOD])
def test_what_may_stand(rule, why):
    assert contract(rule), why


BAD = [
    ({**SEARCH, "next": None}, "lookup[0].next", "a cursor that no page shows"),
    ({**SEARCH, "http": {"path": "/t/{cursor}"}}, "lookup[0].http.path", "a cursor that cannot be left out"),
    ({**SEARCH, "http": {"path": "/t?q=a-{cursor}"}}, "lookup[0].http.path", "a cursor inside another value"),
    ({**SEARCH, "http": {**POST, "body": {"a": "x {cursor}"}}}, "lookup[0].http.body", "likewise, in a body"),
    (
        {**SEARCH, "http": {"path": "/t", "headers": {"X": "{cursor}"}}},
        "lookup[0].http.headers",
        "a cursor in a header",
    ),
    ({**STATUS, "http": {"path": "/t?after={cursor}"}}, "lookup[0].http.path", "one answer has no pages"),
    ({**OPERATION, "no_match": "status == 404", "lag": "1s"}, "lookup[0].no_match", "a handle expires"),
    (
        {**STATUS, "http": {"path": "/t", "headers": {"Host": "x"}}},
        "lookup[0].http.headers.Host",
        "another host's name",
    ),
    (
        {**STATUS, "http": {"path": "/t", "headers": {"transfer-encoding": "x"}}},
        "lookup[0].http.headers.transfer-encoding",
        "how the message travels",
    ),
    ({**STATUS, "http": {"path": "/t", "at": "url"}}, "lookup[0].http", "two addresses"),
    ({**STATUS, "http": {}}, "lookup[0].http", "none"),
]


@pytest.mark.parametrize(("rule", "path", "why"), BAD, ids=[why for *_, why in BAD])
def test_what_is_refused(rule, path, why):
    rule = {name: value for name, value in rule.items() if value is not None}
    with pytest.raises(ContractInvalid) as refused:
        contract(rule)
    assert path in {problem.path for problem in refused.value.problems}, (why, refused.value.problems)
