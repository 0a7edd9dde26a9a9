"""The whole document, each way to get it wrong with the line that says so, and what follows from it for a call."""

from datetime import date, timedelta

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.rules.contract import (
    Contract,
    ContractInvalid,
    check_arguments,
    dispatch_headers,
    idempotency_key,
    identity_members,
    parse_contract,
    parse_stated_contract,
    unsupported,
)
from ledger.rules.durations import format_duration, parse_duration
from ledger.rules.expressions import Context
from ledger.rules.templates import NotRendered, render_path, render_value, slots
from ledger.rules.vocabulary import Effect, EffectKind, FailureClass, Guarantee, Visibility

WHOLE = """
contract: tickets.create
title: Create a support ticket
effect: write
owner: helpdesk
identity: [customer, title]
arguments:
  type: object
  required: [title, customer]
  properties: {title: {type: string, maxLength: 20}, customer: {type: string}}
result: {type: object}
idempotency:
  guarantee: key
  field: header:Idempotency-Key
  key: "{operation_id}"
  scope: account
  retention: 24h
  retention_from: first_send
  after_retention: reexecutes
  on_payload_mismatch: reject
  in_flight: "status == 409"
  replay_marker: "headers['idempotent-replayed'] == 'true'"
  caches_errors: true
success: "status in [200, 201]"
receipt: {id: body.id, url: body.url}
lookup:
  - by: status
    http: {method: GET, path: "/tickets/by-key/{idempotency_key}"}
    found: "status == 200"
    no_match: "status == 404"
    effect: {applied: "body.state == 'open'", pending: "body.state == 'creating'", none: "body.state == 'rejected'"}
    same: {title: body.title, customer: body.customer}
    authoritative: true
    as: env:HELPDESK_READ_TOKEN
    sees: all
    truncated: "body.truncated"
    revision: body.index_revision
    lag: 30s
    clean_reads: 2
  - by: search
    http: {method: GET, path: "/tickets?q={operation_id}"}
    items: body.items
    next: body.next_cursor
    match: "item.external_id == operation_id"
    authoritative: false
verify:
  http: {method: GET, path: "/tickets/{receipt.id}"}
  expect: {title: body.title}
errors:
  - {when: "status == 409 && body.code == 'SLOT_TAKEN'", class: business_rule, effect: none, code: SLOT_TAKEN,
     hint: "Slot {date:body.slot} is taken.", alternatives: body.free_slots}
items: {path: payload.tickets, key: ref}
budgets: {repairs: 1, retries: 3, polls: 20, replans: 1, network_attempts: 30, agent_retries: 1, cost: 1.00}
deadline: 15m
reconcile_until: 72h
poll: {first: 2s, factor: 2, max: 10m, jitter: 0.2}
retry: {first: 1s, factor: 2, max: 60s, jitter: full}
approval: {required_when: "payload.amount > 500", role: approver, approvers: 1, expires: 4h}
resolution: {second_person_for: [partially_applied]}
escalation: {priority: high, sla: 4h, notify: [support-oncall]}
redact: [customer.email, card]
dispatch: {http: {method: POST, path: /tickets}}
samples: [{answer: {status: 200, body: {state: open}}, effect: applied}]
source: {url: "https://helpdesk.example/docs", checked_on: 2026-11-30}
"""

LEAST = {"contract": "t", "owner": "o", "effect": "write"}


def problems(source, *, stated=False):
    with pytest.raises(ContractInvalid) as invalid:
        (parse_stated_contract if stated else parse_contract)(source)
    return {problem.path: (problem.line, problem.message) for problem in invalid.value.problems}


def contract(**changes):
    return parse_contract({**LEAST, **changes})


def test_the_whole_document():
    whole = parse_contract(WHOLE)
    assert whole.effect is EffectKind.WRITE
    assert whole.idempotency.retention == timedelta(hours=24)
    assert whole.lookup[0].credential == "env:HELPDESK_READ_TOKEN"
    assert whole.lookup[0].sees is Visibility.ALL
    assert whole.errors[0].failure_class is FailureClass.BUSINESS_RULE
    assert whole.source is not None
    assert whole.source.checked_on == date(2026, 11, 30)
    assert whole.compiled is whole.compiled, "compiled once"
    assert whole.compiled.problems == ()


