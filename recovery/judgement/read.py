"""Which reader does an observation belong to?"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, Protocol

from ledger.rules.contract import Contract
from ledger.rules.facts import AttemptFacts
from ledger.rules.vocabulary import Speaker
from recovery.judgement.documented import PLACEHOLDER
from recovery.judgement.readers import (
    batch,
    envelope,
    exceptions,
    grpc,
    http,
    jsonrpc,
    lookup,
    lro,
    mcp,
    mcp_task,
    members,
    process,
    verification,
)
from recovery.judgement.readers.conclude import begin, conclude
from recovery.judgement.reading import ObservationInvalid, Reading
from recovery.judgement.receipts import with_receipt


class Reader(Protocol):
    """Reads one kind of observation."""

    def __call__(
        self, observation: Mapping[str, Any], *, contract: Contract, earlier: Sequence[AttemptFacts], now: datetime
    ) -> Reading: ...


READERS: Final[Mapping[str, Reader]] = MappingProxyType(
    {
        http.KIND: http.read,
        exceptions.KIND: exceptions.read,
        grpc.KIND: grpc.read,
        jsonrpc.KIND: jsonrpc.read,
        mcp.KIND: mcp.read,
        mcp_task.KIND: mcp_task.read,
        lro.KIND: lro.read,
        batch.KIND: batch.read,
        process.KIND: process.read,
        lookup.KIND: lookup.read,
        envelope.KIND: envelope.read,
        verification.KIND: verification.read,
    }
)
"""Every kind, as it is read when it arrives with a harness's token."""

_TRUSTED: Final[Mapping[str, Reader]] = MappingProxyType({**READERS, lookup.KIND: lookup.read_trusted})


def read_observation(
    observation: Mapping[str, Any],
    *,
    contract: Contract,
    earlier: Sequence[AttemptFacts],
    now: datetime,
    trusted: bool = False,
) -> Reading:
    """Reads a raw observation of one attempt. `earlier` holds the operation's attempts before it, without it.

    `trusted`: whoever the observation says spoke did speak (`/classify` and `judge`). What arrives with a harness's
    token never is.

    Raises:
        ObservationInvalid: an unknown kind, or a member of the wrong type. Anything else gives a reading.
    """
    if not isinstance(observation, Mapping):
        raise ObservationInvalid("", "an observation is an object.")
    kind = observation.get("kind")
    reader = (_TRUSTED if trusted else READERS).get(kind) if isinstance(kind, str) else None
    if reader is None:
        raise ObservationInvalid("kind", f"must be one of {', '.join(READERS)}.")
    if members.flag(observation, "synthetic") is True:
        return _placeholder(observation, kind=str(kind), contract=contract, earlier=earlier, now=now)
    reading = reader(observation, contract=contract, earlier=earlier, now=now)
    return with_receipt(reading, observation, contract=contract)


def _placeholder(
    observation: Mapping[str, Any],
    *,
    kind: str,
    contract: Contract,
    earlier: Sequence[AttemptFacts],
    now: datetime,
) -> Reading:
    """A result that a harness made up to close its own books: it is ours, whatever it looks like, and proves nothing."""
    known = members.COMMON | {"synthetic"}
    seen = begin(
        observation, kind=kind, known=known, contract=contract, earlier=earlier, now=now, speaker=Speaker.HARNESS
    )
    return conclude(PLACEHOLDER, seen)
