"""Our signatures against the reference library, in both directions, and what is never accepted."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook

from ledger.rules.signatures import NOBODYS, is_secret, new_secret, signed, verified

NOW = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)


@given(
    body=st.text().map(str.encode),
    id=st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=200),
)
def test_both_sides_agree(body: bytes, id: str) -> None:
    secret = new_secret()
    theirs = Webhook(secret).sign(id, NOW, body.decode())
    headers = signed(secret=secret, message_id=id, at=NOW, body=body)
    assert headers["webhook-signature"] == theirs
    assert verified(secrets=[secret], headers=headers, body=body, now=NOW) == id
    assert verified(secrets=[new_secret()], headers=headers, body=body, now=NOW) is None
    assert verified(secrets=[secret], headers=headers, body=body + b" ", now=NOW) is None


@pytest.mark.parametrize(
    ("seconds", "accepted", "why"),
    [
        (0, True, "just now"),
        (300, True, "five minutes ago"),
        (-300, True, "a clock that is ahead"),
        (301, False, "too old: it may be a replay"),
        (-301, False, "from the future"),
    ],
)
def test_how_old_a_message_may_be(seconds: int, accepted: bool, why: str) -> None:
    secret = new_secret()
    headers = signed(secret=secret, message_id="m", at=NOW - timedelta(seconds=seconds), body=b"{}")
    assert (verified(secrets=[secret], headers=headers, body=b"{}", now=NOW) == "m") is accepted, why


@pytest.mark.parametrize(
    ("text", "is_one", "why"),
    [
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", True, "as the specification shows it"),
        ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", True, "without its prefix"),
        (NOBODYS, True, "the one that signs nothing is shaped alike"),
        ("whsec_short", False, "under 16 bytes"),
        ("whsec_" + "x" * 40 + "!", False, "no base64"),
        ("", False, "nothing"),
    ],
)
def test_what_can_sign(text: str, is_one: bool, why: str) -> None:
    assert is_secret(text) is is_one, why


@given(headers=st.dictionaries(st.sampled_from(["webhook-id", "webhook-timestamp", "webhook-signature"]), st.text()))
def test_nothing_that_was_not_signed_is_accepted(headers: dict[str, str]) -> None:
    assert verified(secrets=[new_secret(), NOBODYS], headers=headers, body=b"{}", now=NOW) is None
