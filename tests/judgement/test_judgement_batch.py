"""What the answer to a batch proves, item by item and as a whole: a row a format, with its reason."""

import pytest
from stated import BATCH, READ, broke, judged

from recovery.judgement.reading import ObservationInvalid


def batch(body=None, /, *, status=200, **more):
    return {"kind": "batch", "status": status, **({} if body is None else {"body": body}), **more}


def asked(*ids, **more):
    return {"request": {"ids": list(ids), **more}}


MULTISTATUS = """<?xml version="1.0"?><d:multistatus xmlns:d="DAV:">
<d:response><d:href>/a</d:href><d:status>HTTP/1.1 200 OK</d:status></d:response>
<d:response><d:href>/b</d:href><d:propstat><d:status>HTTP/1.1 403 Forbidden</d:status></d:propstat></d:response>
</d:multistatus>"""

FORMATS = [
    (batch(MULTISTATUS, status=207), {"/a": "applied", "/b": "none"}, "RFC 4918"),
    (batch({"responses": [{"id": "a", "status": 201}, {"id": "b", "status": 412}]}, status=207),
     {"a": "applied", "b": "none"}, "207 as JSON"),
    (batch({"Deleted": [{"Key": "a"}], "Errors": [{"Key": "b", "Code": "AccessDenied"}]}), {"a": "applied", "b": "none"},
     "S3"),
    (batch({"Errors": [{"Key": "b", "Code": "InternalError"}]}, request={"keys": ["a", "b"], "quiet": True}),
     {"a": "applied", "b": "unknown"}, "S3, quiet: what is not listed was deleted; an internal error proves nothing"),
    (batch({"Deleted": [{"Key": "a"}], "Errors": []}, **asked("a", "b")), {"a": "applied", "b": "unknown"},
     "not quiet: what is not listed is unknown"),
    (batch({"Successful": [{"Id": "1"}], "Failed": [{"Id": "2", "Code": "InvalidParameterValue", "SenderFault": True}]}),
     {"1": "applied", "2": "none"}, "SQS"),
    (batch({"UnprocessedItems": {"t": [{"PutRequest": {}}]}}, request={"count": 3}),
     {"left-0": "none", "*": "applied"}, "DynamoDB"),
    (batch({"UnprocessedItems": {}}, request={"count": 3}), {"*": "applied"}, "DynamoDB: nothing was left"),
    (batch({"FailedRecordCount": 1, "Records": [{"SequenceNumber": "9"}, {"ErrorCode": "ProvisionedThroughputExceeded"}]}),
     {"0": "applied", "1": "none"}, "Kinesis"),
    (batch({"FailedEntryCount": 1, "Entries": [{"EventId": "e"}, {"ErrorCode": "InternalFailure"}]}),
     {"0": "applied", "1": "unknown"}, "EventBridge: an internal failure may have acted"),
    (batch({"errors": True, "items": [{"create": {"_id": "a", "status": 201}},
                                      {"create": {"_id": "b", "status": 429, "error": {"type": "es_rejected"}}},
                                      {"index": {"_id": "c", "status": 503}}]}),
     {"a": "applied", "b": "none", "c": "unknown"}, "Elasticsearch"),
    (batch({"responses": [{"id": "1", "status": 201, "body": {}}, {"id": "2", "status": 424}]}),
     {"1": "applied", "2": "none"}, "Graph: a failed dependency was not run"),
    (batch({"responses": [{"path": "/x/1", "status": 201}, {"path": "/x/2", "status": 500}]}),
     {"/x/1": "applied", "/x/2": "unknown"}, "Kinto"),
    (batch({"compositeResponse": [
        {"referenceId": "a", "httpStatusCode": 400, "body": [{"errorCode": "REQUIRED_FIELD_MISSING", "fields": ["N"]}]},
        {"referenceId": "b", "httpStatusCode": 400, "body": [{"errorCode": "PROCESSING_HALTED"}]}]}),
     {"a": "none", "b": "none"}, "Salesforce composite, all or none"),
    (batch([{"success": True, "id": "001"}, {"success": False, "errors": [{"statusCode": "DUPLICATE_VALUE"}]}]),
     {"001": "applied", "1": "none"}, "Salesforce collections"),
    (batch({"data": {"a": {"id": 1}, "b": None}, "errors": [{"path": ["b"], "extensions": {"code": "FORBIDDEN"}}]}),
     {"a": "applied", "b": "none"}, "GraphQL aliases"),
    (batch({"data": {"a": {"id": 1}, "b": {"userErrors": [{"field": ["x"], "message": "no"}]}}}),
     {"a": "applied", "b": "none"}, "GraphQL aliases, refused input"),
    (batch({"data": {"a": {"id": 1}, "b": None}, "errors": [{"path": ["b"], "message": "boom"}]}),
     {"a": "applied", "b": "unknown"}, "a resolver that raised may have acted"),
    (batch([{"jsonrpc": "2.0", "id": 2, "error": {"code": -32602}}, {"jsonrpc": "2.0", "id": 1, "result": {}}], **asked(1, 2, 3)),
     {"2": "none", "1": "applied", "3": "unknown"}, "JSON-RPC: any order, and one is missing"),
    (batch({"results": [{"status": "ok"}, {"status": "failed"}]}, **asked("x", "y")), {"x": "applied", "y": "unknown"},
     "by position, when as many came back; failed without a code may have begun"),
    (batch({"data": {"success": [{"domain": "a.example"}], "failed": [{"domain": "b.example"}]}}, status=400),
     {"a.example": "applied", "b.example": "none"}, "lists outrank the status"),
    (batch(None, status=None, items=[{"id": "1", "state": "sent"}, {"id": "2", "phase": "connect"},
                                     {"id": "3", "state": "threw", "phase": "await"}, {"id": "4", "state": "not_sent"},
                                     {"id": "5", "state": "failed"}, {"id": "6", "status": 201}]),
     {"1": "applied", "2": "none", "3": "unknown", "4": "none", "5": "unknown", "6": "applied"}, "as a harness saw them"),
    (batch({"batchItemFailures": [{"itemIdentifier": "b"}]}, **asked("a", "b")), {"a": "applied", "b": "none"}, "Lambda"),
    (batch([{"success": True, "id": "001"}, {"success": False, "errors": [{"statusCode": "DUPLICATE_VALUE"}]}],
           request={"allOrNone": True}), {"001": "none", "1": "none"}, "all or none: one refusal takes the others along"),
    (batch({"success": ["a"], "failed": ["a"]}), {"a": "unknown"}, "in both lists: neither counts"),
]  # fmt: skip


