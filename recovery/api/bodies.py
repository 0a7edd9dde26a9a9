"""The bodies that the API takes. Unknown members are refused by name."""

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints

# The same in the URL as in a body (intake.named).
OPERATION_ID = r"^[A-Za-z0-9][A-Za-z0-9._:@~-]{0,199}$"

Name = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00]+$")]


class Strict(BaseModel):
    """No coercion, no unknown members."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


class Agent(Strict):
    """Which agent, in which run and step, asked for the call."""

    name: Name | None = None
    run: Name | None = None
    step: Name | None = None
    tool_call_id: Name | None = None


class NewOperation(Strict):
    """An intent to record."""

    operation_id: Annotated[str, StringConstraints(pattern=OPERATION_ID)]
    tool: Name
    payload: dict[str, Any]
    attempt: bool = False
    """Ask for the first permit in the same transaction."""
    deadline_at: AwareDatetime | None = Field(default=None, strict=False)
    items: list[dict[str, Any] | str | int] | None = None
    """Of a batch: its items, where they do not stand in the payload already."""
    principal: Annotated[str, StringConstraints(max_length=120, pattern=r"^[^\x00]*$")] | None = None
    agent: Agent | None = None
    trace_id: Annotated[str, StringConstraints(max_length=128, pattern=r"^[^\x00]*$")] | None = None


class NewAttempt(Strict):
    """A request for a permit. It has no members yet."""


class Observation(BaseModel):
    """What was seen of an attempt. Members depend on `kind`; unknown ones are kept, marked unread and never used."""

    model_config = ConfigDict(strict=True, frozen=True, extra="allow")

    kind: Annotated[str, StringConstraints(min_length=1, max_length=40)]
    network_attempts: Annotated[int, Field(ge=0, le=10_000)] | None = None
    cost: Annotated[float, Field(ge=0, le=1_000_000)] | None = None


class NewRevision(Strict):
    """A new payload in place of one that was refused."""

    kind: Literal["repair", "refresh", "replan"]
    payload: dict[str, Any]
    field: Name | None = None
    """The member that changed, as a JSON path into the call."""
    reason: Annotated[str, StringConstraints(min_length=1, max_length=2000, pattern=r"^[^\x00]*$")]
