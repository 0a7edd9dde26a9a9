"""Credentials that are kept here: sealed, asked with, changed, and sealed anew when keys change."""

import io
import uuid
from collections.abc import Iterator
from contextlib import redirect_stdout
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.conf import settings
from django.core.checks import run_checks
from django.core.management import CommandError, call_command

from ledger.database import execute
from ledger.queries.secrets import sealed_secret
from ledger.transitions.secrets import seal_anew, set_secret
from recovery.checks import field_keys_are_set
from recovery.sealing import FieldKeysMissing, SealBroken, fingerprint, seal, sealed_anew, unseal
from tests.conftest import Bench

OLD, NEW = Fernet.generate_key().decode(), Fernet.generate_key().decode()
USUAL = settings.ASCERTAIN_FIELD_KEYS
VALUE = "tok-3f9a-not-to-be-seen"


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets ASCERTAIN_FIELD_KEYS."""

    def put(*texts: str) -> None:
        monkeypatch.setattr(settings, "ASCERTAIN_FIELD_KEYS", ",".join(texts))

    return put


@pytest.fixture
def given_back(bench: Bench, keys: Any) -> Iterator[None]:
    """What other tests keep in the database is sealed anew by these as well; at the end it gets its own key back."""
    yield
    keys(USUAL, NEW, OLD)
    seal_anew(anew=sealed_anew)


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`manage.py secrets …` with something on standard input; what it printed."""

    def run(*arguments: str, given: str = "") -> str:
        monkeypatch.setattr("sys.stdin", io.StringIO(given))
        out = io.StringIO()
        with redirect_stdout(out):
            call_command("secrets", *arguments, stdout=out)
        return out.getvalue()

    return run


def test_what_is_sealed_is_opened_by_any_key_and_sealed_by_the_first(keys: Any) -> None:
    keys(OLD)
    sealed = seal(VALUE)
    assert VALUE.encode() not in sealed
    keys(NEW, OLD)
    assert unseal(sealed) == VALUE
    anew = sealed_anew(sealed)
    assert anew is not None
    assert sealed_anew(anew) is None
    keys(NEW)
    assert unseal(anew) == VALUE
    with pytest.raises(SealBroken):
        unseal(sealed)


def test_fingerprints_tell_values_apart_and_outlive_a_change_of_keys(keys: Any) -> None:
    keys(OLD)
    mark = fingerprint("owner", "env:X", VALUE)
    assert mark != fingerprint("owner", "env:X", "another")
    assert mark != fingerprint("owner", "env:", f"X{VALUE}"), "parts do not run into each other"
    keys(NEW, OLD)
    assert fingerprint("owner", "env:X", VALUE) == mark


@pytest.mark.parametrize(
    ("text", "wrong"),
    [("", True), (" , ", True), ("hunter2", True), (f"{OLD},hunter2", True), (f" {OLD} , {NEW}", False)],
    ids=["none", "empty", "no key", "one of them no key", "two"],
)
def test_production_without_a_key_is_told_so(keys: Any, text: str, wrong: bool) -> None:
    keys(text)
    said = field_keys_are_set()
    assert bool(said) is wrong
    if wrong:
        assert "secrets new-key" in str(said[0].hint)
        assert "hunter2" not in str(said[0])
        with pytest.raises(FieldKeysMissing):
            seal(VALUE)


def test_the_check_is_registered() -> None:
    assert [each for each in run_checks() if each.id == "recovery.E001"] == []


def test_a_secret_is_kept_listed_replaced_and_forgotten(bench: Bench, typed: Any) -> None:
    where = ("--workspace", bench.slug)
    said = typed("set", *where, "helpdesk", "--expires", "2031-01-31", given=f"{VALUE}\n")
    assert said.startswith("Kept secret:helpdesk.")
    kept = sealed_secret(workspace_id=bench.id, name="helpdesk")
    assert kept is not None
    assert VALUE.encode() not in kept
    assert unseal(kept) == VALUE
    listed = typed("list", *where)
    assert "secret:helpdesk" in listed
    assert "expires 2031-01-31" in listed
    assert VALUE not in said + listed
    assert typed("set", *where, "helpdesk", given="another").startswith("Replaced")
    assert "expires" not in typed("list", *where)
    assert typed("remove", *where, "helpdesk").startswith("Forgot")
    with pytest.raises(CommandError, match="no secret:helpdesk"):
        typed("remove", *where, "helpdesk")


