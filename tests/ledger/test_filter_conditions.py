"""Each qualifier against real rows of two workspaces: what it finds, what it leaves, and what it never sees."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import transaction
from django.test.utils import override_settings

from ledger.database import execute
from ledger.queries.clock import database_now
from ledger.queries.filters import Filter, FilterInvalid, parse_filter, read_filter
from ledger.queries.operations import operation_page
from recovery.web.scenes import Stage, opened, set_stage

PASSWORD = "quiet-harbour-42"
ALL = {"asleep", "group", "mine", "new", "old", "others", "partial", "plain", "settled"}


@pytest.fixture(scope="module")
def stages(database, django_db_blocker):
    """Two workspaces with the same operations, told apart by nothing but the workspace. Rolled back at the end: some rows
    are put by hand into states that only their history could explain."""
    quick = override_settings(PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"])
    with django_db_blocker.unblock(), quick, transaction.atomic():
        yield _stage("Acme"), _stage("Beta")
        transaction.set_rollback(True)


@pytest.fixture
def found(stages, django_db_blocker):
    """The operations that a filter finds in the first workspace, by name, as its olive asks."""
    stage, _ = stages
    with django_db_blocker.unblock():

        def find(text: str) -> set[str]:
            page = operation_page(
                workspace_id=stage.workspace_id, filter=parse_filter(text, me=stage.people["olive"]), limit=200
            )
            names = [item.operation_id.partition(":")[2] for item in page.items]
            assert len(names) == len(set(names)), "nothing is found twice, and nothing of the other workspace"
            return set(names)

        yield find


def _stage(name: str) -> Stage:
    mark = uuid4().hex[:8]
    stage = set_stage(slug=f"f-{mark}", name=name, password=PASSWORD, suffix=f".{mark}")
    made = {
        one: opened(
            stage=stage,
            tool={"plain": "rooms.book", "old": "payments.capture"}.get(one, "tickets.create"),
            operation_id=f"f:{one}",
            payload={"title": one, "customer": "c"},
            ago=timedelta(hours=30) if one == "old" else timedelta(minutes=5 if one == "new" else 90),
            permit=one != "plain",
            agent={"name": "billing-2", "run": "run,7"} if one == "old" else {"name": "support-7", "run": "run-91"},
        )
        for one in sorted(ALL)
    }
    desk = (
        "INSERT INTO desk (operation, workspace_id, holder_id, held_until, snoozed_until, wakes_on, labels, changed_at) "
        "VALUES (%s, %s, %s, now() + %s::interval, now() + %s::interval, '', %s::jsonb, now())"
    )
    execute(desk, [made["mine"], stage.workspace_id, stage.people["olive"], "10 min", None, '["known", "a \\"b\\""]'])
    execute(desk, [made["others"], stage.workspace_id, stage.people["otto"], "10 min", None, "[]"])
    execute(desk, [made["new"], stage.workspace_id, stage.people["otto"], "-1 min", "-1 min", '["known"]'])
    execute(desk, [made["asleep"], stage.workspace_id, None, None, "10 min", "[]"])
    for one, cause in (("group", "unknown_outcome/NO_REPORT"), ("old", "fatal/X/out of, ink*")):
        execute("UPDATE operation SET version = version + 1, cause = %s WHERE id = %s", [cause, made[one]])
    execute(
        "INSERT INTO cause_desk (tool_id, cause, workspace_id, holder_id, held_until, snoozed_until, wakes_on, changed_at) "
        "VALUES (%s, 'unknown_outcome/NO_REPORT', %s, %s, now() + interval '5 min', now() + interval '5 min', '', now())",
        [stage.tools["tickets.create"][0], stage.workspace_id, stage.people["otto"]],
    )
    execute(
        "UPDATE operation SET version = version + 1, sla_at = now() + interval '30 min', state = 'escalated', effect = 'unknown' WHERE id = %s",
        [made["others"]],
    )
    execute(
        "UPDATE operation SET version = version + 1, sla_at = now() + interval '3 h', state = 'escalated' WHERE id = %s",
        [made["mine"]],
    )
    execute(
        "UPDATE operation SET version = version + 1, effect = 'partial', verification = 'failed' WHERE id = %s",
        [made["partial"]],
    )
    execute(
        "UPDATE operation SET version = version + 1, state = 'settled', outcome = 'applied', effect = 'applied', settled_at = now(), "
        "verification = 'verified', holds_identity = false WHERE id = %s",
        [made["settled"]],
    )
    return stage


@pytest.mark.parametrize(
    ("text", "expected", "reason"),
    [
        ("", ALL, "an empty filter finds everything"),
        ("is:unresolved", ALL - {"settled"}, "not settled"),
        ("is:settled", {"settled"}, "settled"),
        ("-is:settled", ALL - {"settled"}, "not settled is unresolved"),
        ("is:unresolved is:settled", set(), "nothing is both"),
        ("is:unresolved,settled", ALL, "everything is one of them"),
        ("state:escalated", {"mine", "others"}, "one state"),
        ("state:escalated,open", {"mine", "others", "plain"}, "either of two"),
        ("state:escalated state:open", {"mine", "others", "plain"}, "twice the same qualifier means either"),
        ("state:settled,escalated", {"mine", "others", "settled"}, "settled ones too, when they are asked for"),
        ("-state:dispatched", {"mine", "others", "plain", "settled"}, "turned around"),
        ("effect:partial", {"partial"}, "a rare effect"),
        ("outcome:applied", {"settled"}, "an outcome"),
        ("-outcome:applied", ALL - {"settled"}, "no outcome yet is another outcome"),
        ("verification:failed,verified", {"partial", "settled"}, "either of two"),
        ("tool:rooms.book", {"plain"}, "a tool by name"),
        ("tool:r*,pay*", {"plain", "old"}, "tools by their beginnings"),
        ("-tool:tickets.*", {"plain", "old"}, "all other tools"),
        ("owner:helpdesk,ledgerline", ALL - {"plain"}, "by owner"),
        ("agent:billing-2", {"old"}, "by agent"),
        ("agent:b*", {"old"}, "agents by their beginning"),
        ('run:"run,7"', {"old"}, "a run's name may hold a comma"),
        ("run:run-91", ALL - {"old"}, "by run"),
        ("contract:rooms.book@1", {"plain"}, "by the contract's version"),
        ("contract:rooms.book@2", set(), "another version"),
        ("priority:high", ALL - {"plain", "old"}, "as the contract says"),
        ("priority:normal", {"plain", "old"}, "normal, where the contract says nothing"),
        ("is:mine", {"mine"}, "held by who asks"),
        ("held:me", {"mine"}, "the same"),
        ("is:held", {"mine", "others", "group"}, "by itself or with its group; a claim that has ended is none"),
        ("is:unclaimed", ALL - {"mine", "others", "group"}, "nobody holds it"),
        ("held:nobody", ALL - {"mine", "others", "group"}, "the same"),
        ("-held:nobody", {"mine", "others", "group"}, "turned around"),
        ("-is:mine", ALL - {"mine"}, "held by others or nobody"),
        ("held:me,nobody", ALL - {"others", "group"}, "either"),
        ("is:snoozed", {"asleep", "group"}, "by itself or with its group; a snooze that has ended is none"),
        ("-is:snoozed", ALL - {"asleep", "group"}, "awake"),
        ("is:breaching", {"others"}, "to be answered within the hour"),
        ("-is:breaching", ALL - {"others"}, "no time to answer is no breach"),
        ("label:known", {"mine", "new"}, "a label"),
        ('label:"a \\"b\\""', {"mine"}, "a label with quotes"),
        ('label:known label:"a \\"b\\""', {"mine"}, "labels narrow"),
        ("-label:known", ALL - {"mine", "new"}, "without the label"),
        ("age:<1h", {"new"}, "opened within the hour"),
        ("age:>1d", {"old"}, "opened before yesterday"),
        ("age:>1h age:<1d", ALL - {"new", "old"}, "lengths narrow"),
        (
            "due:<1h",
            {"others", "old", "partial", "asleep", "group", "plain", "new"},
            "its answer, or its deadline, is due",
        ),
        ("due:>1h", {"mine"}, "later"),
        ("cause:unknown_outcome/NO_REPORT", {"group"}, "a whole cause"),
        ("cause:unknown_outcome/*", {"group"}, "causes by their beginning"),
        ('cause:""', ALL - {"group", "old"}, "nothing went wrong yet"),
        ("id:f:p", {"plain", "partial"}, "the beginning of an operation id"),
        ("f:p", {"plain", "partial"}, "text alone"),
        ("-f:p", ALL - {"plain", "partial"}, "text turned around"),
        ("f:%", set(), "no wildcard but the star"),
        ("is:unresolved tool:tickets.* is:unclaimed -is:snoozed age:<1d -label:known", {"partial"}, "all at once"),
    ],
)
def test_what_a_filter_finds(found, text, expected, reason):
    assert found(text) == expected, reason


def test_held_by_a_person_is_by_their_username_and_a_claim_of_ones_own_outranks_the_groups(stages, found):
    stage, other = stages
    assert found(f"held:otto{stage.suffix}") == {"others", "group"}
    assert found(f"held:OTTO{stage.suffix}") == {"others", "group"}, "whatever the capitals"
    assert found(f"-held:otto{stage.suffix}") == ALL - {"others", "group"}
    assert found(f"held:otto{other.suffix}") == set(), "somebody of the other workspace holds nothing here"


def test_a_token_has_nothing_of_its_own():
    for text in ("is:mine", "held:me", "-held:me"):
        with pytest.raises(FilterInvalid) as refused:
            parse_filter(text)
        assert "only a person at the desk" in refused.value.sentence
    understood, problems = read_filter("is:unresolved is:mine")
    assert [term.qualifier for term in understood.terms] == ["is"]
    assert [problem.word.text for problem in problems] == ["is:mine"]


def test_an_empty_filter_says_that_it_is_empty():
    assert Filter().is_empty
    assert parse_filter("   ").is_empty
    assert not parse_filter("is:unresolved").is_empty


def test_a_page_costs_one_statement_whatever_it_asks(stages, django_db_blocker):
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    stage, _ = stages
    text = "is:unresolved is:held -is:snoozed tool:t* owner:helpdesk agent:s* label:known due:<9d priority:high cause:x"
    with django_db_blocker.unblock(), CaptureQueriesContext(connection) as queries:
        operation_page(workspace_id=stage.workspace_id, filter=parse_filter(text), limit=50)
        database_now()
    assert len(queries) == 3, "the page, the time of an empty one, and the time asked for here"
