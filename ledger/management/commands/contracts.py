"""`manage.py contracts`: contracts that are kept as YAML, from a preset and a few lines to a published version.

| call | does |
| --- | --- |
| `contracts check FILE…` | says all that is wrong, by file, line and path, and what could be better; needs no database |
| `contracts import FILE… --workspace SLUG --owner-url URL` | checks all of them, then publishes all of them or none |
| `contracts export --workspace SLUG [TOOL] [--version N] [--to FOLDER]` | writes what was published, as YAML that imports to the same digest |
| `contracts schema` | prints the JSON Schema, for editors |
| `contracts presets [NAME]` | lists the presets, or prints one |
"""

import ipaddress
import json
import math
import re
from argparse import ArgumentParser, ArgumentTypeError
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from ledger.queries.clock import database_now
from ledger.queries.contracts import PublishedDocument, published_documents
from ledger.queries.workspaces import workspace_by_slug
from ledger.rules.contract import Checked, ContractInvalid, Problem, check_contract
from ledger.rules.contract_schema import contract_schema
from ledger.rules.contract_text import contract_text
from ledger.rules.presets import preset, preset_names, preset_text
from ledger.transitions.contracts import publish_contract
from ledger.transitions.workspace import ensure_owner

_HOST: Final = re.compile(
    r"(?=.{1,253}$)[A-Za-z0-9_]([A-Za-z0-9_-]{0,62})(\.[A-Za-z0-9_]([A-Za-z0-9_-]{0,62}))*", re.ASCII
)
_MOST_AT_ONCE: Final = 1_000


