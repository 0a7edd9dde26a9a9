"""Where owners send their signed notifications, and which were received."""

from django.db import models

from ledger.models.contract import Owner
from ledger.models.workspace import Workspace


class NoticeEndpoint(models.Model):
    """One address for one owner's notifications. Its id is random and is the address's last part."""

    id = models.UUIDField(primary_key=True, editable=False)
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE)
    owner = models.ForeignKey(Owner, on_delete=models.CASCADE, related_name="notice_endpoints")
    sealed_secrets = models.BinaryField()
    """The signing secrets that are accepted, newest first, encrypted: two while one is being changed."""
    created_at = models.DateTimeField()
    disabled_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "notice_endpoint"


class Notice(models.Model):
    """One notification that was received and whose signature was right. Its id is accepted once."""

    pk = models.CompositePrimaryKey("endpoint", "message_id")
    endpoint = models.ForeignKey(NoticeEndpoint, on_delete=models.CASCADE, related_name="notices", db_index=False)
    message_id = models.CharField(max_length=200)
    received_at = models.DateTimeField()
    came_to = models.CharField(max_length=40)
    """recorded, no_operation, settles_nothing."""

    class Meta:
        db_table = "notice"
        indexes = [models.Index(fields=["received_at"], name="notice_received")]
