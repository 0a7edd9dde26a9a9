"""What does the operation page show? Plain rows for its template, in sentences, from what the ledger holds.

"What we know" is four answers, each one sentence with its evidence and age: was it sent, was it accepted, what
happened to the effect, was the outcome verified.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from django.utils.html import format_html
from django.utils.safestring import SafeString

from ledger.queries.access import Seat
from ledger.queries.facts import Held
from ledger.queries.operations import EvidenceRow, JournalRow
from ledger.queries.related_operations import RelatedOperation, dependants, related_operations
from ledger.rules.events import MOST_DEPENDANTS
from ledger.rules.facts import AttemptFacts
from ledger.rules.senders import REPEATS, sender_of
from ledger.rules.stored import decision_from
from ledger.rules.vocabulary import (
    Effect,
    EffectKind,
    LookupOutcome,
    Outcome,
    Phase,
    Proof,
    Request,
    Sender,
    Speaker,
    State,
    Verification,
)
from recovery.web.access import DECIDES, READS_PAYLOADS
from recovery.web.forms import is_link
from recovery.web.moments import Shape, moment
from recovery.web.sentences import (
    CHECKS,
    LICENCES,
    LOOKUP_WORDS,
    LOOKUPS,
    OUTCOMES,
    PROOFS,
    Look,
    Told,
    look_of,
    speaker_of,
    told,
    under_state,
    why,
)

CHECK_TONES = {
    Verification.VERIFIED.value: "green",
    Verification.FAILED.value: "red",
    Verification.UNAVAILABLE.value: "amber",
}
FOLD_FROM = 3
"""So many alike lines of history in a row are folded into one."""
QUOTED_SHOWN = 4_000
DIFFERENCE_SHOWN = 400
_TURNS = {
    ord(mark): f"⟨U+{ord(mark):04X}⟩"
    for mark in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"
}
"""Characters that turn the reading direction: in foreign text they are shown, not obeyed."""
_PHASES = (Phase.RESOLVE, Phase.CONNECT, Phase.TLS, Phase.SEND, Phase.AWAIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What has just happened, over the page."""

    tone: str
    icon: str
    title: str
    lines: tuple["Line", ...]
    after: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """One of the four answers."""

    asked: str
    icon: str
    tone: str
    word: str
    sentence: str
    source: str
    """Anchor of the evidence below; empty where the ledger itself is the source."""
    when: SafeString | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One of the five steps of the bytes' way."""

    name: str
    kind: str
    """done, stop, or empty for not reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bytes:
    """Where the last attempt's bytes stopped."""

    steps: tuple[Step, ...]
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of history, or several alike in a row."""

    told: Told
    when: SafeString
    seq: int
    folded: tuple["Line", ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceLine:
    """One graded fact with its provenance."""

    anchor: str
    source: str
    speaker: str
    says: str
    tone: str
    counts: bool
    reasons: tuple[str, ...]
    differs: tuple[tuple[str, str, str], ...]
    when: SafeString
    attempt: str
    digest: str
    query: str
    link: str
    coverage: str
    revision: str
    quoted: str
    """Foreign text; shown in an inert box."""
    original: str
    """Where the restricted original can be read; empty where there is none or the person may not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLine:
    """One permitted dispatch."""

    name: str
    revision: int
    sender: str
    licence: str
    opened: SafeString
    ended: SafeString | str
    says: str
    proof: str
    failure: str
    network: int
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLine:
    """One counter and its limit."""

    name: str
    used: str
    limit: str
    share: int
    """Percent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedLine:
    """Another operation of the same intent."""

    href: str
    operation_id: str
    look: Look
    under: str
    holds: bool
    opened: SafeString


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationView:
    """Everything that the operation page shows, but the decide card."""

    id: UUID
    version: int
    operation_id: str
    tool: str
    title: str
    contract: str
    owner: str
    look: Look
    under: str
    why: str
    opened: SafeString
    changed: SafeString
    due: SafeString | None
    is_late: bool
    sla: SafeString | None
    next: SafeString | str
    may_look_again: bool
    why_not_look: str
    known: tuple[Known, ...]
    bytes: Bytes | None
    history: tuple[Line, ...]
    evidence: tuple[EvidenceLine, ...]
    attempts: tuple[AttemptLine, ...]
    budgets: tuple[BudgetLine, ...]
    related: tuple[RelatedLine, ...]
    dependants: tuple[RelatedLine, ...]
    """Of the same run of the agent: not settled, or opened later."""
    held_back: bool
    """Another unsettled operation has the same intent."""
    conflict: tuple[tuple[str, str, str], ...]
    conflict_of_check: bool
    """The differences were seen when the outcome was checked; False: when the owner was asked whether it happened."""
    duplicates: tuple[tuple[tuple[str, str], ...], ...]
    """What the owner named of each object that matched, where more than one did."""
    matches: int
    reopened: str
    """What it had been settled as before it was reopened; empty when it was not."""
    may_read: bool
    redacted: str
    digest: str
    revision: int
    agent: tuple[tuple[str, str], ...]
    hint: str
    rule: str


def operation_view(
    *, held: Held, seat: Seat, holder: str | None, evidence: Sequence[EvidenceRow], journal: Sequence[JournalRow]
) -> OperationView:
    """The page's rows. Reads related operations beside what is handed in; never a payload or an original."""
    facts, now = held.facts, held.now
    decision = decision_from(held.decision)
    settled = facts.state is State.SETTLED
    may_read = bool(seat.roles & READS_PAYLOADS)
    checked = facts.verification is Verification.FAILED
    twice = _twice(evidence)
    related: tuple[RelatedOperation, ...] = ()
    if held.identity_digest is not None:
        related = related_operations(
            workspace_id=held.workspace_id, tool_id=held.tool_id, identity_digest=held.identity_digest, besides=held.id
        )
    looks = facts.state in (State.RECONCILING, State.WAITING, State.ESCALATED)
    looks = looks and not (facts.state is State.WAITING and facts.effect is Effect.NONE)
    reason = why(state=facts.state, outcome=facts.outcome, message=decision.message if decision else "")
    if holder and not decision:
        reason = f"Held back: {holder} has the same intent and is not settled."
    sla = held.contract.escalation.sla
    return OperationView(
        id=held.id,
        version=facts.version,
        operation_id=facts.operation_id,
        tool=facts.tool,
        title=held.contract.title,
        contract=held.contract_label,
        owner=held.owner.name,
        look=look_of(state=facts.state, outcome=facts.outcome),
        under=under_state(state=facts.state, effect=facts.effect, outcome=facts.outcome),
        why=reason,
        opened=moment(at=held.created_at, now=now),
        changed=moment(at=held.changed_at, now=now),
        due=moment(at=facts.deadline_at, now=now, shape=Shape.DUE) if facts.deadline_at and not settled else None,
        is_late=bool(facts.deadline_at and facts.deadline_at <= now),
        sla=moment(at=held.escalated_at + sla, now=now, shape=Shape.DUE) if held.escalated_at and sla else None,
        next=_next(held, holder),
        may_look_again=looks and bool(seat.roles & DECIDES),
        why_not_look=_why_not_look(facts.state) if not looks else "",
        known=_known(held, evidence),
        bytes=_bytes(evidence),
        history=_folded(lines_of(journal, now=now)),
        evidence=tuple(_evidence(piece, held, may_read) for piece in reversed(evidence)),
        attempts=tuple(_attempt(attempt, held) for attempt in facts.attempts),
        budgets=_budgets(held),
        related=tuple(related_line(other, held) for other in related),
        dependants=tuple(related_line(other, held) for other in of_its_run(held)),
        held_back=holder is not None,
        conflict=differences(evidence, checked=checked) if not settled else (),
        conflict_of_check=checked,
        duplicates=twice if not settled else (),
        matches=_matches(evidence) if not settled else 0,
        reopened=_reopened(journal) if not settled else "",
        may_read=may_read,
        redacted=", ".join(held.contract.redact),
        digest=facts.payload_digest,
        revision=facts.revision,
        agent=tuple(
            (cut(plain(name), 60), cut(plain(value), 300))
            for name, value in (held.agent or {}).items()
            if value is not None
        ),
        hint=decision.hint if decision else "",
        rule=decision.rule if decision else "",
    )


