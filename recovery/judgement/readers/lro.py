"""What does a long-running operation say of the work that it stands for?

| shape       | running                                   | finished                    | failed                         |
| ----------- | ----------------------------------------- | --------------------------- | ------------------------------ |
| AIP-151     | `done: false`                             | `done: true`, `response`    | `done: true`, `error`          |
| Azure       | `status` NotStarted, Running              | Succeeded                   | Failed, Canceled               |
| AWS, others | a state's own word                        | likewise                    | likewise                       |
| Kubernetes  | `observedGeneration` behind, or no condition | Ready, Available, Complete | Failed, Stalled                |
| HTTP 202    | the status alone                          |                             |                                |

Work that failed, or was cancelled, had begun: what it left is unknown. Our own patience (`poll_limit_reached`) ends
nothing. When the *asking* failed, the work goes on: it was accepted, since there is something to ask about; but an
answer that knows of no such work (404, 410) leaves it unknown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from ledger.rules.contract import Contract
from ledger.rules.expressions import MISSING, Context, lower_cased
from ledger.rules.facts import AttemptFacts
from ledger.rules.vocabulary import Action, EffectKind, Phase, Speaker
from recovery.judgement.codes import Code
from recovery.judgement.documented import (
    CONTRADICTS,
    DONE,
    ERROR_INSIDE,
    NOT_LISTED,
    TO_BE_CHECKED,
    UNACCOUNTED,
    UNFINISHED,
    Meaning,
)
from recovery.judgement.error_bodies import Tells, parsed, read_body, state_tells
from recovery.judgement.readers import members
from recovery.judgement.readers.conclude import Seen, begin, by_contract, conclude
from recovery.judgement.readers.results import by_success_rule, done, with_error
from recovery.judgement.reading import ObservationInvalid, Reading
from recovery.judgement.waits import moment, wait_of

KIND = "lro"
_KNOWN = members.COMMON | {"status", "headers", "operation", "poll_limit_reached"}

_FAILED = replace(ERROR_INSIDE, rule="work.failed", code=Code.WORK_FAILED, source="law 4: it had begun")
_STILL = replace(UNFINISHED, rule="work.poll_failed", code=Code.POLL_FAILED, source="law 7: a failed lookup")
_NOT_SEEN = replace(NOT_LISTED, rule="work.not_seen", code=Code.POLL_FAILED, source="law 7")
_NOT_KNOWN = replace(NOT_LISTED, rule="work.not_known", code=Code.WORK_NOT_KNOWN, source="law 7")
_DONE = replace(DONE, rule="work.done", source="AIP-151; Azure REST guidelines")

_MAY_NOT_ASK: Final = frozenset({401, 403, 407})
_NOT_THERE: Final = frozenset({404, 410})
_FINISHED_WORDS: Final = frozenset(
    {"succeeded", "success", "successful", "completed", "complete", "done", "finished", "available", "active", "ready",
     "ok", "healthy", "settled", "createcomplete", "updatecomplete", "deletecomplete", "importcomplete"}
)  # fmt: skip
_ENDED_BADLY: Final = ("rollback", "rolledback", "witherrors", "withwarnings", "crash", "stalled", "degraded")
_STATUS_MEMBERS: Final = (
    "status",
    "state",
    "provisioningState",
    "Status",
    "State",
    "phase",
    "jobStatus",
    "StackStatus",
)
_READY: Final = frozenset({"Ready", "Available", "Complete", "Succeeded", "Established"})
_BROKEN: Final = frozenset({"Failed", "Stalled", "ReplicaFailure", "Degraded"})


def read(
    observation: Mapping[str, Any], *, contract: Contract, earlier: Sequence[AttemptFacts], now: datetime
) -> Reading:
    """Reads an `lro` observation.

    Raises:
        ObservationInvalid: neither a status nor an operation, or a member of the wrong type.
    """
    status = members.whole_number(observation, "status", least=100, most=999)
    headers = lower_cased(members.mapping(observation, "headers"))
    members.flag(observation, "poll_limit_reached")
    shown = observation.get("operation")
    operation, unreadable = parsed(body=shown, headers=headers)
    if shown is None and status is None:
        raise ObservationInvalid("operation", "an operation, or the status of asking for it, is needed.")
    if not unreadable and not isinstance(operation, Mapping | str | None):
        raise ObservationInvalid("operation", "must be an object.")
    seen = begin(
        observation,
        kind=KIND,
        known=_KNOWN,
        contract=contract,
        earlier=earlier,
        now=now,
        speaker=Speaker.OWNER_ANSWER,
        phase=Phase.AFTER_RESPONSE,
    )
    seen = replace(
        seen,
        wait=wait_of(
            headers=headers, body=operation, observed_at=moment(observation.get("observed_at")), now=now,
            refused_by_limiter=status == 429,
        ),
    )  # fmt: skip
    context = Context.answer(
        status=status,
        headers=headers,
        body=operation if isinstance(operation, Mapping) else MISSING,
        error=operation.get("error") if isinstance(operation, Mapping) else None,
        speaker=seen.speaker,
        phase=seen.phase,
    )
    ruled = by_contract(context, seen)
    if ruled is not None:
        return ruled
    if status is not None and status >= 400:
        if status in _NOT_THERE:
            return conclude(_NOT_KNOWN, seen)
        return conclude(_NOT_SEEN if status in _MAY_NOT_ASK else _STILL, seen)
    if unreadable or isinstance(operation, str):
        return conclude(_STILL, seen)
    return _of_operation(operation if isinstance(operation, Mapping) else {}, status, seen, context)


def _of_operation(operation: Mapping[str, Any], status: int | None, seen: Seen, context: Context) -> Reading:
    error = read_body(body=operation, unreadable=False, headers={})
    seen = with_error(seen, error)
    meaning = _meaning(operation, status)
    if seen.contract.is_read:
        return conclude(meaning, seen, remedy=Action.WAIT if meaning is UNFINISHED else None)
    if meaning is not _DONE:
        return conclude(meaning, seen)
    matched = by_success_rule(Tells.NOTHING, seen, context)
    if matched is not None:
        return matched
    if seen.contract.compiled.success is None and seen.contract.effect is EffectKind.WRITE:
        return done(_DONE, seen, context)
    return conclude(TO_BE_CHECKED, seen)


def _meaning(operation: Mapping[str, Any], status: int | None) -> Meaning:
    if isinstance(operation.get("done"), bool):
        return _google(operation)
    if isinstance(operation.get("status"), Mapping):
        return _kubernetes(operation, operation["status"])
    words = [
        value
        for holder in (operation, operation.get("properties"), operation.get("operation"), operation.get("job"))
        if isinstance(holder, Mapping)
        for name in _STATUS_MEMBERS
        if (value := _word_of(holder.get(name))) is not None
    ]
    if not words:
        return UNFINISHED if status == 202 else TO_BE_CHECKED
    said = {_by_word(word) for word in words[:5]}
    failing = bool(operation.get("error") or operation.get("errors"))
    if said == {_DONE}:
        return CONTRADICTS if failing else _DONE
    # Of several words the least finished counts, and a failure before everything.
    return next((meaning for meaning in (_FAILED, UNACCOUNTED, NOT_LISTED, UNFINISHED) if meaning in said), NOT_LISTED)


def _word_of(value: Any) -> str | None:
    """A state's word; of a state that is an object (Prefect, EC2), its type or name."""
    if isinstance(value, Mapping):
        value = next((value[name] for name in ("type", "name", "Name") if isinstance(value.get(name), str)), None)
    return value if isinstance(value, str) else None


