"""How a person likes their pages: zone, density, theme, single keys. Kept with the person, in every browser."""

from dataclasses import replace

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods

from ledger.queries.access import Preference, Seat
from ledger.transitions.preference import keep_preference
from recovery.web.access import safe_next, seated, see_other
from recovery.web.moments import is_zone, zone_names

THEMES = ("system", "light", "dark")
DENSITIES = ("normal", "compact")
BROWSERS = "browser"
"""What the form says for the browser's own zone."""
COOKIE_SECONDS = 400 * 24 * 3600
"""The longest that browsers keep a cookie."""


@require_http_methods(["GET", "POST"])
@seated()
def preferences(request: HttpRequest, seat: Seat) -> HttpResponse:
    """Shows the choices; a POST keeps those that it names and leaves the others as they are."""
    kept: Preference = request.preference  # type: ignore[attr-defined]  # recovery.web.access.seated
    wrong_zone, typed_zone = "", kept.zone or BROWSERS
    if request.method == "POST":
        typed_zone = request.POST.get("zone", typed_zone).strip()[:64]
        zone = "" if typed_zone in ("", BROWSERS) else typed_zone
        if zone and not is_zone(zone):
            wrong_zone = "No zone has that name. Choose one from the list, such as Europe/Lisbon, UTC, or browser."
        else:
            kept = _chosen(request, replace(kept, zone=zone))
            keep_preference(person_id=int(request.user.pk or 0), preference=kept)
            if "page" in request.POST:
                messages.success(request, "Kept. Every browser that you sign in with shows your pages like this.")
            response = see_other(safe_next(request, otherwise="/preferences/"))
            # Pages without a person, such as the sign-in, look like the last person's in this browser.
            response.set_cookie("theme", kept.theme, max_age=COOKIE_SECONDS, samesite="Lax")
            return response
    context = {
        "seat": seat,
        "preference": kept,
        "typed_zone": typed_zone,
        "wrong_zone": wrong_zone,
        "zones": sorted(zone_names()),
    }
    return render(request, "preferences.html", context, status=422 if wrong_zone else 200)


def _chosen(request: HttpRequest, kept: Preference) -> Preference:
    theme, density, keys = (request.POST.get(name) for name in ("theme", "density", "keys"))
    return replace(
        kept,
        theme=theme if theme in THEMES else kept.theme,
        density=density if density in DENSITIES else kept.density,
        single_keys=keys == "on" if keys in ("on", "off") else kept.single_keys,
    )
