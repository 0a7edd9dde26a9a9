-- What the database itself refuses, whoever asks. Each object is named like the sentence it enforces;
-- ledger/errors.py turns the name into words for people, tests/ledger/test_laws.py tries each one in raw SQL.

-- Append-only: grants refuse the application's role first; these triggers refuse the owning role too.
CREATE FUNCTION is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP
    USING ERRCODE = 'restrict_violation', CONSTRAINT = TG_TABLE_NAME || '_is_append_only';
END $$;

CREATE TRIGGER journal_is_append_only BEFORE UPDATE OR DELETE ON journal FOR EACH ROW EXECUTE FUNCTION is_append_only();
CREATE TRIGGER journal_is_never_truncated BEFORE TRUNCATE ON journal FOR EACH STATEMENT EXECUTE FUNCTION is_append_only();
CREATE TRIGGER evidence_is_append_only BEFORE UPDATE OR DELETE ON evidence FOR EACH ROW EXECUTE FUNCTION is_append_only();
CREATE TRIGGER evidence_is_never_truncated BEFORE TRUNCATE ON evidence FOR EACH STATEMENT EXECUTE FUNCTION is_append_only();
CREATE TRIGGER attestation_is_append_only BEFORE UPDATE OR DELETE ON attestation FOR EACH ROW EXECUTE FUNCTION is_append_only();
CREATE TRIGGER attestation_is_never_truncated BEFORE TRUNCATE ON attestation FOR EACH STATEMENT EXECUTE FUNCTION is_append_only();
CREATE TRIGGER revision_is_append_only BEFORE UPDATE OR DELETE ON revision FOR EACH ROW EXECUTE FUNCTION is_append_only();
CREATE TRIGGER revision_is_never_truncated BEFORE TRUNCATE ON revision FOR EACH STATEMENT EXECUTE FUNCTION is_append_only();
CREATE TRIGGER contract_version_is_append_only BEFORE UPDATE OR DELETE ON contract_version FOR EACH ROW EXECUTE FUNCTION is_append_only();
CREATE TRIGGER contract_version_is_never_truncated BEFORE TRUNCATE ON contract_version FOR EACH STATEMENT EXECUTE FUNCTION is_append_only();

-- An original is never rewritten. Deleting one is left to the grants: only the retention role may.
CREATE TRIGGER original_is_never_rewritten BEFORE UPDATE ON original FOR EACH ROW EXECUTE FUNCTION is_append_only();
CREATE TRIGGER original_is_never_truncated BEFORE TRUNCATE ON original FOR EACH STATEMENT EXECUTE FUNCTION is_append_only();

-- The chain: each journal row carries the hash of itself and of the row before it in its operation.
-- The first row hangs on its operation's id. The database computes it, so no caller can get it wrong.
CREATE FUNCTION journal_is_chained() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE previous bytea;
BEGIN
  IF NEW.seq = 1 THEN
    previous := uuid_send(NEW.operation);
  ELSE
    SELECT hash INTO previous FROM journal WHERE operation = NEW.operation AND seq = NEW.seq - 1;
    IF NOT FOUND THEN
      RAISE EXCEPTION 'journal of % has no row %', NEW.operation, NEW.seq - 1
        USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'history_has_no_gap';
    END IF;
  END IF;
  NEW.hash := sha256(previous || convert_to(concat_ws(E'\x1f', NEW.seq::text, (extract(epoch FROM NEW.at) * 1000000)::bigint::text, NEW.verb, NEW.actor, NEW.entry), 'UTF8'));
  RETURN NEW;
END $$;
CREATE TRIGGER journal_is_chained BEFORE INSERT ON journal FOR EACH ROW EXECUTE FUNCTION journal_is_chained();

-- Law 5: an operation's version is its journal's last seq, so no state changes without a history row.
ALTER TABLE operation ADD CONSTRAINT a_state_change_has_its_history_row
  FOREIGN KEY (id, version) REFERENCES journal (operation, seq) DEFERRABLE INITIALLY DEFERRED;

CREATE FUNCTION operation_moves_one_version() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.version <> OLD.version + 1 THEN
    RAISE EXCEPTION 'operation % moves from version % to %, not %', OLD.id, OLD.version, OLD.version + 1, NEW.version
      USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'a_change_moves_the_version_by_one';
  END IF;
  IF (NEW.id, NEW.workspace_id, NEW.tool_id, NEW.contract_id, NEW.operation_id, NEW.created_at, NEW.principal)
     IS DISTINCT FROM (OLD.id, OLD.workspace_id, OLD.tool_id, OLD.contract_id, OLD.operation_id, OLD.created_at, OLD.principal) THEN
    RAISE EXCEPTION 'what an operation was opened as never changes (%)', OLD.id
      USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'an_operation_keeps_what_it_was_opened_as';
  END IF;
  IF (NEW.payload_digest, NEW.identity_digest) IS DISTINCT FROM (OLD.payload_digest, OLD.identity_digest) AND NEW.revision = OLD.revision THEN
    RAISE EXCEPTION 'another payload is another revision (%)', OLD.id
      USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'a_payload_is_never_overwritten';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER operation_moves_one_version BEFORE UPDATE ON operation FOR EACH ROW EXECUTE FUNCTION operation_moves_one_version();

