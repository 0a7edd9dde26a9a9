"""What does an answer in one of the agents' dialects claim, and does it contradict itself?

| dialect | recognised by | what is believed |
| --- | --- | --- |
| five-class envelope | `ok`, `error.class` or `data` | a refusal's class; `transient` only with a limiter's documented code |
| four-code error | `code` of the four, beside `retryable` or `traceId` | likewise |
| attempt record | `error_class` and `effect_status` | nothing: it is the harness's own word |
| read result | `outcome` beside its source, items or parts | for a read, how complete it is |

Kept as violations, never obeyed: `retryable` that disagrees with the class, a code that contradicts the class, a
missing trace id, a validation error that names no field, advice to repeat what is not transient, an order in prose.
Where code and class disagree, the less certain one counts.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from ledger.rules.vocabulary import Action, Effect, FailureClass
from recovery.judgement.codes import Code
from recovery.judgement.documented import (
    BUSINESS,
    DONE,
    FORBIDDEN,
    INVALID,
    NOT_FOUND,
    NOT_LISTED,
    PARTIAL,
    TO_BE_CHECKED,
    UNACCOUNTED,
    UNFINISHED,
    Meaning,
    code_meaning,
    looks_like_a_code,
)
from recovery.judgement.error_bodies import field_of
from recovery.judgement.waits import Wait, wait_in


class Dialect(StrEnum):
    """Which dialect an answer is written in."""

    FIVE_CLASS = "five_class"
    FOUR_CODE = "four_code"
    RECORD = "record"
    READ_RESULT = "read_result"


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """An envelope, read."""

    dialect: Dialect
    meaning: Meaning | None
    """None: it says success, and `data` is to be read."""
    data: Any = None
    field: str | None = None
    owner_code: str | None = None
    wait: Wait | None = None
    quoted: tuple[str, ...] = ()
    violations: tuple[str, ...] = ()
    claimed_by_harness: bool = False


_OPEN: Final = replace(NOT_LISTED, rule="envelope.outcome_unknown", code=Code.OUTCOME_UNKNOWN)
_TRANSIENT: Final = replace(
    NOT_LISTED,
    rule="envelope.transient",
    code=Code.ERROR_IN_ANSWER,
    source="law 8: a tool's word that it is transient does not say that nothing happened",
)
_FATAL: Final = replace(_TRANSIENT, rule="envelope.fatal", failure_class=FailureClass.FATAL, source="law 12")
_UNAVAILABLE: Final = replace(_TRANSIENT, rule="envelope.unavailable")
_RECORDED: Final = replace(NOT_LISTED, rule="envelope.record", code=Code.OUTCOME_UNKNOWN, source="law 3")

_FIVE: Final[Mapping[str, Meaning]] = {
    "transient": _TRANSIENT,
    "validation": INVALID,
    "permission": FORBIDDEN,
    "business_rule": BUSINESS,
    "fatal": _FATAL,
}
_FOUR: Final[Mapping[str, Meaning]] = {
    "TRANSIENT": _TRANSIENT,
    "VALIDATION": INVALID,
    "PERMISSION": FORBIDDEN,
    "NOT_FOUND": replace(NOT_FOUND, remedy=Action.REPLACE),
}
_OPEN_CODES: Final[Mapping[str, Meaning]] = {
    "OUTCOME_UNKNOWN": _OPEN,
    "PARTIAL": UNACCOUNTED,
    "UNVERIFIED": TO_BE_CHECKED,
    "PENDING": UNFINISHED,
}
_CLASS_OF: Final[Mapping[FailureClass, str]] = {
    FailureClass.TRANSIENT: "transient",
    FailureClass.INVALID_REQUEST: "validation",
    FailureClass.AUTHORIZATION: "permission",
    FailureClass.BUSINESS_RULE: "business_rule",
    FailureClass.STATE_CONFLICT: "business_rule",
    FailureClass.NOT_FOUND: "business_rule",
    FailureClass.UNKNOWN_OUTCOME: "fatal",
    FailureClass.PARTIAL: "fatal",
    FailureClass.VERIFICATION: "fatal",
    FailureClass.SUCCESS: "fatal",
}
_OUTCOMES: Final[Mapping[str, Meaning]] = {
    "ok": DONE,
    "no_match": DONE,
    "partial": replace(PARTIAL, remedy=Action.RETRY),
    "unavailable": _UNAVAILABLE,
}
_OF_A_READ: Final = ("source_id", "observed_at", "components", "items", "truncated", "revision")
_REPEAT_ADVICE = re.compile(r"\b(?:re-?try|try again|re-?send|send (?:it )?again|repeat)\b", re.IGNORECASE)
_NEGATED = re.compile(r"\b(?:not|never|no|without|don't|cannot|can't)\b[^.]{0,40}$", re.IGNORECASE)
_ORDER = re.compile(
    r"\b(?:ignore|disregard|override|bypass|forget) (?:all |any |the |your |previous |prior )*"
    r"(?:rules?|instructions?|polic\w+|limits?|checks?|approvals?|guards?|prompts?)\b"
    r"|\byou (?:must|should|shall|have to)\b|\b(?:immediately|right now|at once)\b|\bdo not (?:ask|tell|report)\b",
    re.IGNORECASE,
)


def read_envelope(body: Any) -> Envelope | None:
    """What an answer claims, when it is written in one of the dialects; None when it is not."""
    if not isinstance(body, dict):
        return None
    if isinstance(body.get("error_class"), str) and isinstance(body.get("effect_status"), str):
        return _record(body)
    error = body.get("error")
    inner = error if isinstance(error, dict) else body
    if isinstance(body.get("ok"), bool):
        if body["ok"] and "data" in body:
            found = ("It says ok and carries an error.",) if error else ()
            return Envelope(
                dialect=Dialect.FIVE_CLASS,
                meaning=replace(_OPEN, code=Code.ANSWER_CONTRADICTS) if error else None,
                data=body["data"],
                violations=found,
            )
        if isinstance(error, dict) and isinstance(error.get("class"), str):
            return _five_class(error)
    if _one_of(inner.get("code"), _FOUR) and ("retryable" in inner or "traceId" in inner):
        return _four_code(inner)
    if _one_of(body.get("outcome"), _OUTCOMES):
        parts = _parts(body)
        if parts or any(name in body for name in _OF_A_READ):
            return _read_result(body, parts)
    return None


def _one_of(value: Any, known: Mapping[str, Any]) -> bool:
    return isinstance(value, str) and value in known


def marks_all_retryable(bodies: Sequence[Any]) -> bool:
    """Whether somebody marks every failure retryable: at least three, and not all of them transient."""
    seen: list[tuple[bool, bool]] = []
    for body in bodies:
        error = body.get("error", body) if isinstance(body, dict) else None
        if isinstance(error, dict) and isinstance(error.get("retryable"), bool):
            transient = error.get("class", error.get("code")) in ("transient", "TRANSIENT")
            seen.append((error["retryable"], transient))
    return len(seen) >= 3 and all(said for said, _ in seen) and not all(transient for _, transient in seen)


def _five_class(error: Mapping[str, Any]) -> Envelope:
    said = str(error["class"])
    base = _FIVE.get(said)
    code = error.get("code")
    code = code if looks_like_a_code(code) else None
    found = _disagreements(error, is_transient=said == "transient")
    if base is None:
        found += (f"It names a class that does not exist: {said[:40]}.",)
        base = _OPEN
    meaning, more = _with_code(base, said, code)
    return _told(Dialect.FIVE_CLASS, error, meaning, code, (*found, *more))


def _four_code(error: Mapping[str, Any]) -> Envelope:
    code = str(error["code"])
    found = _disagreements(error, is_transient=code == "TRANSIENT")
    if not error.get("traceId"):
        found += ("It carries no trace id.",)
    if code == "VALIDATION" and not (error.get("field") and error.get("suggestion")):
        found += ("A validation error names its field and says what would be valid; this one does not.",)
    return _told(Dialect.FOUR_CODE, error, _FOUR[code], code, found)


def _told(
    dialect: Dialect, error: Mapping[str, Any], meaning: Meaning, code: str | None, violations: tuple[str, ...]
) -> Envelope:
    prose = tuple(
        text[:300] for name in ("message", "hint", "suggestion") if isinstance(text := error.get(name), str) and text
    )
    transient = meaning.failure_class is FailureClass.TRANSIENT or meaning is _TRANSIENT
    return Envelope(
        dialect=dialect,
        meaning=meaning,
        field=field_of(error),
        owner_code=code,
        wait=wait_in({"error": error}),
        quoted=prose,
        violations=(*violations, *_advice(error, transient=transient)),
    )


def _with_code(base: Meaning, said: str, code: str | None) -> tuple[Meaning, tuple[str, ...]]:
    """The class with what a documented code adds. Where they disagree, the less certain one counts."""
    if code is None:
        return base, ("It carries no code.",)
    known = _OPEN_CODES.get(code) or code_meaning(code)
    if known is None:
        return base, ()
    agrees = _CLASS_OF.get(known.failure_class) == said
    found = () if agrees else (f"The code {code} contradicts the class {said}; the less certain one counts.",)
    if known.effect is not Effect.NONE:
        return known, found
    if agrees and base.failure_class is not FailureClass.FATAL:
        return known, found
    # A class that leaves the effect open is not closed by a code that disagrees.
    return base, found


def _disagreements(error: Mapping[str, Any], *, is_transient: bool) -> tuple[str, ...]:
    retryable = error.get("retryable")
    if not isinstance(retryable, bool):
        return ("It does not say whether it is retryable.",)
    if retryable is is_transient:
        return ()
    return (f"It says retryable {str(retryable).lower()}, which its class contradicts; the class counts.",)


def _advice(error: Mapping[str, Any], *, transient: bool) -> tuple[str, ...]:
    """What its prose asks for. Nothing of it is done."""
    found: list[str] = []
    for name in ("suggestion", "hint", "message"):
        text = error.get(name)
        if not isinstance(text, str):
            continue
        text = text[:1_000]
        repeat = _REPEAT_ADVICE.search(text)
        if repeat is not None and not transient and _NEGATED.search(text[: repeat.start()]) is None:
            found.append(f"Its {name} advises a repeat, and its class does not allow one.")
        if _ORDER.search(text) is not None:
            found.append(f"Its {name} gives an order. It was not followed.")
    return tuple(found)


def _record(body: Mapping[str, Any]) -> Envelope:
    """An attempt record is the harness's own summary: what it says of the effect is a claim without a proof."""
    effect, action = str(body["effect_status"]), body.get("recovery_action")
    found: tuple[str, ...] = ()
    if effect in ("unknown", "pending", "partial") and action in ("retry", "repair", "replace", "stop", "done"):
        found = (f"It asks for {action} while it calls the effect {effect}. It was not followed.",)
    code = body["error_class"]
    text = body.get("safe_message")
    return Envelope(
        dialect=Dialect.RECORD,
        meaning=_RECORDED,
        owner_code=code if looks_like_a_code(code) else None,
        quoted=(text[:300],) if isinstance(text, str) and text else (),
        violations=found,
        claimed_by_harness=True,
    )


def _parts(body: Mapping[str, Any]) -> list[Any]:
    """What each part of a read result says of itself: those of `components`, or members with an outcome of their own."""
    components = body.get("components")
    if isinstance(components, list):
        return [part.get("outcome") for part in components[:1_000] if isinstance(part, dict)]
    return [
        part["outcome"] for part in body.values() if isinstance(part, dict) and isinstance(part.get("outcome"), str)
    ]


def _read_result(body: Mapping[str, Any], parts: list[Any]) -> Envelope:
    outcome = str(body["outcome"])
    meaning = _OUTCOMES[outcome]
    found: tuple[str, ...] = ()
    cursor = body.get("next_cursor")
    more = (isinstance(cursor, str) and cursor != "") or body.get("truncated") is True
    if outcome in ("ok", "no_match") and (more or any(part not in ("ok", "no_match") for part in parts)):
        meaning = _OUTCOMES["partial"]
        if outcome == "no_match":
            found = ("It says that nothing matches, and that there is more to read.",)
    if outcome in ("ok", "no_match") and not parts and not (body.get("source_id") and body.get("observed_at")):
        found += ("It does not say which source was read, and when.",)
    return Envelope(dialect=Dialect.READ_RESULT, meaning=meaning, violations=found)
