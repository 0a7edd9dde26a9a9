"""How does Celery get a queue in the same PostgreSQL? The SQL of PGMQ, owned by a role that owns nothing else."""

from typing import TYPE_CHECKING, Any

from recovery.local.roles import Role

if TYPE_CHECKING:
    import psycopg


def install_as_superuser(*, url: str, role: Role = Role.BROKER) -> bool:
    """Install PGMQ into the database at `url` (a superuser's), owned by `role`: whether it was not there yet.

    One transaction: its script says CREATE SCHEMA IF NOT EXISTS, for which PostgreSQL wants the right to create schemas
    even when the schema exists, so the role has that right within this transaction only.
    """
    import psycopg
    from psycopg import sql

    with psycopg.connect(url) as connection:
        if _is_installed(connection):
            return False
        names = {"database": sql.Identifier(connection.info.dbname), "role": sql.Identifier(role)}
        connection.execute(sql.SQL("GRANT CREATE ON DATABASE {database} TO {role}").format(**names))
        connection.execute(sql.SQL("SET LOCAL ROLE {role}").format(**names))
        _install(connection)
        connection.execute("RESET ROLE")
        connection.execute(sql.SQL("REVOKE CREATE ON DATABASE {database} FROM {role}").format(**names))
    return True


def install(*, url: str) -> bool:
    """Install PGMQ as the role in `url`, which must be allowed to create schemas in its database (for this call only):
    whether it was not there yet. For a server of your own."""
    import psycopg

    with psycopg.connect(url) as connection:
        if _is_installed(connection):
            return False
        _install(connection)
    return True


def celery_url(*, url: str) -> str:
    """The CELERY_BROKER_URL that means PGMQ as the role in the PostgreSQL `url`."""
    return "pgmq://" + url.partition("://")[2]


def is_pgmq(*, url: str) -> bool:
    """Does this CELERY_BROKER_URL mean PGMQ?"""
    return url.startswith("pgmq://")


def postgres_url(*, url: str) -> str:
    """The PostgreSQL URL behind a CELERY_BROKER_URL that means PGMQ."""
    return "postgresql://" + url.partition("://")[2]


def celery_settings(*, url: str) -> dict[str, Any]:
    """Celery's broker settings for a CELERY_BROKER_URL. Connects to nothing.

    `pgmq://user:password@host:port/database` means PGMQ; others (redis, amqp) are Celery's own. (Celery itself puts the
    environment's CELERY_BROKER_URL before any setting, so the form must be one that it understands.) With PGMQ:

    - the address goes in as `conn_string`: given the URL's parts, the `pgmq` package (1.1) prefers the environment's
      DATABASE_URL, and would work as the application's role;
    - libpq reads further options (`sslmode`, …) from its own variables (PGSSLMODE, …): `pgmq` drops them from a URL;
    - no long polls: one holds a lock on the queue's table for as long as it waits (10 s), and each process that sends
      its first task wants to put the notify trigger there. The notification wakes the worker instead, within
      milliseconds. A worker that has taken as much as it may waits for `polling_interval` before it takes more, whatever
      it finished meanwhile: with a second, a node would do two tasks a second (seen).
    """
    if not is_pgmq(url=url):
        return {"broker_url": url}
    return {
        "broker_url": url,
        "broker_transport_options": {
            "conn_string": postgres_url(url=url),
            "init_extension": False,
            "use_notify": True,
            "wait_time_seconds": 0,
            "polling_interval": 0.05,
            "pool_size": 2,
        },
    }


def _is_installed(connection: "psycopg.Connection[tuple[object, ...]]") -> bool:
    row = connection.execute("SELECT to_regclass('pgmq.meta') IS NOT NULL").fetchone()
    return bool(row and row[0])


def _install(connection: "psycopg.Connection[tuple[object, ...]]") -> None:
    from pgmq.install import install_pgmq_from_sql

    install_pgmq_from_sql(conn=connection)
    connection.execute(_ONE_TRIGGER)


_ONE_TRIGGER = """
ALTER FUNCTION pgmq.enable_notify_insert(text, integer) RENAME TO make_notify_insert;
CREATE FUNCTION pgmq.enable_notify_insert(queue_name text, throttle_interval_ms integer DEFAULT 250) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('pgmq.notify.' || queue_name));
  IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = to_regclass('pgmq.' || pgmq.format_table_name(queue_name, 'q'))
                 AND tgname = 'trigger_notify_queue_insert_listeners') THEN
    PERFORM pgmq.make_notify_insert(queue_name, throttle_interval_ms);
  END IF;
END $$;
"""
"""Every process that begins to use a queue asks for its notify trigger. PGMQ (1.1) drops the trigger and makes it anew
each time: two processes at the same moment deadlock, or one finds it made already and ends. One at a time, once."""
