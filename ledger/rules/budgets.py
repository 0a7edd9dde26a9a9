"""How often may each kind of step be taken, and when is the next one?

| budget           | counts                                               | when it ends                     |
| ---------------- | ---------------------------------------------------- | -------------------------------- |
| repairs          | revisions that mend a rejected field                 | stop, or a person                |
| retries          | repeats of a dispatch                                | stop, or a person                |
| polls            | lookups before a person is asked                     | a person; lookups go on slowly   |
| replans          | revisions that change the plan                       | stop, or a person                |
| network_attempts | every real request, those inside an SDK too          | stop, or a person                |
| checks           | checks of the outcome after success                  | a person                         |
| cost             | what the calls cost, in the contract's own unit      | stop, or a person                |

A budget never says that an effect did not happen: when one ends with the effect unknown, a person is asked.
"""

from datetime import datetime, timedelta
from typing import Final, Literal

from ledger.rules.contract import Contract
from ledger.rules.facts import Facts

READ_RETRIES: Final = 1
_NO_WAIT: Final = timedelta(0)
WRITE_RETRIES: Final = 3
"""Retries when the contract states none."""


def limits(contract: Contract) -> dict[str, int | float]:
    """The limit of every counted budget. `agent_retries` is another matter: a run's plan step counts it."""
    stated = contract.budgets
    retries = stated.retries if stated.retries is not None else (READ_RETRIES if contract.is_read else WRITE_RETRIES)
    return {
        "repairs": stated.repairs,
        "retries": retries,
        "polls": stated.polls,
        "replans": stated.replans,
        "network_attempts": stated.network_attempts,
        "cost": stated.cost,
        "checks": stated.checks,
    }


def spent(facts: Facts, name: str) -> bool:
    """Whether nothing is left of a budget. A budget that the facts do not hold is not limited."""
    budget = facts.budgets.get(name)
    return budget is not None and budget.left <= 0


def backoff(
    *,
    first: timedelta,
    factor: float,
    longest: timedelta,
    jitter: Literal["full"] | float,
    step: int,
    roll: float,
) -> timedelta:
    """The wait before step 0, 1, 2 …: `first`, times `factor` each step, never above `longest`.

    `roll` in [0, 1) spreads it: `full` anywhere between nothing and the wait, a fraction that much to either side
    (0.5 is the middle, and is the wait itself).
    """
    wait = _grown(first=first, factor=factor, longest=longest, step=step) if step > 0 else min(first, longest)
    share = roll if jitter == "full" else 1 + jitter * (2 * roll - 1)
    return max(min(wait * share, longest), _NO_WAIT)


def next_retry(
    *, contract: Contract, step: int, now: datetime, roll: float, asked: timedelta | None = None
) -> datetime:
    """When the next licensed repeat may be sent. A wait that the owner asked for is never shortened."""
    rule = contract.retry
    wait = backoff(first=rule.first, factor=rule.factor, longest=rule.max, jitter=rule.jitter, step=step, roll=roll)
    return now + (wait if asked is None or asked < wait else asked)


def next_poll(
    *,
    contract: Contract,
    step: int,
    now: datetime,
    roll: float,
    asked: timedelta | None = None,
    not_before: datetime | None = None,
    slow: bool = False,
) -> datetime:
    """When the owner is asked next.

    `asked`: a wait that the owner asked for. `not_before`: when an answer could first count
    (`Grade.earliest_useful_at`). `slow`: a person has been asked already, so lookups go on at the longest wait.
    """
    rule = contract.poll
    wait = (
        rule.max
        if slow
        else backoff(first=rule.first, factor=rule.factor, longest=rule.max, jitter=rule.jitter, step=step, roll=roll)
    )
    at = now + (wait if asked is None or asked < wait else asked)
    return at if not_before is None else max(at, not_before)


def cap(*, at: datetime, now: datetime, deadline: datetime | None) -> datetime:
    """`at`, but not in the past and not after the deadline; a deadline that has passed gives `now`."""
    at = max(at, now)
    return at if deadline is None else max(min(at, deadline), now)


def _grown(*, first: timedelta, factor: float, longest: timedelta, step: int) -> timedelta:
    if first <= timedelta(0):
        return timedelta(0)
    wait = min(first, longest)
    # Step by step, so that a large factor cannot overflow before it meets the longest wait.
    for _ in range(min(step, 10_000)):
        if wait >= longest or factor <= 1:
            break
        wait = longest if wait > longest / factor else wait * factor
    return min(wait, longest)
