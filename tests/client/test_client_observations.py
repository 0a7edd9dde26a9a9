"""What a report carries of an owner's body: exact JSON that the API accepts, else text."""

import json

import pytest

from ledger.rules.vocabulary import Phase as LedgerPhase
from recovery.client import Phase
from recovery.client.observations import readable


@pytest.mark.parametrize(
    ("content", "told", "reason"),
    [
        (b"", None, "nothing came"),
        (b'{"id": 1, "ok": true}', {"id": 1, "ok": True}, "plain JSON"),
        (b'{"id": 9007199254740991}', {"id": 9007199254740991}, "the largest exact integer"),
        (b'{"id": 9007199254740993}', {"id": "9007199254740993"}, "beyond it the digits are kept as text"),
        (b'{"id": ' + b"9" * 5000 + b"}", {"id": "9" * 5000}, "so are very many of them"),
        (b'{"v": NaN}', '{"v": NaN}', "no JSON"),
        (b'{"a": 1, "a": 2}', '{"a": 1, "a": 2}', "which of the two would be a guess"),
        (b'"\\ud800"', '"\\ud800"', "a lone surrogate stays escaped"),
        (b"[" * 100_000, "[" * 100_000, "too deep to read"),
        (b"<html>", "<html>", "text"),
        (b"\xff\x00", "��", "bytes that are no text, and NUL"),
    ],
)
def test_readable(content, told, reason):
    assert readable(content) == told, reason
    json.dumps(readable(content), ensure_ascii=False).encode()


def test_the_phases_are_the_ledgers():
    assert [phase.value for phase in Phase] == [phase.value for phase in LedgerPhase]
