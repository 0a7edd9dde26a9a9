"""`by: status`, beyond the conformance suite: what is sent, and every way to misread an answer."""

from datetime import UTC, datetime
from typing import Any

import pytest

from ledger.rules.vocabulary import Effect, LookupOutcome
from recovery.owners.base import Reply
from recovery.owners.status import StatusLookup
from tests.owners.conformance import OPERATION_ID, PAYLOAD, question
from tests.owners.scripted import Answer, ScriptedOwner
from tests.owners.stages_http import said

RULE: dict[str, Any] = {
    "by": "status",
    "http": {"path": "/tickets/{idempotency_key}"},
    "found": "status == 200",
    "no_match": "status == 404",
    "same": {"title": "body.title"},
    "authoritative": True,
    "sees": "all",
    "lag": "0s",
}
TICKET = {"id": "t-1", "title": PAYLOAD["title"], "done": True}


def ask(owner: ScriptedOwner, *, rule: dict[str, Any] | None = None, **more: Any) -> Reply:
    return StatusLookup().ask(question({**RULE, **(rule or {})}, base_url=owner.url, **more))


FOUND, NO_MATCH = LookupOutcome.FOUND, LookupOutcome.NO_MATCH
FAILED, NOTHING = LookupOutcome.LOOKUP_FAILED, LookupOutcome.INCONCLUSIVE
HTML = {"Content-Type": "text/html; charset=utf-8"}
ANSWERS = [
    (Answer(body=TICKET), {}, FOUND, "what was meant"),
    (Answer(status=404, body={}), {}, NO_MATCH, "what the contract calls absent"),
    (Answer(status=404, body="<h1>Not Found</h1>", headers=HTML), {}, NO_MATCH, "some owners answer so"),
    (Answer(status=403, body={}), {}, FAILED, "forbidden is not absent"),
    (Answer(status=403, body={}), {"no_match": "status == 403"}, NO_MATCH, "unless the owner answers so for absent"),
    (Answer(status=401, body={}), {"no_match": "status >= 400"}, FAILED, "never, whatever the contract says"),
    (Answer(status=429, body={}), {"no_match": "status >= 400"}, FAILED, "likewise"),
    (Answer(status=500, body={}), {"no_match": "status >= 400"}, FAILED, "likewise"),
    (Answer(status=503, body=TICKET), {"found": "status >= 200"}, FAILED, "likewise"),
    (Answer(status=418, body={}), {}, NOTHING, "an answer that the contract does not know"),
    (Answer(status=301, body={}, headers={"Location": "/elsewhere"}), {}, NOTHING, "a redirect is such an answer"),
    (Answer(body="<h1>Sign in</h1>", headers=HTML), {"same": {}}, NOTHING, "a login page answers 200 too"),
    (Answer(body="<h1>Sign in</h1>", headers=HTML), {}, NOTHING, "nor does it show the title"),
    (Answer(body='{"title": "Export brok'), {}, FAILED, "it says JSON and is cut short"),
    (Answer(body=b"\xff\xfe\x00"), {}, FAILED, "it says JSON and is none"),
    (Answer(body="[" * 100_000), {}, FAILED, "it is nested without end"),
    (Answer(body={"id": "t-1"}), {}, NOTHING, "its title cannot be compared"),
    (Answer(body={**TICKET, "title": None}), {}, FOUND, "its title is another: a conflict"),
    (Answer(body=TICKET), {"effect": {"applied": "body.state == 'open'"}}, NOTHING, "its state is not known"),
    (Answer(body=TICKET), {"found": "body.nowhere == 1"}, NOTHING, "a condition that cannot be computed"),
    (Answer(body={"title": 1}), {"found": "body.title + 1"}, NOTHING, "one that is not true or false"),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "rule", "outcome", "why"), ANSWERS, ids=[why for *_, why in ANSWERS])
def test_what_an_answer_comes_to(
    owner: ScriptedOwner, answer: Answer, rule: dict[str, Any], outcome: LookupOutcome, why: str
) -> None:
    owner.answer = lambda received: answer
    reply = ask(owner, rule=rule)
    assert reply.outcome is outcome, (why, reply)
    assert reply.status == answer.status


def test_what_is_sent(owner: ScriptedOwner) -> None:
    owner.answer = said(TICKET)
    rule = {
        "http": {
            "method": "POST",
            "path": "/tickets/{idempotency_key}/find?customer={payload.customer}",
            "headers": {"X-Operation": "{operation_id}", "Authorization": "never"},
            "body": {"all": "{payload}", "of": ["{payload.customer}", "ref {operation_id}"]},
        },
        "as": "secret:helpdesk",
    }
    reply = ask(owner, rule=rule, secrets={"helpdesk": "X-Api-Key: k3y"})
    sent = owner.received[0]
    assert (sent.method, sent.path) == ("POST", "/tickets/ticket%3Acreate%3Acase-8472/find")
    assert sent.query == {"customer": ["c-19"]}
    assert sent.headers["x-operation"] == OPERATION_ID
    assert sent.headers["x-api-key"] == "k3y"
    assert sent.headers["content-type"] == "application/json"
    assert b'"of": ["c-19", "ref ticket:create:case-8472"]' in sent.body
    assert reply.principal == "secret:helpdesk"
    assert "k3y" not in repr(reply)


def test_a_template_never_takes_the_credentials_place(owner: ScriptedOwner) -> None:
    owner.answer = said(TICKET)
    ask(
        owner,
        rule={"http": {"path": "/x", "headers": {"Authorization": "mine"}}, "as": "secret:a"},
        secrets={"a": "Basic eA=="},
    )
    assert owner.received[0].headers["authorization"] == "Basic eA=="


