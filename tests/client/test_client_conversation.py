"""What the client says to Ascertain, and what it does when Ascertain does not answer."""

import asyncio
import threading
import time
from datetime import timedelta

import httpx2
import pytest

import recovery.client as client
from recovery.client import Ascertain, Patience
from tests.client import raw_owner
from tests.client.loops import run
from tests.client.raw_owner import RawOwner
from tests.client.wire_server import TOKEN, decision


def test_the_intent_is_recorded_before_the_call(story):
    recorded = []

    def created(connection, owner):
        recorded.append("op-1" in story.ledger.operations)
        raw_owner.created(connection, owner)

    with RawOwner(created) as owner:
        story.tell(
            lambda op: op.send("POST", f"{owner.url}/tickets", json={}),
            principal="svc-support",
            agent={"name": "support-7", "run": "run-91", "step": "3"},
            trace_id="4bf9",
        )
    assert recorded == [True]
    intent = story.ledger.operations["op-1"]["intent"]
    assert intent == {
        "operation_id": "op-1",
        "tool": "tickets.create",
        "payload": {"title": "Export broken"},
        "attempt": True,
        "principal": "svc-support",
        "agent": {"name": "support-7", "run": "run-91", "step": "3"},
        "trace_id": "4bf9",
    }


@pytest.mark.parametrize("fault", ["drop_before", "drop_after", "busy"])
def test_recording_is_repeated_until_answered(story, fault):
    story.ledger.faults.append(fault)
    assert story.tell(lambda op: op.permitted) is (fault != "drop_after"), "a permit whose answer was lost is not ours"
    assert len(story.ledger.operations) == 1


@pytest.mark.parametrize("fault", ["drop_before", "drop_after", "busy"])
def test_a_report_is_repeated_unchanged(story, fault):
    story.ledger.fault_paths = "/observations"
    story.ledger.faults.extend([fault, fault])
    with RawOwner(raw_owner.created) as owner:
        assert story.send("POST", f"{owner.url}/tickets", json={}).is_done
    assert owner.connections == 1
    bodies = [str(observation) for _, observation in story.ledger.reports]
    assert len(bodies) == (3 if fault == "drop_after" else 1)
    assert len(set(bodies)) == 1


def test_without_ascertain_nothing_is_sent(story):
    story.ledger.faults.extend(["drop_before"] * 4)
    with pytest.raises(client.UnreachableError):
        story.tell(lambda op: pytest.fail("the block must not run"))


def test_something_else_answers_in_its_place(story):
    story.ledger.faults.extend(["garbage"] * 4)
    with pytest.raises(client.UnreachableError, match="not in the words"):
        story.tell(lambda op: None)


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ({"token": "asc_wrong"}, client.NotAuthenticatedError),
        ({"payload": {"title": ""}}, client.InvalidError),
    ],
)
def test_refusals_have_types(story, what, error):
    with pytest.raises(error) as caught:
        story.tell(lambda op: None, **what)
    if error is client.InvalidError:
        assert caught.value.field == "payload.title"


def test_another_payload_under_the_same_id(story):
    story.tell(lambda op: None)
    with pytest.raises(client.OperationMismatchError):
        story.tell(lambda op: None, payload={"title": "Something else"})


def test_no_permit_means_no_call(story):
    story.ledger.refuse_permits = True
    with RawOwner(raw_owner.created) as owner:
        with pytest.raises(client.NoPermitError, match="authorize") as caught:
            story.send("POST", f"{owner.url}/tickets", json={})
        assert owner.connections == 0
    assert story.op.permit is None
    assert story.op.decision.recovery_action == "authorize"
    assert caught.value.decision == story.op.decision
    assert story.op.operation.approval["id"] == "ap-1"
    assert story.ledger.reports == []


def test_a_permit_is_one_call(story):
    with RawOwner(raw_owner.created) as owner:

        def twice(op):
            op.send("POST", f"{owner.url}/tickets", json={})
            return op.send("POST", f"{owner.url}/tickets", json={})

        async def twice_later(op):
            await op.send("POST", f"{owner.url}/tickets", json={})
            return await op.send("POST", f"{owner.url}/tickets", json={})

        with pytest.raises(client.PermitSpentError):
            story.tell(twice if story.flavour == "blocking" else twice_later)
        assert owner.connections == 1
    assert len(story.ledger.reports) == 1


@pytest.mark.parametrize("ahead", [timedelta(0), timedelta(hours=3), timedelta(hours=-3)])
def test_after_dispatch_by_nothing_leaves(story, ahead):
    story.ledger.clock_ahead = ahead
    story.ledger.dispatch_within = timedelta(seconds=0)
    with RawOwner(raw_owner.created) as owner:
        told = story.send("POST", f"{owner.url}/tickets", json={})
        assert owner.connections == 0
    assert told.recovery_action == "retry"
    assert isinstance(story.op.exception, client.TooLateError)
    seen = story.observation
    assert (seen["exception"], seen["phase"], seen["bytes_sent"]) == ("TooLateError", "before_dispatch", 0)


