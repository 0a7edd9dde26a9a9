"""Does the ledger say of every operation what its owner did?

| the ledger                    | the owner made      | that is                                                  |
| ----------------------------- | ------------------- | -------------------------------------------------------- |
| settled, applied              | one effect          | right                                                    |
| settled, applied              | none                | wrong                                                    |
| settled, not_applied          | none                | right                                                    |
| settled, not_applied          | one effect or more  | wrong                                                    |
| escalated                     | whatever            | right: it claims nothing                                 |
| any other state               | whatever            | unfinished                                               |
| whatever                      | two effects or more | a duplicate                                              |
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from ledger.database import execute


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """One operation as the ledger holds it."""

    name: str
    state: str
    outcome: str | None
    at_once: bool
    """Its first report settled it."""
    seconds: float
    """From its first report, or the end of a permit without one, to its outcome."""
    attempts: int
    by_us: int
    """Attempts that Ascertain itself sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came of a set of operations."""

    operations: int
    at_once: int
    by_machine: int
    """Settled without a person, after their outcome was not known at first."""
    escalated: int
    duplicates: tuple[str, ...]
    wrong: tuple[str, ...]
    unfinished: tuple[str, ...]
    seconds: tuple[float, ...]
    """Of those settled by machine, in order."""
    by_us: int

    @property
    def holds(self) -> bool:
        """No duplicate, nothing wrong, nothing forgotten."""
        return not (self.duplicates or self.wrong or self.unfinished)

    def told(self) -> dict[str, Any]:
        """As members of a JSON line."""
        return {
            "operations": self.operations,
            "settled_at_once": self.at_once,
            "settled_by_machine": self.by_machine,
            "escalated": self.escalated,
            "duplicates": len(self.duplicates),
            "wrong": len(self.wrong),
            "unfinished": len(self.unfinished),
            "sent_by_ascertain": self.by_us,
            "seconds_to_settle_p50": _share(self.seconds, 0.50),
            "seconds_to_settle_p99": _share(self.seconds, 0.99),
            **({"which": [*self.duplicates, *self.wrong, *self.unfinished][:20]} if not self.holds else {}),
        }


def judge(kept: Sequence[Kept], *, effects: Mapping[str, int]) -> Verdict:
    """Compare the ledger with the owner's own count of effects by name."""
    settled = [one for one in kept if one.state == "settled"]
    return Verdict(
        operations=len(kept),
        at_once=sum(one.at_once for one in settled),
        by_machine=sum(not one.at_once for one in settled),
        escalated=sum(one.state == "escalated" for one in kept),
        duplicates=tuple(one.name for one in kept if effects.get(one.name, 0) > 1),
        wrong=tuple(one.name for one in settled if not _is_right(one, effects.get(one.name, 0))),
        unfinished=tuple(one.name for one in kept if one.state not in ("settled", "escalated")),
        seconds=tuple(sorted(one.seconds for one in settled if not one.at_once)),
        by_us=sum(one.by_us for one in kept),
    )


def kept_operations(*, workspace_id: UUID) -> list[Kept]:
    """Every operation of a workspace, by name."""
    rows = execute(
        "SELECT o.operation_id, o.state, o.outcome, o.state = 'settled' AND o.version = 2, "
        "coalesce(extract(epoch FROM o.changed_at - (SELECT j.at FROM journal j WHERE j.operation = o.id AND j.seq = 2)), 0)::float8, "
        "(SELECT count(*) FROM attempt a WHERE a.operation = o.id), "
        "(SELECT count(*) FROM attempt a WHERE a.operation = o.id AND a.sender = 'worker') "
        "FROM operation o WHERE o.workspace_id = %s ORDER BY o.operation_id",
        [workspace_id],
    )
    return [
        Kept(
            name=name,
            state=state,
            outcome=outcome,
            at_once=at_once,
            seconds=seconds,
            attempts=attempts,
            by_us=by_us,
        )
        for name, state, outcome, at_once, seconds, attempts, by_us in rows
    ]


def _is_right(one: Kept, effects: int) -> bool:
    return effects >= 1 if one.outcome == "applied" else one.outcome == "not_applied" and effects == 0


def _share(ordered: Sequence[float], share: float) -> float | None:
    return round(ordered[min(int(len(ordered) * share), len(ordered) - 1)], 2) if ordered else None
