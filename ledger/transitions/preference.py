"""How a person likes their pages, kept with the person: every browser of theirs shows it."""

from ledger.database import execute
from ledger.queries.access import Preference


def keep_preference(*, person_id: int, preference: Preference) -> None:
    """From now on pages look like this to the person."""
    execute(
        "INSERT INTO preference (person_id, zone, density, theme, single_keys) VALUES (%s, %s, %s, %s, %s) "
        "ON CONFLICT (person_id) DO UPDATE SET zone = EXCLUDED.zone, density = EXCLUDED.density, theme = EXCLUDED.theme, "
        "single_keys = EXCLUDED.single_keys",
        [person_id, preference.zone, preference.density, preference.theme, preference.single_keys],
    )
