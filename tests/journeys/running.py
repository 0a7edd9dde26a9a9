"""A running Ascertain as fixtures: one web server and one set of workers for a whole test process.

Loaded as a plugin by the conftest of each folder that needs it, so that a session's programs are started once.
"""

import os
import random
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.core.management import call_command

from ledger.rules.contract import parse_contract
from recovery.client import Ascertain, Decision, GuardedOperation, Operation
from recovery.local import broker
from tests.conftest import Bench, Database, make_bench
from tests.journeys import programs
from tests.journeys.programs import Workers
from tests.owners.fault_proxy import FaultProxy
from tests.owners.fixtures import Collection
from tests.owners.kinto import AUTHORIZATION, CREDENTIAL, TOOL

CLAIM_SECONDS = 10
"""How long a claim lasts here: 30 s in production, and a test of a kill waits for its end."""
SHUFFLE = "ASCERTAIN_SHUFFLE"
"""With a number in it the tests run in another order, told by that number (`make soak`)."""
_BEGUN: list[Workers] = []
"""Workers that a test started and none has ended."""
TICKET = {"title": "Export broken", "customer": "c-19"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Another order for every soak; and what needs these programs stays in one process (`--dist loadgroup`)."""
    for item in items:
        if "web" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("programs"))
    if seed := os.environ.get(SHUFFLE):
        random.Random(int(seed)).shuffle(items)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Workers that a test left running would look at the operations of every test after it: they end before one that
    does not ask for them."""
    if "fleet" not in getattr(item, "fixturenames", ()):
        while _BEGUN:
            _BEGUN.pop().stop()


def pytest_report_header() -> str | None:
    """Say which order it is, so that it can be had again."""
    seed = os.environ.get(SHUFFLE)
    return f"order: {SHUFFLE}={seed}" if seed else None


@pytest.fixture(scope="session")
def environment(database: Database) -> Iterator[dict[str, str]]:
    """What the programs of this session get: the application's role, the queue's own role, the owner's credential.

    In a soak the whole ledger is verified once they have ended; elsewhere other tests spoil ledgers on purpose.
    """
    broker.install_as_superuser(url=database.superuser_url)
    yield programs.environment(
        database_url=database.app_url,
        broker_url=database.broker_url,
        ASCERTAIN_CLAIM_SECONDS=str(CLAIM_SECONDS),
        ASCERTAIN_PRIVATE_DESTINATIONS="127.0.0.1",
        **{CREDENTIAL: AUTHORIZATION},
    )
    if SHUFFLE in os.environ:
        call_command("verify_ledger")


@pytest.fixture(scope="session")
def web(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running web server."""
    with programs.web(env=environment, folder=tmp_path_factory.mktemp("web")) as address:
        yield address


@pytest.fixture(scope="session")
def fleet(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    """Two worker nodes and beat over PGMQ, running or not."""
    made = programs.workers(env=environment, folder=tmp_path_factory.mktemp("workers"))
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def workers(fleet: Workers) -> Workers:
    """Two worker nodes and beat, all running at the start of the test."""
    fleet.start()
    _BEGUN[:] = [fleet]
    return fleet


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
def contract() -> dict[str, Any]:
    """Members in place of those of Kinto's contract. By default there is more time to send: on a busy machine two
    seconds pass, and a permit that ended is (rightly) not used.
    """
    return {"dispatch_within": "15s"}


@pytest.fixture
def journey(web: str, fault_proxy: FaultProxy, collection: Collection, contract: dict[str, Any]) -> Iterator[Journey]:
    """A journey that may begin, in a fresh workspace."""
    bench = make_bench(owner_url=fault_proxy.url)
    document = parse_contract(collection.contract()).model_dump(mode="json", by_alias=True, exclude_unset=True)
    bench.publish({**document, **contract})
    with Ascertain(web, bench.token) as client:
        yield Journey(
            web=web,
            bench=bench,
            owner=fault_proxy,
            records=collection,
            client=client,
            operation_id=f"ticket-{uuid.uuid4().hex[:8]}",
        )
