"""Each forbidden write, in raw SQL, as the application's role and as the role that owns the tables.

A row of `REFUSED` is a write, what refuses it, and why it must be refused. The application's role meets the grants
first, where there are any (`DENIED`); the owning role has every grant, so the constraints and triggers must hold alone.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import psycopg
import pytest

from ledger.errors import SENTENCES
from tests.conftest import TICKETS, Api, Database, make_bench

BATCH = {
    "contract": "tickets.import",
    "effect": "batch",
    "owner": "helpdesk",
    "identity": "none",
    "items": {"path": "payload.tickets", "key": "ref"},
}
DENIED = "(permission denied)"
LOST = {"kind": "exception", "exception": "ReadTimeout", "phase": "await", "bytes_sent": 300, "request_bytes": 300}
CREATED = {"kind": "http", "status": 201, "body": {"id": "t-1"}, "request": {"method": "POST", "path": "/tickets"}}


def copy_of(table: str, of: str, **changes: str) -> str:
    """A second row like the one of operation `of`, with these columns (SQL expressions) in place of its own."""
    members = ", ".join(f"'{name}', {value}" for name, value in changes.items())
    column = "id" if table == "operation" else "operation"
    return (
        f"INSERT INTO {table} SELECT (jsonb_populate_record(r, jsonb_build_object({members}))).* "
        f"FROM {table} r WHERE {column} = %({of})s LIMIT 1"
    )


def step(of: str, changes: str) -> str:
    """A change of an operation's row that moves its version as it should, with its history row."""
    return (
        f"UPDATE operation SET version = version + 1, {changes} WHERE id = %({of})s; "
        "INSERT INTO journal (operation, seq, at, verb, actor, entry, hash) "
        f"SELECT id, version, now(), 'test', 'test', '{{}}', '' FROM operation WHERE id = %({of})s"
    )


def signed(second: str) -> str:
    """A first person's answer on `open`, and a second one as given."""
    return (
        "INSERT INTO attestation (id, operation, person_id, answer, reason, evidence_url, version_seen, at) "
        "VALUES ('00000000-0000-0000-0000-00000000000a', %(open)s, %(olive)s, 'not_applied', 'seen', '', 1, now()); "
        "INSERT INTO attestation (id, operation, person_id, answer, reason, evidence_url, version_seen, signs_id, at) "
        f"VALUES (gen_random_uuid(), {second}, 'seen', '', 1, '00000000-0000-0000-0000-00000000000a', now())"
    )


def run(**columns: str) -> str:
    """A run of another workspace with these columns (SQL expressions)."""
    given = {"id": "gen_random_uuid()", "name": "'r'", "dispatches": "0", "questions": "'[]'", "created_at": "now()"}
    given |= columns
    return (
        f"INSERT INTO run (workspace_id, {', '.join(given)}) VALUES (%(their_workspace)s, {', '.join(given.values())})"
    )


EVENT = (
    "INSERT INTO event (id, workspace_id, kind, payload, at) "
    "VALUES ('00000000-0000-0000-0000-0000000000ee', %(their_workspace)s, 'test', '{}', now())"
)
NEW_ID = "gen_random_uuid()"
EVIDENCE = {"id": NEW_ID, "digest": "'\\x01'"}
ANOTHER = {"id": NEW_ID, "operation_id": "'another'", "holds_identity": "false", "state": "'open'"}
SETTLED = "state = 'settled', settled_at = now()"

APPEND_ONLY: Mapping[str, str] = {
    "journal": "history is what happened",
    "evidence": "later evidence never rewrites earlier evidence",
    "attestation": "what a person said stays said",
    "revision": "what was meant stays as it was recorded",
    "contract_version": "operations are pinned to what was promised then",
}
WORDS = {
    "operation": ("state", "request", "effect", "verification"),
    "attempt": ("licence", "effect", "proof", "failure_class"),
    "evidence": ("speaker", "effect", "proof"),
}
PERMITTED = {
    "number": "2",
    "revision": "2",
    "kind": "'retry'",
    "repeats_a_write": "true",
    "licence": "'effect_none_proved'",
    "principal": "'somebody else'",
    "idempotency_key": "'another key'",
    "opened_at": "opened_at - interval '1 hour'",
    "dispatch_by": "dispatch_by + interval '1 hour'",
}
OPENED_AS = {
    "operation_id": "'another'",
    "principal": "'somebody else'",
    "created_at": "created_at - interval '1 hour'",
    "tool_id": "%(their_tool)s",
    "contract_id": "%(their_contract)s",
    "workspace_id": "%(their_workspace)s",
}

Row = tuple[str, str | tuple[str, str], str]
"""The write; what refuses it (the application's role, the owning role, where they differ); why."""


