"""Events reach people and programs: signed, tried again, logged, never twice under two ids, never silently lost."""

import json
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from datetime import timedelta
from email.message import EmailMessage
from typing import Any
from uuid import UUID

import pytest
from aiosmtpd.controller import Controller
from django.core.management import call_command

from ledger.database import execute
from ledger.queries.clock import database_now
from ledger.queries.events import delivery_log, destinations, due_deliveries, events_of_operation
from ledger.rules.deliveries import MOST_TRIES
from ledger.rules.signatures import new_secret
from ledger.transitions.destinations import ensure_destination
from ledger.transitions.events import claim_deliveries, redeliver, spread_events, try_destination
from recovery.deliveries import deliver, hand_out_deliveries
from recovery.sealing import seal
from tests.conftest import TICKETS, Api, Bench, make_bench
from tests.notify.conftest import Receiver

LOST = {"kind": "exception", "exception": "ReadTimeout", "phase": "await", "bytes_sent": 300, "request_bytes": 300}
ALONE = {
    **{name: part for name, part in TICKETS.items() if name != "lookup"},
    "escalation": {"priority": "urgent", "sla": "1h", "notify": ["support-oncall"]},
}
"""Nobody can be asked: a lost answer goes to a person at once."""


def add(
    bench: Bench,
    *,
    name: str = "support-oncall",
    kind: str = "webhook",
    address: str,
    secret: str = "",
    kinds: Any = (),
) -> UUID:
    return ensure_destination(
        workspace_id=bench.id,
        name=name,
        kind=kind,
        sealed_address=seal(address),
        sealed_secret=seal(secret) if secret else None,
        kinds=kinds,
        now=database_now(),
    )


@pytest.fixture
def desk(database: Any) -> Bench:
    bench = make_bench()
    bench.publish(ALONE)
    # Events of other tests' workspaces are no business of this one.
    execute("UPDATE event SET spread_at = now() WHERE spread_at IS NULL AND workspace_id <> %s", [bench.id])
    execute("UPDATE delivery SET next_try_at = NULL WHERE next_try_at IS NOT NULL")
    return bench


def lose_one(bench: Bench, name: str = "t-1", **body: Any) -> UUID:
    api = Api(bench.token)
    begun = {"operation_id": name, "tool": "tickets.create", "payload": {"title": name}, "attempt": True, **body}
    id = UUID(api.post("/operations", begun).json()["data"]["id"])
    answer = api.post(f"/operations/{name}/attempts/attempt-01/observations", LOST).json()["data"]
    assert answer["decision"]["recovery_action"] == "escalate" if "decision" in answer else answer
    return id


def tell() -> dict[str, int]:
    """One tick and its tasks, in process."""
    handed: list[str] = []
    hand_out_deliveries(hand_out=handed.extend)
    return deliver(ids=[UUID(id) for id in handed])


def again() -> dict[str, int]:
    """The next tick, once the waits are over."""
    execute("UPDATE delivery SET next_try_at = now() WHERE next_try_at IS NOT NULL")
    return tell()


def test_an_escalation_reaches_who_the_contract_names_with_its_reason(desk: Bench, receiver: Receiver) -> None:
    receiver.secret = new_secret()
    add(desk, address=receiver.url, secret=receiver.secret)
    id = lose_one(desk, agent={"name": "support-7", "run": "run-9", "step": "1"})
    lose_one(desk, "t-2", agent={"name": "support-7", "run": "run-9", "step": "2"})
    assert tell() == {"delivered": 2}
    message_id, told = next(each for each in receiver.got if each[1]["data"]["operation_id"] == "t-1")
    assert receiver.refused == 0
    assert told["type"] == "operation.escalated"
    data = told["data"]
    assert (data["code"], data["effect"], data["priority"]) == ("NOBODY_TO_ASK", "unknown", "urgent")
    assert data["sentence"].endswith("names no way to look it up.")
    assert data["url"].endswith(f"/operations/{id}/")
    assert data["dependants"] == ["t-2"], "what else of the same run waits"
    [row] = [each for each in delivery_log(workspace_id=desk.id) if each.operation == id]
    assert message_id == str(row.id)
    assert row.delivered_at is not None
    assert [(line["try"], line["said"], line["status"]) for line in row.log] == [(1, "Taken.", 204)]
    [(sla, escalated)] = execute("SELECT sla_at, escalated_at FROM operation WHERE id = %s", [id])
    assert sla - escalated == timedelta(hours=1)
    call_command("verify_ledger")


