"""Whatever comes in, what goes out is an envelope that says what is wrong and where; never a 500."""

import io
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.core.handlers.wsgi import WSGIHandler
from django.core.management import call_command
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledger.queries.clock import database_now
from ledger.rules.vocabulary import Scope
from ledger.transitions.workspace import create_token, revoke_token
from tests.conftest import TICKETS, Api, Bench, Database, make_bench

PAYLOAD = {"title": "Export broken", "customer": "c-19"}
NEW = {"operation_id": "bad:1", "tool": "tickets.create", "payload": PAYLOAD, "attempt": True}
LOST = {"kind": "exception", "exception": "ReadTimeout", "phase": "await", "bytes_sent": 300, "request_bytes": 300}
REPORT = "/operations/known/attempts/attempt-01/observations"
TWO_MIB = 2 * 1024 * 1024
CLASSES = {"transient", "validation", "permission", "business_rule", "fatal"}


@pytest.fixture(scope="module")
def bench(database: Database) -> Bench:
    """One workspace for the whole table: nothing in it is recorded, and where it is, nobody minds."""
    made = make_bench()
    made.publish(TICKETS)
    Api(made.token).post("/operations", {**NEW, "operation_id": "known", "payload": {"title": "known"}})
    return made


@pytest.fixture(scope="module")
def api(bench: Bench) -> Api:
    return Api(bench.token)


def envelope(answer: Any) -> dict[str, Any]:
    """The error of an answer, after checking that it has the envelope's exact shape."""
    assert answer["Content-Type"] == "application/json"
    body = json.loads(answer.content)
    assert body["ok"] is False
    assert set(body) <= {"ok", "error", "data"}
    error: dict[str, Any] = body["error"]
    assert set(error) == {"code", "class", "retryable", "retry_after_ms", "field", "hint", "message"}
    assert error["class"] in CLASSES
    assert error["retryable"] is (error["class"] == "transient")
    assert error["code"] == error["code"].upper()
    assert error["message"]
    assert error["hint"]
    return error


def new(**changes: Any) -> dict[str, Any]:
    return {**NEW, **changes}


def written(**members: str) -> bytes:
    """An intent whose members are JSON text, for what Python cannot write."""
    body = {"operation_id": '"bad:1"', "tool": '"tickets.create"', "payload": '{"title":"x"}', **members}
    return ("{" + ",".join(f'"{name}":{text}' for name, text in body.items()) + "}").encode()


NOT_JSON: list[tuple[bytes, str | None, str]] = [
    (b"", None, "no body"),
    (b'{"operation_id":', None, "cut off"),
    (b"title=x&customer=y", None, "a form"),
    (b"\x00", None, "a NUL"),
    (b"\xff\xfe{}", None, "another encoding"),
    (b"[" * 10_000 + b"]" * 10_000, None, "10,000 levels"),
    (b'{"payload":' * 10_000 + b"1" + b"}" * 10_000, None, "10,000 levels of objects"),
    (written(payload='{"title":"\\ud800"}'), None, "half of a surrogate pair"),
    (written(payload='{"\\udfff":1}'), None, "half of a surrogate pair in a name"),
    (written(payload='{"title":"x","n":NaN}'), None, "not a number"),
    (written(payload='{"title":"x","n":-Infinity}'), None, "infinity"),
    (written(payload='{"title":"x","n":1e999}'), "payload.n", "infinity by overflow, which would be recorded as null"),
    (written(payload='{"title":"x","n":' + "9" * 5000 + "}"), None, "an integer of 5,000 digits"),
    (written(payload='{"title":"x","title":"y"}'), "title", "a key twice"),
    (b'{"operation_id":"a","operation_id":"b"}', "operation_id", "an operation_id twice"),
]


@pytest.mark.parametrize(("body", "field", "why"), NOT_JSON, ids=[why for *_, why in NOT_JSON])
@pytest.mark.parametrize("path", ["/operations", REPORT, "/operations/known/attempts", "/operations/known/revisions"])
def test_what_is_not_json(api: Api, path: str, body: bytes, field: str | None, why: str) -> None:
    if not body and path.endswith("attempts"):
        return  # a permit is asked for with no body at all
    answer = api.post(path, None, raw=body)
    assert answer.status_code == 400, why
    error = envelope(answer)
    assert (error["code"], error["field"]) == ("BODY_NOT_JSON", field)


