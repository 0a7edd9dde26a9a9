-- What each database role may do. Run after every `migrate`, by the role that owns the tables; says the same each time.
-- A role that does not exist on this server is passed over: production may name its own and grant these to it.
DO $$
DECLARE
  t text;
BEGIN
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'ascertain_app') AND current_user <> 'ascertain_app' THEN
    GRANT USAGE ON SCHEMA public TO ascertain_app;
    GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO ascertain_app;
    GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO ascertain_app;
    REVOKE TRUNCATE, REFERENCES, TRIGGER ON ALL TABLES IN SCHEMA public FROM ascertain_app;
    -- Append-only: what happened, who said so, what was meant, what was promised.
    FOREACH t IN ARRAY ARRAY['journal', 'evidence', 'revision', 'attestation', 'contract_version', 'original', 'note', 'desk_entry', 'django_migrations'] LOOP
      EXECUTE format('REVOKE UPDATE, DELETE ON %I FROM ascertain_app', t);
    END LOOP;
    -- Changed by transitions, never removed.
    FOREACH t IN ARRAY ARRAY['operation', 'attempt', 'run', 'workspace', 'tool', 'owner', 'api_token', 'item', 'item_attempt', 'event', 'delivery', 'desk', 'cause_desk', 'bulk_job', 'bulk_member'] LOOP
      EXECUTE format('REVOKE DELETE ON %I FROM ascertain_app', t);
    END LOOP;
  END IF;
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'ascertain_retention') AND current_user <> 'ascertain_retention' THEN
    GRANT USAGE ON SCHEMA public TO ascertain_retention;
    GRANT SELECT, DELETE ON original TO ascertain_retention;
    GRANT SELECT (id, state, settled_at) ON operation TO ascertain_retention;
  END IF;
END $$;