def test_one_event_an_escalation_and_one_when_it_is_over(desk: Bench, receiver: Receiver) -> None:
    receiver.secret = new_secret()
    add(desk, address=receiver.url, secret=receiver.secret)
    id = lose_one(desk)
    api = Api(desk.token)
    for _ in range(3):  # later reports leave it escalated
        api.post("/operations/t-1/attempts/attempt-01/observations", {**LOST, "elapsed_ms": time.time_ns() % 10**6})
    done = {"kind": "http", "status": 201, "body": {"id": 7}}
    api.post("/operations/t-1/attempts/attempt-01/observations", done)
    assert api.get("/operations/t-1").json()["data"]["state"] == "settled"
    tell()
    came = {told["type"]: told["data"] for _, told in receiver.got}  # they are sent side by side, in no order
    assert len(receiver.got) == 2
    assert came.keys() == {"operation.escalated", "operation.settled"}
    assert came["operation.settled"]["outcome"] == "applied"
    rows = events_of_operation(id=id, workspace_id=desk.id, after=database_now() - timedelta(minutes=5))
    assert [(row.kind, row.deliveries) for row in rows] == [("operation.settled", 1), ("operation.escalated", 1)]


def test_a_settled_operation_is_told_of_only_where_somebody_listens(desk: Bench, receiver: Receiver) -> None:
    done = {"kind": "http", "status": 201, "body": {"id": 7}}
    api = Api(desk.token)

    def settle(name: str) -> None:
        begun = {"operation_id": name, "tool": "tickets.create", "payload": {"title": name}, "attempt": True}
        api.post("/operations", begun)
        api.post(f"/operations/{name}/attempts/attempt-01/observations", done)

    settle("quiet")
    assert execute("SELECT count(*) FROM event WHERE workspace_id = %s", [desk.id]) == [(0,)]
    receiver.secret = new_secret()
    add(desk, name="dashboards", address=receiver.url, secret=receiver.secret, kinds=["operation.settled"])
    settle("loud")
    tell()
    [(_, told)] = receiver.got
    assert (told["type"], told["data"]["operation_id"], told["data"]["outcome"]) == (
        "operation.settled", "loud", "applied",
    )  # fmt: skip
    execute("UPDATE destination SET disabled_at = now() WHERE workspace_id = %s", [desk.id])
    settle("off")
    assert execute("SELECT count(*) FROM event WHERE workspace_id = %s", [desk.id]) == [(1,)]


def test_it_is_tried_again_with_the_same_id_until_it_is_taken(desk: Bench, receiver: Receiver) -> None:
    receiver.secret = new_secret()
    add(desk, address=receiver.url, secret=receiver.secret)
    receiver.down()
    lose_one(desk)
    assert tell() == {"failed": 1}
    assert tell() == {}, "its wait is not over"
    receiver.up()
    receiver.status = 500
    assert again() == {"failed": 1}
    receiver.status, receiver.location = 302, "http://169.254.169.254/latest/meta-data"
    assert again() == {"failed": 1}
    receiver.status, receiver.location = 200, ""
    assert again() == {"delivered": 1}
    assert again() == {}
    assert len({id for id, _ in receiver.got}) == 1, "the same id each time, so that a receiver can tell"
    [row] = delivery_log(workspace_id=desk.id)
    assert row.tries == 4
    assert [line["said"] for line in row.log] == [
        "It took no connection.",
        "It answered 500.",
        "It answered 302. Redirects are not followed; change the address.",
        "Taken.",
    ]


def test_it_is_given_up_after_its_tries_and_can_be_sent_again_by_hand(desk: Bench, receiver: Receiver) -> None:
    receiver.secret, receiver.status = new_secret(), 503
    add(desk, address=receiver.url, secret=receiver.secret)
    lose_one(desk)
    assert tell() == {"failed": 1}
    for _ in range(MOST_TRIES - 2):
        assert again() == {"failed": 1}
    assert again() == {"given_up": 1}
    [row] = delivery_log(workspace_id=desk.id)
    assert row.given_up_at is not None
    assert row.next_try_at is None
    assert len(row.log) == MOST_TRIES
    assert [each.given_up for each in destinations(workspace_id=desk.id)] == [1]
    assert again() == {}
    receiver.status = 200
    assert not redeliver(id=row.id, workspace_id=make_bench().id, by="Ada", now=database_now()), "another workspace's"
    assert redeliver(id=row.id, workspace_id=desk.id, by="Ada", now=database_now())
    assert not redeliver(id=row.id, workspace_id=desk.id, by="Ada", now=database_now()), "it is on its way"
    assert tell() == {"delivered": 1}
    [row] = delivery_log(workspace_id=desk.id)
    assert row.given_up_at is None
    assert [line["said"] for line in row.log[-2:]] == ["Ada asked for it to be sent again.", "Taken."]


