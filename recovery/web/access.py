"""Who is looking, in which workspace, and may they? Sign-in, sign-out, seats, and the pages that say no.

| who asks                                   | is told                                                |
| ------------------------------------------ | ------------------------------------------------------ |
| nobody signed in                           | the sign-in page, then back to where they were (303)   |
| a background request of a signed-out page  | 401, and the page says so; nothing typed is lost       |
| somebody without any workspace             | 403: whom to ask                                       |
| somebody without the role                  | 403: which role is missing and who can give it         |
| anybody, for what is another workspace's   | 404, byte for byte the page of what does not exist     |
"""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, cast
from urllib.parse import urlencode, urlsplit

from django.contrib.auth import authenticate, login, logout
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from ledger.queries.access import Seat, seats, visitor
from ledger.queries.people import names_with_role
from ledger.rules.vocabulary import Role
from recovery.web.moments import zone_of
from recovery.web.sentences import ROLES

P = ParamSpec("P")
Seated = Callable[Concatenate[HttpRequest, Seat, P], HttpResponse]
Routed = Callable[Concatenate[HttpRequest, P], HttpResponse]

HOME = "/queue/"
DECIDES = frozenset({Role.OPERATOR, Role.ADMIN})
"""Who may answer what happened, and ask for another look."""
READS_PAYLOADS = frozenset({Role.OPERATOR, Role.ADMIN, Role.APPROVER, Role.AUDITOR})
"""Who sees payloads, redacted by the contract."""


def seated(
    *roles: Role,
) -> Callable[
    [Callable[Concatenate[HttpRequest, Seat, P], HttpResponse]], Callable[Concatenate[HttpRequest, P], HttpResponse]
]:
    """A view for a signed-in person in their workspace, who holds one of `roles` (none named: any role).

    The view gets the seat after the request. Loading and authorising are this one step.
    """

    def decorate(view: Seated[P]) -> Routed[P]:
        @wraps(view)
        @never_cache
        def checked(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
            if not request.user.is_authenticated:
                return _to_sign_in(request)
            who = visitor(person_id=int(request.user.pk))
            request.preference = who.preference  # type: ignore[attr-defined]  # the layout reads it
            mine = who.seats
            if not mine:
                return no_seat(request)
            wanted = request.session.get("workspace")
            seat = next((one for one in mine if str(one.workspace_id) == wanted), mine[0])
            if roles and not seat.roles.intersection(roles):
                return missing_role(request, seat=seat, roles=roles)
            request.seats = mine  # type: ignore[attr-defined]  # the layout's workspace menu reads them
            request.seat = seat  # type: ignore[attr-defined]
            with timezone.override(zone_of(who.preference.zone)):
                return view(request, seat, *args, **kwargs)

        return cast("Routed[P]", checked)

    return decorate


@sensitive_post_parameters("password")
@never_cache
@require_http_methods(["GET", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    """Signs a person in and takes them where they were going."""
    onward = safe_next(request)
    if request.user.is_authenticated and request.method == "GET":
        return HttpResponseRedirect(onward)
    username, wrong = "", ""
    if request.method == "POST":
        username = request.POST.get("username", "").replace("\x00", "")[:150]
        password = request.POST.get("password", "").replace("\x00", "")
        person = authenticate(request, username=username, password=password)
        if person is not None:
            login(request, person)
            return see_other(onward)
        wrong = "That name and password do not belong together. Passwords tell capitals apart."
    context = {"username": username, "wrong": wrong, "next": onward if onward != HOME else ""}
    return render(request, "sign_in.html", context, status=422 if wrong else 200)


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    """Ends the session. POST only, so that no link can do it."""
    logout(request)
    return see_other("/sign-in/")


@require_POST
@seated()
def take_seat(request: HttpRequest, seat: Seat) -> HttpResponse:
    """Moves the person to another of their workspaces; one that is not theirs changes nothing."""
    wanted = request.POST.get("workspace", "")
    if any(str(one.workspace_id) == wanted for one in seats(person_id=int(request.user.pk or 0))):
        request.session["workspace"] = wanted
    elif wanted != str(seat.workspace_id):
        raise Http404
    return see_other(HOME)


def missing_role(request: HttpRequest, *, seat: Seat, roles: tuple[Role, ...]) -> HttpResponse:
    """403 that says which role is missing, and who can give it."""
    context = {
        "needed": " or ".join(ROLES[role] for role in roles),
        "held": ", ".join(sorted(ROLES[role] for role in seat.roles)),
        "workspace": seat.name,
        "admins": names_with_role(workspace_id=seat.workspace_id, role=Role.ADMIN),
    }
    return render(request, "403.html", context, status=403)


def no_seat(request: HttpRequest) -> HttpResponse:
    """403 for somebody who belongs to no workspace yet."""
    return render(request, "403.html", {"no_workspace": True}, status=403)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:  # noqa: ARG001 - Django passes it
    """400 in our layout."""
    return render(request, "400.html", status=400)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:  # noqa: ARG001 - Django passes it
    """403 in our layout."""
    return render(request, "403.html", {}, status=403)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:  # noqa: ARG001 - Django passes it
    """404 in our layout: the same bytes whatever was asked for, by whomever."""
    return render(request, "404.html", status=404)


def safe_next(request: HttpRequest, *, otherwise: str = HOME) -> str:
    """The address of ours that a form or a link asks to go on to."""
    wanted = request.POST.get("next") or request.GET.get("next") or otherwise
    allowed = url_has_allowed_host_and_scheme(
        wanted, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return str(wanted) if allowed and wanted.startswith("/") else otherwise


def see_other(to: str) -> HttpResponse:
    """A redirect after a POST: a reload of where it leads repeats nothing."""
    response = HttpResponseRedirect(to)
    response.status_code = 303
    return response


def _to_sign_in(request: HttpRequest) -> HttpResponse:
    if request.headers.get("HX-Request") or request.headers.get("X-Live"):
        return HttpResponse("You are signed out.", status=401, content_type="text/plain; charset=utf-8")
    here = request.get_full_path() if request.method == "GET" else request.META.get("HTTP_REFERER", "")
    query = "" if here in ("", HOME) else f"?{_query(here)}"
    return see_other(f"/sign-in/{query}")


def _query(here: str) -> str:
    parts = urlsplit(here)
    return urlencode({"next": f"{parts.path}?{parts.query}" if parts.query else parts.path})
