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

Of a batch a revision carries the items that are to be changed, and no others (`may_revise_items`):

| refused because                                                      | code                   |
| -------------------------------------------------------------------- | ---------------------- |
| as above: not revisable, not asked for by any item, budget ended     | likewise               |
| it names an item that the batch does not have                        | ITEM_UNKNOWN           |
| an item's effect is not proved none, or it is settled                | EFFECT_NOT_NONE        |
| an item is the same, byte for byte                                   | UNCHANGED              |
| something beside the items, or beside an item's rejected member, differs | CHANGED_BESIDE_FIELD |
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
    if (refusal := _not_revisable(facts, now)) is not None:
        return refusal
    if facts.effect is not Effect.NONE:
        return Refusal(
            code="EFFECT_NOT_NONE", sentence="The earlier payload may have taken effect; it must be settled first."
        )
    asked = decision.recovery_action if decision is not None else None
    if asked not in _ASKED_BY[kind]:
        return Refusal(code="NOT_ASKED_FOR", sentence=f"The last answer did not ask for a {kind}.")
    if (refusal := _budget_ended(kind, facts)) is not None:
        return refusal
    changed = list(changes(before, after))
    if not changed:
        return Refusal(code="UNCHANGED", sentence="The payload is the same; sending it again cannot go otherwise.")
    if not same_identity:
        return Refusal(
            code="IDENTITY_CHANGED", sentence="A member that makes the intent differs; that is a new operation_id."
        )
    field = decision.field if decision is not None else None
    if kind is RevisionKind.REPAIR and (beside := _beside(changed, field)) is not None:
        return Refusal(
            code="CHANGED_BESIDE_FIELD", sentence=f"Only {field} was rejected, but {beside} differs as well."
        )
    return None


def may_revise_items(
    *,
    kind: RevisionKind,
    facts: Facts,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    same_rest: bool,
    now: datetime,
) -> Refusal | None:
    """None when a batch may be revised so; else why not. `before` are all items as they were last meant, `after` those
    of the revision, by key; `same_rest`: nothing beside the items differs."""
    refusal = _not_revisable(facts, now) or _budget_ended(kind, facts)
    if refusal is not None:
        return refusal
    items = {item.key: item for item in facts.items}
    for key, body in after.items():
        if key not in items:
            return Refusal(
                code="ITEM_UNKNOWN", sentence=f"The batch has no item {key[:80]}. Another item is another batch."
            )
        item = items[key]
        if item.outcome is not None or item.effect is not Effect.NONE:
            return Refusal(
                code="EFFECT_NOT_NONE",
                sentence=f"The item {key[:80]} is {item.outcome or item.effect}; only one that is proved not to have "
                "happened may be changed.",
            )
        decision = item.decision
        if decision is None or decision.recovery_action not in _ASKED_BY[kind]:
            return Refusal(
                code="NOT_ASKED_FOR",
                sentence=f"The answer to the item {key[:80]} did not ask for a {kind}; leave it out.",
            )
        changed = list(changes(before[key], body))
        if not changed:
            return Refusal(code="UNCHANGED", sentence=f"The item {key[:80]} is the same; it would be refused again.")
        if kind is RevisionKind.REPAIR and (beside := _beside(changed, _in_item(decision.field))) is not None:
            return Refusal(
                code="CHANGED_BESIDE_FIELD",
                sentence=f"Of the item {key[:80]} only {decision.field} was rejected, but {beside} differs as well.",
            )
    if not same_rest:
        return Refusal(code="CHANGED_BESIDE_FIELD", sentence="Something beside the items differs from what was meant.")
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


def _in_item(field: str | None) -> str | None:
    """A rejected member as a path into its item: what stands before the item's place in the list falls away."""
    steps = _steps(field) if field else ()
    places = [index for index, step in enumerate(steps) if step.isdigit()]
    return ".".join(steps[places[-1] + 1 :] if places else steps) or None


def _not_revisable(facts: Facts, now: datetime) -> Refusal | None:
    if facts.state is State.OPEN and (facts.deadline_at is None or now < facts.deadline_at):
        return None
    return Refusal(code="NOT_REVISABLE", sentence=f"The operation is {facts.state}; only an open one takes a revision.")


def _budget_ended(kind: RevisionKind, facts: Facts) -> Refusal | None:
    name = BUDGET[kind]
    budget = facts.budgets.get(name)
    if budget is None or budget.left > 0:
        return None
    return Refusal(code=f"{name.upper()}_BUDGET_ENDED", sentence=f"The budget of {budget.limit} {name} is used up.")


def _beside(changed: list[str], field: str | None) -> str | None:
    """The first change that is not under the rejected member; None where there is none, or no member was named."""
    allowed = _steps(field) if field else ()
    return next((path for path in changed if _steps(path)[: len(allowed)] != allowed), None)


def _steps(path: str) -> tuple[str, ...]:
    """A JSON path as its steps; `payload.` and `body.` in front, which owners and harnesses add, fall away."""
    steps = tuple(step for step in path.replace("[", ".").replace("]", "").split(".") if step)
    return steps[1:] if len(steps) > 1 and steps[0] in ("payload", "body") else steps
