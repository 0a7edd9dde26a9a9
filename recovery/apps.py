"""What we do about it: judgement, owners, reconciling, the API and the pages."""

from django.apps import AppConfig


class RecoveryConfig(AppConfig):
    name = "recovery"
    verbose_name = "Recovery"
