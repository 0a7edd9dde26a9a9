"""Narrow indexes for what people look for: what is due, waits for a signature, came out in part or differs, is labelled."""

from django.db import migrations

NARROW = """
CREATE INDEX operation_due ON operation (workspace_id, sla_at) WHERE state <> 'settled' AND sla_at IS NOT NULL;
CREATE INDEX operation_awaits_signature ON operation (workspace_id) WHERE awaits_signature_id IS NOT NULL;
CREATE INDEX operation_in_part ON operation (workspace_id, created_at, id) WHERE effect = 'partial';
CREATE INDEX operation_check_failed ON operation (workspace_id, created_at, id)
  WHERE verification IN ('failed', 'unavailable');
CREATE INDEX note_mentions ON note USING gin (mentions jsonb_path_ops);
CREATE INDEX desk_labels ON desk USING gin (labels jsonb_path_ops);
"""
DROPPED = """
DROP INDEX operation_due, operation_awaits_signature, operation_in_part, operation_check_failed, note_mentions, desk_labels;
"""


class Migration(migrations.Migration):
    dependencies = [("ledger", "0007_the_desk")]

    operations = [migrations.RunSQL(NARROW, reverse_sql=DROPPED)]
