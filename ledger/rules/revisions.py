"""May a new payload take the place of the one that was refused?

The first refusal that holds is the answer:

| refused because                                                      | code                   |
| -------------------------------------------------------------------- | ---------------------- |
| it is settled, in flight, or its deadline has passed                 | NOT_REVISABLE          |
| the effect is not proved none: the earlier payload may have happened | EFFECT_NOT_NONE        |
| the last answer did not ask for this kind of revision                | NOT_ASKED_FOR          |
| the budget for it has ended                                          | …_BUDGET_ENDED         |
| the payload is the same, byte for byte                               | UNCHANGED              |
| an identity member differs: that is another operation                | IDENTITY_CHANGED       |
| a repair changes something else than the rejected member             | CHANGED_BESIDE_FIELD   |
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

from ledger.rules.decision import Decision
from ledger.rules.facts import Facts
from ledger.rules.licences import Refusal
from ledger.rules.vocabulary import Action, Effect, State


class RevisionKind(StrEnum):
    """Why a payload changes."""

    REPAIR = "repair"
    """The named member was rejected."""
    REFRESH = "refresh"
    """It depended on an outdated state, which has been read again."""
    REPLAN = "replan"
    """The plan step changed its mind, within the same intent."""


BUDGET = {RevisionKind.REPAIR: "repairs", RevisionKind.REFRESH: "repairs", RevisionKind.REPLAN: "replans"}
_ASKED_BY = {
    RevisionKind.REPAIR: frozenset({Action.REPAIR}),
    RevisionKind.REFRESH: frozenset({Action.REFRESH}),
    RevisionKind.REPLAN: frozenset({Action.REPAIR, Action.REFRESH, Action.REPLACE}),
}


def may_revise(
    *,
    kind: RevisionKind,
    facts: Facts,
    decision: Decision | None,
    before: Any,
    after: Any,
    same_identity: bool,
    now: datetime,
) -> Refusal | None:
    """None when the revision is allowed; else why not. `before` and `after` are the payloads; digests are compared by
    the caller's `same_identity`."""
    if facts.state is not State.OPEN or (facts.deadline_at is not None and now >= facts.deadline_at):
        return Refusal(
            code="NOT_REVISABLE", sentence=f"The operation is {facts.state}; only an open one takes a revision."
        )
    if facts.effect is not Effect.NONE:
        return Refusal(
            code="EFFECT_NOT_NONE", sentence="The earlier payload may have taken effect; it must be settled first."
        )
    asked = decision.recovery_action if decision is not None else None
    if asked not in _ASKED_BY[kind]:
        return Refusal(code="NOT_ASKED_FOR", sentence=f"The last answer did not ask for a {kind}.")
    budget = facts.budgets.get(BUDGET[kind])
    if budget is not None and budget.left <= 0:
        name = BUDGET[kind]
        return Refusal(code=f"{name.upper()}_BUDGET_ENDED", sentence=f"The budget of {budget.limit} {name} is used up.")
    changed = list(changes(before, after))
    if not changed:
        return Refusal(code="UNCHANGED", sentence="The payload is the same; sending it again cannot go otherwise.")
    if not same_identity:
        return Refusal(
            code="IDENTITY_CHANGED", sentence="A member that makes the intent differs; that is a new operation_id."
        )
    field = decision.field if decision is not None else None
    if kind is RevisionKind.REPAIR and field:
        allowed = _steps(field)
        beside = next((path for path in changed if _steps(path)[: len(allowed)] != allowed), None)
        if beside is not None:
            return Refusal(
                code="CHANGED_BESIDE_FIELD", sentence=f"Only {field} was rejected, but {beside} differs as well."
            )
    return None


def changes(before: Any, after: Any, *, path: str = "") -> Iterator[str]:
    """The JSON paths at which two values differ, deepest first differing member only."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in sorted({*before, *after}):
            here = f"{path}.{name}" if path else str(name)
            if name not in before or name not in after:
                yield here
            else:
                yield from changes(before[name], after[name], path=here)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from changes(one, other, path=f"{path}[{index}]")
    elif type(before) is not type(after) or before != after:
        yield path


def _steps(path: str) -> tuple[str, ...]:
    """A JSON path as its steps; `payload.` and `body.` in front, which owners and harnesses add, fall away."""
    steps = tuple(step for step in path.replace("[", ".").replace("]", "").split(".") if step)
    return steps[1:] if len(steps) > 1 and steps[0] in ("payload", "body") else steps
