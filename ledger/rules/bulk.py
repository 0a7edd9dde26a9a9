"""What may be done to many operations at once, and what must be so of each of them?

| verb                  | who                       | a member is left out when                                      | taken back |
| --------------------- | ------------------------- | -------------------------------------------------------------- | ---------- |
| claim                 | operator, admin           | it is settled, or somebody else holds it                       | yes        |
| release               | operator, admin           | nobody, somebody else or its group holds it                    | yes        |
| assign, hand_over     | operator, admin           | it is settled                                                  | yes; notes stay |
| snooze                | operator, admin           | it is settled                                                  | yes        |
| label                 | operator, admin           | it has as many labels as there may be                          | yes        |
| note                  | operator, admin, approver | never                                                          | no         |
| look_again            | operator, admin           | nobody asks the owner in its state                             | no         |
| applied               | operator, admin           | the answer is not open for it alone (`resolutions.offers`)     | no         |
| not_applied, written_off, accept_duplicate_risk | operator, admin | the same; or its last completed lookup is too old     | no         |

The last three always need a second person's signature on each member, which may be given in bulk as well; and of each
member a completed lookup of its own that was younger than the contract's lag when the set was frozen. A member on which
another answer waits, or the same one of the same person, is left out.

The set is frozen: its members, each with the version that was previewed. One digest stands for what was previewed:
the verb, every member with its version, what is known of it, and whether it is eligible. A start whose digest differs
is refused, and the set is frozen and shown anew. That the owner was asked again with nothing new is no such change; but
an answer to what happened names the version that was seen (invariant 7), so such a member is skipped on its turn.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Final
from uuid import UUID

from ledger.rules import desk
from ledger.rules.lifecycle import ASKED
from ledger.rules.resolutions import Answer, Offer
from ledger.rules.vocabulary import Role, State

MOST: Final = 10_000
"""Members of one job."""
MOST_AT_RISK: Final = 200
"""Operations for which the risk of a duplicate is accepted at once: each is weighed by itself."""
PREVIEW_LASTS: Final = timedelta(minutes=15)
UNDO_LASTS: Final = timedelta(hours=1)
"""So long after its end a job can be taken back."""
RATES: Final = (1, 5, 20, 50)
"""Operations a second."""
FIRST: Final = (1, 10, 100)
"""How many may be done first, before one goes on with the others."""


class Verb(StrEnum):
    """What is done to each member."""

    CLAIM = "claim"
    RELEASE = "release"
    ASSIGN = "assign"
    HAND_OVER = "hand_over"
    SNOOZE = "snooze"
    LABEL = "label"
    NOTE = "note"
    LOOK_AGAIN = "look_again"
    APPLIED = "applied"
    NOT_APPLIED = "not_applied"
    WRITTEN_OFF = "written_off"
    ACCEPT_DUPLICATE_RISK = "accept_duplicate_risk"
    UNDO = "undo"
    """Takes another job back; it is not offered for a set."""


class Result(StrEnum):
    """What came of a member. Skipped: a rule kept it from being done. Failed: it was tried and something broke."""

    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"


ANSWERS: Final[Mapping[Verb, Answer]] = MappingProxyType(
    {
        Verb.APPLIED: Answer.APPLIED,
        Verb.NOT_APPLIED: Answer.NOT_APPLIED,
        Verb.WRITTEN_OFF: Answer.WRITTEN_OFF,
        Verb.ACCEPT_DUPLICATE_RISK: Answer.ACCEPT_DUPLICATE_RISK,
    }
)
"""Verbs that say what happened; each needs a reason or evidence."""
BY_TWO: Final = frozenset({Verb.NOT_APPLIED, Verb.WRITTEN_OFF, Verb.ACCEPT_DUPLICATE_RISK})
"""Always by two people, and only where the owner has just been asked."""
OFFERED: Final = tuple(verb for verb in Verb if verb is not Verb.UNDO)
REVERSIBLE: Final = frozenset({Verb.CLAIM, Verb.RELEASE, Verb.ASSIGN, Verb.HAND_OVER, Verb.SNOOZE, Verb.LABEL})
_AT_THE_DESK: Final = MappingProxyType({verb: desk.Verb(verb.value) for verb in (*REVERSIBLE, Verb.NOTE, Verb.UNDO)})
_DECIDES: Final = frozenset({Role.OPERATOR, Role.ADMIN})
CHANGED: Final = "It has changed since the preview."
NOT_ASKED: Final = "Nobody asks its owner in this state."
TOO_MANY_AT_RISK: Final = f"The risk of a duplicate is accepted for at most {MOST_AT_RISK} at once."


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One operation of a frozen set, as far as any verb depends on it."""

    number: int
    id: UUID
    version_seen: int
    version: int
    state: State
    known: str
    """What is known of it in words that a person decides on: another text whenever any of them changes."""
    holder_id: int | None = None
    holder: str = ""
    held_by_group: bool = False
    labels: int = 0
    offer: Offer | None = None
    """Of the answer that is asked for."""
    waits_for: Answer | None = None
    """An answer on it that waits for a second signature."""
    waits_from: int | None = None
    looked_at: datetime | None = None
    """When the owner last gave Ascertain an answer that it could read completely."""
    lag: timedelta | None = None
    """The contract's; None: it states none."""

    @property
    def moved(self) -> bool:
        return self.version != self.version_seen


