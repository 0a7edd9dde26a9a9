"""How long an answer asks us to wait: a row a form, with its reason."""

from datetime import timedelta

import pytest
from stated import NOW, READ, answer, judged

SEEN_AT = {"observed_at": "2026-12-01T09:00:00Z"}
IN_HALF_A_MINUTE = "Tue, 01 Dec 2026 09:00:30 GMT"
EPOCH = int(NOW.timestamp())

ROWS = [
    ({"Retry-After": "120"}, None, 120_000, "seconds"),
    ({"Retry-After": "0.5"}, None, 500, "a fraction"),
    ({"retry-after": 7}, None, 7_000, "a number"),
    ({"Retry-After": IN_HALF_A_MINUTE}, None, 30_000, "an HTTP date"),
    ({"Retry-After": "Tue, 01 Dec 2026 08:00:00 GMT"}, None, 0, "a past date is no wait"),
    ({"Retry-After": IN_HALF_A_MINUTE, "Date": "Tue, 01 Dec 2026 09:00:20 GMT"}, None, 10_000,
     "the owner's own clock tells the distance"),
    ({"Retry-After": "-5"}, None, 0, "never negative"),
    ({"Retry-After": "soon"}, None, None, "malformed is no wait"),
    ({"Retry-After": "NaN"}, None, None, "no number"),
    ({"Retry-After": "99999999999999999999"}, None, 365 * 24 * 3_600_000, "clamped"),
    ({"x-ms-retry-after-ms": "250"}, None, 250, "Azure"),
    ({"Backoff": "3"}, None, 3_000, "Kinto"),
    ({}, {"retry_after": 2.5}, 2_500, "Discord, Slack: seconds"),
    ({}, {"retry_after_ms": 1_500}, 1_500, "Matrix"),
    ({}, {"error": {"data": {"retryAfterMs": 40}}}, 40, "JSON-RPC"),
    ({}, {"parameters": {"retry_after": 8}}, 8_000, "Telegram"),
    ({}, {"error": {"details": [{"retryDelay": "3.5s"}]}}, 3_500, "google.rpc"),
    ({}, {"details": {"retryAfterSeconds": 4}}, 4_000, "Kubernetes"),
    ({"Retry-After": "1"}, {"retry_after": 9}, 9_000, "the longer of two: a wait is never shortened"),
    ({"X-RateLimit-Reset": str(EPOCH + 45)}, None, 45_000, "epoch seconds"),
    ({"X-RateLimit-Reset": str((EPOCH + 45) * 1000)}, None, 45_000, "epoch milliseconds"),
    ({"RateLimit-Reset": "12"}, None, 12_000, "seconds, when small"),
    ({"RateLimit": '"default";r=0;t=30'}, None, 30_000, "the RateLimit field"),
    ({"RateLimit": '"default";r=5;t=30'}, None, None, "something is left, so nothing to wait for"),
    ({"Retry-After": "2", "X-RateLimit-Reset": str(EPOCH + 900)}, None, 2_000, "Retry-After takes precedence"),
    ({}, {"retry_after": True}, None, "a flag is no number"),
    ({}, {"retry_after": "5"}, 5_000, "digits as text"),
    ({}, {"items": [{"retry_after": 5}]}, None, "not the answer's own member"),
]  # fmt: skip


@pytest.mark.parametrize(("headers", "body", "milliseconds", "why"), ROWS)
def test_a_wait(headers, body, milliseconds, why):
    judgement = judged(answer(429, body, headers=headers, **SEEN_AT))
    assert judgement.decision.retry_after_ms == milliseconds, why
    assert (judgement.reading.retry_after_raw is None) == (milliseconds is None), "the raw value is kept beside it"


def test_the_time_of_the_next_attempt_is_never_before_the_wait():
    decision = judged(answer(429, headers={"Retry-After": "120"})).decision
    assert decision.not_before >= NOW + timedelta(seconds=120)


def test_a_limits_reset_counts_only_when_the_limiter_refused():
    headers = {"X-RateLimit-Remaining": "40", "X-RateLimit-Reset": str(EPOCH + 45)}
    assert judged(answer(503, headers=headers), contract=READ).decision.retry_after_ms is None


def test_a_time_without_an_offset_is_passed_over_and_said():
    reading = judged(answer(429, headers={"Retry-After": IN_HALF_A_MINUTE}, observed_at="yesterday")).reading
    assert reading.retry_after_ms == 30_000
    assert reading.violations == ("observed_at is not a time with an offset.",)
