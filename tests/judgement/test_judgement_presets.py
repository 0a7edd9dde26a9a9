"""What each preset makes of its owner's documented answers: a row an answer, with the reason.

A preset is taken in with the example of every value that it asks for, as a contract would, and the answer is read as
one that a harness reports.
"""

from typing import Any

import pytest

from ledger.rules.contract import Contract, parse_contract
from ledger.rules.presets import preset, preset_names
from ledger.rules.vocabulary import Effect, FailureClass
from recovery.judgement.read import read_observation
from tests.judgement.stated import NOW, answer, attempt, broke


def with_preset(name: str) -> Contract:
    values = {parameter: about.example for parameter, about in preset(name).parameters.items()}
    return parse_contract(
        {"contract": "things.create", "effect": "write", "owner": "things", "preset": name, "with": values}
        if values
        else {"contract": "things.create", "effect": "write", "owner": "things", "preset": name}
    )


JSON = {"content-type": "application/json"}
REPLAYED = {"idempotent-replayed": "true"}
UNREACHED = broke("ConnectError", phase="connect", bytes_sent=0)
DROPPED = broke("RemoteProtocolError", phase="await", bytes_sent=400)

IN_FLIGHT = ("state_conflict", "pending", "KEY_IN_USE")
KEY_REUSED = ("invalid_request", "none", "KEY_REUSED")
LIMITED = ("transient", "none", "RATE_LIMITED")
LOST = ("unknown_outcome", "unknown", "CONNECTION_LOST")
DONE = ("success", "applied", "DONE")
RUNNING = ("success", "pending", "IN_PROGRESS")
INVALID = ("invalid_request", "none", "INVALID_REQUEST")
FORBIDDEN = ("authorization", "none", "FORBIDDEN")
STORED = ("unknown_outcome", "unknown", "STORED_FAILURE")
SERVER_ERROR = ("unknown_outcome", "unknown", "SERVER_ERROR")


def shopify(code: str) -> dict[str, Any]:
    """A mutation's answer with one user error."""
    return answer(200, {"data": {"refundCreate": {"refund": None, "userErrors": [{"code": code, "field": None}]}}})


def ack(**members: Any) -> dict[str, Any]:
    """What a JetStream server answers a publisher."""
    return {"kind": "envelope", "body": members}


def jsonrpc(code: int, raised_by: str) -> dict[str, Any]:
    return {"kind": "jsonrpc", "error": {"code": code, "message": "…"}, "raised_by": raised_by}


def tool(**result: Any) -> dict[str, Any]:
    return {"kind": "mcp", "result": result}


