"""`by: operation`: each convention for long-running work, by a real owner that takes its time."""

from typing import Any

import pytest

from ledger.rules.vocabulary import Effect, LookupOutcome
from recovery.owners.base import Reply
from recovery.owners.operation import OperationLookup
from tests.owners.conformance import OPERATION_ID, question
from tests.owners.scripted import Answer, Received, ScriptedOwner
from tests.owners.stages_http import said

FOUND, NOTHING, FAILED = LookupOutcome.FOUND, LookupOutcome.INCONCLUSIVE, LookupOutcome.LOOKUP_FAILED
AIP = {
    "by": "operation",
    "http": {"at": "operation"},
    "effect": {
        "applied": "body.done == true && has(body.response)",
        "none": "body.done == true && has(body.error)",
        "pending": "!has(body.done) || body.done == false",
    },
}
AZURE = {
    "by": "operation",
    "http": {"path": "/operations/{idempotency_key}"},
    "effect": {
        "applied": "body.status == 'Succeeded'",
        "none": "body.status == 'Failed'",
        "pending": "body.status in ['NotStarted', 'Running']",
    },
}
KUBERNETES = {
    "by": "operation",
    "http": {"path": "/apis/apps/v1/deployments/{payload.customer}"},
    "effect": {
        "applied": "body.status.observedGeneration >= body.metadata.generation && body.status.ready == true",
        "pending": "body.status.observedGeneration < body.metadata.generation || body.status.ready == false",
    },
}
ACCEPTED = {
    "by": "operation",
    "http": {"at": "location"},
    "effect": {"pending": "status == 202", "applied": "status == 200 && body.id != ''"},
}


def ask(owner: ScriptedOwner, rule: dict[str, Any], **receipt: str) -> Reply:
    return OperationLookup().ask(question(rule, base_url=owner.url, receipt=receipt))


STATES = [
    (AIP, {"name": "operations/o-1"}, Effect.PENDING, "done is left out while it runs"),
    (AIP, {"name": "operations/o-1", "done": False}, Effect.PENDING, "or said to be false"),
    (AIP, {"done": True, "response": {}}, Effect.APPLIED, "done, with its response"),
    (AIP, {"done": True, "error": {"code": 6}}, Effect.NONE, "done, with its error"),
    (AIP, {"done": True}, None, "done, and neither: nobody knows"),
    (AZURE, {"status": "Running"}, Effect.PENDING, "running"),
    (AZURE, {"status": "Succeeded"}, Effect.APPLIED, "succeeded"),
    (AZURE, {"status": "Failed", "error": {}}, Effect.NONE, "failed, where the contract says that this means none"),
    (AZURE, {"status": "Canceled"}, None, "cancelled half-way: the contract does not know"),
    (KUBERNETES, {"metadata": {"generation": 2}, "status": {"observedGeneration": 1, "ready": True}}, Effect.PENDING,
     "ready, but in the generation before"),
    (KUBERNETES, {"metadata": {"generation": 2}, "status": {"observedGeneration": 2, "ready": True}}, Effect.APPLIED,
     "ready, in this one"),
    (KUBERNETES, {"metadata": {"generation": 2}, "status": {}}, None, "nobody has looked at it yet"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "body", "effect", "why"), STATES, ids=[why for *_, why in STATES])
def test_states(owner: ScriptedOwner, rule: dict[str, Any], body: Any, effect: Effect | None, why: str) -> None:
    owner.answer = said(body)
    reply = ask(owner, rule, operation="/operations/o-1")
    assert reply.effect is effect, why
    assert reply.outcome is (NOTHING if effect is None else FOUND)


HANDLES = [
    ("operations/o-1", "/v1/operations/o-1", "the name of an AIP-151 operation, below the owner's address"),
    ("/jobs/7?sig=s3cret", "/jobs/7", "from the owner's root"),
    ("{root}/jobs/7?sig=s3cret", "/jobs/7", "whole, as Operation-Location is"),
]