NOT_AN_OBJECT = [(b"[]", "list"), (b"null", "null"), (b'"x"', "text"), (b"3", "number"), (b"true", "true or false")]


@pytest.mark.parametrize(("body", "kind"), NOT_AN_OBJECT, ids=[kind for _, kind in NOT_AN_OBJECT])
@pytest.mark.parametrize("path", ["/operations", REPORT, "/operations/known/attempts", "/operations/known/revisions"])
def test_what_is_not_an_object(api: Api, path: str, body: bytes, kind: str) -> None:
    answer = api.post(path, None, raw=body)
    assert answer.status_code == 422
    error = envelope(answer)
    assert error["code"] == "BODY_NOT_AN_OBJECT"
    assert kind in error["message"]


INTENTS: list[tuple[dict[str, Any] | bytes, str, str]] = [
    *[
        (new(operation_id=id), "operation_id", f"an operation_id that {why}")
        for id, why in [
            ("", "is empty"),
            ("a b", "has a space"),
            ("a/b", "has a slash"),
            ("-a", "begins with a dash"),
            (".a", "begins with a dot"),
            ("ä", "has an umlaut"),
            ("a\n", "ends with a line"),
            ("a\x00b", "has a NUL"),
            ("x" * 201, "is 201 long"),
            ("٣", "has a digit of another script"),
            (5, "is a number"),
            (None, "is null"),
            (["a"], "is a list"),
        ]
    ],
    (new(tool="no.such.tool"), "tool", "a tool without a contract"),
    (new(tool=""), "tool", "a tool without a name"),
    (new(tool="t\x00"), "tool", "a NUL in the tool's name"),
    (new(tool=7), "tool", "a number for a tool"),
    (new(payload=[]), "payload", "a list for a payload"),
    (new(payload=None), "payload", "null for a payload"),
    (new(payload="{}"), "payload", "text for a payload"),
    (new(payload={}), "payload.title", "a member that the contract asks for"),
    (new(payload={"title": ""}), "payload.title", "a text that is too short"),
    (new(payload={"title": 3}), "payload.title", "a number for a text"),
    (new(payload={"title": "x", "customer": ["c"]}), "payload.customer", "a list for a text"),
    (new(payload={"title": "a\x00b"}), "payload.title", "a NUL in the payload"),
    (new(payload={"title": "x", "more": {"k\x00": 1}}), "payload.more.k\x00", "a NUL in a name"),
    (new(payload={"title": "x", "n": [2**53]}), "payload.n[0]", "an integer beyond 2^53−1"),
    (new(payload={"title": "x", "n": -(2**53)}), "payload.n", "an integer below −(2^53−1)"),
    (new(payload={"title": "x", "n": 10**40}), "payload.n", "a huge integer"),
    (written(payload='{"title":"x","n":9007199254740993.0}'), "payload.n", "a whole float beyond 2^53−1"),
    (written(payload='{"title":"x","n":1e20}'), "payload.n", "the same with an exponent"),
    (new(attempt="yes"), "attempt", "text for true"),
    (new(attempt=1), "attempt", "a number for true"),
    (new(items=[{}]), "items", "items for a tool that takes none"),
    (new(items={}), "items", "an object for items"),
    (new(deadline_at="tomorrow"), "deadline_at", "a deadline in words"),
    (new(deadline_at="2027-01-01T00:00:00"), "deadline_at", "a deadline without an offset"),
    (new(deadline_at="2026-13-01T00:00:00Z"), "deadline_at", "a thirteenth month"),
    (new(deadline_at="2001-01-01T00:00:00Z"), "deadline_at", "a deadline in the past"),
    (new(deadline_at="0001-01-01T00:00:00+23:00"), "deadline_at", "before the calendar begins"),
    (new(deadline_at="9999-12-31T23:59:59-23:00"), "deadline_at", "after the calendar ends"),
    (new(deadline_at="9999-12-31T23:59:59Z"), "deadline_at", "the end of the calendar, which no program can read back"),
    (new(deadline_at=1e30), "deadline_at", "a number no clock shows"),
    (new(deadline_at=True), "deadline_at", "true for a time"),
    (new(principal="x" * 121), "principal", "a principal of 121"),
    (new(principal="p\x00"), "principal", "a NUL in the principal"),
    (new(principal={}), "principal", "an object for a principal"),
    (new(trace_id="t\x00"), "trace_id", "a NUL in the trace"),
    (new(trace_id="x" * 129), "trace_id", "a trace of 129"),
    (new(agent="me"), "agent", "text for an agent"),
    (new(agent={"name": "n\x00"}), "agent.name", "a NUL in the agent's name"),
    (new(agent={"name": ""}), "agent.name", "an agent without a name"),
    (new(agent={"run": "x" * 201}), "agent.run", "a run of 201"),
    (new(agent={"step": 3}), "agent.step", "a number for a step"),
    (new(agent={"mood": "good"}), "agent.mood", "an unknown member inside"),
    (new(atempt=True), "atempt", "an unknown member"),
    (new(**{"a b\x00": 1}), "a b\x00", "an unknown member with a NUL"),
    ({"tool": "tickets.create", "payload": PAYLOAD}, "operation_id", "no operation_id"),
    ({"operation_id": "bad:1", "payload": PAYLOAD}, "tool", "no tool"),
    ({"operation_id": "bad:1", "tool": "tickets.create"}, "payload", "no payload"),
]


