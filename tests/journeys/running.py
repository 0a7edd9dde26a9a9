"""A running Ascertain as fixtures: one web server and one set of workers for a whole test process.

Loaded as a plugin by the conftest of each folder that needs it, so that a session's programs are started once.
"""

import os
import random
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ledger.rules.contract import parse_contract
from recovery.client import Ascertain, Decision, GuardedOperation, Operation
from recovery.local import broker
from tests.conftest import Bench, Database, make_bench
from tests.journeys import programs
from tests.journeys.programs import Workers
from tests.owners.fault_proxy import FaultProxy
from tests.owners.fixtures import Collection
from tests.owners.kinto import AUTHORIZATION, CREDENTIAL, TOOL

CLAIM_SECONDS = 4
"""How long a claim lasts here: 30 s in production, and a test of a kill waits for its end."""
SHUFFLE = "ASCERTAIN_SHUFFLE"
"""With a number in it the tests run in another order, told by that number (`make soak`)."""
TICKET = {"title": "Export broken", "customer": "c-19"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Another order for every soak. Modules stay whole where they begin, so that sessions' programs do not matter."""
    if seed := os.environ.get(SHUFFLE):
        random.Random(int(seed)).shuffle(items)


def pytest_report_header() -> str | None:
    """Say which order it is, so that it can be had again."""
    seed = os.environ.get(SHUFFLE)
    return f"order: {SHUFFLE}={seed}" if seed else None


@pytest.fixture(scope="session")
def environment(database: Database) -> dict[str, str]:
    """What the programs of this session get: the application's role, the queue's own role, the owner's credential."""
    broker.install_as_superuser(url=database.superuser_url)
    return programs.environment(
        database_url=database.app_url,
        broker_url=database.broker_url,
        ASCERTAIN_CLAIM_SECONDS=str(CLAIM_SECONDS),
        **{CREDENTIAL: AUTHORIZATION},
    )


@pytest.fixture(scope="session")
def web(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running web server."""
    with programs.web(env=environment, folder=tmp_path_factory.mktemp("web")) as address:
        yield address


@pytest.fixture(scope="session")
def _fleet(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    made = programs.workers(env=environment, folder=tmp_path_factory.mktemp("workers"))
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def workers(_fleet: Workers) -> Workers:
    """Two worker nodes and beat, all running at the start of the test."""
    _fleet.start()
    return _fleet


@pytest.fixture(scope="session", autouse=True)
def _ledger_is_whole(database: Database) -> Iterator[None]:
    """After the last test of a session: the command that checks the whole ledger finds nothing."""
    yield
    from django.core.management import call_command, get_commands

    if "verify_ledger" in get_commands():
        call_command("verify_ledger")


@dataclass(frozen=True, slots=True, kw_only=True)
class Journey:
    """A harness, its workspace at a running Ascertain, and a real owner behind a proxy that can lose answers."""

    web: str
    bench: Bench
    owner: FaultProxy
    records: Collection
    client: Ascertain
    operation_id: str

    def begin(self) -> GuardedOperation:
        """The intended effect: one ticket."""
        return self.client.operation(tool=TOOL, operation_id=self.operation_id, payload=TICKET)

    def send(self, operation: GuardedOperation) -> Decision:
        """The call itself, as the contract describes it."""
        return operation.send(
            "PUT",
            f"{self.owner.url}{self.records.path}/{self.operation_id}",
            json={"data": TICKET},
            headers={"authorization": AUTHORIZATION, "if-none-match": "*"},
        )

    def read(self) -> Operation:
        """The operation as it stands."""
        return self.client.read(operation_id=self.operation_id)

    def writes(self) -> int:
        """How many write requests reached the owner."""
        return self.owner.forwarded("PUT ")


@pytest.fixture
def journey(web: str, fault_proxy: FaultProxy, collection: Collection) -> Iterator[Journey]:
    """A journey that may begin."""
    yield from journeys(web=web, owner=fault_proxy, records=collection)


def journeys(
    *, web: str, owner: FaultProxy, records: Collection, contract: dict[str, Any] | None = None
) -> Iterator[Journey]:
    """A journey in a fresh workspace; its client is closed at the end. `contract` has members in place of Kinto's."""
    bench = make_bench(owner_url=owner.url)
    document = parse_contract(records.contract()).model_dump(mode="json", by_alias=True, exclude_unset=True)
    bench.publish({**document, **(contract or {})})
    with Ascertain(web, bench.token) as client:
        yield Journey(
            web=web,
            bench=bench,
            owner=owner,
            records=records,
            client=client,
            operation_id=f"ticket-{uuid.uuid4().hex[:8]}",
        )


def logs(folder: Path) -> str:
    """What the programs whose output lies in a folder said."""
    return "\n".join(f"{file.name}:\n{file.read_text()[-2000:]}" for file in sorted(folder.glob("*.log")))
