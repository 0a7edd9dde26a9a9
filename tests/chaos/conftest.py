"""The same running programs as the journeys'."""

from tests.journeys.loading import pytest_configure

__all__ = ["pytest_configure"]
