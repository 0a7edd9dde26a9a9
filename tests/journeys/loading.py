"""How the folders that need running programs get them: one set for all, whichever folder comes first."""

import importlib

import pytest

pytest.register_assert_rewrite("tests.journeys.laws")
PLUGINS = ("tests.owners.fixtures", "tests.journeys.running")


def pytest_configure(config: pytest.Config) -> None:
    """Imported by each folder's conftest: imported fixtures would be made once a folder, a plugin's once a session."""
    for name in PLUGINS:
        if not config.pluginmanager.has_plugin(name):
            config.pluginmanager.register(importlib.import_module(name), name)
