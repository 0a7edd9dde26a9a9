"""Which bytes is a JSON value, and are two payloads the same?

| question                                   | answer                                                          |
| ------------------------------------------ | --------------------------------------------------------------- |
| which value may be recorded at all?        | I-JSON (RFC 7493): no duplicate key, NaN, infinity, lone surrogate, integer beyond ±(2^53−1); and no NUL |
| which bytes is it?                         | the JSON Canonicalization Scheme (RFC 8785)                     |
| are two payloads the same?                 | their SHA-256 over those bytes is the same                      |
| are two operations the same intent?        | the identity members of their payloads have the same digest     |

RFC 8785 writes numbers as doubles, so 2^53 and 2^53+1 would share a digest: such integers are refused,
never rounded. PostgreSQL stores no NUL in text, so it is refused here, by name.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

import jiter
import orjson
import rfc8785

LARGEST_INTEGER = 2**53 - 1
TEN_TO_21 = 1e21
"""From here on ECMAScript, and so RFC 8785, writes an exponent."""

# What orjson writes is what RFC 8785 writes, but for three things, which these patterns find in what it wrote. The
# first two also find text in strings that looks so; there, a look at the values tells.
_MAYBE_EXPONENT = re.compile(rb"e[-+0-9]")
_MAYBE_WHOLE_FLOAT = re.compile(rb"\.0[,}\]]")
_KEY_BEYOND_BASIC_PLANE = re.compile(rb'[\xf0-\xf4][^\xf0-\xf4"\\]*(?:\\.[^\xf0-\xf4"\\]*)*":')
"""RFC 8785 sorts by UTF-16 code units, orjson by code points: they differ only for such keys."""
_MAYBE_NUL = b"\\u0000"
_FAST = (
    orjson.OPT_SORT_KEYS
    | orjson.OPT_STRICT_INTEGER
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_DATACLASS
)
_MAYBE_INFINITE = re.compile(rb"[eE]\+?[0-9]{3}|[0-9]{200}")
_DUPLICATE_KEY = re.compile(r'Detected duplicate key "(.*)" at', re.DOTALL)


class NotCanonical(ValueError):
    """The value cannot be recorded. `field` is the JSON path to what is wrong; change that member and send again."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(f"{field}: {sentence}" if field else sentence)
        self.field = field
        self.sentence = sentence


class NotJson(ValueError):
    """The bytes are not the JSON that we take. The sentence says where and why; `field` names the member, where known."""

    def __init__(self, sentence: str, *, field: str | None = None) -> None:
        super().__init__(sentence)
        self.field = field


def parse_strict(body: bytes) -> Any:
    """The value of a JSON text, refusing what would make two readers disagree about it.

    Raises:
        NotJson: malformed, duplicate keys, NaN or infinity (also by overflow), a lone surrogate, over 200 levels deep,
            not UTF-8.
    """
    try:
        value = jiter.from_json(body, allow_inf_nan=False, catch_duplicate_keys=True)
    except ValueError as error:
        raise _not_json(str(error)) from error
    if _MAYBE_INFINITE.search(body):
        for path, number in _walk(value):
            if isinstance(number, float) and not isfinite(number):
                raise NotJson(f"{path or 'the number'} is beyond what a number can hold", field=path or None)
    return value


def _not_json(reason: str) -> NotJson:
    twice = _DUPLICATE_KEY.search(reason)
    if twice:
        return NotJson(reason[:1].lower() + reason[1:], field=twice[1])
    if "recursion limit" in reason:
        reason = reason.replace("recursion limit exceeded", "nested deeper than 200 levels")
    elif "hex escape" in reason or "surrogate" in reason:
        reason += " (half of a surrogate pair)"
    return NotJson(reason)


def canonical(value: Any) -> bytes:
    """The RFC 8785 bytes of a JSON value.

    Raises:
        NotCanonical: with the path of the member that cannot be recorded.
    """
    try:
        fast = orjson.dumps(value, option=_FAST)
    except (TypeError, ValueError, RecursionError):
        return _exact(value)
    if _MAYBE_NUL in fast or isinstance(value, float) or (not fast.isascii() and _KEY_BEYOND_BASIC_PLANE.search(fast)):
        return _exact(value)
    if not (
        _MAYBE_EXPONENT.search(fast)
        or _MAYBE_WHOLE_FLOAT.search(fast)
        # orjson writes NaN and infinities as null.
        or (b"null" in fast and orjson.loads(fast) != value)
    ):
        return fast
    if not isinstance(value, dict | list | tuple) or not _holds_awkward_float(value):
        return fast
    try:
        return orjson.dumps(_with_plain_floats(value), option=_FAST)
    except OverflowError:
        return _exact(value)


def digest(value: Any) -> str:
    """`sha256:` and the hex digest of the canonical bytes."""
    return digest_of(canonical(value))


def digest_of(body: bytes) -> str:
    """`sha256:` and the hex digest of some bytes."""
    return "sha256:" + hashlib.sha256(body).hexdigest()


def raw(digest: str) -> bytes:
    """The 32 bytes of a `sha256:…` digest."""
    return bytes.fromhex(digest.removeprefix("sha256:"))


def shown(digest: bytes | memoryview) -> str:
    """A stored digest as `sha256:…`."""
    return "sha256:" + bytes(digest).hex()


