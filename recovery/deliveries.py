"""Tell others: spread events to destinations, send what is due, keep what each try came to.

| destination | sent as                                                          | taken when              |
| ----------- | ---------------------------------------------------------------- | ----------------------- |
| webhook     | JSON, signed (Standard Webhooks), to public addresses over https | it answers 2xx          |
| email       | a few plain lines, by the mail server of `EMAIL_URL`             | the mail server took it |
| apprise     | the same lines, by the Apprise library                           | the library says so     |

Each send has a time limit. A worker that dies between sending and recording sends that message again once its claim has
lapsed, with the same `webhook-id` or Message-ID, so that a receiver can tell; it is not sent more often than its tries.
Nothing here decides anything about an operation: an event that reaches nobody still stands in the queue.
"""

import random
import re
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from email.utils import parsedate_to_datetime
from queue import Empty, SimpleQueue
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID

import orjson
import structlog
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.mail import EmailMessage
from django.core.validators import validate_email
from django.db import close_old_connections, connection, transaction

from ledger.database import execute
from ledger.queries.clock import database_now
from ledger.queries.events import DueDelivery, due_deliveries
from ledger.rules.deliveries import Tried
from ledger.rules.signatures import signed
from ledger.transitions.destinations import disable_destination
from ledger.transitions.events import claim_deliveries, record_try, release_deliveries, spread_events
from recovery.letters import document, letter
from recovery.owners.addresses import AddressRefused, NotResolved, checked_addresses, is_private_host
from recovery.owners.base import Reach
from recovery.owners.outgoing import Exchanged, Failure, Request, exchange
from recovery.sealing import FieldKeysMissing, SealBroken, unseal

BATCH: Final = 8
"""Deliveries that a task carries."""
MOST: Final = 80
"""Deliveries that a tick hands out."""
HANDS: Final = 4
TASK_SECONDS: Final = 18.0
SEND_SECONDS: Final = 8.0
"""For one send, at most."""
_TICK: Final = 0x617364  # one advisory lock for handing out, on any worker
_LOCAL_ONLY: Final = frozenset({"dbus", "glib", "kde", "qt", "gnome", "macosx", "windows", "syslog"})
_HOST_NAME: Final = re.compile(
    r"localhost|[0-9a-fA-F:.]*[.:][0-9a-fA-F:.]*|[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+\.?", re.ASCII
)
log = structlog.get_logger()
_told_untold: set[tuple[UUID, tuple[str, ...]]] = set()


def hand_out_deliveries(*, hand_out: Callable[[list[str]], None]) -> int:
    """Spread new events and hand out what is due, in batches of ids. Returns how many; 0 at once when another does it."""
    with transaction.atomic():
        if not execute("SELECT pg_try_advisory_xact_lock(%s)", [_TICK])[0][0]:
            return 0
        for untold in spread_events():
            who = (untold.workspace_id, untold.notify)
            if who not in _told_untold:  # once a process: the queue shows each of them
                _told_untold.add(who)
                log.warning(
                    "nobody_is_told",
                    workspace=str(untold.workspace_id),
                    kind=untold.kind,
                    names=list(untold.notify),
                    do="Add a destination of one of these names, or one that listens: manage.py notify destination add",
                )
        due = claim_deliveries(most=MOST)
    for start in range(0, len(due), BATCH):
        try:
            hand_out([str(id) for id in due[start : start + BATCH]])
        except Exception:
            release_deliveries(ids=due[start:])
            raise
    return len(due)


def deliver(*, ids: Sequence[UUID]) -> dict[str, int]:
    """Try each delivery of a batch, several at once. Those for which no time is left are given back."""
    ends = time.monotonic() + TASK_SECONDS
    came_to: dict[str, int] = {}
    with ThreadPoolExecutor(max_workers=HANDS, thread_name_prefix="tells") as hands:
        for word in hands.map(lambda due: _one(due, ends=ends), due_deliveries(ids=ids)):
            came_to[word] = came_to.get(word, 0) + 1
    return came_to


