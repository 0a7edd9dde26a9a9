"""Where a credential's value comes from, and in which header it goes out."""

import pytest

from recovery.owners.credentials import CredentialMissing, headers_for, secret

SENT = [
    ("t0ken", {"authorization": "Bearer t0ken"}, "a bare token"),
    ("  t0ken\n", {"authorization": "Bearer t0ken"}, "with the line's end that a file gave it"),
    ("Basic dXNlcjpw", {"authorization": "Basic dXNlcjpw"}, "a scheme and its value"),
    ("X-Api-Key: t0ken", {"x-api-key": "t0ken"}, "a header of its own"),
    ("Authorization: Token token=a, b", {"authorization": "Token token=a, b"}, "likewise"),
    ("user:password", {"authorization": "Bearer user:password"}, "a colon alone names no header"),
]


@pytest.mark.parametrize(("value", "headers", "why"), SENT)
def test_how_it_is_sent(value: str, headers: dict[str, str], why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert headers_for("secret:helpdesk", secrets={"helpdesk": value}) == headers, why
    monkeypatch.setenv("HELPDESK_TOKEN", value)
    assert headers_for("env:HELPDESK_TOKEN", secrets={}) == headers, why


def test_without_a_reference_nothing_is_sent() -> None:
    assert headers_for(None, secrets={"helpdesk": "t0ken"}) == {}
    with pytest.raises(CredentialMissing):
        secret(None, secrets={})


MISSING = [
    ("env:NOT_SET_ANYWHERE", "env:NOT_SET_ANYWHERE is not set where the worker runs.", "no variable"),
    ("secret:nowhere", "secret:nowhere is not kept as a secret of this workspace.", "no secret"),
    ("secret:empty", "secret:empty is not kept", "an empty one"),
    ("secret:lines", "holds characters that cannot be sent", "one that hides a second header"),
]


@pytest.mark.parametrize(("reference", "says", "why"), MISSING)
def test_what_is_missing_is_named_and_never_shown(reference: str, says: str, why: str) -> None:
    with pytest.raises(CredentialMissing) as refused:
        headers_for(reference, secrets={"empty": " ", "lines": "hunter2\r\nX-Admin: yes"})
    assert says in str(refused.value), why
    assert "hunter2" not in str(refused.value)


def test_an_environment_variable_is_no_secret_of_a_workspace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("helpdesk", "t0ken")
    with pytest.raises(CredentialMissing):
        secret("secret:helpdesk", secrets={})
