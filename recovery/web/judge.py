"""The judge: paste what was seen, pick a contract, and see what it means and which rule said so. Records nothing."""

import itertools
import json
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods

from ledger.queries.access import Seat
from ledger.queries.clock import database_now
from ledger.queries.contracts import PublishedContract, contract_by_id, published_contracts
from ledger.rules.contract import Contract, parse_stated_contract
from ledger.rules.payload import NotJson, parse_strict
from recovery.judgement.dialects import for_agent
from recovery.judgement.reading import ObservationInvalid
from recovery.judgement.stateless import Judgement, judge
from recovery.web.access import seated
from recovery.web.sentences import EFFECTS

LONGEST = 256 * 1024
PLAIN = (
    ("write", "Any write, no guarantee", {"effect": "write"}),
    ("natural", "Any write that may be repeated", {"effect": "write", "idempotency": {"guarantee": "natural"}}),
    ("read", "Any read", {"effect": "read"}),
)
"""Contracts to judge by where a tool has none yet."""
EXAMPLE = json.dumps(
    {"kind": "exception", "exception": "ReadTimeout", "phase": "await", "bytes_sent": 812, "request_bytes": 812},
    indent=2,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A contract to judge by."""

    value: str
    label: str
    chosen: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A judgement as the page tells it."""

    action: str
    effect: str
    failure_class: str
    message: str
    hint: str
    rule: str
    source: str
    licence: str
    wait: str
    reading: tuple[tuple[str, str], ...]
    quoted: tuple[str, ...]
    violations: tuple[str, ...]
    passed_over: tuple[tuple[str, str], ...]
    """(rule, why it would have been) of the rules that were asked first and did not hold."""
    agent: str


@seated()
@require_http_methods(["GET", "POST"])
def judge_page(request: HttpRequest, seat: Seat) -> HttpResponse:
    """Shows the form; a POST shows the judgement below it, and keeps what was typed."""
    published = published_contracts(workspace_id=seat.workspace_id)
    observation = request.POST.get("observation", EXAMPLE)
    history = request.POST.get("history", "")
    chosen = request.POST.get("contract", "write")
    shown: Shown | None = None
    wrong: dict[str, str] = {}
    if request.method == "POST":
        shown, wrong = _judged(chosen, observation, history, published)
    context = {
        "section": "judge",
        "choices": _choices(published, chosen),
        "observation": observation,
        "history": history,
        "shown": shown,
        "wrong": wrong,
    }
    return render(request, "judge.html", context, status=422 if wrong else 200)


def _judged(
    chosen: str, observation: str, history: str, published: tuple[PublishedContract, ...]
) -> tuple[Shown | None, dict[str, str]]:
    contract = _contract(chosen, published)
    if contract is None:
        return None, {"contract": "Choose one of the contracts in the list."}
    seen, problem = _parsed(observation, dict, "an object")
    if problem:
        return None, {"observation": problem}
    before, problem = _parsed(history.strip() or "[]", list, "a list of observations, oldest first")
    if problem:
        return None, {"history": problem}
    try:
        judged = judge(contract=contract, history=before, observation=seen, now=database_now(), explain=True)
    except ObservationInvalid as error:
        place = "history" if error.field.startswith("history") else "observation"
        return None, {place: f"{error.field} {error.message}".strip()}
    return _shown(judged), {}


def _contract(chosen: str, published: tuple[PublishedContract, ...]) -> Contract | None:
    for value, _, document in PLAIN:
        if value == chosen:
            return parse_stated_contract(document)
    return next((contract_by_id(one.id) for one in published if str(one.id) == chosen), None)


def _parsed(text: str, kind: type[Any], words: str) -> tuple[Any, str]:
    if len(text) > LONGEST:
        return None, f"More than {LONGEST // 1024} KiB; paste the part that matters."
    try:
        value = parse_strict(text.encode("utf-8", "replace"))
    except NotJson as error:
        return None, f"This is not JSON: {str(error).replace('EOF while parsing', 'it ends inside')}."
    if not isinstance(value, kind) or (kind is list and not all(isinstance(one, dict) for one in value)):
        return None, f"This must be {words}."
    return value, ""


def _shown(judged: Judgement) -> Shown:
    reading, decision = judged.reading, judged.decision
    fired = next(rule for rule, holds in judged.rules if holds)
    passed_over = itertools.takewhile(lambda asked: not asked[1], judged.rules)
    told = for_agent(decision, operation_id="<its id>", ask_again_at=None)
    facts: list[tuple[str, str | None]] = [
        ("Who spoke", reading.speaker.replace("_", " ")),
        ("How far the bytes got", reading.phase.replace("_", " ") if reading.phase else "not known"),
        ("Class", reading.failure_class.replace("_", " ")),
        ("Effect of this attempt alone", reading.effect),
        ("Proof", reading.proof.replace("_", " ") if reading.proof else "none"),
        ("Code", reading.code),
        ("The owner's own code", reading.owner_code),
        ("Member", reading.field),
        ("Wait asked for", reading.retry_after_raw),
        ("Signal", reading.rule),
        ("Looked at", ", ".join(reading.read)),
        ("Left unread", ", ".join(reading.unread)),
    ]
    return Shown(
        action=decision.recovery_action.replace("_", " "),
        effect=EFFECTS[decision.effect_status],
        failure_class=decision.failure_class.replace("_", " "),
        message=decision.message,
        hint=decision.hint,
        rule=decision.rule,
        source=fired.source,
        licence=decision.licence.replace("_", " ") if decision.licence else "",
        wait=_span(decision.retry_after_ms) if decision.retry_after_ms is not None else "",
        reading=tuple((name, value) for name, value in facts if value),
        quoted=reading.quoted,
        violations=reading.violations,
        passed_over=tuple((rule.name, rule.says) for rule, _ in passed_over),
        agent=json.dumps(told, indent=2),
    )


def _span(milliseconds: int) -> str:
    seconds = milliseconds / 1000
    return f"{seconds:g} seconds" if seconds < 600 else f"{seconds / 60:.0f} minutes"


def _choices(published: tuple[PublishedContract, ...], chosen: str) -> tuple[Choice, ...]:
    plain = tuple(Choice(value=value, label=label, chosen=value == chosen) for value, label, _ in PLAIN)
    return plain + tuple(
        Choice(
            value=str(one.id),
            label=f"{one.label} · {one.title}" if one.title else one.label,
            chosen=str(one.id) == chosen,
        )
        for one in published
    )
