"""The gate through which owners are asked: whoever holds a place may ask, one question at a time.

| before a question                                             | otherwise                                                   |
| ------------------------------------------------------------- | ----------------------------------------------------------- |
| a place among those that the owner has at once                | `NotNow`: the operation is put back a little later          |
| the circuit is not open, and nobody has paused the owner      | `NotNow`, until it asks again                               |
| the credential is not one that the owner refused              | `NotNow`, until it is tried again or its value changes      |
| a turn, where the owner has a rate                            | a short wait, else `NotNow`                                 |

`NotNow` spends nothing: no budget, no history. After the question: an overloaded owner counts for its circuit, a refused
credential is latched once for all operations, an answer clears both.
"""

import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, Protocol, TypeVar
from uuid import UUID

from django.db import connection

from ledger.queries.facts import Held
from ledger.queries.owners import waiting
from ledger.queries.secrets import sealed_secret
from ledger.rules.circuits import PROVEN_FOR, Circuit, CircuitState, spread_over
from ledger.rules.vocabulary import LookupOutcome
from ledger.transitions.owners import (
    Admission,
    Latch,
    Place,
    accept_credential,
    free_place,
    keep_place,
    latch_credential,
    note_reply,
    take_places,
    take_turn,
    try_credential,
)
from recovery.owners.base import Question, Reply
from recovery.owners.registry import adapters
from recovery.owners.verify import Inspected, Inspection, check_outcome
from recovery.sealing import FieldKeysMissing, SealBroken, fingerprint, unseal

PLACE_LASTS: Final = timedelta(seconds=20)
"""A dead worker's place is free again after this."""
NOTED_EVERY: Final = 1.0
"""Seconds between two notes that an owner answers, while nothing is wrong with it."""
FIRST_GUESS: Final = 0.05
"""Seconds that an owner is taken to need for an answer before it gave one."""
HANGS_AFTER: Final = 0.8
"""Seconds without an answer, from which on an owner is taken to hang. A busy machine of ours is no slow owner."""
LONGEST_ORDINARY: Final = 1.0
"""Seconds; an owner that hung is taken to answer in this time once it answers again."""
LOOKS_AGAIN_WITHIN: Final = timedelta(minutes=1)
"""Operations whose credential was refused are looked at so often: its value may have been changed, which asks nothing of
the owner."""


SOON: Final = timedelta(seconds=0.5)
"""Whoever finds no place is not looked at again sooner."""


class NotNow(Exception):
    """The owner is not asked now. Nothing was sent and nothing is spent: put the operation back in the schedule."""

    def __init__(
        self, reason: str, *, over: timedelta, until: datetime | None = None, at_least: timedelta = SOON
    ) -> None:
        super().__init__(reason)
        self.until = until
        """Nobody asks before; None: whenever there is a place."""
        self.at_least = at_least
        self.over = over
        """Over how long those are spread who are put back together."""


class Heard(Protocol):
    """What the gate needs to know of an answer, of whatever kind."""

    @property
    def overloaded(self) -> bool:
        """The owner is down or asks for fewer questions."""

    @property
    def retry_after_ms(self) -> int | None:
        """How long it asks nobody to ask."""

    @property
    def refused_credential(self) -> bool:
        """It does not accept who we are."""

    @property
    def reason(self) -> str:
        """Why there is no answer, in words."""

    @property
    def answered(self) -> bool:
        """The owner itself said something. False where it was not asked after all."""


AnyHeard = TypeVar("AnyHeard", bound=Heard)


@dataclass(slots=True, kw_only=True)
class Desk:
    """What this process knows of one owner."""

    owner_id: UUID
    lock: threading.Lock = field(default_factory=threading.Lock)
    most_at_once: int = 4
    per_second: float | None = None
    latches: Mapping[str, Latch] = field(default_factory=dict)
    circuit: Circuit = field(default_factory=Circuit)
    noted_at: float = 0.0
    """By the monotonic clock: when it was last noted that the owner answers."""
    in_doubt: bool = True
    """The next answer is worth noting at once."""
    _answers: float = FIRST_GUESS
    _open: dict[int, float] = field(default_factory=dict)
    waiting: int = 0
    """Operations that came due for it within a minute, when they were last counted."""
    _counted_at: float = 0.0

    def admit(self, *, wanted: int) -> Admission:
        """Places for up to `wanted` questions side by side, and what else the owner allows."""
        admission = take_places(owner_id=self.owner_id, wanted=wanted, lasts=PLACE_LASTS)
        circuit, now = admission.circuit, admission.now
        proven = circuit.last_success_at is not None and now - circuit.last_success_at < PROVEN_FOR / 2
        with self.lock:
            self.most_at_once, self.per_second = admission.most_at_once, admission.per_second
            self.latches = {latch.reference: latch for latch in admission.latches}
            self.circuit = circuit
            self.in_doubt = circuit.state is not CircuitState.CLOSED or circuit.failures > 0 or not proven
        return admission

    def spread(self) -> timedelta:
        """Over how long those are spread who find no place now."""
        if time.monotonic() - self._counted_at > 2.0:
            self._counted_at = time.monotonic()
            self.waiting = waiting(owner_id=self.owner_id, within=timedelta(minutes=1))
        return spread_over(
            waiting=self.waiting,
            most_at_once=self.most_at_once,
            per_second=self.per_second,
            answer_seconds=self.answer_seconds,
        )

    @property
    def answer_seconds(self) -> float:
        """How long it takes to answer: lately, and not less than a question that hangs has been open now."""
        now = time.monotonic()
        with self.lock:
            oldest = now - min(self._open.values(), default=now)
        return max(self._answers, oldest) if oldest > HANGS_AFTER else self._answers

    @contextmanager
    def open_question(self) -> Iterator[None]:
        """Around a question to the owner."""
        me, began = threading.get_ident(), time.monotonic()
        with self.lock:
            self._open[me] = began
        try:
            yield
        finally:
            seconds = time.monotonic() - began
            with self.lock:
                del self._open[me]
                # Slowness counts at once, quickness once it lasts.
                self._answers += (0.5 if seconds > self._answers else 0.2) * (seconds - self._answers)


