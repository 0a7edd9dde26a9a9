"""Which reader does an observation belong to?"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, Protocol

from ledger.rules.contract import Contract
from ledger.rules.facts import AttemptFacts
from recovery.judgement.readers import exceptions, http
from recovery.judgement.reading import ObservationInvalid, Reading


class Reader(Protocol):
    """Reads one kind of observation."""

    def __call__(
        self, observation: Mapping[str, Any], *, contract: Contract, earlier: Sequence[AttemptFacts], now: datetime
    ) -> Reading: ...


READERS: Final[Mapping[str, Reader]] = MappingProxyType({http.KIND: http.read, exceptions.KIND: exceptions.read})
"""Every kind that this release reads."""


def read_observation(
    observation: Mapping[str, Any], *, contract: Contract, earlier: Sequence[AttemptFacts], now: datetime
) -> Reading:
    """Reads a raw observation of one attempt. `earlier` holds the operation's attempts before it, without it.

    Raises:
        ObservationInvalid: an unknown kind, or a member of the wrong type. Anything else gives a reading.
    """
    if not isinstance(observation, Mapping):
        raise ObservationInvalid("", "an observation is an object.")
    kind = observation.get("kind")
    reader = READERS.get(kind) if isinstance(kind, str) else None
    if reader is None:
        raise ObservationInvalid("kind", f"must be one of {', '.join(READERS)}.")
    return reader(observation, contract=contract, earlier=earlier, now=now)