def lines_of(rows: Sequence[JournalRow], *, now: datetime) -> tuple[Line, ...]:
    """History in words, oldest first."""
    return tuple(
        Line(
            told=told(verb=row.verb, actor=row.actor, entry=orjson.loads(row.entry)),
            when=moment(at=row.at, now=now),
            seq=row.seq,
        )
        for row in rows
    )


def _folded(lines: Sequence[Line]) -> tuple[Line, ...]:
    """Newest first, with runs of alike lines folded."""
    folded: list[Line] = []
    run: list[Line] = []

    def close() -> None:
        if len(run) >= FOLD_FROM:
            folded.append(Line(told=run[0].told, when=run[0].when, seq=run[0].seq, folded=tuple(run[1:])))
        else:
            folded.extend(run)
        run.clear()

    for line in reversed(lines):
        if run and (not line.told.folds_as or line.told.folds_as != run[0].told.folds_as):
            close()
        run.append(line)
        if not line.told.folds_as:
            close()
    close()
    return tuple(folded)


def _next(held: Held, holder: str | None) -> SafeString | str:
    state, at = held.facts.state, held.next_check_at
    if state is State.SETTLED:
        return "Nothing. It is settled."
    if holder is not None:
        return f"Held back until {holder} settles."
    if state is State.OPEN:
        return "The harness may ask to send it."
    if state is State.BLOCKED:
        return "It waits for permission."
    if at is None:
        return "Nothing by itself. It waits for a person."
    polls = held.facts.budgets.get("polls")
    looks = f"; {polls.used:g} of {polls.limit:g} looks used" if polls else ""
    when = moment(at=at, now=held.now, shape=Shape.IN)
    if state is State.DISPATCHED:
        return format_html("The permit ends {}; then the effect counts as unknown.", when)
    decision = decision_from(held.decision)
    if state is State.WAITING and decision is not None and decision.recovery_action in REPEATS:
        by = sender_of(facts=held.facts, contract=held.contract, decision=decision)
        if by is Sender.WORKER:
            return format_html("Ascertain sends it again {}.", when)
        return format_html("The harness may ask to send it again {}.", when)
    return format_html("Ascertain looks again {}{}.", when, looks)


