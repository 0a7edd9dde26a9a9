"""The wall between customers, the people behind it, and the tokens that harnesses carry."""

from django.contrib.auth.models import AbstractUser
from django.contrib.postgres.fields import ArrayField
from django.db import models

from ledger.models.words import known, word
from ledger.rules.vocabulary import Role


class Workspace(models.Model):
    """Every row, token and person belongs to one or more; nothing leaks across, not even existence."""

    id = models.UUIDField(primary_key=True, editable=False)
    slug = models.SlugField(max_length=60, unique=True)
    name = models.CharField(max_length=120)
    created_at = models.DateTimeField()

    class Meta:
        db_table = "workspace"


class Person(AbstractUser):
    """Somebody who signs in."""

    class Meta(AbstractUser.Meta):
        db_table = "person"

    @property
    def shown_name(self) -> str:
        return self.get_full_name() or self.username


class Membership(models.Model):
    """A person's role in a workspace; several rows where they hold several."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="memberships")
    person = models.ForeignKey(Person, on_delete=models.CASCADE, related_name="memberships")
    role = word()

    class Meta:
        db_table = "membership"
        constraints = [
            models.UniqueConstraint(fields=["workspace", "person", "role"], name="a_person_holds_a_role_once"),
            known(column="role", words=Role, table="membership"),
        ]


class ApiToken(models.Model):
    """A harness's key to one workspace. Only its hash is kept."""

    id = models.UUIDField(primary_key=True, editable=False)
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE)
    name = models.CharField(max_length=120)
    prefix = models.CharField(max_length=16, unique=True)
    hash = models.BinaryField()
    """SHA-256 of the whole token; the token itself is 160 random bits, so no slow hash is needed."""
    scopes = ArrayField(models.CharField(max_length=32))
    principals = ArrayField(models.CharField(max_length=120), default=list)
    """Who the harness may say it acts as; empty: any."""
    created_by = models.ForeignKey(Person, on_delete=models.PROTECT, null=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "api_token"
