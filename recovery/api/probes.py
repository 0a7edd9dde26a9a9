"""Is this process alive, is the product ready, and what do its numbers say? For machines, outside /api/v1."""

from datetime import timedelta

from django.db import Error
from django.http import HttpRequest, HttpResponse, JsonResponse
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from psycopg_pool import PoolTimeout

from ledger.queries.clock import database_now
from ledger.queries.health import heartbeats, overdue, pending_migrations, telling, unsettled_everywhere
from ledger.queries.owners import owners_everywhere

STALE = timedelta(seconds=60)
"""A reconciler that was not seen for this long is not running."""


def healthz(_request: HttpRequest) -> HttpResponse:
    """This process answers."""
    return JsonResponse({"alive": True})


def readyz(_request: HttpRequest) -> HttpResponse:
    """Ready: the database answers, every migration is in, and a reconciler ran lately. 503 names what is not."""
    try:
        now = database_now()
        seen = heartbeats().get("reconciler")
        parts = {
            "database": True,
            "migrations": not pending_migrations(),
            "reconciler": seen is not None and now - seen < STALE,
        }
    except (Error, PoolTimeout):
        parts = {"database": False, "migrations": False, "reconciler": False}
    ready = all(parts.values())
    return JsonResponse({"ready": ready, **parts}, status=200 if ready else 503)


def metrics(_request: HttpRequest) -> HttpResponse:
    """Prometheus text: what is unsettled, what is overdue, and when each part was last seen."""
    registry = CollectorRegistry()
    unsettled = Gauge(
        "ascertain_unsettled_operations", "Unsettled operations, counted up to 10,000", ["state"], registry=registry
    )
    for state, count in unsettled_everywhere().items():
        unsettled.labels(state=state).set(count)
    Gauge("ascertain_overdue_checks", "Schedule rows overdue by a minute, up to 1,000", registry=registry).set(
        overdue()
    )
    seen = Gauge("ascertain_part_seen_timestamp_seconds", "When a part was last seen", ["part"], registry=registry)
    for part, at in heartbeats().items():
        seen.labels(part=part).set(at.timestamp())
    telling_gauge = Gauge(
        "ascertain_telling", "Events and deliveries, counted up to 1,000", ["what"], registry=registry
    )
    for what, count in telling().items():
        telling_gauge.labels(what=what).set(count)
    where = ["workspace", "owner"]
    circuits = Gauge(
        "ascertain_owner_state", "1 for the state that an owner is in", [*where, "state"], registry=registry
    )
    refused = Gauge(
        "ascertain_owner_refused_credentials", "Credentials that an owner refused", where, registry=registry
    )
    for workspace, owner, state, latched in owners_everywhere():
        circuits.labels(workspace=workspace, owner=owner, state=state).set(1)
        refused.labels(workspace=workspace, owner=owner).set(latched)
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)
