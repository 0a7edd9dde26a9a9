"""The further sides of an operation's page, each loaded only when somebody asks for it.

| tab      | shows                                                                              |
| -------- | ---------------------------------------------------------------------------------- |
| found    | what was meant against what was found, and where the originals are                 |
| contract | the version it is pinned to, and what the current one says otherwise               |
| related  | the same intent, the same payload, and what its run does after it                  |
| packet   | what is established and what is not, for handing on                                |
| raw      | its history row by row, with the chain                                             |
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any
from urllib.parse import urlencode

import orjson
from django.utils.safestring import SafeString

from ledger.database import TookTooLong, within
from ledger.queries.contracts import published_documents
from ledger.queries.facts import Held
from ledger.queries.operations import EvidenceRow, JournalRow
from ledger.queries.related_operations import RelatedOperation, related_operations, with_same_payload
from ledger.rules.contract_text import contract_text
from ledger.rules.history import HistoryBroken, HistoryRow, Replayed
from ledger.rules.packet import STOPS
from recovery.web.moments import absolute, moment
from recovery.web.operation_view import RelatedLine, cut, differences, of_its_run, plain, related_line
from recovery.web.review_packet import packet_of
from recovery.web.sentences import who

PATIENCE_MS = 700
NEAR = timedelta(days=1)
"""How far apart two operations may have begun whose payload is the same, to be looked at together."""
MOST_RELATED = 50
MOST_ROWS = 300
ENTRY_SHOWN = 8_000


class Tab(StrEnum):
    """Which side of the page."""

    OVERVIEW = ""
    FOUND = "found"
    CONTRACT = "contract"
    RELATED = "related"
    PACKET = "packet"
    RAW = "raw"


NAMES: Mapping[Tab, str] = {
    Tab.OVERVIEW: "Overview",
    Tab.FOUND: "Intended and found",
    Tab.CONTRACT: "Contract",
    Tab.RELATED: "Related",
    Tab.PACKET: "Review packet",
    Tab.RAW: "Raw",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TabLink:
    """A tab, as a link."""

    name: str
    href: str
    current: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTab:
    """What was meant against what was found."""

    when_asked: tuple[tuple[str, str, str], ...]
    when_checked: tuple[tuple[str, str, str], ...]
    compared: bool
    """Something was found or checked at all."""
    receipt: tuple[tuple[str, str], ...]
    """What the owner's answers named it as."""
    revisions: tuple[int, ...]
    """Of which the payload can be read, newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractTab:
    """The version that holds for it, and the current one."""

    used: str
    current: str
    same: bool
    changes: tuple[tuple[str, str], ...]
    """(kind, line): kind is added, removed, place or empty."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedTab:
    """Other operations that somebody should have in mind."""

    same_intent: tuple[RelatedLine, ...]
    has_identity: bool
    same_payload: tuple[RelatedLine, ...]
    too_many: bool
    """The search took too long and was given up."""
    run: tuple[RelatedLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRow:
    """One row of history as it stands."""

    seq: int
    verb: str
    actor: str
    when: SafeString
    hash: str
    entry: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RawTab:
    """The history, and whether its chain holds."""

    rows: tuple[RawRow, ...]
    more: int
    total: int
    broken: str
    """Where the chain breaks; empty where it is whole."""
    head: str


def tab_of(text: str) -> Tab:
    """The tab that an address asks for; anything else is the overview."""
    return Tab(text) if text in list(Tab) else Tab.OVERVIEW


def tab_links(*, id: Any, tab: Tab, came_from: str | None) -> tuple[TabLink, ...]:
    """Every tab, keeping the list that the person came from."""
    return tuple(
        TabLink(name=name, href=address_of(id=id, tab=each, came_from=came_from), current=each is tab)
        for each, name in NAMES.items()
    )


def address_of(*, id: Any, tab: Tab = Tab.OVERVIEW, came_from: str | None = None) -> str:
    """The page's address."""
    return f"/operations/{id}/{query_of(tab=tab, came_from=came_from)}"


def query_of(*, tab: Tab, came_from: str | None) -> str:
    """What an address of the page is followed by, with its question mark; empty where there is nothing."""
    asked = ({"tab": tab.value} if tab is not Tab.OVERVIEW else {}) | (
        {"from": came_from} if came_from is not None else {}
    )
    return f"?{urlencode(asked)}" if asked else ""


def tab_view(*, tab: Tab, held: Held, evidence: Sequence[EvidenceRow], journal: Sequence[JournalRow]) -> dict[str, Any]:
    """What the tab's part of the template shows, by name."""
    match tab:
        case Tab.FOUND:
            return {"found_tab": _found(held, evidence)}
        case Tab.CONTRACT:
            return {"contract_tab": _contract(held)}
        case Tab.RELATED:
            return {"related_tab": _related(held)}
        case Tab.PACKET:
            packet = packet_of(held=held, evidence=evidence)
            as_of = absolute(packet.as_of)
            return {"packet_tab": packet, "packet_stopped": STOPS[packet.stop], "packet_as_of": as_of}
        case Tab.RAW:
            return {"raw_tab": _raw(held, journal)}
        case _:
            return {}


def _found(held: Held, evidence: Sequence[EvidenceRow]) -> FoundTab:
    when_asked = differences(evidence, checked=False)
    when_checked = differences(evidence, checked=True)
    return FoundTab(
        when_asked=when_asked,
        when_checked=when_checked,
        compared=any(piece.outcome in ("found", "verified", "failed", "notified") for piece in evidence),
        receipt=tuple((cut(plain(name), 60), cut(plain(value), 400)) for name, value in held.receipt.items()),
        revisions=tuple(range(held.facts.revision, 0, -1)),
    )


def _contract(held: Held) -> ContractTab:
    tool, _, number = held.contract_label.rpartition("@")
    [used] = published_documents(workspace_id=held.workspace_id, tool=tool, number=int(number))
    now = published_documents(workspace_id=held.workspace_id, tool=tool)
    current = now[0] if now else used
    before, after = contract_text(used.document), contract_text(current.document)
    return ContractTab(
        used=used.label,
        current=current.label,
        same=used.digest == current.digest,
        changes=tuple(_changes(before, after)),
        text=before,
    )


def _changes(before: str, after: str) -> list[tuple[str, str]]:
    kinds = {"+": "added", "-": "removed", "@": "place"}
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=2))[2:]
    return [(kinds.get(line[:1], ""), "…" if line.startswith("@@") else line) for line in lines]