@pytest.mark.parametrize(("body", "field", "why"), INTENTS, ids=[why for *_, why in INTENTS])
def test_intents_are_refused_by_the_member(api: Api, body: Any, field: str, why: str) -> None:
    answer = api.post("/operations", body, raw=body if isinstance(body, bytes) else None)
    assert answer.status_code == 422, answer.content
    assert envelope(answer)["field"] == field, why
    assert api.get("/operations/bad:1").status_code == 404, "nothing was recorded"


REPORTS: list[tuple[dict[str, Any], str, str]] = [
    ({}, "kind", "no kind"),
    ({"kind": "rumour"}, "kind", "an unknown kind"),
    ({"kind": 5}, "kind", "a number for a kind"),
    ({"kind": "x" * 41}, "kind", "a long kind"),
    ({"kind": "http"}, "status", "an answer without a status"),
    ({"kind": "http", "status": "201"}, "status", "text for a status"),
    ({"kind": "http", "status": 99}, "status", "a status that is none"),
    ({"kind": "http", "status": True}, "status", "true for a status"),
    ({"kind": "http", "status": 2**70}, "status", "a huge status"),
    ({**LOST, "phase": "lunch"}, "phase", "an unknown phase"),
    ({**LOST, "bytes_sent": -1}, "bytes_sent", "fewer bytes than none"),
    ({**LOST, "bytes_sent": "300"}, "bytes_sent", "text for a number of bytes"),
    ({**LOST, "cost": -1}, "cost", "a cost below nothing"),
    ({**LOST, "cost": -0.5}, "cost", "a cost below nothing"),
    ({**LOST, "cost": 1e9}, "cost", "a cost beyond its column"),
    ({**LOST, "cost": 10**30}, "cost", "a huge cost"),
    ({**LOST, "cost": "1"}, "cost", "text for a cost"),
    ({**LOST, "cost": True}, "cost", "true for a cost"),
    ({**LOST, "network_attempts": -1}, "network_attempts", "fewer requests than none"),
    ({**LOST, "network_attempts": 10_001}, "network_attempts", "more requests than anybody makes"),
    ({**LOST, "network_attempts": 1.5}, "network_attempts", "half a request"),
    ({**LOST, "message": "a\x00b"}, "message", "a NUL"),
    ({**LOST, "extra": [2**53]}, "extra[0]", "an integer beyond 2^53−1, even where nobody reads it"),
]


@pytest.mark.parametrize(("body", "field", "why"), REPORTS, ids=[f"{why} {n}" for n, (*_, why) in enumerate(REPORTS)])
def test_reports_are_refused_by_the_member(api: Api, body: Any, field: str, why: str) -> None:
    before = api.get("/operations/known").json()["data"]["version"]
    answer = api.post(REPORT, body)
    assert answer.status_code == 422, answer.content
    assert envelope(answer)["field"] == field, why
    assert api.get("/operations/known").json()["data"]["version"] == before, "nothing was recorded"


