"""An error rule may not claim more than whoever answers then can know: refused when the contract is published."""

import pytest

from ledger.rules.contract import ContractInvalid, parse_contract, parse_stated_contract


def published(**rule):
    return {
        "contract": "things.create",
        "effect": "write",
        "owner": "things",
        "errors": [{"code": "X", **rule}],
    }


REFUSED = [
    ("status == 502", "success", "applied", "gateway", "a gateway speaks for itself alone"),
    ("status in [502, 504]", "success", "pending", "gateway", "nor does it know what still runs"),
    ("status == 524 && body.x == 1", "success", "applied", "gateway", "a number that only gateways send"),
    ("speaker == 'gateway' && status == 500", "success", "applied", "gateway", "said in so many words"),
    ("phase == 'connect'", "success", "applied", "harness", "a transport knows of no effect"),
    ("phase == 'await'", "transient", "none", "await", "no answer came, so nobody knows"),
    ("speaker == 'tool_text'", "business_rule", "none", "tool's text", "prose proves nothing"),
]
ACCEPTED = [
    ("status == 502", "transient", "none", "the gateway may document that it never reached the owner"),
    ("status in [500, 502]", "success", "applied", "the owner may be the one who answers"),
    ("status == 409", "success", "applied", "the owner's own answer"),
    ("phase == 'connect'", "transient", "none", "nothing had left"),
    ("phase == 'await' && code == '40P02'", "transient", "none", "the database had answered"),
    ("status == 502", "unknown_outcome", "unknown", "unknown may always be said"),
]


@pytest.mark.parametrize(("when", "kind", "effect", "word", "why"), REFUSED)
def test_a_claim_beyond_the_speaker_is_refused(when, kind, effect, word, why):
    document = published(when=when, **{"class": kind}, effect=effect)
    with pytest.raises(ContractInvalid) as caught:
        parse_contract(document)
    problem = caught.value.problems[0]
    assert problem.path == "errors[0].effect", why
    assert word in problem.message.lower(), why
    # A contract that only comes with a question is judged: the claim is then refused where it is made.
    parse_stated_contract(document)


@pytest.mark.parametrize(("when", "kind", "effect", "why"), ACCEPTED)
def test_a_claim_within_bounds_is_taken(when, kind, effect, why):
    assert parse_contract(published(when=when, **{"class": kind}, effect=effect)).errors, why


def test_a_read_has_nothing_to_claim():
    document = {**published(when="status == 502", **{"class": "transient"}), "effect": "read"}
    assert parse_contract(document).is_read