@pytest.mark.parametrize(("seen", "items", "why"), FORMATS)
def test_each_item_has_its_own_effect(seen, items, why):
    reading = judged(seen, contract=BATCH).reading
    assert {item.key: item.effect.value for item in reading.items} == items, why
    for item in reading.items:
        assert (item.proof is not None) == (item.effect in ("none", "applied", "pending")), why


WHOLE = [
    (batch({"Successful": ["1"], "Failed": []}, **asked("1")), "success", "applied", "done", "every item"),
    (batch({"Successful": ["1"], "Failed": ["2"]}, **asked("1", "2")), "partial", "partial", "recover_items", "all told"),
    (batch({"Successful": [], "Failed": [{"Id": "1", "Code": "Throttling"}]}), "transient", "none", "retry",
     "all were refused for one reason"),
    (batch({"Successful": [], "Failed": [{"Id": "1", "Code": "Throttling"}, {"Id": "2", "Code": "AccessDenied"}]}),
     "partial", "none", "recover_items", "all were refused, for different reasons"),
    (batch({"results": [{"status": 500}, {"status": 502}]}), "unknown_outcome", "unknown", "reconcile", "none is known"),
    (batch({"results": [{"status": 201}, {"status": 202}]}), "success", "pending", "wait", "one still runs"),
    (batch({"ok": True}), "unknown_outcome", "unknown", "reconcile", "a success never means all items"),
    (batch(status=429), "transient", "none", "retry", "the whole was refused by a limiter"),
    (batch(status=502), "unknown_outcome", "unknown", "reconcile", "a gateway lost the answer"),
    (batch({"responses": [{"id": "a", "status": 201}]}, status=502), "unknown_outcome", "unknown", "reconcile",
     "a gateway's status speaks for itself alone"),
    (batch(status=None), "unknown_outcome", "unknown", "reconcile", "the answer was lost"),
    (batch("{", status=200, headers={"content-type": "application/json"}), "unknown_outcome", "unknown", "reconcile",
     "the answer was cut"),
]  # fmt: skip


@pytest.mark.parametrize(("seen", "failure", "effect", "action", "why"), WHOLE)
def test_the_whole(seen, failure, effect, action, why):
    judgement = judged(seen, contract=BATCH)
    decision = judgement.decision
    assert (decision.failure_class, judgement.reading.effect, decision.recovery_action) == (failure, effect, action), (
        why
    )


def test_the_whole_is_never_repeated_because_of_a_part():
    seen = batch({"Successful": ["1"], "Failed": ["2"]}, **asked("1", "2"))
    harmless = {"effect": "batch", "idempotency": {"guarantee": "natural"}}
    assert judged(seen, contract=harmless).decision.recovery_action == "recover_items"


def test_a_refused_item_is_doubted_when_the_request_went_out_twice():
    seen = batch({"Successful": ["1"], "Failed": ["2"]}, network_attempts=2)
    assert [item.effect for item in judged(seen, contract=BATCH).reading.items] == ["applied", "unknown"]


def test_what_is_in_an_items_way_may_be_ours_after_a_lost_batch():
    seen = batch({"responses": [{"id": "a", "status": 409}, {"id": "b", "status": 400}]})
    reading = judged(seen, contract=BATCH, history=[broke(phase="await")]).reading
    assert {item.key: item.effect for item in reading.items} == {"a": "unknown", "b": "none"}


def test_an_item_names_its_field_and_the_batch_its_longest_wait():
    seen = batch({"responses": [{"id": "a", "status": 422, "body": {"errors": [{"field": "sku"}]}},
                                {"id": "b", "status": 429, "headers": {"Retry-After": "9"}}]})  # fmt: skip
    judgement = judged(seen, contract=BATCH)
    assert judgement.reading.items[0].field == "sku"
    assert judgement.decision.retry_after_ms == 9_000


def test_a_read_of_many_is_repeated_when_some_are_missing():
    decision = judged(batch({"UnprocessedKeys": {"t": [1]}}), contract=READ).decision
    assert (decision.failure_class, decision.recovery_action) == ("partial", "retry")


@pytest.mark.parametrize(("seen", "member"), [
    (batch(items={}), "items"), (batch(status="x"), "status"), (batch(headers=[]), "headers"), (batch(request=[]), "request"),
])  # fmt: skip
def test_a_wrong_shape_names_the_member(seen, member):
    with pytest.raises(ObservationInvalid) as caught:
        judged(seen, contract=BATCH)
    assert caught.value.field == member