def rows() -> Iterator[Row]:
    """The table."""
    for table, why in APPEND_ONLY.items():
        name = f"{table}_is_append_only"
        column = {"journal": "seq", "revision": "number"}.get(table, "id")
        yield f"UPDATE {table} SET {column} = {column}", (DENIED, name), f"{why}: no update, not even of nothing"
        yield f"DELETE FROM {table}", (DENIED, name), f"{why}: no deletion"
        yield f"TRUNCATE {table} CASCADE", (DENIED, name), f"{why}: no truncation"
    yield "UPDATE original SET body = ''", (DENIED, "original_is_append_only"), "an original is destroyed or left alone"
    yield "TRUNCATE original", (DENIED, "original_is_append_only"), "originals are destroyed one by one, by retention"
    yield f"{EVENT}; DELETE FROM event", (DENIED, "event_is_append_only"), "what others were told stays told"
    yield "TRUNCATE event CASCADE", (DENIED, "event_is_append_only"), "what others were told stays told"
    for table in ("operation", "attempt", "item", "item_attempt"):
        name = f"{table}_is_append_only"
        yield f"DELETE FROM {table}", (DENIED, name), f"no {table} is ever forgotten"
        yield f"TRUNCATE {table} CASCADE", (DENIED, name), f"no {table} is ever forgotten, all at once neither"
    yield f"{run()}; {run()}", "a_run_has_one_name_in_its_workspace", "one run, one budget"
    yield (
        run(dispatches="7", max_dispatches="6"),
        "a_runs_dispatches_stay_within_its_budget",
        "a permit beyond the run's budget is none",
    )
    yield (
        run(deadline_at="now()", latest_end="now() + interval '1 second'"),
        "a_run_sends_nothing_after_its_deadline",
        "nor one that reaches beyond its time",
    )
    for change in ("max_dispatches = 9", "deadline_at = now()", "dispatches = 1", "name = 'another'"):
        yield (
            f"{run(dispatches='2', max_dispatches='6')}; UPDATE run SET {change} WHERE name = 'r'",
            "a_run_keeps_its_budget",
            "nobody raises a budget, and nothing that was counted is taken back",
        )
    yield "SELECT 1 FROM journal FOR UPDATE", (DENIED, ""), "a lock on history is a right to change it"
    for changing in ("ALTER TABLE journal DISABLE TRIGGER ALL", "DROP TABLE journal CASCADE"):
        yield changing, (DENIED, ""), "whoever serves requests owns no table"
    yield "SET session_replication_role = replica", DENIED, "nobody but a superuser switches triggers off"
    yield "CREATE TABLE mine (x int)", (DENIED, ""), "whoever serves requests makes no table"
    yield "DELETE FROM django_migrations", (DENIED, ""), "whoever serves requests migrates nothing"
    for table in ("workspace", "tool", "owner", "api_token"):
        # The owning role may, where nothing points at the row; foreign keys guard the rest.
        yield f"DELETE FROM {table} WHERE false", (DENIED, ""), "what operations point at is never removed"

    for column, value in PERMITTED.items():
        write = f"UPDATE attempt SET {column} = {value} WHERE operation = %(flying)s"
        yield write, "attempt_keeps_what_was_permitted", f"law 6: the {column} is what was permitted"
    yield (
        "UPDATE attempt SET closed_at = NULL WHERE operation = %(open)s",
        "a_closed_attempt_stays_closed",
        "law 6: a report is not unsaid",
    )
    yield (
        "UPDATE attempt SET closed_at = closed_at + interval '1 s' WHERE operation = %(open)s",
        "a_closed_attempt_stays_closed",
        "law 6: nor moved",
    )
    yield copy_of("attempt", "flying", number="2"), "one_attempt_in_flight", "law 2: at most one attempt is in flight"
    yield (
        copy_of("attempt", "open", number="2", repeats_a_write="true"),
        "a_repeat_of_a_write_names_its_licence",
        "law 3: no repeat of a write without a licence",
    )
    for number in ("0", "1000"):
        yield copy_of("attempt", "open", number=number), "attempts_are_numbered_from_one", "attempt-01 to attempt-999"
    yield (
        copy_of("attempt", "open", number="2", revision="7"),
        "a_permit_has_its_durable_payload",
        "law 1: the payload is durable before the permit",
    )
    for effect in ("none", "applied"):
        yield (
            f"UPDATE attempt SET effect = '{effect}', proof = NULL WHERE operation = %(open)s",
            "none_and_applied_name_their_proof",
            "law 4: certainty needs a proof",
        )
        yield (
            copy_of("evidence", "open", **EVIDENCE, effect=f"'{effect}'", proof="NULL"),
            "evidence_of_none_or_applied_names_its_proof",
            "law 4: evidence of certainty names its proof",
        )
        for speaker in ("tool_text", "verifier", "ledger"):
            yield (
                copy_of(
                    "evidence",
                    "open",
                    **EVIDENCE,
                    effect=f"'{effect}'",
                    proof="'owner_result'",
                    speaker=f"'{speaker}'",
                ),
                "text_verifiers_and_the_ledger_prove_no_effect",
                f"law 4: {speaker} may not say {effect}",
            )
    yield (
        copy_of("evidence", "open", **EVIDENCE, effect="'none'", proof="'graded_absence'", speaker="'owner_index'"),
        "an_index_never_proves_absence",
        "law 4: an index may lag",
    )
    yield (
        copy_of("evidence", "open", id=NEW_ID),
        "the_same_observation_is_evidence_once",
        "the same report twice is one piece of evidence",
    )

    yield (
        "UPDATE operation SET version = version + 1 WHERE id = %(open)s",
        "a_state_change_has_its_history_row",
        "law 5: the history row is written in the same transaction",
    )
    yield (
        "UPDATE operation SET state = 'open' WHERE id = %(open)s",
        "a_change_moves_the_version_by_one",
        "law 5: no change behind the version's back",
    )
    yield (
        "UPDATE operation SET version = version + 2 WHERE id = %(open)s",
        "a_change_moves_the_version_by_one",
        "law 5: no jump",
    )
    yield (
        "UPDATE operation SET version = version - 1 WHERE id = %(open)s",
        "a_change_moves_the_version_by_one",
        "law 5: no step back",
    )
    yield (
        "INSERT INTO journal (operation, seq, at, verb, actor, entry, hash) "
        "SELECT id, version + 2, now(), 'test', 'test', '{}', '' FROM operation WHERE id = %(open)s",
        "history_has_no_gap",
        "law 5: each row hangs on the one before it",
    )
    yield (
        "INSERT INTO journal (operation, seq, at, verb, actor, entry, hash) "
        "SELECT id, version, now(), 'test', 'test', '{}', '' FROM operation WHERE id = %(open)s",
        "journal_pkey",
        "law 5: a history row is written once",
    )
    yield copy_of("operation", "open", **ANOTHER, version="0"), "an_operation_has_history", "law 5: from its first row"
    for column, value in OPENED_AS.items():
        yield step("open", f"{column} = {value}"), "an_operation_keeps_what_it_was_opened_as", f"its {column} is fixed"

    yield (
        step("open", "payload_digest = '\\x01'"),
        "a_payload_is_never_overwritten",
        "law 1: another payload is another revision",
    )
    yield (
        step("open", "identity_digest = '\\x01'"),
        "a_payload_is_never_overwritten",
        "law 1: nor does its identity change",
    )
    yield (
        step("open", "payload_digest = '\\x01', revision = 2"),
        "a_payload_is_durable_with_its_operation",
        "law 1: the revision must be there",
    )

    yield (
        copy_of("operation", "open", **ANOTHER, tool_id="%(their_tool)s", contract_id="%(their_contract)s"),
        "an_operation_uses_its_workspaces_tool",
        "law 10: no tool of another workspace",
    )
    yield (
        copy_of("operation", "open", **ANOTHER, contract_id="%(their_contract)s"),
        "an_operation_uses_its_tools_contract",
        "law 10: no contract of another workspace",
    )
    yield (
        "UPDATE tool SET owner_id = %(their_owner)s WHERE id = %(our_tool)s",
        "a_tool_has_an_owner_of_its_workspace",
        "law 10: no owner of another workspace",
    )
    yield (
        "UPDATE tool SET current_id = %(their_contract)s WHERE id = %(our_tool)s",
        "a_tools_current_contract_is_its_own",
        "law 10: nor another tool's contract as its own",
    )

    yield (
        copy_of("operation", "open", **{**ANOTHER, "holds_identity": "true"}),
        "one_unsettled_operation_holds_an_identity",
        "law 11: one intent, one holder",
    )
    yield (
        copy_of("operation", "open", **{**ANOTHER, "operation_id": "'open'"}),
        "an_operation_id_is_one_operation",
        "law 1: one operation_id, one operation",
    )
    yield (
        step("flying", "holds_identity = false"),
        "only_the_holder_of_an_identity_is_dispatched",
        "law 11: whoever is dispatched holds the intent",
    )
    yield (
        step("open", f"{SETTLED}, outcome = 'written_off', holds_identity = false"),
        "a_written_off_operation_keeps_its_identity",
        "law 11: written off is not settled for a twin",
    )

    yield step("open", SETTLED), "settled_means_it_has_an_outcome", "settled is not a state without an outcome"
    yield (
        step("open", "outcome = 'written_off'"),
        "settled_means_it_has_an_outcome",
        "nor is there an outcome before it is settled",
    )
    yield (
        step("open", "state = 'settled', outcome = 'written_off'"),
        "settled_means_it_has_an_outcome",
        "and it has a time",
    )
    for outcome, effect in (
        ("applied", "unknown"),
        ("applied", "none"),
        ("not_applied", "unknown"),
        ("not_applied", "pending"),
        ("not_applied", "applied"),
        ("partially_applied", "applied"),
        ("written_off", "none"),
        ("read", "unknown"),
    ):
        yield (
            step("open", f"{SETTLED}, outcome = '{outcome}', effect = '{effect}'"),
            "an_outcome_says_what_the_effect_is",
            f"{outcome} is not said of an effect that is {effect}",
        )

    second = "a_second_signature_is_another_persons"
    yield signed("%(open)s, %(olive)s, 'not_applied'"), second, "§5: two people are two"
    yield signed("%(open)s, %(ada)s, 'applied'"), second, "§5: both sign the same answer"
    yield signed("%(flying)s, %(ada)s, 'not_applied'"), second, "§5: of the same operation"
    yield (
        signed("%(open)s, %(ada)s, 'not_applied'")
        + "; INSERT INTO attestation (id, operation, person_id, answer, reason, evidence_url, version_seen, signs_id, at)"
        " SELECT gen_random_uuid(), operation, %(max)s, answer, reason, '', 1, id, now() FROM attestation"
        " WHERE signs_id IS NOT NULL AND operation = %(open)s",
        second,
        "§5: a signature is not signed again",
    )
    yield (
        "INSERT INTO attestation (id, operation, person_id, answer, reason, evidence_url, version_seen, at) "
        "VALUES (gen_random_uuid(), %(open)s, %(olive)s, 'applied', '', '', 1, now())",
        "an_answer_has_evidence_or_a_reason",
        "§5: nobody just says so",
    )
    yield (
        "INSERT INTO attestation (id, operation, person_id, answer, reason, evidence_url, version_seen, at) "
        "VALUES (gen_random_uuid(), %(open)s, %(olive)s, 'perhaps', 'seen', '', 1, now())",
        "attestation_answer_is_a_known_word",
        "an answer is one of four words",
    )

    yield from _of_two_people()
    yield from _of_items()
    yield from _of_owners_and_telling()
    yield from _of_the_desk()
    yield (
        copy_of("attempt", "open", number="2", sender="'nobody'"),
        "attempt_sender_is_a_known_word",
        "a harness sends, or a worker of ours",
    )

    for table, columns in WORDS.items():
        for column in columns:
            name = f"{table}_{column}_is_a_known_word"
            if table == "operation":
                yield step("open", f"{column} = 'perhaps'"), name, "vocabulary.py has all the words"
            elif table == "attempt":
                write = copy_of("attempt", "open", number="2", **{column: "'perhaps'"})
                yield write, name, "vocabulary.py has all the words"
            else:
                write = copy_of("evidence", "open", **EVIDENCE, **{column: "'perhaps'"})
                yield write, name, "vocabulary.py has all the words"
    yield (
        "INSERT INTO membership (workspace_id, person_id, role) VALUES (%(their_workspace)s, %(olive)s, 'king')",
        "membership_role_is_a_known_word",
        "vocabulary.py has all the words",
    )
    yield (
        "INSERT INTO membership (workspace_id, person_id, role) VALUES (%(their_workspace)s, %(olive)s, 'viewer'), "
        "(%(their_workspace)s, %(olive)s, 'viewer')",
        "a_person_holds_a_role_once",
        "a role held twice could be taken away once",
    )
    yield (
        "INSERT INTO original (id, operation, kind, body) VALUES (gen_random_uuid(), %(open)s, 'perhaps', '')",
        "original_kind_is_a_known_word",
        "an original is a payload, an observation or an answer",
    )
    yield (
        "INSERT INTO tool (id, workspace_id, name, owner_id) SELECT gen_random_uuid(), workspace_id, name, owner_id "
        "FROM tool WHERE id = %(our_tool)s",
        "a_tool_has_one_name_in_its_workspace",
        "a name is one tool",
    )
    yield (
        "INSERT INTO owner SELECT (jsonb_populate_record(r, jsonb_build_object('id', gen_random_uuid()))).* "
        "FROM owner r WHERE id = %(their_owner)s",
        "an_owner_has_one_name_in_its_workspace",
        "a name is one owner",
    )
    yield (
        "INSERT INTO contract_version SELECT gen_random_uuid(), number, document, digest, published_at, "
        "published_by_id, tool_id FROM contract_version WHERE id = %(their_contract)s",
        "a_version_number_is_used_once",
        "tickets.create@1 is one document",
    )


