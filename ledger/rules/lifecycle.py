"""Who may act on an operation in each state, and where does a step take it?

`STATES` has a paragraph a state: who enters it, who leaves it, and what a crash in it means.
`TRANSITIONS` is the whole table of steps; the state diagram in the README is printed from it (`diagram`).

| the decision says                       | the operation is then                                  |
| --------------------------------------- | ------------------------------------------------------ |
| retry, not yet; or Ascertain sends it   | waiting                                                |
| retry, now; repair, refresh, replace    | open                                                   |
| recover_items                           | open; waiting where Ascertain sends them               |
| wait                                    | waiting                                                |
| authorize                               | blocked                                                |
| reconcile                               | reconciling                                            |
| verify                                  | verifying                                              |
| escalate                                | escalated                                              |
| stop or done, on a read                 | settled as read                                        |
| stop or done, effect applied            | settled as applied                                     |
| stop or done, effect none               | settled as not_applied                                 |
| stop or done, any other effect          | refused: an effect that may have happened is not ended |
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from ledger.rules.vocabulary import Action, Effect, EffectKind, Outcome, Sender, State


class Actor(StrEnum):
    """Who takes a step."""

    HARNESS = "harness"
    """The agent's harness, with its token."""
    WORKER = "worker"
    """A background worker of ours, holding the operation's claim."""
    PERSON = "person"
    """Somebody signed in to the console."""
    OWNER = "owner"
    """The system that holds the truth, by a signed notification."""
    LEDGER = "ledger"
    """The ledger itself; it keeps the books and takes no step of its own in this table."""


class SettlingRefused(ValueError):
    """A decision would end an operation whose effect may have happened. Escalate it instead."""


