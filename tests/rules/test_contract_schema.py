"""The schema for editors takes what `contracts check` takes, and refuses the slips that an editor can see."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from ledger.rules.contract import parse_contract
from ledger.rules.contract_document import read_document
from ledger.rules.contract_schema import contract_schema
from ledger.rules.presets import preset, preset_names
from tests.conftest import TICKETS
from tests.rules.test_contract import WHOLE

SCHEMA = contract_schema()
VALIDATOR = Draft202012Validator(SCHEMA, format_checker=Draft202012Validator.FORMAT_CHECKER)
DEMO = sorted((Path(__file__).parents[2] / "recovery" / "demo" / "contracts").glob("*.yaml"))


def wrong(document):
    return ["/".join(map(str, error.absolute_path)) for error in VALIDATOR.iter_errors(document)]


def test_it_is_a_schema():
    Draft202012Validator.check_schema(SCHEMA)
    assert json.loads(json.dumps(SCHEMA)) == SCHEMA


@pytest.mark.parametrize("file", DEMO, ids=[file.stem for file in DEMO])
def test_the_demos_contracts(file):
    assert wrong(read_document(file.read_text()).value) == []


def test_the_documented_contracts():
    assert wrong(read_document(WHOLE).value) == []
    assert wrong(TICKETS) == []


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_as_it_is_named_and_as_it_is_published(name):
    values = {parameter: about.example for parameter, about in preset(name).parameters.items()}
    named = {"contract": "t", "effect": "write", "owner": "o", "preset": name, "with": values}
    assert wrong(named) == []
    if not values:
        del named["with"]
    whole = parse_contract(named).model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert wrong(whole) == []


@pytest.mark.parametrize("name", preset_names())
def test_what_a_preset_gives_is_part_of_a_contract(name):
    given = preset(name).gives
    assert set(given) <= set(SCHEMA["properties"])
    members = given.get("idempotency", {})
    assert set(members) <= set(SCHEMA["$defs"]["Idempotency"]["properties"])


SLIPS = [
    ({"retires": 3}, "", "a misspelt member"),
    ({"effect": "wrte"}, "effect", "a misspelt word"),
    ({"deadline": "soon"}, "deadline", "no duration"),
    ({"deadline": 15}, "deadline", "a number has no unit"),
    ({"preset": "stripe"}, "preset", "no such preset"),
    ({"lookup": [{"by": "status", "fond": "status == 200"}]}, "lookup/0", "a misspelt member inside"),
    ({"lookup": [{"by": "guess"}]}, "lookup/0/by", "no such way"),
    ({"errors": [{"when": "status == 409"}]}, "errors/0", "no class"),
    ({"poll": {"factor": 0.5}}, "poll/factor", "waits that shrink"),
    ({"lookup": [{"by": "status", "as": "hunter2"}]}, "lookup/0/as", "a secret in the document"),
]


@pytest.mark.parametrize(("change", "path", "why"), SLIPS, ids=[why for *_, why in SLIPS])
def test_slips(change, path, why):
    assert path in wrong({"contract": "t", "owner": "o", "effect": "write", **change}), why


def test_what_must_be_stated():
    assert wrong({}) == ["", "", ""]


def test_every_member_is_described():
    """An editor shows these; where a member is a section, the section's own words are shown."""
    bare = {
        f"{name}.{member}"
        for name, section in {"Contract": SCHEMA, **SCHEMA["$defs"]}.items()
        for member, about in section.get("properties", {}).items()
        if "description" not in about and "$ref" not in about
    }
    assert bare == set()
    assert "CEL" in SCHEMA["$defs"]["ErrorRule"]["properties"]["when"]["description"]
    assert SCHEMA["properties"]["deadline"]["default"] == "15m"