def redact(value: Any, *, paths: Sequence[str]) -> Any:
    """The value with each member named by a dotted path replaced by `[redacted]`; lists are walked through."""
    for path in paths:
        value = _redacted(value, path.split("."))
    return value


def redact_differences(differs: Iterable[tuple[str, Any, Any]], *, paths: Sequence[str]) -> list[list[Any]]:
    """(payload member, intended, found) as they may be kept: what `paths` redact is compared, never shown."""
    kept = []
    for member, *values in differs:
        hidden = any(member == path or member.startswith(f"{path}.") for path in paths)
        inner = [path.removeprefix(f"{member}.") for path in paths if path.startswith(f"{member}.")]
        kept.append([member, *("[redacted]" if hidden else redact(value, paths=inner) for value in values)])
    return kept


def alike(one: Any, other: Any) -> bool:
    """Equal as JSON: true is not 1, whatever Python says. Values too deep to compare are not alike."""
    if isinstance(one, bool) is not isinstance(other, bool):
        return False
    try:
        return bool(one == other)
    except RecursionError:
        return False


def _redacted(value: Any, steps: Sequence[str]) -> Any:
    if isinstance(value, list):
        return [_redacted(item, steps) for item in value]
    if not isinstance(value, Mapping) or steps[0] not in value:
        return value
    inner = "[redacted]" if len(steps) == 1 else _redacted(value[steps[0]], steps[1:])
    return {**value, steps[0]: inner}


# Between these, a float that is not whole has no exponent, neither here nor there.
_LEAST_PLAIN, _MOST_PLAIN = 1e-4, 1e15
_WITHOUT_FLOATS = frozenset({str, int, bool, type(None)})


def _holds_awkward_float(value: dict[str, Any] | list[Any] | tuple[Any, ...]) -> bool:
    """Whether a float is in it that orjson writes otherwise than RFC 8785: `1.0` for 1, exponents, or null."""
    for inner in value.values() if isinstance(value, dict) else value:
        kind = type(inner)
        if kind in _WITHOUT_FLOATS:
            continue
        if kind is float:
            if inner.is_integer() or not _LEAST_PLAIN <= abs(inner) < _MOST_PLAIN:
                return True
        elif isinstance(inner, dict | list | tuple) and _holds_awkward_float(inner):
            return True
    return False


def _with_plain_floats(value: Any) -> Any:
    """The value with its floats as RFC 8785 writes them.

    Raises:
        OverflowError: a float that must be refused.
    """
    if isinstance(value, float):
        if value.is_integer() and abs(value) < TEN_TO_21:
            if abs(value) > LARGEST_INTEGER:
                raise OverflowError
            return int(value)
        if _LEAST_PLAIN <= abs(value) < _MOST_PLAIN:
            return value
        if not isfinite(value):
            raise OverflowError
        return orjson.Fragment(_ecmascript(value))
    if isinstance(value, dict):
        return {key: _with_plain_floats(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_with_plain_floats(inner) for inner in value]
    return value


def _ecmascript(number: float) -> bytes:
    """A finite number as ECMAScript's Number::toString writes it (ECMA-262 §6.1.6.1.20), unless it is a whole one
    below 10^21."""
    sign = "-" if number < 0 else ""
    mantissa, _, exponent = repr(abs(number)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    significant = (whole + fraction).lstrip("0")
    digits = significant.rstrip("0")
    # The number is 0.digits × 10^point.
    point = len(significant) - len(fraction) + int(exponent or 0)
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}".encode()
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}".encode()
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{rest}e{point - 1:+d}".encode()


def _exact(value: Any) -> bytes:
    _refuse(value)
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, RecursionError) as error:
        raise NotCanonical("", str(error)) from error


def _walk(root: Any) -> Iterator[tuple[str, Any]]:
    """Every value with its path, keys before what they name; without recursion: a hostile depth must not end the
    process."""
    todo: list[tuple[str, Any]] = [("", root)]
    while todo:
        path, value = todo.pop()
        yield path, value
        if isinstance(value, Mapping):
            todo.extend((f"{path}.{key}" if path else str(key), inner) for key, inner in reversed(list(value.items())))
        elif isinstance(value, list | tuple):
            todo.extend((f"{path}[{index}]", value[index]) for index in reversed(range(len(value))))


def _refuse(root: Any) -> None:
    for path, value in _walk(root):
        if isinstance(value, bool | list | tuple) or value is None:
            continue
        if isinstance(value, str):
            _refuse_text(path, value)
        elif isinstance(value, int):
            if not -LARGEST_INTEGER <= value <= LARGEST_INTEGER:
                raise NotCanonical(path, "integers beyond ±(2^53−1) cannot be told apart; send it as a string")
        elif isinstance(value, float):
            if not isfinite(value):
                raise NotCanonical(path, "a number must be finite")
            if value.is_integer() and LARGEST_INTEGER < abs(value) < TEN_TO_21:
                raise NotCanonical(path, "numbers beyond ±(2^53−1) cannot be told apart; send it as a string")
        elif isinstance(value, Mapping):
            for key in value:
                if not isinstance(key, str):
                    raise NotCanonical(path, "member names must be text")
                _refuse_text(f"{path}.{key}" if path else key, key)
        else:
            raise NotCanonical(path, f"{type(value).__name__} is not a JSON value")


def _refuse_text(path: str, text: str) -> None:
    if "\x00" in text:
        raise NotCanonical(path, "text must not hold the NUL character")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise NotCanonical(path, "text holds half of a surrogate pair")
