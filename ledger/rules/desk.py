"""Who may do what at the desk, for how long, and when is it taken back?

| verb              | who                        | what it changes                                    | taken back            |
| ----------------- | -------------------------- | -------------------------------------------------- | --------------------- |
| claim             | operator, admin            | I hold it for 30 minutes, longer while I look      | yes                   |
| release           | operator, admin            | nobody holds it                                    | yes                   |
| assign            | operator, admin            | that person holds it                               | yes                   |
| hand_over         | operator, admin            | the same, or nobody, with a note                   | yes; the note stays   |
| snooze            | operator, admin            | it sleeps until a time, or something sooner        | yes                   |
| wake              | operator, admin            | the sleep ends                                     | yes                   |
| label, unlabel    | operator, admin            | one label comes or goes                            | yes                   |
| note              | operator, admin, approver  | a note stands beside it                            | no; write another     |
| seen              | operator, admin, approver  | it leaves my list of what woke and of my mentions  | no                    |

Viewers and auditors see all of it and change none of it. The answers to what happened are not here
(`ledger.rules.resolutions`): an act at the desk never changes what is known of an operation.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Final
from uuid import UUID

from ledger.rules.vocabulary import Role

CLAIM_LASTS: Final = timedelta(minutes=30)
ASSIGNMENT_LASTS: Final = timedelta(hours=12)
"""What somebody else is given waits for them for a shift."""
RENEWED_BELOW: Final = timedelta(minutes=25)
"""A claim with less than this left is renewed while its holder looks."""
LONGEST_SNOOZE: Final = timedelta(days=30)
PRESENT_FOR: Final = timedelta(seconds=60)
"""So long after the last look somebody is said to be looking."""
UNDO_OFFERED: Final = timedelta(seconds=10)
UNDO_ACCEPTED: Final = timedelta(seconds=15)
"""Somewhat longer than it is offered: the request takes its time."""
LONGEST_NOTE: Final = 4000
LONGEST_LABEL: Final = 40
MOST_LABELS: Final = 20


class Verb(StrEnum):
    """What a person does at the desk."""

    CLAIM = "claim"
    RELEASE = "release"
    ASSIGN = "assign"
    HAND_OVER = "hand_over"
    SNOOZE = "snooze"
    WAKE = "wake"
    LABEL = "label"
    UNLABEL = "unlabel"
    NOTE = "note"
    SEEN = "seen"
    UNDO = "undo"
    WOKE = "woke"
    """Nobody's act: the snooze of the person who set it ended by itself."""


class WakesOn(StrEnum):
    """What ends a snooze before its time."""

    TIME = ""
    """Nothing: the time alone."""
    EVIDENCE = "evidence"
    """Somebody said something new of it. Lookups that failed, found nothing or settled nothing are no news."""
    OWNER_BACK = "owner_back"
    """The owner answered again after the snooze was set, and nobody has paused it."""
    STATE_CHANGE = "state_change"
    """Its state is another one than when it was snoozed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What an act is about: one operation, or the group of a tool's unsettled operations with one cause."""

    workspace_id: UUID
    operation: UUID | None = None
    tool_id: UUID | None = None
    cause: str = ""

    @property
    def is_group(self) -> bool:
        return self.operation is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """An act as it was recorded, as far as taking it back depends on it."""

    verb: str
    person_id: int
    at: datetime
    undone: bool
    since: str
    """Who changed the same thing after it; empty: nobody."""


_ACTS: Final = frozenset({Role.OPERATOR, Role.ADMIN})
_WRITES: Final = _ACTS | {Role.APPROVER}
MAY: Final[Mapping[Verb, frozenset[Role]]] = MappingProxyType(
    {verb: _WRITES if verb in (Verb.NOTE, Verb.SEEN) else _ACTS for verb in Verb if verb not in (Verb.WOKE,)}
)
"""Which roles may do what; the one table that pages and tests ask."""
REVERSIBLE: Final = frozenset(
    {Verb.CLAIM, Verb.RELEASE, Verb.ASSIGN, Verb.HAND_OVER, Verb.SNOOZE, Verb.WAKE, Verb.LABEL, Verb.UNLABEL}
)


def may_act(*, verb: Verb, roles: frozenset[Role]) -> bool:
    """Whether somebody with these roles may do that."""
    return bool(MAY.get(verb, frozenset()) & roles)


def may_be_undone(*, verb: str) -> bool:
    """Whether an act of this kind can be taken back at all."""
    return verb in REVERSIBLE


def why_not_undo(*, kept: Kept, person_id: int, now: datetime, within: timedelta = UNDO_ACCEPTED) -> str:
    """Why an act is not taken back, in a sentence; empty when it is."""
    if kept.person_id != person_id:
        return "Not undone: only the person who did this can take it back."
    if not may_be_undone(verb=kept.verb):
        return "Not undone: this stays. Write a note to correct it."
    if kept.undone:
        return "It was undone already. Nothing else was changed."
    if kept.since:
        return f"Not undone: {kept.since} has changed it since. What you see is what holds now."
    if now - kept.at > within:
        return f"Not undone: this could be taken back for {UNDO_OFFERED.seconds} seconds. Do the opposite instead."
    return ""


def why_not_snooze(*, until: datetime, now: datetime) -> str:
    """Why a snooze cannot end then; empty when it can."""
    if until <= now:
        return "Choose a time that is still to come."
    if until > now + LONGEST_SNOOZE:
        return f"Choose a time within {LONGEST_SNOOZE.days} days: nothing sleeps for longer."
    return ""


def mentioned(text: str) -> tuple[str, ...]:
    """The usernames that a note names with @, each once, in order. An address like a@b names nobody."""
    return tuple(dict.fromkeys(name.rstrip(".-") for name in _MENTION.findall(text)))


def why_not_label(label: str) -> str:
    """Why a label cannot be given; empty when it can."""
    if not label:
        return "Write the label."
    if len(label) > LONGEST_LABEL:
        return f"Keep a label under {LONGEST_LABEL} characters."
    if not _LABEL.fullmatch(label):
        return "A label has letters, digits, spaces and - _ . / in it, and begins with a letter or a digit."
    return ""


def why_not_note(text: str) -> str:
    """Why a note cannot be kept; empty when it can."""
    if not text:
        return "Write something first."
    if len(text) > LONGEST_NOTE:
        return f"Keep a note under {LONGEST_NOTE:,} characters. It has {len(text):,}."
    return ""


_MENTION = re.compile(r"(?<![\w@.+-])@([\w.+-]{1,150})")
_LABEL = re.compile(r"[^\W_][\w ./-]*")
