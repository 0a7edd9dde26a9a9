"""Every address, in one place. Pages here; the API brings its own under /api/v1."""

from django.http import HttpRequest, HttpResponse
from django.urls import path

from recovery.api import probes
from recovery.api.root import api, unknown_address
from recovery.web import access
from recovery.web.judge import judge_page
from recovery.web.operation import operation, operation_answer, operation_live, operation_look_again
from recovery.web.queue import queue, queue_live

PAGES = [
    path("", access.home),
    path("sign-in/", access.sign_in),
    path("sign-out/", access.sign_out),
    path("seat/", access.take_seat),
    path("preferences/", access.preferences),
    path("queue/", queue),
    path("queue/live/", queue_live),
    path("judge/", judge_page),
    path("operations/<uuid:id>/", operation),
    path("operations/<uuid:id>/live/", operation_live),
    path("operations/<uuid:id>/answer/", operation_answer),
    path("operations/<uuid:id>/look-again/", operation_look_again),
]

# Machines' addresses: the API, and the probes beside it.
MACHINES = [
    path("api/v1/", api.urls),
    path("healthz", probes.healthz),
    path("readyz", probes.readyz),
    path("metrics", probes.metrics),
]
urlpatterns = [*PAGES, *MACHINES]

handler400 = "recovery.web.access.bad_request"
handler403 = "recovery.web.access.forbidden"
handler404 = "recovery.urls.not_found"


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """404 in the language of whoever asked: an envelope for a harness, a page for a person."""
    if request.path_info.startswith("/api/"):
        return unknown_address(request, exception)
    return access.not_found(request, exception)