def send(due: DueDelivery) -> Tried:
    """One try. Raises for nothing that a receiver, a network or a setting does."""
    if due.disabled:
        return Tried(taken=False, gone=True, said="This destination is switched off.")
    try:
        address = unseal(due.sealed_address)
        secret = unseal(due.sealed_secret) if due.sealed_secret is not None else None
    except (FieldKeysMissing, SealBroken) as error:
        return Tried(taken=False, said=str(error))
    return _SENDERS[due.destination_kind](due, address, secret)


def address_problem(*, kind: str, address: str) -> str | None:
    """What is wrong with a destination's address, in words; None when it can be used."""
    if kind == "email":
        try:
            for one in _addressees(address):
                validate_email(one)
        except ValidationError:
            return "This is no e-mail address."
        return None if _addressees(address) else "This is no e-mail address."
    if kind == "webhook":
        return _webhook_problem(address)
    try:
        return None if _apprise(address) is not None else "Apprise does not know this kind of address."
    except AddressRefused as error:
        return str(error)


def _one(due: DueDelivery, *, ends: float) -> str:
    close_old_connections()
    try:
        if ends - time.monotonic() < SEND_SECONDS + 1:
            release_deliveries(ids=[due.id])
            return "given_back"
        tried = send(due)
        now = database_now()
        if tried.gone and not due.disabled:
            disable_destination(id=due.destination_id, now=now)
        again = record_try(id=due.id, tries=due.tries, tried=tried, now=now, roll=random.random())  # noqa: S311 - spreads waits
        if tried.taken:
            return "delivered"
        told = {"delivery": str(due.id), "destination": due.destination, "kind": due.kind, "why": tried.said}
        if again is None:
            log.error("delivery_given_up", tries=due.tries, **told)
            return "given_up"
        log.info("delivery_failed", again_at=again.isoformat(), **told)
        return "failed"
    except Exception as error:
        log.error("delivery_broke", delivery=str(due.id), error=type(error).__name__, exc_info=error)
        return "broke"
    finally:
        connection.close()


def _webhook(due: DueDelivery, address: str, secret: str | None) -> Tried:
    if problem := _webhook_problem(address):
        return Tried(taken=False, said=problem)
    if secret is None:
        return Tried(taken=False, said="This webhook has no signing secret. Add the destination again.")
    told = document(
        kind=due.kind,
        payload=due.payload,
        workspace=due.workspace,
        address=settings.ASCERTAIN_ADDRESS,
        event_id=str(due.event_id),
        at=due.at,
    )
    body = orjson.dumps(told)
    headers = signed(secret=secret, message_id=str(due.id), at=database_now(), body=body)
    connection.close()  # not held while the receiver takes its time
    came = exchange(
        Request(method="POST", url=address, headers={"content-type": "application/json", **headers}, body=body),
        reach=Reach(base_url=address, private_hosts=settings.ASCERTAIN_PRIVATE_DESTINATIONS),
        seconds=SEND_SECONDS,
        cap=64 * 1024,
    )
    if not isinstance(came, Exchanged):
        if came.failure is Failure.TOO_LARGE and came.status is not None and 200 <= came.status < 300:
            return Tried(taken=True, status=came.status, said="Taken; its answer was long and was not read to its end.")
        if came.failure is Failure.REFUSED_BY_POLICY:
            return Tried(taken=False, said=came.reason)
        return Tried(taken=False, status=came.status, said=_NOT_SENT[came.failure])
    if 200 <= came.status < 300:
        return Tried(taken=True, status=came.status, said="Taken.")
    if came.status == 410:
        return Tried(taken=False, gone=True, status=410, said="It says that it is gone; it is switched off.")
    redirected = " Redirects are not followed; change the address." if 300 <= came.status < 400 else ""
    return Tried(
        taken=False, status=came.status, said=f"It answered {came.status}.{redirected}", asked=_asked(came.headers)
    )


def _email(due: DueDelivery, address: str, _secret: str | None) -> Tried:
    if not settings.ASCERTAIN_EMAIL_URL:
        return Tried(taken=False, said="No mail server is set where the worker runs: set EMAIL_URL.")
    told = letter(kind=due.kind, payload=due.payload, workspace=due.workspace, address=settings.ASCERTAIN_ADDRESS)
    message = EmailMessage(
        subject=told.subject,
        body=told.text,
        to=_addressees(address),
        headers={"Message-ID": f"<{due.id}@ascertain>", "Auto-Submitted": "auto-generated"},
    )
    return _in_time(lambda: bool(message.send()), "The mail server")