def _why_not_look(state: State) -> str:
    if state is State.SETTLED:
        return "It is settled; there is nothing left to look up."
    if state is State.DISPATCHED:
        return "An attempt is in flight; the owner is asked once it ends."
    return "Nothing was left unknown, so there is nothing to look up."


def _known(held: Held, evidence: Sequence[EvidenceRow]) -> tuple[Known, ...]:
    return (_sent(held, evidence), _accepted(held, evidence), _effect(held, evidence), _verified(held, evidence))


def _sent(held: Held, evidence: Sequence[EvidenceRow]) -> Known:
    attempts, now = held.facts.attempts, held.now
    if not attempts:
        return Known(
            asked="Sent?", icon="minus-circle", tone="gray", word="No.", source="", when="",
            sentence="No permit was given, so nothing was sent through this operation.",
        )  # fmt: skip
    last = attempts[-1]
    times = "once" if len(attempts) == 1 else f"{len(attempts)} times"
    if last.closed_at is None:
        return Known(
            asked="Sent?", icon="paper-airplane", tone="blue", word="In flight.", source="",
            sentence=f"{last.attempt_id} is permitted and has not reported yet.",
            when=moment(at=last.opened_at, now=now),
        )  # fmt: skip
    if all(attempt.proof is Proof.NOT_SENT for attempt in attempts):
        return Known(
            asked="Sent?", icon="check-circle", tone="green", word="No.", source=_source(evidence, attempt=last.number),
            sentence=f"Permitted {times}; each time it is proved that nothing left.",
            when=moment(at=last.closed_at, now=now),
        )  # fmt: skip
    reported = any(piece.attempt == last.number for piece in evidence)
    if not reported:
        return Known(
            asked="Sent?", icon="question-mark-circle", tone="amber", word="We don't know.", source="",
            sentence=f"Permitted {times}. {last.attempt_id} ended without a report, so it may have left.",
            when=moment(at=last.closed_at, now=now),
        )  # fmt: skip
    sent = _bytes_sentence(_last_report(evidence))
    return Known(
        asked="Sent?", icon="check-circle", tone="green", word="Yes.", source=_source(evidence, attempt=last.number),
        sentence=f"Permitted {times}. {sent}".strip(), when=moment(at=last.closed_at, now=now),
    )  # fmt: skip


