"""What an exception proves: a row a signal, with its reason."""

import pytest
from stated import KEYED, NATURAL, READ, WRITE, broke, judged

from recovery.judgement.reading import ObservationInvalid

NONE, UNKNOWN = ("transient", "none", "retry"), ("unknown_outcome", "unknown", "reconcile")

ROWS = [
    (broke("ValueError", phase="before_dispatch"), NONE, "nothing left"),
    (broke("gaierror", phase="resolve"), NONE, "no address, no request"),
    (broke("ConnectTimeout", phase="connect", bytes_sent=0), NONE, "a connect timeout is no answer timeout"),
    (broke("SSLError", phase="tls"), NONE, "the handshake comes before the request"),
    (broke("OSError", phase="connect", bytes_sent=10), UNKNOWN, "two statements disagree: the weaker one"),
    (broke("BrokenPipeError", phase="send", bytes_sent=0), NONE, "no byte was accepted"),
    (broke("BrokenPipeError", phase="send", bytes_sent=1, request_bytes=9), UNKNOWN, "some owners act early"),
    (broke("BrokenPipeError", phase="send"), UNKNOWN, "without a count: assume that it left"),
    (broke("ReadTimeout", phase="await"), UNKNOWN, "RFC 9110 9.2.2"),
    (broke("ReadTimeout", phase="await", bytes_sent=0), UNKNOWN, "waiting for an answer means that it was sent"),
    (broke("RemoteProtocolError", phase="await", reused_socket=True), UNKNOWN, "a kept-alive end proves nothing"),
    (broke("Whatever"), UNKNOWN, "no phase: the weaker claim"),
    (broke("Whatever", bytes_sent=0), NONE, "no byte left, whatever it was"),
    (broke("requests.exceptions.ConnectTimeout"), NONE, "its own documentation: safe to retry"),
    (broke("Wrapped", cause={"exception": "URLError", "cause": {"errno": "ECONNREFUSED"}}), NONE, "the innermost cause"),
    (broke("Wrapped", cause={"phase": "await", "errno": "ECONNREFUSED"}), UNKNOWN, "the cause had sent"),
    (broke("Wrapped", cause="connection refused, promise"), UNKNOWN, "prose is no type"),
    (broke("OSError", errno="ETIMEDOUT"), UNKNOWN, "may come after sending too"),
    (broke("CancelledError", cancelled_by="user"), UNKNOWN, "our end stops, theirs may go on"),
    (broke("CancelledError", cancelled_by="user", phase="connect"), NONE, "cancelled before it left"),
    (broke("Reset", http2={"rst_code": "REFUSED_STREAM"}), NONE, "RFC 9113 8.7"),
    (broke("Reset", http2={"rst_code": 7}), NONE, "the same by number"),
    (broke("Reset", http2={"rst_code": "INTERNAL_ERROR"}), UNKNOWN, "any other code proves nothing"),
    (broke("GoAway", http2={"stream_id": 9, "last_stream_id": 7}), NONE, "RFC 9113 6.8: above the last taken"),
    (broke("GoAway", http2={"stream_id": 7, "last_stream_id": 7}), UNKNOWN, "the last one may have been taken"),
    (broke("GoAway", http2={"last_stream_id": 7}), UNKNOWN, "no number of ours to compare"),
    (broke("Closed", smtp={"last_command": "MAIL FROM"}), NONE, "no message was handed over"),
    (broke("Closed", smtp={"last_command": "DATA", "data_sent": False}), NONE, "no line of it was sent"),
    (broke("Closed", smtp={"last_command": "DATA", "data_sent": True}), UNKNOWN, "silence after the last dot"),
    (broke("Closed", smtp={"last_command": "EHLO", "data_sent": True}), UNKNOWN, "contradicts itself"),
    (broke("Closed", smtp={"last_command": "something"}), UNKNOWN, "an unknown command"),
    (broke("R", smtp={"last_command": "DATA", "data_sent": True, "reply": "451 4.3.0 try later"}), NONE,
     "RFC 5321 4.2.5: refused, not delivered"),
    (broke("R", smtp={"last_command": "RCPT TO", "reply": 550}), ("invalid_request", "none", "repair"), "no mailbox"),
    (broke("R", smtp={"last_command": "AUTH", "reply": "535 no"}), ("authorization", "none", "authorize"), "sign in"),
    (broke("R", smtp={"last_command": "DATA", "reply": 554, "data_sent": True}), ("business_rule", "none", "stop"),
     "policy"),
    (broke("R", smtp={"last_command": "QUIT", "reply": 250, "data_sent": True}), ("verification", "applied", "verify"),
     "taken, then lost"),
    (broke("Db", sqlstate="40001"), NONE, "rolled back: the whole transaction again"),
    (broke("Db", sqlstate="40P01"), NONE, "a deadlock's victim is rolled back"),
    (broke("Db", sqlstate="40003"), UNKNOWN, "the database itself does not know"),
    (broke("Db", sqlstate="08006"), UNKNOWN, "may follow a commit"),
    (broke("Db", sqlstate="08001"), NONE, "never connected"),
    (broke("Db", sqlstate="57P01"), UNKNOWN, "an administrator ended it, perhaps after the commit"),
    (broke("Db", sqlstate="23505"), ("state_conflict", "none", "refresh"), "first try: somebody else's row"),
    (broke("Db", sqlstate="22P02"), ("invalid_request", "none", "repair"), "bad value"),
    (broke("Db", sqlstate="42501"), ("authorization", "none", "authorize"), "no privilege"),
    (broke("Db", sqlstate="XX000"), UNKNOWN, "an internal error"),
    (broke("Bug", phase="after_response", response={"status": 201, "body": {"id": 1}}),
     ("verification", "applied", "verify"), "the whole answer was there; the fault is ours"),
    (broke("Bug", phase="after_response", response={"status": 200}), UNKNOWN, "nobody kept the body"),
    (broke("Bug", phase="after_response"), UNKNOWN, "nor the status"),
    (broke("Raised", phase="after_response", response={"status": 422}), ("invalid_request", "none", "repair"),
     "an exception around a refusal is a refusal"),
    (broke("Raised", response={"status": 429, "headers": {"retry-after": "3"}}), NONE, "likewise a limiter's"),
    (broke("Incomplete", phase="await", response={"status": 200}), UNKNOWN, "the body was cut"),
    (broke("ConnectError", phase="connect", network_attempts=2), UNKNOWN, "the SDK's first request may have left"),
]  # fmt: skip