REVISIONS: list[tuple[dict[str, Any], str, str]] = [
    ({"payload": PAYLOAD, "reason": "x"}, "kind", "no kind"),
    ({"kind": "whim", "payload": PAYLOAD, "reason": "x"}, "kind", "an unknown kind"),
    ({"kind": "repair", "reason": "x"}, "payload", "no payload"),
    ({"kind": "repair", "payload": PAYLOAD}, "reason", "no reason"),
    ({"kind": "repair", "payload": PAYLOAD, "reason": ""}, "reason", "an empty reason"),
    ({"kind": "repair", "payload": PAYLOAD, "reason": "r\x00"}, "reason", "a NUL in the reason"),
    ({"kind": "repair", "payload": PAYLOAD, "reason": "x" * 2001}, "reason", "a novel"),
    ({"kind": "repair", "payload": PAYLOAD, "reason": "x", "field": ""}, "field", "an empty field"),
    ({"kind": "repair", "payload": {"title": "x\x00"}, "reason": "x"}, "payload.title", "a NUL in the payload"),
    ({"kind": "repair", "payload": {}, "reason": "x"}, "payload.title", "a payload that does not fit"),
    ({"kind": "repair", "payload": PAYLOAD, "reason": "x", "why": 1}, "why", "an unknown member"),
]


@pytest.mark.parametrize(("body", "field", "why"), REVISIONS, ids=[why for *_, why in REVISIONS])
def test_revisions_are_refused_by_the_member(api: Api, body: Any, field: str, why: str) -> None:
    answer = api.post("/operations/known/revisions", body)
    assert answer.status_code == 422, answer.content
    assert envelope(answer)["field"] == field, why


def test_a_permit_takes_no_members(api: Api) -> None:
    answer = api.post("/operations/known/attempts", {"licence": "please"})
    assert (answer.status_code, envelope(answer)["field"]) == (422, "licence")
    assert api.post("/operations/known/attempts", None, raw=b"").status_code == 409


STRANGE_NAMES = [
    ("a%00b", 422, "a NUL"),
    ("a%0Ab", 422, "a line break"),
    ("%20", 422, "a space"),
    ("%ff%fe", 422, "no UTF-8"),
    ("%F0%9F%98%80", 422, "an emoji"),
    ("x" * 201, 422, "201 long"),
    ("x" * 5000, 422, "5,000 long"),
    ("-a", 422, "a leading dash"),
    ("..", 422, "a parent folder"),
    ("..%2f..%2fetc", 404, "a path"),
    ("nobody", 404, "a name that nobody has"),
]


@pytest.mark.parametrize(("name", "status", "why"), STRANGE_NAMES, ids=[why for *_, why in STRANGE_NAMES])
def test_strange_operation_ids_in_the_address(api: Api, name: str, status: int, why: str) -> None:
    revision = {"kind": "repair", "payload": PAYLOAD, "reason": "x"}
    for answer in (
        api.get(f"/operations/{name}"),
        api.get(f"/operations/{name}?wait=5"),
        api.post(f"/operations/{name}/attempts", {}),
        api.post(f"/operations/{name}/attempts/attempt-01/observations", LOST),
        api.post(f"/operations/{name}/revisions", revision),
    ):
        error = envelope(answer)
        assert answer.status_code == status, why
        assert error["field"] == ("operation_id" if status == 422 else None)


@pytest.mark.parametrize(
    "name", ["attempt-1", "attempt-001", "attempt-99999", "attempt-00", "a%00", "attempt-०१", "01"]
)
def test_strange_attempt_ids_in_the_address(api: Api, name: str) -> None:
    answer = api.post(f"/operations/known/attempts/{name}/observations", LOST)
    assert (answer.status_code, envelope(answer)["code"]) == (404, "ATTEMPT_NOT_FOUND")


QUERIES = [
    ("limit=0", "limit"),
    ("limit=201", "limit"),
    ("limit=-1", "limit"),
    ("limit=1e2", "limit"),
    ("limit=%D9%A3", "limit"),
    ("limit=" + "9" * 400, "limit"),
    ("cursor=abc", "cursor"),
    ("cursor=%00", "cursor"),
    ("cursor=%E2%82%AC", "cursor"),
    ("cursor=MjAyNi0xMi0wMVQwMDowMDowMHxhYmM", "cursor"),
    ("state=gone", "state"),
    ("state=open%20settled", "state"),
    ("state=%00", "state"),
    ("effect=%ff", "effect"),
    ("tool=a%20b", "tool"),
    ("tool=a%00", "tool"),
    ("q=state:gone", "q"),
    ("q=tool:", "q"),
    ("sort=age", "sort"),
    ("so%00rt=age", "so\x00rt"),
]


