"""People at their browsers, without the browser: Django's client against real PostgreSQL."""

from collections.abc import Callable, Iterator
from uuid import UUID, uuid4

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from recovery.web.scenes import Stage, play, set_stage

PASSWORD = "quiet-harbour-42"
AsPerson = Callable[[str], Client]


@pytest.fixture(autouse=True)
def _quick_passwords(settings):
    # Slow hashes prove nothing here and cost seconds a test.
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def committing(database, django_db_blocker) -> Iterator[None]:
    """The database without a transaction around the test, as requests meet it: each statement is durable, and a refused
    one does not spoil the next. Nothing is cleaned up (history cannot be), so each test has workspaces of its own."""
    with django_db_blocker.unblock():
        yield


@pytest.fixture
def stage(committing) -> Stage:
    """The workspace Acme Support with olive and otto (operators), ada (approver), max (admin) and vic (viewer)."""
    return _fresh("Acme Support")


@pytest.fixture
def other_stage(committing) -> Stage:
    """Another customer's workspace, with people of its own."""
    return _fresh("Beta Billing")


@pytest.fixture
def scenes(stage: Stage) -> dict[str, UUID]:
    """One operation in each state, by name."""
    return play(stage=stage)


@pytest.fixture
def as_person(stage: Stage) -> AsPerson:
    """A client signed in as somebody of Acme."""

    def sign_in(username: str) -> Client:
        client = Client()
        client.force_login(get_user_model().objects.get(pk=stage.people[username]))
        return client

    return sign_in


def _fresh(name: str) -> Stage:
    mark = uuid4().hex[:8]
    return set_stage(slug=f"w-{mark}", name=name, password=PASSWORD, suffix=f".{mark}")
