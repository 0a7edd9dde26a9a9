"""How an owner is doing: its circuit, its limits in use, and whether it still accepts our credentials."""

from django.db import models
from django.db.models import CheckConstraint, Q

from ledger.models.contract import Owner


class OwnerState(models.Model):
    """What asking an owner has shown lately. One row an owner, changed by whoever asked last."""

    owner = models.OneToOneField(Owner, on_delete=models.CASCADE, primary_key=True, db_column="owner")
    circuit = models.CharField(max_length=12, default="closed")
    """closed: it is asked. open: nobody asks until `asks_again_at`. half_open: one question at a time finds out."""
    failures = models.PositiveIntegerField(default=0)
    """In a row."""
    opened_at = models.DateTimeField(null=True)
    asks_again_at = models.DateTimeField(null=True)
    """Of an open circuit: when one question finds out. What waits was moved behind it in the schedule."""
    last_success_at = models.DateTimeField(null=True)
    last_failure_at = models.DateTimeField(null=True)
    last_reason = models.CharField(max_length=400, default="")
    paused_until = models.DateTimeField(null=True)
    """A person's pause, with its end."""
    paused_by = models.CharField(max_length=160, default="")
    paused_because = models.CharField(max_length=400, default="")

    class Meta:
        db_table = "owner_state"
        constraints = [
            CheckConstraint(
                condition=Q(circuit__in=["closed", "open", "half_open"]), name="a_circuit_is_in_a_known_state"
            ),
            CheckConstraint(
                condition=~Q(circuit="open") | Q(opened_at__isnull=False, asks_again_at__isnull=False),
                name="an_open_circuit_says_when_it_asks_again",
            ),
        ]


class OwnerSlot(models.Model):
    """A place among the questions that may be asked of an owner at once. It lapses by itself.

    Number 0 is the turnstile of an owner with a rate: held until the next question may begin.
    """

    pk = models.CompositePrimaryKey("owner", "number")
    owner = models.ForeignKey(Owner, on_delete=models.CASCADE, db_column="owner", related_name="+", db_index=False)
    number = models.PositiveSmallIntegerField()
    held_until = models.DateTimeField()

    class Meta:
        db_table = "owner_slot"


class CredentialLatch(models.Model):
    """A credential that its owner refused. While it is latched nobody asks with it; one alert says so."""

    pk = models.CompositePrimaryKey("owner", "reference")
    owner = models.ForeignKey(Owner, on_delete=models.CASCADE, db_column="owner", related_name="+", db_index=False)
    reference = models.CharField(max_length=200)
    """`env:NAME` or `secret:name`; empty for asking without one."""
    fingerprint = models.BinaryField()
    """SHA-256 of the value that was refused, keyed: another value under the same name lifts the latch."""
    since = models.DateTimeField()
    reason = models.CharField(max_length=400, default="")
    """Empty once another value under the same name was accepted; workers that still have this one do not ask with it."""
    tries_again_at = models.DateTimeField()

    class Meta:
        db_table = "credential_latch"


class Secret(models.Model):
    """A credential that is kept here, encrypted with the field keys."""

    id = models.UUIDField(primary_key=True, editable=False)
    workspace = models.ForeignKey("ledger.Workspace", on_delete=models.CASCADE)
    name = models.CharField(max_length=100)
    """What contracts call `secret:name`."""
    sealed = models.BinaryField()
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "secret"
        constraints = [
            models.UniqueConstraint(fields=["workspace", "name"], name="a_secret_has_one_name_in_its_workspace")
        ]
