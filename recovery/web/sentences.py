"""What do the ledger's words look like, and what do they say to a person?

Icon, tone and sentence of every state, effect, proof, answer and history verb. Words of the vocabulary are shown as
they are; the sentences beside them are ours. Nothing that a tool or an agent wrote passes through here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from ledger.queries.operations import ListedOperation
from ledger.rules.notices import Weight
from ledger.rules.resolutions import TOLD, Answer
from ledger.rules.vocabulary import (
    Effect,
    Licence,
    LookupOutcome,
    Outcome,
    Proof,
    Role,
    Sender,
    Speaker,
    State,
    Verification,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How a word is drawn: heroicon, colour tone, and the word itself."""

    word: str
    icon: str
    tone: str


STATES: Final[Mapping[State, Look]] = MappingProxyType(
    {
        State.OPEN: Look(word="Open", icon="play-circle", tone="gray"),
        State.DISPATCHED: Look(word="Dispatched", icon="paper-airplane", tone="blue"),
        State.WAITING: Look(word="Waiting", icon="clock", tone="blue"),
        State.RECONCILING: Look(word="Reconciling", icon="arrow-path", tone="blue"),
        State.VERIFYING: Look(word="Verifying", icon="magnifying-glass", tone="blue"),
        State.BLOCKED: Look(word="Blocked", icon="lock-closed", tone="red"),
        State.ESCALATED: Look(word="Escalated", icon="hand-raised", tone="violet"),
        State.SETTLED: Look(word="Settled", icon="check-circle", tone="green"),
    }
)
OUTCOMES: Final[Mapping[Outcome, Look]] = MappingProxyType(
    {
        Outcome.APPLIED: Look(word="applied", icon="check-circle", tone="green"),
        Outcome.NOT_APPLIED: Look(word="not applied", icon="minus-circle", tone="gray"),
        Outcome.PARTIALLY_APPLIED: Look(word="partially applied", icon="scale", tone="amber"),
        Outcome.WRITTEN_OFF: Look(word="written off", icon="archive-box-x-mark", tone="amber"),
        Outcome.READ: Look(word="read", icon="check-circle", tone="gray"),
    }
)
_OUTCOME_SENTENCES: Final[Mapping[Outcome, str]] = MappingProxyType(
    {
        Outcome.APPLIED: "It happened, and that is proved.",
        Outcome.NOT_APPLIED: "It did not happen, and that is proved.",
        Outcome.PARTIALLY_APPLIED: "Every item is accounted for: some happened, others did not.",
        Outcome.WRITTEN_OFF: "Closed by two people with the effect still unknown. It is never repeated.",
        Outcome.READ: "A read that has ended; it has no effect to lose.",
    }
)
_STATE_SENTENCES: Final[Mapping[State, str]] = MappingProxyType(
    {
        State.OPEN: "Recorded. The harness may ask to send it.",
        State.DISPATCHED: "An attempt is in flight. Its report has not come yet.",
        State.WAITING: "A timed wait before the next step.",
        State.RECONCILING: "The owner is being asked what happened.",
        State.VERIFYING: "It is done; the intended outcome is being checked.",
        State.BLOCKED: "It needs a permission that it does not have.",
        State.ESCALATED: "Machines cannot settle this. It waits for a person.",
        State.SETTLED: "It has a final outcome.",
    }
)
EFFECTS: Final[Mapping[Effect, str]] = MappingProxyType(
    {
        Effect.NONE: "effect none",
        Effect.PENDING: "effect pending",
        Effect.APPLIED: "effect applied",
        Effect.PARTIAL: "effect partial",
        Effect.UNKNOWN: "effect unknown",
    }
)
ITEM_EFFECTS: Final[Mapping[Effect, Look]] = MappingProxyType(
    {
        Effect.NONE: Look(word="Did not happen", icon="minus-circle", tone="gray"),
        Effect.PENDING: Look(word="Running", icon="clock", tone="blue"),
        Effect.APPLIED: Look(word="Happened", icon="check-circle", tone="green"),
        Effect.PARTIAL: Look(word="In part", icon="question-mark-circle", tone="amber"),
        Effect.UNKNOWN: Look(word="Unknown", icon="question-mark-circle", tone="amber"),
    }
)
PROOFS: Final[Mapping[Proof, str]] = MappingProxyType(
    {
        Proof.NOT_SENT: "no byte of the request left",
        Proof.REFUSED: "the owner refused it before acting",
        Proof.CONTRACT_RULE: "the tool's contract says so for this answer",
        Proof.OWNER_RESULT: "the owner's own answer matches the contract's success rule",
        Proof.LOOKUP_MATCH: "an exact match was found at the owner",
        Proof.GRADED_ABSENCE: "it is absent at the owner, and the absence meets every condition",
        Proof.ATTESTED: "a person established it",
    }
)
LICENCES: Final[Mapping[Licence, str]] = MappingProxyType(
    {
        Licence.EFFECT_NONE_PROVED: "it is proved that nothing happened before",
        Licence.NATURAL_IDEMPOTENCY: "repeating it changes nothing",
        Licence.KEY_IN_WINDOW: "the owner still honours the same key",
        Licence.ACCEPTED_DUPLICATE_RISK: "two people accepted the risk of a duplicate",
    }
)
SPEAKERS: Final[Mapping[Speaker, str]] = MappingProxyType(
    {
        Speaker.HARNESS: "the harness",
        Speaker.GATEWAY: "a gateway in between",
        Speaker.OWNER_ANSWER: "the owner's answer, relayed by the harness",
        Speaker.OWNER_STATUS: "the owner, asked by Ascertain",
        Speaker.OWNER_INDEX: "the owner's index, asked by Ascertain",
        Speaker.OWNER_NOTICE: "the owner's signed notice",
        Speaker.VERIFIER: "a check of the outcome",
        Speaker.TOOL_TEXT: "text of the tool",
        Speaker.OPERATOR: "a person",
        Speaker.LEDGER: "Ascertain's own bookkeeping",
    }
)
_SEEN_BY_US: Final[Mapping[Speaker, str]] = MappingProxyType(
    {
        Speaker.HARNESS: "Ascertain's own transport",
        Speaker.OWNER_ANSWER: "the owner's answer to Ascertain",
    }
)
LOOKUPS: Final[Mapping[str, str]] = MappingProxyType(
    {
        LookupOutcome.FOUND.value: "it is there",
        LookupOutcome.NO_MATCH.value: "nothing there",
        LookupOutcome.LOOKUP_FAILED.value: "the lookup failed, which says nothing",
        LookupOutcome.INCONCLUSIVE.value: "an answer that settles nothing",
    }
)


