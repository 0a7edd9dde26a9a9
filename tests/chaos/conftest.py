"""The same running programs as the journeys'."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """One web server and one set of workers for all folders that load this plugin."""
    for plugin in ("tests.owners.fixtures", "tests.journeys.running"):
        config.pluginmanager.import_plugin(plugin)
