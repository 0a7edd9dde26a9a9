"""One permitted dispatch of an operation's current revision."""

from django.db import models
from django.db.models import CheckConstraint, Q

from ledger.models.operation import Operation
from ledger.models.words import known, word
from ledger.rules.vocabulary import Effect, FailureClass, Licence, Proof


class Attempt(models.Model):
    """What was permitted, and what is known of this dispatch alone."""

    pk = models.CompositePrimaryKey("operation", "number")
    operation = models.ForeignKey(
        Operation, on_delete=models.PROTECT, db_column="operation", related_name="attempts", db_index=False
    )
    number = models.PositiveSmallIntegerField()
    revision = models.PositiveSmallIntegerField()
    kind = models.CharField(max_length=12)
    """dispatch, retry or replay."""
    sender = models.CharField(max_length=12, default="harness")
    """harness, or worker where Ascertain itself sends."""
    repeats_a_write = models.BooleanField()
    licence = word(null=True)
    principal = models.CharField(max_length=120, default="")
    idempotency_key = models.CharField(max_length=300, null=True)
    timeout_ms = models.PositiveIntegerField()
    opened_at = models.DateTimeField()
    dispatch_by = models.DateTimeField()
    lapses_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)
    effect = word()
    proof = word(null=True)
    failure_class = word(null=True)
    network_attempts = models.PositiveIntegerField(default=0)

    class Meta:
        db_table = "attempt"
        constraints = [
            models.UniqueConstraint(
                fields=["operation"], condition=Q(closed_at__isnull=True), name="one_attempt_in_flight"
            ),
            CheckConstraint(
                condition=Q(repeats_a_write=False) | Q(licence__isnull=False),
                name="a_repeat_of_a_write_names_its_licence",
            ),
            CheckConstraint(
                condition=~Q(effect__in=[Effect.NONE.value, Effect.APPLIED.value]) | Q(proof__isnull=False),
                name="none_and_applied_name_their_proof",
            ),
            CheckConstraint(condition=Q(number__gte=1, number__lte=999), name="attempts_are_numbered_from_one"),
            CheckConstraint(condition=Q(sender__in=["harness", "worker"]), name="attempt_sender_is_a_known_word"),
            known(column="licence", words=Licence, table="attempt"),
            known(column="effect", words=Effect, table="attempt"),
            known(column="proof", words=Proof, table="attempt"),
            known(column="failure_class", words=FailureClass, table="attempt"),
        ]
