"""What is kept encrypted in the database: credentials, addresses that hold passwords, signing secrets.

| key in ASCERTAIN_FIELD_KEYS | used for                                                    |
| --------------------------- | ----------------------------------------------------------- |
| the first                   | everything that is sealed from now on                       |
| the others                  | reading what was sealed before, until `manage.py secrets rotate` has ended |

A key is 32 random bytes as Fernet writes them (`manage.py secrets new-key` prints one). Sealed values and keys are
never logged; what is unsealed lives only as long as the question that needs it.
"""

import hashlib
import hmac
from functools import lru_cache
from typing import Final

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings

HOW_TO_SET: Final = (
    "Set ASCERTAIN_FIELD_KEYS to a key that `manage.py secrets new-key` prints, the same for web, worker and commands, "
    "and keep a copy of it elsewhere: without it what is sealed is lost."
)


class FieldKeysMissing(RuntimeError):
    """No key is set, or one that is no key. Nothing was sealed or read; set ASCERTAIN_FIELD_KEYS."""


class SealBroken(ValueError):
    """No key that is set opens this. Put the key that it was sealed with back at the end of ASCERTAIN_FIELD_KEYS."""


def seal(text: str) -> bytes:
    """`text`, encrypted with the newest key.

    Raises:
        FieldKeysMissing: there is no key.
    """
    return _keys(settings.ASCERTAIN_FIELD_KEYS)[0].encrypt(text.encode())


def unseal(sealed: bytes) -> str:
    """What was sealed, with whichever key that was.

    Raises:
        FieldKeysMissing: there is no key.
        SealBroken: none of them opens it.
    """
    try:
        return MultiFernet(_keys(settings.ASCERTAIN_FIELD_KEYS)).decrypt(bytes(sealed)).decode()
    except InvalidToken:
        raise SealBroken("None of the keys in ASCERTAIN_FIELD_KEYS opens what is kept here.") from None


def sealed_anew(sealed: bytes) -> bytes | None:
    """The same under the newest key; None when it is already.

    Raises:
        FieldKeysMissing: there is no key.
        SealBroken: none of them opens it.
    """
    try:
        _keys(settings.ASCERTAIN_FIELD_KEYS)[0].decrypt(bytes(sealed))
    except InvalidToken:
        return seal(unseal(sealed))
    return None


def fingerprint(*parts: str) -> bytes:
    """A keyed digest by which two values can be told apart, and from which nobody without the keys can try values.

    Made with the oldest key, so that it stays the same while a newer one is being introduced; where there is none, with
    the key that signs sessions.
    """
    base = _texts(settings.ASCERTAIN_FIELD_KEYS)[-1] if settings.ASCERTAIN_FIELD_KEYS else settings.SECRET_KEY
    key = hashlib.sha256(f"ascertain fingerprint {base}".encode()).digest()
    told = b"".join(len(part.encode()).to_bytes(4, "big") + part.encode() for part in parts)
    return hmac.new(key, told, hashlib.sha256).digest()


def new_key() -> str:
    """A fresh key for ASCERTAIN_FIELD_KEYS."""
    return Fernet.generate_key().decode()


def _texts(text: str) -> tuple[str, ...]:
    texts = tuple(part.strip() for part in text.split(",") if part.strip())
    if not texts:
        raise FieldKeysMissing(f"There is no key to keep secrets with. {HOW_TO_SET}")
    return texts


@lru_cache(maxsize=4)
def _keys(text: str) -> tuple[Fernet, ...]:
    try:
        return tuple(Fernet(part) for part in _texts(text))
    except ValueError:
        raise FieldKeysMissing(f"ASCERTAIN_FIELD_KEYS holds something that is no key. {HOW_TO_SET}") from None