def _accepted(held: Held, evidence: Sequence[EvidenceRow]) -> Known:
    request = held.facts.request
    piece = _last_report(evidence)
    when = moment(at=piece.observed_at, now=held.now) if piece else ""
    source = f"#{piece.evidence_id}" if piece else ""
    answered = _answer_sentence(piece)
    if request is Request.REJECTED:
        return Known(
            asked="Accepted?", icon="x-circle", tone="red", word="No.", source=source, when=when,
            sentence=f"It was refused before anything was done. {answered}".strip(),
        )  # fmt: skip
    if request is Request.NOT_SENT:
        in_flight = held.facts.state is State.DISPATCHED
        return Known(
            asked="Accepted?", icon="minus-circle", tone="gray", word="Not yet." if in_flight else "No.",
            source="", when="", sentence="Nobody has answered so far." if in_flight else "Nothing reached the owner.",
        )  # fmt: skip
    if answered:
        return Known(
            asked="Accepted?", icon="check-circle", tone="green", word="Yes.", source=source, when=when,
            sentence=f"The request got through. {answered}",
        )  # fmt: skip
    return Known(
        asked="Accepted?", icon="question-mark-circle", tone="amber", word="Perhaps.", source=source, when=when,
        sentence="Bytes may have left and no answer came back, so it is treated as accepted.",
    )  # fmt: skip


def _effect(held: Held, evidence: Sequence[EvidenceRow]) -> Known:
    facts = held.facts
    effect = facts.effect
    proof = next((piece for piece in reversed(evidence) if piece.effect == effect.value and piece.proof), None)
    when = moment(at=proof.observed_at, now=held.now) if proof else ""
    source = f"#{proof.evidence_id}" if proof else ""
    because = f"{PROOFS[Proof(proof.proof)].capitalize()}." if proof and proof.proof else ""
    if effect is Effect.APPLIED:
        return Known(
            asked="Effect?", icon="check-circle", tone="green", word="It happened.", sentence=because,
            source=source, when=when,
        )  # fmt: skip
    if effect is Effect.NONE:
        if facts.kind is EffectKind.READ:
            because = "A read has no effect to lose."
        elif not facts.attempts:
            because = "Nothing was sent, so nothing happened through this operation."
        return Known(
            asked="Effect?", icon="minus-circle", tone="gray", word="It did not happen.", sentence=because,
            source=source, when=when,
        )  # fmt: skip
    looked = next((piece for piece in reversed(evidence) if piece.outcome in LOOKUPS), None)
    when = moment(at=looked.observed_at, now=held.now) if looked else ""
    source = f"#{looked.evidence_id}" if looked else ""
    if effect is Effect.PENDING:
        return Known(
            asked="Effect?", icon="clock", tone="blue", word="Still running.", source=source, when=when,
            sentence="The owner took it and has not finished.",
        )  # fmt: skip
    if effect is Effect.PARTIAL:
        return Known(
            asked="Effect?", icon="scale", tone="amber", word="Partly.", source=source, when=when,
            sentence="Every item is accounted for: some happened, others did not.",
        )  # fmt: skip
    polls = facts.budgets.get("polls")
    if looked:
        looks = f"{polls.used:g} looks" if polls and polls.used != 1 else "One look"
        sentence = f"{looks} at the owner so far; the last one: {LOOKUPS[looked.outcome]}."
        if facts.clean_reads:
            sentence += f" {facts.clean_reads} clean reads in a row."
    else:
        sentence = "Nobody who may say so has said what happened."
    return Known(
        asked="Effect?", icon="question-mark-circle", tone="amber", word="We don't know.", sentence=sentence,
        source=source, when=when,
    )  # fmt: skip


