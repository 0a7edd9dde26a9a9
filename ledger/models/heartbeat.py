"""When each of our own parts was last seen working."""

from django.db import models


class Heartbeat(models.Model):
    """`reconciler` and `beat` write here; the pages and /readyz read it."""

    part = models.CharField(max_length=60, primary_key=True)
    at = models.DateTimeField()

    class Meta:
        db_table = "heartbeat"