CHECKS: Final[Mapping[str, str]] = MappingProxyType(
    {
        Verification.VERIFIED.value: "it is as intended",
        Verification.FAILED.value: "it differs from what was intended",
        Verification.UNAVAILABLE.value: "the check could not run, which says nothing",
    }
)
NOTICES: Final[Mapping[str, str]] = MappingProxyType(
    {
        Weight.COUNTS.value: "said in a signed notice what happened.",
        Weight.CONFLICT.value: "told in a signed notice of something that is not what was meant.",
        Weight.CONTRADICTS.value: "contradicted in a signed notice what was known.",
        Weight.CONFIRMS.value: "confirmed in a signed notice what was known.",
        Weight.OUT_OF_ORDER.value: "told in a signed notice of something earlier; nothing changes.",
        Weight.SETTLES_NOTHING.value: "sent a signed notice that settles nothing.",
    }
)
"""What an owner's notification came to."""
LOOKUP_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        LookupOutcome.FOUND.value: "found",
        LookupOutcome.NO_MATCH.value: "nothing there",
        LookupOutcome.LOOKUP_FAILED.value: "lookup failed",
        LookupOutcome.INCONCLUSIVE.value: "inconclusive",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerLook:
    """How an answer is offered: its name, the gist, what is recorded, and what the agent is told."""

    name: str
    gist: str
    icon: str
    tone: str
    records: str
    records_first: str
    """What is recorded while a second person's signature is still missing."""
    agent: str


