"""Who gets in, where they land, and what the pages say when they don't."""

from uuid import uuid4

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from recovery.web.scenes import opened
from tests.web.conftest import PASSWORD


def _post_sign_in(client, username, password, **more):
    return client.post("/sign-in/", {"username": username, "password": password, **more})


def test_signing_in_and_out(stage):
    client = Client()
    answer = _post_sign_in(client, f"olive{stage.suffix}", PASSWORD)
    assert (answer.status_code, answer["Location"]) == (303, "/queue/")
    assert client.get("/queue/").status_code == 200
    assert client.get("/sign-out/").status_code == 405
    assert client.post("/sign-out/")["Location"] == "/sign-in/"
    assert client.get("/queue/").status_code == 303


def test_a_wrong_password_says_so_and_keeps_the_name(stage):
    answer = _post_sign_in(Client(), f"olive{stage.suffix}", "wrong")
    assert answer.status_code == 422
    assert b"do not belong together" in answer.content
    assert f'value="olive{stage.suffix}"'.encode() in answer.content
    assert b'value="wrong"' not in answer.content


def test_an_unknown_name_is_answered_like_a_wrong_password(stage):
    names = (f"olive{stage.suffix}", f"nobody{stage.suffix}")
    pages = [_post_sign_in(Client(), name, "wrong").content.replace(name.encode(), b"NAME") for name in names]
    assert _without_token(pages[0]) == _without_token(pages[1])


@pytest.mark.parametrize(
    ("wanted", "lands", "reason"),
    [
        ("/operations/1/?a=b", "/operations/1/?a=b", "a page of ours"),
        ("https://evil.example/", "/queue/", "another site"),
        ("//evil.example/", "/queue/", "another site without a scheme"),
        ("/\\evil.example/", "/queue/", "browsers read a backslash as a slash"),
        ("javascript:alert(1)", "/queue/", "no address at all"),
        ("", "/queue/", "nothing"),
    ],
)
def test_where_signing_in_leads(stage, wanted, lands, reason):
    assert _post_sign_in(Client(), f"olive{stage.suffix}", PASSWORD, next=wanted)["Location"] == lands, reason


def test_who_is_not_signed_in_comes_back_to_where_they_were(stage):
    answer = Client().get("/queue/?q=effect:unknown")
    assert answer.status_code == 303
    assert answer["Location"] == "/sign-in/?next=%2Fqueue%2F%3Fq%3Deffect%3Aunknown"


@pytest.mark.parametrize("header", ["HTTP_HX_REQUEST", "HTTP_X_LIVE"])
def test_a_request_behind_a_page_is_told_401(stage, header):
    answer = Client().get("/queue/live/", **{header: "true"})
    assert answer.status_code == 401
    assert b"<" not in answer.content


def test_somebody_without_a_workspace_is_told_whom_to_ask(stage):
    client = Client()
    client.force_login(get_user_model().objects.create_user(f"nobody{stage.suffix}", password=PASSWORD))
    answer = client.get("/queue/")
    assert answer.status_code == 403
    assert b"Ask an admin" in answer.content


def test_what_is_another_workspaces_looks_like_what_does_not_exist(stage, other_stage, as_person):
    from datetime import timedelta

    theirs = opened(
        stage=other_stage, tool="rooms.book", operation_id="room:1", payload={"room": "a"}, ago=timedelta(minutes=1)
    )
    olive = as_person("olive")
    for path, method in (
        ("", "get"),
        ("live/", "get"),
        ("answer/", "get"),
        ("answer/", "post"),
        ("look-again/", "post"),
    ):
        here = getattr(olive, method)(f"/operations/{theirs}/{path}")
        nowhere = getattr(olive, method)(f"/operations/{uuid4()}/{path}")
        assert here.status_code == nowhere.status_code == 404
        assert here.content == nowhere.content
        assert here.headers == nowhere.headers


def test_changing_the_seat(stage, other_stage, as_person):
    from ledger.rules.vocabulary import Role
    from ledger.transitions.workspace import ensure_role

    olive = as_person("olive")
    assert olive.post("/seat/", {"workspace": str(other_stage.workspace_id)}).status_code == 404
    ensure_role(workspace_id=other_stage.workspace_id, person_id=stage.people["olive"], role=Role.VIEWER)
    assert b"in Acme Support" in olive.get("/queue/").content
    assert olive.post("/seat/", {"workspace": str(other_stage.workspace_id)}).status_code == 303
    assert b"in Beta Billing" in olive.get("/queue/").content


READS, DECIDES = {"olive", "max", "ada", "vic"}, {"olive", "max"}


@pytest.mark.parametrize("username", ["olive", "max", "ada", "vic"])
@pytest.mark.parametrize(
    ("method", "path", "may"),
    [
        ("get", "/queue/", READS),
        ("get", "/queue/live/", READS),
        ("get", "/operations/{id}/", READS),
        ("get", "/operations/{id}/live/", READS),
        ("get", "/operations/{id}/packet.md", READS),
        ("get", "/operations/{id}/packet.json", READS),
        ("get", "/operations/{id}/payload/1/", READS - {"vic"}),
        ("post", "/operations/{id}/answer/", DECIDES),
        ("post", "/operations/{id}/look-again/", DECIDES),
        ("post", "/seat/", READS),
    ],
)
def test_every_route_with_every_role(stage, scenes, as_person, username, method, path, may):
    form = {"workspace": str(stage.workspace_id)} if path == "/seat/" else {}
    answer = getattr(as_person(username), method)(path.format(id=scenes["escalated"]), form)
    if username in may:
        assert answer.status_code in (200, 303, 422)
    else:
        assert answer.status_code == 403
        assert b"Max Brandt can give you the role" in answer.content


def test_an_expired_form_is_refused_in_words(stage, scenes):
    client = Client(enforce_csrf_checks=True)
    client.force_login(get_user_model().objects.get(pk=stage.people["olive"]))
    answer = client.post(f"/operations/{scenes['escalated']}/answer/", {"answer": "applied", "reason": "x"})
    assert answer.status_code == 403
    assert b"Nothing was changed" in answer.content


def test_theme_and_keys_are_kept_in_the_browser(stage, as_person):
    olive = as_person("olive")
    assert olive.post("/preferences/", {"theme": "dark", "keys": "off", "next": "/queue/"}).status_code == 303
    page = olive.get("/queue/").content
    assert b'data-theme="dark" data-keys="off"' in page
    olive.post("/preferences/", {"theme": '"><script>', "keys": "maybe"})
    assert b'data-theme="dark" data-keys="off"' in olive.get("/queue/").content


def test_a_hostile_cookie_is_inert(stage, as_person):
    olive = as_person("olive")
    olive.cookies["theme"] = "x onload=alert(1) <b>"
    assert b"<b>" not in olive.get("/queue/").content


def _without_token(page: bytes) -> bytes:
    import re

    return re.sub(rb'csrfmiddlewaretoken" value="[^"]+"', b"", page)
