"""What may be recorded of what a person typed."""

import pytest
from django.http import QueryDict

from ledger.rules.resolutions import Answer
from recovery.web.forms import read_answer


def _typed(**fields):
    post = QueryDict(mutable=True)
    post.update({"answer": "applied", "version": "3", **fields})
    return read_answer(post)


@pytest.mark.parametrize(
    ("link", "taken", "reason"),
    [
        ("https://helpdesk.example/t/1", True, "a web address"),
        ("http://helpdesk/t/1", True, "a host inside the company has no dot"),
        ("javascript:alert(1)", False, "only web addresses"),
        ("data:text/html,<script>", False, "only web addresses"),
        ("//evil.example/x", False, "no scheme"),
        ("https://", False, "no host"),
        ("https://olive:secret@helpdesk.example/", False, "a password would be kept for good"),
        ("https://a.example/\u202egnp", False, "a direction override makes an address read as another"),
        ("https://a.example/ b", False, "no spaces"),
        ("https://[::1", False, "a damaged host"),
        ("https://a.example/" + "x" * 2000, False, "longer than is kept"),
    ],
)
def test_links(link, taken, reason):
    assert bool(_typed(evidence_url=link).wrong_link) is not taken, reason


def test_a_reason_or_a_link_is_needed():
    assert _typed().wrong_reason
    assert _typed(reason="   ").wrong_reason
    assert not _typed(reason="I saw it").is_wrong
    assert not _typed(evidence_url="https://a.example/1").is_wrong


def test_what_the_database_cannot_hold_is_left_out():
    assert _typed(reason="a\x00b\ud800c").reason == "abc"


@pytest.mark.parametrize("version", ["", "-1", "1e3", "٣", "99999999999"])
def test_a_damaged_version_is_none_that_exists(version):
    assert _typed(version=version, reason="x").version == 0


def test_an_unknown_answer_is_no_answer():
    assert _typed(answer="forgotten", reason="x").answer is None
    assert _typed(reason="x").answer is Answer.APPLIED