class Command(BaseCommand):
    """Exit 1 when a file cannot be taken: every problem with its file, line and path, and nothing published."""

    help = (
        "check: says what is wrong with contract documents, as publishing would. "
        "import: the same, then publishes all of them in one transaction. export: writes published contracts as YAML. "
        "schema: prints the JSON Schema for editors. presets: lists what is known of owners."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """One sub-command for each line of the table above."""
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        check = actions.add_parser("check", help="say what is wrong with contract documents")
        check.add_argument("files", nargs="+", type=Path, metavar="FILE")
        taking = actions.add_parser("import", help="check contract documents, then publish all of them")
        taking.add_argument("files", nargs="+", type=Path, metavar="FILE")
        taking.add_argument("--workspace", metavar="SLUG", help="the workspace that the contracts are published in")
        taking.add_argument("--owner-url", metavar="URL", help="where lookups go, for example https://helpdesk.example")
        taking.add_argument(
            "--owner-host", metavar="HOST", action="append", default=[], type=_host,
            help="a further host that may be asked, such as the one of its operation addresses; may be repeated",
        )  # fmt: skip
        taking.add_argument(
            "--owner-private-host", metavar="HOST", action="append", default=[], type=_host,
            help="a host that may have a loopback or private address; may be repeated",
        )  # fmt: skip
        taking.add_argument(
            "--most-at-once", metavar="N", type=_at_once, default=4, help="questions open at the same time (4)"
        )
        taking.add_argument(
            "--per-second", metavar="N", type=_per_second, default=None, help="questions a second (not limited)"
        )
        export = actions.add_parser("export", help="write published contracts as YAML")
        export.add_argument("tool", nargs="?", metavar="TOOL", help="one tool; not stated: all of the workspace")
        export.add_argument("--workspace", metavar="SLUG", required=True)
        export.add_argument("--version", metavar="N", type=int, dest="number", help="that version, not the current one")
        export.add_argument(
            "--to", metavar="FOLDER", type=Path, help="one file a tool there, and not to standard output"
        )
        actions.add_parser("schema", help="print the JSON Schema of a contract document")
        presets = actions.add_parser("presets", help="list the presets, or print one")
        presets.add_argument("name", nargs="?", metavar="NAME")

    def handle(self, *_: Any, **options: Any) -> None:
        """Do what was asked."""
        match options["action"]:
            case "check":
                self._checked(options["files"])
            case "import":
                self._import(options)
            case "export":
                self._export(options)
            case "schema":
                self.stdout.write(json.dumps(contract_schema(), indent=2, ensure_ascii=False))
            case _:
                self._presets(options["name"])

    def _import(self, options: dict[str, Any]) -> None:
        slug, url = options["workspace"], options["owner_url"]
        checked = self._checked(options["files"])
        if not slug or not url:
            raise CommandError("import needs --workspace SLUG and --owner-url URL.")
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or len(url) > 500:
            raise CommandError(
                f"{url} is not an address that lookups could go to; write https://host or http://host:port."
            )
        workspace_id = _workspace(slug)
        self._refuse_one_tool_twice(checked)
        owners: dict[str, UUID] = {}
        with transaction.atomic():
            for file, contract in ((file, one.contract) for file, one in checked):
                if contract.owner not in owners:
                    owners[contract.owner] = ensure_owner(
                        workspace_id=workspace_id,
                        name=contract.owner,
                        base_url=url,
                        hosts=options["owner_host"],
                        private_hosts=options["owner_private_host"],
                        most_at_once=options["most_at_once"],
                        per_second=options["per_second"],
                    )
                    self.stdout.write(_reach(contract.owner, options))
                _, number = publish_contract(
                    workspace_id=workspace_id, contract=contract, owner_id=owners[contract.owner], now=database_now()
                )
                self.stdout.write(f"{file}: {contract.contract}@{number} holds in {slug} from now on.")

    def _refuse_one_tool_twice(self, checked: list[tuple[Path, Checked]]) -> None:
        seen: dict[str, Path] = {}
        for file, one in checked:
            if (first := seen.setdefault(one.contract.contract, file)) is not file:
                raise CommandError(
                    f"{first} and {file} are both contracts of {one.contract.contract}. Nothing was published."
                )

    def _checked(self, files: list[Path]) -> list[tuple[Path, Checked]]:
        taken: list[tuple[Path, Checked]] = []
        wrong = 0
        for file in files:
            try:
                checked = check_contract(file.read_text("utf-8"))
            except (OSError, UnicodeDecodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
                self.stderr.write(f"{file}: cannot be read: {reason}.")
                wrong += 1
            except ContractInvalid as invalid:
                for problem in invalid.problems:
                    self.stderr.write(_shown(file, problem))
                wrong += 1
            else:
                taken.append((file, checked))
                self.stdout.write(f"{file}: {checked.contract.contract} can be published.")
                for note in checked.notes:
                    self.stdout.write(f"  note: {_shown(file, note)}")
        if wrong:
            raise CommandError(f"{wrong} of {len(files)} files cannot be taken. Nothing was published.")
        return taken

    def _export(self, options: dict[str, Any]) -> None:
        tool, number, folder = options["tool"], options["number"], options["to"]
        if number is not None and tool is None:
            raise CommandError("A version is one tool's: name the tool.")
        if tool is None and folder is None:
            raise CommandError("All contracts of a workspace go into files: state --to FOLDER, or name a tool.")
        documents = published_documents(workspace_id=_workspace(options["workspace"]), tool=tool, number=number)
        if not documents:
            version = f"@{number}" if number is not None else ""
            raise CommandError(
                f"{options['workspace']} has no published contract{f' {tool}{version}' if tool else ''}."
            )
        for document in documents:
            text = _written(document)
            if folder is None:
                self.stdout.write(text, ending="")
                continue
            try:
                folder.mkdir(parents=True, exist_ok=True)
                file = folder / f"{quote(document.tool, safe='')}.yaml"
                file.write_text(text, "utf-8")
            except OSError as error:
                raise CommandError(f"{folder}: cannot be written: {error.strerror}.") from None
            self.stdout.write(f"{file}: {document.label}")

    def _presets(self, name: str | None) -> None:
        if name is None:
            self.stdout.write("| preset | for | checked on | verified | the contract adds | source |")
            self.stdout.write("| --- | --- | --- | --- | --- | --- |")
            for one in map(preset, preset_names()):
                must = [
                    *(f"`with.{name}`" for name, parameter in one.parameters.items() if not parameter.optional),
                    *(f"`{member}`" for member in one.needs),
                ]
                may = [
                    *(f"`with.{name}`" for name, parameter in one.parameters.items() if parameter.optional),
                    *(f"`{member}`" for member in one.advises),
                ]
                adds = ", ".join([*must, *([f"({', '.join(may)})"] if may else [])]) or "–"
                verified = "no" if one.source.unverified else "yes"
                self.stdout.write(
                    f"| `{one.preset}` | {one.title} | {one.source.checked_on} | {verified} | {adds} | {one.source.url} |"
                )
            return
        try:
            self.stdout.write(preset_text(name), ending="")
        except LookupError:
            raise CommandError(f"There is no preset {name}. There are: {', '.join(preset_names())}.") from None


def _workspace(slug: str) -> UUID:
    found = workspace_by_slug(slug=slug)
    if found is None:
        raise CommandError(f"There is no workspace {slug}.")
    return found


def _written(document: PublishedDocument) -> str:
    try:
        return f"# {document.label}, {document.digest}\n{contract_text(document.document)}"
    except ContractInvalid as invalid:
        raise CommandError(f"{document.label} cannot be written as a file: {invalid}") from None


def _reach(owner: str, options: dict[str, Any]) -> str:
    """The owner's record as it stands from now on, so that nothing of it is set silently."""
    hosts = ", ".join(options["owner_host"]) or "none"
    private = ", ".join(options["owner_private_host"]) or "none"
    pace = "not limited" if options["per_second"] is None else f"{options['per_second']:g} a second"
    return (
        f"{owner}: asked at {options['owner_url']}; further hosts: {hosts}; hosts that may be private: {private}; "
        f"{options['most_at_once']} at once, {pace}."
    )


def _host(text: str) -> str:
    host = text.strip().strip("[]").lower()
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        if _HOST.fullmatch(host) is None:
            raise ArgumentTypeError(f"{text} is not a host; write its name or address alone, without a port.") from None
    return host


def _at_once(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= _MOST_AT_ONCE:
        raise ArgumentTypeError(f"{text} is not a whole number from 1 to {_MOST_AT_ONCE}.")
    return int(text)


def _per_second(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number <= 100_000:
        raise ArgumentTypeError(f"{text} is not a number above 0.")
    return number


def _shown(file: Path, problem: Problem) -> str:
    """`tickets.yaml:12: lookup[0].found: …`, as editors and compilers write it."""
    line = f":{problem.line}" if problem.line else ""
    return f"{file}{line}: {problem.path or 'the document'}: {problem.message}"
