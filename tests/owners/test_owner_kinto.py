"""What Kinto promises, tried on Kinto; and what the proxy lets through, tried on the way to it."""

import json
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import httpx2
import pytest

from ledger.rules.contract import parse_contract
from tests.owners.kinto import AUTHORIZATION

HEADERS = {"authorization": AUTHORIZATION, "if-none-match": "*"}
TICKET = {"data": {"title": "Export broken", "customer": "c-19"}}


def put(base, collection, record="ticket-1", *, body=TICKET, timeout=5.0):
    return httpx2.put(f"{base}{collection.path}/{record}", json=body, headers=HEADERS, timeout=timeout, trust_env=False)


def test_a_record_is_made_once(kinto, collection):
    assert put(kinto.url, collection).status_code == 201
    again = put(kinto.url, collection, body={"data": {"title": "Other", "customer": "c-20"}})
    assert again.status_code == 412
    assert again.json()["details"]["existing"]["title"] == "Export broken"
    assert collection.count() == 1


def test_absence_is_404_and_forbidden_is_not(kinto, collection):
    path = f"{kinto.url}{collection.path}/nothing"
    assert httpx2.get(path, headers={"authorization": AUTHORIZATION}, trust_env=False).status_code == 404
    assert httpx2.get(path, trust_env=False).status_code == 401


@pytest.mark.parametrize(
    ("record", "accepted"), [("ticket-1_A", True), ("1", True), ("ticket:1", False), ("ticket.1", False), ("-1", False)]
)
def test_which_ids_it_takes(kinto, collection, record, accepted):
    assert (put(kinto.url, collection, record).status_code == 201) is accepted


def test_the_contract_is_accepted(collection):
    contract = parse_contract(collection.contract())
    assert contract.contract == "kinto.tickets.create"
    assert collection.bucket in contract.lookup[0].http.path


BROKEN = (httpx2.ReadError, httpx2.RemoteProtocolError)


@pytest.mark.parametrize(
    ("mode", "outcome", "records"),
    [
        ("pass", 201, 1),
        ("drop_before", BROKEN, 0),
        ("drop_after", BROKEN, 1),
        ("truncate", BROKEN, 1),
        ("fin_truncate", BROKEN, 1),
        ("hang_before", httpx2.ReadTimeout, 0),
        ("hang_after", httpx2.ReadTimeout, 1),
        ("502_after", 502, 1),
        ("429", 429, 0),
        ("down", httpx2.ConnectError, 0),
    ],
)
def test_each_mode(fault_proxy, collection, mode, outcome, records):
    fault_proxy.fail(mode)
    if isinstance(outcome, int):
        assert put(fault_proxy.url, collection).status_code == outcome
    else:
        with pytest.raises(outcome):
            put(fault_proxy.url, collection, timeout=0.5)
    assert collection.count() == records
    assert fault_proxy.forwarded("PUT ") == records
    assert fault_proxy.forwarded("GET ") == 0
    fault_proxy.heal()
    assert put(fault_proxy.url, collection, "ticket-2").status_code == 201
    assert collection.count() == records + 1


def test_only_the_next_matching_requests(fault_proxy, collection):
    fault_proxy.fail("429", times=2, match="PUT /v1/buckets")
    get = httpx2.get(f"{fault_proxy.url}/v1/", trust_env=False)
    assert [get.status_code] + [put(fault_proxy.url, collection, f"t-{n}").status_code for n in range(3)] == [
        *(200, 429, 429, 201)
    ]
    assert [one.status for one in fault_proxy.log] == [200, None, None, 201]


def test_down_and_up_again_on_the_same_port(fault_proxy, collection):
    for _ in range(3):
        fault_proxy.fail("down")
        with pytest.raises(httpx2.ConnectError):
            put(fault_proxy.url, collection)
        fault_proxy.heal()
        assert put(fault_proxy.url, collection).status_code in (201, 412)


def test_many_at_once(fault_proxy, collection):
    seen = []
    threads = [
        threading.Thread(target=lambda n=n: seen.append(put(fault_proxy.url, collection, f"t-{n % 5}").status_code))
        for n in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(seen) == [201] * 5 + [412] * 15
    assert collection.count() == 5


def test_steered_from_another_process(kinto, collection):
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.owners.fault_proxy", "--upstream-port", str(kinto.port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    with process:
        told = json.loads(process.stdout.readline())
        fault = json.dumps({"mode": "drop_after", "times": 1}).encode()
        urllib.request.urlopen(urllib.request.Request(f"{told['control_url']}/faults", data=fault), timeout=5).close()
        with pytest.raises(BROKEN):
            put(told["url"], collection)
        assert put(told["url"], collection).status_code == 412
        with urllib.request.urlopen(f"{told['control_url']}/log", timeout=5) as answer:
            assert [(one["mode"], one["forwarded"], one["status"]) for one in json.load(answer)] == [
                ("drop_after", True, 201),
                ("pass", True, 412),
            ]
        process.stdin.close()
        before = time.monotonic()
        process.wait(10)
        assert time.monotonic() - before < 10
