"""Preferences are kept with the person: every browser of theirs shows them, and nobody else's."""

from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.utils import timezone

from recovery.web.moments import absolute, clock, is_zone, zone_of
from recovery.web.scenes import opened


def test_they_follow_the_person_to_another_browser(stage, as_person):
    as_person("olive").post(
        "/preferences/", {"theme": "dark", "density": "compact", "keys": "off", "zone": "Europe/Paris"}
    )
    other_browser = Client()
    other_browser.force_login(get_user_model().objects.get(pk=stage.people["olive"]))
    page = other_browser.get("/queue/").content
    assert b'data-theme="dark" data-keys="off" data-density="compact" data-zone="Europe/Paris"' in page
    assert (
        b'data-theme="system" data-keys="on" data-density="normal" data-zone=""'
        in as_person("otto").get("/queue/").content
    )


def test_a_form_that_names_one_leaves_the_others(stage, as_person):
    olive = as_person("olive")
    olive.post("/preferences/", {"theme": "dark", "zone": "UTC"})
    olive.post("/preferences/", {"keys": "off"})
    olive.post("/preferences/", {"theme": "purple", "density": "huge", "keys": "perhaps"})
    assert b'data-theme="dark" data-keys="off" data-density="normal" data-zone="UTC"' in olive.get("/queue/").content
    olive.post("/preferences/", {"zone": "browser"})
    assert b'data-zone=""' in olive.get("/queue/").content


def test_the_theme_stays_with_the_browser_after_signing_out(stage, as_person):
    olive = as_person("olive")
    olive.post("/preferences/", {"theme": "dark"})
    olive.post("/sign-out/")
    assert b'data-theme="dark"' in olive.get("/sign-in/").content


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../etc/passwd", "\x00", "x" * 500])
def test_a_zone_that_nobody_knows_is_refused_and_kept_in_the_field(stage, as_person, zone):
    olive = as_person("olive")
    answer = olive.post("/preferences/", {"zone": zone, "theme": "dark"})
    assert answer.status_code == 422
    assert b"No zone has that name" in answer.content
    assert b'data-theme="system"' in olive.get("/queue/").content, "nothing of it was kept"


def test_the_page_shows_what_is_kept_and_says_so(stage, as_person):
    olive = as_person("olive")
    olive.post("/preferences/", {"zone": "Asia/Tokyo", "density": "compact", "page": "1"})
    page = olive.get("/preferences/").content.decode()
    assert "Kept. Every browser" in page
    assert 'value="Asia/Tokyo" maxlength' in page
    assert 'value="compact" checked' in page
    assert Client().get("/preferences/").status_code == 303


def test_whole_times_are_in_the_persons_zone(stage, as_person):
    olive = as_person("olive")
    opened(stage=stage, tool="rooms.book", operation_id="room:1", payload={}, ago=timedelta(minutes=1))
    assert " UTC" in olive.get("/queue/").content.decode()
    olive.post("/preferences/", {"zone": "Asia/Tokyo"})
    page = olive.get("/queue/").content.decode()
    assert " JST" in page
    assert " UTC" not in page


AT = datetime(2026, 7, 1, 22, 4, 31, tzinfo=UTC)


@pytest.mark.parametrize(
    ("zone", "told", "reason"),
    [
        ("", "1 Jul 2026, 22:04:31 UTC", "the browser's: UTC until it says"),
        ("UTC", "1 Jul 2026, 22:04:31 UTC", "itself"),
        ("Europe/Paris", "2 Jul 2026, 00:04:31 CEST", "another day, summer time"),
        ("America/Sao_Paulo", "1 Jul 2026, 19:04:31 UTC-03", "a zone without letters"),
        ("Nowhere", "1 Jul 2026, 22:04:31 UTC", "a zone that the machine no longer knows"),
    ],
)
def test_absolute(zone, told, reason):
    with timezone.override(zone_of(zone)):
        assert absolute(AT) == told, reason
        assert f">{told.split(', ')[1].split()[0]}<" in clock(AT)


def test_zones():
    assert is_zone("Europe/Lisbon")
    assert not is_zone("localtime/../x")