_desks: dict[UUID, Desk] = {}
_desks_lock = threading.Lock()


def desk_of(owner_id: UUID) -> Desk:
    """What this process knows of an owner."""
    with _desks_lock:
        return _desks.setdefault(owner_id, Desk(owner_id=owner_id))


class Visit:
    """A place at one owner, for as long as it is kept: the way to ask it."""

    def __init__(self, *, desk: Desk, place: Place) -> None:
        self.desk = desk
        self._place: Place | None = place
        self._kept_at = time.monotonic()

    def lasts(self, *, seconds: float) -> bool:
        """Whether the place can be held for so long; it is kept for longer where that needs to be. False when it lapsed,
        or the owner is no longer to be asked: leave, and take another."""
        if self._place is None:
            return False
        if time.monotonic() + seconds > self._kept_at + PLACE_LASTS.total_seconds():
            self._place = keep_place(self._place, lasts=PLACE_LASTS)
            self._kept_at = time.monotonic()
        return self._place is not None

    def leave(self) -> None:
        """Give the place back."""
        if self._place is not None:
            free_place(self._place)
            self._place = None

    def lookup(self, known: Held, question: Question) -> Reply:
        """Ask the adapter of the question's kind, with its credential.

        Raises:
            NotNow: it is not asked now.
        """
        rule = question.lookup.rule
        try:
            asked = self.call(
                known,
                reference=rule.credential,
                call=lambda secrets: _AnsweredReply(adapters()[rule.by].ask(replace(question, secrets=secrets))),
            )
        except (SealBroken, FieldKeysMissing) as error:
            reason = f"The credential {rule.credential} cannot be read. {error}"
            return Reply(outcome=LookupOutcome.LOOKUP_FAILED, complete=False, reason=reason)
        reply = asked.reply
        if self.desk.per_second is not None and reply.pages > 1:
            # Each further page was a question too; the turns that it used up come off the next ones.
            take_turn(owner_id=known.owner.id, per_second=self.desk.per_second, turns=reply.pages - 1, patience=60.0)
        return reply

    def check(self, known: Held, inspection: Inspection) -> Inspected:
        """Ask what the owner shows of an outcome.

        Raises:
            NotNow: it is not asked now.
        """
        verify = known.contract.verify
        reference = verify.credential if verify is not None else None
        try:
            return self.call(
                known,
                reference=reference,
                call=lambda secrets: check_outcome(replace(inspection, secrets=secrets)),
            )
        except (SealBroken, FieldKeysMissing) as error:
            return Inspected(reason=f"the credential {reference} cannot be read. {error}")

    def call(
        self,
        known: Held,
        *,
        reference: str | None,
        call: Callable[[Mapping[str, str]], AnyHeard],
        roll: float | None = None,
    ) -> AnyHeard:
        """Ask in whatever way: `call` gets the secrets that `reference` needs and returns what was heard.

        Raises:
            NotNow: it is not asked now; `call` was not called.
            SealBroken, FieldKeysMissing: the kept credential cannot be read; `call` was not called.
        """
        secrets = _secrets(known, reference)
        mark = fingerprint(str(known.owner.id), reference or "", _value(reference, secrets))
        self._check_credential(reference or "", mark)
        self._take_turn()
        _give_back_connection()
        with self.desk.open_question():
            heard = call(secrets)
        if heard.answered or heard.overloaded:
            self._note(heard, roll=random.random() if roll is None else roll)  # noqa: S311 - spreads waits, guards nothing
        if heard.refused_credential:
            self._latch(known, reference or "", mark, heard.reason)
        elif heard.answered and not heard.overloaded:
            self._accepted(reference or "", mark)
        return heard

    def _check_credential(self, reference: str, mark: bytes) -> None:
        latch = self.desk.latches.get(reference)
        if latch is None or latch.fingerprint != mark:
            return
        if not try_credential(owner_id=self.desk.owner_id, reference=reference):
            # It may be given another value at any moment; to look at that asks nothing of the owner.
            raise NotNow(
                f"The owner refused the credential {reference or '(none)'}",
                over=LOOKS_AGAIN_WITHIN,
                at_least=LOOKS_AGAIN_WITHIN,
            )

    def _accepted(self, reference: str, mark: bytes) -> None:
        latch = self.desk.latches.get(reference)
        if latch is None or (latch.fingerprint != mark and not latch.stands):
            return
        accept_credential(owner_id=self.desk.owner_id, reference=reference, fingerprint=mark)
        with self.desk.lock:
            self.desk.latches = {name: each for name, each in self.desk.latches.items() if name != reference}

    def _take_turn(self) -> None:
        if self.desk.per_second is None:
            return
        wait = take_turn(owner_id=self.desk.owner_id, per_second=self.desk.per_second)
        if wait is None:
            raise NotNow("The owner's rate is used up for the moment", over=self.desk.spread())
        if wait > 0:
            _give_back_connection()
            time.sleep(wait)

    def _note(self, heard: Heard, *, roll: float) -> None:
        desk = self.desk
        if not heard.overloaded and not desk.in_doubt and time.monotonic() - desk.noted_at < NOTED_EVERY:
            return
        asked = timedelta(milliseconds=heard.retry_after_ms) if heard.overloaded and heard.retry_after_ms else None
        circuit = note_reply(
            owner_id=desk.owner_id,
            overloaded=heard.overloaded,
            roll=roll,
            asked=asked,
            reason=heard.reason,
            answer_seconds=min(desk.answer_seconds, LONGEST_ORDINARY),
        )
        with desk.lock:
            desk.circuit, desk.noted_at = circuit, time.monotonic()
            desk.in_doubt = circuit.failures > 0 or circuit.state is not CircuitState.CLOSED

    def _latch(self, known: Held, reference: str, mark: bytes, reason: str) -> None:
        escalation = known.contract.escalation
        latch_credential(
            owner_id=self.desk.owner_id,
            workspace_id=known.workspace_id,
            reference=reference,
            fingerprint=mark,
            reason=reason,
            told={
                "owner": known.owner.name,
                "tool": known.facts.tool,
                "code": "CREDENTIAL_REFUSED",
                "sentence": (
                    f"{known.owner.name} no longer accepts {reference or 'questions without a credential'}. Nothing was "
                    "lost: its operations wait and spend nothing. Put a credential in place that it accepts."
                ),
                "waiting": waiting(owner_id=self.desk.owner_id),
                "priority": escalation.priority.value,
                "notify": list(escalation.notify),
            },
        )
        self.desk.admit(wanted=0)  # what others of this process ask next finds the latch

    @property
    def shut(self) -> bool:
        """The circuit opened while we were here."""
        return self.desk.circuit.state is CircuitState.OPEN


