"""Ascertain sends licensed repeats to a real Kinto: a conditional PUT through a proxy that loses answers."""

import time
import uuid
from typing import Any
from uuid import UUID

import pytest

from ledger.rules.contract import parse_contract
from recovery.reconcile import reconcile
from tests.conftest import Api, Database, make_bench
from tests.journeys.laws import assert_lawful
from tests.owners.fault_proxy import FaultProxy
from tests.owners.fixtures import Collection
from tests.owners.kinto import AUTHORIZATION, CREDENTIAL, TOOL

PAYLOAD = {"title": "Export broken", "customer": "c-19"}
LOST = {"kind": "exception", "exception": "ReadTimeout", "phase": "await", "bytes_sent": 300, "request_bytes": 300}
NOT_SENT = {"kind": "exception", "exception": "ConnectError", "phase": "connect", "bytes_sent": 0}

STORIES = [
    (NOT_SENT, None, 1, "nothing left: sent by us"),
    (LOST, None, 1, "it never arrived: absence is graded first, then it is sent by us"),
    (NOT_SENT, "drop_after", 1, "our own answer is lost after the commit: looked up, not sent again"),
    (NOT_SENT, "502_after", 1, "a gateway's word after the commit: likewise"),
    (NOT_SENT, "hang_after", 1, "silence after the commit: likewise"),
    (NOT_SENT, "drop_before", 1, "ours is lost on its way: absence, then once more"),
    (NOT_SENT, "429", 1, "refused for a moment: once more, when the owner said"),
]


@pytest.mark.parametrize(("reported", "fault", "writes", "why"), STORIES, ids=[why for *_, why in STORIES])
def test_one_record_whatever_is_lost(
    database: Database,
    fault_proxy: FaultProxy,
    collection: Collection,
    monkeypatch: pytest.MonkeyPatch,
    reported: dict[str, Any],
    fault: str | None,
    writes: int,
    why: str,
) -> None:
    monkeypatch.setenv(CREDENTIAL, AUTHORIZATION)
    bench = make_bench(owner_url=fault_proxy.url)
    document = parse_contract(collection.contract()).model_dump(mode="json", by_alias=True, exclude_unset=True)
    put = {
        "method": "PUT",
        "path": f"{collection.path}/{{idempotency_key}}",
        "headers": {"If-None-Match": "*"},
        "body": {"data": "{payload}"},
    }
    bench.publish({**document, "timeout": "1s", "dispatch": {"http": put, "as": f"env:{CREDENTIAL}"}})
    api = Api(bench.token)
    name = f"ticket-{uuid.uuid4().hex[:8]}"
    intent = {"operation_id": name, "tool": TOOL, "payload": PAYLOAD, "attempt": True}
    id = UUID(api.post("/operations", intent).json()["data"]["id"])
    if fault:
        fault_proxy.fail(fault, times=1, match="PUT ")
    api.post(f"/operations/{name}/attempts/attempt-01/observations", reported)
    ends = time.monotonic() + 40
    while (data := api.get(f"/operations/{name}").json()["data"])["state"] != "settled" and time.monotonic() < ends:
        reconcile(id=id, time_left=15)
        time.sleep(0.03)
    assert (data["state"], data["outcome"]) == ("settled", "applied"), (why, data["decision"])
    assert (collection.count(), fault_proxy.forwarded("PUT ")) == (1, writes), why
    assert {each["sender"] for each in data["attempts"][1:]} == {"worker"}
    assert_lawful(workspace_id=bench.id, operation_id=name)
