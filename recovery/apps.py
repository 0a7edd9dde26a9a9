"""What we do about it: judgement, owners, reconciling, the API and the pages."""

from django.apps import AppConfig


class RecoveryConfig(AppConfig):
    name = "recovery"
    verbose_name = "Recovery"

    def ready(self) -> None:
        """Register the checks."""
        from recovery import checks  # noqa: F401 - importing registers them
