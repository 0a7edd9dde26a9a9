"""How does the same operation end when Ascertain's own judgement decides?

Nothing here judges. The permit is `ledger.rules.permits`, the reading and the decision are `recovery.judgement`, the
grade of a lookup is `ledger.rules.evidence`, the repair is `ledger.rules.revisions`; what stands in the database
otherwise is held in memory here, as `recovery/report.py` and `recovery/reconcile.py` do it there.

| tool                | told by        | how a transient refusal is documented in its contract            |
| ------------------- | -------------- | ----------------------------------------------------------------- |
| read, write         | HTTP answers   | 503 with the code TRANSIENT is given before anything is done       |
| read, write         | envelopes      | the code TRANSIENT is given before anything is done                |

The harness does what it is told: it repairs only a member that the decision names, and stops where it is told to ask
for a permission or for another target.
"""

import random
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

from ledger.rules.attempts import attempt_after, covered
from ledger.rules.budgets import limits
from ledger.rules.contract import Contract, idempotency_key, parse_contract
from ledger.rules.decision import Decision
from ledger.rules.evidence import grade_lookup, join_effects
from ledger.rules.facts import AttemptFacts, Budget, Facts, LookupFacts
from ledger.rules.lifecycle import ASKED, state_after
from ledger.rules.payload import digest
from ledger.rules.permits import may_dispatch
from ledger.rules.revisions import RevisionKind, may_revise
from ledger.rules.vocabulary import Action, Effect, LookupOutcome, Outcome, Request, State, Verification
from recovery.benchmarks.recovery_cases import (
    ANSWER_TAKES,
    PERMANENT,
    TIMEOUT,
    Answer,
    Failure,
    Operation,
    Owner,
    Repair,
)
from recovery.benchmarks.recovery_controllers import Ended, Said
from recovery.judgement.decide import decide, decide_lookup
from recovery.judgement.read import read_observation

_BEGAN: Final = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
_PRINCIPAL: Final = "svc-support"
_BUDGETS: Final = {"retries": 1, "repairs": 1, "network_attempts": 2}
"""One recovery attempt at most, as the other strategies have it; lookups are no requests of the operation."""
_LOOKUP: Final = {
    "by": "status",
    "http": {"method": "GET", "path": "/tickets/by-key/{idempotency_key}"},
    "found": "status == 200",
    "no_match": "status == 404",
    "authoritative": True,
    "sees": "all",
    "lag": "30s",
    "clean_reads": 2,
}
_REFUSALS: Final[Mapping[Failure, tuple[int, str, Mapping[str, Any]]]] = {
    Failure.TRANSIENT: (503, "The queue is full; nothing was taken.", {"retryAfterMs": 1000}),
    Failure.VALIDATION: (422, "due is no date.", {"field": "due", "suggestion": "Write it as 2026-12-04."}),
    Failure.PERMISSION: (403, "The token may not create tickets.", {}),
    Failure.NOT_FOUND: (404, "There is no such queue.", {}),
}


@cache
def tool(*, reads: bool, envelopes: bool) -> Contract:
    """The contract of one of the four tools."""
    refused = "body.code == 'TRANSIENT'" if envelopes else "status == 503 && body.code == 'TRANSIENT'"
    document: dict[str, Any] = {
        "contract": f"tickets.{'find' if reads else 'create'}.{'envelope' if envelopes else 'http'}",
        "owner": "helpdesk",
        "effect": "read" if reads else "write",
        "errors": [{"when": refused, "class": "transient", "effect": "none", "code": "QUEUE_FULL"}],
        "budgets": _BUDGETS,
        "timeout": f"{TIMEOUT:.0f}s",
        "dispatch_within": f"{TIMEOUT:.0f}s",
    }
    if not reads:
        document |= {
            "identity": ["reference"],
            "idempotency": {"guarantee": "none", "field": "header:Idempotency-Key"},
            "lookup": [_LOOKUP],
        }
        if not envelopes:
            document["success"] = "status == 201"
    return parse_contract(document)


def judged(operation: Operation, *, loses: bool) -> Ended:
    """Runs one operation under our own judgement. Where answers get lost every tool is a write told by HTTP."""
    if loses:
        return _Desk(operation, tool(reads=False, envelopes=False), envelopes=False, loses=True).run()
    reads, envelopes = operation.number % 4 < 2, operation.number % 2 == 0
    return _Desk(operation, tool(reads=reads, envelopes=envelopes), envelopes=envelopes, loses=False).run()