@contextmanager
def visiting(known: Held, *, visit: Visit | None = None) -> Iterator[Visit]:
    """The given visit; or one for this operation alone, with a place that is given back at the end.

    Raises:
        NotNow: there is no place, or nobody asks this owner now.
    """
    if visit is not None:
        yield visit
        return
    desk = desk_of(known.owner.id)
    admission = desk.admit(wanted=1)
    if not admission.places:
        raise _refused(desk, admission)
    made = Visit(desk=desk, place=admission.places[0])
    try:
        yield made
    finally:
        made.leave()


def _refused(desk: Desk, admission: Admission) -> NotNow:
    until = admission.not_before
    return NotNow(
        "The owner is not asked now" if until else "As many questions are open at the owner as it takes",
        over=desk.spread(),
        until=until,
    )


@dataclass(frozen=True, slots=True)
class _AnsweredReply:
    """A lookup's reply as the gate hears it."""

    reply: Reply

    @property
    def overloaded(self) -> bool:
        return self.reply.overloaded

    @property
    def retry_after_ms(self) -> int | None:
        return self.reply.retry_after_ms

    @property
    def refused_credential(self) -> bool:
        return self.reply.refused_credential

    @property
    def reason(self) -> str:
        return self.reply.reason

    @property
    def answered(self) -> bool:
        reply = self.reply
        settles = reply.outcome in (LookupOutcome.FOUND, LookupOutcome.NO_MATCH)
        return settles or reply.status is not None or bool(reply.body) or reply.refused_credential


def _secrets(known: Held, reference: str | None) -> Mapping[str, str]:
    kind, _, name = (reference or "").partition(":")
    if kind != "secret":
        return {}
    sealed = sealed_secret(workspace_id=known.workspace_id, name=name)
    return {name: unseal(sealed)} if sealed is not None else {}


def _value(reference: str | None, secrets: Mapping[str, str]) -> str:
    kind, _, name = (reference or "").partition(":")
    return os.environ.get(name, "") if kind == "env" else secrets.get(name, "")


def _give_back_connection() -> None:
    """Others may use the connection while the owner is being waited for."""
    if not connection.in_atomic_block:
        connection.close()
