"""`manage.py notify`: what it prints once, what it keeps sealed, and how it says no."""

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from standardwebhooks import Webhook

from ledger.database import execute
from ledger.queries.notices import endpoint_by_id, endpoints
from recovery.deliveries import deliver
from recovery.sealing import unseal
from tests.conftest import Bench
from tests.notify.conftest import Receiver
from tests.notify.test_deliveries import tell


def notify(*words: str) -> str:
    out = StringIO()
    call_command("notify", *words, stdout=out, stderr=out)
    return out.getvalue()


def refused(capsys: Any, *words: str) -> str:
    out = StringIO()
    with pytest.raises(SystemExit):
        call_command("notify", *words, stdout=out, stderr=out)
    return out.getvalue()


def test_an_endpoint_and_its_secrets(bench: Bench, settings: Any) -> None:
    settings.ASCERTAIN_ADDRESS = "https://ascertain.example"
    told = notify("endpoint", "add", "--workspace", bench.slug, "--owner", "helpdesk")
    [row] = endpoints(workspace_id=bench.id)
    assert f"https://ascertain.example/api/v1/notifications/{row.id}" in told
    secret = told.split("Secret   ")[1].split()[0]
    assert Webhook(secret)
    kept = endpoint_by_id(id=row.id)
    assert kept is not None
    assert secret.encode() not in kept.sealed_secrets
    assert json.loads(unseal(kept.sealed_secrets)) == [secret]
    newer = notify("endpoint", "rotate", str(row.id), "--workspace", bench.slug).split("Secret   ")[1].split()[0]
    kept = endpoint_by_id(id=row.id)
    assert kept is not None
    assert json.loads(unseal(kept.sealed_secrets)) == [newer, secret]
    notify("endpoint", "forget", str(row.id), "--workspace", bench.slug)
    kept = endpoint_by_id(id=row.id)
    assert kept is not None
    assert json.loads(unseal(kept.sealed_secrets)) == [newer]
    listed = notify("list", "--workspace", bench.slug)
    assert str(row.id) in listed
    assert newer not in listed
    notify("endpoint", "off", str(row.id), "--workspace", bench.slug)
    assert endpoint_by_id(id=row.id) is None


def test_a_secret_that_the_owner_made(bench: Bench) -> None:
    given = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    assert given in notify("endpoint", "add", "--workspace", bench.slug, "--owner", "helpdesk", "--secret", given)


def test_a_destination_is_added_tried_and_switched_off(bench: Bench, receiver: Receiver) -> None:
    execute("UPDATE delivery SET next_try_at = NULL WHERE next_try_at IS NOT NULL")
    add = ["destination", "add", "--workspace", bench.slug, "--name", "ops", "--kind", "webhook"]
    told = notify(*add, "--address", receiver.url, "--kinds", "operation.settled, owner.*")
    receiver.secret = told.split("Secret   ")[1].split()[0]
    assert "Secret" not in notify(*add, "--address", receiver.url), "its secret stays, and is not shown again"
    notify("destination", "test", "--workspace", bench.slug, "--name", "ops")
    assert tell() == {"delivered": 1}
    assert receiver.got[0][1]["type"] == "destination.test"
    listed = notify("list", "--workspace", bench.slug)
    assert "ops  webhook  on" in listed
    assert "last told" in listed
    assert str(receiver.port) not in listed, "addresses may hold passwords"
    notify("destination", "off", "--workspace", bench.slug, "--name", "ops")
    assert "ops  webhook  off" in notify("list", "--workspace", bench.slug)
    assert deliver(ids=[]) == {}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["endpoint", "add", "--owner", "nobody"], "has no owner nobody"),
        (["endpoint", "add", "--owner", "helpdesk", "--secret", "short"], "whsec_"),
        (["endpoint", "off", "no-id"], "no such address"),
        (["destination", "off", "--name", "x"], "no destination x"),
        (["destination", "add", "--name", "x", "--kind", "email", "--address", "nobody"], "no e-mail address"),
        (["destination", "add", "--name", "x", "--kind", "webhook", "--address", "http://example.com"], "over https"),
        (
            ["destination", "add", "--name", "x", "--kind", "webhook", "--address", "https://u:p@example.com"],
            "password",
        ),
        (["destination", "add", "--name", "x", "--kind", "apprise", "--address", "what://ever"], "does not know"),
        (
            ["destination", "add", "--name", "x", "--kind", "email", "--address", "a@example.com", "--kinds", "nope"],
            "nope is no kind of event",
        ),
    ],
)
def test_how_it_says_no(bench: Bench, capsys: Any, words: list[str], said: str) -> None:
    assert said in refused(capsys, *words, "--workspace", bench.slug)


def test_an_unknown_workspace(database: Any, capsys: Any) -> None:
    assert "There is no workspace" in refused(capsys, "list", "--workspace", "w-none")
