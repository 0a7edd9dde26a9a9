"""Every trap of the condition language, a row each; and the law that asking never raises."""

import math
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.rules.expressions import (
    ANSWER_VARIABLES,
    MATCH_VARIABLES,
    MAX_SOURCE,
    MISSING,
    REQUEST_VARIABLES,
    Context,
    ExpressionInvalid,
    compile_condition,
    compile_value,
)


def holds(source, **answer):
    return compile_condition(source, variables=ANSWER_VARIABLES).matches(Context.answer(**answer))


REFUSED = [
    ("", "empty", "an empty condition says nothing"),
    ("   \n", "empty", "nor do blanks"),
    ("status ==", "cannot be read", "a syntax error"),
    ("stauts == 200", "stauts is not known", "CEL itself would fail only when it runs"),
    ("payload.a == 1", "payload is not known", "an answer's condition does not see the payload"),
    ("foo(status)", "foo cannot be used", "CEL itself compiles calls of functions that do not exist"),
    ("type(status) == int", "int is not known", "types are not values here"),
    ("timestamp(body.a) > timestamp(body.b)", "timestamp cannot be used", "not on the list"),
    ("status * 2 == 400", "* cannot be used", "arithmetic has no place in a condition"),
    ("body.a.exists(x, x == 1)", "exists(…)", "a loop without a bound"),
    ("body.a.all(status, status == 1)", "all(…)", "a loop, though its variable has a known name"),
    ("body.a.map(body, body)[0] == 1", "map(…)", "a loop that CEL's own list of functions does not show"),
    ("body.a.filter (body, body) == []", "filter(…)", "a blank before the bracket changes nothing"),
    ("body.a.exists_one // why\n (body, true)", "exists_one(…)", "nor does a comment"),
    ("body.a.map(\n  body, body).size() > 0", "map(…)", "nor a new line"),
    ("headers.retry-after == '5'", "headers['retry-after']", "would be a subtraction"),
    ("headers.x-status == '5'", "headers['x-status']", "a subtraction of known names would even compile"),
    ("body.error-code == 'a'", "body['error-code']", "likewise in a body"),
    ("headers['Retry-After'] == '5'", "headers['retry-after']", "would never match: names are lower-cased"),
    ("headers.ETag == 'a'", "headers['etag']", "likewise by member"),
    ("body.name.matches('(')", "not a regular expression", "CEL itself finds out only when it runs"),
    ("body.name.matches('(a{1000}){1000}')", "not a regular expression", "a pattern that would be huge"),
    ("body.name.matches(body.pattern)", "one pattern written out", "an owner's answer is no pattern"),
    ("true", "looks at nothing", "always the same answer"),
    ("1 == 1", "looks at nothing", "always the same answer"),
    ("status == 200 \x00", "cannot be shown", "a NUL"),
    ("status == 1 || " * 80 + "status == 1", str(MAX_SOURCE), "too long"),
    ("(" * 400 + "status" + ")" * 400, "cannot be read", "nested too deep to parse"),
]


@pytest.mark.parametrize(("source", "says", "why"), REFUSED)
def test_refused_when_the_contract_is_read(source, says, why):
    with pytest.raises(ExpressionInvalid) as refused:
        compile_condition(source, variables=ANSWER_VARIABLES)
    assert says in refused.value.message, why


