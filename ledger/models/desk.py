"""What people do with operations while they work on them. None of it moves an operation's version: a colleague's claim
must not refuse the form that somebody else is filling in. Every act is kept in `DeskEntry`, and undone by another."""

from django.db import models
from django.db.models import CheckConstraint, Q

from ledger.models.contract import Tool
from ledger.models.operation import Operation
from ledger.models.workspace import Person, Workspace


class Desk(models.Model):
    """Who holds an operation, and until when it sleeps. A row from the first act on; none means nobody touched it."""

    operation = models.OneToOneField(
        Operation, on_delete=models.PROTECT, primary_key=True, db_column="operation", related_name="desk"
    )
    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT, db_index=False)
    holder = models.ForeignKey(Person, on_delete=models.PROTECT, null=True, related_name="+", db_index=False)
    held_until = models.DateTimeField(null=True)
    """A claim lapses by itself."""
    snoozed_until = models.DateTimeField(null=True)
    wakes_on = models.CharField(max_length=20, default="")
    """Beside the time: `evidence`, `owner_back` or `state_change`; empty: the time alone."""
    woken_at = models.DateTimeField(null=True)
    """When a snooze ended and nobody has looked since."""
    labels = models.JSONField(default=list)
    changed_at = models.DateTimeField()

    class Meta:
        db_table = "desk"
        constraints = [
            CheckConstraint(
                condition=Q(holder__isnull=True, held_until__isnull=True)
                | Q(holder__isnull=False, held_until__isnull=False),
                name="a_claim_has_a_holder_and_an_end",
            ),
            CheckConstraint(
                condition=Q(wakes_on__in=["", "evidence", "owner_back", "state_change"]),
                name="a_snooze_wakes_on_a_known_word",
            ),
            CheckConstraint(condition=Q(wakes_on="") | Q(snoozed_until__isnull=False), name="a_wake_rule_has_a_snooze"),
        ]
        indexes = [
            models.Index(
                fields=["workspace", "holder", "held_until"], condition=Q(holder__isnull=False), name="desk_held"
            ),
            models.Index(fields=["snoozed_until"], condition=Q(snoozed_until__isnull=False), name="desk_snoozed"),
            models.Index(fields=["workspace", "woken_at"], condition=Q(woken_at__isnull=False), name="desk_woken"),
        ]


class CauseDesk(models.Model):
    """The same for a group of operations with one cause: tool, class and what the owner said."""

    pk = models.CompositePrimaryKey("tool", "cause")
    tool = models.ForeignKey(Tool, on_delete=models.PROTECT, db_index=False)
    cause = models.CharField(max_length=160)
    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT)
    holder = models.ForeignKey(Person, on_delete=models.PROTECT, null=True, related_name="+", db_index=False)
    held_until = models.DateTimeField(null=True)
    snoozed_until = models.DateTimeField(null=True)
    wakes_on = models.CharField(max_length=20, default="")
    changed_at = models.DateTimeField()

    class Meta:
        db_table = "cause_desk"


class Note(models.Model):
    """What a person wrote beside an operation or a group. Never changed; a correction is another note."""

    id = models.UUIDField(primary_key=True, editable=False)
    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT, db_index=False)
    operation = models.ForeignKey(
        Operation, on_delete=models.PROTECT, db_column="operation", null=True, related_name="notes"
    )
    tool = models.ForeignKey(Tool, on_delete=models.PROTECT, null=True, db_index=False)
    cause = models.CharField(max_length=160, default="")
    author = models.ForeignKey(Person, on_delete=models.PROTECT, related_name="+", db_index=False)
    text = models.TextField()
    mentions = models.JSONField(default=list)
    """Usernames that the text names with @ and that belong to the workspace."""
    at = models.DateTimeField()

    class Meta:
        db_table = "note"
        constraints = [
            CheckConstraint(
                condition=Q(operation__isnull=False, tool__isnull=True, cause="")
                | Q(operation__isnull=True, tool__isnull=False),
                name="a_note_is_of_an_operation_or_of_a_group",
            ),
            CheckConstraint(condition=~Q(text=""), name="a_note_says_something"),
        ]
        indexes = [models.Index(fields=["tool", "cause", "at"], condition=Q(tool__isnull=False), name="note_of_cause")]