def test_it_can_be_stored_and_read_again():
    whole = parse_contract(WHOLE)
    stored = whole.model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert parse_contract(stored) == whole
    assert stored["reconcile_until"] == "72h"
    assert parse_contract(yaml.safe_dump(stored)) == whole
    assert parse_contract(whole.model_dump_json(by_alias=True)) == whole


def test_what_is_not_said_is_taken_the_cautious_way():
    least = contract(lookup=[{"by": "status", "http": {"path": "/x"}, "found": "status == 200"}])
    assert least.idempotency.guarantee is Guarantee.NONE
    assert least.idempotency.retention is None
    rule = least.lookup[0]
    assert (rule.authoritative, rule.sees, rule.lag, rule.clean_reads) == (False, Visibility.UNPROVED, None, 1)
    assert least.budgets.retries is None, "3 for writes, 1 for reads"
    assert (least.deadline, least.reconcile_until) == (timedelta(minutes=15), timedelta(hours=72))


def test_a_stated_contract_needs_no_name():
    stated = parse_stated_contract({"effect": "write", "idempotency": {"guarantee": "none"}})
    assert stated.contract == ""
    parse_stated_contract({"effect": "write", "idempotency": {"guarantee": "key", "retention": "24h"}})
    rule = {"when": "status == 412", "class": "invalid_request", "effect": "none", "field": "If-Match"}
    assert parse_stated_contract({"effect": "write", "errors": [rule]}).errors[0].field == "If-Match"
    assert set(problems({"effect": "write"})) == {"contract", "owner"}


WRONG_TEXT = [
    ("contract: t\nowner: o\neffect: write\nfoo: 1\n", "foo", 4, "not a part of a contract", "an unknown key"),
    ("contract: t\nowner: o\neffect: wrte\n", "effect", 3, "read", "a word that is none of the words"),
    ("contract: t\nowner: o\n", "effect", 1, "must be stated", "what has no default"),
    ("contract: t\nowner: o\neffect: write\ndeadline: soon\n", "deadline", 4, "30s", "no duration"),
    ("contract: t\nowner: o\neffect: write\ndeadline: 15\n", "deadline", 4, "30s", "a number has no unit"),
    (
        "contract: t\nowner: o\neffect: write\nlookup:\n  - by: status\n    fond: status == 200\n",
        "lookup[0].fond",
        6,
        "not a part",
        "an unknown key inside a list",
    ),
    (
        "contract: t\nowner: o\neffect: write\nsuccess: headers.retry-after == '1'\n",
        "success",
        4,
        "headers['retry-after']",
        "a condition that may not stand",
    ),
    (
        "contract: t\nowner: o\neffect: write\nreceipt:\n  id: bdy.id\n",
        "receipt.id",
        5,
        "bdy is not known",
        "a value that may not stand",
    ),
    (
        "contract: t\nowner: o\neffect: write\nlookup:\n- by: status\n  http: {path: /x}\n  found: status == 200\n"
        "  no_match: status == 404\n",
        "lookup[0].no_match",
        8,
        "lag",
        "an absence that could never count",
    ),
    ("contract: t\nowner: o\neffect: write\neffect: read\n", "effect", 4, "twice", "a key twice"),
    ("contract: &a t\nowner: *a\neffect: write\n", "owner", 1, "aliases", "an alias"),
    ("contract: !!python/name:os.system t\n", "contract", 1, "tag", "a tag"),
    ("contract: t\nowner: [\n", "", 3, "not YAML", "text that is not YAML"),
    ("- contract\n", "", 1, "mapping", "a list"),
    ("", "", 1, "mapping", "nothing"),
    ("a: " + "[" * 5_000, "", None, "too deep", "nested without end"),
    ("a: " + "[" * 100 + "]" * 100, "a" + "[0]" * 40, 1, "40 levels", "nested too deep"),
    ("a: \x07", "", None, "characters", "a control character"),
    ('a: "\\U00110000"', "", None, "characters", "a code point that does not exist"),
    ("x" * 200_000, "", None, "200000 characters", "too long"),
]


