"""One noun a file. Only transitions, queries and migrations import these."""

from ledger.models.attempt import Attempt
from ledger.models.attestation import Attestation
from ledger.models.contract import ContractVersion, Owner, Tool
from ledger.models.desk import (
    BulkJob,
    BulkMember,
    CauseDesk,
    Desk,
    DeskEntry,
    Note,
    Preference,
    Presence,
    SavedView,
)
from ledger.models.event import Delivery, Destination, Event
from ledger.models.evidence import Evidence, Original
from ledger.models.heartbeat import Heartbeat
from ledger.models.item import Item, ItemAttempt
from ledger.models.journal import Journal
from ledger.models.notice import Notice, NoticeEndpoint
from ledger.models.operation import Operation, Revision, Schedule
from ledger.models.owner_state import CredentialLatch, OwnerSlot, OwnerState, Secret
from ledger.models.run import Run
from ledger.models.workspace import ApiToken, Membership, Person, Workspace

__all__ = [
    "ApiToken",
    "Attempt",
    "Attestation",
    "BulkJob",
    "BulkMember",
    "CauseDesk",
    "ContractVersion",
    "CredentialLatch",
    "Delivery",
    "Desk",
    "DeskEntry",
    "Destination",
    "Event",
    "Evidence",
    "Heartbeat",
    "Item",
    "ItemAttempt",
    "Journal",
    "Membership",
    "Note",
    "Notice",
    "NoticeEndpoint",
    "Operation",
    "Original",
    "Owner",
    "OwnerSlot",
    "OwnerState",
    "Person",
    "Preference",
    "Presence",
    "Revision",
    "Run",
    "SavedView",
    "Schedule",
    "Secret",
    "Tool",
    "Workspace",
]
