"""One intended effect of one tool, its payloads over time, and when to look at it again."""

from django.db import models
from django.db.models import CheckConstraint, Q

from ledger.models.contract import ContractVersion, Tool
from ledger.models.words import known, word
from ledger.models.workspace import ApiToken, Workspace
from ledger.rules.vocabulary import Effect, Outcome, Request, State, Verification

UNSETTLED = ~Q(state=State.SETTLED.value)


class Operation(models.Model):
    """What the ledger holds to be true of one intended effect, now. Its past stands in the journal."""

    id = models.UUIDField(primary_key=True, editable=False)
    # No index of their own: the rows that these point to are never deleted, and searches have theirs below.
    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT, db_index=False)
    tool = models.ForeignKey(Tool, on_delete=models.PROTECT, db_index=False)
    contract = models.ForeignKey(ContractVersion, on_delete=models.PROTECT, db_index=False)
    token = models.ForeignKey(ApiToken, on_delete=models.PROTECT, null=True, db_index=False)
    operation_id = models.CharField(max_length=200)
    """The harness's stable name for the intent."""
    principal = models.CharField(max_length=120, default="")
    agent = models.JSONField(null=True)
    trace_id = models.CharField(max_length=128, null=True)

    version = models.PositiveIntegerField()
    """Moves by one with every transition; equals the journal's last seq."""
    state = word()
    request = word()
    effect = word()
    verification = word()
    outcome = word(null=True)
    decision = models.JSONField()

    revision = models.PositiveSmallIntegerField(default=1)
    payload_digest = models.BinaryField()
    identity_digest = models.BinaryField(null=True)
    """None where the contract's tool is meant to repeat."""
    holds_identity = models.BooleanField(default=False)
    distinct_intent = models.BooleanField(default=False)

    repairs = models.PositiveSmallIntegerField(default=0)
    retries = models.PositiveSmallIntegerField(default=0)
    polls = models.PositiveIntegerField(default=0)
    replans = models.PositiveSmallIntegerField(default=0)
    network_attempts = models.PositiveIntegerField(default=0)
    cost = models.DecimalField(max_digits=12, decimal_places=4, default=0)
    checks = models.PositiveSmallIntegerField(default=0)
    """How often the outcome was checked."""
    clean_reads = models.PositiveSmallIntegerField(default=0)
    absence_since = models.DateTimeField(null=True)
    first_sent_at = models.DateTimeField(null=True)

    created_at = models.DateTimeField()
    changed_at = models.DateTimeField()
    deadline_at = models.DateTimeField()
    reconcile_until = models.DateTimeField()
    receipt = models.JSONField(null=True)
    """The contract's receipt members, read from the owner's answers: ids, addresses, task ids. Null: none yet."""
    cause = models.CharField(max_length=160, default="", db_default="")
    """What went wrong, for grouping: `class/code/owner's code`. Empty until something did."""
    escalated_at = models.DateTimeField(null=True)
    sla_at = models.DateTimeField(null=True)
    """Until when a person should have answered; null where the contract states none or nobody was asked."""
    settled_at = models.DateTimeField(null=True)
    awaits_signature = models.ForeignKey(
        "Attestation", on_delete=models.PROTECT, null=True, related_name="+", db_index=False
    )
    """A person's answer that counts only once a second person has signed it."""

    class Meta:
        db_table = "operation"
        constraints = [
            models.UniqueConstraint(fields=["workspace", "operation_id"], name="an_operation_id_is_one_operation"),
            models.UniqueConstraint(
                fields=["workspace", "tool", "identity_digest"],
                condition=Q(holds_identity=True),
                name="one_unsettled_operation_holds_an_identity",
            ),
            known(column="state", words=State, table="operation"),
            known(column="request", words=Request, table="operation"),
            known(column="effect", words=Effect, table="operation"),
            known(column="verification", words=Verification, table="operation"),
            known(column="outcome", words=Outcome, table="operation"),
            CheckConstraint(
                condition=Q(state=State.SETTLED.value, outcome__isnull=False, settled_at__isnull=False)
                | Q(UNSETTLED, outcome__isnull=True, settled_at__isnull=True),
                name="settled_means_it_has_an_outcome",
            ),
            CheckConstraint(
                condition=Q(outcome__isnull=True)
                | Q(outcome=Outcome.APPLIED.value, effect=Effect.APPLIED.value)
                | Q(outcome=Outcome.NOT_APPLIED.value, effect=Effect.NONE.value)
                | Q(outcome=Outcome.PARTIALLY_APPLIED.value, effect=Effect.PARTIAL.value)
                | Q(outcome=Outcome.WRITTEN_OFF.value, effect__in=[Effect.UNKNOWN.value, Effect.PENDING.value])
                | Q(outcome=Outcome.READ.value, effect=Effect.NONE.value),
                name="an_outcome_says_what_the_effect_is",
            ),
            CheckConstraint(
                condition=~Q(state=State.DISPATCHED.value)
                | Q(identity_digest__isnull=True)
                | Q(holds_identity=True)
                | Q(distinct_intent=True),
                name="only_the_holder_of_an_identity_is_dispatched",
            ),
            CheckConstraint(
                condition=~Q(outcome=Outcome.WRITTEN_OFF.value)
                | Q(identity_digest__isnull=True)
                | Q(holds_identity=True)
                | Q(distinct_intent=True),
                name="a_written_off_operation_keeps_its_identity",
            ),
            CheckConstraint(condition=Q(version__gte=1), name="an_operation_has_history"),
        ]
        indexes = [
            models.Index(fields=["workspace", "created_at", "id"], name="operation_newest"),
            models.Index(
                fields=["workspace", "state", "created_at", "id"], condition=UNSETTLED, name="operation_open_by_state"
            ),
            models.Index(fields=["workspace", "created_at", "id"], condition=UNSETTLED, name="operation_open"),
            models.Index(fields=["workspace", "tool", "cause"], condition=UNSETTLED, name="operation_open_by_cause"),
        ]


class Revision(models.Model):
    """The payload of an operation at one time. A repair adds one; history keeps both."""

    pk = models.CompositePrimaryKey("operation", "number")
    operation = models.ForeignKey(
        Operation, on_delete=models.PROTECT, db_column="operation", related_name="revisions", db_index=False
    )
    number = models.PositiveSmallIntegerField()
    digest = models.BinaryField()
    original = models.UUIDField()
    """Where the payload body stands, as long as it is kept."""
    kind = models.CharField(max_length=12)
    """intent, repair, refresh or replan; recovery: only the items of a batch that may be sent again."""
    reason = models.TextField(default="")
    field = models.CharField(max_length=300, null=True)
    keys = models.JSONField(null=True)
    """Of a batch: the keys of the items that it carries; null: all."""
    created_at = models.DateTimeField()

    class Meta:
        db_table = "revision"


class Schedule(models.Model):
    """The narrow row that is the queue: when to look at an unsettled operation again, and who is looking."""

    operation = models.OneToOneField(Operation, on_delete=models.PROTECT, primary_key=True, db_column="operation")
    next_check_at = models.DateTimeField()
    claimed_until = models.DateTimeField(null=True)
    """A worker's hold; it lapses by itself, and that is the only recovery there is."""

    class Meta:
        db_table = "schedule"
        indexes = [models.Index(fields=["next_check_at"], name="schedule_due")]
