"""The bytes of a payload: RFC 8785 to the byte, and refusals that name the member."""

import hashlib
import json
import struct
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
import rfc8785
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ledger.rules.payload import (
    LARGEST_INTEGER,
    NotCanonical,
    NotJson,
    canonical,
    digest,
    digest_of,
    parse_strict,
    raw,
    redact,
    shown,
)

NUMBERS = [
    ("0000000000000000", b"0", "zero"),
    ("8000000000000000", b"0", "minus zero"),
    ("0000000000000001", b"5e-324", "smallest positive"),
    ("8000000000000001", b"-5e-324", "smallest negative"),
    ("7fefffffffffffff", b"1.7976931348623157e+308", "largest positive"),
    ("ffefffffffffffff", b"-1.7976931348623157e+308", "largest negative"),
    ("4430000000000000", b"295147905179352830000", "about 2 to the 68th"),
    ("44b52d02c7e14af5", b"9.999999999999997e+22", "just below 1e23"),
    ("44b52d02c7e14af6", b"1e+23", "1e23"),
    ("44b52d02c7e14af7", b"1.0000000000000001e+23", "just above 1e23"),
    ("444b1ae4d6e2ef4e", b"999999999999999700000", "below 1e21, further"),
    ("444b1ae4d6e2ef4f", b"999999999999999900000", "below 1e21"),
    ("444b1ae4d6e2ef50", b"1e+21", "the first with an exponent"),
    ("3eb0c6f7a0b5ed8c", b"9.999999999999997e-7", "the last with a negative exponent"),
    ("3eb0c6f7a0b5ed8d", b"0.000001", "the first without"),
    ("41b3de4355555553", b"333333333.3333332", "rounding"),
    ("41b3de4355555554", b"333333333.33333325", "rounding"),
    ("41b3de4355555555", b"333333333.3333333", "rounding"),
    ("41b3de4355555556", b"333333333.3333334", "rounding"),
    ("41b3de4355555557", b"333333333.33333343", "rounding"),
    ("becbf647612f3696", b"-0.0000033333333333333333", "without an exponent to seven places"),
    ("43143ff3c1cb0959", b"1424953923781206.2", "round to even"),
]
"""The doubles of RFC 8785, appendix B, as IEEE 754 bits; those that are no number stand in REFUSED."""
BEYOND = {"4430000000000000", "444b1ae4d6e2ef4e", "444b1ae4d6e2ef4f"}
"""Whole numbers beyond ±(2^53−1): RFC 8785 writes them, we refuse them, since another number would be written so too."""


@pytest.mark.parametrize(("bits", "written", "why"), NUMBERS, ids=[f"{bits} {why}" for bits, _, why in NUMBERS])
@pytest.mark.parametrize(
    "wrap", [lambda n: n, lambda n: {"n": n}, lambda n: [1, n, "1.0"]], ids=["bare", "member", "item"]
)
def test_numbers_of_the_rfc(bits: str, written: bytes, why: str, wrap: Any) -> None:
    [number] = struct.unpack(">d", bytes.fromhex(bits))
    if bits in BEYOND:
        with pytest.raises(NotCanonical):
            canonical(wrap(number))
        return
    assert canonical(wrap(number)) == rfc8785.dumps(wrap(number))
    assert written in canonical(wrap(number)), why


WRITTEN: list[tuple[Any, bytes, str]] = [
    ({"b": 1, "a": 2}, b'{"a":2,"b":1}', "sorted"),
    ({"€": 1, "\r": 2, "\ufb33": 3, "1": 4, "😀": 5, "\x80": 6, "ö": 7},
     '{"\\r":2,"1":4,"\x80":6,"ö":7,"€":1,"😀":5,"\ufb33":3}'.encode(), "RFC 8785 §3.2.3: by UTF-16 code units"),
    ({"a😀": 1, "a\ufb33": 2}, '{"a😀":1,"a\ufb33":2}'.encode(), "an emoji sorts before the end of the basic plane"),
    ({"x": "😀 \ufb33"}, '{"x":"😀 \ufb33"}'.encode(), "in a value neither matters"),
    ("\u20ac$\u000f\nA'B\"\\\\\"/", '"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"'.encode(), "RFC 8785 §3.2.2.2: escapes"),
    ("\b\t\n\f\r\x1f\x7f", b'"\\b\\t\\n\\f\\r\\u001f\x7f"', "two-letter escapes where JSON has them"),
    ("\\u0000", b'"\\\\u0000"', "text that only looks like NUL"),
    (1.0, b"1", "a whole float is the same number as the integer"),
    ([1.0, -0.0, 1e2, 1.5], b"[1,0,100,1.5]", "also inside"),
    ({"a": 1e-7, "b": 1e-6, "c": 123e-20}, b'{"a":1e-7,"b":0.000001,"c":1.23e-18}', "exponents below 1e-6 only"),
    ({"at": "09:00:00.000Z", "n": ",1.0,", "id": "\":1e5", "x": 1.0}, b'{"at":"09:00:00.000Z","id":"\\":1e5","n":",1.0,","x":1}',
     "text that looks like a number stays as it is"),
    ([None, True, False, {}, []], b"[null,true,false,{},[]]", "literals"),
    ((1, (2, None)), b"[1,[2,null]]", "a tuple is a list"),
    ({"a": None, "b": 1.0, "c": (None,)}, b'{"a":null,"b":1,"c":[null]}', "null is not infinity"),
    (LARGEST_INTEGER, b"9007199254740991", "the last integer"),
    (-LARGEST_INTEGER, b"-9007199254740991", "the first"),
    (float(LARGEST_INTEGER), b"9007199254740991", "also as a float"),
    (1e21, b"1e+21", "a double with an exponent is what it says"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "written", "why"), WRITTEN, ids=[why for *_, why in WRITTEN])