def _of_two_people() -> Iterator[Row]:
    """Laws of what only two people decide."""
    off = f"{SETTLED}, outcome = 'written_off', effect = 'unknown', holds_identity = true"
    yield step("open", off), "two_people_wrote_it_off", "§5: nobody writes off alone, and nothing does"
    for answer, seen, why in (
        ("not_applied", "version", "§5: signatures for another answer"),
        ("written_off", "version - 1", "§5: nor with signatures for what it was before"),
    ):
        yield f"{_by_two(answer, seen)}; {step('open', off)}", "two_people_wrote_it_off", why
    at_risk = copy_of("attempt", "open", number="2", **PERMITTED_AT_RISK)
    yield at_risk, "an_accepted_risk_licenses_one_permit", "§7: nobody accepted the risk"
    yield (
        f"{_by_two('accept_duplicate_risk', 'version')}; {at_risk}; "
        + copy_of("attempt", "open", number="3", **PERMITTED_AT_RISK),
        "an_accepted_risk_licenses_one_permit",
        "§7: it was accepted for one permit, and one was given",
    )


PERMITTED_AT_RISK = {"repeats_a_write": "true", "licence": "'accepted_duplicate_risk'", "closed_at": "now()"}


def _by_two(answer: str, seen: str) -> str:
    """Two people's signatures under an answer on `open`, for the version (an SQL expression) that they saw."""
    columns = "id, operation, person_id, answer, reason, evidence_url, version_seen, at"
    first = "'00000000-0000-0000-0000-00000000000b'"
    return (
        f"INSERT INTO attestation ({columns}) SELECT {first}, id, %(olive)s, '{answer}', 'seen', '', {seen}, now() "
        "FROM operation WHERE id = %(open)s; "
        f"INSERT INTO attestation ({columns}, signs_id) SELECT gen_random_uuid(), id, %(ada)s, '{answer}', 'seen', '', "
        f"{seen}, now(), {first} FROM operation WHERE id = %(open)s"
    )


