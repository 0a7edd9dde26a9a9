"""Who is told, and where owners tell us: `manage.py notify …`."""

import sys
from typing import Any, NoReturn
from uuid import UUID, uuid4

import orjson
from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from ledger.queries.clock import database_now
from ledger.queries.events import destinations
from ledger.queries.notices import endpoint_by_id, endpoints, owner_by_name
from ledger.queries.workspaces import workspace_by_slug
from ledger.rules.events import EventKind
from ledger.rules.signatures import is_secret, new_secret
from ledger.transitions.destinations import (
    add_endpoint,
    change_endpoint_secrets,
    disable_destination,
    disable_endpoint,
    ensure_destination,
)
from ledger.transitions.events import try_destination
from recovery.deliveries import address_problem
from recovery.sealing import FieldKeysMissing, seal, unseal

FAMILIES = ("*", "operation.*", "owner.*", "contract.*")


class Command(BaseCommand):
    help = "Destinations of events, and the addresses that owners send their notifications to."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """The actions."""
        actions = parser.add_subparsers(dest="part", required=True)
        endpoint = actions.add_parser("endpoint", help="Where an owner sends its notifications.")
        inward = endpoint.add_subparsers(dest="action", required=True)
        add = inward.add_parser("add", help="Make an address; prints it and its signing secret once.")
        add.add_argument("--owner", required=True)
        add.add_argument("--secret", help="The secret that the owner signs with, if it makes its own (whsec_…).")
        rotate = inward.add_parser("rotate", help="Accept a new secret beside the present one; prints it once.")
        rotate.add_argument("id")
        rotate.add_argument("--secret", help="The new secret, if the owner makes its own.")
        forget = inward.add_parser("forget", help="Accept only the newest secret from now on.")
        forget.add_argument("id")
        off = inward.add_parser("off", help="Accept nothing there any more.")
        off.add_argument("id")
        destination = actions.add_parser("destination", help="Where events go.")
        outward = destination.add_subparsers(dest="action", required=True)
        add = outward.add_parser("add", help="Add or change a destination; a webhook's secret is printed once.")
        add.add_argument("--name", required=True, help="What contracts call it in escalation.notify.")
        add.add_argument("--kind", required=True, choices=["email", "apprise", "webhook"])
        add.add_argument("--address", required=True, help="E-mail addresses with commas, an Apprise URL, or https://…")
        add.add_argument(
            "--kinds", default="", help="Event kinds that always go there, with commas; empty: only named."
        )
        off = outward.add_parser("off", help="Send nothing there any more.")
        off.add_argument("--name", required=True)
        test = outward.add_parser("test", help="Send a test message; its log says how it went.")
        test.add_argument("--name", required=True)
        listing = actions.add_parser("list", help="Everything, without addresses and secrets.")
        for each in (*inward.choices.values(), *outward.choices.values(), listing):
            each.add_argument("--workspace", required=True, help="The workspace's short name.")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002 (Django's signature)
        """Do one action. Exit 1 with a sentence."""
        workspace_id = workspace_by_slug(slug=options["workspace"])
        if workspace_id is None:
            self._no(f"There is no workspace {options['workspace']}.")
        try:
            if options["part"] == "list":
                self._list(workspace_id)
            elif options["part"] == "endpoint":
                self._endpoint(workspace_id, options)
            else:
                self._destination(workspace_id, options)
        except FieldKeysMissing as error:
            self._no(str(error))

    def _endpoint(self, workspace_id: UUID, options: dict[str, Any]) -> None:
        now = database_now()
        if options["action"] == "add":
            owner_id = owner_by_name(workspace_id=workspace_id, name=options["owner"])
            if owner_id is None:
                self._no(f"This workspace has no owner {options['owner']}. Import a contract of it first.")
            secret = self._secret(options)
            id = uuid4()  # all of it random: nobody guesses the address
            add_endpoint(
                workspace_id=workspace_id,
                owner_id=owner_id,
                endpoint_id=id,
                sealed_secrets=seal(orjson.dumps([secret]).decode()),
                now=now,
            )
            self._say(f"Address  {settings.ASCERTAIN_ADDRESS.rstrip('/')}/api/v1/notifications/{id}")
            self._say(f"Secret   {secret}")
            self._say("The secret is shown this once. Messages are read by the `notice` part of the owner's contracts.")
            return
        found = {str(row.id): row for row in endpoints(workspace_id=workspace_id)}
        row = found.get(options["id"])
        kept = endpoint_by_id(id=row.id) if row is not None else None
        if row is None or kept is None:
            self._no("This workspace has no such address that is switched on.")
        if options["action"] == "off":
            disable_endpoint(id=row.id, now=now)
            self._say("Switched off. What is sent there is refused as if the address never was.")
            return
        secrets: list[str] = orjson.loads(unseal(kept.sealed_secrets))
        if options["action"] == "rotate":
            secrets = [self._secret(options), *secrets[:1]]
            self._say(f"Secret   {secrets[0]}")
            self._say("Both the new and the former secret are accepted until `notify endpoint forget`.")
        else:
            secrets = secrets[:1]
            self._say("Only the newest secret is accepted now.")
        change_endpoint_secrets(id=row.id, sealed_secrets=seal(orjson.dumps(secrets).decode()))

    def _destination(self, workspace_id: UUID, options: dict[str, Any]) -> None:
        now = database_now()
        if options["action"] == "add":
            self._add_destination(workspace_id, options)
            return
        row = next((each for each in destinations(workspace_id=workspace_id) if each.name == options["name"]), None)
        if row is None:
            self._no(f"This workspace has no destination {options['name']}.")
        if options["action"] == "off":
            disable_destination(id=row.id, now=now)
            self._say("Switched off. Events still stand in the queue.")
        else:
            try_destination(destination_id=row.id, workspace_id=workspace_id, now=now)
            self._say(
                "A test message is on its way; the worker sends it within seconds. `notify list` shows how it went."
            )

    def _add_destination(self, workspace_id: UUID, options: dict[str, Any]) -> None:
        kinds = [kind.strip() for kind in options["kinds"].split(",") if kind.strip()]
        known = {*FAMILIES, *(kind.value for kind in EventKind)}
        if unknown := sorted(set(kinds) - known):
            self._no(f"{', '.join(unknown)} is no kind of event. There are {', '.join(sorted(known))}.")
        if problem := address_problem(kind=options["kind"], address=options["address"]):
            self._no(problem)
        standing = {each.name: each for each in destinations(workspace_id=workspace_id)}.get(options["name"])
        fresh = options["kind"] == "webhook" and (standing is None or standing.kind != "webhook")
        secret = new_secret() if fresh else None
        ensure_destination(
            workspace_id=workspace_id,
            name=options["name"],
            kind=options["kind"],
            sealed_address=seal(options["address"]),
            sealed_secret=seal(secret) if secret is not None else None,
            kinds=kinds,
            now=database_now(),
        )
        self._say(f"{options['name']} is told {'of ' + ', '.join(kinds) if kinds else 'where a contract names it'}.")
        if secret is not None:
            self._say(f"Secret   {secret}")
            self._say("The secret is shown this once. Messages are signed with it (Standard Webhooks).")

    def _list(self, workspace_id: UUID) -> None:
        for row in destinations(workspace_id=workspace_id):
            told = ", ".join(row.kinds) or "only where a contract names it"
            state = "off" if row.disabled_at else "on"
            last = f"last told {row.last_delivered_at:%Y-%m-%d %H:%M:%SZ}" if row.last_delivered_at else "never told"
            lost = f", {row.given_up} given up" if row.given_up else ""
            self._say(f"destination  {row.name}  {row.kind}  {state}  {told}  {last}{lost}")
        for inward in endpoints(workspace_id=workspace_id):
            state = "off" if inward.disabled_at else "on"
            heard = inward.last_received_at
            last = f"last heard {heard:%Y-%m-%d %H:%M:%SZ}" if heard else "never heard"
            self._say(f"endpoint     {inward.id}  {inward.owner}  {state}  {last}")

    def _secret(self, options: dict[str, Any]) -> str:
        given = options.get("secret")
        if given is not None and not is_secret(given):
            self._no("The secret must be whsec_ and base64 of 16 bytes or more, as Standard Webhooks has it.")
        return given or new_secret()

    def _say(self, line: str) -> None:
        self.stdout.write(line)

    def _no(self, sentence: str) -> NoReturn:
        self.stderr.write(sentence)
        sys.exit(1)