def test_a_wrong_clock_of_ours_refuses_nothing(story):
    story.ledger.clock_ahead = timedelta(hours=-3)
    with RawOwner(raw_owner.created) as owner:
        assert story.send("POST", f"{owner.url}/tickets", json={}).is_done


def test_retry_asks_for_a_further_permit(story):
    with RawOwner(raw_owner.created) as owner:
        story.ledger.dispatch_within = timedelta(0)

        def again(op):
            op.send("POST", f"{owner.url}/tickets", json={})
            story.ledger.dispatch_within = timedelta(seconds=10)
            assert op.retry()
            return op.send("POST", f"{owner.url}/tickets", json={})

        async def again_later(op):
            await op.send("POST", f"{owner.url}/tickets", json={})
            story.ledger.dispatch_within = timedelta(seconds=10)
            assert await op.retry()
            return await op.send("POST", f"{owner.url}/tickets", json={})

        assert story.tell(again if story.flavour == "blocking" else again_later).is_done
    assert [attempt for attempt, _ in story.ledger.reports] == ["attempt-01", "attempt-02"]


def test_retry_is_refused_while_the_outcome_is_unknown(story):
    with RawOwner(raw_owner.reset_after_reading) as owner:

        def again(op):
            op.send("POST", f"{owner.url}/tickets", json={})
            return op.retry()

        async def again_later(op):
            await op.send("POST", f"{owner.url}/tickets", json={})
            return await op.retry()

        assert story.tell(again if story.flavour == "blocking" else again_later) is False
    assert story.op.permit is None
    assert story.op.decision.recovery_action == "reconcile"
    assert len(story.ledger.reports) == 1, "leaving reports nothing more"


def test_a_revision_gets_its_own_permit(story):
    def repair(op):
        op.observe({"kind": "http", "status": 422})
        return op.revise(kind="repair", payload={"title": "Longer"}, field="payload.title", reason="It was too short.")

    async def repair_later(op):
        await op.observe({"kind": "http", "status": 422})
        return await op.revise(kind="repair", payload={"title": "Longer"}, reason="It was too short.")

    assert story.tell(repair if story.flavour == "blocking" else repair_later) is True
    assert story.ledger.operations["op-1"]["payload"] == {"title": "Longer"}


def test_leaving_untouched_proves_that_nothing_was_sent(story):
    def fail(op):
        assert op.permitted
        raise ZeroDivisionError("before anything")

    with pytest.raises(ZeroDivisionError):
        story.tell(fail)
    seen = story.observation
    assert (seen["exception"], seen["phase"], seen["bytes_sent"]) == ("ZeroDivisionError", "before_dispatch", 0)
    assert seen["network_attempts"] == 0


def test_leaving_with_the_permit_in_hand_proves_nothing(story):
    def fail(op):
        assert op.permit.headers
        raise ZeroDivisionError("after who knows what")

    with pytest.raises(ZeroDivisionError):
        story.tell(fail)
    assert story.observation["phase"] is None
    assert "bytes_sent" not in story.observation
    assert story.ledger.operations["op-1"]["decision"]["recovery_action"] == "reconcile"


def test_leaving_without_any_report_is_reported(story):
    story.tell(lambda op: None)
    assert story.observation["exception"] == "LeftWithoutReportError"
    assert story.observation["phase"] == "before_dispatch"


def test_a_lost_report_never_hides_the_callers_exception(story):
    story.ledger.fault_paths = "/observations"
    story.ledger.faults.extend(["drop_before"] * 20)

    def fail(op):
        raise ZeroDivisionError("the caller's own")

    with pytest.raises(ZeroDivisionError) as caught:
        story.tell(fail)
    assert "did not take the report" in caught.value.__notes__[0]


def test_a_report_that_cannot_be_delivered_keeps_the_answer(story):
    story.ledger.fault_paths = "/observations"
    story.ledger.faults.extend(["drop_before"] * 20)
    with RawOwner(raw_owner.created) as owner:
        with pytest.raises(client.ReportNotDeliveredError) as caught:
            story.send("POST", f"{owner.url}/tickets", json={})
        assert owner.connections == 1
    assert caught.value.observation["status"] == 201
    assert story.op.response.json()["id"] == "t-1"
    assert story.op.report_error is not None


