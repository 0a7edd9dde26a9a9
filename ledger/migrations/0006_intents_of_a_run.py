"""A run's operations are also found by their intent: a step's repeats of one call are counted."""

from django.db import migrations

FOUND_BY_INTENT = """
DROP INDEX operation_of_a_run;
CREATE INDEX operation_of_a_run ON operation (workspace_id, (agent->>'run'), identity_digest)
  WHERE agent->>'run' IS NOT NULL;
"""


class Migration(migrations.Migration):
    dependencies = [("ledger", "0005_finding_out")]

    operations = [migrations.RunSQL(FOUND_BY_INTENT, reverse_sql=migrations.RunSQL.noop)]
