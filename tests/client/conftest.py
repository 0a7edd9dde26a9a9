"""The harness of the client's tests: the same story told by the blocking and the asynchronous client."""

import shutil
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from recovery.client import Ascertain, AsyncAscertain, Decision, Patience
from tests.client.loops import run
from tests.client.wire_server import TOKEN, WireServer

QUICK = Patience(timeout=3.0, tries=4, first_pause=0.01, longest_pause=0.05)


@pytest.fixture
def ledger() -> Iterator[WireServer]:
    with WireServer() as server:
        yield server


class Story:
    """Runs one operation's story with either client, and keeps the operation for looking at it."""

    def __init__(self, ledger: WireServer, flavour: str) -> None:
        self.ledger = ledger
        self.flavour = flavour
        self.op: Any = None

    def send(self, method: str, url: str, *, operation_id: str = "op-1", **options: Any) -> Decision:
        """Open, send once, leave."""
        return self.tell(lambda op: op.send(method, url, **options), operation_id=operation_id)

    def tell(
        self,
        story: Callable[[Any], Any],
        *,
        operation_id: str = "op-1",
        payload: Any = None,
        patience: Patience = QUICK,
        token: str = TOKEN,
        **intent: Any,
    ) -> Any:
        """`story` gets the operation; what it returns may be awaitable."""
        what = {
            "tool": "tickets.create",
            "operation_id": operation_id,
            "payload": payload or {"title": "Export broken"},
            **intent,
        }
        if self.flavour == "blocking":
            with (
                Ascertain(self.ledger.url, token, patience=patience) as ascertain,
                ascertain.operation(**what) as self.op,
            ):
                return story(self.op)
        return run(self._tell(story, what, patience, token))

    async def _tell(self, story: Callable[[Any], Any], what: Any, patience: Patience, token: str) -> Any:
        async with (
            AsyncAscertain(self.ledger.url, token, patience=patience) as ascertain,
            ascertain.operation(**what) as self.op,
        ):
            result = story(self.op)
            return await result if isinstance(result, Awaitable) else result

    @property
    def observation(self) -> dict[str, Any]:
        """The only report."""
        assert len(self.ledger.reports) == 1, self.ledger.reports
        return self.ledger.reports[0][1]


@pytest.fixture(params=["blocking", "asynchronous"])
def story(request: pytest.FixtureRequest, ledger: WireServer) -> Story:
    return Story(ledger, request.param)


@pytest.fixture(scope="session")
def self_signed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file with a key and a certificate for 127.0.0.1 that no authority signed."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("certificate")
    subprocess.run(
        [
            *(openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")),
        ],
        check=True,
        capture_output=True,
    )
    both = folder / "both.pem"
    both.write_text((folder / "key.pem").read_text() + (folder / "cert.pem").read_text())
    return str(both)
