"""Credentials by reference: the contract names where one stands, and only the asking process reads it.

| the value                          | is sent as                            |
| ---------------------------------- | ------------------------------------- |
| `X-Api-Key: 4f…` (a name, a colon, a space) | that header                  |
| `Basic dXNlcjpw…` (two words)      | `Authorization: Basic dXNlcjpw…`      |
| `4f…` (one word)                   | `Authorization: Bearer 4f…`           |
"""

import os
import re
from collections.abc import Mapping

_HEADER = re.compile(r"([A-Za-z0-9!#$%&'*+.^_`|~-]+):[ \t]+(\S.*)")


class CredentialMissing(LookupError):
    """There is no usable value under this reference. Set it where the message says; the next question reads it anew."""


def secret(reference: str | None, *, secrets: Mapping[str, str]) -> str:
    """The value behind `env:NAME` or `secret:name`; `secrets` holds the latter by their names.

    Raises:
        CredentialMissing: no reference, no value, or one that cannot stand on a line.
    """
    if reference is None:
        raise CredentialMissing("The contract names no credential (`as`).")
    kind, _, name = reference.partition(":")
    value = (os.environ.get(name, "") if kind == "env" else secrets.get(name, "")).strip()
    if not value:
        where = "set where the worker runs" if kind == "env" else "kept as a secret of this workspace"
        raise CredentialMissing(f"The credential {reference} is not {where}.")
    if not value.isprintable():
        raise CredentialMissing(f"The credential {reference} holds characters that cannot be sent.")
    return value


def headers_for(reference: str | None, *, secrets: Mapping[str, str]) -> dict[str, str]:
    """The header that carries a credential; none for no reference.

    Raises:
        CredentialMissing: as `secret`.
    """
    if reference is None:
        return {}
    value = secret(reference, secrets=secrets)
    if (named := _HEADER.fullmatch(value)) is not None:
        return {named[1].lower(): named[2]}
    return {"authorization": value if " " in value else f"Bearer {value}"}