def _of_items() -> Iterator[Row]:
    """Laws of batches. `batch` has two items, both carried by its only attempt."""
    one, first = "WHERE operation = %(batch)s AND number = 1", {"number": "3", "key": "'c'"}
    yield copy_of("item", "batch", number="3"), "an_items_key_is_its_own", "law 10: a key names one item"
    yield f"UPDATE item SET key = 'z' {one}", "an_item_keeps_its_key", "law 10: and names it for good"
    yield f"UPDATE item SET number = 3 {one}", "an_item_keeps_its_key", "law 10: so does its place"
    for number in ("0", "10001"):
        yield copy_of("item", "batch", **{**first, "number": number}), "items_are_numbered_from_one", "from 1 to 10,000"
    for outcome, effect in (
        ("applied", "none"),
        ("not_applied", "unknown"),
        ("not_applied", "applied"),
        ("written_off", "applied"),
        ("partially_applied", "partial"),
        ("read", "none"),
    ):
        yield (
            f"UPDATE item SET outcome = '{outcome}', effect = '{effect}' {one}",
            "an_items_outcome_says_what_its_effect_is",
            f"law 10: an item that is {effect} is not settled as {outcome}",
        )
    for effect in ("none", "applied"):
        yield (
            f"UPDATE item_attempt SET effect = '{effect}', proof = NULL {one}",
            "an_items_none_and_applied_name_their_proof",
            "law 4: certainty needs a proof, of an item too",
        )
    yield (
        copy_of("item_attempt", "batch", attempt="2"),
        "an_items_attempt_is_its_operations",
        "law 6: nothing was done by an attempt that is not there",
    )
    yield (
        copy_of("item_attempt", "batch", number="3"),
        "an_attempts_item_is_its_operations",
        "law 10: nor to an item that is not there",
    )
    for column in ("effect", "verification", "failure_class", "licence"):
        yield (
            copy_of("item", "batch", **first, **{column: "'perhaps'"}),
            f"item_{column}_is_a_known_word",
            "vocabulary.py",
        )
    for column in ("effect", "proof", "licence"):
        yield (
            f"UPDATE item_attempt SET {column} = 'perhaps' {one}",
            f"item_attempt_{column}_is_a_known_word",
            "vocabulary.py",
        )


