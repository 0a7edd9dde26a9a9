"""Which operations does the controller benchmark make up, and what does their owner do with each request?

| assumed                                                        | value                                   |
| -------------------------------------------------------------- | --------------------------------------- |
| an operation fails when it is first tried                      | 40 %, in four equal classes             |
| a transient failure is gone at the repeat                      | 70 %                                    |
| a repaired argument is right, told only the code               | 45 %                                    |
| a repaired argument is right, told the field and what is valid | 90 %                                    |
| a request is lost on its way (second table only)               | 4 % of requests                         |
| an answer is lost on its way back (second table only)          | 4 % of requests                         |
| a request whose answer was lost commits, and is to be seen     | up to 50 s after it was sent; 25 s more |
| one lookup at the owner fails                                  | 10 %                                    |
| the owner cannot be asked about an operation at all            | 1 % of operations                       |

Every one of them is an assumption, none was measured, and no model is called. A run's seed is its number; every
strategy meets the same operations with the same rolls.
"""

import random
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

RUNS: Final = 60
OPERATIONS: Final = 200
"""A run."""
FAILS: Final = 0.40
TRANSIENT_GONE: Final = 0.70
LOST_REQUEST: Final = 0.04
LOST_ANSWER: Final = 0.04
LOOKUP_FAILS: Final = 0.10
CANNOT_BE_ASKED: Final = 0.01
TIMEOUT: Final = 30.0
"""Seconds that every strategy waits for an answer."""
ANSWER_TAKES: Final = 0.2
LATEST_COMMIT: Final = 50.0
LATEST_SIGHT: Final = 25.0
_REQUESTS: Final = 4
"""Fates rolled for each operation; no strategy sends more requests."""


class Failure(StrEnum):
    """The four classes, by the code that the owner gives."""

    TRANSIENT = "TRANSIENT"
    VALIDATION = "VALIDATION"
    PERMISSION = "PERMISSION"
    NOT_FOUND = "NOT_FOUND"


PERMANENT: Final = frozenset({Failure.PERMISSION, Failure.NOT_FOUND})


class Repair(StrEnum):
    """What a repaired argument was built from."""

    CODE = "code"
    FIELD_AND_HINT = "field and hint"


REPAIR_IS_RIGHT: Final = {Repair.CODE: 0.45, Repair.FIELD_AND_HINT: 0.90}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation with everything that chance will say about it."""

    name: str
    number: int
    """Within its run."""
    failure: Failure | None
    """How it fails when it is first tried; None: it does not."""
    retry_roll: float
    repair_roll: float
    fates: tuple[float, ...]
    """By request: whether it, or its answer, is lost."""
    commit_roll: float
    sight_roll: float
    asking_roll: float
    seed: int
    """For what only one strategy rolls: waits, and whether its lookups fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the sender of one request sees."""

    lost: bool
    """Nothing within the timeout. Whether the owner did it cannot be seen from here."""
    failure: Failure | None = None


def operations(run: int) -> list[Operation]:
    """The operations of a run, the same each time."""
    dice = random.Random(run)  # noqa: S311 - made-up traffic; the seed is the run's number
    return [_operation(dice, run=run, number=number) for number in range(OPERATIONS)]


class Owner:
    """The system that holds the effects of one operation. It does not know one request from its repeat."""

    def __init__(self, operation: Operation, *, loses: bool) -> None:
        self._operation = operation
        self._loses = loses
        self._handled = 0
        self.requests = 0
        self.lost = 0
        self.seen_from: list[float] = []
        """When each effect is to be seen in a lookup; one too many is a duplicate."""
        self._dice = random.Random(operation.seed)  # noqa: S311 - likewise

    @property
    def effects(self) -> int:
        """How often it was done."""
        return len(self.seen_from)

    def receive(self, *, at: float, repair: Repair | None = None) -> Answer:
        """Takes one request, sent at this second."""
        fate = self._operation.fates[self.requests] if self._loses else 1.0
        self.requests += 1
        if fate < LOST_REQUEST:
            self.lost += 1
            return Answer(lost=True)
        answer_lost = fate < LOST_REQUEST + LOST_ANSWER
        failure = self._refuses(repair)
        self._handled += 1
        if failure is None:
            late = self._operation.commit_roll * LATEST_COMMIT if answer_lost else ANSWER_TAKES
            self.seen_from.append(at + late + self._operation.sight_roll * LATEST_SIGHT)
        if answer_lost:
            self.lost += 1
            return Answer(lost=True)
        return Answer(lost=False, failure=failure)

    def asked(self, *, at: float) -> int | None:
        """How many effects a lookup shows at this second; None: the lookup failed."""
        if self._operation.asking_roll < CANNOT_BE_ASKED or self._dice.random() < LOOKUP_FAILS:
            return None
        return sum(seen <= at for seen in self.seen_from)

    def _refuses(self, repair: Repair | None) -> Failure | None:
        failure = self._operation.failure
        if failure is Failure.TRANSIENT and self._handled:
            return None if self._operation.retry_roll < TRANSIENT_GONE else failure
        if failure is Failure.VALIDATION and repair is not None:
            return None if self._operation.repair_roll < REPAIR_IS_RIGHT[repair] else failure
        return failure


def _operation(dice: random.Random, *, run: int, number: int) -> Operation:
    fails, kind = dice.random(), dice.randrange(len(Failure))
    return Operation(
        name=f"ticket:create:{run:02d}-{number:03d}",
        number=number,
        failure=list(Failure)[kind] if fails < FAILS else None,
        retry_roll=dice.random(),
        repair_roll=dice.random(),
        fates=tuple(dice.random() for _ in range(_REQUESTS)),
        commit_roll=dice.random(),
        sight_roll=dice.random(),
        asking_roll=dice.random(),
        seed=dice.getrandbits(32),
    )