@pytest.mark.parametrize(("query", "field"), QUERIES, ids=[query[:30] for query, _ in QUERIES])
def test_lists_refuse_what_they_do_not_know(api: Api, query: str, field: str) -> None:
    answer = api.get(f"/operations?{query}")
    assert (answer.status_code, envelope(answer)["field"]) == (422, field)


@pytest.mark.parametrize(
    "query", ["q=%00", "q=a%00b", "q=" + "a" * 3000, "q=%F0%9F%98%80", "cursor=&state=", "q=" + "x+" * 200]
)
def test_lists_find_nothing_for_odd_words(api: Api, query: str) -> None:
    assert api.get(f"/operations?{query}").status_code == 200


@pytest.mark.parametrize(
    ("query", "field"),
    [("wait=-1", "wait"), ("wait=1.5", "wait"), ("wait=soon", "wait"), ("wait=99999", "wait"), ("version=-1", "version"),
     ("version=99999999999", "version"), ("dialect=klingon", "dialect"), ("dialect=%00", "dialect")],
)  # fmt: skip
def test_reading_refuses_what_it_does_not_know(api: Api, query: str, field: str) -> None:
    answer = api.get(f"/operations/known?{query}")
    assert (answer.status_code, envelope(answer)["field"]) == (422, field)


@pytest.mark.parametrize("path", ["/operations", "/operations/known", "/operations/known/attempts", REPORT])
@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
def test_another_method_is_an_envelope_too(api: Api, path: str, method: str) -> None:
    answer = api.client.generic(method, f"/api/v1{path}", headers={"Authorization": f"Bearer {api.token}"})
    assert (answer.status_code, envelope(answer)["code"]) == (405, "METHOD_NOT_ALLOWED")
    assert answer["Allow"]


@pytest.mark.parametrize(
    "path", ["/nothing", "", "/", "/operations/", "/operations/a/b/c", "/operations/known/attempts/x"]
)
def test_an_unknown_address_is_an_envelope_too(api: Api, path: str) -> None:
    answer = api.get(path)
    assert answer.status_code == 404
    envelope(answer)


def test_a_form_is_no_body(api: Api) -> None:
    headers = {"Authorization": f"Bearer {api.token}"}
    answer = api.client.post("/api/v1/operations", data={"title": "x"}, headers=headers)
    assert (answer.status_code, envelope(answer)["code"]) == (400, "BODY_NOT_JSON")


def sent(api: Api, body: bytes, **environ: Any) -> tuple[int, dict[str, Any]]:
    """A request as a server hands it over, with whatever it says of its length."""
    given: dict[str, Any] = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/api/v1/operations",
        "QUERY_STRING": "",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "HTTP_AUTHORIZATION": f"Bearer {api.token}",
        "wsgi.input": io.BytesIO(body),
        "wsgi.url_scheme": "http",
        "wsgi.errors": io.StringIO(),
        **environ,
    }
    status: list[str] = []
    answer = WSGIHandler()(given, lambda line, _headers: status.append(line))
    content = b"".join(answer)
    answer.close()
    return int(status[0].split()[0]), json.loads(content)


SMALL = json.dumps(new(operation_id="length", payload={"title": "length"}, attempt=False)).encode()
LARGE = json.dumps(new(payload={"title": "x" * TWO_MIB})).encode()
CHUNKED = {"HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input_terminated": True}
LENGTHS: list[tuple[bytes, dict[str, Any], int, str]] = [
    (SMALL, {"CONTENT_LENGTH": str(len(SMALL))}, 201, "as it is"),
    (SMALL, CHUNKED, 200, "chunked: no length is stated, the server ends the stream"),
    (LARGE, {"CONTENT_LENGTH": str(len(LARGE))}, 413, "2 MiB, and it says so"),
    (LARGE, CHUNKED, 413, "2 MiB, chunked"),
    (SMALL, {"CONTENT_LENGTH": str(TWO_MIB)}, 413, "it says 2 MiB: refused before it is read"),
    (LARGE, {"CONTENT_LENGTH": "100"}, 400, "2 MiB, and it says 100 bytes: only those are read"),
    (SMALL, {"CONTENT_LENGTH": "-5"}, 400, "a length below nothing"),
    (SMALL, {"CONTENT_LENGTH": "many"}, 400, "a length in words"),
    (SMALL, {"CONTENT_LENGTH": "9" * 300}, 413, "a length of 300 digits"),
    (SMALL, {"CONTENT_LENGTH": "²"}, 400, "a length that looks like a digit"),
    (SMALL, {}, 400, "no length at all: no body"),
]


