"""What does an event say to a person, and what does it say to a program?

People get a subject and a few lines: what happened, what is safe, what to do. Programs get the codes and ids. Both hold
our own words only: no payload, no owner's text.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

from ledger.rules.events import EventKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A message for a person."""

    subject: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Words:
    subject: str
    safe: str
    do: str


_SAFE: Final = "Nothing is sent again while this is open; Ascertain keeps the record."
_WORDS: Final[Mapping[str, _Words]] = MappingProxyType(
    {
        EventKind.ESCALATED: _Words(
            subject="A person has to look",
            safe=_SAFE,
            do="Open the operation, see what is known, and record what happened.",
        ),
        EventKind.REOPENED: _Words(
            subject="Reopened: the outcome is contradicted",
            safe=_SAFE,
            do="Open the operation and compare both pieces of evidence.",
        ),
        EventKind.SETTLED: _Words(
            subject="Settled",
            safe="It has its final outcome; late evidence against it would reopen it.",
            do="Nothing has to be done.",
        ),
        EventKind.VERIFICATION_FAILED: _Words(
            subject="Done, but not as intended",
            safe="Nothing is written again to mend it by itself.",
            do="Open the operation and compare what was intended with what is there.",
        ),
        EventKind.CONTRACT_VIOLATED: _Words(
            subject="A tool breaks its contract",
            safe="What contradicts the contract is not believed; the cautious reading counts.",
            do="Mend the tool, or publish a contract that says what it does.",
        ),
        EventKind.CREDENTIAL_REFUSED: _Words(
            subject="An owner refuses our credential",
            safe="Nobody asks with it until it is changed; its operations wait and are not forgotten.",
            do="Renew the credential where the contract says that it stands.",
        ),
        EventKind.TEST: _Words(subject="A test", safe="It concerns no operation.", do="Nothing has to be done."),
    }
)
_OTHER: Final = _Words(subject="Something happened", safe=_SAFE, do="Open Ascertain and look.")
_LINES: Final = (
    ("Operation", "operation_id"),
    ("Tool", "tool"),
    ("Owner", "owner"),
    ("Contract", "contract"),
    ("Effect", "effect"),
    ("Outcome", "outcome"),
    ("It was", "contradicts"),
    ("Credential", "credential"),
    ("Operations that wait", "waiting"),
    ("Run", "run"),
    ("Priority", "priority"),
    ("Answer by", "sla_at"),
    ("Code", "code"),
)


def letter(*, kind: str, payload: Mapping[str, Any], workspace: str, address: str) -> Letter:
    """The message for a person. `address` is where Ascertain is reached."""
    words = _WORDS.get(kind, _OTHER)
    about = " ".join(str(payload[name]) for name in ("tool", "operation_id") if payload.get(name))
    about = about or str(payload.get("owner") or "")
    urgent = payload.get("priority") in ("high", "urgent")
    subject = f"[Ascertain] {words.subject}{f': {about}' if about else ''}{' (urgent)' if urgent else ''}"
    lines = [str(payload.get("sentence") or f"{words.subject}."), words.safe, words.do]
    if url := url_of(payload=payload, address=address):
        lines.append(url)
    facts = [f"{label}: {payload[name]}" for label, name in _LINES if payload.get(name)]
    facts.append(f"Workspace: {workspace}")
    if waiting := payload.get("dependants"):
        facts.append(f"Of the same run: {', '.join(waiting)}")
    return Letter(subject=subject[:200], text="\n\n".join([*lines, "\n".join(facts)]) + "\n")


def document(
    *, kind: str, payload: Mapping[str, Any], workspace: str, address: str, event_id: str, at: datetime
) -> dict[str, Any]:
    """The message for a program, shaped as Standard Webhooks recommends: type, timestamp, data."""
    data = {name: value for name, value in payload.items() if name != "notify"}
    data |= {"event_id": event_id, "workspace": workspace}
    if url := url_of(payload=payload, address=address):
        data["url"] = url
    return {"type": kind, "timestamp": at.isoformat().replace("+00:00", "Z"), "data": data}


def url_of(*, payload: Mapping[str, Any], address: str) -> str | None:
    """The operation's page; None where the event is of none."""
    return f"{address.rstrip('/')}/operations/{payload['id']}/" if payload.get("id") else None
