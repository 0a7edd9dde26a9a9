"""Intents, permits and observations through the API: exact shapes, idempotent intake, refusals."""

from typing import Any

from tests.conftest import Api, Bench

PAYLOAD = {"title": "Export broken", "customer": "c-19"}


def new(operation_id: str = "ticket:create:1", **more: Any) -> dict[str, Any]:
    return {"operation_id": operation_id, "tool": "tickets.create", "payload": PAYLOAD, "attempt": True, **more}


LOST = {"kind": "exception", "exception": "ReadTimeout", "phase": "await", "bytes_sent": 300, "request_bytes": 300}
REFUSED = {"kind": "exception", "exception": "ConnectError", "phase": "connect", "bytes_sent": 0}
CREATED = {"kind": "http", "status": 201, "body": {"id": "t-1"}, "request": {"method": "POST", "path": "/tickets"}}


def test_a_new_intent_is_recorded_with_its_permit(api: Api) -> None:
    answer = api.post("/operations", new())
    assert answer.status_code == 201
    data = answer.json()["data"]
    assert data["state"] == "dispatched"
    assert data["effect"] == "unknown"
    assert data["permit"]["attempt_id"] == "attempt-01"
    assert data["permit"]["headers"] == {"Idempotency-Key": "ticket:create:1"}
    assert data["attempts"][0]["closed_at"] is None
    assert data["decision"] is None
    read = api.get("/operations/ticket:create:1").json()["data"]
    ignore = {"permit", "evidence"}
    assert {k: v for k, v in read.items() if k not in ignore} == {k: v for k, v in data.items() if k not in ignore}


def test_the_same_intent_again_is_the_same_operation(api: Api) -> None:
    api.post("/operations", new())
    again = api.post("/operations", new())
    assert again.status_code == 200
    assert again.json()["data"]["permit"] is None, "a permit is handed out once"
    assert len(again.json()["data"]["attempts"]) == 1


def test_the_same_id_with_another_payload_is_refused(api: Api) -> None:
    first = api.post("/operations", new()).json()["data"]
    other = api.post("/operations", new(payload={"title": "Another", "customer": "c-20"}))
    assert other.status_code == 409
    assert other.json()["error"]["code"] == "OPERATION_MISMATCH"
    assert api.get("/operations/ticket:create:1").json()["data"]["payload_digest"] == first["payload_digest"]


def test_an_applied_answer_settles(api: Api) -> None:
    api.post("/operations", new())
    answer = api.post("/operations/ticket:create:1/attempts/attempt-01/observations", CREATED)
    assert answer.status_code == 200
    data = answer.json()["data"]
    assert data["recovery_action"] == "done"
    assert data["state"] == "settled"
    read = api.get("/operations/ticket:create:1").json()["data"]
    assert read["outcome"] == "applied"
    assert read["evidence"][0]["proof"] == "owner_result"


def test_a_lost_answer_is_unknown_and_reconciled_and_never_repeated(api: Api) -> None:
    api.post("/operations", new())
    told = api.post("/operations/ticket:create:1/attempts/attempt-01/observations", LOST).json()["data"]
    assert (told["recovery_action"], told["effect_status"]) == ("reconcile", "unknown")
    assert told["for_agent"]["error"]["code"] == "OUTCOME_UNKNOWN"
    assert told["for_agent"]["error"]["retryable"] is False
    refused = api.post("/operations/ticket:create:1/attempts", {})
    assert refused.status_code == 409
    assert refused.json()["error"]["code"] == "PERMIT_REFUSED"
    assert refused.json()["data"]["decision"]["recovery_action"] == "reconcile"


def test_a_refused_connection_licenses_the_retry(api: Api) -> None:
    api.post("/operations", new())
    told = api.post("/operations/ticket:create:1/attempts/attempt-01/observations", REFUSED).json()["data"]
    assert (told["recovery_action"], told["licence"]) == ("retry", "effect_none_proved")
    early = api.post("/operations/ticket:create:1/attempts", {})
    assert early.status_code in (201, 409)


def test_the_same_observation_twice_is_one_evidence(api: Api) -> None:
    api.post("/operations", new())
    first = api.post("/operations/ticket:create:1/attempts/attempt-01/observations", LOST)
    second = api.post("/operations/ticket:create:1/attempts/attempt-01/observations", LOST)
    assert first.json()["data"]["decision"] == second.json()["data"]["decision"]
    assert len(api.get("/operations/ticket:create:1").json()["data"]["evidence"]) == 1


def test_a_late_result_settles_what_a_timeout_left_open(api: Api) -> None:
    api.post("/operations", new())
    api.post("/operations/ticket:create:1/attempts/attempt-01/observations", LOST)
    told = api.post("/operations/ticket:create:1/attempts/attempt-01/observations", CREATED).json()["data"]
    assert (told["state"], told["outcome"]) == ("settled", "applied")


