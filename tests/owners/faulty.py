"""A harness writes at a real owner, something goes wrong on purpose, and the ledger finds out: the same play for every
owner, told by `Subject`.

| fault         | the owner acts | the harness sees                                        |
| ------------- | -------------- | ------------------------------------------------------- |
| `answer_lost` | yes            | a reset                                                 |
| `request_lost`| no             | a reset                                                 |
| `silence`     | yes            | nothing, until it gives up                              |
| `bad_gateway` | yes            | 502 from somebody on the way                            |
| `limited`     | no             | a refusal by the limiter, with a wait where there is one |
| `crash`       | yes            | a reset; the owner dies before it can be asked, and comes back |
| `unchecked`   | yes            | success; then nobody answers who is asked about it      |
"""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from email.message import EmailMessage
from enum import StrEnum
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode

import yaml

from tests.owners import kinto, localstripe, maildev, mcp_servers, postgres, prefect
from tests.owners.fault_proxy import FaultProxy
from tests.owners.harness import PATIENCE, McpHarness, Observation, in_postgres, over_http, over_smtp
from tests.owners.running import Program
from tests.owners.wire_proxy import WireProxy

TITLE = "Export broken"
QUICK = {
    "timeout": "1500ms",
    "dispatch_within": "500ms",
    "poll": {"first": "50ms", "factor": 1.5, "max": "500ms", "jitter": 0},
    "retry": {"first": "50ms", "factor": 1, "max": "50ms", "jitter": 0},
    "deadline": "2m",
}
"""Waits that a test can afford."""


class Fault(StrEnum):
    """What goes wrong."""

    ANSWER_LOST = "answer_lost"
    REQUEST_LOST = "request_lost"
    SILENCE = "silence"
    BAD_GATEWAY = "bad_gateway"
    LIMITED = "limited"
    CRASH = "crash"
    UNCHECKED = "unchecked"


_HTTP = {
    Fault.ANSWER_LOST: "drop_after",
    Fault.REQUEST_LOST: "drop_before",
    Fault.SILENCE: "hang_after",
    Fault.BAD_GATEWAY: "502_after",
    Fault.LIMITED: "429",
    Fault.CRASH: "drop_after",
}


class Subject(ABC):
    """One owner as one test sees it: what is written is found nowhere else there."""

    program: Program | postgres.Postgres
    proxy: FaultProxy | None = None
    """Before what Ascertain asks over HTTP."""

    def __init__(self) -> None:
        self.id = f"op-{uuid.uuid4().hex[:12]}"
        """The operation's id, of this test alone."""

    @property
    @abstractmethod
    def address(self) -> str:
        """Where Ascertain asks."""

    @abstractmethod
    def contract(self) -> dict[str, Any]:
        """What the administrator published."""

    @property
    def payload(self) -> dict[str, Any]:
        """What is meant."""
        return {"title": TITLE}

    @abstractmethod
    def break_next_write(self, fault: Fault) -> None:
        """Once."""

    @abstractmethod
    def write(self, key: str | None) -> Observation:
        """The harness acts with a permit that carries this key (None: the owner knows none), and tells what it saw."""

    @abstractmethod
    def effects(self) -> int:
        """How often it happened, asked past every proxy."""

    @abstractmethod
    def close(self) -> None:
        """What belongs to this test alone ends."""


class _OverHttp(Subject):
    """Everything but the count of effects goes through one proxy."""

    writes = ""
    """What the first line of a write holds."""
    writes_within = ""
    """What its body holds."""

    def __init__(self, *, port: int) -> None:
        super().__init__()
        self.proxy: FaultProxy = FaultProxy(upstream_port=port)
        self.proxy.__enter__()

    @property
    def address(self) -> str:
        return self.proxy.url

    def break_next_write(self, fault: Fault) -> None:
        self.proxy.fail(_HTTP[fault], times=1, match=self.writes, within=self.writes_within)

    def close(self) -> None:
        self.proxy.__exit__()