def _related(held: Held) -> RelatedTab:
    same: tuple[RelatedOperation, ...] = ()
    if held.identity_digest is not None:
        same = related_operations(
            workspace_id=held.workspace_id,
            tool_id=held.tool_id,
            identity_digest=held.identity_digest,
            besides=held.id,
            most=MOST_RELATED,
        )
    known = {other.id for other in same}
    alike: tuple[RelatedOperation, ...] = ()
    too_many = False
    try:
        with within(milliseconds=PATIENCE_MS):
            alike = with_same_payload(
                workspace_id=held.workspace_id,
                tool_id=held.tool_id,
                payload_digest=held.facts.payload_digest,
                besides=held.id,
                since=held.created_at - NEAR,
                until=held.created_at + NEAR,
                most=MOST_RELATED,
            )
    except TookTooLong:
        too_many = True
    return RelatedTab(
        same_intent=tuple(related_line(other, held) for other in same),
        has_identity=held.identity_digest is not None,
        same_payload=tuple(related_line(other, held) for other in alike if other.id not in known),
        too_many=too_many,
        run=tuple(related_line(other, held) for other in of_its_run(held)),
    )


def _raw(held: Held, journal: Sequence[JournalRow]) -> RawTab:
    replayed, broken = Replayed(id=held.id), ""
    try:
        for row in journal:
            replayed.follow(
                HistoryRow(
                    seq=row.seq,
                    at=row.at,
                    verb=row.verb,
                    actor=row.actor,
                    entry=row.entry,
                    hash=bytes.fromhex(row.hash),
                )
            )
    except HistoryBroken as error:
        broken = str(error)
    newest = list(reversed(journal))[:MOST_ROWS]
    return RawTab(
        rows=tuple(
            RawRow(
                seq=row.seq,
                verb=row.verb,
                actor=who(row.actor),
                when=moment(at=row.at, now=held.now),
                hash=row.hash,
                entry=cut(plain(_spread(row.entry)), ENTRY_SHOWN),
            )
            for row in newest
        ),
        more=max(len(journal) - MOST_ROWS, 0),
        total=len(journal),
        broken=broken,
        head=journal[-1].hash if journal else "",
    )


def _spread(entry: str) -> str:
    return orjson.dumps(orjson.loads(entry), option=orjson.OPT_INDENT_2).decode()
