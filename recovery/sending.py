"""Ascertain itself sends: a licensed repeat whose wait is over, or the same request again to learn what became of it.

| step                                                            | when it cannot be taken                              |
| --------------------------------------------------------------- | ---------------------------------------------------- |
| the owner may be asked now (asking.py), and there is time enough | `NotNow`: nothing is spent                          |
| everything that the call needs is at hand                       | a retry is handed to the harness, a replay is left out |
| the permit is durable, by the same rules as a harness's          | what the refusal says: ends, or is looked up         |
| it is sent once, never after `dispatch_by`                       | reported as not sent                                 |
| what was seen is recorded, as a harness's report is              | the permit lapses: unknown, then looked up           |

A worker may die between any two of these lines. Nothing is sent twice: an attempt is sent only by the call that opened
it, and the next one needs a licence of its own.

Our own transport is believed as a harness's is. Its own word proves only that nothing was sent; an answer that it
carried is the owner's, and says what the owner's answers may say. It is no authoritative lookup: an answer to a write
speaks of that attempt, and of others only where the owner says that it keeps it under their key.
"""

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

import structlog
from django.db import InterfaceError, OperationalError, connection

from ledger.queries.facts import Held, held, payload_of
from ledger.queries.key_words import words_to_repeats
from ledger.rules.budgets import next_poll
from ledger.rules.decision import Decision
from ledger.rules.licences import Refusal
from ledger.rules.payload import canonical, digest_of
from ledger.rules.permits import Asker
from ledger.rules.replays import may_replay
from ledger.rules.vocabulary import Action, Phase, Sender, State
from ledger.transitions.owners import put_back
from ledger.transitions.passing_of_time import end_by_limit, end_wait
from ledger.transitions.permit import Permitted, request_permit
from recovery.asking import NotNow, Visit
from recovery.judgement.decide import decide_nobody_to_ask
from recovery.judgement.waits import wait_of
from recovery.owners.base import Reach
from recovery.owners.send import Call, CannotSend, Prepared, prepare, send
from recovery.report import WORKER, report
from recovery.sealing import FieldKeysMissing, SealBroken

RECORDING: Final = 1.5
"""Seconds of a batch's time that are kept for recording what was seen."""
FULL_PATIENCE: Final = 10.0
"""Seconds: with less time left, a call is begun only if its contract's own timeout is shorter."""
TRIES_TO_RECORD: Final = 4
_SILENT: Final = frozenset({Phase.RESOLVE, Phase.CONNECT, Phase.TLS, Phase.SEND, Phase.AWAIT})
_OVERLOADED: Final = frozenset({429, 502, 503, 504})
"""A 500 may be about this one request; these say that the owner, or the way to it, is in trouble."""
log = structlog.get_logger()


