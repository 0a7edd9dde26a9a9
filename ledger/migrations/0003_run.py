"""Runs of agents with a budget of their own, and the way to the operations of a run."""

import django.db.models.deletion
from django.db import migrations, models

KEEPS_ITS_BUDGET = """
CREATE FUNCTION a_run_keeps_its_budget() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (NEW.id, NEW.workspace_id, NEW.name, NEW.max_dispatches, NEW.deadline_ms, NEW.deadline_at, NEW.questions, NEW.created_at)
     IS DISTINCT FROM (OLD.id, OLD.workspace_id, OLD.name, OLD.max_dispatches, OLD.deadline_ms, OLD.deadline_at, OLD.questions, OLD.created_at)
     OR NEW.dispatches < OLD.dispatches OR (OLD.latest_end IS NOT NULL AND NEW.latest_end IS DISTINCT FROM greatest(OLD.latest_end, NEW.latest_end)) THEN
    RAISE EXCEPTION 'the budget of run % never changes', OLD.id
      USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'a_run_keeps_its_budget';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER a_run_keeps_its_budget BEFORE UPDATE ON run FOR EACH ROW EXECUTE FUNCTION a_run_keeps_its_budget();
"""

OPERATIONS_OF_A_RUN = """
CREATE INDEX operation_of_a_run ON operation (workspace_id, (agent->>'run')) WHERE agent->>'run' IS NOT NULL;
"""


class Migration(migrations.Migration):
    dependencies = [("ledger", "0002_laws")]

    operations = [
        migrations.CreateModel(
            name="Run",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=200)),
                ("max_dispatches", models.IntegerField(null=True)),
                ("deadline_ms", models.BigIntegerField(null=True)),
                ("deadline_at", models.DateTimeField(null=True)),
                ("questions", models.JSONField(default=list)),
                ("dispatches", models.IntegerField(default=0)),
                ("latest_end", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField()),
                (
                    "workspace",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to="ledger.workspace"),
                ),
            ],
            options={
                "db_table": "run",
                "constraints": [
                    models.UniqueConstraint(fields=("workspace", "name"), name="a_run_has_one_name_in_its_workspace"),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("max_dispatches__isnull", True),
                            ("dispatches__lte", models.F("max_dispatches")),
                            _connector="OR",
                        ),
                        name="a_runs_dispatches_stay_within_its_budget",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("deadline_at__isnull", True),
                            ("latest_end__isnull", True),
                            ("latest_end__lte", models.F("deadline_at")),
                            _connector="OR",
                        ),
                        name="a_run_sends_nothing_after_its_deadline",
                    ),
                ],
            },
        ),
        migrations.RunSQL(KEEPS_ITS_BUDGET, reverse_sql=migrations.RunSQL.noop),
        migrations.RunSQL(OPERATIONS_OF_A_RUN, reverse_sql="DROP INDEX operation_of_a_run"),
    ]