def test_canonical_bytes(value: Any, written: bytes, why: str) -> None:
    assert canonical(value) == written, why


REFUSED: list[tuple[Any, str, str, str]] = [
    ({"n": 2**53}, "n", "cannot be told apart", "2^53 and 2^53+1 are one double"),
    ({"n": -(2**53)}, "n", "cannot be told apart", "also below"),
    ({"a": {"b": [0, 10**30]}}, "a.b[1]", "cannot be told apart", "far beyond 64 bits"),
    ({"n": 2.0**53}, "n", "cannot be told apart", "also as a float"),
    ({"n": [1e16]}, "n[0]", "cannot be told apart", "also where it is written with an exponent"),
    ({"n": float("nan")}, "n", "must be finite", "not a number"),
    ({"n": None, "m": [float("inf")]}, "m[0]", "must be finite", "infinity beside a null"),
    (float("-inf"), "", "must be finite", "bare"),
    ({"t": "a\x00b"}, "t", "NUL", "PostgreSQL keeps no NUL"),
    ({"a": [{"k\x00": 1}]}, "a[0].k\x00", "NUL", "nor in a name"),
    ({"t": "\ud800"}, "t", "surrogate", "half of a pair"),
    ({"t": {"\udc00": 1}}, "t.\udc00", "surrogate", "half of a pair in a name"),
    ({"t": datetime(2026, 12, 1, tzinfo=UTC)}, "t", "datetime is not a JSON value", "a time is text or nothing"),
    ({"t": b"x"}, "t", "bytes is not a JSON value", "bytes are not text"),
    ({"t": {1, 2}}, "t", "set is not a JSON value", "a set has no order"),
    ({1: 2}, "", "member names must be text", "a number is no name"),
    ({"one": 2**60, "two": float("nan")}, "one", "cannot be told apart", "the first of two"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "field", "says", "why"), REFUSED, ids=[why for *_, why in REFUSED])
def test_what_cannot_be_recorded_is_named(value: Any, field: str, says: str, why: str) -> None:
    with pytest.raises(NotCanonical, match=says) as refused:
        canonical(value)
    assert refused.value.field == field, why


def test_a_hostile_depth_is_refused() -> None:
    value: Any = 1
    for _ in range(100_000):
        value = [value]
    with pytest.raises(NotCanonical):
        canonical(value)


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12) | st.sampled_from(
    ["09:00:00.000Z", "1.0", ",1.0,", '":1e5', "null", "1e+16", "😀", "\ufb33", "\\u0000", '\\"', "3.", "[1.0]"]
)
FLOATS = st.floats(allow_nan=False, allow_infinity=False) | st.floats(-1e6, 1e6).map(lambda n: round(n, 2))
SCALARS = st.none() | st.booleans() | st.integers(-LARGEST_INTEGER, LARGEST_INTEGER) | TEXT | FLOATS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXT, inner, max_size=5),
    max_leaves=25,
)


def _beyond(value: Any) -> bool:
    """Whether a whole number beyond the limit is in it, which we refuse and RFC 8785 does not."""
    if isinstance(value, float):
        return value.is_integer() and LARGEST_INTEGER < abs(value) < 1e21
    if isinstance(value, Mapping):
        return any(map(_beyond, value.values()))
    return isinstance(value, list) and any(map(_beyond, value))


@settings(max_examples=600, deadline=None)
@given(value=VALUES)
@example(value=9007199254740991.0)
@example(value=[5e-324, 1.5e300, 123456789012345680.0])
@example(value={"\U00010000": 1, "\uffff": 2.0})
def test_every_value_is_what_the_reference_writes(value: Any) -> None:
    if _beyond(value):
        with pytest.raises(NotCanonical):
            canonical(value)
    else:
        assert canonical(value) == rfc8785.dumps(value)


@settings(max_examples=500, deadline=None)
@given(number=st.floats(allow_nan=False, allow_infinity=False))
def test_every_double_is_what_the_reference_writes(number: float) -> None:
    if _beyond(number):
        return
    assert canonical({"n": number}) == rfc8785.dumps({"n": number})


@settings(max_examples=200, deadline=None)
@given(value=VALUES)
def test_what_came_in_goes_out_the_same(value: Any) -> None:
    if _beyond(value):
        return
    body = canonical(value)
    assert canonical(parse_strict(body)) == body
    assert canonical(parse_strict(json.dumps(value, ensure_ascii=True).encode())) == body