NOT_SENT = [
    ({"as": "secret:nowhere"}, {}, FAILED, "secret:nowhere is not kept", "a secret that is not there"),
    ({"as": "env:NOT_SET_ANYWHERE"}, {}, FAILED, "not set where the worker runs", "a variable that is not there"),
    ({"http": {"path": "/t/{receipt.id}"}}, {}, NOTHING, "The handle was lost", "the first answer never came"),
    ({"http": {"at": "location"}}, {}, NOTHING, "The handle was lost", "likewise"),
    ({"http": {"path": "/t/{payload.case}"}}, {}, NOTHING, "needs payload.case", "a payload without it"),
    ({"http": {"path": "/t/{item.ref}"}}, {}, NOTHING, "needs item.ref", "the whole operation has no item"),
    (
        {"http": {"path": "/t", "headers": {"X": "{payload.title}"}}},
        {"payload": {"title": "a\r\nX-Admin: yes"}},
        FAILED,
        "cannot be sent",
        "a header that hides another",
    ),
]


@pytest.mark.parametrize(("rule", "more", "outcome", "says", "why"), NOT_SENT, ids=[why for *_, why in NOT_SENT])
def test_what_is_never_sent(
    owner: ScriptedOwner, rule: dict[str, Any], more: dict[str, Any], outcome: LookupOutcome, says: str, why: str
) -> None:
    asked = question({**RULE, **rule}, base_url=owner.url)
    from dataclasses import replace

    reply = StatusLookup().ask(replace(asked, **more))
    assert reply.outcome is outcome, why
    assert says in reply.reason
    assert owner.received == []


def test_an_item_is_asked_for_and_compared_by_itself(owner: ScriptedOwner) -> None:
    owner.answer = said({"id": "t-1", "title": "Second"})
    reply = ask(owner, rule={"http": {"path": "/t/{item.ref}"}}, item={"ref": "b", "title": "Second"})
    assert owner.received[0].path == "/t/b"
    assert (reply.outcome, reply.differs) == (FOUND, ())


WAITS = [
    (Answer(status=429, body={}, headers={"Retry-After": "7"}), 7_000, True, "seconds"),
    (Answer(status=503, body={"retry_after_ms": 250}), 250, True, "in the body"),
    (Answer(status=503, body={}), None, True, "it does not say"),
    (Answer(status=404, body={}, headers={"Retry-After": "1"}), 1_000, False, "absent, and look again later"),
    (Answer(status=401, body={}), None, False, "down it is not"),
]


@pytest.mark.parametrize(("answer", "wait", "overloaded", "why"), WAITS)
def test_how_long_the_owner_asks_us_to_wait(
    owner: ScriptedOwner, answer: Answer, wait: int | None, overloaded: bool, why: str
) -> None:
    owner.answer = lambda received: answer
    reply = ask(owner)
    assert (reply.retry_after_ms, reply.overloaded) == (wait, overloaded), why
    assert reply.refused_credential is (answer.status == 401)


def test_what_is_kept_of_an_object(owner: ScriptedOwner) -> None:
    owner.answer = said({**TICKET, "rev": 7, "at": "2026-12-01T09:00:00Z"})
    reply = ask(owner, rule={"revision": "body.rev", "event_at": "body.at"})
    assert (reply.revision, reply.event_at) == ("7", datetime(2026, 12, 1, 9, tzinfo=UTC))
    assert (reply.receipt, reply.found) == ({"id": "t-1"}, ({"id": "t-1"},))
    owner.answer = said({**TICKET, "at": 1_796_115_600_000})
    assert ask(owner, rule={"event_at": "body.at"}).event_at == datetime(2026, 12, 1, 9, tzinfo=UTC)
    assert ask(owner, receipt={"id": "t-0"}).receipt == {}, "what is known already is not told again"
    owner.answer = said({**TICKET, "title": "Other"})
    assert ask(owner).receipt == {}, "a conflict's receipt is somebody else's"


COMPARED = [
    (True, 1, False, "true is not 1"),
    (1, 1.0, True, "1 is 1.0"),
    ("1", 1, False, "text is no number"),
    ({"a": [1]}, {"a": [1]}, True, "objects by what they hold"),
    (None, None, True, "null is null"),
]


@pytest.mark.parametrize(("seen", "meant", "equal", "why"), COMPARED)
def test_what_is_the_same(owner: ScriptedOwner, seen: Any, meant: Any, equal: bool, why: str) -> None:
    from dataclasses import replace

    owner.answer = said({"title": seen})
    reply = StatusLookup().ask(replace(question(RULE, base_url=owner.url), payload={"title": meant}))
    assert reply.outcome is FOUND
    assert (reply.differs == ()) is equal, why


def test_what_is_not_done_yet_need_not_show_everything(owner: ScriptedOwner) -> None:
    owner.answer = said({"state": "creating"}, status=200)
    rule = {"effect": {"pending": "body.state == 'creating'", "applied": "body.state == 'open'"}}
    reply = ask(owner, rule=rule)
    assert (reply.outcome, reply.effect) == (FOUND, Effect.PENDING)


def test_a_destroyed_payload_is_compared_with_nothing(owner: ScriptedOwner) -> None:
    from dataclasses import replace

    owner.answer = said(TICKET)
    reply = StatusLookup().ask(replace(question(RULE, base_url=owner.url), payload=None))
    assert reply.outcome is NOTHING
    assert "title" in reply.reason
