"""A preset plus a few lines is a contract: what is taken from where, and what is said when something is missing."""

from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.rules.contract import (
    ContractInvalid,
    check_contract,
    idempotency_key,
    parse_contract,
    parse_stated_contract,
)
from ledger.rules.contract_sections import LookupBy
from ledger.rules.licences import key_window_ends, may_repeat
from ledger.rules.presets import preset, preset_names, preset_text
from ledger.rules.vocabulary import Guarantee
from tests.judgement.stated import NOW, attempt, facts

NAMES = [
    "adyen", "aws-client-token", "aws-named", "azure-operation-id", "azure-repeatability", "email-smtp",
    "google-aip", "http-conditional-put", "http-idempotency-key", "http-no-key-lookup", "kubernetes",
    "matrix", "mcp-readonly-tool", "mcp-task", "nats-jetstream", "paypal", "postgres-xact", "prefect",
    "shopify-graphql", "sql-readonly", "square", "stripe-v1", "stripe-v2", "zendesk",
]  # fmt: skip

STRIPE = """\
contract: refunds.create
effect: write
owner: stripe
preset: stripe-v1
with: {collection: refunds}
"""


def needed(name):
    """What a contract must say, with the preset's own examples."""
    return {key: about.example for key, about in preset(name).parameters.items() if not about.optional}


def everything(name):
    return {key: about.example for key, about in preset(name).parameters.items()}


def stated(name, values, **more):
    document = {"contract": "things.create", "effect": "write", "owner": "things", "preset": name, **more}
    return {**document, "with": values} if values else document


def problems(source, parse=parse_contract):
    with pytest.raises(ContractInvalid) as invalid:
        parse(source)
    return {problem.path: (problem.line, problem.message) for problem in invalid.value.problems}


