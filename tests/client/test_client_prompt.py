"""The text that tells a model how to act on each class."""

import pytest

from recovery.client import SYSTEM_PROMPT
from recovery.judgement.dialects import five_classes, open_codes

SAYS = [
    ("transient", "once more at most", "one retry"),
    ("validation", "Never send the identical", "the named field only"),
    ("permission", "Say which approval", "stop and ask"),
    ("business_rule", "offer the alternatives", "explain"),
    ("fatal", "do not repeat the call", "stop"),
]


@pytest.mark.parametrize(("kind", "words", "why"), SAYS)
def test_it_says_what_to_do_on_a_class(kind, words, why):
    line = next(part for part in SYSTEM_PROMPT.split("\n- ") if part.startswith(f"{kind}:"))
    assert words in line, why


def test_it_knows_every_class_and_every_open_outcome():
    assert {kind for kind, _, _ in SAYS} == five_classes()
    for code in open_codes():
        assert code in SYSTEM_PROMPT


def test_it_is_short_and_forbids_inventing():
    assert len(SYSTEM_PROMPT) < 2_200
    assert "never\ninvent a result" in SYSTEM_PROMPT