def test_run_hands_on_what_the_callable_returns(story):
    def call(permit):
        assert permit.headers == {"Idempotency-Key": "op-1"}
        return httpx2.Response(201, json={"id": "t-1"})

    async def call_later(permit):
        return call(permit)

    result = story.tell(lambda op: op.run(call if story.flavour == "blocking" else call_later))
    assert result.status_code == 201
    assert story.observation["kind"] == "http"
    assert story.observation["body"] == {"id": "t-1"}


@pytest.mark.parametrize(
    ("one_request", "error", "phase"),
    [
        (True, ConnectionRefusedError("refused"), "connect"),
        (True, ConnectionResetError("reset"), None),
        (True, TimeoutError("too slow"), None),
        (False, ConnectionRefusedError("the second of two calls?"), None),
    ],
)
def test_run_reports_what_the_callable_raises(story, one_request, error, phase):
    def call(permit):
        raise error

    async def call_later(permit):
        raise error

    with pytest.raises(type(error)):
        story.tell(lambda op: op.run(call if story.flavour == "blocking" else call_later, one_request=one_request))
    assert story.observation["phase"] == phase
    assert story.observation["exception"] == type(error).__name__


def test_run_does_not_start_too_late(story):
    story.ledger.dispatch_within = timedelta(0)
    with pytest.raises(client.TooLateError):
        story.tell(lambda op: op.run(lambda permit: pytest.fail("too late to run")))
    assert story.observation["phase"] == "before_dispatch"


def test_wait_sees_a_settlement_at_once(story):
    with RawOwner(raw_owner.reset_after_reading) as owner:
        timer = threading.Timer(0.3, lambda: story.ledger.settle("op-1", "applied"))

        def wait(op):
            op.send("POST", f"{owner.url}/tickets", json={})
            timer.start()
            return op.wait(10)

        async def wait_later(op):
            await op.send("POST", f"{owner.url}/tickets", json={})
            timer.start()
            return await op.wait(10)

        before = time.monotonic()
        operation = story.tell(wait if story.flavour == "blocking" else wait_later)
    assert operation.settled
    assert operation.outcome == "applied"
    assert time.monotonic() - before < 5
    assert operation.model_extra["id"].startswith("018f"), "members of tomorrow are kept"


def test_wait_survives_a_busy_and_silent_server_and_ends_in_time(story):
    with RawOwner(raw_owner.reset_after_reading) as owner:

        def wait(op):
            op.send("POST", f"{owner.url}/tickets", json={})
            story.ledger.faults.extend(["busy", "drop_before", "pass"])
            return op.wait(1.2)

        async def wait_later(op):
            await op.send("POST", f"{owner.url}/tickets", json={})
            story.ledger.faults.extend(["busy", "drop_before", "pass"])
            return await op.wait(1.2)

        before = time.monotonic()
        operation = story.tell(wait if story.flavour == "blocking" else wait_later)
    assert 1 < time.monotonic() - before < 4
    assert operation.state == "reconciling"
    assert len([path for method, path in story.ledger.requests if method == "GET"]) < 15


def test_a_cancelled_call_is_reported(ledger):
    async def story(url):
        async with (
            client.AsyncAscertain(ledger.url, TOKEN, patience=Patience(tries=2, first_pause=0.01)) as ascertain,
            ascertain.operation(tool="t", operation_id="op-1", payload={"a": 1}) as op,
        ):
            await op.send("POST", f"{url}/tickets", json={})

    async def cancelled(url):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await story(url)

    with RawOwner(raw_owner.never_answer) as owner:
        run(cancelled(owner.url))
    seen = ledger.reports[0][1]
    assert len(ledger.reports) == 1
    assert (seen["exception"], seen["cancelled_by"], seen["phase"]) == ("CancelledError", "caller", "await")


def test_one_client_serves_many_threads(ledger):
    with RawOwner(raw_owner.created) as owner, Ascertain(ledger.url, TOKEN) as ascertain:
        done = []

        def one(number):
            with ascertain.operation(tool="t", operation_id=f"op-{number}", payload={"n": number}) as op:
                done.append(op.send("POST", f"{owner.url}/tickets", json={}).is_done)

        threads = [threading.Thread(target=one, args=(number,)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    assert done == [True] * 20
    assert owner.connections == 20


def test_reading_an_operation(ledger):
    with Ascertain(ledger.url, TOKEN) as ascertain:
        with pytest.raises(client.OperationNotFoundError):
            ascertain.read(operation_id="nobody:knows@this~one")
        with ascertain.operation(tool="t", operation_id="a:b@c~1", payload={"a": 1}) as op:
            op.observe({"kind": "http", "status": 200})
        assert ascertain.read(operation_id="a:b@c~1").settled


def test_unknown_members_of_a_decision_are_kept():
    told = client.Decision.model_validate(decision("done"))
    assert told.model_extra == {"member_of_tomorrow": {"kept": True}}
