"""What people do with operations while they work on them: claims, snoozes, notes, views, jobs in bulk."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

KEPT = """
CREATE TRIGGER note_is_append_only BEFORE UPDATE OR DELETE ON note FOR EACH ROW EXECUTE FUNCTION is_append_only();
CREATE TRIGGER note_is_never_truncated BEFORE TRUNCATE ON note FOR EACH STATEMENT EXECUTE FUNCTION is_append_only();
CREATE TRIGGER desk_entry_is_append_only BEFORE UPDATE OR DELETE ON desk_entry FOR EACH ROW EXECUTE FUNCTION is_append_only();
CREATE TRIGGER desk_entry_is_never_truncated BEFORE TRUNCATE ON desk_entry FOR EACH STATEMENT EXECUTE FUNCTION is_append_only();
CREATE TRIGGER bulk_member_is_never_deleted BEFORE DELETE ON bulk_member FOR EACH ROW EXECUTE FUNCTION is_append_only();
CREATE TRIGGER bulk_job_is_never_deleted BEFORE DELETE ON bulk_job FOR EACH ROW EXECUTE FUNCTION is_append_only();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0006_intents_of_a_run"),
    ]

    operations = [
        migrations.CreateModel(
            name="BulkJob",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("verb", models.CharField(max_length=24)),
                ("reason", models.TextField(default="")),
                ("evidence_url", models.CharField(default="", max_length=2000)),
                ("options", models.JSONField(default=dict)),
                ("query", models.CharField(max_length=400)),
                ("set_digest", models.BinaryField()),
                ("total", models.PositiveIntegerField()),
                ("per_second", models.FloatField(default=20)),
                ("state", models.CharField(max_length=12)),
                ("done", models.PositiveIntegerField(default=0)),
                ("skipped", models.PositiveIntegerField(default=0)),
                ("failed", models.PositiveIntegerField(default=0)),
                ("created_at", models.DateTimeField()),
                ("claimed_until", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
            ],
            options={
                "db_table": "bulk_job",
            },
        ),
        migrations.CreateModel(
            name="BulkMember",
            fields=[
                (
                    "operation",
                    models.ForeignKey(
                        db_column="operation",
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="ledger.operation",
                    ),
                ),
                (
                    "job",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="members",
                        to="ledger.bulkjob",
                    ),
                ),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "job", "number", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("number", models.PositiveIntegerField()),
                ("version_seen", models.PositiveIntegerField()),
                ("result", models.CharField(default="", max_length=10)),
                ("because", models.CharField(default="", max_length=400)),
                ("at", models.DateTimeField(null=True)),
            ],
            options={
                "db_table": "bulk_member",
            },
        ),
        migrations.CreateModel(
            name="CauseDesk",
            fields=[
                (
                    "tool",
                    models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to="ledger.tool"),
                ),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tool", "cause", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("cause", models.CharField(max_length=160)),
                ("held_until", models.DateTimeField(null=True)),
                ("snoozed_until", models.DateTimeField(null=True)),
                ("wakes_on", models.CharField(default="", max_length=20)),
                ("changed_at", models.DateTimeField()),
            ],
            options={
                "db_table": "cause_desk",
            },
        ),
        migrations.CreateModel(
            name="Desk",
            fields=[
                (
                    "operation",
                    models.OneToOneField(
                        db_column="operation",
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="desk",
                        serialize=False,
                        to="ledger.operation",
                    ),
                ),
                ("held_until", models.DateTimeField(null=True)),
                ("snoozed_until", models.DateTimeField(null=True)),
                ("wakes_on", models.CharField(default="", max_length=20)),
                ("woken_at", models.DateTimeField(null=True)),
                ("labels", models.JSONField(default=list)),
                ("changed_at", models.DateTimeField()),
            ],
            options={
                "db_table": "desk",
            },
        ),
        migrations.CreateModel(
            name="DeskEntry",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("verb", models.CharField(max_length=24)),
                ("cause", models.CharField(default="", max_length=160)),
                ("before", models.JSONField(null=True)),
                ("after", models.JSONField(null=True)),
                ("at", models.DateTimeField()),
            ],
            options={
                "db_table": "desk_entry",
            },
        ),
        migrations.CreateModel(
            name="Note",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("cause", models.CharField(default="", max_length=160)),
                ("text", models.TextField()),
                ("mentions", models.JSONField(default=list)),
                ("at", models.DateTimeField()),
            ],
            options={
                "db_table": "note",
            },
        ),
        migrations.CreateModel(
            name="Preference",
            fields=[
                (
                    "person",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("zone", models.CharField(default="", max_length=64)),
                ("density", models.CharField(default="normal", max_length=8)),
                ("theme", models.CharField(default="system", max_length=8)),
                ("single_keys", models.BooleanField(default=True)),
            ],
            options={
                "db_table": "preference",
            },
        ),
        migrations.CreateModel(
            name="Presence",
            fields=[
                (
                    "person",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "operation",
                    models.ForeignKey(
                        db_column="operation",
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="ledger.operation",
                    ),
                ),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "operation", "person", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("seen_at", models.DateTimeField()),
            ],
            options={
                "db_table": "presence",
            },
        ),
        migrations.CreateModel(
            name="SavedView",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=60)),
                ("query", models.CharField(max_length=400)),
                ("grouping", models.CharField(default="", max_length=8)),
                ("created_at", models.DateTimeField()),
            ],
            options={
                "db_table": "saved_view",
            },
        ),
        migrations.RemoveConstraint(
            model_name="attestation",
            name="attestation_answer_is_a_known_word",
        ),
        migrations.AddField(
            model_name="operation",
            name="cause",
            field=models.CharField(db_default="", default="", max_length=160),
        ),
        migrations.AddIndex(
            model_name="operation",
            index=models.Index(
                condition=models.Q(("state", "settled"), _negated=True),
                fields=["workspace", "tool", "cause"],
                name="operation_open_by_cause",
            ),
        ),
        migrations.AddConstraint(
            model_name="attestation",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "answer__in",
                        [
                            "applied",
                            "not_applied",
                            "partially_applied",
                            "cannot_tell",
                            "distinct_intent",
                            "written_off",
                            "accept_duplicate_risk",
                        ],
                    )
                ),
                name="attestation_answer_is_a_known_word",
            ),
        ),
        migrations.AddField(
            model_name="bulkjob",
            name="person",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="bulkjob",
            name="workspace",
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to="ledger.workspace"),
        ),
        migrations.AddField(
            model_name="causedesk",
            name="holder",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="causedesk",
            name="workspace",
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to="ledger.workspace"),
        ),
        migrations.AddField(
            model_name="desk",
            name="holder",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="desk",
            name="workspace",
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to="ledger.workspace"),
        ),
        migrations.AddField(
            model_name="deskentry",
            name="operation",
            field=models.ForeignKey(
                db_column="operation",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="ledger.operation",
            ),
        ),
        migrations.AddField(
            model_name="deskentry",
            name="person",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="deskentry",
            name="tool",
            field=models.ForeignKey(
                db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, to="ledger.tool"
            ),
        ),
        migrations.AddField(
            model_name="deskentry",
            name="undoes",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="ledger.deskentry",
            ),
        ),
        migrations.AddConstraint(
            model_name="deskentry",
            constraint=models.UniqueConstraint(fields=("undoes",), name="an_act_is_undone_once"),
        ),
        migrations.AddField(
            model_name="deskentry",
            name="workspace",
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to="ledger.workspace"),
        ),
        migrations.AddField(
            model_name="note",
            name="author",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="note",
            name="operation",
            field=models.ForeignKey(
                db_column="operation",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="notes",
                to="ledger.operation",
            ),
        ),
        migrations.AddField(
            model_name="note",
            name="tool",
            field=models.ForeignKey(
                db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, to="ledger.tool"
            ),
        ),
        migrations.AddField(
            model_name="note",
            name="workspace",
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to="ledger.workspace"),
        ),
        migrations.AddField(
            model_name="savedview",
            name="person",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="savedview",
            name="workspace",
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="ledger.workspace"),
        ),
        migrations.AddIndex(
            model_name="bulkjob",
            index=models.Index(fields=["workspace", "created_at"], name="bulk_job_of_workspace"),
        ),
        migrations.AddIndex(
            model_name="bulkjob",
            index=models.Index(
                condition=models.Q(("state__in", ["waiting", "running"])),
                fields=["created_at"],
                name="bulk_job_unfinished",
            ),
        ),
        migrations.AddConstraint(
            model_name="bulkjob",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["waiting", "running", "stopped", "finished"])),
                name="a_job_is_in_a_known_state",
            ),
        ),
        migrations.AddIndex(
            model_name="bulkmember",
            index=models.Index(condition=models.Q(("result", "")), fields=["job", "number"], name="bulk_member_left"),
        ),
        migrations.AddConstraint(
            model_name="bulkmember",
            constraint=models.CheckConstraint(
                condition=models.Q(("result__in", ["", "done", "skipped", "failed"])),
                name="a_members_result_is_a_known_word",
            ),
        ),
        migrations.AddIndex(
            model_name="desk",
            index=models.Index(
                condition=models.Q(("holder__isnull", False)),
                fields=["workspace", "holder", "held_until"],
                name="desk_held",
            ),
        ),
        migrations.AddIndex(
            model_name="desk",
            index=models.Index(
                condition=models.Q(("snoozed_until__isnull", False)), fields=["snoozed_until"], name="desk_snoozed"
            ),
        ),
        migrations.AddIndex(
            model_name="desk",
            index=models.Index(
                condition=models.Q(("woken_at__isnull", False)), fields=["workspace", "woken_at"], name="desk_woken"
            ),
        ),
        migrations.AddConstraint(
            model_name="desk",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("held_until__isnull", True), ("holder__isnull", True)),
                    models.Q(("held_until__isnull", False), ("holder__isnull", False)),
                    _connector="OR",
                ),
                name="a_claim_has_a_holder_and_an_end",
            ),
        ),
        migrations.AddConstraint(
            model_name="desk",
            constraint=models.CheckConstraint(
                condition=models.Q(("wakes_on__in", ["", "evidence", "owner_back", "state_change"])),
                name="a_snooze_wakes_on_a_known_word",
            ),
        ),
        migrations.AddConstraint(
            model_name="desk",
            constraint=models.CheckConstraint(
                condition=models.Q(("wakes_on", ""), ("snoozed_until__isnull", False), _connector="OR"),
                name="a_wake_rule_has_a_snooze",
            ),
        ),
        migrations.AddIndex(
            model_name="deskentry",
            index=models.Index(fields=["workspace", "person", "at"], name="desk_entry_of_person"),
        ),
        migrations.AddIndex(
            model_name="note",
            index=models.Index(
                condition=models.Q(("tool__isnull", False)), fields=["tool", "cause", "at"], name="note_of_cause"
            ),
        ),
        migrations.AddConstraint(
            model_name="note",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("cause", ""), ("operation__isnull", False), ("tool__isnull", True)),
                    models.Q(("operation__isnull", True), ("tool__isnull", False)),
                    _connector="OR",
                ),
                name="a_note_is_of_an_operation_or_of_a_group",
            ),
        ),
        migrations.AddConstraint(
            model_name="note",
            constraint=models.CheckConstraint(
                condition=models.Q(("text", ""), _negated=True), name="a_note_says_something"
            ),
        ),
        migrations.AddConstraint(
            model_name="savedview",
            constraint=models.UniqueConstraint(
                fields=("workspace", "person", "name"),
                name="a_view_has_one_name_among_its_persons",
                nulls_distinct=False,
            ),
        ),
        migrations.AddConstraint(
            model_name="savedview",
            constraint=models.CheckConstraint(
                condition=models.Q(("grouping__in", ["", "cause", "owner"])), name="a_view_groups_by_a_known_word"
            ),
        ),
        migrations.RunSQL(KEPT, reverse_sql=migrations.RunSQL.noop),
    ]