def _by_word(word: str) -> Meaning:
    plain = "".join(letter for letter in word[:80].lower() if letter.isalnum())
    if any(part in plain for part in _ENDED_BADLY):
        return _FAILED
    tells = state_tells(word)
    if plain in _FINISHED_WORDS:
        return _DONE
    if tells is Tells.ERROR:
        return _FAILED
    if tells is Tells.PARTIAL:
        return UNACCOUNTED
    return UNFINISHED if tells is Tells.UNFINISHED else NOT_LISTED


def _google(operation: Mapping[str, Any]) -> Meaning:
    failed, answered = bool(operation.get("error")), operation.get("response") is not None
    if operation["done"] is False:
        return CONTRADICTS if failed or answered else UNFINISHED
    if failed:
        return CONTRADICTS if answered else _FAILED
    return _DONE if answered or "result" in operation else TO_BE_CHECKED


def _kubernetes(resource: Mapping[str, Any], status: Mapping[str, Any]) -> Meaning:
    metadata = resource.get("metadata")
    wanted = metadata.get("generation") if isinstance(metadata, Mapping) else None
    observed = status.get("observedGeneration")
    if isinstance(wanted, int) and not (isinstance(observed, int) and observed >= wanted):
        return UNFINISHED
    conditions = status.get("conditions")
    held = {
        str(condition.get("type"))
        for condition in (conditions[:100] if isinstance(conditions, list) else ())
        if isinstance(condition, Mapping) and condition.get("status") in ("True", True)
    }
    if held & _BROKEN:
        return _FAILED
    return _DONE if held & _READY else UNFINISHED