@settings(max_examples=200, deadline=None)
@given(value=st.recursive(st.floats() | st.integers() | st.text() | st.none(), st.lists, max_leaves=6))
def test_anything_is_written_or_refused_by_name(value: Any) -> None:
    try:
        body = canonical(value)
    except NotCanonical:
        return
    assert rfc8785.dumps(value) == body


NOT_TAKEN = [
    (b"", "EOF", None, "nothing"),
    (b'{"a":', "EOF", None, "cut off"),
    (b"{'a': 1}", None, None, "Python is not JSON"),
    (b'{"a":1,}', None, None, "a comma too many"),
    (b'{"a":1} {"b":2}', None, None, "two values"),
    (b'{"a":1,"a":1}', 'duplicate key "a"', "a", "a key twice, even with the same value"),
    (b'{"o":{"k":1,"k":2}}', 'duplicate key "k"', "k", "a key twice inside"),
    (b'{"a":1,"\\u0061":2}', 'duplicate key "a"', "a", "a key twice, written in two ways"),
    (b"NaN", None, None, "not a number"),
    (b'{"n":Infinity}', None, None, "infinity by name"),
    (b'{"n":-Infinity}', None, None, "minus infinity by name"),
    (b'{"a":[1e999]}', "beyond what a number can hold", "a[0]", "infinity by overflow"),
    (b'{"a":-1e+0400}', "beyond what a number can hold", "a", "minus infinity by overflow"),
    (b"1" + b"0" * 308 + b"e1", "beyond what a number can hold", None, "infinity by length"),
    (b'{"n":' + b"9" * 5000 + b"}", None, None, "more digits than a machine should read"),
    (b'"\\ud800"', "surrogate", None, "half of a surrogate pair"),
    (b'"\\udc00\\ud800"', "surrogate", None, "a pair the wrong way round"),
    (b'"\xff"', None, None, "not UTF-8"),
    (b'"\xed\xa0\x80"', None, None, "a surrogate in UTF-8"),
    ('{"a":1}'.encode("utf-16"), None, None, "UTF-16"),
    (b'\xef\xbb\xbf{"a":1}', None, None, "a byte order mark"),
    (b"[" * 10_000 + b"]" * 10_000, "200 levels", None, "hostile depth"),
    (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, "200 levels", None, "hostile depth of objects"),
    (b"\x00", None, None, "a NUL"),
    (b'"a\x01b"', None, None, "a control character"),
    (b"[01]", None, None, "a leading zero"),
    (b"[+1]", None, None, "a plus sign"),
    (b"[.5]", None, None, "no digit before the point"),
]


@pytest.mark.parametrize(("body", "says", "field", "why"), NOT_TAKEN, ids=[why for *_, why in NOT_TAKEN])
def test_text_that_is_not_taken(body: bytes, says: str | None, field: str | None, why: str) -> None:
    with pytest.raises(NotJson, match=says) as refused:
        parse_strict(body)
    assert refused.value.field == field, why


def test_large_exponents_that_are_numbers_are_taken() -> None:
    assert parse_strict(b'{"a":1e308,"b":1E-999,"c":"1e999"}') == {"a": 1e308, "b": 0.0, "c": "1e999"}


@settings(max_examples=300, deadline=None)
@given(body=st.binary(max_size=60))
def test_any_bytes_are_a_value_or_a_refusal(body: bytes) -> None:
    try:
        value = parse_strict(body)
    except NotJson:
        return
    assert json.loads(body) == value


def test_digests_go_round() -> None:
    body = canonical({"a": 1.0})
    assert digest({"a": 1}) == digest_of(body) == "sha256:" + hashlib.sha256(b'{"a":1}').hexdigest()
    assert shown(raw(digest({"a": 1}))) == digest({"a": 1})


def test_the_digest_of_a_class_that_is_no_json_is_refused() -> None:
    with pytest.raises(NotCanonical):
        digest({"n": float("inf"), "id": UUID(int=1)})


REDACTED: list[tuple[Any, list[str], Any, str]] = [
    ({"a": 1, "b": 2}, ["a"], {"a": "[redacted]", "b": 2}, "a member"),
    ({"a": {"b": 1, "c": 2}}, ["a.b"], {"a": {"b": "[redacted]", "c": 2}}, "a member of a member"),
    ({"a": [{"b": 1}, {"c": 2}]}, ["a.b"], {"a": [{"b": "[redacted]"}, {"c": 2}]}, "in every item of a list"),
    ({"a": 1}, ["b", "a.b.c"], {"a": 1}, "what is not there"),
    ({"a": 1}, [], {"a": 1}, "nothing"),
]


@pytest.mark.parametrize(("value", "paths", "left", "why"), REDACTED, ids=[why for *_, why in REDACTED])
def test_redaction(value: Any, paths: list[str], left: Any, why: str) -> None:
    before = json.dumps(value)
    assert redact(value, paths=paths) == left, why
    assert json.dumps(value) == before, "the value itself stays"