@pytest.mark.parametrize(("body", "environ", "status", "why"), LENGTHS, ids=[why for *_, why in LENGTHS])
def test_lengths(api: Api, body: bytes, environ: dict[str, Any], status: int, why: str) -> None:
    got, answer = sent(api, body, **environ)
    # Whichever length comes first records the operation; the others find it recorded.
    assert got in ((200, 201) if status == 200 else (status,)), (why, answer)
    assert answer["ok"] is (status < 300)


def test_a_body_of_almost_a_mebibyte_is_taken(api: Api) -> None:
    body = new(operation_id="large", payload={"title": "x" * 1_000_000}, attempt=False)
    assert api.post("/operations", body).status_code == 201


@pytest.fixture(scope="module")
def tokens(bench: Bench) -> dict[str, str]:
    """Tokens that may not, no longer, or not this."""
    now = database_now()
    soon = now + timedelta(days=1)

    def token(**terms: Any) -> Any:
        terms = {"scopes": list(Scope), "expires_at": soon, **terms}
        return create_token(workspace_id=bench.id, name="t", now=now, **terms)

    revoked = token()
    revoke_token(id=revoked.id, now=now)
    return {
        "expired": token(expires_at=now - timedelta(seconds=1)).token,
        "revoked": revoked.token,
        "reads": token(scopes=[Scope.OPERATIONS_READ]).token,
        "writes": token(scopes=[Scope.OPERATIONS_WRITE]).token,
        "svc": token(principals=["svc-support"]).token,
    }


STRANGERS = [
    ("", "TOKEN_MISSING", "nothing"),
    ("Bearer", "TOKEN_MISSING", "a scheme without a token"),
    ("Basic b2xpdmU6eA==", "TOKEN_MISSING", "another scheme"),
    ("Bearer x", "TOKEN_UNKNOWN", "a word"),
    ("Bearer asc_deadbeef0000_nothing", "TOKEN_UNKNOWN", "the right form"),
    ("Bearer asc__", "TOKEN_UNKNOWN", "an empty prefix"),
    ("Bearer asc_\x00_x", "TOKEN_UNKNOWN", "a NUL"),
    ("Bearer asc_ä_x", "TOKEN_UNKNOWN", "an umlaut"),
    ("Bearer asc_\ud800_x", "TOKEN_UNKNOWN", "half of a surrogate pair"),
    ("Bearer " + "x" * 50_000, "TOKEN_UNKNOWN", "50,000 letters"),
]


@pytest.mark.parametrize(("header", "code", "why"), STRANGERS, ids=[why for *_, why in STRANGERS])
def test_strangers_are_told_nothing(api: Api, header: str, code: str, why: str) -> None:
    answers = [
        api.client.get("/api/v1/operations/known", headers={"Authorization": header}),
        api.client.get("/api/v1/operations/no-such", headers={"Authorization": header}),
    ]
    for answer in answers:
        assert (answer.status_code, envelope(answer)["code"]) == (401, code), why
        assert answer["WWW-Authenticate"] == "Bearer"
    assert answers[0].content == answers[1].content


def test_a_token_with_a_changed_secret_is_not_known(api: Api) -> None:
    changed = api.token[:-1] + ("a" if api.token[-1] != "a" else "b")
    assert envelope(Api(changed).get("/operations"))["code"] == "TOKEN_UNKNOWN"


@pytest.mark.parametrize("kind", ["expired", "revoked"])
def test_ended_tokens_say_so(tokens: dict[str, str], kind: str) -> None:
    for answer in (Api(tokens[kind]).get("/operations"), Api(tokens[kind]).post("/operations", NEW)):
        assert (answer.status_code, envelope(answer)["code"]) == (401, f"TOKEN_{kind.upper()}")


