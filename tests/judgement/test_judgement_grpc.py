"""What a gRPC status proves: a row a signal, with its reason."""

import pytest
from stated import NATURAL, READ, WRITE, broke, judged

from recovery.judgement.reading import ObservationInvalid

UNKNOWN = ("unknown_outcome", "unknown", "reconcile")


def rpc(status, /, **more):
    return {"kind": "grpc", "status": status, **more}


def detail(**members):
    return [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", **members}]


ROWS = [
    (rpc("OK"), ("success", "applied", "done"), "done"),
    (rpc("INVALID_ARGUMENT"), ("invalid_request", "none", "repair"), "refused because of the arguments"),
    (rpc("OUT_OF_RANGE"), ("invalid_request", "none", "repair"), "likewise"),
    (rpc("UNIMPLEMENTED"), ("invalid_request", "none", "stop"), "no such method here"),
    (rpc("UNAUTHENTICATED"), ("authorization", "none", "authorize"), "no valid credential"),
    (rpc("PERMISSION_DENIED"), ("authorization", "none", "authorize"), "no permission"),
    (rpc("RESOURCE_EXHAUSTED"), ("transient", "none", "retry"), "a limiter refused"),
    (rpc("RESOURCE_EXHAUSTED", reason="grpc: received message larger than max (6291456 vs. 4194304)"), UNKNOWN,
     "it is the answer that was too large: the owner had acted"),
    (rpc("NOT_FOUND"), ("not_found", "none", "repair"), "the addressed thing is not there"),
    (rpc("ALREADY_EXISTS"), ("state_conflict", "none", "refresh"), "our first try: somebody else's"),
    (rpc("ABORTED"), ("state_conflict", "none", "refresh"), "AIP-154: read, modify and write again"),
    (rpc("FAILED_PRECONDITION"), ("business_rule", "none", "stop"), "not before the state is put right"),
    (rpc("CANCELLED"), UNKNOWN, "a cancel undoes nothing"),
    (rpc("DEADLINE_EXCEEDED"), UNKNOWN, "may come after the operation has completed"),
    (rpc("UNAVAILABLE"), UNKNOWN, "no guarantee that the server has seen nothing"),
    (rpc("INTERNAL"), UNKNOWN, "broken somewhere"),
    (rpc("UNKNOWN"), UNKNOWN, "by its own name"),
    (rpc("DATA_LOSS"), UNKNOWN, "what was lost is not said"),
    (rpc("SOMETHING_NEW"), UNKNOWN, "a name that does not exist"),
    (rpc(3), ("invalid_request", "none", "repair"), "by its number"),
    (rpc("14"), UNKNOWN, "by its number as text"),
    (rpc("StatusCode.ABORTED"), ("state_conflict", "none", "refresh"), "as Python prints it"),
    (rpc("INVALID_ARGUMENT", details=detail(reason="INTERNAL")), UNKNOWN, "a detail that does not know"),
    (rpc("FAILED_PRECONDITION", details=detail(reason="RATE_LIMIT_EXCEEDED")), ("business_rule", "none", "stop"),
     "a detail never turns a refusal into one that is sent again"),
    (rpc("RESOURCE_EXHAUSTED", network_attempts=3), UNKNOWN, "the refusal speaks for the last of three requests"),
]  # fmt: skip


@pytest.mark.parametrize(("seen", "expected", "why"), ROWS)
def test_a_write(seen, expected, why):
    judgement = judged(seen)
    decision = judgement.decision
    assert (decision.failure_class, judgement.reading.effect, decision.recovery_action) == expected, why


AFTER_OURS = ["ALREADY_EXISTS", "ABORTED", "NOT_FOUND", "FAILED_PRECONDITION", "INVALID_ARGUMENT"]


@pytest.mark.parametrize("status", AFTER_OURS)
def test_after_an_open_attempt_of_ours_nothing_is_closed(status):
    decision = judged(rpc(status), history=[broke(phase="await")]).decision
    assert (decision.effect_status, decision.recovery_action) == ("unknown", "reconcile")


def test_an_unavailable_read_and_a_harmless_write_are_asked_again():
    assert judged(rpc("UNAVAILABLE"), contract=READ).decision.recovery_action == "retry"
    decision = judged(rpc("UNAVAILABLE"), contract=NATURAL).decision
    assert (decision.recovery_action, decision.effect_status, decision.licence) == (
        "retry", "unknown", "natural_idempotency",
    )  # fmt: skip


def test_the_wait_and_the_field_of_the_details():
    waits = judged(rpc("RESOURCE_EXHAUSTED", details=[{"retryDelay": "3.5s"}])).decision
    assert waits.retry_after_ms == 3_500
    violations = [{"fieldViolations": [{"field": "book.title", "description": "needed"}]}]
    assert judged(rpc("INVALID_ARGUMENT", details=violations)).decision.field == "book.title"


def test_a_contracts_rule_sees_the_status_as_code():
    rule = {"when": "code == 'UNAVAILABLE'", "class": "transient", "effect": "none"}
    assert judged(rpc("UNAVAILABLE"), contract={**WRITE, "errors": [rule]}).decision.recovery_action == "retry"


@pytest.mark.parametrize(("seen", "member"), [
    ({"kind": "grpc"}, "status"), (rpc(17), "status"), (rpc(True), "status"), (rpc("OK", call=1), "call"),
    (rpc("OK", details={}), "details"), (rpc("OK", reason=1), "reason"),
])  # fmt: skip
def test_a_wrong_shape_names_the_member(seen, member):
    with pytest.raises(ObservationInvalid) as caught:
        judged(seen)
    assert caught.value.field == member