-- Law 6: operations and attempts are never deleted, and what an attempt was permitted to do never changes.
CREATE TRIGGER operation_is_never_deleted BEFORE DELETE ON operation FOR EACH ROW EXECUTE FUNCTION is_append_only();
CREATE TRIGGER operation_is_never_truncated BEFORE TRUNCATE ON operation FOR EACH STATEMENT EXECUTE FUNCTION is_append_only();
CREATE TRIGGER attempt_is_never_deleted BEFORE DELETE ON attempt FOR EACH ROW EXECUTE FUNCTION is_append_only();
CREATE TRIGGER attempt_is_never_truncated BEFORE TRUNCATE ON attempt FOR EACH STATEMENT EXECUTE FUNCTION is_append_only();

CREATE FUNCTION attempt_keeps_what_was_permitted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (NEW.operation, NEW.number, NEW.revision, NEW.kind, NEW.repeats_a_write, NEW.licence, NEW.principal, NEW.idempotency_key, NEW.opened_at, NEW.dispatch_by)
     IS DISTINCT FROM (OLD.operation, OLD.number, OLD.revision, OLD.kind, OLD.repeats_a_write, OLD.licence, OLD.principal, OLD.idempotency_key, OLD.opened_at, OLD.dispatch_by) THEN
    RAISE EXCEPTION 'what attempt % of % was permitted to do never changes', OLD.number, OLD.operation
      USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'attempt_keeps_what_was_permitted';
  END IF;
  IF OLD.closed_at IS NOT NULL AND NEW.closed_at IS DISTINCT FROM OLD.closed_at THEN
    RAISE EXCEPTION 'attempt % of % is closed and stays closed', OLD.number, OLD.operation
      USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'a_closed_attempt_stays_closed';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER attempt_keeps_what_was_permitted BEFORE UPDATE ON attempt FOR EACH ROW EXECUTE FUNCTION attempt_keeps_what_was_permitted();

-- Law 1: no permit without the durable payload that it is for.
ALTER TABLE attempt ADD CONSTRAINT a_permit_has_its_durable_payload
  FOREIGN KEY (operation, revision) REFERENCES revision (operation, number);
-- An operation's payload digest is that of the revision it stands at.
ALTER TABLE revision ADD CONSTRAINT revision_with_its_digest UNIQUE (operation, number, digest);
ALTER TABLE operation ADD CONSTRAINT a_payload_is_durable_with_its_operation
  FOREIGN KEY (id, revision, payload_digest) REFERENCES revision (operation, number, digest) DEFERRABLE INITIALLY DEFERRED;

-- Law 10: nothing of one workspace points into another.
ALTER TABLE operation ADD CONSTRAINT an_operation_uses_its_workspaces_tool
  FOREIGN KEY (workspace_id, tool_id) REFERENCES tool (workspace_id, id);
ALTER TABLE operation ADD CONSTRAINT an_operation_uses_its_tools_contract
  FOREIGN KEY (tool_id, contract_id) REFERENCES contract_version (tool_id, id);
ALTER TABLE tool ADD CONSTRAINT a_tool_has_an_owner_of_its_workspace
  FOREIGN KEY (workspace_id, owner_id) REFERENCES owner (workspace_id, id);
ALTER TABLE tool ADD CONSTRAINT a_tools_current_contract_is_its_own
  FOREIGN KEY (id, current_id) REFERENCES contract_version (tool_id, id);

-- §5: a second signature is a second person's, for the same answer of the same operation.
CREATE FUNCTION a_second_signature_is_another_persons() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE first attestation;
BEGIN
  IF NEW.signs_id IS NULL THEN RETURN NEW; END IF;
  SELECT * INTO first FROM attestation WHERE id = NEW.signs_id;
  IF first.person_id = NEW.person_id OR first.operation <> NEW.operation OR first.answer <> NEW.answer OR first.signs_id IS NOT NULL THEN
    RAISE EXCEPTION 'a second signature is another person''s, for the same answer'
      USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'a_second_signature_is_another_persons';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER a_second_signature_is_another_persons BEFORE INSERT ON attestation FOR EACH ROW EXECUTE FUNCTION a_second_signature_is_another_persons();
