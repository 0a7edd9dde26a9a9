"""What a person typed, and whether it can be recorded."""

from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

from django.http import QueryDict
from django.utils import timezone

from ledger.rules.desk import WakesOn
from ledger.rules.resolutions import Answer

LONGEST_REASON = 4000
LONGEST_LINK = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """An answer as it was typed, kept so that nothing is lost when it cannot be recorded."""

    answer: Answer | None
    version: int
    """Of the operation that the person saw; 0 when the form did not say."""
    reason: str
    evidence_url: str
    wrong_reason: str = ""
    wrong_link: str = ""

    @property
    def is_wrong(self) -> bool:
        return bool(self.wrong_reason or self.wrong_link)


@dataclass(frozen=True, slots=True, kw_only=True)
class Later:
    """What is to become of an operation of which nobody can tell yet."""

    sleeps: datetime | None
    """Until when it sleeps at the latest; None: it stays where it is."""
    wakes_on: WakesOn
    person: int | None
    """Who gets it; None: nobody in particular."""


def read_later(post: QueryDict) -> Later:
    """What was chosen beside "cannot tell"; what cannot be read is not chosen."""
    rule, person = post.get("wakes_on", ""), post.get("person", "")
    try:
        sleeps = datetime.fromisoformat(post.get("sleeps", "")[:40])
    except ValueError:
        sleeps = None
    return Later(
        sleeps=sleeps if sleeps is not None and sleeps.tzinfo is not None else None,
        wakes_on=WakesOn(rule) if rule in list(WakesOn) else WakesOn.TIME,
        person=int(person) if person.isascii() and person.isdigit() and len(person) < 10 else None,
    )


def read_answer(post: QueryDict) -> Typed:
    """The typed answer, with a sentence beside each field that cannot be recorded."""
    reason = cleaned(post.get("reason", "")).strip()
    link = cleaned(post.get("evidence_url", "")).strip()
    answer, version = post.get("answer", ""), post.get("version", "")
    wrong_reason = wrong_link = ""
    if not reason and not link:
        wrong_reason = "Give a reason, or a link to the evidence. One of them is enough."
    elif len(reason) > LONGEST_REASON:
        wrong_reason = f"Keep the reason under {LONGEST_REASON:,} characters. It has {len(reason):,}."
    if link:
        wrong_link = _wrong_with(link)
    return Typed(
        answer=Answer(answer) if answer in list(Answer) else None,
        version=int(version) if version.isascii() and version.isdigit() and len(version) < 10 else 0,
        reason=reason,
        evidence_url=link,
        wrong_reason=wrong_reason,
        wrong_link=wrong_link,
    )


def typed_moment(text: str) -> datetime | None:
    """A whole time, or a local one in the person's zone; None for what is neither."""
    try:
        at = datetime.fromisoformat(text[:40])
        if at.tzinfo is None:
            at = at.replace(tzinfo=timezone.get_current_timezone())
        at.timestamp()
    except (ValueError, OverflowError):
        return None
    return at


def is_link(text: str) -> bool:
    """Whether a recorded evidence reference may be shown as a link."""
    return bool(text) and not _wrong_with(text)


def cleaned(text: str) -> str:
    """Without NUL, which the database cannot hold, and without half surrogates, which no text may have."""
    return text.replace("\x00", "").encode("utf-8", "ignore").decode("utf-8")


def _wrong_with(link: str) -> str:
    if len(link) > LONGEST_LINK:
        return f"Keep the link under {LONGEST_LINK:,} characters."
    sentence = "Write a whole web address, beginning with https:// or http://."
    if any(character.isspace() or not character.isprintable() for character in link):
        return sentence
    try:
        parts = urlsplit(link)
        host = parts.hostname
    except ValueError:
        return sentence
    if parts.scheme not in ("http", "https") or not host:
        return sentence
    if parts.username or parts.password:
        return "Leave names and passwords out of the link; it is kept for good."
    return ""
