"""The parts of a batch, each with its own key and effect, and what each attempt did to them."""

from django.db import models
from django.db.models import CheckConstraint, Q

from ledger.models.operation import Operation
from ledger.models.words import known, word
from ledger.rules.vocabulary import Effect, FailureClass, Licence, Outcome, Proof, Verification


class Item(models.Model):
    """One sub-operation of a batch: what is known of its effect now. Written only with its operation's transition."""

    pk = models.CompositePrimaryKey("operation", "number")
    operation = models.ForeignKey(
        Operation, on_delete=models.PROTECT, db_column="operation", related_name="items", db_index=False
    )
    number = models.PositiveSmallIntegerField()
    """Its place in revision 1, from 1; it never changes."""
    key = models.CharField(max_length=200)
    effect = word()
    verification = word()
    outcome = word(null=True)
    """Set once the item is settled; it may be settled while others are not."""
    failure_class = word(null=True)
    code = models.CharField(max_length=80, default="")
    licence = word(null=True)
    """What would let this item be sent again by itself; null when nothing does."""
    decision = models.JSONField()
    clean_reads = models.PositiveSmallIntegerField(default=0)
    absence_since = models.DateTimeField(null=True)

    class Meta:
        db_table = "item"
        constraints = [
            models.UniqueConstraint(fields=["operation", "key"], name="an_items_key_is_its_own"),
            CheckConstraint(condition=Q(number__gte=1, number__lte=10_000), name="items_are_numbered_from_one"),
            CheckConstraint(
                condition=Q(outcome__isnull=True)
                | Q(outcome=Outcome.APPLIED.value, effect=Effect.APPLIED.value)
                | Q(outcome=Outcome.NOT_APPLIED.value, effect=Effect.NONE.value)
                | Q(
                    outcome=Outcome.WRITTEN_OFF.value,
                    effect__in=[Effect.UNKNOWN.value, Effect.PENDING.value, Effect.PARTIAL.value],
                ),
                name="an_items_outcome_says_what_its_effect_is",
            ),
            known(column="effect", words=Effect, table="item"),
            known(column="verification", words=Verification, table="item"),
            known(column="outcome", words=Outcome, table="item"),
            known(column="failure_class", words=FailureClass, table="item"),
            known(column="licence", words=Licence, table="item"),
        ]


class ItemAttempt(models.Model):
    """What one attempt that carried an item is known to have done to it. A reading speaks for its attempt only."""

    pk = models.CompositePrimaryKey("operation", "attempt", "number")
    operation = models.ForeignKey(
        Operation, on_delete=models.PROTECT, db_column="operation", related_name="+", db_index=False
    )
    attempt = models.PositiveSmallIntegerField()
    number = models.PositiveSmallIntegerField()
    effect = word()
    proof = word(null=True)
    licence = word(null=True)
    """Why the attempt might carry it, where it repeats one that may have had an effect or is proved to have had none."""

    class Meta:
        db_table = "item_attempt"
        constraints = [
            CheckConstraint(
                condition=~Q(effect__in=[Effect.NONE.value, Effect.APPLIED.value]) | Q(proof__isnull=False),
                name="an_items_none_and_applied_name_their_proof",
            ),
            known(column="effect", words=Effect, table="item_attempt"),
            known(column="proof", words=Proof, table="item_attempt"),
            known(column="licence", words=Licence, table="item_attempt"),
        ]