@pytest.mark.parametrize(("handle", "path", "why"), HANDLES)
def test_handles(owner: ScriptedOwner, handle: str, path: str, why: str) -> None:
    owner.answer = said({"done": True, "response": {}})
    asked = question(AIP, base_url=f"{owner.url}/v1", receipt={"operation": handle.format(root=owner.url)})
    reply = OperationLookup().ask(asked)
    assert (reply.outcome, owner.received[0].path) == (FOUND, path), why
    assert "s3cret" not in reply.query, "an owner's address may carry a signature"


def test_a_handle_of_another_host_is_asked_only_where_it_is_listed(
    owner: ScriptedOwner, elsewhere: ScriptedOwner
) -> None:
    elsewhere.answer = said({"done": True, "response": {}})
    receipt = {"operation": f"{elsewhere.url}/operations/o-1"}
    reply = OperationLookup().ask(question(AIP, base_url=owner.url, receipt=receipt))
    assert reply.outcome is FAILED
    assert "not among the hosts" in reply.reason
    assert elsewhere.received == []
    hosts = frozenset({f"127.0.0.1:{elsewhere.port}"})
    reply = OperationLookup().ask(question(AIP, base_url=owner.url, hosts=hosts, receipt=receipt))
    assert reply.outcome is FOUND


def test_a_handle_that_we_chose_cannot_be_lost(owner: ScriptedOwner) -> None:
    owner.answer = said({"status": "Succeeded"})
    assert ask(owner, AZURE).outcome is FOUND
    assert owner.received[0].path == f"/operations/{OPERATION_ID.replace(':', '%3A')}"


def test_202_then_303_to_the_result(owner: ScriptedOwner) -> None:
    answers = {
        "/jobs/7": Answer(status=202, body={}, headers={"Retry-After": "5"}),
        "/tickets/t-1": Answer(body={"id": "t-1"}),
    }
    owner.answer = lambda received: answers[received.path]
    reply = ask(owner, ACCEPTED, location="/jobs/7")
    assert (reply.outcome, reply.effect, reply.retry_after_ms) == (FOUND, Effect.PENDING, 5_000)
    answers["/jobs/7"] = Answer(status=303, body={}, headers={"Location": "/tickets/t-1"})
    reply = ask(owner, ACCEPTED, location="/jobs/7")
    assert (reply.outcome, reply.effect, reply.receipt) == (FOUND, Effect.APPLIED, {"id": "t-1"})


GONE = [(404, "not known"), (410, "gone")]


@pytest.mark.parametrize(("status", "why"), GONE)
def test_an_expired_handle_is_no_absence(owner: ScriptedOwner, status: int, why: str) -> None:
    owner.answer = said({"status": "Succeeded", "done": True, "response": {}}, status=status)
    for rule in (AIP, AZURE):
        reply = ask(owner, rule, operation="/operations/o-1")
        assert reply.outcome is NOTHING, why
        assert "expired" in reply.reason


ERRORS = [(403, FAILED), (400, NOTHING), (302, NOTHING), (500, FAILED), (429, FAILED)]


@pytest.mark.parametrize(("status", "outcome"), ERRORS)
def test_an_error_says_nothing_of_the_operation(owner: ScriptedOwner, status: int, outcome: LookupOutcome) -> None:
    owner.answer = said({"status": "Failed", "done": True, "error": {}}, status=status)
    assert ask(owner, AZURE).outcome is outcome


def test_redirects_in_a_circle_end(owner: ScriptedOwner) -> None:
    def answer(received: Received) -> Answer:
        return Answer(status=303, body={"id": "t-1"}, headers={"Location": received.path})

    owner.answer = answer
    assert ask(owner, ACCEPTED, location="/jobs/7").outcome is NOTHING
    assert len(owner.received) == 4


def test_a_login_page_is_no_result(owner: ScriptedOwner) -> None:
    rule = {**ACCEPTED, "effect": {"pending": "status == 202", "applied": "status == 200"}}
    owner.answer = said("<h1>Sign in</h1>", **{"Content-Type": "text/html"})
    assert ask(owner, rule, location="/jobs/7").outcome is NOTHING
    owner.answer = said("", **{"Content-Type": "text/plain"})
    assert ask(owner, rule, location="/jobs/7").outcome is FOUND
