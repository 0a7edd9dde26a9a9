"""Credentials by reference: the contract names where one stands, and only the asking process reads it."""

import os


class CredentialMissing(LookupError):
    """The environment of the worker holds nothing under this name. Set it there and start the worker again."""


def authorization(reference: str | None) -> str | None:
    """The Authorization value behind `env:NAME`; a bare token is sent as a bearer token. None for no reference.

    Raises:
        CredentialMissing: with the reference.
    """
    if reference is None:
        return None
    value = os.environ.get(reference.removeprefix("env:"), "").strip()
    if not value:
        raise CredentialMissing(reference)
    return value if " " in value else f"Bearer {value}"
