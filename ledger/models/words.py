"""Columns that hold one word of the vocabulary, and the constraint that keeps them to it."""

from enum import StrEnum

from django.db import models
from django.db.models import CheckConstraint, Q


def word(*, null: bool = False, default: StrEnum | None = None) -> "models.CharField[str, str]":
    """A column for one vocabulary word."""
    if default is None:
        return models.CharField(max_length=24, null=null)
    return models.CharField(max_length=24, null=null, default=default.value)


def known(*, column: str, words: type[StrEnum], table: str) -> CheckConstraint:
    """A CHECK that the column holds a word of `words` (or NULL where the column allows it)."""
    return CheckConstraint(
        condition=Q(**{f"{column}__in": [member.value for member in words]}),
        name=f"{table}_{column}_is_a_known_word",
    )