def may_act(*, verb: Verb, roles: frozenset[Role]) -> bool:
    """Whether somebody with these roles may do that in bulk: the same as for one."""
    at_the_desk = _AT_THE_DESK.get(verb)
    return desk.may_act(verb=at_the_desk, roles=roles) if at_the_desk else bool(_DECIDES & roles)


def may_be_undone(*, verb: str) -> bool:
    """Whether a job of this kind can be taken back."""
    return verb in REVERSIBLE


def why_left_out(*, verb: Verb, member: Member, me: int, frozen_at: datetime) -> str:
    """Why a member is left out, in a sentence; empty when it is eligible."""
    if verb in ANSWERS:
        return _why_no_answer(verb, member, me, frozen_at)
    settled = member.state is State.SETTLED
    if verb in (Verb.CLAIM, Verb.ASSIGN, Verb.HAND_OVER, Verb.SNOOZE) and settled:
        return "It is settled: there is nothing left to hold or to wait for."
    if verb is Verb.CLAIM and member.holder_id not in (None, me):
        return f"{member.holder} holds it already."
    if verb is Verb.RELEASE:
        return _why_not_released(member, me)
    if verb is Verb.LABEL and member.labels >= desk.MOST_LABELS:
        return f"It has {desk.MOST_LABELS} labels already."
    if verb is Verb.LOOK_AGAIN and member.state not in ASKED:
        return NOT_ASKED
    return ""


def digest_of(*, verb: Verb, members: Iterable[tuple[Member, bool]]) -> bytes:
    """SHA-256 over what was previewed: the verb, and of each member its id, its version then, what is known of it now
    and whether it is eligible."""
    hashed = hashlib.sha256(verb.value.encode())
    for member, eligible in members:
        line = f"\n{member.number} {member.id} {member.version_seen} {member.known} {int(eligible)}"
        hashed.update(line.encode())
    return hashed.digest()


def _why_not_released(member: Member, me: int) -> str:
    if member.holder_id is None:
        return "Nobody holds it."
    if member.holder_id != me:
        return f"{member.holder} holds it, not you."
    return "You hold its whole group: release the group." if member.held_by_group else ""


def _why_no_answer(verb: Verb, member: Member, me: int, frozen_at: datetime) -> str:
    offer = member.offer
    if offer is None:
        return TOO_MANY_AT_RISK
    if not offer.allowed:
        return offer.why_not
    if member.waits_for is not None and member.waits_for is not offer.answer:
        return "Another answer waits for a second person there. Decide it on its own page."
    if member.waits_for is not None and member.waits_from == me:
        return "You gave this answer already. Another person has to sign it."
    return _why_not_fresh(member, frozen_at) if verb in BY_TWO else ""


def _why_not_fresh(member: Member, frozen_at: datetime) -> str:
    if member.lag is None:
        return "Its contract says no lag, so no lookup of its owner is known to be recent enough."
    if member.looked_at is None:
        return "Its owner has never been asked to the end. Look again first."
    if frozen_at - member.looked_at >= member.lag:
        seconds = f"{member.lag.total_seconds():g}"
        return f"Its owner was last asked longer ago than the contract's lag of {seconds} s. Look again first."
    return ""