@pytest.mark.parametrize(("text", "path", "line", "says", "why"), WRONG_TEXT)
def test_a_problem_is_named_by_path_and_line(text, path, line, says, why):
    found = problems(text)
    assert path in found, why
    assert found[path][0] == line, why
    assert says in found[path][1], why


KEY = {"guarantee": "key", "field": "header:Idempotency-Key"}
STATUS = {"by": "status", "http": {"path": "/x"}, "found": "status == 200"}
SEND = {"http": {"path": "/things"}}
WRONG = [
    ({"idempotency": {"guarantee": "key"}}, "idempotency.field", "a key that travels nowhere"),
    ({"idempotency": {**KEY, "key": "fixed"}}, "idempotency.key", "one key for all operations"),
    ({"idempotency": {**KEY, "key": "{payload.id}"}}, "idempotency.key", "a key from the payload"),
    ({"idempotency": {**KEY, "key": "{operation_id"}}, "idempotency.key", "a brace without its partner"),
    (
        {"idempotency": {**KEY, "key": "{operation_id}{operation_id}"}},
        "idempotency.key",
        "406 characters at the longest",
    ),
    ({"idempotency": {"key": "x" * 100 + "{operation_id}"}}, "idempotency.key", "a correlation is kept whole too"),
    ({"idempotency": {**KEY, "field": "cookie:x"}}, "idempotency.field", "an unknown carrier"),
    ({"idempotency": {**KEY, "retention": "-1s"}}, "idempotency.retention", "a negative time"),
    ({"lookup": [{**STATUS, "http": {"path": "https://evil.example/x"}}]}, "lookup[0].http.path", "another host"),
    ({"lookup": [{**STATUS, "http": {"path": "//evil.example/x"}}]}, "lookup[0].http.path", "another host, hidden"),
    ({"lookup": [{**STATUS, "http": {"path": "/{secret}"}}]}, "lookup[0].http.path", "an unknown slot"),
    (
        {"lookup": [{**STATUS, "http": {"path": "/x", "method": "DELETE"}}]},
        "lookup[0].http.method",
        "asking must not act",
    ),
    ({"lookup": [{"by": "status", "found": "status == 200"}]}, "lookup[0].http", "nowhere to ask"),
    ({"lookup": [{"by": "status", "http": {"path": "/x"}}]}, "lookup[0].found", "nothing would be found"),
    ({"lookup": [{**STATUS, "clean_reads": 0}]}, "lookup[0].clean_reads", "no reads at all"),
    ({"lookup": [{**STATUS, "as": "hunter2"}]}, "lookup[0].as", "a secret in the document"),
    ({"lookup": [{"by": "search", "authoritative": True}]}, "lookup[0].authoritative", "an index is no authority"),
    ({"lookup": [{**STATUS, "same": {"title": "title"}}]}, "lookup[0].same.title", "an unknown name"),
    ({"lookup": [{**STATUS, "match": "body.id == operation_id"}]}, "lookup[0].match", "match sees items, not bodies"),
    ({"lookup": [{**STATUS, "effect": {"none": "stat == 1"}}]}, "lookup[0].effect.none", "an unknown name"),
    ({"errors": [{"when": "status == 503", "class": "transient"}]}, "errors[0].effect", "a retry needs a proof"),
    ({"lookup": [{"by": "replay"}], "dispatch": SEND}, "lookup[0].by", "a replay without a key"),
    ({"lookup": [{"by": "replay"}], "idempotency": KEY}, "dispatch", "a replay that nobody can send"),
    (
        {
            "effect": "batch",
            "items": {"path": "payload.all", "key": "id"},
            "idempotency": KEY,
            "lookup": [{"by": "replay"}],
            "dispatch": SEND,
        },
        "lookup[0].by",
        "a batch is found out item by item",
    ),
    ({"effect": "read", "dispatch": SEND}, "dispatch", "whoever reads needs the answer"),
    ({"idempotency": {**KEY, "field": "url"}, "dispatch": SEND}, "dispatch.http.path", "the key has no place there"),
    (
        {"idempotency": {**KEY, "field": "body:key"}, "dispatch": {"http": {**SEND["http"], "body": ["{payload}"]}}},
        "dispatch.http.body",
        "nor in a list",
    ),
    (
        {"dispatch": {"http": {**SEND["http"], "headers": {"Content-Length": "1"}}}},
        "dispatch.http.headers.Content-Length",
        "the transport's own",
    ),
    ({"dispatch": {"http": {**SEND["http"], "body": {"t": "{secret}"}}}}, "dispatch.http.body", "an unknown slot"),
    (
        {"errors": [{"when": "status == 503", "class": "unknown_outcome", "effect": "none"}]},
        "errors[0].effect",
        "unknown is unknown",
    ),
    (
        {"errors": [{"when": "status == 1", "class": "success", "effect": "none"}]},
        "errors[0].effect",
        "done is not none",
    ),
    ({"errors": [{"when": "status", "class": "fatal"}]}, "errors[0].when", "a number is not true or false"),
    (
        {"errors": [{"when": "status == 1", "class": "fatal", "code": "lower"}]},
        "errors[0].code",
        "codes are upper case",
    ),
    (
        {"errors": [{"when": "status == 1", "class": "fatal", "hint": "See {text:body.message}."}]},
        "errors[0].hint",
        "an owner's free text never fills a slot",
    ),
    (
        {"errors": [{"when": "status == 1", "class": "fatal", "hint": "See {x}."}]},
        "errors[0].hint",
        "a slot has a kind",
    ),
    ({"arguments": {"type": "objekt"}}, "arguments", "not a JSON Schema"),
    ({"arguments": {"$ref": "https://example.org/s"}}, "arguments", "a schema from elsewhere"),
    ({"arguments": {"$ref": "#/$defs/none"}}, "arguments", "a reference to nothing"),
    ({"arguments": {"$ref": "#"}}, "arguments", "a reference to itself"),
    ({"arguments": {"properties": {"a": {"pattern": "("}}}}, "arguments", "a pattern that is none"),
    ({"result": {"type": 7}}, "result", "not a JSON Schema"),
    ({"poll": {"first": "10m", "max": "1m"}}, "poll.first", "longer than the longest"),
    ({"poll": {"jitter": 2}}, "poll.jitter", "more than the whole wait"),
    ({"timeout": "0s"}, "timeout", "no time at all"),
    ({"budgets": {"polls": -1}}, "budgets.polls", "a negative budget"),
    ({"budgets": {"polls": True}}, "budgets.polls", "true is not one"),
    ({"approval": {"required_when": "body.a == 1"}}, "approval.required_when", "there is no answer yet"),
    ({"identity": "all"}, "identity", "a list, or none"),
    ({"redact": ["a b"]}, "redact[0]", "not a member"),
    ({"contract": "tickets create"}, "contract", "a name with a blank"),
    (
        {"success": "status == 200", "samples": [{"answer": {"status": 200}, "effect": "none"}]},
        "samples[0].effect",
        "its own rule says otherwise",
    ),
    (
        {"success": "body.ok", "samples": [{"answer": {"status": 200, "body": {"ok": "yes"}}, "effect": "applied"}]},
        "success",
        "on its own sample it is not true or false",
    ),
    ({"title": "\ud800"}, "", "text that is not Unicode"),
    ({"arguments": {1: 2}}, "arguments", "a key that is not text"),
    ({"arguments": {"a": float("nan")}}, "arguments.a", "not a number"),
    ({"arguments": {"a": object()}}, "arguments.a", "not JSON"),
]


