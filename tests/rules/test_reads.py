"""What a read entitles to, how far pages reach, and how often may be read. Fixtures A to D and J-42 are packets too."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.rules.read_budget import Came, Dispatched, Go, Limits, Read, Stop, Trace, came_of, may_read
from ledger.rules.read_pages import PageRefused, PageRequest, Search, SearchStop, next_page, stopped, with_page
from ledger.rules.reads import ReadOutcome, not_answered, seen_so_far, weigh_result

NOW = datetime(2026, 10, 1, 9, 5, tzinfo=UTC)
SEEN = "2026-10-01T09:05:00Z"
JOB = {
    "outcome": "ok",
    "id": "J-42",
    "status": "failed",
    "error_code": "EXPORT_ROLE_REQUIRED",
    "failed_at": "2026-10-01T09:00:00Z",
    "source_id": "E1-job",
    "observed_at": SEEN,
}
NO_ACCESS = {"outcome": "timeout", "role": None}
ACCESS = {"outcome": "ok", "role": "viewer", "source_id": "E2-access", "observed_at": "2026-10-01T09:05:04Z"}
OK = {"outcome": "ok", "role": "viewer", "source_id": "E2", "observed_at": SEEN}
PAGE = {
    "outcome": "ok", "next_cursor": None, "truncated": False, "index": "docs-r8", "source_id": "E3", "observed_at": SEEN,
}  # fmt: skip


def s(seconds):
    return timedelta(seconds=seconds)


def weigh(body, **arguments):
    return weigh_result(body, tool="t.get", arguments=arguments or {"job_id": "J-42"})


# ---- What one result entitles to.

RESULTS = [
    (OK, "ok", "a value, its source and its time"),
    ({**OK, "role": None}, "unavailable", "null is no value"),
    ({**OK, "limit": None}, "partial", "one member is null"),
    ({**OK, "outcome": "partial"}, "partial", "it says so itself"),
    ({"outcome": "ok"}, "unavailable", "ok about nothing"),
    ({**OK, "outcome": "timeout"}, "unavailable", "what a timeout carries along was not read"),
    ({**OK, "outcome": "forbidden"}, "unavailable", "protected"),
    ({**OK, "outcome": "not_found"}, "unavailable", "and absent look alike"),
    ({**OK, "outcome": "OK"}, "unavailable", "a word that does not exist"),
    ({"role": "viewer"}, "unavailable", "no outcome at all"),
    ({"outcome": "no_match", "index": "docs-r8", "observed_at": SEEN}, "no_match", "in docs-r8"),
    ({"outcome": "no_match", "index_revision": "docs-r8", "observed_at": SEEN}, "no_match", "likewise"),
    ({"outcome": "no_match", "observed_at": SEEN}, "unavailable", "in which index?"),
    ({"outcome": "no_match", "index": "docs-r8"}, "unavailable", "when?"),
    ({"outcome": "partial", "job": JOB, "access": NO_ACCESS}, "partial", "one part of two"),
    ({"outcome": "ok", "job": JOB, "access": NO_ACCESS}, "partial", "bolder than its parts"),
    ({"outcome": "ok", "job": JOB, "access": ACCESS}, "ok", "both"),
    ({"outcome": "partial", "a": NO_ACCESS, "b": NO_ACCESS}, "unavailable", "neither"),
    ({"outcome": "ok", "components": [{"name": "access", **ACCESS}]}, "ok", "the list form"),
    ({"outcome": "partial", "components": [{"name": "a", "outcome": "timeout", "value": None}]}, "unavailable", "null"),
    ({"outcome": "ok", "components": [{"name": "a", "outcome": "ok", "value": 3, "source_id": "E", "observed_at": SEEN}]},
     "ok", "a plain value"),
    ({**PAGE, "items": [{"id": "d1"}]}, "ok", "the last page, and nothing was cut"),
    ({**PAGE, "items": [{"id": "d1"}], "next_cursor": "c2"}, "partial", "there is more"),
    ({**PAGE, "items": [{"id": "d1"}], "truncated": True}, "partial", "something was cut"),
    ({**PAGE, "items": [{"id": "d1"}], "truncated": None}, "partial", "it does not say whether it was cut"),
    ({**PAGE, "items": [], "next_cursor": "c2"}, "partial", "an empty page with a cursor is not an empty result"),
    ({**PAGE, "items": [], "next_cursor": "c2", "outcome": "no_match"}, "partial", "whatever its author calls it"),
    ({**PAGE, "items": []}, "no_match", "the end, in docs-r8"),
    ({**PAGE, "items": [], "index": None}, "unavailable", "the end, of which index?"),
    ([], "unavailable", "no result at all"),
    (None, "unavailable", "nothing"),
    ("ok", "unavailable", "prose"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "outcome", "why"), RESULTS)
def test_outcomes(body, outcome, why):
    assert weigh(body).outcome == outcome, why


def test_null_is_a_member_that_is_unavailable_and_no_value():
    part = weigh({**OK, "limit": None}).parts[0]
    assert part.values == {"role": "viewer"}
    assert part.unavailable == ("limit",)


def test_event_and_reading_are_two_times():
    job = weigh({"outcome": "ok", "job": JOB}).parts[0]
    assert job.event_at == datetime(2026, 10, 1, 9, 0, tzinfo=UTC)
    assert job.observed_at == NOW
    assert job.values["failed_at"] == "2026-10-01T09:00:00Z"


EVENTS = [
    ({"event_at": "2026-10-01T08:00:00Z", "failed_at": "2026-10-01T07:00:00Z"}, 8, "the stated one"),
    ({"failed_at": "2026-10-01T07:00:00Z"}, 7, "the only other one"),
    ({"failed_at": "2026-10-01T07:00:00Z", "created_at": "2026-10-01T06:00:00Z"}, None, "which of the two?"),
    ({"event_at": "yesterday"}, None, "no time"),
    ({"event_at": "2026-10-01T08:00:00"}, None, "no offset"),
    ({}, None, "none"),
]


@pytest.mark.parametrize(("more", "hour", "why"), EVENTS)
def test_when_it_happened(more, hour, why):
    at = weigh({**OK, **more}).parts[0].event_at
    assert (at.hour if at else None) == hour, why


ESTABLISHED = [
    (OK, True, ""),
    ({**OK, "source_id": None}, False, "no source"),
    ({**OK, "observed_at": None}, False, "no time"),
    ({**OK, "observed_at": "soon"}, False, "no real time"),
]


@pytest.mark.parametrize(("body", "established", "why"), ESTABLISHED)
def test_only_what_has_a_source_and_a_time_is_established(body, established, why):
    part = weigh(body).parts[0]
    assert part.established is established, why
    assert bool(part.problems) is not established, why


def test_a_result_that_is_bolder_than_its_parts_is_said_to_be():
    assert weigh({"outcome": "ok", "job": JOB, "access": NO_ACCESS}).problems
    assert not weigh({"outcome": "partial", "job": JOB, "access": NO_ACCESS}).problems


def test_an_event_after_its_reading_is_said_to_be_odd():
    assert weigh({**OK, "event_at": "2026-10-02T09:00:00Z"}).parts[0].problems


REPEATS = [
    ({"outcome": "partial", "job": JOB, "access": NO_ACCESS}, Came.TEMPORARY, "a timeout may pass"),
    ({**OK, "outcome": "unavailable"}, Came.TEMPORARY, "a service may come back"),
    ({**OK, "outcome": "forbidden"}, Came.FINAL, "a refusal is asked once"),
    ({**OK, "outcome": "not_found"}, Came.FINAL, "likewise"),
    ({"outcome": "ok", "components": "?"}, Came.FINAL, "malformed"),
    (OK, Came.ALL, "nothing is missing"),
    ({"outcome": "no_match", "index": "docs-r8", "observed_at": SEEN}, Came.ALL, "that was the answer"),
]


@pytest.mark.parametrize(("body", "came", "why"), REPEATS)
def test_what_another_try_could_mend(body, came, why):
    assert came_of(weigh(body)) is came, why


def test_a_later_timeout_takes_nothing_away():
    first = weigh({"outcome": "partial", "job": JOB, "access": NO_ACCESS})
    again = not_answered(tool="t.get", arguments={"job_id": "J-42"}, said="timeout")
    seen = {part.name: part for part in seen_so_far([first, again])}
    assert seen["job"].values["status"] == "failed"
    assert seen["job"].observed_at == NOW
    assert seen["access"].values == {}


def test_what_was_missing_and_then_seen_is_seen():
    first = weigh({"outcome": "partial", "job": JOB, "access": NO_ACCESS})
    second = weigh({"outcome": "ok", "job": {**JOB, "observed_at": "2026-10-01T09:05:04Z"}, "access": ACCESS})
    seen = seen_so_far([first, second])
    assert [(part.name, part.outcome) for part in seen] == [("job", "ok"), ("access", "ok")]
    assert seen[0].observed_at == NOW + s(4), "the same record, read again"


def test_two_different_things_that_were_seen_are_both_kept():
    seen = seen_so_far([weigh(OK), weigh({**OK, "role": "editor"})])
    assert [part.values["role"] for part in seen] == ["viewer", "editor"]


def test_refused_absent_and_malformed_look_alike():
    """Whoever is told the outcome cannot tell whether the thing exists."""
    told = [weigh({"outcome": word}) for word in ("forbidden", "not_found", "error")]
    assert len({(each.outcome, each.parts[0].values == {}, each.may_pass) for each in told}) == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["outcome", "components", "value", "source_id", "observed_at", "event_at", "name", "role"])
            | st.text(max_size=4),
            inner | st.sampled_from(["ok", "no_match", "partial", "timeout", SEEN]),
            max_size=6,
        )
    ),
    max_leaves=20,
)


@given(JSON)
def test_every_body_has_an_outcome_and_never_a_value_from_null(body):
    result = weigh(body)
    for part in result.parts:
        assert not set(part.values) & set(part.unavailable)
        assert all(value is not None for value in part.values.values())
        assert part.values == {} or part.outcome in (ReadOutcome.OK, ReadOutcome.PARTIAL)
    came_of(result)


# ---- Pages.

EMPTY = Search(query="export role", scope="workspace-7")
ONE = {"id": "DOC-1", "revision": "r1"}


def page(items=(), cursor=None, truncated=False):
    return {"items": list(items), "next_cursor": cursor, "truncated": truncated}


def read_all(*pages):
    search = EMPTY
    for each in pages:
        request = next_page(search)
        assert request is not None
        search = with_page(search, request=request, page=each, observed_at=NOW)
    return search


PAGES = [
    ([page()], "complete", "no_match", "empty, and nothing follows"),
    ([page(cursor="c2")], None, "partial", "empty with a cursor is not empty"),
    ([page(cursor="c2"), page()], "complete", "no_match", "read to the end"),
    ([page([ONE])], "complete", "ok", "found"),
    ([page([ONE], cursor="c2")], None, "partial", "found, and there is more"),
    ([page(truncated=True)], "truncated", "partial", "no cursor, but something was cut"),
    ([page(cursor="c2", truncated=True), page()], "truncated", "partial", "the limitation stays"),
    ([page([ONE], truncated=True)], "truncated", "partial", "found, and something was cut"),
    ([page(cursor="c2"), page(cursor="c2")], "repeated_cursor", "partial", "round and round"),
    ([page(cursor="c2"), page(cursor="c3"), page(cursor="c2")], "repeated_cursor", "partial", "a longer way round"),
    ([{"items": []}], "truncated", "partial", "it does not say whether it was cut"),
    ([{"next_cursor": None}], "unavailable", "unavailable", "no page at all"),
    ([page(cursor="c2"), {"error": "x"}], "unavailable", "partial", "the second page failed"),
    ([page([{"title": "no identity"}])], "truncated", "partial", "a result that nobody can name"),
    ([page(cursor="")], "complete", "no_match", "an empty cursor is none"),
]


@pytest.mark.parametrize(("pages", "stop", "outcome", "why"), PAGES)
def test_pages(pages, stop, outcome, why):
    search = read_all(*pages)
    assert (search.stop, search.outcome) == (stop, outcome), why
    assert (search.limitation is None) is (stop == "complete"), why


def test_fixture_b_the_next_page_is_asked_for_with_the_cursor_and_the_query_unchanged():
    search = read_all(page(cursor="c2"))
    assert next_page(search) == PageRequest(query="export role", scope="workspace-7", cursor="c2")
    assert search.outcome is not ReadOutcome.NO_MATCH


OTHERS = [
    PageRequest(query="export roles", scope="workspace-7", cursor="c2"),
    PageRequest(query="export role", scope="workspace-8", cursor="c2"),
    PageRequest(query="export role", scope="workspace-7", cursor="c3"),
    PageRequest(query="export role", scope="workspace-7", cursor=None),
]


@pytest.mark.parametrize("request_", OTHERS)
def test_a_page_of_another_search_is_refused(request_):
    with pytest.raises(PageRefused):
        with_page(read_all(page(cursor="c2")), request=request_, page=page(), observed_at=NOW)


def test_documents_count_once_by_identity_and_revision():
    search = read_all(page([ONE, ONE], cursor="c2"), page([ONE, {"id": "DOC-1", "revision": "r2"}]))
    assert [(each.id, each.revision) for each in search.documents] == [("DOC-1", "r1"), ("DOC-1", "r2")]


def test_a_match_may_end_it_early_and_says_nothing_of_the_rest():
    search = stopped(read_all(page([ONE], cursor="c2")), reason=SearchStop.ENOUGH)
    assert search.outcome is ReadOutcome.OK
    assert not search.complete
    assert search.limitation
    assert next_page(search) is None


def test_the_budgets_end_leaves_it_incomplete():
    search = stopped(read_all(page(cursor="c2")), reason=SearchStop.BUDGET)
    assert search.outcome is ReadOutcome.PARTIAL
    assert stopped(search, reason=SearchStop.COMPLETE).stop is SearchStop.BUDGET


# ---- The budget.

JOB_READ = Read.of(tool="support_get_export_context", arguments={"job_id": "J-42"})
DOC_READ = Read.of(tool="support_lookup_export_requirement", arguments={"error_code": "EXPORT_ROLE_REQUIRED"})
DEFAULT = Limits()


def trace(*came, read=JOB_READ, requests=1, limits=DEFAULT):
    return Trace(
        began_at=NOW,
        principal="svc-support",
        scope="workspace-7",
        limits=limits,
        dispatched=tuple(Dispatched(read=read, came=each, requests=requests) for each in came),
    )


def ask(held, *, read=JOB_READ, at=0.0, wait=None, principal="svc-support", scope="workspace-7"):
    asked = None if wait is None else s(wait)
    return may_read(trace=held, read=read, principal=principal, scope=scope, now=NOW + s(at), asked_wait=asked)


ALLOWED = [
    (trace(), {}, 0, 10, False, "the first"),
    (trace(Came.TEMPORARY), {}, 0, 10, True, "one repeat"),
    (trace(Came.TEMPORARY, Came.TEMPORARY), {"read": DOC_READ}, 0, 10, False, "another read has its own"),
    (trace(Came.TEMPORARY), {"wait": 20}, 20, 10, True, "after the wait that was asked for"),
    (trace(Came.TEMPORARY), {"wait": 40}, 40, 5, True, "and a timeout that ends with the time"),
    (trace(), {"at": 44}, 44, 1, False, "likewise"),
    (trace(*[Came.ALL] * 5), {"read": DOC_READ}, 0, 10, False, "the sixth"),
]


@pytest.mark.parametrize(("held", "how", "begins", "timeout", "repeats", "why"), ALLOWED)
def test_may_read(held, how, begins, timeout, repeats, why):
    assert ask(held, **how) == Go(not_before=NOW + s(begins), timeout=s(timeout), repeats=repeats), why


REFUSED = [
    (trace(), {"principal": "svc-admin"}, Stop.ANOTHER_ACCOUNT, "never as somebody else"),
    (trace(), {"scope": "workspace-8"}, Stop.ANOTHER_ACCOUNT, "never wider"),
    (trace(Came.FINAL), {"principal": "svc-admin"}, Stop.ANOTHER_ACCOUNT, "least of all after a refusal"),
    (trace(), {"at": 45}, Stop.DEADLINE, "45 s are over"),
    (trace(*[Came.ALL] * 6), {"read": DOC_READ}, Stop.BUDGET, "six attempts are used"),
    (trace(Came.ALL, Came.ALL, requests=3), {"read": DOC_READ}, Stop.BUDGET, "an SDK's own repeats count"),
    (trace(Came.NOTHING_YET), {}, Stop.IN_FLIGHT, "one at a time"),
    (trace(Came.ALL), {}, Stop.ANSWERED, "no loop over what is known"),
    (trace(Came.FINAL), {}, Stop.REFUSED, "a refusal is asked once"),
    (trace(Came.TEMPORARY, Came.TEMPORARY), {}, Stop.RETRIED, "one repeat, not two"),
    (trace(Came.TEMPORARY), {"at": 30, "wait": 15}, Stop.WAIT_OUTLASTS_DEADLINE, "handed off, not shortened"),
]


@pytest.mark.parametrize(("held", "how", "stop", "why"), REFUSED)
def test_may_not_read(held, how, stop, why):
    assert ask(held, **how) is stop, why


def test_one_read_is_the_same_arguments_in_any_order():
    assert Read.of(tool="t", arguments={"a": 1, "b": 2}) == Read.of(tool="t", arguments={"b": 2, "a": 1})
    assert Read.of(tool="t", arguments={"cursor": None}) != Read.of(tool="t", arguments={"cursor": "c2"})


@given(
    st.lists(st.sampled_from([Came.TEMPORARY, Came.FINAL, Came.ALL]), max_size=8), st.floats(0, 60), st.floats(0, 60)
)
def test_no_read_ends_after_the_time_and_none_exceeds_the_attempts(came, at, wait):
    held = trace(*came, read=DOC_READ)
    answer = ask(held, at=at, wait=wait)
    if isinstance(answer, Go):
        assert len(came) < 6
        assert answer.not_before + answer.timeout <= held.ends_at
        assert answer.not_before >= NOW + s(at) + s(wait)
        assert answer.timeout > s(0)
