"""What may each part of a contract document say, and what is assumed when it says nothing?

What is not said is taken the cautious way: no guarantee, no authority, nothing proved to be visible, no lag.
Every model is strict and frozen and refuses unknown keys, so a misspelt promise is an error, never a silence.
"""

from datetime import date, timedelta
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from ledger.rules.durations import Duration
from ledger.rules.vocabulary import (
    Effect,
    FailureClass,
    Guarantee,
    LookupOutcome,
    Role,
    Verification,
    Visibility,
)

Expression = Annotated[
    str,
    Field(
        min_length=1,
        max_length=1_000,
        description="CEL over what was seen: status, headers, body, error, code, speaker, phase, effect. Header names in "
        "lower case, headers['retry-after']. No comprehensions.",
        examples=["status == 409 && body.code == 'SLOT_TAKEN'"],
    ),
]
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]*$")]
Member = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z_$][\w$-]*(\.[A-Za-z_$][\w$-]*)*$")]
Code = Annotated[str, Field(max_length=80, pattern=r"^[A-Z][A-Z0-9_]*$")]
Sentence = Annotated[str, Field(min_length=1, max_length=400)]
Path = Annotated[str, Field(max_length=2_000, pattern=r"^/([^/\s\\][^\s\\]*)?$")]
Template = Annotated[str, Field(max_length=2_000)]
HeaderName = Annotated[str, Field(max_length=100, pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")]
PRESET_NAME = r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$"
PRESET_TAKEN = r"^[a-z][a-z0-9]*(-[a-z0-9]+)*@\d{4}-\d{2}-\d{2}$"
"""A preset whose part stands in the document, and the day on which that part was compared with its source."""
CredentialReference = Annotated[
    str, Field(max_length=200, pattern=r"^(env:[A-Z][A-Z0-9_]*|secret:[a-z0-9][a-z0-9-]*)$")
]
"""Where a credential stands: `env:NAME` in the worker's environment, `secret:name` encrypted in the ledger."""


class Section(BaseModel):
    """A part of a contract document."""

    model_config = ConfigDict(
        strict=True, frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )


class RetentionFrom(StrEnum):
    """From when the owner counts how long it remembers a key. We always count from the first send: the earliest."""

    FIRST_SEND = "first_send"
    COMPLETION = "completion"
    OBJECT_LIFE = "object_life"


class AfterRetention(StrEnum):
    """What a repeat does once the owner has forgotten the key."""

    REEXECUTES = "reexecutes"
    REJECTS = "rejects"


class PayloadMismatch(StrEnum):
    """What the owner does with a known key and another payload."""

    REJECT = "reject"
    SILENT_ORIGINAL = "silent_original"
    """It answers the first payload's success: that proves nothing about ours."""
    UNKNOWN = "unknown"


class LookupBy(StrEnum):
    """How the owner can be asked."""

    STATUS = "status"
    SEARCH = "search"
    LIST = "list"
    OPERATION = "operation"
    REPLAY = "replay"
    MCP_TOOL = "mcp_tool"
    MCP_TASK = "mcp_task"
    SQL = "sql"
    POSTGRES_XACT = "postgres_xact"


PAGED: Final = frozenset({LookupBy.SEARCH, LookupBy.LIST})
"""Indexes, read page by page: they prove what they show, never what they do not show."""
ASKED_BY_HANDLE: Final = frozenset({LookupBy.OPERATION, LookupBy.MCP_TASK, LookupBy.POSTGRES_XACT})
"""Asked by what one attempt was given. Such a handle expires, so that it is not known proves nothing."""
TRANSPORT_HEADERS: Final = frozenset(
    {
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "te",
        "trailer",
        "upgrade",
        "expect",
        "keep-alive",
        "accept-encoding",
        "proxy-authorization",
        "proxy-connection",
    }
)
"""Headers that say how a message travels; contracts set none of them."""


class Priority(StrEnum):
    """How soon a person should look."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"
    URGENT = "urgent"


class Idempotency(Section):
    """What the owner promises about repeats."""

    guarantee: Guarantee = Guarantee.NONE
    """What the owner promises: none; natural (a repeat is harmless); key (it knows a repeat by its key)."""
    field: str | None = Field(
        default=None, max_length=200, pattern=r"^(header:[A-Za-z0-9!#$%&'*+.^_`|~-]+|body:\S+|query:\S+|url)$"
    )
    """Where the key travels: `header:…`, `body:…`, `query:…` or `url`."""
    key: str = Field(default="{operation_id}", max_length=200)
    """Of `{operation_id}`, or of `{operation_uuid}` where the owner takes 64 characters or a UUID only: always the same
    UUID for the same operation and revision."""
    repair_key: Literal["same", "new"] = "new"
    """Whether a later revision keeps the key. `new`: it gets `#r2` at its end."""
    scope: str | None = Field(default=None, max_length=200)
    """What a key counts for at the owner, in its own words: account, device, region. Another principal may not be
    known."""
    retention: Duration | None = None
    """How long the owner remembers a key. Not stated: a key never licenses a repeat."""
    retention_from: RetentionFrom = RetentionFrom.FIRST_SEND
    """From when the owner counts. We count from the first send, whatever stands here."""
    after_retention: AfterRetention = AfterRetention.REEXECUTES
    """What a repeat does once the owner has forgotten the key."""
    on_payload_mismatch: PayloadMismatch = PayloadMismatch.UNKNOWN
    """What the owner does with a known key and another payload."""
    in_flight: Expression | None = None
    """CEL over the answer: an earlier request with the same key is still running."""
    replay_marker: Expression | None = None
    """CEL over the answer: it is a stored one."""
    caches_errors: bool = False
    """Whether a stored failure is answered again."""


class LookupRequest(Section):
    """One HTTP question to the owner: an address below the owner's own, or one that the owner handed out itself."""

    method: Literal["GET", "HEAD", "POST"] = "GET"
    """How it asks. Asking changes nothing at the owner."""
    path: Path | None = None
    """A template below the owner's address. In a search or list a query parameter may be `{cursor}`: the cursor of the
    page before, as `next` yielded it; it is left out on the first page. Without `{cursor}`, `next` yields addresses."""
    at: Member | None = None
    """In place of `path`: the receipt member that holds the address, such as the Location of a long-running operation.
    It is asked only on hosts that the owner's record allows."""
    headers: dict[HeaderName, Template] = Field(default_factory=dict, max_length=20)
    """Further headers, as templates; credentials belong in `as`."""
    body: Any = None
    """For POST: JSON whose strings are templates; a member of a search or list may be `{cursor}`."""


class DispatchRequest(Section):
    """One HTTP call that has the effect."""

    method: Literal["POST", "PUT", "PATCH", "DELETE"] = "POST"
    """How it is sent."""
    path: Path
    """A template below the owner's address."""
    headers: dict[HeaderName, Template] = Field(default_factory=dict, max_length=20)
    """Further headers, as templates; credentials belong in `as`."""
    body: Any = "{payload}"
    """JSON whose strings are templates; not stated: the payload as it is."""


class McpRequest(Section):
    """One call of a read-only tool at the owner's MCP server; for mcp_task how the server is spoken to."""

    tool: Name | None = None
    """The tool; that it stands here is what allows it to be called. For mcp_tool."""
    arguments: dict[str, Any] = Field(default_factory=dict, max_length=50)
    """JSON whose strings are templates."""
    mode: Literal["auto", "legacy", "2026-07-28"] = "auto"
    """Which revisions are offered; `auto` asks the server."""
    session: Template | None = None
    """For a server of the handshake's era that shows a task only in the session that began it: that session's id, such
    as `{receipt.session}`. The session is joined and left as it is. Then `mode` is `legacy`."""


class SqlRequest(Section):
    """One SELECT at the owner's database, with its values as parameters."""

    statement: str = Field(min_length=1, max_length=4_000)
    """Values stand as `%(name)s`."""
    parameters: dict[Member, Template] = Field(default_factory=dict, max_length=50)
    """Each name's value, as a template."""


class LookupEffects(Section):
    """What a found object says of the effect: the first of these that holds."""

    applied: Expression | None = None
    """CEL: it is done."""
    pending: Expression | None = None
    """CEL: it runs."""
    partial: Expression | None = None
    """CEL: a part is done, the rest is not and will not be."""
    none: Expression | None = None
    """CEL: it was refused and will not happen."""


class LookupRule(Section):
    """One way to learn the truth from the owner.

    In a search or list `match` sees each `item`; `found`, `effect`, `same` and `event_at` see the item that matched as
    `body`; `no_match`, `items`, `next`, `truncated` and `revision` see the page. `next` yields a cursor, an address, or a
    Link header (RFC 8288); nothing, null, false or empty text means that there is no further page.
    """

    by: LookupBy
    """How the owner is asked."""
    http: LookupRequest | None = None
    """For status, search, list and operation."""
    mcp: McpRequest | None = None
    """For mcp_tool; for mcp_task only its `mode` counts."""
    task: Template | None = None
    """For mcp_task: the task's id, such as `{receipt.task}`."""
    sql: SqlRequest | None = None
    """For sql: one row is a found object, its columns are `body`; several rows are `items`."""
    xact: Template | None = None
    """For postgres_xact: the transaction's id as `pg_current_xact_id()` gave it, such as `{receipt.xact}`."""
    found: Expression | None = None
    """CEL over the answer: the object is there."""
    no_match: Expression | None = None
    """CEL over the answer: it is not there. Counts only when authoritative, visible and after the lag."""
    effect: LookupEffects | None = None
    """Not stated: a found object means applied."""
    same: dict[Member, Expression] = Field(default_factory=dict, max_length=50)
    """Payload member ← where the owner shows it (CEL): differing is a conflict, for a person."""
    items: Expression | None = None
    """CEL: where the answer keeps the list, such as body.items."""
    next: Expression | None = None
    """CEL: where the answer names the next page."""
    match: Expression | None = None
    """CEL over item, operation_id, payload, idempotency_key: this item is ours."""
    authoritative: bool = False
    """Whether this source is the owner's own record, so that what it does not hold is not there."""
    pages: int = Field(default=20, ge=1, le=1_000)
    """How many pages of a search or list are read at most; more of them make it incomplete."""
    event_at: Expression | None = None
    """When the owner says that it happened."""
    credential: CredentialReference | None = Field(default=None, alias="as")
    """The credential that asks."""
    sees: Visibility = Visibility.UNPROVED
    """What that credential sees at the owner: all, own or unproved."""
    truncated: Expression | None = None
    """CEL: the answer was cut short."""
    revision: Expression | None = None
    """CEL: which state of its data the owner shows."""
    lag: Duration | None = None
    """How long after the last dispatch's possible end the owner may still be working on it."""
    clean_reads: int = Field(default=1, ge=1, le=20)
    """How many absences in a row count as one."""


class Verify(Section):
    """How the intended outcome is checked once the effect is applied."""

    http: LookupRequest
    """What is asked."""
    expect: dict[Member, Expression] = Field(default_factory=dict, max_length=50)
    """Payload member ← where the owner shows it."""
    credential: CredentialReference | None = Field(default=None, alias="as")
    """The credential that asks."""


class Notice(Section):
    """How an owner's signed notification is read. Variables are those of an answer: `body` and `headers`."""

    operation_id: Expression | None = None
    """Where it names our operation."""
    idempotency_key: Expression | None = None
    """Where it repeats our key. One of the two must be stated."""
    effect: LookupEffects
    """What a notification says of the effect."""
    same: dict[Member, Expression] = Field(default_factory=dict, max_length=50)
    """Payload member ← where it is shown: differing is a conflict."""
    event_at: Expression | None = None
    """When the owner says that it happened."""
    revision: Expression | None = None
    """CEL: which state of its data the owner shows."""


class ErrorRule(Section):
    """What one kind of answer means. The first that matches wins, before the defaults."""

    when: Expression
    """CEL over the answer."""
    failure_class: FailureClass = Field(alias="class")
    """What kind of failure it is."""
    effect: Effect = Effect.UNKNOWN
    """What it proves of the effect of this attempt."""
    code: Code | None = None
    """What the decision is called: upper case, one meaning for ever."""
    field: str | None = Field(default=None, max_length=200)
    """The rejected member, as a path into the call."""
    hint: Sentence | None = None
    """A sentence of yours; slots such as {date:body.slot} take numbers, dates, ids and single words."""
    alternatives: Expression | None = None
    """CEL: a list of what would be taken instead; five scalars at most are shown."""


class Items(Section):
    """Where a batch keeps its items, and which member is an item's key."""

    path: Expression
    """The list in the payload, such as `payload.tickets`. Entries that are texts or whole numbers are their own keys."""
    key: Member
    """The member of an entry that names it for good. Templates of lookups see an item as `item.…` and `item.key`."""
    in_order: bool = False
    """The owner documents that it answers every item, in the order of the request: an answer that names none of our
    keys is then read by position. Not stated: such an answer settles nothing."""


class Budgets(Section):
    """How often each kind of step may be taken. `retries` not stated: 3 for writes, 1 for reads."""

    repairs: int = Field(default=1, ge=0, le=1_000)
    """Changed payloads after a refusal."""
    retries: int | None = Field(default=None, ge=0, le=1_000)
    """Licensed repeats."""
    polls: int = Field(default=20, ge=0, le=10_000)
    """Lookups before a person is asked; they go on after."""
    replans: int = Field(default=1, ge=0, le=1_000)
    """New plans."""
    network_attempts: int = Field(default=30, ge=0, le=100_000)
    """Real requests, those of SDKs too."""
    agent_retries: int = Field(default=1, ge=0, le=100)
    """Repeats that the agent itself asks for, per run, step and tool."""
    cost: float = Field(default=1.0, ge=0, le=1_000_000)
    """In your own unit."""
    checks: int = Field(default=5, ge=1, le=1_000)
    """How often the outcome is checked after success before a person is asked."""


class Poll(Section):
    """The waits between lookups."""

    first: Duration = timedelta(seconds=2)
    """The first wait."""
    factor: float = Field(default=2.0, ge=1, le=100)
    """By how much each wait is longer."""
    max: Duration = timedelta(minutes=10)
    """The longest wait."""
    jitter: Literal["full"] | Annotated[float, Field(ge=0, le=1)] = 0.2
    """The share of a wait that is left to chance."""


class Retry(Section):
    """The waits before licensed repeats."""

    first: Duration = timedelta(seconds=1)
    """The first wait."""
    factor: float = Field(default=2.0, ge=1, le=100)
    """By how much each wait is longer."""
    max: Duration = timedelta(seconds=60)
    """The longest wait."""
    jitter: Literal["full"] | Annotated[float, Field(ge=0, le=1)] = "full"
    """The share of a wait that is left to chance."""


class Approval(Section):
    """When a person must permit the request first. Not stated when: always."""

    required_when: Expression | None = None
    """CEL over payload, principal, agent. What cannot be computed requires approval."""
    role: Role = Role.APPROVER
    """Who may give it."""
    approvers: int = Field(default=1, ge=1, le=10)
    """How many people."""
    expires: Duration = timedelta(hours=4)
    """How long the request for it stands."""


class Resolution(Section):
    """Which answers of a person need a second one, beyond those that always do."""

    second_person_for: tuple[Literal["applied", "not_applied", "partially_applied"], ...] = ()
    """These answers need a second person, beside those that always do."""


class Escalation(Section):
    """How people hear of what only they can settle."""

    priority: Priority = Priority.NORMAL
    """How soon somebody should look."""
    sla: Duration | None = None
    """Until when somebody should have looked."""
    notify: tuple[Name, ...] = Field(default=(), max_length=20)
    """Groups that are told."""


class Dispatch(Section):
    """Lets Ascertain itself send licensed repeats. The first dispatch is always the harness's."""

    http: DispatchRequest
    """What is sent."""
    credential: CredentialReference | None = Field(default=None, alias="as")
    """The credential that sends."""
    principal: str | None = Field(default=None, min_length=1, max_length=120)
    """Who that credential acts as at the owner. Stated: only operations of this principal are sent by Ascertain. Not
    stated, with a credential: a repeat that relies on its key is left to the harness, unless the operation states no
    principal either."""


class SampleAnswer(Section):
    """An answer as the owner gives it."""

    status: int | None = Field(default=None, ge=100, le=599)
    """The HTTP status."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Names in any case."""
    body: Any = None
    """Parsed JSON, or text."""
    error: Any = None
    """The error's structured members, where the kind of answer has them."""
    code: Any = None
    """The owner's code, as conditions see it."""
    speaker: str | None = None
    """Who answers."""
    phase: str | None = None
    """How far the bytes got."""


class SampleTo(StrEnum):
    """What an answer answers."""

    REQUEST = "request"
    LOOKUP = "lookup"
    VERIFY = "verify"
    NOTICE = "notice"


_TO_LOOKUP = r"^lookup\[\d\]$"


class Sample(Section):
    """An answer and what it means, tried against the rules when the contract is published."""

    answer: SampleAnswer
    """The answer, in the owner's documented shape."""
    to: SampleTo | Annotated[str, Field(pattern=_TO_LOOKUP)] | None = None
    """What it answers: request, lookup (or one of them: `lookup[1]`), verify or notice. Not stated: any rule of the
    request or of a lookup may read it."""
    effect: Effect | None = None
    """What it shows of the effect; `unknown` where a lookup can conclude nothing."""
    outcome: LookupOutcome | None = None
    """For a lookup: found, no_match or inconclusive."""
    verification: Verification | None = None
    """For verify: verified or failed."""
    payload: Any = None
    """What was meant, where the answer is compared with it (`same`, `expect`, `match`)."""
    operation_id: str = Field(default="sample-1", max_length=200)
    """The operation that it belongs to, for `match`."""
    idempotency_key: str | None = Field(default=None, max_length=300)
    """Its key, for `match`. Not stated: the operation's id."""

    @property
    def to_lookup(self) -> bool:
        """Whether it answers a lookup."""
        return self.to is not None and str(self.to).startswith(SampleTo.LOOKUP)

    @property
    def lookup_index(self) -> int | None:
        """Which lookup it answers; None for any of them."""
        return int(str(self.to)[-2]) if self.to_lookup and self.to is not SampleTo.LOOKUP else None


class Source(Section):
    """Where the owner documents all this, and when somebody last looked."""

    url: str = Field(max_length=1_000)
    """The owner's own page."""
    checked_on: date
    """When somebody last compared it with this."""
    unverified: bool = False
    """A part of this was not read in the owner's own documentation."""