def test_a_scope_is_needed(tokens: dict[str, str]) -> None:
    reads, writes = Api(tokens["reads"]), Api(tokens["writes"])
    assert reads.get("/operations/known").status_code == 200
    revision = {"kind": "repair", "payload": PAYLOAD, "reason": "x"}
    refused = [
        reads.post("/operations", NEW),
        reads.post("/operations/known/attempts", {}),
        reads.post(REPORT, LOST),
        reads.post("/operations/known/revisions", revision),
        writes.get("/operations"),
        writes.get("/operations/known"),
    ]
    for answer in refused:
        assert (answer.status_code, envelope(answer)["code"]) == (403, "SCOPE_MISSING")


@pytest.mark.parametrize("principal", [None, "", "svc-billing", "svc-support "])
def test_a_token_states_only_its_principals(tokens: dict[str, str], principal: str | None) -> None:
    answer = Api(tokens["svc"]).post("/operations", new(operation_id="mine", principal=principal))
    assert (answer.status_code, envelope(answer)["field"]) == (403, "principal")
    mine = new(operation_id="mine", principal="svc-support", payload={"title": "mine"}, attempt=False)
    assert Api(tokens["svc"]).post("/operations", mine).status_code in (200, 201)


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(
        ["http", "exception", "await", "2026-12-01T09:00:00Z", "tickets.create", "fuzz", "repair", "a\x00"]
    )
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
MEMBERS = st.sampled_from(
    ["operation_id", "tool", "payload", "attempt", "deadline_at", "items", "principal", "agent", "trace_id", "kind",
     "status", "headers", "body", "exception", "phase", "bytes_sent", "request_bytes", "cause", "http2", "smtp", "request",
     "response", "elapsed_ms", "observed_at", "network_attempts", "cost", "message", "errno", "redirects", "field", "reason",
     "details", "code", "error", "call", "result", "task", "operation", "items", "pages", "lookup", "matches", "checks",
     "exit_code", "stdout", "timed_out", "complete", "failed", "principal"]
)  # fmt: skip
KINDS = st.sampled_from(
    ["http", "exception", "grpc", "jsonrpc", "mcp", "mcp_task", "lro", "batch", "process", "lookup", "envelope",
     "verification"]
)  # fmt: skip
BODIES = (
    JSON
    | st.dictionaries(MEMBERS, JSON, max_size=6)
    | st.dictionaries(MEMBERS, JSON, max_size=6).map(lambda body: {**NEW, **body})
    | st.builds(lambda kind, body: {**body, "kind": kind}, KINDS, st.dictionaries(MEMBERS, JSON, max_size=6))
    | st.builds(
        lambda status, headers, body: {"kind": "http", "status": status, "headers": headers, "body": body},
        st.integers(100, 999),
        st.dictionaries(st.sampled_from(["Retry-After", "content-type", "server", "date", "via"]), JSON, max_size=3),
        JSON,
    )
)
PATHS = ["/operations", "/classify", REPORT, "/operations/known/attempts", "/operations/known/revisions"]


def _checked(answer: Any) -> None:
    assert answer.status_code < 500, answer.content
    if answer.status_code >= 400:
        envelope(answer)
    else:
        assert json.loads(answer.content)["ok"] is True


@pytest.fixture(scope="module")
def quiet() -> Iterator[None]:
    """Hundreds of refusals are not worth a line each."""
    import logging

    logging.getLogger("django.request").setLevel(logging.ERROR)
    yield
    logging.getLogger("django.request").setLevel(logging.NOTSET)


@pytest.mark.parametrize("path", PATHS)
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=BODIES)
def test_any_json_is_answered(api: Api, quiet: None, path: str, body: Any) -> None:
    _checked(api.post(path, body))


@pytest.mark.parametrize("path", PATHS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.binary(max_size=80))
def test_any_bytes_are_answered(api: Api, quiet: None, path: str, body: bytes) -> None:
    _checked(api.post(path, None, raw=body))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.text(min_size=1, max_size=12), value=st.text(max_size=12))
def test_any_address_and_query_is_answered(api: Api, quiet: None, name: str, value: str) -> None:
    from urllib.parse import quote

    shown, given = quote(name, safe="", errors="replace"), quote(value, safe="", errors="replace")
    _checked(api.get(f"/operations/{shown}?dialect={given}"))
    _checked(api.get(f"/operations?q={given}"))
    _checked(api.get(f"/operations?cursor={given}&state={shown}"))
    _checked(api.post(f"/operations/known/attempts/{shown}/observations", LOST))


def test_after_all_of_it_the_ledger_verifies(database: Database) -> None:
    call_command("verify_ledger", verbosity=0)
