"""Items of batches, owners' limits and circuits, credentials kept here, events and their deliveries, notices received."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models

ITEMS_BELONG = """
ALTER TABLE item_attempt ADD CONSTRAINT an_items_attempt_is_its_operations
  FOREIGN KEY (operation, attempt) REFERENCES attempt (operation, number);
ALTER TABLE item_attempt ADD CONSTRAINT an_attempts_item_is_its_operations
  FOREIGN KEY (operation, number) REFERENCES item (operation, number);
CREATE TRIGGER item_is_never_deleted BEFORE DELETE ON item FOR EACH ROW EXECUTE FUNCTION is_append_only();
CREATE TRIGGER item_is_never_truncated BEFORE TRUNCATE ON item FOR EACH STATEMENT EXECUTE FUNCTION is_append_only();
CREATE TRIGGER item_attempt_is_never_deleted BEFORE DELETE ON item_attempt FOR EACH ROW EXECUTE FUNCTION is_append_only();
CREATE TRIGGER item_attempt_is_never_truncated BEFORE TRUNCATE ON item_attempt FOR EACH STATEMENT EXECUTE FUNCTION is_append_only();
CREATE FUNCTION an_item_keeps_its_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (NEW.operation, NEW.number, NEW.key) IS DISTINCT FROM (OLD.operation, OLD.number, OLD.key) THEN
    RAISE EXCEPTION 'item % of % keeps its key', OLD.number, OLD.operation
      USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'an_item_keeps_its_key';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER an_item_keeps_its_key BEFORE UPDATE ON item FOR EACH ROW EXECUTE FUNCTION an_item_keeps_its_key();