def test_gone_switches_the_destination_off(desk: Bench, receiver: Receiver) -> None:
    receiver.secret, receiver.status = new_secret(), 410
    add(desk, address=receiver.url, secret=receiver.secret)
    lose_one(desk)
    assert tell() == {"given_up": 1}
    [row] = destinations(workspace_id=desk.id)
    assert row.disabled_at is not None
    lose_one(desk, "t-2")
    assert tell() == {}
    assert len(receiver.got) == 1


def test_what_is_on_its_way_to_a_destination_that_is_switched_off_is_given_up(desk: Bench, receiver: Receiver) -> None:
    receiver.secret, receiver.status = new_secret(), 500
    add(desk, address=receiver.url, secret=receiver.secret)
    lose_one(desk)
    tell()
    execute("UPDATE destination SET disabled_at = now() WHERE workspace_id = %s", [desk.id])
    assert again() == {"given_up": 1}
    assert len(receiver.got) == 1


def test_retry_after_is_honoured_and_bounded(desk: Bench, receiver: Receiver) -> None:
    receiver.secret, receiver.status = new_secret(), 429
    add(desk, address=receiver.url, secret=receiver.secret)
    for asked, least, most in (("1800", 1790, 1810), ("99999999", 6 * 3600 - 10, 6 * 3600 + 10), ("soon", 0, 60 * 90)):
        receiver.headers = {"Retry-After": asked}
        lose_one(desk, f"t-{asked}")
        tell()
        [wait] = [
            (row.next_try_at - database_now()).total_seconds()
            for row in delivery_log(workspace_id=desk.id, most=1)
            if row.next_try_at
        ]
        assert least <= wait <= most, asked


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("https://127.0.0.1:1/", "loopback"),
        ("https://169.254.169.254/latest", "metadata"),
        ("https://10.0.0.7/", "private"),
        ("http://example.com/", "over https"),
        ("ftp://example.com/", "https://"),
    ],
)
def test_private_and_odd_addresses_are_not_reached(desk: Bench, settings: Any, address: str, said: str) -> None:
    settings.ASCERTAIN_PRIVATE_DESTINATIONS = frozenset()
    add(desk, address=address, secret=new_secret())
    lose_one(desk)
    assert tell() == {"failed": 1}
    [row] = delivery_log(workspace_id=desk.id)
    assert said in row.log[0]["said"]


def test_a_metadata_address_is_not_reached_even_when_it_is_allowed(desk: Bench, settings: Any) -> None:
    settings.ASCERTAIN_PRIVATE_DESTINATIONS = frozenset({"169.254.169.254"})
    add(desk, address="http://169.254.169.254/x", secret=new_secret())
    lose_one(desk)
    assert tell() == {"failed": 1}


def test_a_slow_receiver_costs_its_own_time_only(desk: Bench, receiver: Receiver, monkeypatch: Any) -> None:
    import recovery.deliveries as deliveries

    monkeypatch.setattr(deliveries, "SEND_SECONDS", 1.0)
    slow = Receiver(secret=new_secret(), slow=3)
    slow.up()
    receiver.secret = new_secret()
    add(desk, name="slow", address=slow.url, secret=slow.secret, kinds=["*"])
    add(desk, address=receiver.url, secret=receiver.secret)
    lose_one(desk)
    begun = time.monotonic()
    assert tell() == {"failed": 1, "delivered": 1}
    assert time.monotonic() - begun < 3
    slow.down()


