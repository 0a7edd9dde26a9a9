"""What only two people may decide is refused without them, whoever writes it."""

from django.db import migrations, models

# Deferred: the second signature is written in the same statement as what it makes true.
LAWS = """
CREATE FUNCTION two_people_wrote_it_off() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (
    SELECT 1 FROM attestation second JOIN attestation first ON first.id = second.signs_id
    WHERE second.operation = NEW.id AND second.answer = 'written_off' AND second.version_seen = NEW.version - 1
  ) THEN
    RAISE EXCEPTION 'operation % is written off by two people or not at all', NEW.id
      USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'two_people_wrote_it_off';
  END IF;
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER two_people_wrote_it_off AFTER UPDATE ON operation DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW WHEN (NEW.outcome = 'written_off' AND OLD.outcome IS DISTINCT FROM 'written_off')
  EXECUTE FUNCTION two_people_wrote_it_off();
CREATE CONSTRAINT TRIGGER nothing_begins_written_off AFTER INSERT ON operation DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW WHEN (NEW.outcome = 'written_off') EXECUTE FUNCTION two_people_wrote_it_off();

CREATE FUNCTION an_accepted_risk_licenses_one_permit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (SELECT count(*) FROM attempt WHERE operation = NEW.operation AND licence = 'accepted_duplicate_risk')
     > (SELECT count(*) FROM attestation WHERE operation = NEW.operation AND answer = 'accept_duplicate_risk'
        AND signs_id IS NOT NULL) THEN
    RAISE EXCEPTION 'attempt % of % has no unspent decision of two people', NEW.number, NEW.operation
      USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'an_accepted_risk_licenses_one_permit';
  END IF;
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER an_accepted_risk_licenses_one_permit AFTER INSERT ON attempt DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW WHEN (NEW.licence = 'accepted_duplicate_risk')
  EXECUTE FUNCTION an_accepted_risk_licenses_one_permit();
"""
DROPPED = """
DROP TRIGGER an_accepted_risk_licenses_one_permit ON attempt;
DROP TRIGGER nothing_begins_written_off ON operation;
DROP TRIGGER two_people_wrote_it_off ON operation;
DROP FUNCTION an_accepted_risk_licenses_one_permit();
DROP FUNCTION two_people_wrote_it_off();
"""


class Migration(migrations.Migration):
    dependencies = [("ledger", "0008_where_people_look")]

    operations = [
        migrations.RunSQL(LAWS, reverse_sql=DROPPED),
        migrations.RemoveConstraint(model_name="item", name="an_items_outcome_says_what_its_effect_is"),
        migrations.AddConstraint(
            model_name="item",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("outcome__isnull", True),
                    models.Q(("effect", "applied"), ("outcome", "applied")),
                    models.Q(("effect", "none"), ("outcome", "not_applied")),
                    models.Q(("effect__in", ["unknown", "pending", "partial"]), ("outcome", "written_off")),
                    _connector="OR",
                ),
                name="an_items_outcome_says_what_its_effect_is",
            ),
        ),
    ]