class Came(StrEnum):
    """What came of wanting to send a repeat."""

    SENT = "sent"
    HANDED_OVER = "handed_over"
    """The harness may send it."""
    ENDED = "ended"
    PUT_BACK = "put_back"
    NOTHING = "nothing"
    """It moved meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    """What the gate hears of a call, and how the operation stands with it."""

    held: Held | None = None
    """None when nothing was sent."""
    refusal: Decision | None = None
    cannot: str = ""
    overloaded: bool = False
    retry_after_ms: int | None = None
    refused_credential: bool = False
    reason: str = ""
    answered: bool = False


def send_again(*, known: Held, visit: Visit, time_left: float) -> Came:
    """Send a licensed repeat whose wait is over. One request at most.

    Raises:
        NotNow: the owner is not asked now; nothing was sent or spent.
    """
    came = _called(known, visit=visit, asker=_asker(known, time_left=time_left))
    if came.held is not None:
        return Came.SENT
    if came.cannot:
        log.warning("cannot_send", operation=str(known.id), because=came.cannot)
        over = end_wait(held=known, because=came.cannot)
        return Came.HANDED_OVER if over is not None else Came.NOTHING
    return _refused(known, came.refusal) if came.refusal is not None else Came.NOTHING


def replay(*, known: Held, visit: Visit, time_left: float) -> Held | Refusal:
    """Send the same request once more, with the same key, to learn what became of it.

    Returns the operation as it stands with the answer; or why it was not sent. What it costs is a poll, and a dispatch
    of the run.

    Raises:
        NotNow: the owner is not asked now; nothing was sent or spent.
    """
    facts = known.facts
    if facts.state not in (State.WAITING, State.RECONCILING):
        return Refusal(code="HELD_BY_OTHERS", sentence="A person has it, so nothing is sent for it meanwhile.")
    words = words_to_repeats(id=known.id, idempotency_key=_key(known))
    refusal = may_replay(facts=facts, contract=known.contract, words=words, now=known.now)
    if refusal is not None:
        return refusal
    asker = replace(_asker(known, time_left=time_left), replay=True)
    came = _called(known, visit=visit, asker=asker)
    if came.held is not None:
        return came.held
    if came.refusal is not None:
        return Refusal(code=came.refusal.code, sentence=came.refusal.message)
    return Refusal(code="CANNOT_SEND", sentence=came.cannot or "The operation moved meanwhile.")


def _asker(known: Held, *, time_left: float) -> Asker:
    """A worker with as much patience as its batch has time left.

    Raises:
        NotNow: too little to wait for an answer.
    """
    seconds = time_left - RECORDING
    if seconds < min(known.contract.timeout.total_seconds(), FULL_PATIENCE):
        raise NotNow("There is too little time left to wait for an answer", over=timedelta(seconds=1))
    return Asker(sender=Sender.WORKER, at_most=timedelta(seconds=seconds))


def _called(known: Held, *, visit: Visit, asker: Asker) -> _Sent:
    dispatch = known.contract.dispatch
    if dispatch is None:
        return _Sent(cannot="The contract does not say how Ascertain could send it.")
    if not visit.lasts(seconds=(asker.at_most or known.contract.timeout).total_seconds()):
        raise NotNow("The place at the owner was lost", over=timedelta(seconds=1))
    try:
        return visit.call(
            known,
            reference=dispatch.credential,
            call=lambda secrets: _sent(known, asker=asker, secrets=secrets),
        )
    except (SealBroken, FieldKeysMissing) as error:
        return _Sent(cannot=f"The credential {dispatch.credential} cannot be read. {error}")


def _sent(known: Held, *, asker: Asker, secrets: Mapping[str, str]) -> _Sent:
    """Permit, request, record."""
    # Read before the clock of the permit starts: what is left of it is then never judged too long.
    began = time.monotonic()
    fresh = held(id=known.id)
    if fresh is None or fresh.facts.version != known.facts.version:
        return _Sent()
    try:
        prepare(_call(fresh, payload_of(id=fresh.id, revision=fresh.facts.revision), _key(fresh), secrets))
    except CannotSend as error:
        return _Sent(cannot=str(error))
    permit = request_permit(held=fresh, actor=WORKER, asker=asker)
    if not isinstance(permit, Permitted):
        return _Sent(refusal=permit)
    left = (permit.terms.dispatch_by - fresh.now).total_seconds()
    observation = _observed(permit, secrets=secrets, until=began + left)
    recorded = _recorded(permit, observation)
    return _heard(recorded, observation)


def _observed(permit: Permitted, *, secrets: Mapping[str, str], until: float) -> dict[str, Any]:
    """Send it, unless its time is over, and tell what was seen."""
    now = permit.held.now
    try:
        call = _prepared(permit, secrets)
    except CannotSend as error:
        return _not_sent(str(error), now=now)
    if not connection.in_atomic_block:
        connection.close()  # others may use it while the owner is being waited for
    if time.monotonic() >= until:
        return _not_sent("The time to begin sending was over.", now=now)
    return send(call, reach=_reach(permit.held), seconds=permit.terms.timeout_ms / 1000, now=now)


def _prepared(permit: Permitted, secrets: Mapping[str, str]) -> Prepared:
    """The call as it is permitted: of a batch that is sent in part, with the payload of that part."""
    payload = permit.payload
    if payload is None:
        payload = payload_of(id=permit.held.id, revision=permit.held.facts.revision)
    return prepare(_call(permit.held, payload, permit.idempotency_key, secrets))


def _call(known: Held, payload: Any, key: str | None, secrets: Mapping[str, str]) -> Call:
    contract = known.contract
    if contract.dispatch is None:
        raise CannotSend("The contract does not say how Ascertain could send it.")
    return Call(
        dispatch=contract.dispatch,
        reach=_reach(known),
        key_field=contract.idempotency.field,
        idempotency_key=key,
        operation_id=known.facts.operation_id,
        payload=payload,
        receipt=known.receipt,
        principal=known.facts.principal,
        secrets=secrets,
    )


def _not_sent(reason: str, *, now: datetime) -> dict[str, Any]:
    return {
        "kind": "exception",
        "exception": "NotSent",
        "message": reason,
        "phase": "before_dispatch",
        "bytes_sent": 0,
        "network_attempts": 0,
        "observed_at": now.isoformat().replace("+00:00", "Z"),
    }


def _recorded(permit: Permitted, observation: dict[str, Any]) -> Held:
    """The operation with the report. What was seen is worth more than one try: a database that restarts is waited for.

    Raises:
        OperationalError, InterfaceError: it could not be recorded; the permit lapses, and the owner is asked.
    """
    digest = digest_of(canonical(observation))
    for tries in range(1, TRIES_TO_RECORD + 1):
        try:
            now = _again(permit.held.id)
            return report(
                held=now, attempt_id=permit.attempt_id, observation=observation, digest=digest, actor=WORKER
            ).held
        except (OperationalError, InterfaceError):
            if tries == TRIES_TO_RECORD:
                raise
            connection.close()
            time.sleep(0.25 * tries)
    raise AssertionError("the last try returns or raises")


def _again(id: UUID) -> Held:
    found = held(id=id)
    if found is None:
        raise LookupError(f"the operation {id} is gone")
    return found


def _heard(recorded: Held, observation: Mapping[str, Any]) -> _Sent:
    status = observation.get("status")
    if not isinstance(status, int):
        silent = observation.get("phase") in _SILENT
        return _Sent(held=recorded, overloaded=silent, reason=str(observation.get("message", "")))
    wait = wait_of(
        headers=observation["headers"],
        body=observation.get("body"),
        observed_at=None,
        now=recorded.now,
        refused_by_limiter=status == 429,
    )
    return _Sent(
        held=recorded,
        answered=True,
        overloaded=status in _OVERLOADED,
        retry_after_ms=wait.milliseconds if wait is not None else None,
        refused_credential=status == 401,
        reason=f"The owner answered {status}",
    )


def _refused(known: Held, refusal: Decision) -> Came:
    """A repeat that was licensed is so no more, or may not be sent yet."""
    facts, contract = known.facts, known.contract
    if refusal.recovery_action is Action.WAIT:
        put_back(ids=[known.id], over=contract.retry.max, not_before=refusal.not_before)
        return Came.PUT_BACK
    roll = random.random()  # noqa: S311 - spreads waits, guards nothing
    if refusal.recovery_action is Action.RECONCILE and not contract.lookup:
        refusal = decide_nobody_to_ask(facts=facts, effect=facts.effect, contract=contract, now=known.now, roll=roll)
    elif refusal.recovery_action is Action.ESCALATE and contract.lookup:
        slowly = next_poll(contract=contract, step=0, now=known.now, roll=roll, slow=True)
        refusal = replace(refusal, not_before=slowly)
    return Came.ENDED if end_by_limit(held=known, decision=refusal) is not None else Came.NOTHING


def _key(known: Held) -> str | None:
    last = known.facts.last_attempt
    return last.idempotency_key if last is not None else None


def _reach(known: Held) -> Reach:
    owner = known.owner
    return Reach(base_url=owner.base_url, hosts=owner.hosts, private_hosts=owner.private_hosts)
