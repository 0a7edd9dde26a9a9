"""What is written reads back as the same document, whatever text stands in it."""

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.rules.contract import ContractInvalid, parse_contract
from ledger.rules.contract_document import read_document
from ledger.rules.contract_text import contract_text
from ledger.rules.payload import digest
from ledger.rules.presets import preset, preset_names

SURPRISES = [
    *("yes", "no", "on", "off", "true", "null", "~", "", "1", "-0", "1e3", "0x1f", "1:30", "2026-11-30", "1_000", ".5"),
    *("=", "<<", "- a", "a: b", "a #b", "#", "&a", "*a", "!a", "%", "@", "`", "{a}", "[a]", "'", '"', "\\", "|", ">"),
    *(" a", "a ", "\n", "a\nb", "a\n\n  b\n", "\ta", "\u0085", "\u2028", "\ufeff", "\x00", "\x7f", "ü", "😀", "NaN", ".inf"),
]  # fmt: skip


@pytest.mark.parametrize("text", SURPRISES)
def test_text_stays_text(text):
    document = {"contract": "t", "title": text, "arguments": {text: [text, {text: text}]}}
    assert read_document(contract_text(document)).value == document


def test_members_stand_in_the_order_of_the_documentation():
    text = contract_text(
        {"success": "status == 200", "effect": "write", "contract": "t", "arguments": {"b": 1, "a": 2}}
    )
    assert list(yaml.safe_load(text)) == ["contract", "effect", "arguments", "success"]
    assert list(yaml.safe_load(text)["arguments"]) == ["b", "a"], "what is not ours stays as it was"


TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(SURPRISES)
NUMBERS = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=25,
)


@given(document=st.dictionaries(TEXT | st.sampled_from(["contract", "effect", "errors"]), VALUES, max_size=6))
@settings(max_examples=300, deadline=None)
def test_every_document_reads_back(document):
    assert read_document(contract_text(document)).value == document


@pytest.mark.parametrize("name", preset_names())
def test_a_published_contract_reads_back_with_the_same_digest(name):
    values = {parameter: about.example for parameter, about in preset(name).parameters.items()}
    given = {"contract": "t", "effect": "write", "owner": "o", "preset": name} | ({"with": values} if values else {})
    stored = parse_contract(given).model_dump(mode="json", by_alias=True, exclude_unset=True)
    again = parse_contract(contract_text(stored)).model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert digest(again) == digest(stored)


def test_what_indentation_makes_too_large_is_written_as_json():
    deep = [[[[["\u0085\u2028😀"] * 60] * 40]] * 3]
    document = {"contract": "t", "arguments": {"examples": deep}}
    assert contract_text(document).startswith("{")
    assert read_document(contract_text(document)).value == document


def test_more_than_can_be_read_is_refused():
    with pytest.raises(ContractInvalid, match="characters"):
        contract_text({"title": "x" * 200_000})