ANSWERS = [
    ("status == 200", {"status": 200}, True, "plain"),
    ("status == 200", {"status": None}, False, "no status is not that status"),
    ("status in [200, 201]", {"status": 201}, True, "one of several"),
    ("status in [ 200,201 ]", {"status": 409}, False, "none of several"),
    ("status == 409 && body.code == 'TAKEN'", {"status": 409, "body": {"code": "TAKEN"}}, True, "both"),
    ("status == 409 && body.code == 'TAKEN'", {"status": 200}, False, "decided by the status alone"),
    ("status == 409 && body.code == 'TAKEN'", {"status": 409, "body": {}}, None, "the member is missing"),
    ("status == 409 && body.code == 'TAKEN'", {"status": 409}, None, "there was no body"),
    ("status == 409 || status == 500", {"status": 500}, True, "the second half decides"),
    ("status == 409 && body.a == 1 || status == 500", {"status": 500, "body": {}}, True, "an `or` after the `and`"),
    (
        "status == 409 && (body.a == 1 || body.b == 1)",
        {"status": 409, "body": {"a": 0, "b": 1}},
        True,
        "an `or` inside",
    ),
    ("status == 409 ? true : true", {"status": 1}, True, "a choice is not decided by its status"),
    ("status == 409 // || status == 200", {"status": 200}, False, "a comment is not a condition"),
    ("status == 409 // it's\n || status == 200 // it's", {"status": 200}, True, "quotes in comments hide nothing"),
    ("status == 409 && body.a == '||'", {"status": 200, "body": {}}, False, "an `or` in quotes is text"),
    ("!(status == 409)", {"status": 200}, True, "negated"),
    ("status >= 500", {"status": 503}, True, "a range"),
    ("status >= 500", {"status": None}, None, "no status is not in any range, nor outside it"),
    ("headers['retry-after'] == '5'", {"headers": {"Retry-After": "5"}}, True, "names are lower-cased"),
    ("headers['x-a'] == '1, 2'", {"headers": {"X-A": "1", "x-a": "2"}}, True, "a repeated header is joined"),
    ("headers['x-a'] == '1, 2'", {"headers": {"X-A": ["1", "2"]}}, True, "given as a list too"),
    ("headers.etag == 'a'", {"headers": {}}, None, "a missing header"),
    ("has(body.error)", {"body": {}}, False, "asked for and not there"),
    ("has(body.error)", {"body": "oops"}, None, "text has no members"),
    ("!has(body.error)", {"body": None}, None, "nor has null"),
    ("body.ok", {"body": {"ok": True}}, True, "a member that is true"),
    ("body.ok", {"body": {"ok": "true"}}, None, "text is not true"),
    ("body.ok", {"body": {"ok": 1}}, None, "nor is one"),
    ("body.name.matches('^a+$')", {"body": {"name": "aaa"}}, True, "a pattern"),
    ("body.name.startsWith('a')", {"body": {"name": 7}}, None, "a type error"),
    ("size(body.list) > 1", {"body": {"list": [1, 2]}}, True, "size"),
    ("body.a == 9007199254740993", {"body": {"a": 9007199254740993}}, True, "64-bit integers are exact"),
    ("body.a + 1 == 1", {"body": {"a": 2**63 - 1}}, None, "overflow"),
    ("'a' in body", {"body": {"a": 1}}, True, "a key"),
    ("error == null", {"status": 200}, True, "no error is null"),
    ("code == 'ECONNRESET' && phase == 'send'", {"code": "ECONNRESET", "phase": "send"}, True, "an exception's facts"),
    ("speaker == 'gateway'", {"speaker": "gateway"}, True, "who speaks"),
]


@pytest.mark.parametrize(("source", "answer", "expected", "why"), ANSWERS)
def test_what_a_condition_says(source, answer, expected, why):
    assert holds(source, **answer) is expected, why


def nested(levels):
    value = 1
    for _ in range(levels):
        value = {"a": value}
    return value


LEFT_OUT = [
    (nested(70), "nested deeper", "the evaluator would recurse"),
    (nested(50_000), "nested deeper", "it would crash the process"),
    ({"a": "x" * 70_000}, "larger", "one long text"),
    ({"a": [0] * 100_000}, "larger", "many small values"),
    ({f"k{i}": 1 for i in range(10_000)}, "larger", "many keys"),
    ({"a": {1: 2}}, "plain JSON", "keys that are not text"),
    ({"a": object()}, "plain JSON", "what no JSON holds"),
    ({"a": b"x"}, "plain JSON", "bytes"),
    ({"a": "\ud800"}, "text", "a lone surrogate"),
    ({"a": 2**63}, "64 bits", "the evaluator would round it, and two numbers would look equal"),
]


@pytest.mark.parametrize(("body", "reason", "why"), LEFT_OUT)
def test_a_value_that_is_too_much_is_absent_never_shortened(body, reason, why):
    context = Context.answer(status=200, body=body)
    assert compile_condition("!has(body.error) && status < 300", variables=ANSWER_VARIABLES).matches(context) is None, (
        why
    )
    assert reason in context.cut["body"]
    assert compile_condition("status > 100", variables=ANSWER_VARIABLES).matches(context) is True, (
        "the rest still counts"
    )


def test_a_plain_path_reads_an_answer_of_any_size():
    body = {"id": 7, "padding": "x" * 100_000, "rows": [{"the key": "a"}]}
    context = Context.answer(body=body)
    read = {
        source: compile_value(source, variables=ANSWER_VARIABLES).read(context)
        for source in ("body.id", "body.rows[0]['the key']", "body.rows[1]", "body.id.x", "body", " body.id ")
    }
    assert read == {
        "body.id": 7,
        "body.rows[0]['the key']": "a",
        "body.rows[1]": MISSING,
        "body.id.x": MISSING,
        "body": body,
        " body.id ": 7,
    }
    assert not MISSING
    assert compile_value("body", variables=ANSWER_VARIABLES).read(Context.answer()) is MISSING
    assert context.cut == {}, "nothing was converted"