_WAITS = "Your answer, waiting for a second person. The effect stays as it is until they sign."
ANSWERS: Final[Mapping[Answer, AnswerLook]] = MappingProxyType(
    {
        Answer.APPLIED: AnswerLook(
            name="It happened",
            gist="You saw the effect at the owner.",
            icon="check-circle",
            tone="green",
            records="Effect applied, proved by you. The operation settles as applied.",
            records_first=_WAITS,
            agent=TOLD[Answer.APPLIED],
        ),
        Answer.NOT_APPLIED: AnswerLook(
            name="It did not happen",
            gist="You made sure that the owner does not have it and will not.",
            icon="minus-circle",
            tone="gray",
            records="Effect none, proved by you. The operation settles as not applied.",
            records_first=_WAITS,
            agent=TOLD[Answer.NOT_APPLIED],
        ),
        Answer.PARTIALLY_APPLIED: AnswerLook(
            name="Partly",
            gist="Some items happened, others did not: answer for each.",
            icon="scale",
            tone="amber",
            records="What you answer for each item. The batch settles once no item is open.",
            records_first="Your answers for the items, waiting for a second person. Nothing changes until they sign.",
            agent="How the batch ended, once no item is open.",
        ),
        Answer.CANNOT_TELL: AnswerLook(
            name="Cannot tell",
            gist="Nobody knows yet. Keep looking.",
            icon="question-mark-circle",
            tone="amber",
            records="That you looked and could not tell. No effect is claimed; the owner is asked again now.",
            records_first="That you looked and could not tell, waiting for a second person.",
            agent="Nothing new. It stays told that the outcome is unknown and that it must not repeat the call.",
        ),
        Answer.WRITTEN_OFF: AnswerLook(
            name="Write off",
            gist="Nobody will learn what happened. It is never repeated.",
            icon="archive-box-x-mark",
            tone="amber",
            records="That two people closed it with its effect unknown. It settles as written off and keeps its intent, so "
            "nothing with the same intent is sent without a person’s word.",
            records_first=_WAITS,
            agent=TOLD[Answer.WRITTEN_OFF],
        ),
        Answer.ACCEPT_DUPLICATE_RISK: AnswerLook(
            name="Accept the risk of a duplicate",
            gist="It may have happened; let it be sent once more all the same.",
            icon="document-duplicate",
            tone="red",
            records="That two people accepted that it may happen twice. The next permit, and no other, carries this as its "
            "licence. The effect stays unknown.",
            records_first="Your answer, waiting for a second person. Nothing may be sent until they sign.",
            agent=TOLD[Answer.ACCEPT_DUPLICATE_RISK],
        ),
        Answer.DISTINCT_INTENT: AnswerLook(
            name="Distinct intent",
            gist="Another effect is meant than the one that holds this identity.",
            icon="arrows-right-left",
            tone="blue",
            records="That this is another effect on purpose. The operation may be dispatched beside the other one.",
            records_first="Your answer, waiting for a second person. It stays held back until they sign.",
            agent="Nothing yet. The next time it asks for a permit, this identity no longer holds it back.",
        ),
    }
)
ROLES: Final[Mapping[Role, str]] = MappingProxyType(
    {
        Role.VIEWER: "viewer",
        Role.OPERATOR: "operator",
        Role.APPROVER: "approver",
        Role.CONTRACT_ADMIN: "contract admin",
        Role.ADMIN: "admin",
        Role.AUDITOR: "auditor",
    }
)


def look_of(*, state: State, outcome: Outcome | None) -> Look:
    """How a state is drawn; a settled one takes the icon and tone of its outcome."""
    if state is State.SETTLED and outcome is not None:
        drawn = OUTCOMES[outcome]
        return Look(word="Settled", icon=drawn.icon, tone=drawn.tone)
    return STATES[state]


