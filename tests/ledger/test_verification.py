"""`manage.py verify_ledger` finds whatever was changed behind the ledger's back.

The changes are a superuser's, with triggers and foreign keys switched off: what no role of the product can do.
"""

import io
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
import psycopg
import pytest
from django.core.management import CommandError, call_command

from ledger.database import execute
from ledger.queries.facts import Held, held_by_name
from ledger.rules.history import HistoryRow, chained
from ledger.rules.resolutions import Answer, offers
from ledger.transitions.person import Signer, attest, first_signature
from ledger.transitions.workspace import ensure_person
from tests.conftest import Api, Bench, Database

LOST = {"kind": "exception", "exception": "ReadTimeout", "phase": "await", "bytes_sent": 300, "request_bytes": 300}
REFUSED = {"kind": "exception", "exception": "ConnectError", "phase": "connect", "bytes_sent": 0}
Tamper = Callable[..., None]


def verify(*, anchor: Path | None = None) -> tuple[int, str]:
    """The exit code and what was printed."""
    out = io.StringIO()
    try:
        call_command("verify_ledger", anchor=anchor, stdout=out)
    except SystemExit as end:
        return int(str(end.code)), out.getvalue()
    return 0, out.getvalue()


def _held(bench: Bench) -> Held:
    held = held_by_name(workspace_id=bench.id, operation_id="v")
    assert held is not None
    return held


@pytest.fixture(scope="module")
def people(database: Database) -> dict[str, int]:
    """Two people who may sign."""
    names = ("olive-v", "ada-v")
    return {name: ensure_person(username=name, name=name, password="x" * 20) for name in names}


