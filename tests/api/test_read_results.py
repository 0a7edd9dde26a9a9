"""The result of a read, as an operation's data tells it."""

from typing import Any

import pytest

from tests.conftest import TICKETS, Api, Bench, Database, make_bench

CONTEXT = "jobs.context"
SEEN = "2026-10-01T09:05:00Z"
JOB = {
    "outcome": "ok", "id": "J-42", "status": "failed", "failed_at": "2026-10-01T09:00:00Z", "source_id": "E1-job",
    "observed_at": SEEN,
}  # fmt: skip
NO_ACCESS = {"outcome": "timeout", "role": None, "source_id": "E2-access"}
ACCESS = {"outcome": "ok", "role": "viewer", "source_id": "E2-access", "observed_at": "2026-10-01T09:05:04Z"}
FIRST = {"outcome": "partial", "job": JOB, "access": NO_ACCESS}
SECOND = {"outcome": "ok", "job": JOB, "access": ACCESS}
LOST = {"kind": "exception", "exception": "ReadTimeout", "phase": "await", "observed_at": SEEN}
FORBIDDEN = {"kind": "http", "status": 403, "body": {"message": "J-99 belongs to ACME"}, "observed_at": SEEN}
ABSENT = {"kind": "http", "status": 404, "body": {"message": "no J-99 here"}, "observed_at": SEEN}
PLAIN = {"kind": "http", "status": 200, "body": {"role": "viewer", "limit": None}, "observed_at": SEEN}
PAGE = {"items": [], "next_cursor": "c2", "truncated": False}
LAST = {"outcome": "no_match", "index_revision": "docs-r8", "observed_at": SEEN, "source_id": "docs"}


@pytest.fixture
def bench(database: Database) -> Bench:
    """A workspace with a write and a read that may be repeated at once."""
    made = make_bench()
    quick = {"retry": {"first": "1ms", "factor": 1, "max": "1ms", "jitter": 0}}
    made.publish({**TICKETS, **quick})
    made.publish({"contract": CONTEXT, "owner": "helpdesk", "effect": "read", **quick})
    return made


def told(api: Api, *seen: Any) -> dict[str, Any]:
    """The operation's data after these reports, one an attempt."""
    api.post("/operations", {"operation_id": "read:1", "tool": CONTEXT, "payload": {"job": "J-42"}, "attempt": True})
    for number, each in enumerate(seen, start=1):
        if number > 1:
            assert _permit_soon(api).status_code == 201
        body = each if "kind" in each else {"kind": "envelope", "body": each}
        api.post(f"/operations/read:1/attempts/attempt-{number:02d}/observations", body)
    data: dict[str, Any] = api.get("/operations/read:1").json()["data"]
    return data


def _permit_soon(api: Api) -> Any:
    for _ in range(100):
        answer = api.post("/operations/read:1/attempts", {})
        if answer.status_code == 201 or answer.json()["data"]["decision"]["code"] != "WAIT_NOT_OVER":
            break
    return answer


ROWS = [
    ([FIRST], "partial", None, {"job": "ok", "access": "timeout"}, "one part came; the repeat is still to be asked for"),
    ([FIRST, SECOND], "ok", "answered", {"job": "ok", "access": "ok"}, "the repeat brought the rest"),
    ([FIRST, LOST], "partial", "budget", {"job": "ok", "access": "timeout"}, "the repeat was lost: the job is kept"),
    ([LOST, LOST], "unavailable", "budget", {CONTEXT: "unavailable"}, "nothing came at all"),
    ([FORBIDDEN], "unavailable", "refused", {CONTEXT: "unavailable"}, "protected"),
    ([ABSENT], "unavailable", "refused", {CONTEXT: "unavailable"}, "absent looks the same"),
    ([PLAIN], "partial", "answered", {CONTEXT: "partial"}, "a member that is null is unavailable"),
    ([PAGE], "partial", "answered", {CONTEXT: "partial"}, "an empty page with a cursor is not an empty result"),
    ([LAST], "no_match", "answered", {CONTEXT: "no_match"}, "in docs-r8, and nowhere else"),
]  # fmt: skip


@pytest.mark.parametrize(("seen", "outcome", "stop", "parts", "why"), ROWS, ids=[row[4] for row in ROWS])
def test_what_a_read_brought(api: Api, seen, outcome, stop, parts, why) -> None:
    result = told(api, *seen)["result"]
    assert (result["outcome"], result["stop_reason"]) == (outcome, stop), why
    assert {each["name"]: each["outcome"] for each in result["components"]} == parts
    assert "ACME" not in str(result)


def test_a_component_has_its_source_and_its_times(api: Api) -> None:
    job, access = told(api, FIRST)["result"]["components"]
    assert (job["source_id"], job["event_at"], job["observed_at"]) == ("E1-job", "2026-10-01T09:00:00Z", SEEN)
    assert job["value"]["status"] == "failed"
    assert access["value"] is None, "null is unavailable, never a role"


def test_an_index_is_named_by_its_revision(api: Api) -> None:
    [found] = told(api, LAST)["result"]["components"]
    assert (found["revision"], found["source_id"], found["value"]) == ("docs-r8", "docs", None)


def test_null_members_stay_null(api: Api) -> None:
    [plain] = told(api, PLAIN)["result"]["components"]
    assert plain["value"] == {"role": "viewer", "limit": None}
    assert (plain["source_id"], plain["observed_at"]) == (None, SEEN), "read by then; from where is not said"


def test_refused_and_absent_look_alike(api: Api, other_bench: Bench) -> None:
    other_bench.publish({"contract": CONTEXT, "owner": "helpdesk", "effect": "read"})
    assert told(api, FORBIDDEN)["result"] == told(Api(other_bench.token), ABSENT)["result"]


def test_a_repeated_post_answers_with_the_result(api: Api) -> None:
    result = told(api, SECOND)["result"]
    body = {"operation_id": "read:1", "tool": CONTEXT, "payload": {"job": "J-42"}}
    assert api.post("/operations", body).json()["data"]["result"] == result


def test_nothing_reported_is_no_result(api: Api) -> None:
    assert told(api)["result"] is None


def test_a_write_has_none(api: Api) -> None:
    body = {"operation_id": "t-1", "tool": "tickets.create", "payload": {"title": "T", "customer": "c-19"}}
    api.post("/operations", {**body, "attempt": True})
    created = {"kind": "http", "status": 201, "body": {"id": "T-1"}}
    api.post("/operations/t-1/attempts/attempt-01/observations", created)
    assert api.get("/operations/t-1").json()["data"]["result"] is None