def test_a_value_may_be_computed():
    value = compile_value("has(body.id) ? body.id : body.key", variables=ANSWER_VARIABLES)
    assert value.read(Context.answer(body={"key": "k"})) == "k"
    assert value.read(Context.answer(body={})) is MISSING
    with pytest.raises(ExpressionInvalid, match=r"body\.id"):
        compile_value("'constant'", variables=ANSWER_VARIABLES)
    with pytest.raises(ExpressionInvalid, match="bdy is not known"):
        compile_value("bdy.id", variables=ANSWER_VARIABLES)


def test_other_places_see_other_names():
    needs = compile_condition("payload.amount > 500 && principal != 'svc-a'", variables=REQUEST_VARIABLES)
    assert needs.matches(Context.request(payload={"amount": 501}, principal="svc-b", agent=None)) is True
    assert needs.matches(Context.request(payload={}, principal="svc-b", agent=None)) is None, "so approval is required"
    same = compile_condition("item.external_id == operation_id", variables=MATCH_VARIABLES)
    context = Context.match(item={"external_id": "op-1"}, operation_id="op-1", payload={}, idempotency_key=None)
    assert same.matches(context) is True


def test_a_rule_whose_status_does_not_match_converts_nothing():
    class Untouched(dict):
        def __iter__(self):
            raise AssertionError("the body was read")

    context = Context.answer(status=200, body=Untouched(a=1))
    assert compile_condition("status == 409 && body.a == 1", variables=ANSWER_VARIABLES).matches(context) is False
    assert compile_condition("status in [200]", variables=ANSWER_VARIABLES).matches(context) is True


def test_the_longest_expressions_run_on_a_thread():
    sources = ["status" + " + 1" * 200 + " > 0", "!" * 900 + "has(body.a)", "has(body.a) || " * 60 + "has(body.a)"]
    answers = []

    def ask():
        answers.extend(holds(source, status=1, body={"a": 1}) for source in sources)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert answers == [True, True, True]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4) | st.sampled_from(["a", "code"]), inner)
    ),
    max_leaves=12,
)
ANYTHING = (
    JSON | st.binary() | st.sets(st.integers()) | st.just(object()) | st.dictionaries(st.integers(), st.integers())
)
CONDITIONS = [
    compile_condition(source, variables=ANSWER_VARIABLES)
    for source in (
        "status == 409 && body.code == 'A'",
        "body.a",
        "body.a[0].b == body.code",
        "has(body.a.b) || body.a > 1",
        "size(body) > 0 && body.code.matches('^x')",
        "'a' in body && headers['a'] == error",
        "string(body.a) == code && -body.a < int(code)",
    )
]


@given(
    body=ANYTHING,
    status=st.none() | st.integers() | st.booleans() | st.text(),
    headers=st.dictionaries(st.text(), ANYTHING),
    error=ANYTHING,
    code=ANYTHING,
)
@settings(deadline=None)
def test_asking_never_raises(body, status, headers, error, code):
    context = Context.answer(status=status, headers=headers, body=body, error=error, code=code)
    for condition in CONDITIONS:
        assert condition.matches(context) in (True, False, None)


@given(source=st.text(alphabet="abody.status[]()'\"=&|!<>?:-+ 0129\\/\n{}", max_size=40), body=JSON)
@settings(max_examples=300, deadline=None)
def test_reading_an_expression_raises_only_that_it_is_invalid(source, body):
    try:
        condition = compile_condition(source, variables=ANSWER_VARIABLES)
    except ExpressionInvalid:
        return
    assert condition.matches(Context.answer(status=200, body=body)) in (True, False, None)


@given(status=st.none() | st.integers(0, 999), a=st.integers(0, 2))
@settings(deadline=None)
def test_the_shortcut_by_status_agrees_with_the_language(status, a):
    import cel

    variables = {"status": status, "body": {"a": a}, "headers": {}, "error": None, "code": None}
    for source in (
        "status == 409",
        "status in [200, 409]",
        "status == 409 && body.a == 1",
        "status == 409 && (body.a == 1 || body.a == 2)",
        "status == 409 && body.a == 1 || body.a == 2",
        "status == 409 && body.a == 1 ? true : body.a == 2",
    ):
        expected = cel.compile(source).execute(variables)
        assert holds(source, status=status, body={"a": a}) is expected, source


def test_numbers_that_are_not_numbers_match_nothing():
    assert holds("body.a == body.a", body={"a": math.nan}) is not True