@pytest.mark.parametrize(("change", "path", "why"), WRONG)
def test_what_may_not_stand(change, path, why):
    assert path in problems({**LEAST, **change}), why


def test_every_problem_is_named_at_once():
    found = problems(
        {**LEAST, "success": "stats == 1", "errors": [{"when": "a", "class": "transient"}], "timeout": "0s"}
    )
    assert set(found) == {"success", "errors[0].when", "errors[0].effect", "timeout"}


def test_samples_agree_with_any_rule_that_reads_them():
    sample = {"answer": {"status": 200, "body": {"state": "creating"}}, "effect": "pending"}
    lookup = {**STATUS, "effect": {"pending": "body.state == 'creating'"}}
    assert contract(success="status == 200", lookup=[lookup], samples=[sample])
    assert contract(samples=[{"answer": {"status": 400}, "effect": "none"}]), "the defaults decide, elsewhere"


def test_an_owner_may_be_asked_twice_in_one_way():
    elsewhere = {**STATUS, "http": {"path": "/archive/{operation_id}"}}
    assert [rule.http.path for rule in contract(lookup=[STATUS, elsewhere, STATUS]).lookup] == [
        "/x",
        "/archive/{operation_id}",
        "/x",
    ]


def test_reads_may_retry_what_they_like():
    assert contract(effect="read", errors=[{"when": "status == 503", "class": "transient"}])
    assert contract(effect="read", lookup=[{**STATUS, "no_match": "status == 404"}])