def test_the_same_intent_under_another_id_gets_no_permit(api: Api) -> None:
    api.post("/operations", new())
    twin = api.post("/operations", new("ticket:create:2"))
    assert twin.status_code == 201
    data = twin.json()["data"]
    assert data["permit"] is None
    assert data["decision"]["code"] == "POSSIBLE_DUPLICATE"
    assert data["decision"]["alternatives"] == ["ticket:create:1"]
    refused = api.post("/operations/ticket:create:2/attempts", {})
    assert refused.json()["data"]["decision"]["code"] == "POSSIBLE_DUPLICATE"
    api.post("/operations/ticket:create:1/attempts/attempt-01/observations", CREATED)
    assert api.post("/operations/ticket:create:2/attempts", {}).status_code == 201


def test_another_workspace_looks_like_nothing_at_all(api: Api, other_bench: Bench) -> None:
    api.post("/operations", new())
    stranger = Api(other_bench.token)
    theirs = stranger.get("/operations/ticket:create:1")
    nothing = stranger.get("/operations/no-such-operation")
    assert theirs.status_code == nothing.status_code == 404
    assert theirs.content == nothing.content
    report = stranger.post("/operations/ticket:create:1/attempts/attempt-01/observations", LOST)
    assert report.status_code == 404
    assert report.content == nothing.content


def test_lists_page_by_cursor_newest_first(api: Api) -> None:
    for n in range(5):
        api.post("/operations", new(f"t-{n}", payload={"title": f"T {n}"}, attempt=False))
    first = api.get("/operations?limit=2").json()["data"]
    assert [item["operation_id"] for item in first["items"]] == ["t-4", "t-3"]
    assert first["truncated"] is False
    second = api.get(f"/operations?limit=2&cursor={first['next_cursor']}").json()["data"]
    assert [item["operation_id"] for item in second["items"]] == ["t-2", "t-1"]
    last = api.get(f"/operations?limit=2&cursor={second['next_cursor']}").json()["data"]
    assert ([item["operation_id"] for item in last["items"]], last["next_cursor"]) == (["t-0"], None)
    assert api.get("/operations?state=settled").json()["data"]["items"] == []


INVALID = {
    "kind": "http",
    "status": 422,
    "body": {"detail": [{"loc": ["body", "priority"], "msg": "unknown", "type": "value_error"}]},
    "request": {"method": "POST", "path": "/tickets"},
}


def test_a_repair_changes_only_the_rejected_member_and_then_gets_its_permit(api: Api) -> None:
    payload = {**PAYLOAD, "priority": "urgentest"}
    api.post("/operations", new(payload=payload))
    told = api.post("/operations/ticket:create:1/attempts/attempt-01/observations", INVALID).json()["data"]
    assert (told["recovery_action"], told["effect_status"]) == ("repair", "none")
    assert told["field"].endswith("priority")
    assert api.post("/operations/ticket:create:1/attempts", {}).status_code == 409, "the identical call is not repeated"

    def revise(**more: object) -> object:
        body = {"kind": "repair", "payload": {**payload, **more}, "field": "priority", "reason": "was refused"}
        return api.post("/operations/ticket:create:1/revisions", body)

    assert revise().json()["data"]["reason"] == "UNCHANGED"
    assert revise(priority="high", note="x").json()["data"]["reason"] == "CHANGED_BESIDE_FIELD"
    assert revise(priority="high", title="Other").json()["data"]["reason"] == "IDENTITY_CHANGED"
    done = revise(priority="high")
    assert done.status_code == 201
    assert (done.json()["data"]["revision"], done.json()["data"]["budgets"]["repairs"]["used"]) == (2, 1)
    permit = api.post("/operations/ticket:create:1/attempts", {})
    assert permit.status_code == 201
    assert permit.json()["data"]["permit"]["headers"] == {"Idempotency-Key": "ticket:create:1#r2"}
    assert permit.json()["data"]["licence"] == "effect_none_proved"
    assert permit.json()["data"]["budgets"]["retries"]["used"] == 0
    settled = api.post("/operations/ticket:create:1/attempts/attempt-02/observations", CREATED).json()["data"]
    assert settled["outcome"] == "applied"


def test_nothing_is_revised_while_the_effect_is_open(api: Api) -> None:
    api.post("/operations", new())
    api.post("/operations/ticket:create:1/attempts/attempt-01/observations", LOST)
    body = {"kind": "repair", "payload": {**PAYLOAD, "title": "Other"}, "reason": "guess"}
    assert api.post("/operations/ticket:create:1/revisions", body).status_code == 409
