"""A settled operation that new evidence contradicts waits for a person again, and holds its intent again."""

from dataclasses import replace

from django.db import IntegrityError, transaction

from ledger.errors import constraint_of
from ledger.queries.facts import Held
from ledger.rules.vocabulary import State
from ledger.transitions.change import Change, write
from ledger.transitions.open import IDENTITY


def write_evidence(change: Change, *, held: Held) -> int | None:
    """Write what somebody said. Where that reopens a settled operation, it takes its identity back, so that nothing else
    is sent for the same intent; it is reopened without it when another operation holds it by now.

    Returns and raises what `write` does.
    """
    reopened = held.facts.state is State.SETTLED and change.set.get("state", State.SETTLED) is not State.SETTLED
    if reopened and held.identity_digest is not None and not held.distinct_intent:
        try:
            with transaction.atomic():
                return write(replace(change, set={**change.set, "holds_identity": True}))
        except IntegrityError as error:
            if constraint_of(error) != IDENTITY:
                raise
    return write(change)