def _of_owners_and_telling() -> Iterator[Row]:
    """Laws of owners' circuits, kept secrets, and what others are told."""
    circuit = "INSERT INTO owner_state (owner, circuit, failures, last_reason, paused_by, paused_because{more}) VALUES (%(their_owner)s, {values})"
    yield (
        circuit.format(more="", values="'ajar', 0, '', '', ''"),
        "a_circuit_is_in_a_known_state",
        "a circuit is closed, open or half open",
    )
    yield (
        circuit.format(more=", opened_at", values="'open', 5, '', '', '', now()"),
        "an_open_circuit_says_when_it_asks_again",
        "an owner that is asked no more at all would be forgotten",
    )
    secret = (
        "INSERT INTO secret (id, workspace_id, name, sealed, created_at, changed_at) "
        "VALUES (gen_random_uuid(), %(their_workspace)s, 'token', '', now(), now())"
    )
    yield f"{secret}; {secret}", "a_secret_has_one_name_in_its_workspace", "secret:token is one value"
    destination = (
        "INSERT INTO destination (id, workspace_id, name, kind, sealed_address, kinds, created_at) "
        "VALUES ({id}, %(their_workspace)s, 'ops', '{kind}', '', '[]', now())"
    )
    webhook = destination.format(id="'00000000-0000-0000-0000-0000000000de'", kind="webhook")
    yield (
        f"{webhook}; {destination.format(id=NEW_ID, kind='email')}",
        "a_destination_has_one_name_in_its_workspace",
        "a contract that notifies ops means one place",
    )
    yield destination.format(id=NEW_ID, kind="pigeon"), "destination_kind_is_a_known_word", "nobody carries it there"
    delivery = (
        "INSERT INTO delivery (id, event_id, destination_id, tries, log) VALUES (gen_random_uuid(), "
        "'00000000-0000-0000-0000-0000000000ee', '00000000-0000-0000-0000-0000000000de', 0, '[]')"
    )
    yield (
        f"{webhook}; {EVENT}; {delivery}; {delivery}",
        "an_event_goes_to_a_destination_once",
        "nobody is told the same thing twice",
    )


