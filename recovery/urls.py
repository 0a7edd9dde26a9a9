"""Every address, in one place. Pages here; the API brings its own under /api/v1."""

from django.urls import path

from recovery.web import access
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
    path("operations/<uuid:id>/", operation),
    path("operations/<uuid:id>/live/", operation_live),
    path("operations/<uuid:id>/answer/", operation_answer),
    path("operations/<uuid:id>/look-again/", operation_look_again),
]

# The API's and the probes' routes are added here.
urlpatterns = [*PAGES]

handler400 = "recovery.web.access.bad_request"
handler403 = "recovery.web.access.forbidden"
handler404 = "recovery.web.access.not_found"
