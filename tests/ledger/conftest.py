"""Connections as each database role, and operations in the states that the laws are tried on."""

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from tests.conftest import Database


@pytest.fixture(scope="session")
def as_app(database: Database) -> Iterator[psycopg.Connection[Any]]:
    """The application's role."""
    with psycopg.connect(database.app_url) as connection:
        yield connection


@pytest.fixture(scope="session")
def as_owner(database: Database) -> Iterator[psycopg.Connection[Any]]:
    """The role that owns the tables and runs migrations."""
    with psycopg.connect(database.owner_url) as connection:
        yield connection


@pytest.fixture(scope="session")
def as_retention(database: Database) -> Iterator[psycopg.Connection[Any]]:
    """The role that may destroy originals."""
    with psycopg.connect(database.retention_url) as connection:
        yield connection


@pytest.fixture
def tamper(database: Database) -> Iterator[Callable[..., None]]:
    """Writes what no role may: a superuser with every trigger and foreign key switched off."""
    with psycopg.connect(database.superuser_url, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")

        def write(sql: str, params: Any = None) -> None:
            connection.execute(sql, params)

        yield write