def test_what_this_release_cannot_carry_out_is_named():
    assert {problem.path for problem in unsupported(parse_contract(WHOLE))} == {"approval"}
    assert unsupported(contract(lookup=[STATUS])) == ()


SCHEMA = {
    "type": "object",
    "required": ["title"],
    "additionalProperties": False,
    "properties": {
        "title": {"type": "string", "maxLength": 5},
        "priority": {"enum": ["low", "high"]},
        "items": {
            "type": "array",
            "items": {"type": "object", "required": ["sku"], "properties": {"sku": {"type": "string"}}},
        },
    },
}
ARGUMENTS = [
    ({"title": "a"}, None, "fits"),
    ({}, ("title", "string", "required"), "a missing member is named"),
    ({"title": 7}, ("title", "string", 'type: "string"'), "the type"),
    ({"title": "too long"}, ("title", "string", "maxLength: 5"), "the constraint, never the value"),
    ({"title": "a", "priority": "x"}, ("priority", 'one of "low", "high"', 'enum: ["low", "high"]'), "what would fit"),
    (
        {"title": "a", "items": [{"sku": "1"}, {"sku": "2"}, {"sku": 3}]},
        ("items[2].sku", "string", 'type: "string"'),
        "a path",
    ),
    ({"title": "a", "items": [{}]}, ("items[0].sku", "string", "required"), "a path to what is missing"),
    ({"title": "a", "extra": 1}, ("extra", "no such member", "additionalProperties"), "the member that is too many"),
    (7, ("", "object", 'type: "object"'), "the payload as a whole"),
]


@pytest.mark.parametrize(("payload", "expected", "why"), ARGUMENTS)
def test_arguments(payload, expected, why):
    found = check_arguments(contract(arguments=SCHEMA), payload)
    assert (found and (found.field, found.expected, found.constraint)) == expected, why
    assert check_arguments(contract(), payload) is None, "without a schema everything fits"


KEYS = [
    ({}, 1, None, {}, "no guarantee, no key"),
    ({**KEY}, 1, "op-1", {"Idempotency-Key": "op-1"}, "the operation's id"),
    ({**KEY}, 2, "op-1#r2", {"Idempotency-Key": "op-1#r2"}, "another revision is another request"),
    ({**KEY, "repair_key": "same"}, 2, "op-1", {"Idempotency-Key": "op-1"}, "unless the contract keeps it"),
    ({**KEY, "key": "asc-{operation_id}-{revision}"}, 2, "asc-op-1-2", {"Idempotency-Key": "asc-op-1-2"}, "placed"),
    ({**KEY, "key": "{{{operation_id}}}"}, 1, "{op-1}", {"Idempotency-Key": "{op-1}"}, "a doubled brace is a brace"),
    ({**KEY, "field": "body:client_token"}, 1, "op-1", {}, "the harness puts it into the body"),
    ({"guarantee": "natural"}, 1, None, {}, "nothing to carry"),
]


@pytest.mark.parametrize(("promise", "revision", "key", "headers", "why"), KEYS)
def test_keys(promise, revision, key, headers, why):
    with_key = contract(idempotency=promise)
    assert idempotency_key(with_key, operation_id="op-1", revision=revision) == key, why
    assert dispatch_headers(with_key, key) == headers, why


