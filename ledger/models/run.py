"""A run of an agent that has a budget of its own."""

from django.db import models
from django.db.models import CheckConstraint, F, Q

from ledger.models.workspace import Workspace


class Run(models.Model):
    """What all operations of one run may do together. A permit is counted here by the statement that gives it."""

    id = models.UUIDField(primary_key=True, editable=False)
    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT)
    name = models.CharField(max_length=200)
    """What operations state as their agent's run."""
    max_dispatches = models.IntegerField(null=True)
    """None: not limited."""
    deadline_ms = models.BigIntegerField(null=True)
    """As it was asked for; None: not limited."""
    deadline_at = models.DateTimeField(null=True)
    questions = models.JSONField(default=list)
    """What the review packet is to answer, in the words of whoever registered the run."""
    dispatches = models.IntegerField(default=0)
    latest_end = models.DateTimeField(null=True)
    """The latest moment that a permit reached: its last for sending, or for the answer to what is sent at once."""
    created_at = models.DateTimeField()

    class Meta:
        db_table = "run"
        constraints = [
            models.UniqueConstraint(fields=["workspace", "name"], name="a_run_has_one_name_in_its_workspace"),
            CheckConstraint(
                condition=Q(max_dispatches__isnull=True) | Q(dispatches__lte=F("max_dispatches")),
                name="a_runs_dispatches_stay_within_its_budget",
            ),
            CheckConstraint(
                condition=Q(deadline_at__isnull=True)
                | Q(latest_end__isnull=True)
                | Q(latest_end__lte=F("deadline_at")),
                name="a_run_sends_nothing_after_its_deadline",
            ),
        ]