@pytest.mark.parametrize(("seen", "expected", "why"), ROWS)
def test_a_write(seen, expected, why):
    judgement = judged(seen)
    decision = judgement.decision
    assert (decision.failure_class, judgement.reading.effect, decision.recovery_action) == expected, why


@pytest.mark.parametrize("seen", [broke(phase="await"), broke(), broke("Db", sqlstate="40003")])
def test_a_read_has_no_effect_to_lose(seen):
    decision = judged(seen, contract=READ).decision
    assert (decision.failure_class, decision.effect_status, decision.recovery_action) == NONE


SENT = {"idempotency_key": "k-1", "body": {"a": 1}}
LICENCES = [
    (KEYED, {**SENT, "age_s": 60}, [], "key_in_window", "same key, in time"),
    (KEYED, {**SENT, "age_s": 86_400}, [], None, "the owner may have forgotten the key"),
    (KEYED, {"body": {"a": 1}}, [], None, "no key was sent"),
    (KEYED, SENT, [broke(phase="await", request={**SENT, "idempotency_key": "k-0"})], None, "a new key is no licence"),
    (KEYED, SENT, [broke(phase="await", request={**SENT, "body": {"a": 2}})], None, "another payload"),
    (KEYED, {**SENT, "principal": "b"}, [broke(phase="await", request={**SENT, "principal": "a"})], None, "another"),
    ({"effect": "write", "idempotency": {"guarantee": "key"}}, SENT, [], None, "no stated retention"),
    (NATURAL, {"body": 1}, [], "natural_idempotency", "repeats are harmless"),
    (WRITE, SENT, [], None, "no promise at all"),
]


@pytest.mark.parametrize(("contract", "request_sent", "history", "licence", "why"), LICENCES)
def test_an_unknown_write_is_repeated_by_licence_only(contract, request_sent, history, licence, why):
    decision = judged(broke(phase="await", request=request_sent), contract=contract, history=history).decision
    assert decision.licence == licence, why
    assert decision.recovery_action == ("retry" if licence else "reconcile"), why
    assert decision.effect_status == "unknown", why


@pytest.mark.parametrize(
    ("seen", "member"),
    [
        (broke(5), "exception"),
        (broke(phase="later"), "phase"),
        (broke(bytes_sent="0"), "bytes_sent"),
        (broke(bytes_sent=True), "bytes_sent"),
        (broke(http2=[]), "http2"),
        (broke(http2={"stream_id": "x"}), "http2.stream_id"),
        (broke(smtp={"data_sent": "no"}), "smtp.data_sent"),
        (broke(response={"status": "x"}), "response.status"),
        (broke(sqlstate=40001), "sqlstate"),
    ],
)
def test_a_wrong_shape_names_the_member(seen, member):
    with pytest.raises(ObservationInvalid) as caught:
        judged(seen)
    assert caught.value.field == member


def test_a_wrong_entry_of_the_history_is_named():
    with pytest.raises(ObservationInvalid) as caught:
        judged(broke(), history=[broke(), {"kind": "http"}])
    assert caught.value.field == "history[1].status"
