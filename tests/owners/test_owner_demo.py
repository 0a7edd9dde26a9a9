"""The demo owner keeps its promises and loses its answers; the demo harness follows each decision."""

import json
import random
import threading
import time
from collections import Counter
from pathlib import Path

import httpx2
import pytest

from ledger.rules.contract import parse_contract, unsupported
from recovery.client import Ascertain, Patience
from recovery.demo import harness
from recovery.demo.owner import MISFORTUNES, Owner, Store, serve
from tests.client.wire_server import TOKEN, WireServer

CONTRACTS = sorted((Path(harness.__file__).parent / "contracts").glob("*.yaml"))
TICKET = {"customer": "c-19", "case": "case-1", "title": "Export broken", "priority": "high"}


@pytest.fixture
def owner():
    """A calm demo owner; `misfortunes` given to its rules are met one call after another."""
    server = serve(port=0, seed=1, calm=True, store=":memory:")
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    with server:
        yield server.RequestHandlerClass.owner, f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def post(url, body, **headers):
    return httpx2.post(url, json=body, headers=headers, trust_env=False, timeout=5)


def get(url):
    return httpx2.get(url, trust_env=False, timeout=5)


def meet(rules, monkeypatch, *misfortunes):
    queue = list(misfortunes)
    monkeypatch.setattr(rules, "misfortune", lambda: queue.pop(0) if queue else None)


@pytest.mark.parametrize("path", CONTRACTS, ids=lambda path: path.stem)
def test_contracts_can_be_published(path):
    contract = parse_contract(path.read_text())
    assert contract.contract == path.stem
    assert unsupported(contract) == ()


def test_a_key_makes_one_ticket(owner):
    _, url = owner
    first = post(f"{url}/tickets", TICKET, **{"Idempotency-Key": "k:1"})
    again = post(f"{url}/tickets", TICKET, **{"Idempotency-Key": "k:1"})
    other = post(f"{url}/tickets", TICKET | {"title": "Other"}, **{"Idempotency-Key": "k:1"})
    assert [first.status_code, again.status_code, other.status_code] == [201, 200, 422]
    assert first.json()["id"] == again.json()["id"]
    assert get(f"{url}/tickets/by-key/k:1").json()["title"] == "Export broken"
    assert get(f"{url}/tickets/by-key/k:2").status_code == 404


def test_a_refund_has_no_key_and_shows_late(owner, monkeypatch):
    _, url = owner
    monkeypatch.setattr("recovery.demo.owner.REFUND_LAG", 3.0)
    body = {"order": "o-1", "amount_cents": 900, "reason": "x", "reference": "r:1"}
    assert post(f"{url}/refunds", body).json()["id"] != post(f"{url}/refunds", body).json()["id"]
    assert get(f"{url}/refunds/by-reference/r:1").status_code == 404
    ends = time.monotonic() + 15
    while (seen := get(f"{url}/refunds/by-reference/r:1")).status_code == 404 and time.monotonic() < ends:
        time.sleep(0.1)
    assert seen.json()["state"] == "paid"
    assert post(f"{url}/refunds", body | {"amount_cents": 75_000}).status_code == 403


def test_a_slot_is_given_once(owner):
    _, url = owner
    assert post(f"{url}/bookings", {"slot": "mon-0900", "customer": "c-1", "reference": "b1"}).status_code == 201
    taken = post(f"{url}/bookings", {"slot": "mon-0900", "customer": "c-2", "reference": "b2"})
    assert taken.status_code == 409
    assert len(taken.json()["free_slots"]) == 3
    assert get(f"{url}/bookings/by-reference/b2").status_code == 404


def test_the_archive_never_answers(owner):
    _, url = owner
    assert post(f"{url}/invoices", {"invoice": "i-1", "reference": "i1"}).status_code == 202
    assert get(f"{url}/invoices/by-reference/i1").status_code == 503
    assert get(f"{url}/health").json() == {"ok": True}
    assert get(f"{url}/customers/c-12").json()["id"] == "c-12"