class DeskEntry(models.Model):
    """One act of a person at the desk: what was, what is, and what it undoes. Appended to, never edited."""

    id = models.UUIDField(primary_key=True, editable=False)
    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT, db_index=False)
    person = models.ForeignKey(Person, on_delete=models.PROTECT, related_name="+", db_index=False)
    verb = models.CharField(max_length=24)
    """claim, release, assign, snooze, wake, label, note, view_original, bulk …"""
    operation = models.ForeignKey(
        Operation, on_delete=models.PROTECT, db_column="operation", null=True, related_name="+"
    )
    tool = models.ForeignKey(Tool, on_delete=models.PROTECT, null=True, db_index=False)
    cause = models.CharField(max_length=160, default="")
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    undoes = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="+", db_index=False)
    at = models.DateTimeField()

    class Meta:
        db_table = "desk_entry"
        constraints = [models.UniqueConstraint(fields=["undoes"], name="an_act_is_undone_once")]
        indexes = [models.Index(fields=["workspace", "person", "at"], name="desk_entry_of_person")]


class SavedView(models.Model):
    """A filter under a name: one person's, or the whole workspace's."""

    id = models.UUIDField(primary_key=True, editable=False)
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE)
    person = models.ForeignKey(Person, on_delete=models.CASCADE, null=True, related_name="+", db_index=False)
    """None: everybody's in the workspace."""
    name = models.CharField(max_length=60)
    query = models.CharField(max_length=400)
    grouping = models.CharField(max_length=8, default="")
    """cause, owner, or empty for a flat list."""
    created_at = models.DateTimeField()

    class Meta:
        db_table = "saved_view"
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "person", "name"],
                name="a_view_has_one_name_among_its_persons",
                nulls_distinct=False,
            ),
            CheckConstraint(condition=Q(grouping__in=["", "cause", "owner"]), name="a_view_groups_by_a_known_word"),
        ]


class Presence(models.Model):
    """Who is looking at an operation now. Forgotten after a minute; no part of any history."""

    pk = models.CompositePrimaryKey("operation", "person")
    operation = models.ForeignKey(
        Operation, on_delete=models.PROTECT, db_column="operation", related_name="+", db_index=False
    )
    person = models.ForeignKey(Person, on_delete=models.CASCADE, related_name="+", db_index=False)
    seen_at = models.DateTimeField()

    class Meta:
        db_table = "presence"


class Preference(models.Model):
    """How a person likes their pages."""

    person = models.OneToOneField(Person, on_delete=models.CASCADE, primary_key=True)
    zone = models.CharField(max_length=64, default="")
    """An IANA zone, `UTC`, or empty for the browser's."""
    density = models.CharField(max_length=8, default="normal")
    theme = models.CharField(max_length=8, default="system")
    single_keys = models.BooleanField(default=True)

    class Meta:
        db_table = "preference"


class BulkJob(models.Model):
    """One decision for a frozen set of operations, carried out one by one."""

    id = models.UUIDField(primary_key=True, editable=False)
    """Also its idempotency key: the form carries it, so a form that is sent twice makes one job."""
    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT, db_index=False)
    person = models.ForeignKey(Person, on_delete=models.PROTECT, related_name="+", db_index=False)
    verb = models.CharField(max_length=24)
    reason = models.TextField(default="")
    evidence_url = models.CharField(max_length=2000, default="")
    options = models.JSONField(default=dict)
    query = models.CharField(max_length=400)
    set_digest = models.BinaryField()
    """SHA-256 over the frozen members and the versions that were previewed."""
    total = models.PositiveIntegerField()
    per_second = models.FloatField(default=20)
    state = models.CharField(max_length=12)
    """waiting, running, stopped or finished."""
    done = models.PositiveIntegerField(default=0)
    skipped = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField()
    claimed_until = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "bulk_job"
        constraints = [
            CheckConstraint(
                condition=Q(state__in=["waiting", "running", "stopped", "finished"]),
                name="a_job_is_in_a_known_state",
            ),
        ]
        indexes = [
            models.Index(fields=["workspace", "created_at"], name="bulk_job_of_workspace"),
            models.Index(
                fields=["created_at"], condition=Q(state__in=["waiting", "running"]), name="bulk_job_unfinished"
            ),
        ]


class BulkMember(models.Model):
    """One operation of a job, with the version that was previewed and what came of it."""

    pk = models.CompositePrimaryKey("job", "number")
    job = models.ForeignKey(BulkJob, on_delete=models.PROTECT, related_name="members", db_index=False)
    number = models.PositiveIntegerField()
    operation = models.ForeignKey(
        Operation, on_delete=models.PROTECT, db_column="operation", related_name="+", db_index=False
    )
    version_seen = models.PositiveIntegerField()
    result = models.CharField(max_length=10, default="")
    """done, skipped or failed; empty until its turn came."""
    because = models.CharField(max_length=400, default="")
    at = models.DateTimeField(null=True)

    class Meta:
        db_table = "bulk_member"
        constraints = [
            CheckConstraint(
                condition=Q(result__in=["", "done", "skipped", "failed"]), name="a_members_result_is_a_known_word"
            ),
        ]
        indexes = [models.Index(fields=["job", "number"], condition=Q(result=""), name="bulk_member_left")]
