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
from collections.abc import Mapping, Sequence
from typing import Any

import jiter
import orjson
import rfc8785

LARGEST_INTEGER = 2**53 - 1

# What orjson writes as RFC 8785 does: everything but floats, and keys beyond the basic multilingual plane
# (RFC 8785 sorts by UTF-16 code units, orjson by code points). Both patterns also hit harmless text;
# a hit only costs the slower, exact way.
_MAYBE_A_FLOAT = re.compile(rb"[0-9][.e]")
_BEYOND_BASIC_PLANE = re.compile(rb"[\xf0-\xf4]")
_MAYBE_NUL = b"\\u0000"
_FAST = orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER


class NotCanonical(ValueError):
    """The value cannot be recorded. `field` is the JSON path to what is wrong; change that member and send again."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(f"{field}: {sentence}" if field else sentence)
        self.field = field
        self.sentence = sentence


class NotJson(ValueError):
    """The bytes are not the JSON that we take. The sentence says where and why."""


def parse_strict(body: bytes) -> Any:
    """The value of a JSON text, refusing what would make two readers disagree about it.

    Raises:
        NotJson: malformed, duplicate keys, NaN or infinity, a lone surrogate, over 200 levels deep, not UTF-8.
    """
    try:
        return jiter.from_json(body, allow_inf_nan=False, catch_duplicate_keys=True)
    except ValueError as error:
        raise NotJson(str(error)) from error


def canonical(value: Any) -> bytes:
    """The RFC 8785 bytes of a JSON value.

    Raises:
        NotCanonical: with the path of the member that cannot be recorded.
    """
    try:
        fast = orjson.dumps(value, option=_FAST)
    except (TypeError, ValueError, RecursionError):
        fast = b""
    if (
        not fast
        or _MAYBE_A_FLOAT.search(fast)
        or _MAYBE_NUL in fast
        or (not fast.isascii() and _BEYOND_BASIC_PLANE.search(fast))
    ):
        return _exact(value)
    return fast


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


def _redacted(value: Any, steps: Sequence[str]) -> Any:
    if isinstance(value, list):
        return [_redacted(item, steps) for item in value]
    if not isinstance(value, Mapping) or steps[0] not in value:
        return value
    inner = "[redacted]" if len(steps) == 1 else _redacted(value[steps[0]], steps[1:])
    return {**value, steps[0]: inner}


def _exact(value: Any) -> bytes:
    _refuse(value)
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, RecursionError) as error:
        raise NotCanonical("", str(error)) from error


def _refuse(root: Any) -> None:
    """Walk without recursion: a hostile depth must not end the process."""
    todo: list[tuple[str, Any]] = [("", root)]
    while todo:
        path, value = todo.pop()
        if isinstance(value, bool) or value is None:
            continue
        if isinstance(value, str):
            _refuse_text(path, value)
        elif isinstance(value, int):
            if not -LARGEST_INTEGER <= value <= LARGEST_INTEGER:
                raise NotCanonical(path, "integers beyond ±(2^53−1) cannot be told apart; send it as a string")
        elif isinstance(value, float):
            if value != value or value in (float("inf"), float("-inf")):
                raise NotCanonical(path, "a number must be finite")
            if value.is_integer() and abs(value) > LARGEST_INTEGER and abs(value) < 1e21:
                raise NotCanonical(path, "numbers beyond ±(2^53−1) cannot be told apart; send it as a string")
        elif isinstance(value, Mapping):
            for key, inner in value.items():
                if not isinstance(key, str):
                    raise NotCanonical(path, "member names must be text")
                _refuse_text(f"{path}.{key}".lstrip("."), key)
                todo.append((f"{path}.{key}".lstrip("."), inner))
        elif isinstance(value, list | tuple):
            todo.extend((f"{path}[{index}]", inner) for index, inner in enumerate(value))
        else:
            raise NotCanonical(path, f"{type(value).__name__} is not a JSON value")


def _refuse_text(path: str, text: str) -> None:
    if "\x00" in text:
        raise NotCanonical(path, "text must not hold the NUL character")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise NotCanonical(path, "text holds half of a surrogate pair")