def test_who_listens_and_who_is_named(desk: Bench, receiver: Receiver) -> None:
    add(desk, name="other", address=receiver.url, secret=new_secret())
    add(desk, name="family", address=receiver.url, secret=new_secret(), kinds=["operation.*"])
    add(desk, name="owners", address=receiver.url, secret=new_secret(), kinds=["owner.*"])
    add(desk, name="all", address=receiver.url, secret=new_secret(), kinds=["*"])
    add(desk, name="both", address=receiver.url, secret=new_secret(), kinds=["*", "operation.escalated"])
    lose_one(desk)
    spread_events()
    spread_events()
    assert sorted(row.destination for row in delivery_log(workspace_id=desk.id)) == ["all", "both", "family"]


def test_an_escalation_that_reaches_nobody_is_said_once_and_stands(desk: Bench, capsys: Any) -> None:
    lose_one(desk)
    lose_one(desk, "t-2")
    assert tell() == {}
    said = [line for line in capsys.readouterr().out.splitlines() if "nobody_is_told" in line]
    assert len(said) == 1
    assert "support-oncall" in said[0]
    assert Api(desk.token).get("/operations/t-1").json()["data"]["state"] == "escalated"


def test_another_workspaces_destination_of_the_same_name_hears_nothing(desk: Bench, receiver: Receiver) -> None:
    receiver.secret = new_secret()
    stranger = make_bench()
    add(stranger, address=receiver.url, secret=receiver.secret, kinds=["*"])
    lose_one(desk)
    tell()
    assert receiver.got == []


class Letters:
    """A mail server that keeps what it was handed; `refuses` says no."""

    def __init__(self) -> None:
        self.got: list[Any] = []
        self.refuses = False

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802 - the library's name
        if self.refuses:
            return "451 Try again later"
        self.got.append(envelope)
        return "250 OK"


@pytest.fixture
def letters(settings: Any) -> Iterator[Letters]:
    handler = Letters()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = Controller(handler, hostname="127.0.0.1", port=port)
    server.start()
    settings.ASCERTAIN_EMAIL_URL = f"smtp://127.0.0.1:{port}"
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", port
    yield handler
    server.stop()


def test_a_letter_says_what_happened_what_is_safe_and_what_to_do(desk: Bench, letters: Letters) -> None:
    from email import message_from_bytes
    from email.policy import default

    add(desk, kind="email", address="ada@example.com, bo@example.com")
    id = lose_one(desk)
    letters.refuses = True
    assert tell() == {"failed": 1}
    letters.refuses = False
    assert again() == {"delivered": 1}
    [envelope] = letters.got
    assert envelope.rcpt_tos == ["ada@example.com", "bo@example.com"]
    message = message_from_bytes(envelope.content, policy=default)
    assert isinstance(message, EmailMessage)
    assert message["Subject"] == "[Ascertain] A person has to look: tickets.create t-1 (urgent)"
    [row] = delivery_log(workspace_id=desk.id)
    assert message["Message-ID"] == f"<{row.id}@ascertain>"
    text = message.get_content()
    for part in (
        "The effect is unknown and the contract names no way to look it up.",
        "Nothing is sent again while this is open",
        "Open the operation",
        f"/operations/{id}/",
        "Answer by:",
    ):
        assert part in text
    assert "refused it (SMTPDataError)" in row.log[0]["said"]


def test_without_a_mail_server_the_log_says_so(desk: Bench) -> None:
    add(desk, kind="email", address="ada@example.com")
    lose_one(desk)
    assert tell() == {"failed": 1}
    [row] = delivery_log(workspace_id=desk.id)
    assert row.log[0]["said"] == "No mail server is set where the worker runs: set EMAIL_URL."


def test_an_apprise_service_is_told_in_words(desk: Bench, receiver: Receiver) -> None:
    add(desk, kind="apprise", address=receiver.url.replace("http:", "json:"))
    lose_one(desk)
    receiver.status = 500
    assert tell() == {"failed": 1}
    receiver.status = 200
    assert again() == {"delivered": 1}
    [*_, (_, told)] = receiver.got
    assert told["title"].startswith("[Ascertain] A person has to look")
    assert "names no way to look it up" in told["message"]


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("json://127.0.0.1:9/x", "loopback"),
        ("json://169.254.169.254/x", "metadata"),
        ("syslog://", "only the machine"),
        ("nothing://x", "does not know"),
    ],
)
def test_an_apprise_address_that_may_not_be_used(desk: Bench, settings: Any, address: str, said: str) -> None:
    settings.ASCERTAIN_PRIVATE_DESTINATIONS = frozenset()
    add(desk, kind="apprise", address=address)
    lose_one(desk)
    assert tell() == {"failed": 1}
    [row] = delivery_log(workspace_id=desk.id)
    assert said in row.log[0]["said"]


