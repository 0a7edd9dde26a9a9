"""Is this message signed with a secret of ours, and lately? How is one of ours signed?

Standard Webhooks (https://www.standardwebhooks.com): the signature is HMAC-SHA256 over `id.timestamp.body`, in base64
behind `v1,`; a header may hold several, parted by spaces, while a secret is being changed. A secret is `whsec_` and base64.

| the message                                       | is        |
| ------------------------------------------------- | --------- |
| lacks one of the three headers, or has one unreadable | refused |
| was sent over five minutes ago, or from then on   | refused   |
| carries no `v1` signature by an accepted secret   | refused   |
| anything else                                     | accepted  |
"""

import base64
import binascii
import hashlib
import hmac
import re
import secrets as randomness
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

PREFIX: Final = "whsec_"
TOLERANCE: Final = timedelta(minutes=5)
NOBODYS: Final = PREFIX + base64.b64encode(bytes(32)).decode()
"""A secret that signs nothing: verified against where there is no endpoint, so that both take the same time."""
_SECRET: Final = re.compile(r"(?:whsec_)?([A-Za-z0-9+/]{22,128}={0,2})", re.ASCII)
_ID: Final = re.compile(r"[!-~]{1,200}", re.ASCII)
_MOST_SIGNATURES: Final = 10


def new_secret() -> str:
    """A new signing secret of 32 random bytes."""
    return PREFIX + base64.b64encode(randomness.token_bytes(32)).decode()


def is_secret(text: str) -> bool:
    """Whether a text can sign: `whsec_` and base64 of at least 16 bytes."""
    return len(_key(text)) >= 16


def signed(*, secret: str, message_id: str, at: datetime, body: bytes) -> dict[str, str]:
    """The three headers of a message of ours."""
    timestamp = str(int(at.timestamp()))
    return {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": "v1," + base64.b64encode(_mac(secret, message_id, timestamp, body)).decode(),
    }


def verified(*, secrets: Sequence[str], headers: Mapping[str, str], body: bytes, now: datetime) -> str | None:
    """The message's id when it is accepted, else None. `headers` by lower-case name. Every secret and signature is
    compared, in constant time, whatever the ones before came to."""
    message_id = headers.get("webhook-id", "")
    timestamp = headers.get("webhook-timestamp", "")
    stated = headers.get("webhook-signature", "").split(" ")[:_MOST_SIGNATURES]
    signatures = [_decoded(text.removeprefix("v1,")) for text in stated if text.startswith("v1,")]
    fits = False
    for secret in secrets:
        mac = _mac(secret, message_id, timestamp, body)
        for signature in signatures:
            fits |= hmac.compare_digest(mac, signature)
    readable = _ID.fullmatch(message_id) is not None and _recent(timestamp, now)
    return message_id if fits and readable else None


def _recent(timestamp: str, now: datetime) -> bool:
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12):
        return False
    return abs(now.timestamp() - int(timestamp)) <= TOLERANCE.total_seconds()


def _mac(secret: str, message_id: str, timestamp: str, body: bytes) -> bytes:
    text = f"{message_id}.{timestamp}.".encode("utf-8", "replace") + body
    return hmac.new(_key(secret), text, hashlib.sha256).digest()


def _key(secret: str) -> bytes:
    found = _SECRET.fullmatch(secret)
    return _decoded(found[1]) if found is not None else b""


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""
