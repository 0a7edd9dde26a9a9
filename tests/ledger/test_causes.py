"""What went wrong, as operations are grouped by it: set by what happened, told in the history, verified with it."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.test.utils import override_settings

from ledger.database import execute
from ledger.queries.verification import verified
from ledger.rules.vocabulary import Action, Effect, FailureClass, LookupOutcome, Proof, Request, Speaker
from ledger.transitions.settle import LONGEST_CAUSE, cause_of
from recovery.web.scenes import decided, lapsed, looked, opened, reported, set_stage


@pytest.fixture
def stage(database, django_db_blocker):
    quick = override_settings(PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"])
    with django_db_blocker.unblock(), quick:
        mark = uuid4().hex[:8]
        yield set_stage(slug=f"c-{mark}", name="Acme", password="quiet-harbour-42", suffix=f".{mark}")


def _ticket(stage, ago=timedelta(minutes=9)):
    payload = {"title": uuid4().hex, "customer": "c"}
    return opened(stage=stage, tool="tickets.create", operation_id=f"t:{uuid4().hex}", payload=payload, ago=ago)


def _cause(id):
    return execute("SELECT cause FROM operation WHERE id = %s", [id])[0][0]


UNKNOWN = decided(
    Action.RECONCILE, "CONNECTION_LOST", "No answer.", failure=FailureClass.UNKNOWN_OUTCOME, after=timedelta(seconds=5)
)
DONE = decided(Action.DONE, "DONE", "Done.", failure=FailureClass.SUCCESS, effect=Effect.APPLIED)


@pytest.mark.parametrize(
    ("failure_class", "code", "owner_code", "cause", "reason"),
    [
        (FailureClass.UNKNOWN_OUTCOME, "CONNECTION_LOST", None, "unknown_outcome/CONNECTION_LOST", "no owner spoke"),
        (FailureClass.FATAL, "X", "E 42", "fatal/X/E 42", "the owner's own code"),
        (FailureClass.FATAL, "X", "a\n\t b\x00", "fatal/X/a b", "one line of it, that the database can hold"),
        (FailureClass.FATAL, "X", "é" * 500, "fatal/X/" + "é" * (LONGEST_CAUSE - 8), "cut by characters"),
        (FailureClass.SUCCESS, "DONE", "OK", "", "nothing went wrong"),
    ],
)
def test_the_words_of_a_cause(failure_class, code, owner_code, cause, reason):
    assert cause_of(failure_class=failure_class, code=code, owner_code=owner_code) == cause, reason


def test_a_report_names_class_code_and_the_owners_code(stage):
    id = _ticket(stage)
    assert _cause(id) == ""
    reported(
        id=id, after=timedelta(seconds=3), decision=UNKNOWN, detail={"code": "SERVER_ERROR", "owner_code": "E_DISK"}
    )
    assert _cause(id) == "unknown_outcome/SERVER_ERROR/E_DISK"


def test_a_success_at_once_leaves_no_cause_and_writes_none(stage):
    id = _ticket(stage)
    reported(
        id=id, after=timedelta(seconds=3), effect=Effect.APPLIED, proof=Proof.OWNER_RESULT, speaker=Speaker.OWNER_ANSWER,
        decision=DONE,
    )  # fmt: skip
    assert _cause(id) == ""
    assert not execute("SELECT 1 FROM journal WHERE operation = %s AND entry LIKE '%%\"cause\"%%'", [id])


def test_a_permit_without_a_report_names_that(stage):
    id = _ticket(stage)
    lapsed(id=id)
    assert _cause(id) == "unknown_outcome/NO_REPORT"


def test_a_good_answer_after_a_lapse_takes_the_cause_away(stage):
    id = _ticket(stage)
    lapsed(id=id)
    reported(
        id=id, after=timedelta(minutes=5), effect=Effect.APPLIED, proof=Proof.OWNER_RESULT, speaker=Speaker.OWNER_ANSWER,
        decision=DONE,
    )  # fmt: skip
    assert _cause(id) == ""


def test_a_lookup_that_finds_something_else_becomes_the_cause(stage):
    id = _ticket(stage)
    reported(id=id, after=timedelta(seconds=3), decision=UNKNOWN)
    looked(
        id=id, ago=timedelta(minutes=2), outcome=LookupOutcome.LOOKUP_FAILED,
        decision=decided(Action.RECONCILE, "OWNER_UNAVAILABLE", "Asked again.", after=timedelta(seconds=9)),
    )  # fmt: skip
    assert _cause(id) == "unknown_outcome/CONNECTION_LOST", "a lookup that says nothing changes no cause"
    looked(
        id=id, ago=timedelta(minutes=1), outcome=LookupOutcome.FOUND,
        decision=decided(Action.ESCALATE, "CONFLICT", "Another one.", failure=FailureClass.STATE_CONFLICT,
                         after=timedelta(minutes=4)),
    )  # fmt: skip
    assert _cause(id) == "state_conflict/CONFLICT"


def test_a_refusal_is_a_cause_too(stage):
    id = _ticket(stage)
    reported(
        id=id, after=timedelta(seconds=3), effect=Effect.NONE, proof=Proof.REFUSED, speaker=Speaker.OWNER_ANSWER,
        decision=decided(Action.AUTHORIZE, "FORBIDDEN", "No.", failure=FailureClass.AUTHORIZATION, effect=Effect.NONE,
                         request=Request.REJECTED),
    )  # fmt: skip
    assert _cause(id) == "authorization/FORBIDDEN"


def test_causes_follow_from_the_history(stage):
    id = _ticket(stage)
    lapsed(id=id)
    assert id in {one.id for one in verified()}
    call_command("verify_ledger", verbosity=0)
