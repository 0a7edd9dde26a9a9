"""A summary beside the list: of one operation, enough to know whether to open it; of a group, its desk. No payload."""

from dataclasses import dataclass
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.safestring import SafeString
from django.views.decorators.http import require_GET

from ledger.queries.access import Seat
from ledger.queries.desk import whole_desk
from ledger.queries.operation_groups import tool_named
from ledger.queries.operations import EvidenceLine, latest_evidence, listed_operations
from ledger.rules.desk import Subject
from ledger.rules.filters import quoted
from recovery.web.access import seated
from recovery.web.desk import DeskView, desk_view
from recovery.web.moments import moment
from recovery.web.queue_rows import Row, group_key, list_address, row_of, told_cause
from recovery.web.sentences import EFFECTS, LOOKUP_WORDS, speaker_of

LATEST = 3
"""So much of the evidence, newest first."""
UNRESOLVED = "is:unresolved"


@dataclass(frozen=True, slots=True, kw_only=True)
class PeekEvidence:
    """One piece of evidence in a line."""

    who: str
    said: str
    at: SafeString


@dataclass(frozen=True, slots=True, kw_only=True)
class Peek:
    """What stands beside the list."""

    key: str
    """Of the row in the list."""
    tool: str
    name: str
    """The operation's id, or what went wrong with a group."""
    href: str
    back: str
    """The list without it."""
    cause: str
    owner_code: str
    """Foreign text."""
    desk: DeskView
    row: Row | None = None
    """None: a group."""
    facts: tuple[tuple[str, str], ...] = ()
    evidence: tuple[PeekEvidence, ...] = ()
    left_out: int = 0
    """Older pieces of evidence that are not shown here."""


@require_GET
@seated()
def queue_peek(request: HttpRequest, seat: Seat, id: UUID) -> HttpResponse:
    """The summary of an operation, as a fragment."""
    peek = peek_of(seat=seat, id=id, me=int(request.user.pk or 0))
    if peek is None:
        raise Http404
    return render(request, "queue.html#peek_pane", {"seat": seat, "peek": peek})


@require_GET
@seated()
def queue_peek_group(request: HttpRequest, seat: Seat) -> HttpResponse:
    """The desk of a group, `tool` and `cause` in the query, as a fragment."""
    cause = request.GET.get("cause", "").replace("\x00", "")
    try:
        tool_id = UUID(request.GET.get("tool", ""))
    except ValueError as error:
        raise Http404 from error
    subject = Subject(workspace_id=seat.workspace_id, tool_id=tool_id, cause=cause)
    tool, me = tool_named(workspace_id=seat.workspace_id, id=tool_id), int(request.user.pk or 0)
    found = whole_desk(subject=subject, person_id=me)
    if tool is None or found is None:
        raise Http404
    name, why, said = told_cause(cause)
    peek = Peek(
        key=group_key(f"{tool_id}|{cause}"),
        tool=tool,
        name=name,
        href=list_address(f"{UNRESOLVED} tool:{quoted(tool)} cause:{quoted(cause)}"),
        back=list_address("", by="cause"),
        cause=why,
        owner_code=said,
        desk=desk_view(found=found, seat=seat, person_id=me, subject=subject, onward=list_address("", by="cause")),
    )
    return render(request, "queue.html#peek_pane", {"seat": seat, "peek": peek})


def peek_of(*, seat: Seat, id: UUID, me: int, back: str = "/queue/") -> Peek | None:
    """The summary of an operation of this workspace; None when it is not there. `back`: the list beside it."""
    listed = listed_operations(workspace_id=seat.workspace_id, ids=(id,))
    subject = Subject(workspace_id=seat.workspace_id, operation=id)
    found = whole_desk(subject=subject, person_id=me) if listed else None
    if not listed or found is None:
        return None
    item, now = listed[0], found.now
    evidence, pieces = latest_evidence(id=id, most=LATEST)
    agent = item.agent or {}
    name, why, said = told_cause(item.cause)
    facts = (
        ("Owner", item.owner),
        ("Contract", item.contract),
        ("Verified", item.verification.value.replace("_", " ")),
        ("Agent", str(agent.get("name") or "")),
        ("Run", str(agent.get("run") or "")),
    )
    onward = f"{back}{'&' if '?' in back else '?'}peek={id}"
    return Peek(
        key=id.hex,
        tool=item.tool,
        name=item.operation_id,
        href=f"/operations/{id}/",
        back=back,
        row=row_of(item, now=now, me=me),
        facts=tuple((label, value) for label, value in facts if value),
        cause=f"{name}. {why}" if item.cause else "",
        owner_code=said,
        evidence=tuple(
            PeekEvidence(
                who=speaker_of(speaker=line.speaker, source=line.source),
                said=_said(line),
                at=moment(at=line.observed_at, now=now),
            )
            for line in evidence
        ),
        left_out=pieces - len(evidence),
        desk=desk_view(found=found, seat=seat, person_id=me, subject=subject, onward=onward),
    )


def _said(line: EvidenceLine) -> str:
    if line.outcome in LOOKUP_WORDS:
        return LOOKUP_WORDS[line.outcome]
    return EFFECTS[line.effect] if line.effect else line.outcome.replace("_", " ")
