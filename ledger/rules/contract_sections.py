"""What may each part of a contract document say, and what is assumed when it says nothing?

What is not said is taken the cautious way: no guarantee, no authority, nothing proved to be visible, no lag.
Every model is strict and frozen and refuses unknown keys, so a misspelt promise is an error, never a silence.
"""

from datetime import date, timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ledger.rules.durations import Duration
from ledger.rules.vocabulary import Effect, FailureClass, Guarantee, Role, Visibility

Expression = Annotated[str, Field(min_length=1, max_length=1_000)]
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]*$")]
Member = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z_$][\w$-]*(\.[A-Za-z_$][\w$-]*)*$")]
Code = Annotated[str, Field(max_length=80, pattern=r"^[A-Z][A-Z0-9_]*$")]
Sentence = Annotated[str, Field(min_length=1, max_length=400)]
Path = Annotated[str, Field(max_length=2_000, pattern=r"^/([^/\s\\][^\s\\]*)?$")]
Template = Annotated[str, Field(max_length=2_000)]
HeaderName = Annotated[str, Field(max_length=100, pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")]
CredentialReference = Annotated[
    str, Field(max_length=200, pattern=r"^(env:[A-Z][A-Z0-9_]*|secret:[a-z0-9][a-z0-9-]*)$")
]
"""Where a credential stands: `env:NAME` in the worker's environment, `secret:name` encrypted in the ledger."""


class Section(BaseModel):
    """A part of a contract document."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)


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


class Priority(StrEnum):
    """How soon a person should look."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"
    URGENT = "urgent"


class Idempotency(Section):
    """What the owner promises about repeats."""

    guarantee: Guarantee = Guarantee.NONE
    field: str | None = Field(
        default=None, max_length=200, pattern=r"^(header:[A-Za-z0-9!#$%&'*+.^_`|~-]+|body:\S+|query:\S+|url)$"
    )
    """Where the key travels: `header:…`, `body:…`, `query:…` or `url`."""
    key: str = Field(default="{operation_id}", max_length=200)
    repair_key: Literal["same", "new"] = "new"
    """Whether a later revision keeps the key. `new`: it gets `#r2` at its end."""
    scope: str | None = Field(default=None, max_length=200)
    retention: Duration | None = None
    """How long the owner remembers a key. Not stated: a key never licenses a repeat."""
    retention_from: RetentionFrom = RetentionFrom.FIRST_SEND
    after_retention: AfterRetention = AfterRetention.REEXECUTES
    on_payload_mismatch: PayloadMismatch = PayloadMismatch.UNKNOWN
    in_flight: Expression | None = None
    replay_marker: Expression | None = None
    caches_errors: bool = False


class LookupRequest(Section):
    """One HTTP question to the owner: an address below the owner's own, or one that the owner handed out itself."""

    method: Literal["GET", "HEAD", "POST"] = "GET"
    path: Path | None = None
    """A template below the owner's address."""
    at: Member | None = None
    """In place of `path`: the receipt member that holds the address, such as the Location of a long-running operation.
    It is asked only on hosts that the owner's record allows."""
    headers: dict[HeaderName, Template] = Field(default_factory=dict, max_length=20)
    body: Any = None
    """For POST: JSON whose strings are templates."""


class DispatchRequest(Section):
    """One HTTP call that has the effect."""

    method: Literal["POST", "PUT", "PATCH", "DELETE"] = "POST"
    path: Path
    headers: dict[HeaderName, Template] = Field(default_factory=dict, max_length=20)
    body: Any = "{payload}"
    """JSON whose strings are templates; not stated: the payload as it is."""


class McpRequest(Section):
    """One call of a read-only tool at the owner's MCP server."""

    tool: Name
    arguments: dict[str, Any] = Field(default_factory=dict, max_length=50)
    """JSON whose strings are templates."""
    mode: Literal["auto", "legacy", "2026-07-28"] = "auto"
    """Which revisions are offered; `auto` asks the server."""


class SqlRequest(Section):
    """One SELECT at the owner's database, with its values as parameters."""

    statement: str = Field(min_length=1, max_length=4_000)
    """Values stand as `%(name)s`."""
    parameters: dict[Member, Template] = Field(default_factory=dict, max_length=50)


class LookupEffects(Section):
    """What a found object says of the effect: the first of these that holds."""

    applied: Expression | None = None
    pending: Expression | None = None
    partial: Expression | None = None
    none: Expression | None = None


class LookupRule(Section):
    """One way to learn the truth from the owner."""

    by: LookupBy
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
    no_match: Expression | None = None
    effect: LookupEffects | None = None
    """Not stated: a found object means applied."""
    same: dict[Member, Expression] = Field(default_factory=dict, max_length=50)
    items: Expression | None = None
    next: Expression | None = None
    match: Expression | None = None
    authoritative: bool = False
    pages: int = Field(default=20, ge=1, le=1_000)
    """How many pages of a search or list are read at most; more of them make it incomplete."""
    event_at: Expression | None = None
    """When the owner says that it happened."""
    credential: CredentialReference | None = Field(default=None, alias="as")
    sees: Visibility = Visibility.UNPROVED
    truncated: Expression | None = None
    revision: Expression | None = None
    lag: Duration | None = None
    """How long after the last dispatch's possible end the owner may still be working on it."""
    clean_reads: int = Field(default=1, ge=1, le=20)


class Verify(Section):
    """How the intended outcome is checked once the effect is applied."""

    http: LookupRequest
    expect: dict[Member, Expression] = Field(default_factory=dict, max_length=50)
    """Payload member ← where the owner shows it."""
    credential: CredentialReference | None = Field(default=None, alias="as")


class Notice(Section):
    """How an owner's signed notification is read. Variables are those of an answer: `body` and `headers`."""

    operation_id: Expression | None = None
    """Where it names our operation."""
    idempotency_key: Expression | None = None
    """Where it repeats our key. One of the two must be stated."""
    effect: LookupEffects
    same: dict[Member, Expression] = Field(default_factory=dict, max_length=50)
    event_at: Expression | None = None
    revision: Expression | None = None


class ErrorRule(Section):
    """What one kind of answer means. The first that matches wins, before the defaults."""

    when: Expression
    failure_class: FailureClass = Field(alias="class")
    effect: Effect = Effect.UNKNOWN
    code: Code | None = None
    field: str | None = Field(default=None, max_length=200)
    hint: Sentence | None = None
    alternatives: Expression | None = None


class Items(Section):
    """Where a batch keeps its items, and which member is an item's key."""

    path: Expression
    key: Member


class Budgets(Section):
    """How often each kind of step may be taken. `retries` not stated: 3 for writes, 1 for reads."""

    repairs: int = Field(default=1, ge=0, le=1_000)
    retries: int | None = Field(default=None, ge=0, le=1_000)
    polls: int = Field(default=20, ge=0, le=10_000)
    replans: int = Field(default=1, ge=0, le=1_000)
    network_attempts: int = Field(default=30, ge=0, le=100_000)
    agent_retries: int = Field(default=1, ge=0, le=100)
    cost: float = Field(default=1.0, ge=0, le=1_000_000)
    checks: int = Field(default=5, ge=1, le=1_000)
    """How often the outcome is checked after success before a person is asked."""


class Poll(Section):
    """The waits between lookups."""

    first: Duration = timedelta(seconds=2)
    factor: float = Field(default=2.0, ge=1, le=100)
    max: Duration = timedelta(minutes=10)
    jitter: Literal["full"] | Annotated[float, Field(ge=0, le=1)] = 0.2


class Retry(Section):
    """The waits before licensed repeats."""

    first: Duration = timedelta(seconds=1)
    factor: float = Field(default=2.0, ge=1, le=100)
    max: Duration = timedelta(seconds=60)
    jitter: Literal["full"] | Annotated[float, Field(ge=0, le=1)] = "full"


class Approval(Section):
    """When a person must permit the request first. Not stated when: always."""

    required_when: Expression | None = None
    role: Role = Role.APPROVER
    approvers: int = Field(default=1, ge=1, le=10)
    expires: Duration = timedelta(hours=4)


class Resolution(Section):
    """Which answers of a person need a second one, beyond those that always do."""

    second_person_for: tuple[Literal["applied", "not_applied", "partially_applied"], ...] = ()


class Escalation(Section):
    """How people hear of what only they can settle."""

    priority: Priority = Priority.NORMAL
    sla: Duration | None = None
    notify: tuple[Name, ...] = Field(default=(), max_length=20)


class Dispatch(Section):
    """Lets Ascertain itself send licensed repeats."""

    http: DispatchRequest
    credential: CredentialReference | None = Field(default=None, alias="as")


class SampleAnswer(Section):
    """An answer as the owner gives it."""

    status: int | None = Field(default=None, ge=100, le=599)
    headers: dict[str, str] = Field(default_factory=dict)
    body: Any = None
    error: Any = None
    code: Any = None
    speaker: str | None = None
    phase: str | None = None


class Sample(Section):
    """An answer and what it means, tried against the rules when the contract is published."""

    answer: SampleAnswer
    effect: Effect


class Source(Section):
    """Where the owner documents all this, and when somebody last looked."""

    url: str = Field(max_length=1_000)
    checked_on: date
    unverified: bool = False