def _of_the_desk() -> Iterator[Row]:
    """Laws of claims, notes, views and jobs in bulk."""

    def inserted(table: str, **values: str) -> str:
        return f"INSERT INTO {table} ({', '.join(values)}) VALUES ({', '.join(values.values())})"

    desk = {"operation": "%(open)s", "workspace_id": "%(their_workspace)s", "labels": "'[]'", "changed_at": "now()"}
    desk |= {"wakes_on": "''"}
    for half in ({"holder_id": "%(ada)s"}, {"held_until": "now()"}):
        yield inserted("desk", **desk, **half), "a_claim_has_a_holder_and_an_end", "a claim without an end never lapses"
    yield (
        inserted("desk", **desk | {"wakes_on": "'thunder'", "snoozed_until": "now()"}),
        "a_snooze_wakes_on_a_known_word",
        "nothing would ever wake it",
    )
    yield inserted("desk", **desk | {"wakes_on": "'evidence'"}), "a_wake_rule_has_a_snooze", "it does not sleep"
    note = {"id": NEW_ID, "workspace_id": "%(their_workspace)s", "author_id": "%(ada)s", "at": "now()"}
    note |= {"mentions": "'[]'", "cause": "''", "text": "'seen'", "operation": "%(open)s"}
    yield inserted("note", **note | {"text": "''"}), "a_note_says_something", "an empty note tells nobody anything"
    for nowhere in ({"operation": "NULL"}, {"tool_id": "%(our_tool)s"}):
        yield (
            inserted("note", **note | nowhere),
            "a_note_is_of_an_operation_or_of_a_group",
            "it would stand nowhere, or twice",
        )
    entry = {"id": NEW_ID, "workspace_id": "%(their_workspace)s", "person_id": "%(ada)s", "verb": "'claim'"}
    entry |= {"cause": "''", "at": "now()"}
    done = inserted("desk_entry", **entry | {"id": "'00000000-0000-0000-0000-0000000000d0'"})
    undone = inserted("desk_entry", **entry, undoes_id="'00000000-0000-0000-0000-0000000000d0'")
    yield f"{done}; {undone}; {undone}", "an_act_is_undone_once", "a second undo would undo somebody else's act"
    for table, row, why in (("note", note, "what was written"), ("desk_entry", entry, "what was done")):
        written, name = inserted(table, **row), f"{table}_is_append_only"
        yield f"{written}; UPDATE {table} SET at = now()", (DENIED, name), f"{why} stays written"
        yield f"{written}; DELETE FROM {table}", (DENIED, name), f"{why} stays written"
        yield f"TRUNCATE {table} CASCADE", (DENIED, name), f"{why} stays written"
    view = {"id": NEW_ID, "workspace_id": "%(their_workspace)s", "name": "'mine'", "query": "''", "grouping": "''"}
    view |= {"created_at": "now()"}
    for whose in ({}, {"person_id": "%(ada)s"}):
        twice = inserted("saved_view", **view, **whose)
        yield f"{twice}; {twice}", "a_view_has_one_name_among_its_persons", "a name is one view, the team's too"
    yield inserted("saved_view", **view | {"grouping": "'mood'"}), "a_view_groups_by_a_known_word", "nobody can draw it"
    job = {"id": "'00000000-0000-0000-0000-0000000000f0'", "workspace_id": "%(their_workspace)s"}
    job |= {"person_id": "%(ada)s", "verb": "'claim'", "reason": "''", "evidence_url": "''", "options": "'{}'"}
    job |= {"query": "''", "set_digest": "''", "total": "1", "per_second": "1", "state": "'waiting'"}
    job |= {"done": "0", "skipped": "0", "failed": "0", "created_at": "now()"}
    member = {"job_id": job["id"], "number": "1", "operation": "%(open)s", "version_seen": "1", "because": "''"}
    yield inserted("bulk_job", **job | {"state": "'asleep'"}), "a_job_is_in_a_known_state", "nobody would take it up"
    yield (
        f"{inserted('bulk_job', **job)}; {inserted('bulk_member', **member, result=repr('lost'))}",
        "a_members_result_is_a_known_word",
        "skipped is not failed, and nothing else is known",
    )
    for table, begun in (
        ("bulk_job", inserted("bulk_job", **job)),
        ("bulk_member", f"{inserted('bulk_job', **job)}; {inserted('bulk_member', **member, result=repr(''))}"),
    ):
        yield (
            f"{begun}; DELETE FROM {table}",
            (DENIED, f"{table}_is_append_only"),
            "what was done in bulk stays written",
        )


REFUSED = tuple(rows())


