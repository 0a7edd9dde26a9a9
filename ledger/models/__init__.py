"""One noun a file. Only transitions, queries and migrations import these."""

from ledger.models.attempt import Attempt
from ledger.models.attestation import Attestation
from ledger.models.contract import ContractVersion, Owner, Tool
from ledger.models.evidence import Evidence, Original
from ledger.models.heartbeat import Heartbeat
from ledger.models.journal import Journal
from ledger.models.operation import Operation, Revision, Schedule
from ledger.models.run import Run
from ledger.models.workspace import ApiToken, Membership, Person, Workspace

__all__ = [
    "ApiToken",
    "Attempt",
    "Attestation",
    "ContractVersion",
    "Evidence",
    "Heartbeat",
    "Journal",
    "Membership",
    "Operation",
    "Original",
    "Owner",
    "Person",
    "Revision",
    "Run",
    "Schedule",
    "Tool",
    "Workspace",
]
