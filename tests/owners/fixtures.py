"""Real owners, each once a test process, and the proxy that loses their answers, as fixtures for any test."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.conftest import ROOT
from tests.owners import kinto as kinto_owner
from tests.owners import localstripe as localstripe_owner
from tests.owners import maildev as maildev_owner
from tests.owners import mcp_servers
from tests.owners import postgres as postgres_server
from tests.owners import prefect as prefect_owner
from tests.owners.fault_proxy import FaultProxy
from tests.owners.kinto import Kinto
from tests.owners.localstripe import LocalStripe
from tests.owners.maildev import MailDev
from tests.owners.mcp_servers import McpServer
from tests.owners.postgres import Postgres
from tests.owners.prefect import Prefect


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


@pytest.fixture(scope="session")
def prefect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prefect]:
    """A running Prefect server."""
    with prefect_owner.running(tmp_path_factory.mktemp("prefect")) as running:
        yield running


@pytest.fixture(scope="session")
def localstripe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStripe]:
    """A running localstripe."""
    with localstripe_owner.running(tmp_path_factory.mktemp("localstripe")) as running:
        yield running


@pytest.fixture(scope="session")
def maildev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MailDev]:
    """A running maildev."""
    with maildev_owner.running(tmp_path_factory.mktemp("maildev")) as running:
        yield running


@pytest.fixture(scope="session")
def mcp_git(tmp_path_factory: pytest.TempPathFactory) -> Iterator[McpServer]:
    """A running mcp-server-git."""
    with mcp_servers.git(tmp_path_factory.mktemp("mcp_git")) as running:
        yield running


@pytest.fixture(scope="session")
def mcp_memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[McpServer]:
    """A running server-memory."""
    with mcp_servers.memory(tmp_path_factory.mktemp("mcp_memory")) as running:
        yield running


@pytest.fixture(scope="session")
def mcp_everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[McpServer]:
    """A running server-everything."""
    with mcp_servers.everything(tmp_path_factory.mktemp("mcp_everything")) as running:
        yield running


@pytest.fixture(scope="session")
def postgres_owner() -> Iterator[Postgres]:
    """A PostgreSQL that is an owner, beside the ledger's."""
    with postgres_server.running(ROOT) as running:
        yield running
