"""What does the end of a program prove about the call that it made?

| in this order                            | proves                                                            |
| ---------------------------------------- | ----------------------------------------------------------------- |
| the contract's error rules               | what they say                                                     |
| equal digests here and there (`facts`)   | applied: the owner holds what we have                             |
| it timed out                             | unknown: our clock ends nothing there                             |
| its output is one structured result      | what that says; a failing exit code keeps it from being a success |
| an exit code that is not zero            | unknown: it may have acted before it failed                       |
| exit code zero                           | that the program ran: the outcome has to be checked               |

What it printed beside that is prose. `facts` are pairs that the harness read: `local_sha` beside `remote_sha`.
A contract's rules see the parsed output as `body` and the exit code as `code`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from ledger.rules.contract import Contract
from ledger.rules.expressions import MISSING, Context
from ledger.rules.facts import AttemptFacts
from ledger.rules.vocabulary import Effect, FailureClass, Proof, Speaker
from recovery.judgement.codes import Code
from recovery.judgement.documented import CONTRADICTS, DONE, NO_ANSWER, NOT_LISTED, TO_BE_CHECKED, Meaning
from recovery.judgement.error_bodies import LARGEST_TEXT, Tells
from recovery.judgement.readers import members
from recovery.judgement.readers.conclude import Seen, begin, by_contract, conclude
from recovery.judgement.readers.mcp import of_tool_result
from recovery.judgement.readers.results import by_success_rule, of_result
from recovery.judgement.reading import Reading

KIND = "process"
_KNOWN = members.COMMON | {"cmd", "exit_code", "stdout", "stderr", "timed_out", "facts"}
_FAILED = replace(NOT_LISTED, rule="process.failed", code=Code.PROCESS_FAILED)
_SAME_THERE = Meaning(
    rule="process.same_there",
    failure_class=FailureClass.SUCCESS,
    effect=Effect.APPLIED,
    code=Code.FOUND,
    source="law 3: an exact match",
    proof=Proof.LOOKUP_MATCH,
)
_DIGESTS: Final = ("_sha", "_sha1", "_sha256", "_digest", "_checksum", "_oid", "_hash")
_SHORTEST_DIGEST: Final = 2


def read(
    observation: Mapping[str, Any], *, contract: Contract, earlier: Sequence[AttemptFacts], now: datetime
) -> Reading:
    """Reads a `process` observation.

    Raises:
        ObservationInvalid: a member of the wrong type.
    """
    command = observation.get("cmd")
    if not isinstance(command, list):
        members.text(observation, "cmd")
    exit_code = members.whole_number(observation, "exit_code", least=-(2**31), most=2**32)
    printed = members.text(observation, "stdout") or ""
    complained = members.text(observation, "stderr") or ""
    timed_out = members.flag(observation, "timed_out") is True
    facts = members.mapping(observation, "facts")
    seen = begin(
        observation, kind=KIND, known=_KNOWN, contract=contract, earlier=earlier, now=now, speaker=Speaker.HARNESS
    )
    seen = replace(
        seen,
        quoted=tuple(text.strip()[:300] for text in (complained, printed) if text.strip()),
        owner_code=None if exit_code is None else str(exit_code),
    )
    output = _output(printed)
    context = Context.answer(
        body=output if output is not None else MISSING,
        code=exit_code,
        error={"exit_code": exit_code, "timed_out": timed_out},
        speaker=seen.speaker,
    )
    ruled = by_contract(context, seen)
    if ruled is not None:
        return ruled
    if _same_there(facts) and not contract.is_read:
        return conclude(_SAME_THERE, seen)
    if timed_out:
        return conclude(NO_ANSWER, seen)
    if output is not None:
        # What a program prints as a result is the answer that it got; nobody says so but the harness.
        return _of_output(
            output, replace(seen, speaker=Speaker.OWNER_ANSWER), context, failed=exit_code not in (None, 0)
        )
    if exit_code != 0:
        return conclude(_FAILED, seen)
    if contract.is_read:
        return conclude(DONE, seen)
    return by_success_rule(Tells.NOTHING, seen, context) or conclude(TO_BE_CHECKED, seen)


def _of_output(output: Mapping[str, Any], seen: Seen, context: Context, *, failed: bool) -> Reading:
    is_tool = isinstance(output.get("isError"), bool) or isinstance(output.get("content"), list)
    reading = of_tool_result(output, seen) if is_tool else of_result(output, seen, context)
    if failed and reading.effect in (Effect.APPLIED, Effect.PENDING, Effect.PARTIAL):
        return conclude(CONTRADICTS, seen)
    if failed and seen.contract.is_read and reading.failure_class is FailureClass.SUCCESS:
        return conclude(CONTRADICTS, seen)
    return reading


def _output(printed: str) -> Mapping[str, Any] | None:
    text = printed.strip()
    if not text.startswith("{") or len(text) > LARGEST_TEXT:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and found else None


def _same_there(facts: Mapping[str, Any]) -> bool:
    """Whether every digest that was read on both sides is the same on both, and at least one was."""
    pairs = [
        (value, facts["remote_" + name.removeprefix("local_")])
        for name, value in list(facts.items())[:100]
        if isinstance(name, str)
        and name.startswith("local_")
        and name.endswith(_DIGESTS)
        and "remote_" + name.removeprefix("local_") in facts
    ]
    return bool(pairs) and all(
        isinstance(here, str) and len(here) >= _SHORTEST_DIGEST and here == there for here, there in pairs
    )
