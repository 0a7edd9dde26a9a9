"""`manage.py judge < cases.jsonl > decisions.jsonl`: what would be decided for each of these, with no ledger?

Each line is `{id, contract, history, observation, now?}`; members beside these are not looked at. Each line is
answered, in order: `{"id", "decision"}`, or `{"id", "error"}` with the member that is wrong. No database is used, and
nothing is stored; the speaker that an observation states is trusted.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, BinaryIO

from django.core.management.base import BaseCommand, CommandParser

from ledger.rules.contract import Contract, ContractInvalid, parse_stated_contract
from recovery.judgement.dialects import Dialect
from recovery.judgement.reading import ObservationInvalid
from recovery.judgement.stateless import judge
from recovery.judgement.waits import moment
from recovery.judgement.wire import written_judgement

LONGEST_LINE = 4 * 1024 * 1024
"""Bytes of one line."""
_MOST_CONTRACTS = 1_000


class _LineWrong(ValueError):
    """A line that cannot be judged. Correct the member that `field` names."""

    def __init__(self, *, code: str, field: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.field = field
        self.message = message


class Command(BaseCommand):
    """Reads questions from standard input and writes a decision for each."""

    help = "Judges observations, one JSON line each. No database."
    requires_system_checks = ()
    requires_migrations_checks = False

    def add_arguments(self, parser: CommandParser) -> None:
        """The dialect of `for_agent`."""
        parser.add_argument("--dialect", choices=[*Dialect], default=Dialect.FIVE_CLASS.value)

    def handle(self, *_args: Any, **options: Any) -> None:
        """Answers every line; exit status 1 when one of them could not be judged."""
        dialect = Dialect(options["dialect"])
        judged = _Judged(now=datetime.now(UTC), dialect=dialect)  # noqa: TID251 - a question with no time is asked now
        wrong = False
        for line in _lines(sys.stdin.buffer):
            answer = judged.answer(line)
            wrong = wrong or "error" in answer
            self.stdout.write(json.dumps(answer))
        if wrong:
            sys.exit(1)


class _Judged:
    """Answers lines. A contract that many of them state is compiled once."""

    def __init__(self, *, now: datetime, dialect: Dialect) -> None:
        self._now = now
        self._dialect = dialect
        self._contracts: dict[str, Contract] = {}

    def answer(self, line: bytes) -> dict[str, Any]:
        name: Any = None
        try:
            question = _question(line)
            name = question.get("id")
            judgement = judge(
                contract=self._contract(question.get("contract")),
                history=_history(question.get("history")),
                observation=_object(question.get("observation"), "observation"),
                now=_time(question.get("now")) or self._now,
            )
        except _LineWrong as error:
            return {"id": name, "error": _error(error.code, error.field, error.message)}
        except ContractInvalid as error:
            problem = error.problems[0]
            field = f"contract.{problem.path}".rstrip(".")
            return {"id": name, "error": _error("CONTRACT_INVALID", field, problem.message)}
        except ObservationInvalid as error:
            field = error.field if error.field.startswith("history") else f"observation.{error.field}".rstrip(".")
            return {"id": name, "error": _error("OBSERVATION_INVALID", field, error.message)}
        return {"id": name, "decision": written_judgement(judgement, dialect=self._dialect)}

    def _contract(self, stated: Any) -> Contract:
        document = _object(stated, "contract")
        try:
            key = json.dumps(document, sort_keys=True)
        except (ValueError, RecursionError):
            raise _LineWrong(code="CONTRACT_INVALID", field="contract", message="It is nested too deep.") from None
        if key not in self._contracts:
            if len(self._contracts) >= _MOST_CONTRACTS:
                self._contracts.clear()
            self._contracts[key] = parse_stated_contract(document)
        return self._contracts[key]


def _lines(source: BinaryIO) -> Iterator[bytes]:
    while line := source.readline(LONGEST_LINE + 1):
        whole = line
        while len(line) > LONGEST_LINE and not line.endswith(b"\n"):
            line = source.readline(LONGEST_LINE + 1)
        if whole.strip():
            yield whole


def _question(line: bytes) -> Mapping[str, Any]:
    if len(line) > LONGEST_LINE:
        raise _LineWrong(code="LINE_TOO_LONG", field="", message=f"A line holds at most {LONGEST_LINE} bytes.")
    try:
        question = json.loads(line, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise _LineWrong(code="LINE_INVALID", field="", message="The line is not one JSON object in UTF-8.") from None
    return _object(question, "")


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _object(value: Any, field: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _LineWrong(code="LINE_INVALID", field=field, message=f"{field or 'The line'} must be an object.")
    return value


def _history(value: Any) -> list[Mapping[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise _LineWrong(code="LINE_INVALID", field="history", message="history must be a list of observations.")
    return [_object(each, f"history[{index}]") for index, each in enumerate(value)]


def _time(value: Any) -> datetime | None:
    if value is None:
        return None
    at = moment(value)
    if at is None:
        raise _LineWrong(code="LINE_INVALID", field="now", message="now must be an RFC 3339 time with an offset.")
    return at


def _error(code: str, field: str, message: str) -> dict[str, Any]:
    sentence = message[:1].upper() + message[1:]
    return {
        "code": code,
        "class": "validation",
        "retryable": False,
        "retry_after_ms": None,
        "field": field or None,
        "hint": "Correct this line and judge it again. The other lines were answered.",
        "message": sentence,
    }