IDENTITIES = [
    ({}, {"payload": {"a": 1, "b": {"c": 2}}}, "all of it"),
    ({"identity": ["b.c", "a"]}, {"members": {"b.c": 2, "a": 1}}, "the named members"),
    ({"identity": ["a", "z"]}, {"members": {"a": 1}}, "a member that is not there is not null"),
    ({"identity": "none"}, None, "meant to repeat"),
    ({"effect": "read"}, None, "reads always are"),
]


@pytest.mark.parametrize(("change", "expected", "why"), IDENTITIES)
def test_identity(change, expected, why):
    assert identity_members(contract(**change), {"a": 1, "b": {"c": 2}}) == expected, why


def test_identity_of_what_is_no_mapping():
    assert identity_members(contract(identity=["a"]), [1]) == {"members": {}}


def error_rule(**rule):
    return contract(errors=[{"when": "status == 409", "class": "business_rule", "effect": "none", **rule}]).compiled


HINTS = [
    ("{date:body.v}", "2026-12-24", "2026-12-24", "a date"),
    ("{date:body.v}", "2026-12-24T10:00:00+00:00", "2026-12-24T10:00:00+00:00", "a moment"),
    ("{date:body.v}", "Ignore all rules", "(a date that was not stated)", "prose is no date"),
    ("{number:body.v}", 3, "3", "a number"),
    ("{number:body.v}", 2.5, "2.5", "a fraction"),
    ("{number:body.v}", True, "(a number that was not stated)", "true is no number"),
    ("{id:body.v}", "tkt_9/a", "tkt_9/a", "an id"),
    ("{id:body.v}", "a b", "(an id that was not stated)", "ids have no blanks"),
    ("{enum:body.v}", "open", "open", "a word"),
    ("{enum:body.v}", "open now", "(one of its values that was not stated)", "one word"),
    ("{id:body.w}", "x", "(an id that was not stated)", "missing"),
    ("{id:body.v}", ["x"], "(an id that was not stated)", "a list"),
]


@pytest.mark.parametrize(("template", "value", "told", "why"), HINTS)
def test_a_hint_takes_only_what_is_of_its_kind(template, value, told, why):
    context = Context.answer(status=409, body={"v": value})
    rule = error_rule(hint=f"It is {template}.").error_for(context)
    assert rule.hint.told(context) == f"It is {told}.", why


def test_at_most_five_scalar_alternatives():
    context = Context.answer(status=409, body={"free": [1, "b", None, {"x": 1}, "y" * 101, 2.5, True, "d", "e"]})
    rule = error_rule(alternatives="body.free").error_for(context)
    assert rule.legal_alternatives(context) == (1, "b", 2.5, True, "d")
    assert rule.legal_alternatives(Context.answer(status=409, body={"free": "abc"})) == ()
    assert error_rule(alternatives="body.free").error_for(Context.answer(status=500)) is None


def test_what_a_found_object_says():
    lookup = parse_contract(WHOLE).compiled.lookups[0]
    said = {
        state: lookup.effect_of(Context.answer(body={"state": state}))
        for state in ("open", "creating", "rejected", "?")
    }
    assert said == {"open": Effect.APPLIED, "creating": Effect.PENDING, "rejected": Effect.NONE, "?": None}
    assert contract(lookup=[STATUS]).compiled.lookups[0].effect_of(Context.answer()) is Effect.APPLIED, (
        "no map: it is there"
    )


DURATIONS = [
    ("500ms", timedelta(milliseconds=500)),
    ("30s", timedelta(seconds=30)),
    ("15m", timedelta(minutes=15)),
    ("72h", timedelta(hours=72)),
    ("31d", timedelta(days=31)),
    ("1h30m", timedelta(minutes=90)),
    ("1m500ms", timedelta(seconds=60.5)),
    ("0s", timedelta(0)),
]


@pytest.mark.parametrize(("text", "span"), DURATIONS)
def test_durations(text, span):
    assert parse_duration(text) == span
    assert format_duration(span) == text


