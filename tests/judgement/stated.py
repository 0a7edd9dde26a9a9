"""Contracts, facts and times that the judgement tests share."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from ledger.rules.contract import Contract, parse_stated_contract
from ledger.rules.facts import AttemptFacts, Budget, Facts
from ledger.rules.vocabulary import Effect, EffectKind, Request, State, Verification
from recovery.judgement.stateless import Judgement, judge

NOW = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)

WRITE = {"effect": "write", "idempotency": {"guarantee": "none"}}
READ = {"effect": "read"}
NATURAL = {"effect": "write", "idempotency": {"guarantee": "natural"}}
KEYED = {"effect": "write", "idempotency": {"guarantee": "key", "retention": "24h"}}
BATCH = {"effect": "batch", "idempotency": {"guarantee": "none"}}
LOOKUP = {
    "by": "status",
    "http": {"method": "GET", "path": "/things/{operation_id}"},
    "found": "status == 200",
    "no_match": "status == 404",
    "authoritative": True,
    "sees": "all",
    "lag": "30s",
    "clean_reads": 2,
}


def judged(
    observation: Mapping[str, Any],
    *,
    contract: Mapping[str, Any] = WRITE,
    history: Sequence[Mapping[str, Any]] = (),
    now: datetime = NOW,
) -> Judgement:
    return judge(contract=parse_stated_contract(contract), history=history, observation=observation, now=now)


def answer(status: int, body: Any = None, /, **more: Any) -> dict[str, Any]:
    shown = {} if body is None else {"body": body}
    return {"kind": "http", "status": status, **shown, **more}


def broke(name: str = "ReadTimeout", /, **more: Any) -> dict[str, Any]:
    return {"kind": "exception", "exception": name, **more}


def attempt(number: int = 1, *, effect: Effect = Effect.UNKNOWN, **more: Any) -> AttemptFacts:
    opened = NOW - timedelta(minutes=10 - number)
    values: dict[str, Any] = {
        "attempt_id": f"attempt-{number:02d}",
        "number": number,
        "revision": 1,
        "digest": "sha256:00",
        "principal": "svc",
        "idempotency_key": "op-1",
        "licence": None,
        "opened_at": opened,
        "dispatch_by": opened + timedelta(seconds=30),
        "lapses_at": opened + timedelta(seconds=62),
        "closed_at": opened + timedelta(seconds=10),
        "effect": effect,
    }
    return AttemptFacts(**{**values, **more})


def facts(contract: Contract, *attempts: AttemptFacts, **more: Any) -> Facts:
    """An operation of the ledger (version 4) with nothing spent."""
    values: dict[str, Any] = {
        "operation_id": "op-1",
        "tool": "things.create",
        "kind": contract.effect,
        "version": 4,
        "state": State.DISPATCHED,
        "request": Request.ACCEPTED,
        "effect": Effect.NONE if contract.effect is EffectKind.READ else Effect.UNKNOWN,
        "verification": Verification.NOT_REQUIRED,
        "outcome": None,
        "revision": 1,
        "payload_digest": "sha256:00",
        "principal": "svc",
        "attempts": attempts or (attempt(),),
        "budgets": {name: Budget(used=0, limit=3) for name in ("retries", "repairs", "polls", "network_attempts")},
        "deadline_at": NOW + timedelta(minutes=15),
        "reconcile_until": NOW + timedelta(hours=72),
        "first_sent_at": NOW - timedelta(minutes=9),
    }
    return Facts(**{**values, **more})