ROWS: dict[str, list[tuple[tuple[str, str, str], dict[str, Any], str]]] = {
    "http-idempotency-key": [
        (IN_FLIGHT, answer(409, {"title": "A request is outstanding for this key"}), "draft 2.7: the first one is still processed"),
        (KEY_REUSED, answer(422, {"type": "https://x.example/idempotency_conflict"}), "draft 2.7: known key, other payload; nothing was done"),
        (INVALID, answer(400, {"type": "https://x.example/idempotency_key_required"}), "draft 2.7: the key is missing"),
        (LOST, DROPPED, "no answer proves nothing, with or without a key"),
    ],
    "stripe-v1": [
        (IN_FLIGHT, answer(409, {"error": {"code": "idempotency_key_in_use", "type": "idempotency_error"}}), "another request with the key is running"),
        (("invalid_request", "none", "STRIPE_KEY_REUSED"), answer(400, {"error": {"type": "idempotency_error", "message": "Keys for idempotent requests …"}}),
         "a known key with other parameters is refused"),
        (DONE, answer(200, {"id": "ch_1", "object": "charge"}, headers=REPLAYED), "the stored success of the first request"),
        (STORED, answer(500, {"error": {"type": "api_error"}}, headers=REPLAYED), "a stored 500: it began to execute, so it is looked up"),
        (LIMITED, answer(429, {"error": {"type": "invalid_request_error", "code": "rate_limit"}}), "the limiter refuses before executing; it is not stored"),
        (("business_rule", "none", "BUSINESS_RULE"), answer(402, {"error": {"type": "card_error", "code": "card_declined"}}),
         "the card is declined: nothing is charged"),
    ],
    "stripe-v2": [
        (IN_FLIGHT, answer(409, {"error": {"code": "idempotency_error"}}), "another request with the key is running"),
        (KEY_REUSED, answer(400, {"error": {"code": "idempotency_error"}}), "a known key with other contents"),
        (SERVER_ERROR, answer(500, {"error": {"code": "internal_error"}}), "failed work may have begun; a repeat would do it again"),
        (DONE, answer(200, {"id": "acct_1"}), "done"),
    ],
    "adyen": [
        (IN_FLIGHT, answer(422, {"errorCode": "704"}, headers={"transient-error": "true"}), "the same request is processed already"),
        (INVALID, answer(422, {"errorCode": "708", "errorType": "validation"}), "refused because of its contents"),
        (RUNNING, answer(200, {"pspReference": "P1", "resultCode": "Authorised"}),
         "an authorisation holds the money; whether that is enough, the contract's own success rule says"),
        (LIMITED, answer(429), "refused before acting"),
        (("authorization", "none", "UNAUTHENTICATED"), answer(401, {"errorType": "security"}), "the credential was refused"),
    ],
    "paypal": [
        (("invalid_request", "none", "PAYPAL_KEY_REUSED"), answer(422, {"name": "DUPLICATE_REQUEST_ID"}), "a known request id with other contents"),
        (("invalid_request", "none", "PAYPAL_KEY_REUSED"), answer(400, {"name": "PAYPAL_REQUEST_ID_PREVIOUSLY_USED"}), "its other name"),
        (DONE, answer(201, {"id": "O1", "status": "CREATED"}), "the order is there"),
        (LIMITED, answer(429, {"name": "RATE_LIMIT_REACHED"}), "refused before acting"),
        (SERVER_ERROR, answer(500, {"name": "INTERNAL_SERVER_ERROR"}), "it may have acted"),
    ],
    "square": [
        (KEY_REUSED, answer(400, {"errors": [{"category": "INVALID_REQUEST_ERROR", "code": "IDEMPOTENCY_KEY_REUSED"}]}), "a known key with other contents"),
        (LIMITED, answer(429, {"errors": [{"category": "RATE_LIMIT_ERROR", "code": "RATE_LIMITED"}]}), "refused before acting"),
        (DONE, answer(200, {"payment": {"id": "p1", "status": "COMPLETED"}}), "paid"),
    ],
    "shopify-graphql": [
        (IN_FLIGHT, shopify("IDEMPOTENCY_CONCURRENT_REQUEST"), "errors come with 200; the first one is running"),
        (("invalid_request", "none", "SHOPIFY_KEY_REUSED"), shopify("IDEMPOTENCY_KEY_PARAMETER_MISMATCH"),
         "a known key with other arguments"),
        (("unknown_outcome", "unknown", "SHOPIFY_ATTEMPT_FAILED"), shopify("IDEMPOTENCY_PREVIOUS_ATTEMPT_FAILED"),
         "what the failed attempt did is not told"),
        (LIMITED, answer(200, {"errors": [{"message": "Throttled", "extensions": {"code": "THROTTLED"}}]}), "the cost limiter refused"),
        (DONE, answer(200, {"data": {"refundCreate": {"refund": {"id": "gid://1"}, "userErrors": []}}}), "no user errors"),
    ],
    "zendesk": [
        (IN_FLIGHT, answer(409, {"error": "IdempotentRequestInProgress"}), "the first one is running"),
        (("invalid_request", "none", "ZENDESK_KEY_REUSED"), answer(400, {"error": "IdempotentRequestError", "description": "…"}),
         "a known key with other contents"),
        (DONE, answer(201, {"ticket": {"id": 1}}, headers={"x-idempotency-lookup": "hit"}), "the stored success"),
        (DONE, answer(201, {"ticket": {"id": 1}}, headers={"x-idempotency-lookup": "miss"}), "a new ticket"),
        (INVALID, answer(422, {"error": "RecordInvalid", "details": {"subject": [{"error": "BlankValue"}]}}), "refused because of a field"),
    ],
    "aws-client-token": [
        (KEY_REUSED, answer(400, {"__type": "IdempotentParameterMismatch"}), "a known token with other parameters"),
        (IN_FLIGHT, answer(400, {"__type": "com.amazonaws.dynamodb.v20120810#TransactionInProgressException"}), "DynamoDB: the same transaction runs"),
        (("unknown_outcome", "unknown", "AWS_TOKEN_KNOWN"), answer(400, {"__type": "ConflictException", "resourceIds": ["arn:aws:ecs:eu-west-1:1:task/1"]}),
         "ECS names what the token made: compare it"),
        (LIMITED, answer(400, {"__type": "ThrottlingException"}), "refused before acting"),
        (LIMITED, answer(400, "<Response><Errors><Error><Code>RequestLimitExceeded</Code></Error></Errors></Response>"), "EC2 says it in XML"),
    ],
    "aws-named": [
        (("unknown_outcome", "unknown", "AWS_NAME_TAKEN"), answer(400, {"__type": "ExecutionAlreadyExists"}), "perhaps ours: compare"),
        (("unknown_outcome", "unknown", "AWS_NAME_TAKEN"), answer(412, "<Error><Code>PreconditionFailed</Code></Error>"),
         "S3 If-None-Match: something is there"),
        (("unknown_outcome", "unknown", "AWS_NAME_TAKEN"), answer(400, {"__type": "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException"}),
         "DynamoDB: the item is there"),
        (LIMITED, answer(503, "<Error><Code>SlowDown</Code></Error>"), "S3's limiter answers 503 with its own code"),
    ],
    "google-aip": [
        (("success", "pending", "GOOGLE_OPERATION_RUNNING"), answer(200, {"name": "operations/o-1", "metadata": {}}),
         "an operation may leave done out until it is done"),
        (DONE, answer(200, {"name": "operations/o-1", "done": True, "response": {"name": "x"}}), "done with a response"),
        (("unknown_outcome", "unknown", "ERROR_IN_ANSWER"), answer(200, {"name": "operations/o-1", "done": True, "error": {"code": 13}}),
         "failed work may have begun"),
        (("state_conflict", "none", "STATE_CONFLICT"), answer(409, {"error": {"code": 409, "status": "ABORTED"}}), "a parallel operation runs on the resource"),
        (LIMITED, answer(429, {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}), "refused before acting"),
    ],
    "azure-repeatability": [
        (IN_FLIGHT, answer(409, {"error": {"code": "RepeatableRequestInProgress"}}), "the same request runs"),
        (("state_conflict", "none", "AZURE_REPEAT_TOO_LATE"), answer(412, {"error": {"code": "PreconditionFailed"}}), "too old: it fails closed"),
        (("fatal", "none", "AZURE_NOT_REPEATABLE"), answer(501, {"error": {"code": "NotImplemented"}}), "not supported: refused"),
        (DONE, answer(201, {"id": "1"}, headers={"repeatability-result": "accepted"}), "accepted and done"),
        (SERVER_ERROR, answer(500, {"error": {"code": "InternalServerError"}}), "a 5xx is carried out anew on a repeat"),
    ],
    "azure-operation-id": [
        (("success", "pending", "AZURE_OPERATION_RUNNING"), answer(202, {"id": "o", "status": "NotStarted"}, headers={"operation-location": "https://s.example/widgets/operations/o"}),
         "accepted"),
        (RUNNING, answer(202, headers={"operation-location": "https://s.example/widgets/operations/o"}), "accepted, without a body"),
        (INVALID, answer(400, {"error": {"code": "InvalidRequest"}}), "a used id with another body"),
        (LIMITED, answer(429, {"error": {"code": "TooManyRequests"}}), "refused before acting"),
    ],
    "kubernetes": [
        (("unknown_outcome", "unknown", "KUBERNETES_NAME_TAKEN"), answer(409, {"kind": "Status", "status": "Failure", "reason": "AlreadyExists", "code": 409}),
         "the name is ours: most likely our own create"),
        (("state_conflict", "none", "KUBERNETES_CONFLICT"), answer(409, {"kind": "Status", "status": "Failure", "reason": "Conflict", "code": 409}),
         "a newer resourceVersion"),
        (DONE, answer(201, {"kind": "Deployment", "metadata": {"name": "n", "uid": "u"}, "spec": {}}), "created"),
        (LIMITED, answer(429, {"kind": "Status", "status": "Failure", "reason": "TooManyRequests", "code": 429}), "priority and fairness refused it"),
        (FORBIDDEN, answer(403, {"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403}), "not permitted"),
    ],
    "http-conditional-put": [
        (DONE, answer(201, {"data": {"id": "a"}}), "created"),
        (("state_conflict", "none", "PRECONDITION_FAILED"), answer(412, {"errno": 114, "details": {"existing": {"id": "a"}}}),
         "our own first try: somebody else's is there"),
        (FORBIDDEN, answer(403, {"errno": 121, "error": "Forbidden"}), "Kinto's answer for what may not be seen"),
        (LOST, DROPPED, "no answer proves nothing"),
    ],
    "http-no-key-lookup": [
        (LOST, DROPPED, "no key, no answer: look it up, repeat nothing"),
        (("transient", "none", "NOT_SENT"), UNREACHED, "nothing had left"),
        (LIMITED, answer(200, {"ok": False, "error": "ratelimited"}), "Slack says it inside a 200"),
        (LIMITED, answer(403, {"message": "API rate limit exceeded"}, headers={"x-ratelimit-remaining": "0"}), "GitHub's limiter answers 403"),
    ],
    "email-smtp": [
        (LOST, broke("SMTPServerDisconnected", smtp={"last_command": "DATA", "reply": None, "data_sent": True}), "a reset after the final dot says nothing"),
        (("transient", "none", "MAIL_NOT_HANDED_OVER"), broke("SMTPServerDisconnected", smtp={"last_command": "RCPT", "reply": None, "data_sent": False}),
         "before DATA nothing is handed over"),
        (("invalid_request", "none", "MAIL_REFUSED"), broke("SMTPRecipientsRefused", smtp={"last_command": "RCPT", "reply": 550, "data_sent": False}),
         "no such mailbox"),
        (("transient", "none", "MAIL_REFUSED"), broke("SMTPDataError", smtp={"last_command": "DATA", "reply": 451, "data_sent": True}), "refused for now"),
    ],
    "matrix": [
        (DONE, answer(200, {"event_id": "$e"}), "sent"),
        (LIMITED, answer(429, {"errcode": "M_LIMIT_EXCEEDED", "retry_after_ms": 2000}), "refused before acting"),
        (FORBIDDEN, answer(403, {"errcode": "M_FORBIDDEN"}), "not in the room"),
        (("unknown_outcome", "unknown", "GATEWAY_ERROR"), answer(502), "a proxy's word for an answer that it lost"),
    ],
    "prefect": [
        (("success", "pending", "PREFECT_RUN_OPEN"), answer(201, {"id": "r", "state_type": "SCHEDULED", "name": "x"}), "a new run, not begun"),
        (DONE, answer(200, {"id": "r", "state_type": "COMPLETED"}), "the run of this key, finished"),
        (("unknown_outcome", "unknown", "PREFECT_RUN_FAILED"), answer(200, {"id": "r", "state_type": "CRASHED"}), "it may have done a part"),
        (INVALID, answer(422, {"exception_message": "Invalid request received.", "exception_detail": [{"loc": ["body", "parameters"], "type": "dict_type"}]}),
         "refused because of a field"),
    ],
    "nats-jetstream": [
        (DONE, ack(stream="ORDERS", seq=7, duplicate=False), "stored"),
        (DONE, ack(stream="ORDERS", seq=7, duplicate=True), "known already, the same message of ours"),
        (("unknown_outcome", "unknown", "TRANSPORT_TIMEOUT"), broke("TimeoutError", phase="await"), "no acknowledgement says nothing"),
        (("unknown_outcome", "unknown", "ERROR_IN_ANSWER"), ack(error={"code": 503, "err_code": 10077}),
         "an error that nobody here knows"),
    ],
    "postgres-xact": [
        (LOST, broke("OperationalError", sqlstate=None, phase="await", bytes_sent=12), "the COMMIT's answer was dropped"),
        (("transient", "none", "ROLLED_BACK"), broke("SerializationFailure", sqlstate="40001"), "rolled back"),
        (("state_conflict", "none", "STATE_CONFLICT"), broke("UniqueViolation", sqlstate="23505"), "refused: the key is there; compare"),
        (("unknown_outcome", "unknown", "COMMIT_AMBIGUOUS"), broke("AdminShutdown", sqlstate="57P01"), "the server went down around the COMMIT"),
    ],
    "sql-readonly": [
        (LOST, DROPPED, "no answer proves nothing; the row tells"),
        (("state_conflict", "none", "STATE_CONFLICT"), broke("ReadOnlySqlTransaction", sqlstate="25006"), "a standby took no write"),
        (DONE, answer(201, {"id": 1}), "done"),
    ],
    "mcp-readonly-tool": [
        (("unknown_outcome", "unknown", "TRANSPORT_TIMEOUT"), jsonrpc(-32001, "client_sdk"),
         "made by our own SDK"),
        (INVALID, jsonrpc(-32602, "server"), "refused before anything ran"),
        (("unknown_outcome", "unknown", "TOOL_FAILED"), tool(isError=True, content=[{"type": "text", "text": "Error executing tool x"}]),
         "text proves nothing"),
        (DONE, tool(structuredContent={"id": "t-1"}, content=[]), "a structured result"),
    ],
    "mcp-task": [
        (RUNNING, tool(resultType="task", taskId="t-1", status="working"), "2026-07-28: the result is a task"),
        (("unknown_outcome", "unknown", "ERROR_IN_ANSWER"), {"kind": "mcp_task", "task": {"taskId": "t-1", "status": "failed"}}, "it may have begun"),
        (("unknown_outcome", "unknown", "CANCELLED"), {"kind": "mcp_task", "task": {"taskId": "t-1", "status": "cancelled"}}, "cancelling undoes nothing"),
        (("authorization", "pending", "PERSON_NEEDED"), {"kind": "mcp_task", "task": {"taskId": "t-1", "status": "input_required"}}, "it waits for a person"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "expected", "observation", "why"),
    [pytest.param(name, *row, id=f"{name}: {row[-1]}") for name, rows in ROWS.items() for row in rows],
)
def test_what_an_answer_means(name: str, expected: tuple[str, str, str], observation: dict[str, Any], why: str) -> None:
    reading = read_observation(observation, contract=with_preset(name), earlier=(), now=NOW)
    assert (reading.failure_class, reading.effect, reading.code) == expected, why
    assert reading.violations == (), why


def test_every_preset_has_its_rows() -> None:
    assert {name for name in preset_names() if len(ROWS[name]) < 3} == set()


AFTER_ANOTHER = [
    ("stripe-v1", answer(400, {"error": {"type": "idempotency_error"}}), "none", "this request was refused; the earlier one stays as it is"),
    ("http-conditional-put", answer(412, {"details": {"existing": {"id": "a"}}}), "unknown", "after a lost attempt it may be our own: compare"),
    ("prefect", answer(200, {"id": "r", "state_type": "COMPLETED"}), "unknown", "a stored answer to another payload proves nothing of ours"),
    ("matrix", answer(200, {"event_id": "$e"}), "applied", "Matrix marks no replay; a changed payload carries another id, so the answer is to ours"),
    ("nats-jetstream", ack(stream="ORDERS", seq=7, duplicate=True), "unknown", "a duplicate of another payload"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "observation", "effect", "why"), AFTER_ANOTHER)
def test_after_an_attempt_with_another_payload(name: str, observation: dict[str, Any], effect: str, why: str) -> None:
    earlier = (attempt(1), attempt(2, digest="sha256:11", effect=Effect.NONE))
    reading = read_observation(observation, contract=with_preset(name), earlier=earlier, now=NOW)
    assert reading.effect == effect, why


def test_waits_are_read_where_owners_put_them() -> None:
    told = answer(429, {"errcode": "M_LIMIT_EXCEEDED", "retry_after_ms": 2000})
    reading = read_observation(told, contract=with_preset("matrix"), earlier=(), now=NOW)
    assert (reading.failure_class, reading.retry_after_ms) == (FailureClass.TRANSIENT, 2000)


def test_receipts_name_what_was_made() -> None:
    told = answer(201, {"ticket": {"id": 35436}})
    reading = read_observation(told, contract=with_preset("zendesk"), earlier=(), now=NOW)
    assert reading.receipt == {"id": 35436}
