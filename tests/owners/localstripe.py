"""localstripe, a third-party stand-in for a payment provider, as an owner on loopback. It ignores idempotency keys: what
was made is found again only by what was written into it."""

import base64
import json
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.owners.environments import python_environment
from tests.owners.running import Program, connects, free_port, started

VERSION = "1.15.10"
CREDENTIAL = "LOCALSTRIPE_CREDENTIAL"
AUTHORIZATION = "Basic " + base64.b64encode(b"sk_test_12345:").decode()
CONTRACT = f"""\
contract: customers.create
effect: write
owner: helpdesk
preset: http-no-key-lookup
with:
  search: "/v1/customers?email={{payload.email}}&limit=100"
  items: body.data
  match: "item.metadata.operation == operation_id"
  credential: env:{CREDENTIAL}
success: "status == 200 && body.object == 'customer'"
receipt: {{id: body.id}}
verify:
  http: {{path: "/v1/customers/{{receipt.id}}"}}
  expect: {{email: body.email}}
  as: env:{CREDENTIAL}
"""
_PROGRAM = """\
import builtins, sys
import localstripe.resources
store, port = sys.argv[1:]
# It keeps what it holds in one file of the machine; each of ours has its own.
localstripe.resources.open = lambda path, mode: builtins.open(store, mode)
from aiohttp import web
from localstripe import server
server.store.try_load_from_disk()
web.run_app(server.app, host="127.0.0.1", port=int(port), print=None)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalStripe:
    """A running localstripe. Its customers outlive it, in a file in its folder."""

    port: int
    program: Program = field(repr=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def customers(self, email: str) -> list[dict[str, Any]]:
        """All with this address, asked past any proxy."""
        path = "/v1/customers?" + urllib.parse.urlencode({"email": email, "limit": 100})
        request = urllib.request.Request(self.url + path, headers={"authorization": AUTHORIZATION})
        with urllib.request.urlopen(request, timeout=10) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]
            return found


@contextmanager
def running(folder: Path) -> Iterator[LocalStripe]:
    """A fresh localstripe, stopped at the end."""
    python = python_environment(name=f"localstripe-{VERSION}", requirements=(f"localstripe=={VERSION}",)) / "python"
    port = free_port()
    program = Program(
        name="localstripe",
        command=[python, "-c", _PROGRAM, folder / "store", str(port)],
        folder=folder,
        is_up=lambda: connects(port),
    )
    with started(program):
        yield LocalStripe(port=port, program=program)
