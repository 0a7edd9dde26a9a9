"""Owners, tools, and the versioned contracts between them."""

from django.contrib.postgres.fields import ArrayField
from django.db import models

from ledger.models.workspace import Person, Workspace


class Owner(models.Model):
    """The system that holds the truth about a tool's effect."""

    id = models.UUIDField(primary_key=True, editable=False)
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE)
    name = models.CharField(max_length=120)
    base_url = models.CharField(max_length=500)
    """Where lookups go. No other host is ever asked on this owner's behalf, but those listed below."""
    hosts = ArrayField(models.CharField(max_length=255), default=list)
    """Further hosts that may be asked, such as the one that its operation addresses point to."""
    private_hosts = ArrayField(models.CharField(max_length=255), default=list)
    """Hosts that may resolve to private addresses. Empty: none may."""
    most_at_once = models.PositiveSmallIntegerField(default=4)
    """How many questions may be open at it at the same time."""
    per_second = models.FloatField(null=True)
    """How many questions it may be asked a second; null: not limited."""

    class Meta:
        db_table = "owner"
        constraints = [
            models.UniqueConstraint(fields=["workspace", "name"], name="an_owner_has_one_name_in_its_workspace"),
            models.UniqueConstraint(fields=["workspace", "id"], name="owner_in_its_workspace"),
        ]


class Tool(models.Model):
    """Something a harness can call."""

    id = models.UUIDField(primary_key=True, editable=False)
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE)
    name = models.CharField(max_length=200)
    owner = models.ForeignKey(Owner, on_delete=models.PROTECT)
    current = models.ForeignKey("ContractVersion", on_delete=models.PROTECT, null=True, related_name="+")
    """The published version that new operations are pinned to."""

    class Meta:
        db_table = "tool"
        constraints = [
            models.UniqueConstraint(fields=["workspace", "name"], name="a_tool_has_one_name_in_its_workspace"),
            models.UniqueConstraint(fields=["workspace", "id"], name="tool_in_its_workspace"),
        ]


class ContractVersion(models.Model):
    """What a tool promised from one moment on. Published, it never changes; operations stay pinned to theirs."""

    id = models.UUIDField(primary_key=True, editable=False)
    tool = models.ForeignKey(Tool, on_delete=models.PROTECT, related_name="versions")
    number = models.PositiveIntegerField()
    document = models.TextField()
    """The contract document as canonical JSON."""
    digest = models.BinaryField()
    published_at = models.DateTimeField()
    published_by = models.ForeignKey(Person, on_delete=models.PROTECT, null=True)

    class Meta:
        db_table = "contract_version"
        constraints = [
            models.UniqueConstraint(fields=["tool", "number"], name="a_version_number_is_used_once"),
            models.UniqueConstraint(fields=["tool", "id"], name="version_of_its_tool"),
        ]