STATES: Final[Mapping[State, str]] = MappingProxyType(
    {
        State.OPEN: (
            "The harness may ask to dispatch. A new operation starts here; a repair, a licensed retry whose wait is "
            "over, and a granted approval come back here. The harness leaves it by taking a permit; the deadline "
            "leaves it by itself. A crash loses nothing: no permit was given, so nothing may have been sent."
        ),
        State.DISPATCHED: (
            "One attempt is in flight. Only a permit enters it. The harness leaves it with a report; otherwise the "
            "permit lapses and the effect stays unknown. After a crash of the harness or of ours the permit lapses "
            "just the same: whatever was sent is looked up, never sent again on a guess."
        ),
        State.WAITING: (
            "A timed wait: before a licensed retry, or while the owner is still working. A decision enters it. The "
            "clock leaves it, by a sweep that wakes what is due, or sends it where the contract lets Ascertain send; a "
            "report or a lookup may come earlier. After a crash the wake-up time is in the row, so the next sweep "
            "finds it."
        ),
        State.RECONCILING: (
            "We are asking the owner what happened. A decision enters it when the effect is not known. A graded "
            "lookup, a late report or a person leaves it. A crash of a worker while asking only loses its claim: "
            "asking changes nothing at the owner, so the next worker asks again."
        ),
        State.VERIFYING: (
            "It is done, and the intended outcome is being checked. A decision enters it. The check's result leaves "
            "it. A crash loses the check, not the effect: the next worker checks again."
        ),
        State.BLOCKED: (
            "It needs a person's permission, or authority that it does not have. A decision or the contract's "
            "approval rule enters it. An approver or the harness with renewed authority leaves it; so does the "
            "deadline. A crash loses nothing: nothing is sent from here."
        ),
        State.ESCALATED: (
            "It waits for an operator, with the reason in words. A decision enters it when machines cannot settle "
            "the effect. A person's answer leaves it, or evidence that settles it: lookups go on meanwhile. A crash "
            "loses nothing: the reason and the next lookup are in the row."
        ),
        State.SETTLED: (
            "It has a final outcome. A decision enters it, or a person, with a second one where the rules ask. "
            "Only evidence that contradicts the outcome leaves it, which reopens the operation and says so. A crash "
            "here means nothing: no work is left."
        ),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One line of the table: a verb, from where, to where, and who may take it."""

    verb: str
    """The name of the transition, as it stands in the history."""
    sources: frozenset[State]
    """Empty: the operation does not exist yet."""
    targets: frozenset[State]
    stays: bool
    """Whether it may also leave the state as it is, and change only what is known."""
    actors: frozenset[Actor]
    why: str


_UNSETTLED: Final = frozenset(State) - {State.SETTLED}
_AT_REST: Final = _UNSETTLED - {State.DISPATCHED}
_AFTER_A_REPORT: Final = frozenset(State) - {State.DISPATCHED}
ASKED: Final = frozenset({State.RECONCILING, State.WAITING, State.ESCALATED})
"""States in which the owner is asked when the operation's time comes."""


def _step(
    verb: str, sources: Iterable[State], targets: Iterable[State], actors: set[Actor], why: str, *, stays: bool = False
) -> Step:
    return Step(
        verb=verb,
        sources=frozenset(sources),
        targets=frozenset(targets),
        stays=stays,
        actors=frozenset(actors),
        why=why,
    )


TRANSITIONS: Final[tuple[Step, ...]] = (
    _step(
        "open_operation",
        (),
        {State.OPEN, State.DISPATCHED},
        {Actor.HARNESS},
        "The intent is durable; with a permit in the same transaction it is dispatched at once.",
    ),
    _step(
        "open_attempt",
        {State.OPEN, State.WAITING, State.RECONCILING},
        {State.DISPATCHED},
        {Actor.HARNESS},
        "A first dispatch, or a repeat that a licence allows.",
    ),
    _step(
        "open_attempt",
        {State.WAITING, State.RECONCILING},
        {State.DISPATCHED},
        {Actor.WORKER},
        "A repeat that a licence allows, where the contract lets Ascertain send it; never a first dispatch.",
    ),
    _step(
        "record_observation",
        {State.DISPATCHED},
        _AFTER_A_REPORT,
        {Actor.HARNESS, Actor.WORKER},
        "What was seen of the attempt in flight; the state stays when a later attempt is still out.",
        stays=True,
    ),
    _step(
        "record_observation",
        _AT_REST,
        _AFTER_A_REPORT,
        {Actor.HARNESS, Actor.WORKER},
        "A late report: it may settle what was being looked up, or only add to what is known.",
        stays=True,
    ),
    _step(
        "record_observation",
        {State.SETTLED},
        {State.ESCALATED},
        {Actor.HARNESS, Actor.WORKER},
        "Late evidence that contradicts the outcome reopens it for a person; other evidence is only kept.",
        stays=True,
    ),
    _step(
        "lapse_attempt",
        {State.DISPATCHED},
        {State.OPEN, State.WAITING, State.RECONCILING, State.ESCALATED, State.SETTLED},
        {Actor.WORKER},
        "A permit ended with no report: a write's effect is unknown, a read may be repeated.",
    ),
    _step(
        "record_lookup",
        ASKED,
        {State.OPEN, State.WAITING, State.RECONCILING, State.VERIFYING, State.ESCALATED, State.SETTLED},
        {Actor.WORKER},
        "The owner answered, and the answer was graded.",
        stays=True,
    ),
    _step(
        "record_notice",
        _UNSETTLED,
        {State.OPEN, State.WAITING, State.VERIFYING, State.ESCALATED, State.SETTLED},
        {Actor.OWNER},
        "The owner told us by itself, signed: it may settle what was open, or only add to what is known.",
        stays=True,
    ),
    _step(
        "record_notice",
        {State.SETTLED},
        {State.ESCALATED},
        {Actor.OWNER},
        "A late notification that contradicts the outcome reopens it for a person; another is only kept.",
        stays=True,
    ),
    _step(
        "record_check",
        {State.VERIFYING, State.ESCALATED},
        {State.VERIFYING, State.RECONCILING, State.ESCALATED, State.SETTLED},
        {Actor.WORKER},
        "The outcome was compared with what was intended, or the comparison could not be made.",
        stays=True,
    ),
    _step(
        "record_item_answers",
        {State.OPEN, *ASKED},
        {State.OPEN, State.WAITING, State.RECONCILING, State.VERIFYING, State.ESCALATED, State.SETTLED},
        {Actor.WORKER},
        "The owner was asked about items of a batch one by one, and each answer was graded.",
        stays=True,
    ),
    _step(
        "record_item_answers",
        {State.DISPATCHED},
        (),
        {Actor.WORKER},
        "The same, of items that stay out of the attempt in flight; its report decides on the rest.",
        stays=True,
    ),
    _step(
        "end_wait",
        {State.WAITING},
        {State.OPEN},
        {Actor.WORKER},
        "The wait before a licensed repeat is over.",
    ),
    _step(
        "end_by_limit",
        _AT_REST,
        {State.ESCALATED, State.SETTLED},
        {Actor.WORKER},
        "A deadline or a budget ended: what is known settles, what is not goes to a person.",
        stays=True,
    ),
    _step(
        "end_by_limit",
        {State.WAITING},
        {State.RECONCILING},
        {Actor.WORKER},
        "A licence ended during the wait for a repeat: what is not known is looked up.",
    ),
    _step(
        "attest",
        _AT_REST,
        {State.SETTLED},
        {Actor.PERSON},
        "A person says what happened. Some answers settle only when a second person signs them.",
        stays=True,
    ),
    _step(
        "countersign",
        _AT_REST,
        {State.SETTLED},
        {Actor.PERSON},
        "A second person signs the first one's answer.",
        stays=True,
    ),
    _step(
        "countersign",
        ASKED,
        {State.OPEN},
        {Actor.PERSON},
        "Two people accepted the risk of a duplicate: the harness may send it once more.",
    ),
    _step(
        "revise",
        {State.OPEN},
        (),
        {Actor.HARNESS},
        "A new payload in place of one that was refused; its permit is asked for next.",
        stays=True,
    ),
    _step(
        "look_again",
        ASKED,
        (),
        {Actor.PERSON},
        "Somebody wants the owner asked now; only the schedule moves.",
        stays=True,
    ),
)
"""Every step there is."""


def state_after(
    *,
    action: Action,
    effect: Effect,
    kind: EffectKind,
    not_before: datetime | None,
    now: datetime,
    sender: Sender = Sender.HARNESS,
) -> tuple[State, Outcome | None]:
    """The state that a decision leads to, and the outcome when that state is settled. `sender`: who would send what the
    decision licenses.

    Raises:
        SettlingRefused: `stop` or `done` on a write whose effect is unknown, pending or partial.
    """
    if action in (Action.STOP, Action.DONE):
        return State.SETTLED, _outcome(action=action, effect=effect, kind=kind)
    if sender is Sender.WORKER:
        return State.WAITING, None
    if action is Action.RETRY:
        return (State.WAITING if not_before is not None and not_before > now else State.OPEN), None
    return _NEXT[action], None


def may_step(*, verb: str, source: State | None, target: State, actor: Actor) -> bool:
    """Whether the table has this step. `source` None: the operation does not exist yet."""
    return any(
        step.verb == verb
        and actor in step.actors
        and (source in step.sources if source is not None else not step.sources)
        and (target in step.targets or (step.stays and target is source))
        for step in TRANSITIONS
    )


def diagram() -> str:
    """The table as a Mermaid state diagram, with an arrow for each pair of states that a step joins.

    A late report may arrive in any state and lead wherever its evidence says; its arrows are left out, they would
    hide the others.
    """
    arrows: dict[tuple[str, str], list[str]] = {}
    for step in TRANSITIONS:
        if step.verb == "record_observation" and State.OPEN in step.sources:
            continue
        sources: list[State | None] = [state for state in State if state in step.sources]
        for source in sources or [None]:
            for target in (state for state in State if state in step.targets and state is not source):
                arrows.setdefault((source.value if source else "[*]", target.value), []).append(step.verb)
    lines = [f"    {source} --> {target}: {' / '.join(verbs)}" for (source, target), verbs in arrows.items()]
    return "\n".join(["stateDiagram-v2", *lines, f"    {State.SETTLED.value} --> [*]", ""])


_NEXT: Final[Mapping[Action, State]] = MappingProxyType(
    {
        Action.REPAIR: State.OPEN,
        Action.REFRESH: State.OPEN,
        Action.REPLACE: State.OPEN,
        Action.RECOVER_ITEMS: State.OPEN,
        Action.AUTHORIZE: State.BLOCKED,
        Action.RECONCILE: State.RECONCILING,
        Action.VERIFY: State.VERIFYING,
        Action.WAIT: State.WAITING,
        Action.ESCALATE: State.ESCALATED,
    }
)


def _outcome(*, action: Action, effect: Effect, kind: EffectKind) -> Outcome:
    if kind is EffectKind.READ:
        return Outcome.READ
    if effect is Effect.APPLIED:
        return Outcome.APPLIED
    if effect is Effect.NONE:
        return Outcome.NOT_APPLIED
    raise SettlingRefused(f"{action} would end an operation whose effect is {effect}; escalate it instead.")
