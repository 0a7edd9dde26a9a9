"""`manage.py contracts check FILE…` and `manage.py contracts import FILE… --workspace SLUG --owner-url URL`."""

from argparse import ArgumentParser
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from ledger.queries.clock import database_now
from ledger.queries.workspaces import workspace_by_slug
from ledger.rules.contract import Contract, ContractInvalid, Problem, parse_contract, unsupported
from ledger.rules.contract_document import read_document
from ledger.transitions.contracts import publish_contract
from ledger.transitions.workspace import ensure_owner


class Command(BaseCommand):
    """Exit 1 when a file cannot be taken: every problem with its file, line and path, and nothing published."""

    help = (
        "check: reads contract documents and says what is wrong with them. "
        "import: the same, then publishes all of them in one transaction; their owner is created or moved to --owner-url."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """What to do, with which files, and where."""
        parser.add_argument("action", choices=["check", "import"])
        parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
        parser.add_argument("--workspace", metavar="SLUG", help="the workspace that the contracts are published in")
        parser.add_argument("--owner-url", metavar="URL", help="where lookups go, for example https://helpdesk.example")

    def handle(self, *_: Any, **options: Any) -> None:
        """Check every file, then publish."""
        contracts = self._checked(options["files"])
        if options["action"] == "check":
            return
        slug, url = options["workspace"], options["owner_url"]
        if not slug or not url:
            raise CommandError("import needs --workspace SLUG and --owner-url URL.")
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or len(url) > 500:
            raise CommandError(
                f"{url} is not an address that lookups could go to; write https://host or http://host:port."
            )
        workspace_id = workspace_by_slug(slug=slug)
        if workspace_id is None:
            raise CommandError(f"There is no workspace {slug}.")
        with transaction.atomic():
            for file, contract in contracts:
                owner_id = ensure_owner(workspace_id=workspace_id, name=contract.owner, base_url=url)
                published = publish_contract(
                    workspace_id=workspace_id, contract=contract, owner_id=owner_id, now=database_now()
                )
                self.stdout.write(f"{file}: {contract.contract}@{published[1]} holds in {slug} from now on.")

    def _checked(self, files: list[Path]) -> list[tuple[Path, Contract]]:
        contracts: list[tuple[Path, Contract]] = []
        wrong = 0
        for file in files:
            try:
                contract = _parsed(file.read_text("utf-8"))
            except (OSError, UnicodeDecodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
                self.stderr.write(f"{file}: cannot be read: {reason}.")
                wrong += 1
            except ContractInvalid as invalid:
                for problem in invalid.problems:
                    self.stderr.write(_shown(file, problem))
                wrong += 1
            else:
                contracts.append((file, contract))
                self.stdout.write(f"{file}: {contract.contract} can be published.")
        if wrong:
            raise CommandError(f"{wrong} of {len(files)} files cannot be taken. Nothing was published.")
        return contracts


def _parsed(text: str) -> Contract:
    contract = parse_contract(text)
    if problems := unsupported(contract):
        written = read_document(text)
        raise ContractInvalid(tuple(replace(problem, line=written.line_of(problem.path)) for problem in problems))
    return contract


def _shown(file: Path, problem: Problem) -> str:
    """`tickets.yaml:12: lookup[0].found: …`, as editors and compilers write it."""
    line = f":{problem.line}" if problem.line else ""
    return f"{file}{line}: {problem.path or 'the document'}: {problem.message}"