def test_these_are_there():
    assert list(preset_names()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_each_is_a_contract_with_what_it_asks_for(name):
    for values in (needed(name), everything(name)):
        checked = check_contract(stated(name, values))
        contract = checked.contract
        assert contract.preset == f"{name}@2026-11-30"
        assert contract.source is not None
        assert contract.source.url.startswith("https://")
    assert [note for note in checked.notes if "samples" in note.message] == [], "each condition has its sample"


@pytest.mark.parametrize("name", NAMES)
def test_none_proves_absence_by_itself(name):
    """How long an owner works on is documented nowhere: an administrator says it, or absence never counts."""
    alone = parse_contract(stated(name, needed(name)))
    assert all(rule.lag is None and rule.no_match is None for rule in alone.lookup)
    assert not any(rule.authoritative and rule.by is LookupBy.STATUS for rule in alone.lookup)


@pytest.mark.parametrize("name", NAMES)
def test_none_is_kinder_than_what_was_read(name):
    contract = parse_contract(stated(name, needed(name)))
    assert all(rule.clean_reads >= 1 for rule in contract.lookup)
    if contract.idempotency.guarantee is Guarantee.KEY:
        assert "operation_" in contract.idempotency.key
        longest = idempotency_key(contract, operation_id="x" * 200, revision=9)
        assert longest is not None
        assert len(longest) <= 255, "no owner here takes more"


SMALLEST = [
    ("stripe-v1", timedelta(hours=24), "at least 24 hours"),
    ("stripe-v2", timedelta(days=30), "30 days"),
    ("adyen", timedelta(days=7), "7 or 31 days, by which page one reads"),
    ("paypal", timedelta(hours=3), "3 hours for Vault, more for others"),
    ("zendesk", timedelta(hours=2), "2 hours"),
    ("aws-client-token", timedelta(minutes=5), "5 minutes for SQS, more for others"),
    ("google-aip", timedelta(minutes=60), "at least 60 minutes, many say"),
    ("azure-repeatability", timedelta(minutes=5), "at least 5 minutes"),
    ("matrix", timedelta(minutes=30), "a cache of 30 minutes before the day"),
    ("nats-jetstream", timedelta(minutes=2), "the default window"),
    ("shopify-graphql", timedelta(hours=24), "24 hours, by secondary texts"),
    ("square", None, "not published"),
    ("http-idempotency-key", None, "each owner publishes its own"),
    ("kubernetes", None, "as long as the object lives, which nobody knows"),
    ("prefect", None, "as long as the run is kept"),
    ("aws-named", None, "as long as the object lives"),
]


@pytest.mark.parametrize(("name", "retention", "why"), SMALLEST)
def test_the_smallest_stated_time_stands(name, retention, why):
    assert parse_contract(stated(name, needed(name))).idempotency.retention == retention, why


@pytest.mark.parametrize(("name", "retention", "why"), SMALLEST)
def test_a_key_licenses_a_repeat_only_while_it_is_remembered(name, retention, why):
    contract = parse_contract(stated(name, needed(name)))
    key = idempotency_key(contract, operation_id="op-1", revision=1)
    held = facts(contract, attempt(idempotency_key=key, opened_at=NOW), first_sent_at=NOW)
    ends = key_window_ends(facts=held, contract=contract)
    if retention is None:
        assert ends is None, why
        assert may_repeat(facts=held, contract=contract, now=NOW).code == "KEY_RETENTION_UNKNOWN"
    else:
        assert ends < NOW + retention, "not to the last second"
        assert may_repeat(facts=held, contract=contract, now=NOW) == "key_in_window"
        assert may_repeat(facts=held, contract=contract, now=ends).code == "KEY_WINDOW_OVER"


UNVERIFIED = {"adyen", "aws-client-token", "kubernetes", "nats-jetstream", "shopify-graphql", "stripe-v1", "zendesk"}


def test_what_was_not_read_in_the_owners_own_pages_says_so():
    assert {name for name in NAMES if preset(name).source.unverified} == UNVERIFIED
    for name in UNVERIFIED:
        assert parse_contract(stated(name, needed(name))).source.unverified is True


def test_merged_member_by_member():
    whole = parse_contract(
        STRIPE
        + 'idempotency: {key: "shop-{operation_id}", retention: 23h}\n'
        + "receipt: {charge: body.charge}\n"
        + "errors:\n  - {when: \"code == 'charge_already_refunded'\", class: business_rule, effect: none}\n"
    )
    assert whole.idempotency.key == "shop-{operation_id}", "the contract's own"
    assert whole.idempotency.retention == timedelta(hours=23), "the contract's own"
    assert whole.idempotency.field == "header:Idempotency-Key", "the preset's beside it"
    assert set(whole.receipt) == {"id", "charge"}
    assert [rule.code for rule in whole.errors] == [None, "STRIPE_KEY_REUSED"], "the contract's rules come first"
    assert whole.lookup[0].http.path.startswith("/v1/refunds/search"), "the preset's, with the value put in"
    assert whole.lookup[0].credential is None, "what is optional is left out"
    assert whole.model_dump(exclude_unset=True).keys() >= {"source", "samples", "preset"}


def test_lists_are_taken_whole():
    own = {"by": "status", "http": {"path": "/v1/refunds/{receipt.id}"}, "found": "status == 200"}
    sample = {"to": "lookup", "answer": {"status": 200}, "effect": "applied"}
    contract = parse_contract(stated("stripe-v1", {}, lookup=[own], samples=[sample]))
    assert [rule.http.path for rule in contract.lookup] == ["/v1/refunds/{receipt.id}"]
    assert len(contract.samples) == 1
    assert parse_contract(stated("stripe-v1", {}, lookup=[], samples=[])).lookup == (), "none is a statement too"
    without = parse_contract(stated("stripe-v1", {}, lookup=[own]))
    assert {sample.to for sample in without.samples} == {"request"}, "what answers the preset's lookup goes with it"


def test_schemas_and_sources_are_one_value():
    source = {"url": "https://intranet.example/stripe", "checked_on": "2026-12-01"}
    contract = parse_contract(stated("stripe-v1", needed("stripe-v1"), source=source, arguments={"type": "object"}))
    assert contract.source.url == "https://intranet.example/stripe"
    assert contract.source.unverified is False, "whoever states a source has read it"
    assert contract.preset == "stripe-v1@2026-11-30", "where the rest came from is still told"


def test_what_was_published_is_whole_and_stays_so():
    whole = parse_contract(STRIPE)
    stored = whole.model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert "with" not in stored
    assert parse_contract(stored) == whole
    older = {**stored, "preset": "stripe-v0@2020-01-01"}
    assert parse_contract(older).preset == "stripe-v0@2020-01-01", "a preset that is gone changes nothing published"


WRONG = [
    ("preset: stripe-v1\n", "with.collection", 4, "needs it", "a value that only the contract knows"),
    ("preset: stripe-v9\n", "preset", 4, "There are: adyen", "an unknown preset"),
    ("preset: [stripe-v1]\n", "preset", 4, "no such preset", "no name at all"),
    ("preset: stripe-v1@2026-11-30\n", "preset", 4, "Write preset: stripe-v1", "a whole one that is not whole"),
    ("preset: stripe-v1\nwith: refunds\n", "with", 5, "names and values", "no names"),
    ("preset: stripe-v1\nwith:\n  colection: refunds\n", "with.colection", 6, "knows no such value", "a misspelt value"),
    ("preset: stripe-v1\nwith: {collection: \"a'b\"}\n", "with.collection", 5, "letters, digits", "a quote inside a query"),
    ("preset: stripe-v1\nwith: {collection: 'a b'}\n", "with.collection", 5, "letters, digits", "a blank in an address"),
    ("preset: stripe-v1\nwith: {collection: [a]}\n", "with.collection", 5, "letters, digits", "a list inside text"),
    ("preset: stripe-v1\nwith: {collection: true}\n", "with.collection", 5, "letters, digits", "true inside text"),
    ("with: {collection: a}\n", "with", 4, "no preset", "values without a preset"),
    (
        "preset: stripe-v1\nwith: {collection: a, credential: hunter2}\n",
        "lookup[0].as",
        None,
        "in the preset stripe-v1",
        "a secret in the document, put into the preset's part",
    ),
    (
        "preset: stripe-v1\nwith: {collection: a}\nidempotency:\n  retention: soon\n",
        "idempotency.retention",
        7,
        "30s",
        "the contract's own line beside the preset's",
    ),
    (
        "preset: stripe-v1\nwith: {collection: a}\nerrors:\n  - {when: status, class: fatal}\n",
        "errors[0].when",
        7,
        "true or false",
        "a rule of the contract's own before the preset's",
    ),
    (
        "preset: stripe-v1\nwith: {collection: a}\nerrors:\n  - {when: status == 409, class: business_rule, effect: none}\n",
        "samples[0].effect",
        None,
        "in the preset stripe-v1",
        "a rule that contradicts what the owner documents",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "path", "line", "says", "why"), WRONG, ids=[why for *_, why in WRONG])
def test_what_is_missing_or_wrong_is_named(text, path, line, says, why):
    found = problems(f"contract: t\nowner: o\neffect: write\n{text}", check_contract)
    assert path in found, (why, found)
    assert found[path][0] == line, why
    assert says in found[path][1], why


def test_all_of_it_is_named_at_once():
    found = problems("contract: t\neffect: wrte\npreset: mcp-readonly-tool\nwith: {tol: x}\n", check_contract)
    assert set(found) == {"effect", "with.tool", "with.arguments", "with.found", "with.tol"}


def test_what_a_contract_gives_up_is_said():
    notes = {note.path: note for note in check_contract(stated("kubernetes", needed("kubernetes"))).notes}
    assert set(notes) == {"with.lag", "with.sees", "with.credential", "idempotency.retention"}
    assert "no_match and authoritative" not in notes["with.sees"].message
    assert "authoritative" in notes["with.lag"].message, "what is left out with it is named"
    notes = {note.path for note in check_contract(stated("adyen", {})).notes}
    assert notes == {"lookup"}
    unused = check_contract(stated("stripe-v1", {"collection": "refunds"}, lookup=[], samples=[])).notes
    assert [(note.path, "Nothing uses this" in note.message) for note in unused] == [("with.collection", True)]


def test_absence_with_what_the_administrator_states():
    values = {**needed("kubernetes"), "lag": "45s", "sees": "all"}
    [rule] = parse_contract(stated("kubernetes", values)).lookup
    assert (rule.lag, rule.authoritative, rule.sees) == (timedelta(seconds=45), True, "all")
    assert rule.no_match == "status == 404 && body.reason == 'NotFound'"


def test_a_question_needs_no_addresses():
    contract = parse_stated_contract({"effect": "write", "preset": "stripe-v1"})
    assert contract.idempotency.retention == timedelta(hours=24)
    assert problems({"effect": "write", "preset": "nope"}, parse_stated_contract)["preset"][0] is None


def test_whole_values_keep_their_type():
    contract = parse_contract(stated("mcp-readonly-tool", everything("mcp-readonly-tool")))
    assert contract.lookup[0].mcp.arguments == {"external_id": "{operation_id}"}


@pytest.mark.parametrize("name", NAMES)
def test_a_file_says_only_what_it_may(name):
    assert preset(name).preset == name
    assert not {"contract", "owner", "effect", "source", "preset"} & set(preset(name).gives), "those are the contract's"
    used = set()
    for word in preset_text(name).split("${")[1:]:
        used.add(word.partition("}")[0])
    assert used == set(preset(name).parameters), "every parameter is used, and every place has one"
    with pytest.raises(LookupError):
        preset_text("nope")


UUIDS = [
    (1, "new", None, "the first revision"),
    (2, "new", "differs", "another revision is another request, and its key still a UUID"),
    (2, "same", "alike", "unless a repair keeps the key"),
]


@pytest.mark.parametrize(("revision", "repair_key", "beside_first", "why"), UUIDS)
def test_keys_of_one_length(revision, repair_key, beside_first, why):
    contract = parse_contract(stated("adyen", {}, idempotency={"repair_key": repair_key}))
    first = idempotency_key(contract, operation_id="op-1", revision=1)
    key = idempotency_key(contract, operation_id="op-1", revision=revision)
    assert first == "9e7b4d69-dba0-59d2-b0ba-e1db203e1012", "the same for ever: owners remember it"
    assert len(key) == 36, why
    if beside_first is not None:
        assert (key == first) is (beside_first == "alike"), why
    assert idempotency_key(contract, operation_id="op-2", revision=1) != first


def test_the_table_in_the_folder_is_the_one_that_is_printed():
    printed = StringIO()
    call_command("contracts", "presets", stdout=printed)
    shown = (Path(__file__).parents[2] / "ledger" / "presets" / "README.md").read_text()
    assert printed.getvalue() in shown


MEMBERS = ["with", "collection", "credential", "lag", "idempotency", "errors", "lookup", "samples", "receipt", "source",
           "when", "by", "to", "answer", "retention", "as"]  # fmt: skip
ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.sampled_from(["refunds", "${collection}", "a'b", "status == 409", ""]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(MEMBERS), inner, max_size=3),
    max_leaves=8,
)


def outcome(parse, document):
    try:
        return parse(document)
    except ContractInvalid as invalid:
        return invalid


@given(name=st.sampled_from(NAMES), own=st.dictionaries(st.sampled_from(MEMBERS), ODD, max_size=4))
@settings(max_examples=300, deadline=None)
def test_nothing_beside_a_preset_raises_anything_but_invalid(name, own):
    for parse in (parse_contract, parse_stated_contract, check_contract):
        found = outcome(parse, {"contract": "t", "owner": "o", "effect": "write", **own, "preset": name})
        assert not isinstance(found, ContractInvalid) or all(problem.message for problem in found.problems)