@pytest.fixture(scope="module")
def known(database: Database) -> dict[str, Any]:
    """Ids by the names that the table uses: one operation in flight, one open, people, and another workspace's things."""
    from django.db import connection

    from ledger.database import execute
    from ledger.queries.facts import held_by_name
    from ledger.rules.resolutions import Answer, offers
    from ledger.transitions.person import Signer, attest
    from ledger.transitions.workspace import ensure_person

    ours, theirs = make_bench(), make_bench()
    their_contract, our_contract = theirs.publish(TICKETS), ours.publish(TICKETS)
    ours.publish(BATCH)
    api = Api(ours.token)
    for name in ("flying", "open", "done"):
        api.post(
            "/operations", {"operation_id": name, "tool": "tickets.create", "payload": {"title": name}, "attempt": True}
        )
    tickets = [{"ref": "a"}, {"ref": "b"}]
    batch = {"operation_id": "batch", "tool": "tickets.import", "payload": {"tickets": tickets}, "attempt": True}
    assert api.post("/operations", batch).status_code == 201
    api.post("/operations/open/attempts/attempt-01/observations", LOST)
    api.post("/operations/done/attempts/attempt-01/observations", CREATED)
    ids = dict(execute("SELECT operation_id, id FROM operation WHERE workspace_id = %s", [ours.id]))
    people = {
        name: ensure_person(username=f"{name}-laws", name=name, password="x" * 20) for name in ("olive", "ada", "max")
    }
    held = held_by_name(workspace_id=ours.id, operation_id="open")
    assert held is not None
    offer = next(
        offer
        for offer in offers(facts=held.facts, contract=held.contract, now=held.now, blocked_by_identity=False)
        if offer.answer is Answer.CANNOT_TELL
    )
    signer = Signer(id=people["olive"], username="olive-laws")
    version = held.facts.version
    attest(
        held=held, signer=signer, offer=offer, reason="not yet", evidence_url="", expected_version=version, signs=None
    )
    tools = dict(execute("SELECT current_id, id FROM tool WHERE workspace_id = ANY(%s)", [[ours.id, theirs.id]]))
    connection.close()
    return {
        **ids,
        **people,
        "our_tool": tools[our_contract],
        "their_tool": tools[their_contract],
        "their_contract": their_contract,
        "their_owner": theirs.owner_id,
        "their_workspace": theirs.id,
    }


def refusal(connection: psycopg.Connection[Any], write: str, known: Mapping[str, Any]) -> str:
    """What refuses a write: a constraint's name, `DENIED`, or nothing at all."""
    cursor = psycopg.ClientCursor(connection)
    try:
        cursor.execute(write, known)
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    except psycopg.errors.InsufficientPrivilege:
        return DENIED
    except psycopg.Error as error:
        return error.diag.constraint_name or f"{type(error).__name__}: {error}"
    finally:
        connection.rollback()
    return ""


def expected(row: Row, role: int) -> str:
    return row[1] if isinstance(row[1], str) else row[1][role]


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: f"{row[0][:60]} — {row[2]}")
def test_the_applications_role_is_refused(row: Row, as_app: psycopg.Connection[Any], known: dict[str, Any]) -> None:
    assert refusal(as_app, row[0], known) == expected(row, 0), row[2]


@pytest.mark.parametrize(
    "row", [row for row in REFUSED if expected(row, 1)], ids=lambda row: f"{row[0][:60]} — {row[2]}"
)
def test_the_owning_role_is_refused(row: Row, as_owner: psycopg.Connection[Any], known: dict[str, Any]) -> None:
    assert refusal(as_owner, row[0], known) == expected(row, 1), row[2]


RETENTION = [
    ("DELETE FROM original WHERE operation = %(done)s", "", "the one thing that it is for"),
    ("UPDATE original SET body = ''", DENIED, "it destroys, it does not rewrite"),
    ("INSERT INTO original (id, operation, kind, body) VALUES (gen_random_uuid(), %(done)s, 'payload', '')", DENIED, "nor add"),
    ("SELECT digest FROM evidence", DENIED, "evidence is no business of its"),
    ("DELETE FROM evidence", DENIED, "evidence stays"),
    ("DELETE FROM journal", DENIED, "history stays"),
    ("DELETE FROM revision", DENIED, "digests stay"),
    ("DELETE FROM operation", DENIED, "operations stay"),
    ("UPDATE operation SET state = 'settled'", DENIED, "it decides nothing"),
    ("SELECT operation_id FROM operation", DENIED, "it sees when an operation settled, and no more"),
    ("SELECT hash FROM api_token", DENIED, "tokens are no business of its"),
]  # fmt: skip


@pytest.mark.parametrize(("write", "refused", "why"), RETENTION, ids=[why for _, _, why in RETENTION])
def test_retention_destroys_originals_and_nothing_else(
    write: str, refused: str, why: str, as_retention: psycopg.Connection[Any], known: dict[str, Any]
) -> None:
    assert refusal(as_retention, write, known) == refused, why