def _verified(held: Held, evidence: Sequence[EvidenceRow]) -> Known:
    piece = next((piece for piece in reversed(evidence) if piece.speaker == Speaker.VERIFIER.value), None)
    when = moment(at=piece.observed_at, now=held.now) if piece else ""
    source = f"#{piece.evidence_id}" if piece else ""
    icon, tone, word, sentence = {
        Verification.NOT_REQUIRED: ("minus-circle", "gray", "Not asked for.", "The contract asks for no check."),
        Verification.DUE: ("clock", "gray", "Not yet.", "The check comes once the effect is known to have happened."),
        Verification.VERIFIED: ("check-badge", "green", "Yes.", "The outcome is what was intended."),
        Verification.FAILED: ("x-circle", "red", "No.", "The outcome is not what was meant. Look before any write."),
        Verification.UNAVAILABLE: ("question-mark-circle", "amber", "We don't know.", "The check could not run."),
    }[held.facts.verification]  # fmt: skip
    return Known(asked="Verified?", icon=icon, tone=tone, word=word, sentence=sentence, source=source, when=when)


def _source(evidence: Sequence[EvidenceRow], *, attempt: int) -> str:
    piece = next((piece for piece in reversed(evidence) if piece.attempt == attempt), None)
    return f"#{piece.evidence_id}" if piece else ""


def _last_report(evidence: Sequence[EvidenceRow]) -> EvidenceRow | None:
    return next((piece for piece in reversed(evidence) if piece.attempt is not None), None)


def _answer_sentence(piece: EvidenceRow | None) -> str:
    """Empty when no answer came back."""
    if piece is None:
        return ""
    status, code = piece.detail.get("status"), piece.detail.get("code")
    if isinstance(status, int):
        return f"The answer was HTTP {status}."
    if piece.detail.get("phase") == Phase.AFTER_RESPONSE.value:
        return f"The answer was read as {code}." if isinstance(code, str) else "An answer came."
    return ""


def _bytes_sentence(piece: EvidenceRow | None) -> str:
    if piece is None:
        return ""
    sent, whole = piece.detail.get("bytes_sent"), piece.detail.get("request_bytes")
    if isinstance(sent, int) and isinstance(whole, int) and not isinstance(sent, bool):
        return f"{sent:,} of {whole:,} bytes left."
    if isinstance(sent, int) and not isinstance(sent, bool):
        return f"{sent:,} bytes left."
    phase = piece.detail.get("phase")
    if phase == Phase.AFTER_RESPONSE.value:
        return "An answer came back."
    if phase == Phase.AWAIT.value:
        return "No answer came back."
    return "The last attempt was reported."


def _bytes(evidence: Sequence[EvidenceRow]) -> Bytes | None:
    piece = _last_report(evidence)
    if piece is None:
        return None
    phase, status = piece.detail.get("phase"), piece.detail.get("status")
    answered = isinstance(status, int) or phase == Phase.AFTER_RESPONSE.value
    if not answered and phase not in list(Phase):
        return None
    if answered:
        steps = tuple(Step(name=each.value, kind="done") for each in _PHASES)
        how = f"HTTP {status}" if isinstance(status, int) else "an answer"
        return Bytes(steps=steps, sentence=f"The whole way there and back: {how} arrived.")
    if phase == Phase.BEFORE_DISPATCH.value:
        steps = tuple(Step(name=each.value, kind="") for each in _PHASES)
        return Bytes(steps=steps, sentence="It ended before the first step. Nothing left.")
    at = _PHASES.index(Phase(str(phase)))
    steps = tuple(
        Step(name=each.value, kind="done" if index < at else "stop" if index == at else "")
        for index, each in enumerate(_PHASES)
    )
    where = {
        Phase.RESOLVE: "It stopped while finding the address. Nothing left.",
        Phase.CONNECT: "It stopped while connecting. Nothing left.",
        Phase.TLS: "It stopped while agreeing on encryption. The request had not left.",
        Phase.SEND: f"It stopped while sending. {_bytes_sentence(piece)}",
        Phase.AWAIT: "The request left; it stopped while waiting for the answer.",
    }[_PHASES[at]]
    return Bytes(steps=steps, sentence=where)


