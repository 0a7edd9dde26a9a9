"""The ledger: what is true and what is allowed."""

from pathlib import Path
from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate

SQL = Path(__file__).parent / "sql"


class LedgerConfig(AppConfig):
    name = "ledger"
    default_auto_field = "django.db.models.BigAutoField"
    verbose_name = "Ledger"

    def ready(self) -> None:
        post_migrate.connect(grant_roles, sender=self)


def grant_roles(*, using: str, **_: Any) -> None:
    """After every `migrate`, say again what each database role may do: one readable file, idempotent."""
    from django.db import connections

    with connections[using].cursor() as cursor:
        cursor.execute((SQL / "grants.sql").read_text())