KILLED = """
import os, signal, sys
import django
django.setup()
import recovery.deliveries as deliveries
from uuid import UUID
def dies(**_):
    os.kill(os.getpid(), signal.SIGKILL)
deliveries.record_try = dies
deliveries.deliver(ids=[UUID(sys.argv[1])])
"""


def test_a_worker_killed_between_sending_and_recording_sends_once_more(
    desk: Bench, receiver: Receiver, database: Any
) -> None:
    import os

    receiver.secret = new_secret()
    add(desk, address=receiver.url, secret=receiver.secret)
    lose_one(desk)
    spread_events()
    [id] = claim_deliveries(most=10)
    env = {**os.environ, "DATABASE_URL": database.app_url, "ASCERTAIN_PRIVATE_DESTINATIONS": "127.0.0.1"}
    code = subprocess.run([sys.executable, "-c", KILLED, str(id)], env=env, check=False, timeout=60).returncode
    assert code == -9
    assert len(receiver.got) == 1
    assert tell() == {}, "its claim stands"
    execute("UPDATE delivery SET claimed_until = now() WHERE id = %s", [id])  # as a minute does
    assert tell() == {"delivered": 1}
    assert [message_id for message_id, _ in receiver.got] == [str(id)] * 2, "twice, with one id"
    [row] = delivery_log(workspace_id=desk.id)
    assert row.tries == 2, "the first try is counted though nobody recorded it"


def test_two_workers_never_take_the_same_delivery(desk: Bench) -> None:
    from concurrent.futures import ThreadPoolExecutor

    from django.db import connection

    add(desk, address="https://example.com/", secret=new_secret())
    for number in range(12):
        lose_one(desk, f"t-{number}")
    spread_events()

    def take(_: int) -> list[UUID]:
        try:
            return claim_deliveries(most=3)
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=4) as hands:
        taken = [id for ids in hands.map(take, range(6)) for id in ids]
    assert len(taken) == len(set(taken)) == 12
    assert len(due_deliveries(ids=taken)) == 12


def test_a_broker_that_is_away_loses_nothing(desk: Bench, receiver: Receiver) -> None:
    receiver.secret = new_secret()
    add(desk, address=receiver.url, secret=receiver.secret)
    lose_one(desk)

    def away(_: list[str]) -> None:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        hand_out_deliveries(hand_out=away)
    assert tell() == {"delivered": 1}
    [row] = delivery_log(workspace_id=desk.id)
    assert row.tries == 1


def test_a_test_message_goes_to_one_destination_only(desk: Bench, receiver: Receiver) -> None:
    receiver.secret = new_secret()
    id = add(desk, name="one", address=receiver.url, secret=receiver.secret)
    add(desk, name="two", address=receiver.url, secret=receiver.secret, kinds=["*"])
    try_destination(destination_id=id, workspace_id=desk.id, now=database_now())
    assert tell() == {"delivered": 1}
    [(_, told)] = receiver.got
    assert told["type"] == "destination.test"
    with pytest.raises(LookupError):
        try_destination(destination_id=uuid.uuid4(), workspace_id=desk.id, now=database_now())


def test_a_broken_contract_is_told_of_once_an_hour(desk: Bench, receiver: Receiver) -> None:
    receiver.secret = new_secret()
    add(desk, address=receiver.url, secret=receiver.secret)
    contradicts = {
        "kind": "envelope",
        "body": {"ok": False, "error": {"code": "X", "class": "validation", "retryable": True, "message": "m"}},
    }
    for number in range(3):
        api, name = Api(desk.token), f"v-{number}"
        begun = {"operation_id": name, "tool": "tickets.create", "payload": {"title": name}, "attempt": True}
        api.post("/operations", begun)
        assert api.post(f"/operations/{name}/attempts/attempt-01/observations", contradicts).status_code == 200
    tell()
    broken = [told for _, told in receiver.got if told["type"] == "contract.violated"]
    assert len(broken) == 1
    assert broken[0]["data"]["contract"] == "tickets.create@1"
    assert json.dumps(broken[0]).count("retryable") >= 1