@pytest.mark.parametrize(
    "text", ["", "30", "s", "1.5s", "-1s", "30 s", "1s1h", "1s1s", "٣s", "99999999h", "1y", "9" * 16 + "s"]
)
def test_what_is_no_duration(text):
    with pytest.raises(ValueError):
        parse_duration(text)


PATHS = [
    ("/t/{idempotency_key}", "/t/a%2Fb%3Fc%23r2", "a value cannot leave its place"),
    ("/t?q={payload.name}", "/t?q=%C3%BC%26x", "nor add a parameter"),
    ("/t/{payload.n}", "/t/7", "a whole number"),
]


@pytest.mark.parametrize(("template", "path", "why"), PATHS)
def test_paths(template, path, why):
    values = {"idempotency_key": "a/b?c#r2", "payload": {"name": "ü&x", "n": 7}}
    assert render_path(template, values=values) == path, why


BRACES = [
    ("{{ shop {{ id }} }}", "{ shop { id } }", "GraphQL's own braces"),
    ("{{{payload.n}}}", "{7}", "a slot between braces"),
    ("{{payload.n}}", "{payload.n}", "no slot at all"),
    ("{payload.n}", 7, "a slot alone keeps its type"),
    ({"a": ["{{", "}}"]}, {"a": ["{", "}"]}, "alone"),
]


@pytest.mark.parametrize(("template", "rendered", "why"), BRACES)
def test_literal_braces(template, rendered, why):
    assert render_value(template, values={"payload": {"n": 7}}) == rendered, why


def test_literal_braces_in_a_path_are_encoded():
    assert render_path("/q/{{a}}", values={}) == "/q/%7Ba%7D"


@pytest.mark.parametrize("template", ["{{a}", "{a}}", "{", "}", "{{{a", "{}", "{a b}"])
def test_braces_without_a_partner(template):
    with pytest.raises(ValueError, match=r"brace|is not a name"):
        slots(template)


@given(text=st.text(alphabet="{}ab.", max_size=12))
@settings(deadline=None)
def test_doubling_every_brace_makes_text(text):
    doubled = text.replace("{", "{{").replace("}", "}}")
    assert slots(doubled) == ()
    assert render_value(doubled, values={}) == text


@pytest.mark.parametrize("value", [None, True, 1.5, [], {}, "", ".", "..", "\ud800"])
def test_what_stands_in_no_path(value):
    with pytest.raises(NotRendered):
        render_path("/t/{payload.v}", values={"payload": {"v": value}})


def parsed(parse, source):
    try:
        return parse(source)
    except ContractInvalid as invalid:
        return invalid


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["write", "30s", "status == 200"])
)
KNOWN = [*sorted(Contract.model_fields), "class", "when", "by", "http", "path", "guarantee", "lag", "answer", "effect"]
JSONISH = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KNOWN) | st.text(max_size=5), inner, max_size=5)
    ),
    max_leaves=20,
)


@given(value=st.dictionaries(st.sampled_from(KNOWN), JSONISH), base=st.booleans())
@settings(max_examples=300, deadline=None)
def test_no_mapping_raises_anything_but_invalid(value, base):
    for parse in (parse_contract, parse_stated_contract):
        found = parsed(parse, {**LEAST, **value} if base else value)
        assert isinstance(found, Contract) or all(problem.message for problem in found.problems)


@given(text=st.text(max_size=60) | st.text(alphabet="contra:et{}[]-&*!|>'\"#%@\n \t0x?,", max_size=80))
@settings(max_examples=400, deadline=None)
def test_no_text_raises_anything_but_invalid(text):
    for source in (text, f"contract: t\nowner: o\neffect: write\n{text}", f"contract: t\nsuccess: {text}"):
        found = parsed(parse_contract, source)
        assert isinstance(found, Contract) or found.problems


@given(milliseconds=st.integers(0, 10**11))
@settings(deadline=None)
def test_every_duration_reads_back(milliseconds):
    span = timedelta(milliseconds=milliseconds)
    assert parse_duration(format_duration(span)) == span