@pytest.mark.parametrize(
    ("misfortune", "seen", "made"),
    [
        ("drop_before", httpx2.TransportError, False),
        ("drop_after", httpx2.TransportError, True),
        ("502_after", 502, True),
        ("429", 429, False),
        ("slow", 201, True),
        ("late", 201, True),
    ],
)
def test_misfortunes(owner, monkeypatch, misfortune, seen, made):
    rules, url = owner
    monkeypatch.setattr("recovery.demo.owner.LATE", 0.2)
    meet(rules, monkeypatch, misfortune)
    if isinstance(seen, int):
        assert post(f"{url}/tickets", TICKET, **{"Idempotency-Key": "k"}).status_code == seen
    else:
        with pytest.raises(seen):
            post(f"{url}/tickets", TICKET, **{"Idempotency-Key": "k"})
    assert (get(f"{url}/tickets/by-key/k").status_code == 200) is made


def test_the_seed_decides_and_most_calls_go_well():
    drawn = [Owner(store=Store(path=":memory:"), seed=7), Owner(store=Store(path=":memory:"), seed=7)]
    fates = [[owner.misfortune() for _ in range(2000)] for owner in drawn]
    assert fates[0] == fates[1]
    counts = Counter(fates[0])
    assert set(counts) == {None, *MISFORTUNES}
    assert counts[None] > 1000


def test_a_restarted_owner_still_tells_the_truth(tmp_path):
    path = str(tmp_path / "made.sqlite3")
    Store(path=path).make(kind="tickets", reference="k", body=TICKET)
    assert Store(path=path).find(kind="tickets", reference="k")["title"] == "Export broken"


def test_every_call_fits_its_contract():
    documents = {path.stem: parse_contract(path.read_text()) for path in CONTRACTS}
    stream = harness.calls(random.Random(3))
    made = [next(stream) for _ in range(300)]
    assert {call.tool for call in made} == set(documents)
    assert len({call.operation_id for call in made}) > 290
    for call in made:
        assert documents[call.tool]._arguments_validator.is_valid(call.payload), call


@pytest.mark.parametrize("tool", [path.stem for path in CONTRACTS])
def test_the_harness_makes_each_kind_of_call(owner, tool):
    _, url = owner
    stream = harness.calls(random.Random(5))
    call = next(call for call in stream if call.tool == tool and call.payload.get("priority") != "critical")
    with WireServer() as ledger, Ascertain(ledger.url, TOKEN) as ascertain:
        harness.perform(ascertain, call, owner_url=url, dice=random.Random(1))
        assert ledger.operations[call.operation_id]["state"] == "settled"


def test_the_harness_never_repeats_an_unknown_outcome(owner, monkeypatch):
    rules, url = owner
    monkeypatch.setattr(harness, "LONGEST_FOLLOWED", 1.0)
    meet(rules, monkeypatch, "drop_after")
    call = next(call for call in harness.calls(random.Random(5)) if call.tool == "refunds.create")
    with WireServer() as ledger, Ascertain(ledger.url, TOKEN) as ascertain:
        harness.perform(ascertain, call, owner_url=url, dice=random.Random(1))
        assert ledger.operations[call.operation_id]["state"] == "reconciling"
        assert len(ledger.reports) == 1


def test_the_harness_starts_before_the_demo_and_outlives_its_server(owner, monkeypatch, tmp_path):
    _, url = owner
    monkeypatch.setattr(harness, "PACE", ((float("inf"), 0.02),))
    monkeypatch.setattr(harness, "LONGEST_FOLLOWED", 0.5)
    monkeypatch.setattr(harness, "_PATIENCE", Patience(timeout=1.0, tries=2, first_pause=0.01))
    file = tmp_path / "demo.json"
    stop = threading.Event()
    thread = threading.Thread(target=harness.run, kwargs={"file": file, "owner_url": url, "stop": stop, "seed": 5})
    thread.start()
    try:
        for _ in range(2):
            with WireServer() as ledger:
                told = {"url": ledger.url, "tokens": [{"workspace": "a", "token": TOKEN}]}
                file.write_text(json.dumps(told))
                until = time.monotonic() + 15
                while len(ledger.operations) < 10 and time.monotonic() < until:
                    time.sleep(0.05)
                assert len(ledger.operations) >= 10
    finally:
        stop.set()
        thread.join(20)
    assert not thread.is_alive()


def test_the_pace_slows_down():
    assert harness._pace(made=10, seconds=5) == 1.0
    assert harness._pace(made=70, seconds=90) == 2.0
    assert harness._pace(made=300, seconds=700) == 15.0
