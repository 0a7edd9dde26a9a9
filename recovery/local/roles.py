"""Which roles does the embedded server have, and what may each do?

| role                  | may                                                                    |
| --------------------- | ---------------------------------------------------------------------- |
| `postgres`            | all: the server's superuser, used to set up and to look whether it runs |
| `ascertain_owner`     | owns the database and its tables; runs migrations                      |
| `ascertain_app`       | what migrations grant it: the application                              |
| `ascertain_broker`    | owns schema `pgmq` alone: the task queue                               |
| `ascertain_retention` | what migrations grant it: deleting originals                           |
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psycopg

DATABASE = "ascertain"


class Role(StrEnum):
    """A role of the database server."""

    SUPERUSER = "postgres"
    OWNER = "ascertain_owner"
    APP = "ascertain_app"
    BROKER = "ascertain_broker"
    RETENTION = "ascertain_retention"


def create_roles(
    connection: "psycopg.Connection[tuple[object, ...]]", *, passwords: Mapping[str, str], may_create: bool
) -> None:
    """Create the roles and the empty database on a new server, as superuser with autocommit.

    `may_create` lets the owner create databases (tests clone theirs).
    """
    from psycopg import sql

    for role in Role:
        if role is Role.SUPERUSER:
            continue
        connection.execute(
            sql.SQL("CREATE ROLE {} LOGIN NOSUPERUSER NOCREATEROLE {} PASSWORD {}").format(
                sql.Identifier(role),
                sql.SQL("CREATEDB" if may_create and role is Role.OWNER else "NOCREATEDB"),
                sql.Literal(passwords[role]),
            )
        )
    connection.execute(
        sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(DATABASE), sql.Identifier(Role.OWNER))
    )


def arrange_database(connection: "psycopg.Connection[tuple[object, ...]]") -> None:
    """Set the rights inside the new database, connected to it as superuser with autocommit."""
    from psycopg import sql

    database = sql.Identifier(DATABASE)
    connection.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(database))
    for role in Role:
        connection.execute(sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(database, sql.Identifier(role)))
    connection.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    connection.execute(sql.SQL("CREATE SCHEMA pgmq AUTHORIZATION {}").format(sql.Identifier(Role.BROKER)))
