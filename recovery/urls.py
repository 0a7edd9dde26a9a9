"""Every address, in one place. Pages here; the API brings its own under /api/v1."""

from django.http import HttpRequest, HttpResponse
from django.urls import path

from recovery.api import probes
from recovery.api.root import api, unknown_address
from recovery.web import access
from recovery.web.bulk import (
    bulk_again,
    bulk_begin,
    bulk_go_on,
    bulk_job,
    bulk_job_live,
    bulk_jobs,
    bulk_live,
    bulk_preview,
    bulk_sign,
    bulk_stop,
    bulk_undo,
)
from recovery.web.desk import desk_undo, group_desk, group_desk_act, operation_desk, operation_desk_act
from recovery.web.judge import judge_page
from recovery.web.my_work import my_work_hand_over, my_work_live, my_work_page
from recovery.web.operation import operation, operation_answer, operation_items, operation_live, operation_look_again
from recovery.web.originals import original, payload
from recovery.web.preferences import preferences
from recovery.web.queue import queue, queue_live
from recovery.web.queue_peek import queue_peek, queue_peek_group
from recovery.web.queue_views import complete, drop, keep
from recovery.web.review_packet import packet_as_json, packet_as_markdown

PAGES = [
    path("", my_work_page),
    path("my-work/live/", my_work_live),
    path("my-work/hand-over/", my_work_hand_over),
    path("sign-in/", access.sign_in),
    path("sign-out/", access.sign_out),
    path("seat/", access.take_seat),
    path("preferences/", preferences),
    path("queue/", queue),
    path("queue/live/", queue_live),
    path("queue/peek/<uuid:id>/", queue_peek),
    path("queue/peek/group/", queue_peek_group),
    path("queue/complete/", complete),
    path("queue/views/", keep),
    path("queue/views/<uuid:id>/drop/", drop),
    path("judge/", judge_page),
    path("operations/<uuid:id>/", operation),
    path("operations/<uuid:id>/live/", operation_live),
    path("operations/<uuid:id>/answer/", operation_answer),
    path("operations/<uuid:id>/items/", operation_items),
    path("operations/<uuid:id>/look-again/", operation_look_again),
    path("operations/<uuid:id>/packet.md", packet_as_markdown),
    path("operations/<uuid:id>/packet.json", packet_as_json),
    path("operations/<uuid:id>/originals/<uuid:original_id>/", original),
    path("operations/<uuid:id>/payload/<int:revision>/", payload),
    path("operations/<uuid:id>/desk/", operation_desk),
    path("operations/<uuid:id>/desk/<slug:verb>/", operation_desk_act),
    path("groups/<uuid:tool_id>/<slug:key>/desk/", group_desk),
    path("groups/<uuid:tool_id>/<slug:key>/desk/<slug:verb>/", group_desk_act),
    path("desk/undo/<uuid:entry_id>/", desk_undo),
    path("bulk/", bulk_jobs),
    path("bulk/live/", bulk_live),
    path("bulk/preview/", bulk_preview),
    path("bulk/<uuid:id>/", bulk_job),
    path("bulk/<uuid:id>/live/", bulk_job_live),
    path("bulk/<uuid:id>/begin/", bulk_begin),
    path("bulk/<uuid:id>/stop/", bulk_stop),
    path("bulk/<uuid:id>/go-on/", bulk_go_on),
    path("bulk/<uuid:id>/undo/", bulk_undo),
    path("bulk/<uuid:id>/again/", bulk_again),
    path("bulk/<uuid:id>/sign/", bulk_sign),
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
