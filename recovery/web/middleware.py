"""The middlewares that serve pages, kept off the harness's path.

Session, sign-in, CSRF and messages cost an intake request about a third of its time and give it
nothing: the API knows its callers by bearer token and sets no cookie.
"""

from csp.middleware import CSPMiddleware
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.http import HttpRequest, HttpResponseBase
from django.middleware.csrf import CsrfViewMiddleware
from django_htmx.middleware import HtmxMiddleware

WITHOUT_PAGES = ("/api/v1/", "/healthz", "/readyz", "/metrics")
"""Paths that people do not open as pages; the API's docs page is the one exception."""
DOCS = "/api/v1/docs"


class _PagesOnly:
    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        path = request.path_info
        if path.startswith(WITHOUT_PAGES) and path != DOCS:
            passed: HttpResponseBase = self.get_response(request)  # type: ignore[attr-defined] # of the middleware
            return passed
        answer: HttpResponseBase = super().__call__(request)  # type: ignore[misc] # of the middleware beside it
        return answer


class PagesCSP(_PagesOnly, CSPMiddleware):
    """The content security policy of every page."""


class PagesSession(_PagesOnly, SessionMiddleware):
    """Who is signed in, kept in the database."""


class PagesCsrf(_PagesOnly, CsrfViewMiddleware):
    """No form of another site can act for a signed-in person."""


class PagesAuthentication(_PagesOnly, AuthenticationMiddleware):
    """request.user on pages."""


class PagesMessages(_PagesOnly, MessageMiddleware):
    """One-time notices after a redirect."""


class PagesHtmx(_PagesOnly, HtmxMiddleware):
    """request.htmx on pages."""
