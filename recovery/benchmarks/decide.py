"""`decide`: a decision, and everything from an observation's bytes to the answer, ÷ json.loads of the observation.

| line             | ours                                                                                   |
| ---------------- | -------------------------------------------------------------------------------------- |
| `decide/NAME`    | `decide()` alone: the reading, the facts and the contract are there                    |
| `judgement/NAME` | parse, validate, read, ten contract rules, join, decide, and the answer for the agent  |

`decide()` alone cannot meet its target in Python: to build the frozen `Decision` that it answers with (thirteen
members) takes longer than 0.3 × json.loads of a report of this size, before any rule is looked at.
"""

import json
import timeit
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from ledger.rules.contract import Contract, parse_stated_contract
from ledger.rules.evidence import join_effects
from ledger.rules.facts import AttemptFacts, Budget, Facts
from ledger.rules.vocabulary import Effect, Request, State, Verification
from recovery.benchmarks.rounds import Side, compare, line
from recovery.judgement.decide import decide
from recovery.judgement.dialects import for_agent
from recovery.judgement.read import read_observation

LOOPS: Final = 3_000
NOW: Final = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)

_REQUEST: Final = {
    "method": "POST",
    "path": "/tickets",
    "headers": {"content-type": "application/json", "idempotency-key": "ticket:create:case-8472"},
    "idempotency_key": "ticket:create:case-8472",
}
_HEADERS: Final = {
    "content-type": "application/json",
    "date": "Tue, 01 Dec 2026 09:00:00 GMT",
    "server": "nginx",
    "x-request-id": "4bf92f3577b34da6a3ce929d0e0e4736",
    "retry-after": "7",
}
_AROUND: Final = {"observed_at": "2026-12-01T08:59:59Z", "network_attempts": 1}
OBSERVATIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "gateway": {
        "kind": "http",
        "request": _REQUEST,
        "status": 502,
        "headers": _HEADERS,
        "body": {
            "error": {"code": "BAD_GATEWAY", "message": "upstream prematurely closed connection", "trace": "4bf9"}
        },
        "redirects": [],
        "elapsed_ms": 29012,
        **_AROUND,
    },
    "refusal": {
        "kind": "http",
        "request": _REQUEST,
        "status": 422,
        "headers": _HEADERS,
        "body": {"errors": [{"source": {"pointer": "/data/attributes/title"}, "code": "blank", "detail": "is needed"}]},
        "redirects": [],
        "elapsed_ms": 212,
        **_AROUND,
    },
    "lost": {
        "kind": "exception",
        "exception": "ReadTimeout",
        "message": "The read operation timed out after 30 seconds of waiting for the first byte of the answer",
        "phase": "await",
        "bytes_sent": 812,
        "request_bytes": 812,
        "errno": "ETIMEDOUT",
        "reused_socket": False,
        "request": _REQUEST,
        **_AROUND,
    },
}


def run(*, rounds: int = 5) -> Iterator[dict[str, Any]]:
    """Two lines an observation.

    Raises:
        VoidRunError: too few rounds count.
    """
    contract = parse_stated_contract(_contract())
    facts = _facts(contract)
    for name, observation in OBSERVATIONS.items():
        text = json.dumps(observation)
        reference = _timed(lambda text=text: json.loads(text))  # type: ignore[misc] # bound now
        reading = read_observation(observation, contract=contract, earlier=(), now=NOW)
        alone = compare(
            ours=_timed(
                lambda reading=reading: decide(  # type: ignore[misc] # likewise
                    reading=reading, facts=facts, effect=reading.effect, contract=contract, now=NOW
                )
            ),
            reference=reference,
            rounds=rounds,
        )
        yield line(name=f"decide/{name}", rounds=alone, unit="µs", target="≤ 0.3", met=lambda ratio: ratio <= 0.3)
        whole = compare(
            ours=_timed(lambda text=text: judgement(text, contract, facts)),  # type: ignore[misc] # likewise
            reference=reference,
            rounds=rounds,
        )
        yield line(name=f"judgement/{name}", rounds=whole, unit="µs", target="≤ 20", met=lambda ratio: ratio <= 20)


def judgement(text: str, contract: Contract, facts: Facts) -> dict[str, Any]:
    """From an observation's text to what the agent is told."""
    reading = read_observation(json.loads(text), contract=contract, earlier=(), now=NOW)
    effect = join_effects(attempts=(), absence_since=None, kind=contract.effect)
    effect = reading.effect if effect is Effect.NONE else effect
    decision = decide(reading=reading, facts=facts, effect=effect, contract=contract, now=NOW)
    return for_agent(decision, operation_id=facts.operation_id, ask_again_at=decision.not_before)


def _contract() -> dict[str, Any]:
    """Ten error rules: most name a status or a code, one has to look deeper."""
    by_status = [
        {"when": f"status == {status} && body.code == 'X{status}'", "class": "business_rule", "effect": "none"}
        for status in (402, 409, 410, 423, 503)
    ]
    by_code = [
        {"when": f"body.error.code == '{code}'", "class": "business_rule", "effect": "none"}
        for code in ("SLOT_TAKEN", "SOLD_OUT", "CLOSED")
    ]
    return {
        "contract": "tickets.create",
        "effect": "write",
        "owner": "helpdesk",
        "errors": [
            *by_status,
            *by_code,
            {"when": "code == 'SUSPENDED'", "class": "authorization", "effect": "none"},
            {"when": "body.error.code.startsWith('QUOTA_')", "class": "business_rule", "effect": "none"},
        ],
        "lookup": [
            {
                "by": "status",
                "http": {"method": "GET", "path": "/tickets/by-key/{operation_id}"},
                "found": "status == 200",
                "no_match": "status == 404",
                "authoritative": True,
                "sees": "all",
                "lag": "30s",
                "clean_reads": 2,
            }
        ],
    }


def _facts(contract: Contract) -> Facts:
    sent = NOW - timedelta(seconds=30)
    attempt = AttemptFacts(
        attempt_id="attempt-01",
        number=1,
        revision=1,
        digest="sha256:00",
        principal="svc-support",
        idempotency_key=None,
        licence=None,
        opened_at=sent,
        dispatch_by=sent + timedelta(seconds=30),
        lapses_at=sent + timedelta(seconds=62),
        closed_at=NOW,
        effect=Effect.UNKNOWN,
    )
    return Facts(
        operation_id="ticket:create:case-8472",
        tool="tickets.create",
        kind=contract.effect,
        version=2,
        state=State.DISPATCHED,
        request=Request.ACCEPTED,
        effect=Effect.UNKNOWN,
        verification=Verification.NOT_REQUIRED,
        outcome=None,
        revision=1,
        payload_digest="sha256:00",
        principal="svc-support",
        attempts=(attempt,),
        budgets={name: Budget(used=0, limit=3) for name in ("retries", "repairs", "polls", "network_attempts")},
        deadline_at=NOW + timedelta(minutes=15),
        reconcile_until=NOW + timedelta(hours=72),
        first_sent_at=sent,
    )


def _timed(work: Callable[[], Any]) -> Callable[[], Side]:
    def once() -> Side:
        return Side(figure=timeit.timeit(work, number=LOOPS) / LOOPS * 1e6)

    return once
