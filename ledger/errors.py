"""What the database refused, in words for people.

Constraints and triggers are named like the sentence they enforce; here each name has the sentence that a
person or a harness meets. A name without an entry is a bug, and is said to be one.
"""

from typing import Any

SENTENCES = {
    "journal_is_append_only": "History is only ever appended to. Nothing was changed.",
    "evidence_is_append_only": "Evidence is never changed or deleted. Nothing was changed.",
    "attestation_is_append_only": "What a person attested is never changed. Record a new answer instead.",
    "revision_is_append_only": "A payload is never overwritten. A repair makes a new revision.",
    "contract_version_is_append_only": "A published contract never changes. Publish a new version.",
    "original_is_append_only": "An original is never rewritten.",
    "operation_is_append_only": "An operation is never deleted.",
    "attempt_is_append_only": "An attempt is never deleted.",
    "item_is_append_only": "An item of a batch is never deleted.",
    "item_attempt_is_append_only": "What an attempt did to an item is never deleted.",
    "note_is_append_only": "A note is never changed. Write another one.",
    "desk_entry_is_append_only": "What somebody did at the desk stays written down. Undo it instead.",
    "an_act_is_undone_once": "This was undone already.",
    "bulk_job_is_append_only": "A job is never deleted. Stop it instead.",
    "bulk_member_is_append_only": "What a job was to do, and did, is never deleted.",
    "a_claim_has_a_holder_and_an_end": "A claim names who holds it and until when.",
    "a_snooze_wakes_on_a_known_word": "A snooze wakes on new evidence, the owner's return or a change of state.",
    "a_wake_rule_has_a_snooze": "A rule for waking needs a snooze that it ends.",
    "a_note_is_of_an_operation_or_of_a_group": "A note belongs to one operation or to one group.",
    "a_note_says_something": "Write something in the note.",
    "a_view_has_one_name_among_its_persons": "There is a view of this name already.",
    "a_view_groups_by_a_known_word": "A view groups by cause, by owner, or not at all.",
    "a_job_is_in_a_known_state": "A job waits, runs, is stopped or is finished.",
    "a_members_result_is_a_known_word": "An operation of a job is done, skipped or failed, or its turn has not come.",
    "event_is_append_only": "What others are told of is never deleted.",
    "one_attempt_in_flight": "An attempt of this operation is in flight already. Wait for its report or its lapse.",
    "an_operation_id_is_one_operation": "This operation_id is taken in this workspace.",
    "one_unsettled_operation_holds_an_identity": "Another unsettled operation has the same intent.",
    "only_the_holder_of_an_identity_is_dispatched": "Another unsettled operation has the same intent.",
    "a_written_off_operation_keeps_its_identity": "A written-off operation keeps its identity, so that nothing repeats it.",
    "a_permit_has_its_durable_payload": "No permit without a recorded payload.",
    "a_payload_is_durable_with_its_operation": "An operation stands on a recorded payload.",
    "a_payload_is_never_overwritten": "A payload is never overwritten. A repair makes a new revision.",
    "a_repeat_of_a_write_names_its_licence": "A repeat of a write needs a licence.",
    "none_and_applied_name_their_proof": "An effect is called none or applied only with a proof.",
    "evidence_of_none_or_applied_names_its_proof": "An effect is called none or applied only with a proof.",
    "text_verifiers_and_the_ledger_prove_no_effect": "Text, verifiers and our own bookkeeping prove no effect.",
    "an_index_never_proves_absence": "A search index never proves that something is absent.",
    "the_same_observation_is_evidence_once": "This observation is recorded already.",
    "a_state_change_has_its_history_row": "No state changes without its history row.",
    "history_has_no_gap": "History has no gap.",
    "a_change_moves_the_version_by_one": "Each change moves the version by one.",
    "an_operation_keeps_what_it_was_opened_as": "What an operation was opened as never changes.",
    "an_operation_has_history": "An operation has history from its first moment.",
    "attempt_keeps_what_was_permitted": "What an attempt was permitted to do never changes.",
    "a_closed_attempt_stays_closed": "A closed attempt stays closed.",
    "attempts_are_numbered_from_one": "Attempts are numbered from 1 to 999.",
    "an_items_key_is_its_own": "Two items of a batch have different keys.",
    "an_item_keeps_its_key": "An item keeps its place and its key for good.",
    "items_are_numbered_from_one": "The items of a batch are numbered from 1 to 10,000.",
    "an_items_outcome_says_what_its_effect_is": "An item's outcome must say what its effect is.",
    "an_items_none_and_applied_name_their_proof": "An item's effect is called none or applied only with a proof.",
    "an_items_attempt_is_its_operations": "An item is only carried by attempts of its own operation.",
    "an_attempts_item_is_its_operations": "An attempt only carries items of its own operation.",
    "settled_means_it_has_an_outcome": "Settled means that there is an outcome, and only then.",
    "an_outcome_says_what_the_effect_is": "An outcome must say what the effect is.",
    "an_operation_uses_its_workspaces_tool": "That tool belongs to another workspace.",
    "an_operation_uses_its_tools_contract": "That contract belongs to another tool.",
    "a_tool_has_an_owner_of_its_workspace": "That owner belongs to another workspace.",
    "a_tools_current_contract_is_its_own": "That contract belongs to another tool.",
    "a_second_signature_is_another_persons": "The second signature must be another person's, for the same answer.",
    "two_people_wrote_it_off": "An operation is written off by two people, or not at all.",
    "an_accepted_risk_licenses_one_permit": "Two people accept the risk of a duplicate for one permit; this one has no such "
    "decision.",
    "an_answer_has_evidence_or_a_reason": "An answer needs evidence or a reason.",
    "a_run_has_one_name_in_its_workspace": "The workspace has a run of this name already.",
    "a_runs_dispatches_stay_within_its_budget": "The run has used up its dispatches.",
    "a_run_sends_nothing_after_its_deadline": "The run's time ends before this could be answered.",
    "a_run_keeps_its_budget": "A run's budget never changes, and nothing that was counted is taken back.",
    "a_person_holds_a_role_once": "The person holds this role in the workspace already.",
    "a_tool_has_one_name_in_its_workspace": "The workspace has a tool of this name already.",
    "an_owner_has_one_name_in_its_workspace": "The workspace has an owner of this name already.",
    "a_circuit_is_in_a_known_state": "A circuit is closed, open or half open.",
    "an_open_circuit_says_when_it_asks_again": "An open circuit says since when it is open and when it asks again.",
    "a_secret_has_one_name_in_its_workspace": "The workspace has a secret of this name already.",
    "a_destination_has_one_name_in_its_workspace": "The workspace has a destination of this name already.",
    "an_event_goes_to_a_destination_once": "This event is on its way to that destination already.",
    "a_version_number_is_used_once": "Another version of this contract was published in the same moment. Publish again.",
} | {
    f"{table}_{column}_is_a_known_word": f"The {column.replace('_', ' ')} is not one of the words that the ledger knows."
    for table, columns in {
        "operation": ("state", "request", "effect", "verification", "outcome"),
        "attempt": ("licence", "effect", "proof", "failure_class", "sender"),
        "item": ("effect", "verification", "outcome", "failure_class", "licence"),
        "item_attempt": ("effect", "proof", "licence"),
        "destination": ("kind",),
        "evidence": ("speaker", "effect", "proof"),
        "attestation": ("answer",),
        "membership": ("role",),
        "original": ("kind",),
    }.items()
    for column in columns
}


class LawBroken(RuntimeError):
    """A transition was asked for something that the rules forbid. This is a bug in the caller; nothing was written."""


def constraint_of(error: Exception) -> str:
    """The name of the constraint or trigger that refused, or an empty string."""
    cause: Any = error.__cause__
    return getattr(getattr(cause, "diag", None), "constraint_name", None) or ""


def sentence(error: Exception) -> str:
    """What the database refused, for people."""
    name = constraint_of(error)
    return SENTENCES.get(name, f"The database refused this ({name or type(error).__name__}). Nothing was changed.")