def under_state(*, state: State, effect: Effect, outcome: Outcome | None) -> str:
    """The second word of a row: the outcome once it is settled, else the effect."""
    if state is State.SETTLED and outcome is not None:
        return OUTCOMES[outcome].word
    return EFFECTS[effect]


def why_here(row: ListedOperation) -> str:
    """Why an operation is in the list, in one sentence of ours."""
    if row.awaits_signature:
        return "One person has answered. It counts once a second person signs."
    return why(state=row.state, outcome=row.outcome, message=row.decision.message if row.decision else "")


def why(*, state: State, outcome: Outcome | None, message: str) -> str:
    """The decision's sentence; without one, what the state or the outcome means."""
    if state is State.SETTLED and outcome is not None:
        return message or _OUTCOME_SENTENCES[outcome]
    return message or _STATE_SENTENCES[state]


def speaker_of(*, speaker: Speaker, source: str) -> str:
    """Who said a piece of evidence. What Ascertain itself sent was seen by no harness."""
    if source.startswith(f"{Sender.WORKER.value}/"):
        return _SEEN_BY_US.get(speaker, SPEAKERS[speaker])
    return SPEAKERS[speaker]


def who(actor: str) -> str:
    """An actor of the history in words."""
    kind, _, name = actor.partition(":")
    if kind == "worker":
        return "Ascertain"
    if kind == "token":
        return f"The harness ({name})"
    if kind == "owner":
        return f"The owner ({name})"
    return name or actor


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One line of history in words."""

    icon: str
    tone: str
    actor: str
    said: str
    then: str
    """What followed from it: the decision's sentence, or the reason that was given."""
    folds_as: str = ""
    """Lines in a row with the same non-empty word are folded into one."""


def told(*, verb: str, actor: str, entry: Mapping[str, Any]) -> Told:
    """A history row as a sentence. A verb without a sentence of its own is shown by name, never hidden."""
    by = who(actor)
    step = entry.get("set") or {}
    decision = step.get("decision") or {}
    message = str(decision.get("message") or "")
    attempt = str(entry.get("attempt") or "")
    opened = entry.get("opens") or {}
    if verb == "open_operation":
        number = opened.get("number")
        said = "recorded the intent and its payload"
        if number:
            return Told(
                icon="flag", tone="gray", actor=by, said=f"{said}, and was permitted attempt-{number:02d}.", then=""
            )
        return Told(icon="flag", tone="gray", actor=by, said=f"{said}.", then=message)
    if verb == "open_attempt":
        licence = opened.get("licence")
        because = f" because {LICENCES[Licence(licence)]}" if licence else ""
        number = f"attempt-{opened.get('number', 0):02d}"
        if opened.get("kind") == "replay":
            said = f"sends the same request once more, as {number}, to learn what became of it{because}."
        elif opened.get("sender") == Sender.WORKER.value:
            said = f"sends it again itself, as {number}{because}."
        else:
            said = f"was permitted {number}{because}."
        return Told(icon="paper-airplane", tone="blue", actor=by, said=said, then="")
    if verb == "record_observation":
        said = f"reported what it saw of {attempt or 'an attempt'}."
        return Told(icon="chat-bubble-left", tone=_tone(step), actor=by, said=said, then=message)
    if verb == "lapse_attempt":
        said = f"{attempt or 'An attempt'} ended without a report. Its effect is unknown, not failed."
        return Told(icon="clock", tone="amber", actor="", said=said, then=message)
    if verb == "record_lookup":
        return _lookup(entry, step, message)
    if verb == "record_item_answers":
        return _item_lookups(entry, step, message)
    if verb == "record_check":
        seen = CHECKS.get(str(step.get("verification") or ""), "the outcome was checked")
        return Told(
            icon="check-badge", tone=_tone(step), actor="Ascertain", said=f"checked the outcome: {seen}.", then=message
        )
    if verb == "record_notice":
        said = NOTICES.get(str(entry.get("came_to") or ""), "sent a signed notice.")
        tone = _tone(step) if step.get("state") else "gray"
        return Told(icon="megaphone", tone=tone, actor=by, said=said, then=message)
    if verb == "end_wait":
        said = "The wait is over. The harness may ask again."
        if because := str(entry.get("because") or ""):
            said = f"The wait is over. Ascertain cannot send it itself, so the harness may ask again. {because}"
        return Told(icon="clock", tone="gray", actor="", said=said, then="")
    if verb == "end_by_limit":
        return Told(icon="stop-circle", tone=_tone(step), actor="", said="A limit was reached.", then=message)
    if verb in ("attest", "countersign"):
        return _attested(verb, by, entry)
    if verb == "look_again":
        return Told(icon="arrow-path", tone="gray", actor=by, said="asked for another look at the owner now.", then="")
    words = verb.replace("_", " ")
    return Told(icon="ellipsis-horizontal", tone="gray", actor=by, said=f"did “{words}”.", then=message)