def _evidence(piece: EvidenceRow, held: Held, may_read: bool) -> EvidenceLine:
    detail = piece.detail
    if piece.effect == Effect.APPLIED.value:
        says, tone = "it happened", "green"
    elif piece.effect == Effect.NONE.value:
        says, tone = "it did not happen", "gray"
    elif piece.outcome in LOOKUPS:
        says, tone = LOOKUP_WORDS[piece.outcome], "amber"
    elif piece.outcome == "attested":
        says, tone = "a person's answer", "violet"
    elif piece.outcome == "notified" and not piece.effect:
        says, tone = "a notice that changes nothing", "gray"
    elif piece.outcome in CHECKS:
        says, tone = CHECKS[piece.outcome], CHECK_TONES[piece.outcome]
    else:
        says, tone = (f"effect {piece.effect}" if piece.effect else "seen"), "amber" if piece.effect else "gray"
    reference = piece.query if piece.outcome == "attested" else ""
    return EvidenceLine(
        anchor=piece.evidence_id,
        source=piece.source,
        speaker=speaker_of(speaker=Speaker(piece.speaker), source=piece.source),
        says=says,
        tone=tone,
        counts=piece.proof is not None or piece.outcome == Verification.VERIFIED.value,
        reasons=_reasons(piece),
        differs=_differs(detail),
        when=moment(at=piece.observed_at, now=held.now),
        attempt=f"attempt-{piece.attempt:02d}" if piece.attempt else "",
        digest=piece.digest,
        query="" if reference else piece.query,
        link=reference if is_link(reference) else "",
        coverage=piece.coverage,
        revision=piece.revision or "",
        quoted=_quoted(detail),
        original=f"/operations/{held.id}/originals/{piece.original}/" if piece.original and may_read else "",
    )


def _reasons(piece: EvidenceRow) -> tuple[str, ...]:
    """Why it counts or does not: sentences of ours, or the reason that a person gave."""
    given = piece.detail.get("reasons")
    found = [cut(plain(reason), DIFFERENCE_SHOWN) for reason in given] if isinstance(given, list | tuple) else []
    if piece.outcome == "attested":
        if reason := piece.detail.get("reason"):
            found.append(f"“{reason}”")
        if piece.detail.get("counts") is False:
            found.append("It does not count yet: a second person has to sign it.")
    violations = piece.detail.get("violations")
    if isinstance(violations, list):
        found += [f"Against the contract: {cut(plain(violation), DIFFERENCE_SHOWN)}" for violation in violations]
    if piece.proof and not found:
        found.append(f"{PROOFS[Proof(piece.proof)].capitalize()}.")
    if not found:
        found.append("Nothing in it proves what happened.")
    return tuple(found)


def _differs(detail: Mapping[str, Any]) -> tuple[tuple[str, str, str], ...]:
    given = detail.get("differs")
    if not isinstance(given, list):
        return ()
    found = []
    for one in given[:50]:
        if isinstance(one, list) and len(one) == 3:
            found.append(_difference(*one))
        elif isinstance(one, dict):
            found.append(_difference(one.get("member"), one.get("intended"), one.get("found")))
    return tuple(found)


def _difference(member: Any, intended: Any, seen: Any) -> tuple[str, str, str]:
    return (
        cut(plain(member), 200),
        cut(plain(intended), DIFFERENCE_SHOWN),
        cut(plain(seen), DIFFERENCE_SHOWN),
    )


def differences(evidence: Sequence[EvidenceRow], *, checked: bool) -> tuple[tuple[str, str, str], ...]:
    """Where what was seen last differs from what was meant: (member, intended, seen). `checked`: when the outcome was
    checked; else when the owner was asked, or told us."""
    last = next((piece for piece in reversed(evidence) if _compares(piece, checked=checked)), None)
    return _differs(last.detail) if last else ()


def _compares(piece: EvidenceRow, *, checked: bool) -> bool:
    if checked:
        return piece.speaker == Speaker.VERIFIER.value
    return piece.outcome == LookupOutcome.FOUND.value or (piece.outcome == "notified" and bool(piece.effect))


