"""A comparison that is looked at before CEL never changes what a condition says."""

import cel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.rules.expressions import ANSWER_VARIABLES, Context, compile_condition

CONDITIONS = [
    "body.code == 'A'",
    "body.code == 'A' && status == 409",
    "status == 409 && body.code == 'A'",
    "body.code == 'A' && body.kind == 'B'",
    "!(status == 1 && body.code == 'A' && status == 2)",
    "!(body.code == 'A')",
    "body.code == 'A' || status == 409",
    "status == 409 ? body.code == 'A' : body.kind == 'B'",
    "(body.code == 'A') && status > 300",
    "body.code == '&&' && status > 300",
    "has(body.code) && body.code == 'A'",
    "headers['x-a'] == 'A'",
    "code == 'A' && size(body.kind) > 0",
    'body["code"] == "A" && body.list[0] == "B"',
    "body.code.startsWith('A')",
    "status == 409 && body.code.endsWith('B') && body.kind.contains('')",
    "!body.code.startsWith('A')",
    "body.code != 'A' && body.kind == 'B'",
]
VALUES = st.sampled_from(["A", "B", "&&", "", 1, True, None, ["B"], {"x": 1}])
ANSWERS = st.fixed_dictionaries(
    {"status": st.sampled_from([1, 2, 301, 409]), "code": st.sampled_from(["A", None, 5])},
    optional={
        "body": st.dictionaries(st.sampled_from(["code", "kind", "list"]), VALUES, max_size=3),
        "headers": st.dictionaries(st.just("x-a"), st.sampled_from(["A", "B"]), max_size=1),
    },
)


def condition_names(source):
    return set(cel.compile(source).references()["variables"])


def plainly(source, answer):
    """What CEL itself says, with nothing in front of it. A variable that is not there settles it before CEL is asked."""
    if not condition_names(source) <= {"headers", *answer}:
        return False
    context = cel.Context()
    for name, value in {"headers": {}, **answer}.items():
        context.add_variable(name, value)
    try:
        return cel.compile(source).execute(context) is True
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):
        return False


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.sampled_from(CONDITIONS), ANSWERS)
def test_the_shortcut_agrees_with_cel(source, answer):
    condition = compile_condition(source, variables=ANSWER_VARIABLES)
    assert (condition.matches(Context.answer(**answer)) is True) is plainly(source, answer)
    assert condition.holds(Context.answer(**answer)) is plainly(source, answer)


@pytest.mark.parametrize(("source", "compared"), [
    (CONDITIONS[0], 1), (CONDITIONS[3], 2), (CONDITIONS[4], 0), (CONDITIONS[6], 0), (CONDITIONS[7], 0), (CONDITIONS[9], 0),
])  # fmt: skip
def test_only_what_is_beyond_doubt_is_looked_at_first(source, compared):
    assert len(compile_condition(source, variables=ANSWER_VARIABLES)._texts) == compared
