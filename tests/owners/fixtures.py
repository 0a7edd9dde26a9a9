"""A real owner and the proxy that loses its answers, as fixtures for any test."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.owners import kinto as kinto_owner
from tests.owners.fault_proxy import FaultProxy
from tests.owners.kinto import Kinto


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """One test's own place in Kinto."""

    kinto: Kinto
    bucket: str
    name: str

    @property
    def path(self) -> str:
        """Records are PUT below this path, at Kinto's address or the proxy's."""
        return kinto_owner.records_path(self.bucket, self.name)

    def count(self) -> int:
        return self.kinto.count(self.bucket, self.name)

    def contract(self) -> str:
        return kinto_owner.contract(bucket=self.bucket, collection=self.name)


@pytest.fixture(scope="session")
def kinto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kinto]:
    """A running Kinto for this test process."""
    with kinto_owner.running(tmp_path_factory.mktemp("kinto")) as running:
        yield running


@pytest.fixture
def fault_proxy(kinto: Kinto) -> Iterator[FaultProxy]:
    """A proxy before Kinto that passes everything until it is told otherwise."""
    with FaultProxy(upstream_port=kinto.port) as proxy:
        yield proxy


@pytest.fixture
def collection(kinto: Kinto) -> Collection:
    """An empty collection of this test's own."""
    bucket = f"b{uuid.uuid4().hex[:12]}"
    kinto.make_collection(bucket, "tickets")
    return Collection(kinto=kinto, bucket=bucket, name="tickets")
