"""The history of every operation: appended to, chained, never edited."""

from django.db import models

from ledger.models.operation import Operation


class Journal(models.Model):
    """One transition. `seq` is the version that it made; the database computes the hash from the row before."""

    pk = models.CompositePrimaryKey("operation", "seq")
    operation = models.ForeignKey(
        Operation, on_delete=models.PROTECT, db_column="operation", related_name="journal", db_index=False
    )
    seq = models.PositiveIntegerField()
    at = models.DateTimeField()
    verb = models.CharField(max_length=40)
    actor = models.CharField(max_length=160)
    """`token:<name>`, `person:<username>`, `worker`."""
    entry = models.TextField()
    """JSON, members in order: what the row became and why."""
    hash = models.BinaryField()

    class Meta:
        db_table = "journal"
