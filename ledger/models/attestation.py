"""A person's answer to what happened, with its evidence, and the second signature where one is needed."""

from django.db import models
from django.db.models import CheckConstraint, Q

from ledger.models.operation import Operation
from ledger.models.workspace import Person


class Attestation(models.Model):
    """What one person said of one operation, having seen one version of it."""

    id = models.UUIDField(primary_key=True, editable=False)
    operation = models.ForeignKey(
        Operation, on_delete=models.PROTECT, db_column="operation", related_name="attestations"
    )
    person = models.ForeignKey(Person, on_delete=models.PROTECT)
    answer = models.CharField(max_length=24)
    """applied, not_applied, partially_applied, cannot_tell, distinct_intent, written_off or accept_duplicate_risk."""
    reason = models.TextField(default="")
    evidence_url = models.CharField(max_length=2000, default="")
    version_seen = models.PositiveIntegerField()
    signs = models.ForeignKey("self", on_delete=models.PROTECT, null=True)
    """The first person's attestation that this one countersigns."""
    at = models.DateTimeField()

    class Meta:
        db_table = "attestation"
        constraints = [
            CheckConstraint(
                condition=Q(
                    answer__in=[
                        "applied",
                        "not_applied",
                        "partially_applied",
                        "cannot_tell",
                        "distinct_intent",
                        "written_off",
                        "accept_duplicate_risk",
                    ]
                ),
                name="attestation_answer_is_a_known_word",
            ),
            CheckConstraint(condition=~Q(reason="") | ~Q(evidence_url=""), name="an_answer_has_evidence_or_a_reason"),
        ]
