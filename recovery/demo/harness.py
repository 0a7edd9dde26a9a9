"""A harness for the demo: steady, varied calls in both workspaces, following each decision as a good harness does.

    python -m recovery.demo.harness          (reads .local/demo.json and ASCERTAIN_DEMO_OWNER_URL)

It sends only with a permit, repairs what it is told to repair, asks again when the next move is its own, and stops
otherwise. It survives restarts of the server and of the owner, and slows down so that the demo's database stays small.
"""

import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from recovery.client import (
    Ascertain,
    AscertainError,
    GuardedOperation,
    NotAuthenticatedError,
    Patience,
)
from recovery.demo.owner import PRIORITIES, SLOTS

DEMO_FILE = Path(".local/demo.json")
LONGEST_FOLLOWED = 60.0
"""Seconds that a call follows its operation before it leaves it to Ascertain and people."""
AT_ONCE = 8
"""Operations followed at the same time."""
PACE = ((60.0, 1.0), (float("inf"), 2.0))
"""(until so many seconds after the start, one operation every so many seconds)."""
MANY, SLOW_PACE = 300, 15.0
"""After so many operations, one every so many seconds."""
DIES = 0.02
"""The chance that the harness dies with a permit in its hand and reports nothing."""

_PATIENCE = Patience(timeout=10.0, tries=3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One thing that the harness is about to do."""

    tool: str
    operation_id: str
    payload: dict[str, Any]
    method: str
    path: str
    referenced: bool
    """The owner wants the operation's id in the body as `reference`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where the demo runs, and a token per workspace."""

    url: str
    tokens: tuple[str, ...]


def calls(dice: random.Random) -> Iterator[Call]:
    """Endless varied calls, each with an id of its own."""
    makers: tuple[tuple[Callable[[random.Random, str], Call], int], ...] = (
        (_ticket, 9),
        (_refund, 5),
        (_booking, 4),
        (_customer, 4),
        (_invoice, 1),
        (_import, 3),
    )
    kinds, weights = zip(*makers, strict=True)
    while True:
        mark = f"{int(time.time()):x}{dice.randrange(4096):03x}"
        yield dice.choices(kinds, weights)[0](dice, mark)


def perform(ascertain: Ascertain, call: Call, *, owner_url: str, dice: random.Random) -> None:
    """Make one call the right way, to its end or until nothing is left for a harness to do."""
    operation = ascertain.operation(
        tool=call.tool,
        operation_id=call.operation_id,
        payload=call.payload,
        agent={
            "name": f"support-{dice.randrange(1, 5)}",
            "run": f"run-{call.operation_id}",
            "step": str(dice.randrange(1, 6)),
            "tool_call_id": f"call_{dice.randrange(10_000)}",
        },
    )
    if dice.random() < DIES:
        operation.__enter__()  # and never out of it again: the permit lapses, as after a crash
        return
    with operation as op:
        _follow(op, call, owner_url=owner_url)


def _follow(op: GuardedOperation, call: Call, *, owner_url: str) -> None:
    payload = call.payload
    until = time.monotonic() + LONGEST_FOLLOWED
    while op.permitted and time.monotonic() < until:
        body = {**payload, "reference": call.operation_id} if call.referenced else payload
        options: dict[str, Any] = {} if call.method == "GET" else {"json": body}
        decision = op.send(call.method, owner_url + call.path, **options)
        if decision.recovery_action == "repair" and decision.field and decision.field.endswith("priority"):
            payload = {**payload, "priority": next((str(one) for one in decision.alternatives), PRIORITIES[-1])}
            op.revise(kind="repair", payload=payload, field=decision.field, reason="The owner knows other priorities.")
        elif decision.recovery_action in ("reconcile", "wait", "verify"):
            if op.wait(max(until - time.monotonic(), 0)).state != "open":
                return
            payload = _next(op, payload, until)
        elif decision.recovery_action in ("retry", "recover_items"):
            payload = _next(op, payload, until)
        else:
            return


def _next(op: GuardedOperation, payload: dict[str, Any], until: float) -> dict[str, Any]:
    """Ask for the next permit; of a batch it says which part is to be sent."""
    _pause(op, until)
    op.retry()
    return payload if op.part is None else dict(op.part)


def _pause(op: GuardedOperation, until: float) -> None:
    """Wait as long as the decision asks, within the time that is left."""
    decision = op.decision
    seconds = 0.0
    if decision is not None and decision.not_before is not None:
        seconds = decision.not_before.timestamp() - time.time()
    elif decision is not None and decision.retry_after_ms is not None:
        seconds = decision.retry_after_ms / 1000
    time.sleep(max(min(seconds + 0.1, until - time.monotonic()), 0))


def _ticket(dice: random.Random, mark: str) -> Call:
    payload = {
        "customer": _customer_id(dice),
        "case": f"case-{mark}",
        "title": dice.choice(_TITLES),
        # Some agents invent a priority that the owner does not know; they are told to repair it.
        "priority": dice.choice((*PRIORITIES, *PRIORITIES, "critical")),
    }
    return _call("tickets.create", f"ticket:create:case-{mark}", payload, "/tickets")


def _refund(dice: random.Random, mark: str) -> Call:
    cents = dice.choice((900, 1_900, 4_900, 12_000, 75_000))
    payload = {"order": f"o-{mark}", "amount_cents": cents, "reason": dice.choice(_REASONS)}
    return _call("refunds.create", f"refund:create:o-{mark}", payload, "/refunds", referenced=True)


def _booking(dice: random.Random, mark: str) -> Call:
    payload = {"customer": _customer_id(dice), "slot": dice.choice(SLOTS)}
    return _call("calendar.book", f"calendar:book:{mark}", payload, "/bookings", referenced=True)


def _customer(dice: random.Random, mark: str) -> Call:
    customer = _customer_id(dice)
    return _call(
        "customers.get", f"customer:get:{mark}", {"customer": customer}, f"/customers/{customer}", method="GET"
    )


def _invoice(dice: random.Random, mark: str) -> Call:
    payload = {"invoice": f"i-{mark}", "customer": _customer_id(dice), "total_cents": dice.randrange(1_000, 90_000)}
    return _call("invoices.send", f"invoice:send:i-{mark}", payload, "/invoices", referenced=True)


def _import(dice: random.Random, mark: str) -> Call:
    tickets = [
        {"ref": f"imp-{mark}-{number}", "customer": _customer_id(dice), "title": dice.choice(_TITLES)}
        for number in range(1, dice.randrange(4, 9))
    ]
    return _call("tickets.import", f"tickets:import:{mark}", {"tickets": tickets}, "/imports")


def _call(
    tool: str, operation_id: str, payload: dict[str, Any], path: str, *, method: str = "POST", referenced: bool = False
) -> Call:
    return Call(tool=tool, operation_id=operation_id, payload=payload, method=method, path=path, referenced=referenced)


def _customer_id(dice: random.Random) -> str:
    return f"c-{dice.randrange(10, 90)}"


_TITLES = (
    "Export fails with a role error",
    "Invoice shows the old address",
    "Cannot invite a colleague",
    "Login code never arrives",
    "Search misses archived projects",
    "Webhook deliveries stopped at noon",
)
_REASONS = ("Charged twice", "Cancelled in time", "Wrong plan", "Goodwill")


def read_places(file: Path) -> Places | None:
    """The demo's address and tokens; None while they are not written yet."""
    try:
        told = json.loads(file.read_text())
        return Places(url=told["url"], tokens=tuple(entry["token"] for entry in told["tokens"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def run(*, file: Path, owner_url: str, stop: threading.Event, seed: int | None = None) -> None:
    """Make traffic until `stop` is set. Quiet: trouble with the server only means that it is tried again."""
    dice = random.Random(seed)
    stream = calls(dice)
    started = time.monotonic()
    made = 0
    places: Places | None = None
    clients: list[Ascertain] = []
    slots = threading.BoundedSemaphore(AT_ONCE)
    with ExitStack() as opened, ThreadPoolExecutor(max_workers=AT_ONCE, thread_name_prefix="harness") as pool:
        while not stop.is_set():
            told = read_places(file)
            if told != places and told is not None:
                places = told
                # Old clients stay open to the end: calls may still run with them, and the file seldom changes.
                clients = [
                    opened.enter_context(Ascertain(places.url, token, patience=_PATIENCE)) for token in places.tokens
                ]
            if not clients:
                stop.wait(1)
                continue
            if slots.acquire(timeout=1):
                made += 1
                own = random.Random(dice.random())
                job = pool.submit(_quietly, clients[made % len(clients)], next(stream), owner_url, own)
                job.add_done_callback(lambda _: slots.release())
            stop.wait(_pace(made=made, seconds=time.monotonic() - started))


def _quietly(ascertain: Ascertain, call: Call, owner_url: str, dice: random.Random) -> None:
    try:
        perform(ascertain, call, owner_url=owner_url, dice=dice)
    except NotAuthenticatedError:
        time.sleep(5)  # the tokens are being renewed; the file is read again
    except AscertainError as error:
        if os.environ.get("ASCERTAIN_DEMO_TALKATIVE"):
            moment = datetime.fromtimestamp(time.time()).astimezone().strftime("%H:%M:%S")
            print(f"{moment} {call.operation_id}: {type(error).__name__}: {error}", flush=True)


def _pace(*, made: int, seconds: float) -> float:
    if made >= MANY:
        return SLOW_PACE
    return next(pause for until, pause in PACE if seconds < until)


def main() -> None:
    """Run until stopped."""
    owner_url = os.environ.get("ASCERTAIN_DEMO_OWNER_URL") or os.environ.get("DEMO_OWNER_URL")
    if not owner_url:
        raise SystemExit("ASCERTAIN_DEMO_OWNER_URL is not set: start the demo with `make up`.")
    # Nothing here is worth an orderly end: what was in flight lapses, and that is part of the demo.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    run(file=DEMO_FILE, owner_url=owner_url.rstrip("/"), stop=threading.Event())


if __name__ == "__main__":
    main()