class _Desk:
    """One operation, the harness that carries it out, and a clock."""

    def __init__(self, operation: Operation, contract: Contract, *, envelopes: bool, loses: bool) -> None:
        self._contract = contract
        self._envelopes = envelopes
        self._owner = Owner(operation, loses=loses)
        self._refused: Failure | None = None
        self._dice = random.Random(operation.seed + 1)  # noqa: S311 - spreads waits
        self._now = _BEGAN
        self._payload = {"reference": operation.name, "due": "next Friday"}
        self._repair: Repair | None = None
        self._decision: Decision | None = None
        self._failed = self._permanent = 0
        self._asked_a_person = False
        self._facts = Facts(
            operation_id=operation.name,
            tool=contract.contract,
            kind=contract.effect,
            version=1,
            state=State.OPEN,
            request=Request.NOT_SENT,
            effect=Effect.NONE,
            verification=Verification.NOT_REQUIRED,
            outcome=None,
            revision=1,
            payload_digest=digest(self._payload),
            principal=_PRINCIPAL,
            budgets={name: Budget(used=0, limit=limit) for name, limit in limits(contract).items()},
            deadline_at=_BEGAN + contract.deadline,
            reconcile_until=_BEGAN + contract.reconcile_until,
        )

    def run(self) -> Ended:
        """Until it is settled, the harness has nothing more that it may do, or nobody can be asked any more."""
        while self._step():
            pass
        facts = self._facts
        if facts.effect is Effect.APPLIED or (facts.is_read and self._read_was_answered()):
            said = Said.DONE
        else:
            said = Said.FAILED if facts.effect is Effect.NONE else Said.UNKNOWN
        return Ended(
            said=said,
            requests=self._owner.requests,
            failed_repeats=self._failed,
            permanent_repeats=self._permanent,
            effects=self._owner.effects,
            lost=self._owner.lost > 0,
            seconds=(self._now - _BEGAN).total_seconds(),
            asked_a_person=self._asked_a_person,
        )

    def _step(self) -> bool:
        state, decision = self._facts.state, self._decision
        if decision is not None and decision.not_before is not None and state in (State.WAITING, *ASKED):
            self._now = max(self._now, decision.not_before)
        if state is State.WAITING:
            self._set(state=State.OPEN)
            return True
        if state in (State.RECONCILING, State.ESCALATED):
            return self._look()
        if state is not State.OPEN:
            return False
        if decision is not None and decision.recovery_action is Action.REPAIR and not self._revise(decision):
            return False
        return self._dispatch()

    def _dispatch(self) -> bool:
        facts, contract = self._facts, self._contract
        terms = may_dispatch(facts=facts, contract=contract, decision=self._decision, holder=None, now=self._now)
        if isinstance(terms, Decision):
            return False
        number = len(facts.attempts) + 1
        attempt = AttemptFacts(
            attempt_id=f"attempt-{number:02d}",
            number=number,
            revision=facts.revision,
            digest=facts.payload_digest,
            principal=facts.principal,
            idempotency_key=idempotency_key(contract, operation_id=facts.operation_id, revision=facts.revision),
            licence=terms.licence,
            opened_at=self._now,
            dispatch_by=terms.dispatch_by,
            lapses_at=terms.lapses_at,
            closed_at=None,
            effect=Effect.UNKNOWN,
            network_attempts=0,
        )
        self._set(
            state=State.DISPATCHED,
            effect=Effect.NONE if facts.is_read else Effect.UNKNOWN,
            attempts=(*facts.attempts, attempt),
            first_sent_at=facts.first_sent_at or self._now,
            clean_reads=0,
            absence_since=None,
        )
        self._count("retries", 1 if terms.kind == "retry" else 0)
        answer = self._owner.receive(at=(self._now - _BEGAN).total_seconds(), repair=self._repair)
        if number > 1:
            self._failed += int(answer.lost or answer.failure is not None)
            self._permanent += int(self._refused in PERMANENT)
        self._refused = answer.failure
        self._now += timedelta(seconds=TIMEOUT if answer.lost else ANSWER_TAKES)
        self._report(answer)
        return True

    def _report(self, answer: Answer) -> None:
        facts, contract = self._facts, self._contract
        *earlier, last = facts.attempts
        reading = read_observation(
            self._observation(answer, key=last.idempotency_key),
            contract=contract,
            earlier=tuple(earlier),
            now=self._now,
        )
        told = attempt_after(
            last,
            effect=reading.effect,
            proof=reading.proof,
            failure_class=reading.failure_class,
            network_attempts=reading.network_attempts,
            now=self._now,
        )
        attempts = (*earlier, told)
        effect = join_effects(attempts=attempts, absence_since=None, kind=facts.kind)
        facts = replace(facts, attempts=attempts)
        decision = decide(
            reading=reading, facts=facts, effect=effect, contract=contract, now=self._now, roll=self._dice.random()
        )
        self._set(attempts=attempts)
        self._count("network_attempts", reading.network_attempts)
        self._follow(decision, effect)

    def _look(self) -> bool:
        facts, lookup = self._facts, self._contract.compiled.lookups[0]
        until = facts.reconcile_until
        if self._decision is None or self._decision.not_before is None or (until is not None and self._now >= until):
            return False
        matches = self._owner.asked(at=(self._now - _BEGAN).total_seconds())
        started_at, self._now = self._now, self._now + timedelta(seconds=ANSWER_TAKES)
        told = LookupFacts(
            source="helpdesk/status",
            by=lookup.rule.by.value,
            answer=_answered(matches).value,
            started_at=started_at,
            observed_at=self._now,
            exact_key=True,
            authoritative=lookup.rule.authoritative,
            complete=matches is not None,
            sees=lookup.rule.sees.value,
            matches=matches or 0,
            effect=Effect.APPLIED if matches else None,
            principal=_PRINCIPAL,
        )
        grade = grade_lookup(lookup=told, rule=lookup.rule, facts=facts)
        attempts = facts.attempts
        if grade.effect is not None:
            attempts = covered(attempts, effect=grade.effect, proof=grade.proof)
        absence = grade.absence_since if grade.absent else None
        effect = join_effects(attempts=attempts, absence_since=absence, kind=facts.kind)
        decision = decide_lookup(
            grade=grade,
            lookup=told,
            facts=facts,
            effect=effect,
            contract=self._contract,
            now=self._now,
            roll=self._dice.random(),
        )
        self._set(attempts=attempts, clean_reads=grade.clean_reads, absence_since=grade.absence_since)
        self._count("polls", 1)
        self._follow(decision, effect)
        return True

    def _revise(self, decision: Decision) -> bool:
        if decision.field is None:
            # The decision names no member, so there is nothing that could be corrected without guessing.
            return False
        after = {**self._payload, decision.field: "2026-12-04"}
        refusal = may_revise(
            kind=RevisionKind.REPAIR,
            facts=self._facts,
            decision=decision,
            before=self._payload,
            after=after,
            same_identity=True,
            now=self._now,
        )
        if refusal is not None:
            return False
        self._payload, self._repair, self._decision = after, Repair.FIELD_AND_HINT, None
        self._set(revision=self._facts.revision + 1, payload_digest=digest(after), first_sent_at=None)
        self._count("repairs", 1)
        return True

    def _follow(self, decision: Decision, effect: Effect) -> None:
        state, outcome = state_after(
            action=decision.recovery_action,
            effect=effect,
            kind=self._facts.kind,
            not_before=decision.not_before,
            now=self._now,
        )
        self._asked_a_person = self._asked_a_person or state is State.ESCALATED
        self._decision = decision
        self._set(
            state=state,
            outcome=outcome,
            effect=effect,
            request=decision.request,
            escalated=state is State.ESCALATED,
        )

    def _read_was_answered(self) -> bool:
        done = self._decision is not None and self._decision.recovery_action is Action.DONE
        return done and self._facts.outcome is Outcome.READ

    def _set(self, **changed: Any) -> None:
        self._facts = replace(self._facts, version=self._facts.version + 1, **changed)

    def _count(self, name: str, more: int) -> None:
        budget = self._facts.budgets[name]
        self._set(budgets={**self._facts.budgets, name: replace(budget, used=budget.used + more)})

    def _observation(self, answer: Answer, *, key: str | None) -> dict[str, Any]:
        request = {"method": "POST", "path": "/tickets", "idempotency_key": key}
        if answer.lost:
            return {
                "kind": "exception",
                "exception": "ReadTimeout",
                "phase": "await",
                "bytes_sent": 310,
                "request_bytes": 310,
                "request": request,
            }
        if answer.failure is None:
            body: dict[str, Any] = {"ok": True, "data": {"id": "t-1"}} if self._envelopes else {"id": "t-1"}
            return self._told(201, body, request)
        status, message, more = _REFUSALS[answer.failure]
        body = {
            "code": answer.failure.value,
            "message": message,
            "retryable": answer.failure is Failure.TRANSIENT,
            "traceId": "4bf92f3577b34da6",
            **more,
        }
        return self._told(status, body, request)

    def _told(self, status: int, body: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
        if self._envelopes:
            return {"kind": "envelope", "body": body}
        return {"kind": "http", "request": request, "status": status, "body": body}


def _answered(matches: int | None) -> LookupOutcome:
    if matches is None:
        return LookupOutcome.LOOKUP_FAILED
    return LookupOutcome.FOUND if matches else LookupOutcome.NO_MATCH
