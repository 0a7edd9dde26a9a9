# Indexes that Django makes for every foreign key, where another index begins with the same column or where the row
# that it points to is never deleted: nothing reads them, and each costs every operation a write. They are dropped by
# name: Django's own way of dropping one takes any other index on the same column along, one_attempt_in_flight too.
import django.db.models.deletion
from django.db import migrations, models

UNREAD = [
    "attempt_operation_64d8c4b6",
    "evidence_operation_cb33a990",
    "journal_operation_a0ecea61",
    "operation_awaits_signature_id_036c623a",
    "operation_contract_id_6f43b35a",
    "operation_token_id_e9f002a2",
    "operation_tool_id_f802812e",
    "operation_workspace_id_a8f80a2a",
    "original_operation_c38f6c77",
    "revision_operation_f7a37942",
]


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0003_run"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(f"DROP INDEX {name}") for name in UNREAD],
            state_operations=[
                migrations.AlterField(
                    model_name="attempt",
                    name="operation",
                    field=models.ForeignKey(
                        db_column="operation",
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="attempts",
                        to="ledger.operation",
                    ),
                ),
                migrations.AlterField(
                    model_name="evidence",
                    name="operation",
                    field=models.ForeignKey(
                        db_column="operation",
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="evidence",
                        to="ledger.operation",
                    ),
                ),
                migrations.AlterField(
                    model_name="journal",
                    name="operation",
                    field=models.ForeignKey(
                        db_column="operation",
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="journal",
                        to="ledger.operation",
                    ),
                ),
                migrations.AlterField(
                    model_name="operation",
                    name="awaits_signature",
                    field=models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="ledger.attestation",
                    ),
                ),
                migrations.AlterField(
                    model_name="operation",
                    name="contract",
                    field=models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.PROTECT, to="ledger.contractversion"
                    ),
                ),
                migrations.AlterField(
                    model_name="operation",
                    name="token",
                    field=models.ForeignKey(
                        db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, to="ledger.apitoken"
                    ),
                ),
                migrations.AlterField(
                    model_name="operation",
                    name="tool",
                    field=models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.PROTECT, to="ledger.tool"
                    ),
                ),
                migrations.AlterField(
                    model_name="operation",
                    name="workspace",
                    field=models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.PROTECT, to="ledger.workspace"
                    ),
                ),
                migrations.AlterField(
                    model_name="original",
                    name="operation",
                    field=models.ForeignKey(
                        db_column="operation",
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        to="ledger.operation",
                    ),
                ),
                migrations.AlterField(
                    model_name="revision",
                    name="operation",
                    field=models.ForeignKey(
                        db_column="operation",
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="revisions",
                        to="ledger.operation",
                    ),
                ),
            ],
        )
    ]
