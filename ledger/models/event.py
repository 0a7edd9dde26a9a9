"""What people and other systems are told, and how the telling went."""

from django.db import models
from django.db.models import CheckConstraint, Q

from ledger.models.operation import Operation
from ledger.models.workspace import Workspace


class Event(models.Model):
    """Something that others are told of. Written by the transition that made it true, in the same transaction."""

    id = models.UUIDField(primary_key=True, editable=False)
    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT, db_index=False)
    operation = models.ForeignKey(Operation, on_delete=models.PROTECT, db_column="operation", null=True, db_index=False)
    seq = models.PositiveIntegerField(null=True)
    """The history row that it tells of; null where it is not of one operation."""
    kind = models.CharField(max_length=40)
    """One of `ledger.rules.events.EventKind`."""
    payload = models.JSONField()
    """What is told: codes, sentences of ours, ids. No payload members, no owner's text."""
    at = models.DateTimeField()
    spread_at = models.DateTimeField(null=True)
    """When its deliveries were made; null until then."""

    class Meta:
        db_table = "event"
        indexes = [
            models.Index(fields=["at", "id"], condition=Q(spread_at__isnull=True), name="event_to_spread"),
            models.Index(fields=["workspace", "at"], name="event_of_workspace"),
        ]


class Destination(models.Model):
    """Where events go: an address behind a name that contracts use (`escalation.notify`), or a webhook."""

    id = models.UUIDField(primary_key=True, editable=False)
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE)
    name = models.CharField(max_length=120)
    kind = models.CharField(max_length=12)
    """email, apprise or webhook."""
    sealed_address = models.BinaryField()
    """The address or URL, encrypted: Apprise URLs hold passwords."""
    sealed_secret = models.BinaryField(null=True)
    """For a webhook: what its messages are signed with."""
    kinds = models.JSONField(default=list)
    """Event kinds that always go there; empty: only what names it."""
    created_at = models.DateTimeField()
    disabled_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "destination"
        constraints = [
            models.UniqueConstraint(fields=["workspace", "name"], name="a_destination_has_one_name_in_its_workspace"),
            CheckConstraint(
                condition=Q(kind__in=["email", "apprise", "webhook"]), name="destination_kind_is_a_known_word"
            ),
        ]


class Delivery(models.Model):
    """One event on its way to one destination, with its log."""

    id = models.UUIDField(primary_key=True, editable=False)
    event = models.ForeignKey(Event, on_delete=models.PROTECT, related_name="deliveries")
    destination = models.ForeignKey(Destination, on_delete=models.PROTECT, related_name="deliveries")
    tries = models.PositiveSmallIntegerField(default=0)
    next_try_at = models.DateTimeField(null=True)
    """Null once it was delivered or given up."""
    claimed_until = models.DateTimeField(null=True)
    delivered_at = models.DateTimeField(null=True)
    given_up_at = models.DateTimeField(null=True)
    log = models.JSONField(default=list)
    """A line a try: when, status, reason; at most the last twenty."""

    class Meta:
        db_table = "delivery"
        constraints = [
            models.UniqueConstraint(fields=["event", "destination"], name="an_event_goes_to_a_destination_once"),
        ]
        indexes = [
            models.Index(fields=["next_try_at"], condition=Q(next_try_at__isnull=False), name="delivery_due"),
        ]
