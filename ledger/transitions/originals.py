"""Keep that a person read a restricted original. It is written before the person gets it."""

from uuid import UUID

import orjson

from ledger.database import execute
from ledger.identifiers import new_id
from ledger.transitions.person import Signer

VIEW_ORIGINAL = "view_original"
"""The verb in `desk_entry`."""


def record_view(*, workspace_id: UUID, operation: UUID, by: Signer, original: UUID, kind: str) -> None:
    """That `by` reads this original now. One durable statement; it moves no version and cannot be taken back."""
    execute(
        "INSERT INTO desk_entry (id, workspace_id, person_id, verb, operation, cause, after, at) "
        "VALUES (%s, %s, %s, %s, %s, '', %s, clock_timestamp())",
        [
            new_id(),
            workspace_id,
            by.id,
            VIEW_ORIGINAL,
            operation,
            orjson.dumps({"original": str(original), "kind": kind}).decode(),
        ],
    )