@pytest.fixture
def victim(bench: Bench, people: dict[str, int], database: Database) -> Iterator[UUID]:
    """An operation with everything in its history: two attempts, evidence, two people's signatures, an outcome.
    It is gone after the test, so that what was done to it disturbs no other."""
    api = Api(bench.token)
    new = {"operation_id": "v", "tool": "tickets.create", "payload": {"title": "v"}, "attempt": True}
    api.post("/operations", new)
    api.post("/operations/v/attempts/attempt-01/observations", REFUSED)
    for _ in range(40):
        if api.post("/operations/v/attempts", {}).status_code == 201:
            break
        time.sleep(0.02)
    api.post("/operations/v/attempts/attempt-02/observations", {**LOST, "cost": 0.12345})
    for username, person in people.items():
        held = _held(bench)
        offer = next(
            offer
            for offer in offers(facts=held.facts, contract=held.contract, now=held.now, blocked_by_identity=False)
            if offer.answer is Answer.NOT_APPLIED
        )
        assert attest(
            held=held,
            signer=Signer(id=person, username=username),
            offer=offer,
            reason="looked",
            evidence_url="",
            expected_version=held.facts.version,
            signs=first_signature(id=held.id),
        )
    held = _held(bench)
    assert held.facts.outcome == "not_applied"
    yield held.id
    with psycopg.connect(database.superuser_url, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        for table in ("journal", "evidence", "attestation", "revision", "attempt", "original", "schedule"):
            connection.execute(f"DELETE FROM {table} WHERE operation = %s", [held.id])
        connection.execute("DELETE FROM operation WHERE id = %s", [held.id])


CHANGED = [
    ("UPDATE journal SET entry = replace(entry, 'looked', 'guessed') WHERE operation = %(id)s", "chain breaks", "a reason"),
    ("UPDATE journal SET actor = 'worker' WHERE operation = %(id)s AND seq = 2", "chain breaks at row 2", "who acted"),
    ("UPDATE journal SET verb = 'end_wait' WHERE operation = %(id)s AND seq = 2", "chain breaks at row 2", "what was done"),
    ("UPDATE journal SET at = at + interval '1 us' WHERE operation = %(id)s AND seq = 3", "chain breaks at row 3", "when"),
    ("UPDATE journal SET hash = sha256(hash) WHERE operation = %(id)s AND seq = 3", "chain breaks at row 3", "a hash"),
    ("DELETE FROM journal WHERE operation = %(id)s AND seq = 3", "from row 2 to row 4", "a row in the middle"),
    ("DELETE FROM journal WHERE operation = %(id)s AND seq = 1", "from row 0 to row 2", "the first row"),
    (
        "DELETE FROM journal WHERE operation = %(id)s AND seq = (SELECT version FROM operation WHERE id = %(id)s)",
        "but its history says",
        "the newest row",
    ),
    ("DELETE FROM journal WHERE operation = %(id)s", "has no history", "all of it"),
    ("UPDATE operation SET outcome = 'applied', effect = 'applied' WHERE id = %(id)s", "is applied, but", "the outcome"),
    ("UPDATE operation SET version = version - 1 WHERE id = %(id)s", "Its version is", "the version"),
    ("UPDATE operation SET polls = 7 WHERE id = %(id)s", "Its polls is 7", "a counter"),
    ("UPDATE operation SET cost = cost + 0.01 WHERE id = %(id)s", "Its cost is", "the cost"),
    ("UPDATE operation SET settled_at = created_at WHERE id = %(id)s", "Its settled_at is", "when it settled"),
    ("UPDATE operation SET payload_digest = '\\x01' WHERE id = %(id)s", "Its payload_digest is", "the digest"),
    ("UPDATE operation SET holds_identity = true WHERE id = %(id)s", "Its holds_identity is True", "who holds the intent"),
    ("UPDATE operation SET operation_id = 'w' WHERE id = %(id)s", "Its operation_id is w", "its name"),
    ("UPDATE operation SET decision = '{}' WHERE id = %(id)s", "Its decision is", "the decision"),
    ("UPDATE operation SET created_at = created_at - interval '1 s' WHERE id = %(id)s", "Its created_at is", "its age"),
    ("DELETE FROM operation WHERE id = %(id)s", "but no operation", "the operation, leaving its history"),
    ("UPDATE attempt SET effect = 'applied' WHERE operation = %(id)s AND number = 2", "The effect of attempt 2", "an effect"),
    ("UPDATE attempt SET proof = 'refused' WHERE operation = %(id)s AND number = 1", "The proof of attempt 1", "a proof"),
    ("UPDATE attempt SET licence = 'key_in_window' WHERE operation = %(id)s AND number = 2", "The licence of attempt 2", "a licence"),
    ("UPDATE attempt SET closed_at = NULL WHERE operation = %(id)s AND number = 2", "The closed_at of attempt 2", "the end"),
    ("UPDATE attempt SET lapses_at = now() WHERE operation = %(id)s AND number = 2", "The lapses_at of attempt 2", "a lapse"),
    ("DELETE FROM attempt WHERE operation = %(id)s AND number = 2", "tells of attempt 2, which is not there", "an attempt"),
    (
        "INSERT INTO attempt SELECT (jsonb_populate_record(r, '{\"number\": 3}')).* FROM attempt r "
        "WHERE operation = %(id)s AND number = 2",
        "There is attempt 3, of which its history says nothing",
        "an attempt too many",
    ),
    ("DELETE FROM evidence WHERE operation = %(id)s AND attempt = 2", "tells of evidence", "evidence"),
    ("UPDATE evidence SET digest = '\\x01' WHERE operation = %(id)s AND attempt = 2", "The digest of evidence", "a digest"),
    ("UPDATE evidence SET effect = 'pending' WHERE operation = %(id)s AND attempt = 2", "The effect of evidence", "a claim"),
    ("UPDATE evidence SET speaker = 'owner_status' WHERE operation = %(id)s", "The speaker of evidence", "who said it"),
    ("UPDATE evidence SET seq = seq - 1 WHERE operation = %(id)s AND attempt = 2", "The seq of evidence", "when it came"),
    (
        "INSERT INTO evidence SELECT (jsonb_populate_record(r, jsonb_build_object('id', gen_random_uuid(), "
        "'digest', '\\x01'))).* FROM evidence r WHERE operation = %(id)s AND attempt = 2",
        "of which its history says nothing",
        "evidence too much",
    ),
    ("UPDATE revision SET digest = '\\x01' WHERE operation = %(id)s", "The digest of revision 1", "a payload's digest"),
    ("DELETE FROM revision WHERE operation = %(id)s", "tells of revision 1", "a revision"),
    (
        "UPDATE original SET body = replace(body, 'v', 'w') WHERE operation = %(id)s AND kind = 'payload'",
        "The payload of revision 1 is not the one",
        "the payload itself",
    ),
    ("UPDATE attestation SET reason = 'guessed' WHERE operation = %(id)s", "The reason of answer", "a person's reason"),
    (
        "UPDATE attestation SET person_id = (SELECT id FROM person WHERE username = 'ada-v') WHERE operation = %(id)s",
        "The by of answer",
        "whose answer it was",
    ),
    ("DELETE FROM attestation WHERE operation = %(id)s AND signs_id IS NOT NULL", "tells of answer", "a signature"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "found", "why"), CHANGED, ids=[f"{n}: {row[2]}" for n, row in enumerate(CHANGED)])
def test_a_change_behind_the_ledgers_back_is_found(
    change: str, found: str, why: str, victim: UUID, tamper: Tamper
) -> None:
    assert verify()[0] == 0
    tamper(change, {"id": victim})
    code, said = verify()
    assert (code, str(victim) in said) == (1, True), said
    assert found in said, why


def test_a_clean_ledger_is_counted(victim: UUID) -> None:
    code, said = verify()
    assert code == 0
    assert "every chain is whole" in said


def test_destroyed_originals_are_no_difference(victim: UUID, database: Database) -> None:
    with psycopg.connect(database.retention_url) as retention:
        assert retention.execute("DELETE FROM original WHERE operation = %s", [victim]).rowcount == 3
    assert verify()[0] == 0


def rewrite(tamper: Tamper, id: UUID, change: Callable[[HistoryRow], HistoryRow]) -> None:
    """Rewrite a history and chain it anew, as somebody would who knows how the chain is made."""
    previous = id.bytes
    for seq, at, verb, actor, entry in execute(
        "SELECT seq, at, verb, actor, entry FROM journal WHERE operation = %s ORDER BY seq", [id]
    ):
        row = change(HistoryRow(seq=seq, at=at, verb=verb, actor=actor, entry=entry, hash=b""))
        previous = chained(previous=previous, row=row)
        tamper(
            "UPDATE journal SET at = %s, verb = %s, actor = %s, entry = %s, hash = %s WHERE operation = %s AND seq = %s",
            [row.at, row.verb, row.actor, row.entry, previous, id, seq],
        )


def test_a_history_that_was_rewritten_whole_is_found_by_its_anchor(
    victim: UUID, tamper: Tamper, tmp_path: Path
) -> None:
    anchor = tmp_path / "heads"
    assert verify(anchor=anchor)[0] == 0
    before = anchor.read_bytes()
    rewrite(tamper, victim, lambda row: replace(row, actor="worker") if row.seq == 2 else row)
    assert verify()[0] == 0, "inside the database nothing is left to tell"
    code, said = verify(anchor=anchor)
    assert code == 1
    assert str(victim) in said
    assert "its past was rewritten" in said
    assert anchor.read_bytes() == before, "a ledger with a difference leaves its anchor as it was"


def test_an_operation_that_was_removed_whole_is_found_by_its_anchor(
    victim: UUID, tamper: Tamper, tmp_path: Path
) -> None:
    anchor = tmp_path / "heads"
    verify(anchor=anchor)
    for table in ("journal", "evidence", "attestation", "revision", "attempt", "original"):
        tamper(f"DELETE FROM {table} WHERE operation = %s", [victim])
    tamper("DELETE FROM operation WHERE id = %s", [victim])
    assert verify()[0] == 0
    code, said = verify(anchor=anchor)
    assert (code, str(victim) in said) == (1, True)


def test_an_operation_that_was_wound_back_is_found_by_its_anchor(victim: UUID, tamper: Tamper, tmp_path: Path) -> None:
    anchor = tmp_path / "heads"
    verify(anchor=anchor)
    [(seq, hash)] = execute("SELECT seq, hash FROM journal WHERE operation = %s ORDER BY seq DESC LIMIT 1", [victim])
    assert f"{victim} {seq} {bytes(hash).hex()}\n" in anchor.read_text()
    tamper("DELETE FROM journal WHERE operation = %s AND seq = %s", [victim, seq])
    code, said = verify(anchor=anchor)
    assert code == 1
    assert f"The anchored history row {seq} is gone" in said


def test_an_anchor_follows_the_ledger(bench: Bench, tmp_path: Path) -> None:
    anchor = tmp_path / "heads"
    api = Api(bench.token)
    new = {"operation_id": "growing", "tool": "tickets.create", "payload": {"title": "g"}, "attempt": True}
    id = api.post("/operations", new).json()["data"]["id"]
    assert verify(anchor=anchor)[0] == 0
    assert f"{id} 1 " in anchor.read_text()
    api.post("/operations/growing/attempts/attempt-01/observations", LOST)
    api.post("/operations", {**new, "operation_id": "newer", "payload": {"title": "n"}})
    assert verify(anchor=anchor)[0] == 0
    assert f"{id} 2 " in anchor.read_text()
    ids = [line.split()[0] for line in anchor.read_text().splitlines()[1:]]
    assert ids == sorted(ids)
    assert [file.name for file in tmp_path.iterdir()] == ["heads"], "nothing half-written is left behind"


def _unsorted(text: str) -> str:
    return text + f"{uuid.UUID(int=1)} 1 {'00' * 32}\n"


UNREADABLE = [
    (lambda text: "", "its first line", "an empty file"),
    (lambda text: text.replace("heads 1", "heads 9"), "its first line", "another format"),
    (lambda text: text + "nonsense\n", "is not a chain head", "a line that is none"),
    (lambda text: text + f"{uuid.UUID(int=2**128 - 1)} one {'00' * 32}\n", "is not a chain head", "a word for a number"),
    (_unsorted, "out of order", "a line in the wrong place"),
]  # fmt: skip


@pytest.mark.parametrize(("spoil", "says", "why"), UNREADABLE, ids=[why for *_, why in UNREADABLE])
def test_an_anchor_that_cannot_be_read_is_said_to_be_one(
    spoil: Callable[[str], str], says: str, why: str, bench: Bench, tmp_path: Path
) -> None:
    anchor = tmp_path / "heads"
    verify(anchor=anchor)
    spoiled = spoil(anchor.read_text())
    anchor.write_text(spoiled)
    with pytest.raises(CommandError, match=says):
        verify(anchor=anchor)
    assert anchor.read_text() == spoiled, why


def test_an_anchor_in_no_folder_is_said_to_be_one(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot be read or written"):
        verify(anchor=tmp_path / "nowhere" / "heads")


def test_an_entry_that_nobody_can_replay_is_named(victim: UUID, tamper: Tamper) -> None:
    broken: list[Any] = [b"[]", b'{"set": 3}', orjson.dumps({"set": {}, "closes": {"number": 9}}), b"not json"]
    for entry in broken:
        rewrite(tamper, victim, lambda row, e=entry: replace(row, entry=e.decode()) if row.seq == 2 else row)
        code, said = verify()
        assert code == 1
        assert "Row 2 cannot be replayed" in said
