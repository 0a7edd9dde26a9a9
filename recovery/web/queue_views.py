"""Keeping a filter under a name, and dropping it again. Plain forms: each answers with a redirect to the list."""

from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.views.decorators.http import require_GET, require_POST

from ledger.database import TookTooLong, within
from ledger.queries.access import Seat
from ledger.queries.clock import database_now
from ledger.queries.filter_completion import completion_of
from ledger.queries.filters import read_filter
from ledger.queries.operation_groups import Grouping
from ledger.rules.vocabulary import Role
from ledger.transitions.saved_views import NameTaken, TooManyViews, drop_view, keep_view
from recovery.web.access import DECIDES, seated

LONGEST_NAME = 60
LONGEST_QUERY = 400
PATIENCE_MS = 300
"""An offer that takes longer than this comes too late for who is typing."""


@require_POST
@seated()
def keep(request: HttpRequest, seat: Seat) -> HttpResponse:
    """Keeps the filter of the list as a view: the person's own, or with `for=team` everybody's."""
    name = " ".join(request.POST.get("name", "").replace("\x00", "").split())
    query = " ".join(request.POST.get("q", "").replace("\x00", "").split())
    given = request.POST.get("group", "")
    by = Grouping(given) if given in list(Grouping) else Grouping.FLAT
    me = int(request.user.pk or 0)
    back = f"/queue/?{urlencode({'q': query, **({'group': by.value} if by.value else {})})}"
    team = request.POST.get("for") == "team"
    _, problems = read_filter(query, me=me)
    wrong = ""
    if not name or len(name) > LONGEST_NAME:
        wrong = f"Give the view a name of at most {LONGEST_NAME} characters."
    elif len(query) > LONGEST_QUERY:
        wrong = f"This filter is too long to keep; at most {LONGEST_QUERY} characters are."
    elif problems:
        wrong = f"Correct {problems[0].word.text} first: {problems[0].sentence}."
    elif team and not seat.roles & DECIDES:
        wrong = "Views for everybody are kept by operators and admins. You can keep it for yourself."
    if wrong:
        return _back(request, back, wrong, worked=False)
    try:
        id = keep_view(
            workspace_id=seat.workspace_id,
            person_id=None if team else me,
            name=name,
            query=query,
            grouping=by,
            now=database_now(),
        )
    except NameTaken:
        return _back(request, back, f"There is a view called {name} already. Choose another name.", worked=False)
    except TooManyViews:
        return _back(request, back, "No more views can be kept. Delete one that nobody uses.", worked=False)
    return _back(request, f"/queue/?view={id}", f"Kept as {name}{' for everybody' if team else ''}.")


@require_POST
@seated()
def drop(request: HttpRequest, seat: Seat, id: UUID) -> HttpResponse:
    """Deletes a view of the person's; a team's view by operators and admins only."""
    name = drop_view(
        workspace_id=seat.workspace_id,
        person_id=int(request.user.pk or 0),
        id=id,
        also_teams=bool(seat.roles & {Role.OPERATOR, Role.ADMIN}),
    )
    if name is None:
        raise Http404
    return _back(request, "/queue/", f"The view {name} is deleted. Its operations are where they were.")


@require_GET
@seated()
def complete(request: HttpRequest, seat: Seat) -> JsonResponse:
    """Ways to go on with the word under the caret: `from` and `to` are the part of the text that an option replaces."""
    text = request.GET.get("q", "").replace("\x00", " ")[:800]
    given = request.GET.get("at", "")
    caret = int(given) if given.isascii() and given.isdigit() and len(given) < 5 else len(text)
    try:
        with within(milliseconds=PATIENCE_MS):
            found = completion_of(workspace_id=seat.workspace_id, text=text, caret=min(caret, len(text)))
    except TookTooLong:
        return JsonResponse({"from": caret, "to": caret, "options": []})
    options = [{"text": option.text, "tip": option.tip} for option in found.options]
    return JsonResponse({"from": found.start, "to": found.end, "options": options})


def _back(request: HttpRequest, to: str, text: str, *, worked: bool = True) -> HttpResponse:
    (messages.success if worked else messages.error)(request, text)
    response = HttpResponseRedirect(to)
    response.status_code = 303
    return response