CREATE TRIGGER event_is_never_deleted BEFORE DELETE ON event FOR EACH ROW EXECUTE FUNCTION is_append_only();
CREATE TRIGGER event_is_never_truncated BEFORE TRUNCATE ON event FOR EACH STATEMENT EXECUTE FUNCTION is_append_only();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0004_indexes_that_serve_a_query"),
    ]

    operations = [
        migrations.CreateModel(
            name="CredentialLatch",
            fields=[
                (
                    "owner",
                    models.ForeignKey(
                        db_column="owner",
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="ledger.owner",
                    ),
                ),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "owner", "reference", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("reference", models.CharField(max_length=200)),
                ("fingerprint", models.BinaryField()),
                ("since", models.DateTimeField()),
                ("reason", models.CharField(default="", max_length=400)),
                ("tries_again_at", models.DateTimeField()),
            ],
            options={
                "db_table": "credential_latch",
            },
        ),
        migrations.CreateModel(
            name="Delivery",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("tries", models.PositiveSmallIntegerField(default=0)),
                ("next_try_at", models.DateTimeField(null=True)),
                ("claimed_until", models.DateTimeField(null=True)),
                ("delivered_at", models.DateTimeField(null=True)),
                ("given_up_at", models.DateTimeField(null=True)),
                ("log", models.JSONField(default=list)),
            ],
            options={
                "db_table": "delivery",
            },
        ),
        migrations.CreateModel(
            name="Destination",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=120)),
                ("kind", models.CharField(max_length=12)),
                ("sealed_address", models.BinaryField()),
                ("sealed_secret", models.BinaryField(null=True)),
                ("kinds", models.JSONField(default=list)),
                ("created_at", models.DateTimeField()),
                ("disabled_at", models.DateTimeField(null=True)),
            ],
            options={
                "db_table": "destination",
            },
        ),
        migrations.CreateModel(
            name="Event",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("seq", models.PositiveIntegerField(null=True)),
                ("kind", models.CharField(max_length=40)),
                ("payload", models.JSONField()),
                ("at", models.DateTimeField()),
                ("spread_at", models.DateTimeField(null=True)),
            ],
            options={
                "db_table": "event",
            },
        ),
        migrations.CreateModel(
            name="Item",
            fields=[
                (
                    "operation",
                    models.ForeignKey(
                        db_column="operation",
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="items",
                        to="ledger.operation",
                    ),
                ),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "operation", "number", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("number", models.PositiveSmallIntegerField()),
                ("key", models.CharField(max_length=200)),
                ("effect", models.CharField(max_length=24)),
                ("verification", models.CharField(max_length=24)),
                ("outcome", models.CharField(max_length=24, null=True)),
                ("failure_class", models.CharField(max_length=24, null=True)),
                ("code", models.CharField(default="", max_length=80)),
                ("licence", models.CharField(max_length=24, null=True)),
                ("decision", models.JSONField()),
                ("clean_reads", models.PositiveSmallIntegerField(default=0)),
                ("absence_since", models.DateTimeField(null=True)),
            ],
            options={
                "db_table": "item",
            },
        ),
        migrations.CreateModel(
            name="ItemAttempt",
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
                    "pk",
                    models.CompositePrimaryKey(
                        "operation", "attempt", "number", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("attempt", models.PositiveSmallIntegerField()),
                ("number", models.PositiveSmallIntegerField()),
                ("effect", models.CharField(max_length=24)),
                ("proof", models.CharField(max_length=24, null=True)),
                ("licence", models.CharField(max_length=24, null=True)),
            ],
            options={
                "db_table": "item_attempt",
            },
        ),
        migrations.CreateModel(
            name="NoticeEndpoint",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("sealed_secrets", models.BinaryField()),
                ("created_at", models.DateTimeField()),
                ("disabled_at", models.DateTimeField(null=True)),
            ],
            options={
                "db_table": "notice_endpoint",
            },
        ),
        migrations.CreateModel(
            name="Notice",
            fields=[
                (
                    "endpoint",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="notices",
                        to="ledger.noticeendpoint",
                    ),
                ),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "endpoint", "message_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("message_id", models.CharField(max_length=200)),
                ("received_at", models.DateTimeField()),
                ("came_to", models.CharField(max_length=40)),
            ],
            options={
                "db_table": "notice",
            },
        ),
        migrations.CreateModel(
            name="OwnerSlot",
            fields=[
                (
                    "owner",
                    models.ForeignKey(
                        db_column="owner",
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="ledger.owner",
                    ),
                ),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "owner", "number", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("number", models.PositiveSmallIntegerField()),
                ("held_until", models.DateTimeField()),
            ],
            options={
                "db_table": "owner_slot",
            },
        ),
        migrations.CreateModel(
            name="OwnerState",
            fields=[
                (
                    "owner",
                    models.OneToOneField(
                        db_column="owner",
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        serialize=False,
                        to="ledger.owner",
                    ),
                ),
                ("circuit", models.CharField(default="closed", max_length=12)),
                ("failures", models.PositiveIntegerField(default=0)),
                ("opened_at", models.DateTimeField(null=True)),
                ("asks_again_at", models.DateTimeField(null=True)),
                ("last_success_at", models.DateTimeField(null=True)),
                ("last_failure_at", models.DateTimeField(null=True)),
                ("last_reason", models.CharField(default="", max_length=400)),
                ("paused_until", models.DateTimeField(null=True)),
                ("paused_by", models.CharField(default="", max_length=160)),
                ("paused_because", models.CharField(default="", max_length=400)),
            ],
            options={
                "db_table": "owner_state",
            },
        ),
        migrations.CreateModel(
            name="Secret",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=100)),
                ("sealed", models.BinaryField()),
                ("created_at", models.DateTimeField()),
                ("changed_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField(null=True)),
            ],
            options={
                "db_table": "secret",
            },
        ),
        migrations.AddField(
            model_name="attempt",
            name="sender",
            field=models.CharField(default="harness", max_length=12),
        ),
        migrations.AddField(
            model_name="operation",
            name="checks",
            field=models.PositiveSmallIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="operation",
            name="receipt",
            field=models.JSONField(null=True),
        ),
        migrations.AddField(
            model_name="operation",
            name="sla_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="owner",
            name="hosts",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=255), default=list, size=None
            ),
        ),
        migrations.AddField(
            model_name="owner",
            name="most_at_once",
            field=models.PositiveSmallIntegerField(default=4),
        ),
        migrations.AddField(
            model_name="owner",
            name="per_second",
            field=models.FloatField(null=True),
        ),
        migrations.AddField(
            model_name="owner",
            name="private_hosts",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=255), default=list, size=None
            ),
        ),
        migrations.AddField(
            model_name="revision",
            name="keys",
            field=models.JSONField(null=True),
        ),
        migrations.AddConstraint(
            model_name="attempt",
            constraint=models.CheckConstraint(
                condition=models.Q(("sender__in", ["harness", "worker"])), name="attempt_sender_is_a_known_word"
            ),
        ),
        migrations.AddField(
            model_name="destination",
            name="workspace",
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="ledger.workspace"),
        ),
        migrations.AddField(
            model_name="delivery",
            name="destination",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="deliveries", to="ledger.destination"
            ),
        ),
        migrations.AddField(
            model_name="event",
            name="operation",
            field=models.ForeignKey(
                db_column="operation",
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                to="ledger.operation",
            ),
        ),
        migrations.AddField(
            model_name="event",
            name="workspace",
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to="ledger.workspace"),
        ),
        migrations.AddField(
            model_name="delivery",
            name="event",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="deliveries", to="ledger.event"
            ),
        ),
        migrations.AddField(
            model_name="noticeendpoint",
            name="owner",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="notice_endpoints", to="ledger.owner"
            ),
        ),
        migrations.AddField(
            model_name="noticeendpoint",
            name="workspace",
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="ledger.workspace"),
        ),
        migrations.AddConstraint(
            model_name="ownerstate",
            constraint=models.CheckConstraint(
                condition=models.Q(("circuit__in", ["closed", "open", "half_open"])),
                name="a_circuit_is_in_a_known_state",
            ),
        ),
        migrations.AddConstraint(
            model_name="ownerstate",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("circuit", "open"), _negated=True),
                    models.Q(("asks_again_at__isnull", False), ("opened_at__isnull", False)),
                    _connector="OR",
                ),
                name="an_open_circuit_says_when_it_asks_again",
            ),
        ),
        migrations.AddField(
            model_name="secret",
            name="workspace",
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="ledger.workspace"),
        ),
        migrations.AddConstraint(
            model_name="destination",
            constraint=models.UniqueConstraint(
                fields=("workspace", "name"), name="a_destination_has_one_name_in_its_workspace"
            ),
        ),
        migrations.AddConstraint(
            model_name="destination",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ["email", "apprise", "webhook"])),
                name="destination_kind_is_a_known_word",
            ),
        ),
        migrations.AddIndex(
            model_name="event",
            index=models.Index(
                condition=models.Q(("spread_at__isnull", True)), fields=["at", "id"], name="event_to_spread"
            ),
        ),
        migrations.AddIndex(
            model_name="event",
            index=models.Index(fields=["workspace", "at"], name="event_of_workspace"),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("next_try_at__isnull", False)), fields=["next_try_at"], name="delivery_due"
            ),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.UniqueConstraint(
                fields=("event", "destination"), name="an_event_goes_to_a_destination_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="item",
            constraint=models.UniqueConstraint(fields=("operation", "key"), name="an_items_key_is_its_own"),
        ),
        migrations.AddConstraint(
            model_name="item",
            constraint=models.CheckConstraint(
                condition=models.Q(("number__gte", 1), ("number__lte", 10000)), name="items_are_numbered_from_one"
            ),
        ),
        migrations.AddConstraint(
            model_name="item",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("outcome__isnull", True),
                    models.Q(("effect", "applied"), ("outcome", "applied")),
                    models.Q(("effect", "none"), ("outcome", "not_applied")),
                    models.Q(("effect__in", ["unknown", "pending"]), ("outcome", "written_off")),
                    _connector="OR",
                ),
                name="an_items_outcome_says_what_its_effect_is",
            ),
        ),
        migrations.AddConstraint(
            model_name="item",
            constraint=models.CheckConstraint(
                condition=models.Q(("effect__in", ["none", "pending", "applied", "partial", "unknown"])),
                name="item_effect_is_a_known_word",
            ),
        ),
        migrations.AddConstraint(
            model_name="item",
            constraint=models.CheckConstraint(
                condition=models.Q(("verification__in", ["not_required", "due", "verified", "failed", "unavailable"])),
                name="item_verification_is_a_known_word",
            ),
        ),
        migrations.AddConstraint(
            model_name="item",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("outcome__in", ["applied", "not_applied", "partially_applied", "written_off", "read"])
                ),
                name="item_outcome_is_a_known_word",
            ),
        ),
        migrations.AddConstraint(
            model_name="item",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "failure_class__in",
                        [
                            "invalid_request",
                            "authorization",
                            "transient",
                            "state_conflict",
                            "business_rule",
                            "not_found",
                            "unknown_outcome",
                            "partial",
                            "verification",
                            "fatal",
                            "success",
                        ],
                    )
                ),
                name="item_failure_class_is_a_known_word",
            ),
        ),
        migrations.AddConstraint(
            model_name="item",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "licence__in",
                        ["effect_none_proved", "natural_idempotency", "key_in_window", "accepted_duplicate_risk"],
                    )
                ),
                name="item_licence_is_a_known_word",
            ),
        ),
        migrations.AddConstraint(
            model_name="itemattempt",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("effect__in", ["none", "applied"]), _negated=True),
                    ("proof__isnull", False),
                    _connector="OR",
                ),
                name="an_items_none_and_applied_name_their_proof",
            ),
        ),
        migrations.AddConstraint(
            model_name="itemattempt",
            constraint=models.CheckConstraint(
                condition=models.Q(("effect__in", ["none", "pending", "applied", "partial", "unknown"])),
                name="item_attempt_effect_is_a_known_word",
            ),
        ),
        migrations.AddConstraint(
            model_name="itemattempt",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "proof__in",
                        [
                            "not_sent",
                            "refused",
                            "contract_rule",
                            "owner_result",
                            "lookup_match",
                            "graded_absence",
                            "attested",
                        ],
                    )
                ),
                name="item_attempt_proof_is_a_known_word",
            ),
        ),
        migrations.AddConstraint(
            model_name="itemattempt",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "licence__in",
                        ["effect_none_proved", "natural_idempotency", "key_in_window", "accepted_duplicate_risk"],
                    )
                ),
                name="item_attempt_licence_is_a_known_word",
            ),
        ),
        migrations.AddIndex(
            model_name="notice",
            index=models.Index(fields=["received_at"], name="notice_received"),
        ),
        migrations.AddConstraint(
            model_name="secret",
            constraint=models.UniqueConstraint(
                fields=("workspace", "name"), name="a_secret_has_one_name_in_its_workspace"
            ),
        ),
        migrations.RunSQL(ITEMS_BELONG, reverse_sql=migrations.RunSQL.noop),
    ]
