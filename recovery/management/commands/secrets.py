"""Credentials that contracts call `secret:name`: `manage.py secrets set|list|remove|rotate|new-key`."""

import getpass
import sys
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ledger.queries.clock import database_now
from ledger.queries.secrets import secrets_of
from ledger.queries.workspaces import workspace_by_slug
from ledger.transitions.secrets import remove_secret, seal_anew, set_secret
from recovery.sealing import FieldKeysMissing, SealBroken, new_key, seal, sealed_anew

LONGEST = 8000
"""Characters of a value."""


class Command(BaseCommand):
    help = (
        "Keep credentials here, encrypted. `set` reads the value from standard input, never from the command line. "
        "`rotate` encrypts everything that is kept with the first key of ASCERTAIN_FIELD_KEYS; it may be interrupted and "
        "run again, beside running workers."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """What to do, and with which."""
        verbs = parser.add_subparsers(dest="verb", required=True)
        kept = verbs.add_parser("set", help="keep a value under a name; read from standard input")
        kept.add_argument("--workspace", required=True)
        kept.add_argument("name")
        kept.add_argument("--expires", help="when the owner stops to accept it, as 2027-01-31 or with a time")
        listed = verbs.add_parser("list", help="names and dates, never values")
        listed.add_argument("--workspace", required=True)
        removed = verbs.add_parser("remove", help="forget one")
        removed.add_argument("--workspace", required=True)
        removed.add_argument("name")
        verbs.add_parser("rotate", help="encrypt all that is kept with the newest key")
        verbs.add_parser("new-key", help="print a key for ASCERTAIN_FIELD_KEYS")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002 (Django's signature)
        """Do one thing."""
        try:
            getattr(self, f"_{options['verb'].replace('-', '_')}")(**options)
        except (FieldKeysMissing, SealBroken) as error:
            raise CommandError(f"{error} Nothing was changed by this step.") from None

    def _set(self, *, workspace: str, name: str, expires: str | None, **_: Any) -> None:
        if not name or len(name) > 100 or not all(c.isalnum() or c in "._-" for c in name):
            raise CommandError("A name has up to 100 letters, digits, dots, dashes and underscores. Nothing was kept.")
        value = (getpass.getpass("Value: ") if sys.stdin.isatty() else sys.stdin.read()).strip("\r\n")
        if not value or len(value) > LONGEST or not value.isprintable():
            raise CommandError(f"A value is one line of 1 to {LONGEST} characters. Nothing was kept.")
        new = set_secret(
            workspace_id=self._workspace(workspace), name=name, sealed=seal(value), expires_at=_moment(expires)
        )
        self.stdout.write(
            f"{'Kept' if new else 'Replaced'} secret:{name}. Workers ask with it from their next question on."
        )

    def _list(self, *, workspace: str, **_: Any) -> None:
        now = database_now()
        for kept in secrets_of(workspace_id=self._workspace(workspace)):
            until = ""
            if kept.expires_at is not None:
                until = f"  {'expired' if kept.expires_at <= now else 'expires'} {kept.expires_at:%Y-%m-%d %H:%M} UTC"
            self.stdout.write(f"secret:{kept.name}  changed {kept.changed_at:%Y-%m-%d %H:%M} UTC{until}")

    def _remove(self, *, workspace: str, name: str, **_: Any) -> None:
        if not remove_secret(workspace_id=self._workspace(workspace), name=name):
            raise CommandError(f"There is no secret:{name} in this workspace. Nothing was changed.")
        self.stdout.write(f"Forgot secret:{name}. Lookups that need it fail from now on and say so.")

    def _rotate(self, **_: Any) -> None:
        broken = 0

        def anew(sealed: bytes) -> bytes | None:
            nonlocal broken
            try:
                return sealed_anew(sealed)
            except SealBroken:
                broken += 1
                return None

        for column, (changed, found) in seal_anew(anew=anew).items():
            self.stdout.write(f"{column}: {changed} of {found} sealed anew")
        if broken:
            raise CommandError(
                f"{broken} values are opened by no key of ASCERTAIN_FIELD_KEYS and stay as they are; all others are sealed "
                "with the first. Put the key that is missing back at the end and run this again, or set those values anew."
            )
        self.stdout.write(
            "Everything is sealed with the first key now; the others may be taken out of ASCERTAIN_FIELD_KEYS."
        )

    def _new_key(self, **_: Any) -> None:
        self.stdout.write(new_key())

    def _workspace(self, slug: str) -> Any:
        found = workspace_by_slug(slug=slug)
        if found is None:
            raise CommandError(f"There is no workspace {slug}. Nothing was changed.")
        return found


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise CommandError(f"{text} is no date such as 2027-01-31. Nothing was kept.") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
