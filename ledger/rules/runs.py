"""How much may one run of an agent still do, over all its operations, and why has it stopped?

| its operations                                     | stop reason        |
| -------------------------------------------------- | ------------------ |
| there are some, and all are settled                | settled            |
| its deadline has passed                            | deadline           |
| its dispatches are used up                         | budget             |
| all that are not settled wait for a person         | waits_for_a_person |
| anything else                                      | not_stopped        |

The first line that holds is the answer. A run's end says nothing of an effect: what is unknown stays so, and lookups
go on.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from ledger.rules.facts import Budget
from ledger.rules.vocabulary import State

_FOR_A_PERSON = frozenset({State.ESCALATED, State.BLOCKED})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBudget:
    """What a registered run may do in all. Agents may state runs that nobody registered; those have none."""

    run: str
    dispatches: Budget | None
    """None: not limited."""
    deadline_at: datetime | None

    @property
    def spent(self) -> bool:
        """Whether its dispatches are used up."""
        return self.dispatches is not None and self.dispatches.left <= 0

    def over(self, *, now: datetime) -> bool:
        """Whether its time has ended."""
        return self.deadline_at is not None and now >= self.deadline_at

    def time_left(self, *, now: datetime) -> timedelta | None:
        """How long it may still send; None: not limited."""
        return None if self.deadline_at is None else max(self.deadline_at - now, timedelta(0))


def stop_of(*, budget: RunBudget, states: Mapping[State, int], now: datetime) -> str:
    """Why the run has stopped: one of `packet.STOPS`. `states` counts its operations by state."""
    unsettled = {state for state, count in states.items() if count and state is not State.SETTLED}
    if states.get(State.SETTLED) and not unsettled:
        return "settled"
    if budget.over(now=now):
        return "deadline"
    if budget.spent:
        return "budget"
    return "waits_for_a_person" if unsettled and unsettled <= _FOR_A_PERSON else "not_stopped"