@pytest.mark.parametrize(
    ("name", "given", "more", "says"),
    [
        ("helpdesk", "", (), "one line of 1 to"),
        ("helpdesk", "two\nlines", (), "one line of 1 to"),
        ("help desk", VALUE, (), "A name has"),
        ("helpdesk", VALUE, ("--expires", "soon"), "no date"),
    ],
)
def test_what_cannot_be_kept_is_refused(
    bench: Bench, typed: Any, name: str, given: str, more: tuple[str, ...], says: str
) -> None:
    with pytest.raises(CommandError, match=says):
        typed("set", "--workspace", bench.slug, name, *more, given=given)
    assert execute("SELECT count(*) FROM secret WHERE workspace_id = %s", [bench.id]) == [(0,)]


@pytest.mark.usefixtures("given_back")
def test_every_sealed_column_is_sealed_anew_and_it_may_be_begun_again(bench: Bench, keys: Any, typed: Any) -> None:
    keys(OLD)
    execute("DELETE FROM secret")
    for number in range(7):
        set_secret(workspace_id=bench.id, name=f"s{number}", sealed=seal(f"value {number}"))
    execute(
        "INSERT INTO destination (id, workspace_id, name, kind, sealed_address, sealed_secret, kinds, created_at) "
        "VALUES (%s, %s, 'ops', 'webhook', %s, %s, '[]', now())",
        [uuid.uuid4(), bench.id, seal("https://example.test/hook"), seal("whsec")],
    )
    execute(
        "INSERT INTO notice_endpoint (id, workspace_id, owner_id, sealed_secrets, created_at) VALUES (%s, %s, %s, %s, now())",
        [uuid.uuid4(), bench.id, bench.owner_id, seal("whsec_1 whsec_2")],
    )
    keys(NEW, OLD, USUAL)
    done = 0

    class Killed(Exception):
        pass

    def until_killed(sealed: bytes) -> bytes | None:
        nonlocal done
        done += 1
        if done > 4:
            raise Killed
        return sealed_anew(sealed)

    with pytest.raises(Killed):
        seal_anew(anew=until_killed, batch=3)
    counts = seal_anew(anew=sealed_anew, batch=3)
    assert counts["secret.sealed"] == (3, 7), "four were done before it was killed"
    assert counts["destination.sealed_address"][0] >= 1
    assert counts["destination.sealed_secret"][0] >= 1
    assert counts["notice_endpoint.sealed_secrets"][0] >= 1
    keys(NEW)
    for number in range(7):
        kept = sealed_secret(workspace_id=bench.id, name=f"s{number}")
        assert kept is not None
        assert unseal(kept) == f"value {number}"
    set_secret(workspace_id=bench.id, name="lost", sealed=Fernet(OLD).encrypt(b"x"))
    with pytest.raises(CommandError, match="1 values are opened by no key"):
        typed("rotate")
    execute("DELETE FROM secret WHERE name = 'lost'")
    assert "0 of 7 sealed anew" in typed("rotate")


@pytest.mark.usefixtures("given_back")
def test_a_value_that_was_changed_meanwhile_stays_as_it_was_set(bench: Bench, keys: Any) -> None:
    keys(OLD)
    execute("DELETE FROM secret")
    set_secret(workspace_id=bench.id, name="one", sealed=seal("old"))
    keys(NEW, OLD, USUAL)

    def beside(sealed: bytes) -> bytes | None:
        set_secret(workspace_id=bench.id, name="one", sealed=seal("set meanwhile"))
        return sealed_anew(sealed)

    assert seal_anew(anew=beside)["secret.sealed"] == (0, 1)
    kept = sealed_secret(workspace_id=bench.id, name="one")
    assert kept is not None
    assert unseal(kept) == "set meanwhile"