class KintoSubject(_OverHttp):
    """PUT with If-None-Match at an address of ours."""

    writes = "PUT "
    path = "/v1/buckets/{bucket}/collections/tickets/records"

    def __init__(self, owner: kinto.Kinto) -> None:
        super().__init__(port=owner.port)
        self.owner, self.program = owner, owner.program
        self.bucket = f"b{uuid.uuid4().hex[:12]}"
        owner.make_collection(self.bucket, "tickets")

    def contract(self) -> dict[str, Any]:
        path = kinto.records_path(self.bucket, "tickets")
        return {
            "contract": "tickets.create",
            "effect": "write",
            "owner": "helpdesk",
            "preset": "http-conditional-put",
            "with": {
                "path": path.removeprefix("/"),
                "lag": "0s",
                "sees": "all",
                "credential": f"env:{kinto.CREDENTIAL}",
            },
            "verify": {
                "http": {"path": f"{path}/{{idempotency_key}}"},
                "expect": {"title": "body.data.title"},
                "as": f"env:{kinto.CREDENTIAL}",
            },
        }

    def write(self, key: str | None) -> Observation:
        headers = {"authorization": kinto.AUTHORIZATION, "if-none-match": "*"}
        url = f"{self.proxy.url}{kinto.records_path(self.bucket, 'tickets')}/{key}"
        return over_http("PUT", url, key=key, json={"data": self.payload}, headers=headers)

    def effects(self) -> int:
        try:
            return self.owner.count(self.bucket, "tickets")
        except HTTPError as error:
            if error.code != 403:
                raise
            # Kinto's word for a bucket that is not there, to somebody who could make it.
            return 0


class PrefectSubject(_OverHttp):
    """A run of a flow under a key, which is done as soon as it is there."""

    writes_within = '"flow_id"'

    def __init__(self, owner: prefect.Prefect) -> None:
        super().__init__(port=owner.port)
        self.owner, self.program = owner, owner.program
        self.flow = owner.new_flow()
        self.state: str | None = "COMPLETED"
        """The state in which a run begins; None: Prefect's own."""

    def contract(self) -> dict[str, Any]:
        return _read(prefect.CONTRACT)

    def write(self, key: str | None) -> Observation:
        return self.run(key, self.payload)

    def run(self, key: str | None, parameters: dict[str, Any], *, patience: float = PATIENCE) -> Observation:
        """Ask for a run."""
        body = {"flow_id": self.flow, "idempotency_key": key, "parameters": parameters}
        state = {"state": {"type": self.state}} if self.state else {}
        url = f"{self.proxy.url}{prefect.RUNS}"
        return over_http("POST", url, key=key, patience=patience, json={**body, **state})

    def effects(self) -> int:
        return len(self.owner.runs(self.flow))


class LocalStripeSubject(_OverHttp):
    """A customer, with the operation's id written into it."""

    writes = "POST /v1/customers"

    def __init__(self, owner: localstripe.LocalStripe) -> None:
        super().__init__(port=owner.port)
        self.owner, self.program = owner, owner.program

    @property
    def payload(self) -> dict[str, Any]:
        return {"email": f"{self.id}@tests.example"}

    def contract(self) -> dict[str, Any]:
        return _read(localstripe.CONTRACT)

    def write(self, key: str | None) -> Observation:
        form = {**self.payload, "metadata[operation]": self.id}
        headers = {
            "authorization": localstripe.AUTHORIZATION,
            "content-type": "application/x-www-form-urlencoded",
            "idempotency-key": self.id,  # it ignores this
        }
        url = f"{self.proxy.url}/v1/customers"
        return over_http("POST", url, key=key, content=urlencode(form).encode(), headers=headers)

    def effects(self) -> int:
        return len(self.owner.customers(self.payload["email"]))


class _OverMcp(_OverHttp):
    """A tool of an MCP server."""

    writes = "POST "

    def __init__(self, owner: mcp_servers.McpServer) -> None:
        super().__init__(port=owner.port)
        self.owner, self.program = owner, owner.program

    @property
    def address(self) -> str:
        return f"{self.proxy.url}/mcp"

    def harness(self) -> McpHarness:
        harness = McpHarness(self.address)
        harness.open()
        return harness


class GitSubject(_OverMcp):
    """A branch that bears the operation's name."""

    writes_within = '"git_create_branch"'

    def contract(self) -> dict[str, Any]:
        return _read(mcp_servers.GIT_CONTRACT.replace("REPOSITORY", str(self.owner.home)))

    def write(self, key: str | None) -> Observation:
        arguments = {"repo_path": str(self.owner.home), "branch_name": self.id}
        return self.harness().call("git_create_branch", arguments)

    def effects(self) -> int:
        return mcp_servers.branches(self.owner, self.id)


