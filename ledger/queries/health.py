"""Are our own parts working, and when were they last seen?"""

from datetime import datetime

from ledger.database import execute


def heartbeats() -> dict[str, datetime]:
    """When each part last reported, by the database's clock."""
    return dict(execute("SELECT part, at FROM heartbeat"))


def pending_migrations() -> bool:
    """Whether the code knows migrations that the database has not seen."""
    from django.db import connection
    from django.db.migrations.executor import MigrationExecutor

    executor = MigrationExecutor(connection)
    return bool(executor.migration_plan(executor.loader.graph.leaf_nodes()))


def overdue(*, seconds: int = 60) -> int:
    """How many schedule rows should have been looked at over `seconds` ago and are held by nobody (up to 1,000)."""
    rows = execute(
        "SELECT count(*) FROM (SELECT 1 FROM schedule WHERE next_check_at < now() - make_interval(secs => %s) "
        "AND (claimed_until IS NULL OR claimed_until < now()) LIMIT 1000) late",
        [seconds],
    )
    return int(rows[0][0])


def unsettled_everywhere(*, most: int = 10_000) -> dict[str, int]:
    """How many unsettled operations of all workspaces are in each state, counted up to `most` in all."""
    rows = execute(
        "SELECT state, count(*) FROM (SELECT state FROM operation WHERE state <> 'settled' LIMIT %s) counted GROUP BY state",
        [most],
    )
    return dict(rows)


def telling(*, most: int = 1000) -> dict[str, int]:
    """How many events wait to be spread, how many deliveries are on their way, and how many were given up, each counted up
    to `most`."""
    rows = execute(
        "SELECT (SELECT count(*) FROM (SELECT 1 FROM event WHERE spread_at IS NULL LIMIT %(most)s) e), "
        "(SELECT count(*) FROM (SELECT 1 FROM delivery WHERE next_try_at IS NOT NULL LIMIT %(most)s) d), "
        "(SELECT count(*) FROM (SELECT 1 FROM delivery v JOIN event e ON e.id = v.event_id "
        "WHERE v.given_up_at > now() - interval '1 day' AND e.at > now() - interval '3 days' LIMIT %(most)s) g)",
        {"most": most},
    )
    unspread, due, given_up = rows[0]
    return {"events_to_spread": unspread, "deliveries_on_their_way": due, "deliveries_given_up_in_a_day": given_up}
