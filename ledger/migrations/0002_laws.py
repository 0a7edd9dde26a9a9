"""The laws that the database itself keeps: append-only history, hash chain, walls between workspaces."""

from pathlib import Path

from django.db import migrations

LAWS = Path(__file__).parent.parent / "sql" / "laws.sql"


class Migration(migrations.Migration):
    dependencies = [("ledger", "0001_initial")]

    operations = [migrations.RunSQL(LAWS.read_text(), reverse_sql=migrations.RunSQL.noop)]