class MemorySubject(_OverMcp):
    """An entity that bears the operation's name."""

    writes_within = '"create_entities"'

    def contract(self) -> dict[str, Any]:
        return _read(mcp_servers.MEMORY_CONTRACT)

    def write(self, key: str | None) -> Observation:
        entity = {"name": self.id, "entityType": "ticket", "observations": [TITLE]}
        return self.harness().call("create_entities", {"entities": [entity]})

    def effects(self) -> int:
        return mcp_servers.entities(self.owner, self.id)


class EverythingSubject(_OverMcp):
    """A task of 2025-11-25; its id is the server's."""

    writes_within = '"simulate-research-query"'

    def contract(self) -> dict[str, Any]:
        return _read(mcp_servers.TASK_CONTRACT)

    def write(self, key: str | None) -> Observation:
        self.begun = self.harness()
        return self.begun.call("simulate-research-query", {"topic": self.id}, task={"ttl": 60_000})

    def effects(self) -> int:
        """Tasks are listed in the session that began them, as long as the server lives."""
        listed = self.begun.try_to_ask("tasks/list", {})
        return len(listed["tasks"]) if listed is not None else 0


class MailDevSubject(Subject):
    """A mail under a Message-ID of ours."""

    def __init__(self, owner: maildev.MailDev) -> None:
        super().__init__()
        self.owner, self.program = owner, owner.program
        self.wire = WireProxy(upstream_port=owner.smtp_port)
        self.proxy: FaultProxy = FaultProxy(upstream_port=owner.port)
        self.wire.__enter__()
        self.proxy.__enter__()

    @property
    def address(self) -> str:
        return self.proxy.url

    @property
    def payload(self) -> dict[str, Any]:
        return {"subject": TITLE, "to": f"{self.id}@tests.example"}

    def contract(self) -> dict[str, Any]:
        return _read(maildev.CONTRACT)

    def break_next_write(self, fault: Fault) -> None:
        end = b"\r\n.\r\n"
        if fault is Fault.SILENCE:
            self.wire.go_silent_after(end)
        elif fault is Fault.REQUEST_LOST:
            self.wire.cut_before(end)
        elif fault is Fault.LIMITED:
            self.wire.answer_instead(b"MAIL FROM", b"421 4.7.0 Too many connections, try again later\r\n")
        else:
            self.wire.lose_answer_to(end)

    def write(self, key: str | None) -> Observation:
        message = EmailMessage()
        message["From"], message["To"] = "harness@tests.example", self.payload["to"]
        message["Subject"], message["Message-ID"] = TITLE, key
        message.set_content("It is broken.")
        return over_smtp(port=self.wire.port, message=message)

    def effects(self) -> int:
        return len(self.owner.mails(self.payload["to"]))

    def close(self) -> None:
        self.wire.__exit__()
        self.proxy.__exit__()


class PostgresSubject(Subject):
    """A row, in a transaction whose id the harness reads before COMMIT."""

    def __init__(self, owner: postgres.Postgres) -> None:
        super().__init__()
        self.owner = self.program = owner
        self.wire = WireProxy(upstream_port=owner.port)
        self.wire.__enter__()

    @property
    def address(self) -> str:
        return f"postgresql://127.0.0.1:{self.owner.port}"

    def contract(self) -> dict[str, Any]:
        return _read(postgres.CONTRACT)

    def break_next_write(self, fault: Fault) -> None:
        if fault is Fault.SILENCE:
            self.wire.go_silent_after(b"COMMIT")
        elif fault is Fault.REQUEST_LOST:
            self.wire.cut_before(b"COMMIT")
        elif fault is Fault.LIMITED:
            self.owner.admin("ALTER ROLE writer CONNECTION LIMIT 0")
        else:
            self.wire.lose_answer_to(b"COMMIT")

    def write(self, key: str | None) -> Observation:
        url = self.owner.url(port=self.wire.port)
        seen = in_postgres(url=url, statement=postgres.WRITE, parameters={"key": self.id, **self.payload})
        self.owner.admin("ALTER ROLE writer CONNECTION LIMIT -1")
        return seen

    def effects(self) -> int:
        return self.owner.entries(self.id)

    def close(self) -> None:
        self.wire.__exit__()


SUBJECTS: Mapping[str, Callable[[Any], Subject]] = {
    "kinto": KintoSubject,
    "prefect": PrefectSubject,
    "localstripe": LocalStripeSubject,
    "mcp_git": GitSubject,
    "mcp_memory": MemorySubject,
    "mcp_everything": EverythingSubject,
    "maildev": MailDevSubject,
    "postgres_owner": PostgresSubject,
}
"""Each by the name of the fixture that runs its owner."""


def _read(text: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(text)
    return document
