"""Graded facts with provenance, and the restricted originals that they refer to."""

from django.db import models
from django.db.models import CheckConstraint, Q

from ledger.models.operation import Operation
from ledger.models.words import known, word
from ledger.rules.vocabulary import Effect, Proof, Speaker


class Original(models.Model):
    """A payload or an answer as it was, kept apart: read by permission, deleted only by the retention role."""

    id = models.UUIDField(primary_key=True, editable=False)
    operation = models.ForeignKey(Operation, on_delete=models.PROTECT, db_column="operation", db_index=False)
    kind = models.CharField(max_length=12)
    """payload, observation or answer."""
    body = models.TextField()

    class Meta:
        db_table = "original"
        constraints = [
            CheckConstraint(
                condition=Q(kind__in=["payload", "observation", "answer"]), name="original_kind_is_a_known_word"
            )
        ]


class Evidence(models.Model):
    """What somebody said of an operation, graded. Never changed, never deleted."""

    id = models.UUIDField(primary_key=True, editable=False)
    operation = models.ForeignKey(
        Operation, on_delete=models.PROTECT, db_column="operation", related_name="evidence", db_index=False
    )
    seq = models.PositiveIntegerField()
    """The journal row that recorded it."""
    attempt = models.PositiveSmallIntegerField(null=True)
    source = models.CharField(max_length=200)
    speaker = word()
    outcome = models.CharField(max_length=24)
    """For a lookup: found, no_match, lookup_failed, inconclusive. For a report: `observed`. For a person: `attested`."""
    effect = word(null=True)
    proof = word(null=True)
    revision = models.CharField(max_length=200, null=True)
    digest = models.BinaryField()
    query = models.CharField(max_length=600, default="")
    principal = models.CharField(max_length=120, default="")
    event_at = models.DateTimeField(null=True)
    observed_at = models.DateTimeField()
    coverage = models.CharField(max_length=12, default="")
    """complete, partial, or empty where the word has no meaning."""
    original = models.UUIDField(null=True)
    detail = models.JSONField()
    """Grade in words, differing fields, rule, foreign text quoted."""

    class Meta:
        db_table = "evidence"
        constraints = [
            models.UniqueConstraint(
                fields=["operation", "attempt", "digest"], name="the_same_observation_is_evidence_once"
            ),
            CheckConstraint(
                condition=~Q(effect__in=[Effect.NONE.value, Effect.APPLIED.value]) | Q(proof__isnull=False),
                name="evidence_of_none_or_applied_names_its_proof",
            ),
            CheckConstraint(
                condition=~Q(effect__in=[Effect.NONE.value, Effect.APPLIED.value])
                | ~Q(speaker__in=[Speaker.TOOL_TEXT.value, Speaker.VERIFIER.value, Speaker.LEDGER.value]),
                name="text_verifiers_and_the_ledger_prove_no_effect",
            ),
            CheckConstraint(
                condition=~Q(effect=Effect.NONE.value) | ~Q(speaker=Speaker.OWNER_INDEX.value),
                name="an_index_never_proves_absence",
            ),
            known(column="speaker", words=Speaker, table="evidence"),
            known(column="effect", words=Effect, table="evidence"),
            known(column="proof", words=Proof, table="evidence"),
        ]