def _lookup(entry: Mapping[str, Any], step: Mapping[str, Any], message: str) -> Told:
    evidence = (entry.get("evidence") or [{}])[0]
    outcome = str(evidence.get("outcome") or "")
    source = str(entry.get("lookup") or evidence.get("source") or "the owner")
    said = f"asked {source}: {LOOKUPS.get(outcome, outcome.replace('_', ' '))}."
    moved = step.get("state") in (State.SETTLED.value, State.ESCALATED.value)
    return Told(
        icon="magnifying-glass",
        tone=_tone(step) if moved else "gray",
        actor="Ascertain",
        said=said,
        then=message,
        folds_as="" if moved else f"{source} {outcome} {message}",
    )


def _item_lookups(entry: Mapping[str, Any], step: Mapping[str, Any], message: str) -> Told:
    keys = [str(key) for key in entry.get("items_asked") or ()]
    named = ", ".join(key[:40] for key in keys[:3]) + (f" and {len(keys) - 3} more" if len(keys) > 3 else "")
    outcomes = [str(piece.get("outcome") or "") for piece in entry.get("evidence") or ()]
    found = ", ".join(f"{outcomes.count(outcome)} {outcome.replace('_', ' ')}" for outcome in dict.fromkeys(outcomes))
    moved = step.get("state") in (State.SETTLED.value, State.ESCALATED.value)
    return Told(
        icon="magnifying-glass",
        tone=_tone(step) if moved else "gray",
        actor="Ascertain",
        said=f"asked the owner about {len(keys)} item{'s' if len(keys) != 1 else ''} ({named}): {found}.",
        then=message,
        folds_as="" if moved else f"items {found} {message}",
    )


def _attested(verb: str, by: str, entry: Mapping[str, Any]) -> Told:
    answer = str(entry.get("answer") or "")
    name = ANSWERS[Answer(answer)].name if answer in list(Answer) else answer
    tone = ANSWERS[Answer(answer)].tone if answer in list(Answer) else "gray"
    if "answers" in entry:
        said_of = list(entry["answers"].values())
        counts = [f"{said_of.count(word)} {ANSWERS[Answer(word)].name.lower()}" for word in dict.fromkeys(said_of)]
        name = f"of {len(said_of)} items: {', '.join(counts)}" if counts else "it is closed as its items say"
    if verb == "countersign":
        said = f"signed {entry.get('signs', 'the first person')}'s answer: {name}."
    elif entry.get("counts") is False:
        said = f"answered: {name}. It waits for a second person's signature."
    else:
        said = f"answered: {name}."
    return Told(icon="user", tone=tone, actor=by, said=said, then=str(entry.get("reason") or ""))


def _tone(step: Mapping[str, Any]) -> str:
    state = step.get("state")
    if state == State.SETTLED.value and step.get("outcome") in list(Outcome):
        return OUTCOMES[Outcome(str(step["outcome"]))].tone
    if state in list(State):
        return STATES[State(str(state))].tone
    return "gray"
