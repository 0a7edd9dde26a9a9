"""maildev, a third-party mail server, as an owner on loopback: mail goes in by SMTP and is found again over HTTP."""

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.owners.environments import node_environment
from tests.owners.running import Program, connects, free_port, started

VERSION = "3.0.0"
CONTRACT = """\
contract: letters.send
effect: write
owner: helpdesk
preset: email-smtp
lookup:
  - by: search
    http: {path: "/api/email?headers.message-id={idempotency_key}"}
    items: body
    match: "item.headers['message-id'] == idempotency_key"
    same: {subject: body.subject}
verify:
  http: {path: "/api/email?headers.message-id={idempotency_key}"}
  expect: {subject: "body[0].subject"}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MailDev:
    """A running maildev. Its mails outlive it, in a folder."""

    smtp_port: int
    port: int
    """Of its API over HTTP."""
    program: Program = field(repr=False)

    def mails(self, to: str) -> list[dict[str, Any]]:
        """All to this address, asked past any proxy."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/email", timeout=10) as answer:
            return [mail for mail in json.load(answer) if to in json.dumps(mail["to"])]


@contextmanager
def running(folder: Path) -> Iterator[MailDev]:
    """A fresh maildev, stopped at the end."""
    command = node_environment(name=f"maildev-{VERSION}", packages=(f"maildev@{VERSION}",)).command("maildev")
    smtp, web = free_port(), free_port()
    (folder / "mails").mkdir()

    def is_up() -> None:
        connects(smtp)
        connects(web)

    program = Program(
        name="maildev",
        command=[
            *command,
            *("--ip", "127.0.0.1", "--smtp", str(smtp), "--web-ip", "127.0.0.1", "--web", str(web)),
            *("--mail-directory", folder / "mails"),
        ],
        folder=folder,
        is_up=is_up,
    )
    with started(program):
        yield MailDev(smtp_port=smtp, port=web, program=program)