def test_the_applications_role_keeps_originals(as_app: psycopg.Connection[Any], known: dict[str, Any]) -> None:
    assert refusal(as_app, "DELETE FROM original WHERE operation = %(done)s", known) == DENIED


def test_evidence_keeps_its_digest_when_its_original_is_destroyed(
    as_retention: psycopg.Connection[Any], as_app: psycopg.Connection[Any], known: dict[str, Any]
) -> None:
    read = "SELECT digest, original, detail FROM evidence WHERE operation = %(done)s"
    before = as_app.execute(read, known).fetchall()
    assert as_retention.execute("DELETE FROM original WHERE operation = %(done)s", known).rowcount == 2
    as_retention.commit()
    assert as_app.execute(read, known).fetchall() == before
    assert None not in before[0], "digest, reference and grade"
    gone = as_app.execute("SELECT count(*) FROM original WHERE operation = %(done)s", known).fetchone()
    as_app.rollback()
    assert gone == (0,)


def test_the_hash_is_the_databases_whatever_a_writer_claims(
    as_app: psycopg.Connection[Any], known: dict[str, Any]
) -> None:
    row = as_app.execute(
        "INSERT INTO journal (operation, seq, at, verb, actor, entry, hash) SELECT id, version + 1, now(), 'test', "
        "'test', '{}', '\\xdeadbeef' FROM operation WHERE id = %(open)s RETURNING hash",
        known,
    ).fetchone()
    as_app.rollback()
    assert row is not None
    assert len(row[0]) == 32


FRAMEWORK = re.compile(
    r"_pkey$"  # a primary key
    r"|_[0-9a-f]{8}_(fk_|uniq$)"  # Django's foreign keys and unique sets, by its own hash
    r"|_fk_\w+$"
    r"|^(auth|django|person)_"  # Django's own tables, and its person's
    r"|^(workspace_slug|api_token_prefix)_key$"  # unique columns: the slug and the prefix are made by us
    r"|^\w+_(version_seen|number|clean_reads|network_attempts|polls|repairs|replans|retries|revision|version|seq"
    r"|timeout_ms|attempt|checks|tries|failures|most_at_once|total|done|skipped|failed)_check$"  # Django's PositiveIntegerField: not negative
    r"|^(owner_in|tool_in|version_of|revision_with)_its_\w+$"  # keys that only foreign keys point at
)
"""Names that are not a law of ours: the framework's own, and keys that exist only to be pointed at."""


def names_in_the_database(connection: psycopg.Connection[Any]) -> set[str]:
    """Every name under which the database can refuse: constraints, unique indexes, and what triggers raise."""
    constraints = connection.execute(
        "SELECT conname FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND contype NOT IN ('n', 't')"
    ).fetchall()
    indexes = connection.execute(
        "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
        "WHERE i.indisunique AND c.relnamespace = 'public'::regnamespace AND c.relname NOT LIKE '%\\_pkey'"
    ).fetchall()
    triggers = connection.execute(
        "SELECT t.tgname, t.tgrelid::regclass::text, p.prosrc FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid "
        "JOIN pg_class c ON c.oid = t.tgrelid WHERE NOT t.tgisinternal AND c.relnamespace = 'public'::regnamespace"
    ).fetchall()
    connection.rollback()
    names = {name for (name,) in [*constraints, *indexes]}
    for name, table, source in triggers:
        raised = re.findall(r"CONSTRAINT = '(\w+)'", source)
        if "TG_TABLE_NAME || '_is_append_only'" in source:
            raised.append(f"{table}_is_append_only")
        assert raised, f"the trigger {name} refuses without a name"
        names.update(raised)
    return names


def test_every_law_has_its_sentence(as_owner: psycopg.Connection[Any]) -> None:
    ours = {name for name in names_in_the_database(as_owner) if not FRAMEWORK.search(name)}
    assert ours - set(SENTENCES) == set(), "laws without a sentence"
    assert set(SENTENCES) - ours == set(), "sentences of laws that the database does not have"


def test_every_sentence_is_one(as_owner: psycopg.Connection[Any]) -> None:
    for name, sentence in SENTENCES.items():
        assert re.fullmatch(r"[A-Z].*\.", sentence), name


def test_every_law_is_tried() -> None:
    tried = {name for row in REFUSED for name in (expected(row, 0), expected(row, 1))}
    # An unknown outcome contradicts every effect as well, and that check comes first.
    tried |= {"operation_outcome_is_a_known_word", "item_outcome_is_a_known_word"}
    assert set(SENTENCES) - tried == set(), "laws that no row of the table tries"


def test_two_people_may(as_app: psycopg.Connection[Any], known: dict[str, Any]) -> None:
    off = step("open", f"{SETTLED}, outcome = 'written_off', effect = 'unknown', holds_identity = true")
    assert refusal(as_app, f"{_by_two('written_off', 'version')}; {off}", known) == ""
    at_risk = copy_of("attempt", "open", number="2", **PERMITTED_AT_RISK)
    assert refusal(as_app, f"{_by_two('accept_duplicate_risk', 'version')}; {at_risk}", known) == ""
