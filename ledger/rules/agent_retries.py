"""May an agent try the same intent again, under another operation_id, in the same step of its plan?

| in this step of this run, the same intent           | then                                                      |
| --------------------------------------------------- | --------------------------------------------------------- |
| was not sent before                                 | yes                                                       |
| has been done                                       | no: DONE_IN_THIS_STEP; the result is there                |
| was sent, and its allowance is not used up          | yes: that is the agent's retry                            |
| was sent, and its allowance is used up              | no: AGENT_RETRIES_ENDED                                   |

The allowance is the contract's `agent_retries`; for an agent that names its run and no step it is 0, since nobody can
tell a retry from the next step. An agent that names no run is never taken for one that tries again: while its
first operation is unsettled the intent is held (POSSIBLE_DUPLICATE), and what comes after that is a new intent.
A repeat inside one operation is no retry of the agent: that spends `retries`. A read, and a tool that is meant to
repeat (`identity: none`), has no intent to count; a person may record that an operation is a distinct one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ledger.rules.contract import Contract
from ledger.rules.licences import Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of an agent's plan."""

    run: str
    step: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tries:
    """The other operations of one intent that were sent in one step of a run."""

    step: Step
    sent: int
    done: str | None
    """The operation_id of one that is applied."""


def step_of(agent: Mapping[str, Any] | None) -> Step | None:
    """The step that an agent states; None when it names no run."""
    run = agent.get("run") if agent else None
    return Step(run=run, step=agent.get("step") if agent else None) if isinstance(run, str) else None


def may_try_again(*, tries: Tries, contract: Contract) -> Refusal | None:
    """Why the agent may not send this intent once more; None when it may."""
    if tries.done is not None:
        return Refusal(
            code="DONE_IN_THIS_STEP",
            sentence=f"The same was done in this step already as {tries.done}. Use that one's result, or ask an operator "
            "to record that this is a distinct intent.",
        )
    allowed = contract.budgets.agent_retries if tries.step.step is not None else 0
    if tries.sent <= allowed:
        return None
    return Refusal(
        code="AGENT_RETRIES_ENDED",
        sentence="The same was tried in this step already as often as the tool's contract allows. It is not sent again; "
        "report what the earlier tries came to.",
    )