def _apprised(due: DueDelivery, address: str, _secret: str | None) -> Tried:
    try:
        service = _apprise(address)
    except AddressRefused as error:
        return Tried(taken=False, said=str(error))
    if service is None:
        return Tried(taken=False, said="Apprise does not know this kind of address.")
    told = letter(kind=due.kind, payload=due.payload, workspace=due.workspace, address=settings.ASCERTAIN_ADDRESS)
    return _in_time(lambda: bool(service.notify(title=told.subject, body=told.text)), "The service")


def _in_time(work: Callable[[], bool], who: str) -> Tried:
    """Do it in a thread of its own, which is left alone when its time is up."""
    came: SimpleQueue[bool | Exception] = SimpleQueue()

    def run() -> None:
        try:
            came.put(work())
        except Exception as error:  # noqa: BLE001 - a library's failure is what this reports
            came.put(error)

    threading.Thread(target=run, daemon=True, name="sends").start()
    try:
        told = came.get(timeout=SEND_SECONDS)
    except Empty:
        return Tried(taken=False, said=f"{who} took longer than {SEND_SECONDS:.0f} s; whether it took it is not known.")
    if isinstance(told, Exception):
        return Tried(taken=False, said=f"{who} could not be reached or refused it ({type(told).__name__}).")
    return Tried(taken=told, said="Taken." if told else f"{who} did not take it.")


def _apprise(address: str) -> Any | None:
    """The Apprise service behind an address; None when the library knows no such kind.

    Raises:
        AddressRefused: it would act on this machine only, or go to a private address that is not allowed.
    """
    # Nothing but this kind of destination needs the library, and it takes long to load.
    import apprise

    scheme = address.partition(":")[0].lower()
    if scheme in _LOCAL_ONLY:
        raise AddressRefused(f"{scheme}: reaches only the machine that the worker runs on.")
    service = apprise.Apprise.instantiate(address, suppress_exceptions=True)
    if service is None:
        return None
    # Some services keep a token where others have a host: only what looks like one is resolved.
    host = getattr(service, "host", None)
    if isinstance(host, str) and _HOST_NAME.fullmatch(host):
        reach = Reach(base_url="", private_hosts=settings.ASCERTAIN_PRIVATE_DESTINATIONS)
        try:
            checked_addresses(host=host, port=int(getattr(service, "port", None) or 443), reach=reach, seconds=3.0)
        except NotResolved:
            return service  # the library meets the same, and says that it was not taken
    return service


def _webhook_problem(address: str) -> str | None:
    try:
        parts = urlsplit(address)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return "The address cannot be read."
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "A webhook's address begins with https://"
    if parts.username or parts.password:
        return "The address holds a name or password; a webhook is signed instead."
    reach = Reach(base_url=address, private_hosts=settings.ASCERTAIN_PRIVATE_DESTINATIONS)
    if parts.scheme == "http" and not is_private_host(host=parts.hostname, port=port, reach=reach):
        return "A webhook goes over https; plain http only to hosts in ASCERTAIN_PRIVATE_DESTINATIONS."
    return None


def _addressees(address: str) -> list[str]:
    return [one.strip() for one in address.split(",") if one.strip()]


def _asked(headers: Any) -> timedelta | None:
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit() and len(text) < 9:
        return timedelta(seconds=int(text))
    try:
        return max(parsedate_to_datetime(text) - database_now(), timedelta(0)) if text else None
    except (ValueError, TypeError):
        return None


_NOT_SENT: Final = {
    Failure.RESOLVE: "Its name could not be resolved.",
    Failure.CONNECT: "It took no connection.",
    Failure.TLS: "No encrypted connection came about; its certificate may not be trusted.",
    Failure.TOO_SLOW: "It did not answer in time.",
    Failure.TOO_LARGE: "Its answer was too long.",
    Failure.BROKEN: "The connection ended early.",
}
_SENDERS: Final[dict[str, Callable[[DueDelivery, str, str | None], Tried]]] = {
    "webhook": _webhook,
    "email": _email,
    "apprise": _apprised,
}
