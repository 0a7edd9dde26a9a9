"""Kinto, a real third-party record store, as an owner on loopback.

It lives in an environment of its own (it needs setuptools below 80), built once below `.local/owners/` and shared by
all test processes. Record ids match `^[a-zA-Z0-9][a-zA-Z0-9_-]*$` (kinto.core.storage.generators, 26.5.0), so operation
ids that travel as record ids must too: `ticket-create-case-8472`, without `:` or `.`.
"""

import base64
import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.owners.environments import python_environment
from tests.owners.running import Program, connects, free_port, started

VERSION = "26.5.0"
REQUIREMENTS = (f"kinto=={VERSION}", "setuptools<80")
CREDENTIAL = "KINTO_CREDENTIAL"
"""The environment variable that the contract names; its value is a whole `Authorization` header."""
AUTHORIZATION = "Basic " + base64.b64encode(b"ascertain:recovery").decode()
CONTRACT = Path(__file__).with_name("kinto_tickets.yaml")
TOOL = "kinto.tickets.create"

_SETTINGS = """\
[server:main]
use = egg:waitress#main
host = 127.0.0.1
port = %(http_port)s

[app:main]
use = egg:kinto
kinto.storage_backend = kinto.core.storage.memory
kinto.cache_backend = kinto.core.cache.memory
kinto.permission_backend = kinto.core.permission.memory
kinto.userid_hmac_secret = tests-only
kinto.bucket_create_principals = system.Authenticated
multiauth.policies = basicauth
"""
"""Kinto's own basic authentication, which takes any name and password as that user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kinto:
    """A running Kinto."""

    port: int
    program: Program = field(repr=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def make_collection(self, bucket: str, collection: str) -> None:
        """Create both; what exists already stays."""
        self._call("PUT", f"/v1/buckets/{bucket}")
        self._call("PUT", f"/v1/buckets/{bucket}/collections/{collection}")

    def records(self, bucket: str, collection: str) -> list[dict[str, Any]]:
        """Every record, asked past any proxy."""
        records: list[dict[str, Any]] = self._call("GET", f"{records_path(bucket, collection)}?_limit=1000")["data"]
        return records

    def count(self, bucket: str, collection: str) -> int:
        """How many records there are, asked past any proxy."""
        return len(self.records(bucket, collection))

    def _call(self, method: str, path: str) -> Any:
        request = urllib.request.Request(self.url + path, method=method, headers={"authorization": AUTHORIZATION})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)


def records_path(bucket: str, collection: str) -> str:
    """The path of a collection's records."""
    return f"/v1/buckets/{bucket}/collections/{collection}/records"


@contextmanager
def running(folder: Path) -> Iterator[Kinto]:
    """A fresh Kinto that keeps its records in memory, stopped at the end. `folder` holds its settings and output."""
    command = python_environment(name=f"kinto-{VERSION}", requirements=REQUIREMENTS) / "kinto"
    settings = folder / "kinto.ini"
    settings.write_text(_SETTINGS)
    port = free_port()
    program = Program(
        name="kinto",
        command=[command, "start", "--ini", settings, "--port", str(port)],
        folder=folder,
        environ={"PYTHONWARNINGS": "ignore"},
        is_up=lambda: connects(port),
    )
    with started(program):
        yield Kinto(port=port, program=program)


def contract(*, bucket: str, collection: str) -> str:
    """The contract of `tickets` kept as Kinto records, as YAML."""
    return CONTRACT.read_text().replace("BUCKET", bucket).replace("COLLECTION", collection)