def _matches(evidence: Sequence[EvidenceRow]) -> int:
    """How many objects the owner's last find showed, where they were several."""
    last = next((piece for piece in reversed(evidence) if piece.outcome == LookupOutcome.FOUND.value), None)
    count = last.detail.get("matches") if last else None
    return count if isinstance(count, int) and count > 1 else 0


def _twice(evidence: Sequence[EvidenceRow]) -> tuple[tuple[tuple[str, str], ...], ...]:
    last = next((piece for piece in reversed(evidence) if piece.outcome == LookupOutcome.FOUND.value), None)
    found = last.detail.get("found") if last is not None and _matches(evidence) else None
    return tuple(
        tuple((cut(plain(name), 60), cut(plain(value), DIFFERENCE_SHOWN)) for name, value in one.items())
        for one in (found if isinstance(found, list) else [])
        if isinstance(one, dict)
    )


def _reopened(journal: Sequence[JournalRow]) -> str:
    """What an unsettled operation had last been settled as; empty when it never was."""
    outcomes = [orjson.loads(row.entry).get("set", {}).get("outcome") for row in journal if '"settled"' in row.entry]
    known = [outcome for outcome in outcomes if outcome in list(Outcome)]
    return OUTCOMES[Outcome(known[-1])].word if known else ""


def _quoted(detail: Mapping[str, Any]) -> str:
    said = detail.get("quoted") or detail.get("said")
    pieces = said if isinstance(said, list) else [said] if said else []
    return cut("\n".join(plain(piece) for piece in pieces), QUOTED_SHOWN)


def plain(value: Any) -> str:
    """A foreign value as text that turns no reading direction."""
    text = value if isinstance(value, str) else orjson.dumps(value, default=str).decode()
    return text.translate(_TURNS)


def cut(text: str, most: int) -> str:
    """The text, shortened visibly."""
    return text if len(text) <= most else f"{text[:most]}…"


def _attempt(attempt: AttemptFacts, held: Held) -> AttemptLine:
    end = attempt.closed_at
    read = held.facts.is_read
    return AttemptLine(
        name=attempt.attempt_id,
        revision=attempt.revision,
        sender="by Ascertain" if attempt.sender is Sender.WORKER else "by the harness",
        licence=LICENCES[attempt.licence] if attempt.licence else "first dispatch",
        opened=moment(at=attempt.opened_at, now=held.now),
        ended=moment(at=end, now=held.now)
        if end
        else format_html("in flight, ends {}", moment(at=attempt.lapses_at, now=held.now, shape=Shape.IN)),
        says="a read" if read else f"effect {attempt.effect.value}",
        proof=PROOFS[attempt.proof] if attempt.proof else "",
        failure=attempt.failure_class.value.replace("_", " ") if attempt.failure_class else "",
        network=attempt.network_attempts,
        key=attempt.idempotency_key or "",
    )


def _budgets(held: Held) -> tuple[BudgetLine, ...]:
    return tuple(
        BudgetLine(
            name=name.replace("_", " "),
            used=f"{budget.used:g}",
            limit=f"{budget.limit:g}",
            share=min(100, round(100 * budget.used / budget.limit)) if budget.limit else 0,
        )
        for name, budget in held.facts.budgets.items()
    )


def of_its_run(held: Held) -> tuple[RelatedOperation, ...]:
    """Operations of the same run whose next step may hang on this one. One statement; none without a run."""
    run = (held.agent or {}).get("run")
    if not run:
        return ()
    return dependants(
        workspace_id=held.workspace_id, run=str(run), besides=held.id, opened_at=held.created_at, most=MOST_DEPENDANTS
    )


def related_line(other: RelatedOperation, held: Held) -> RelatedLine:
    """Another operation as this one's page shows it."""
    return RelatedLine(
        href=f"/operations/{other.id}/",
        operation_id=other.operation_id,
        look=look_of(state=other.state, outcome=other.outcome),
        under=under_state(state=other.state, effect=other.effect, outcome=other.outcome),
        holds=other.holds_identity,
        opened=moment(at=other.created_at, now=held.now),
    )
