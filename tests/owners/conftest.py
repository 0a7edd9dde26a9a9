"""Fixtures for tests beside this file; others import them: `from tests.owners.fixtures import kinto, fault_proxy`."""

from tests.owners.fixtures import collection, fault_proxy, kinto

__all__ = ["collection", "fault_proxy", "kinto"]
