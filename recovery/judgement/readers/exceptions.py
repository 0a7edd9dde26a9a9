"""What does an exception prove about the request that it ended?

| in this order                                         | proves                                              |
| ----------------------------------------------------- | --------------------------------------------------- |
| the contract's error rules                            | what they say                                       |
| an answer had come (`response`)                       | what that answer says; success still wants a check  |
| HTTP/2: stream refused, or above GOAWAY's last id     | none (RFC 9113 6.8, 8.7)                            |
| SMTP: how far the dialogue came, and its last reply   | none before DATA; silence after it is unknown       |
| SQLSTATE                                              | 40001 rolled back; 40003, 08… and silence unknown   |
| the phase, and the bytes that left                    | none up to TLS, or with no byte sent; else unknown  |
| without a phase: an error that only connecting raises | none                                                |
| everything else                                       | unknown                                             |

Two statements that contradict each other (a connect phase with bytes sent) take the weaker one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from ledger.rules.contract import Contract
from ledger.rules.expressions import Context
from ledger.rules.facts import AttemptFacts
from ledger.rules.vocabulary import Action, Effect, FailureClass, Phase, Proof, Request, Speaker
from recovery.judgement.codes import Code
from recovery.judgement.documented import (
    BEFORE_ANY_BYTE,
    CANCELLED,
    LOST,
    NO_ANSWER,
    NOT_SENT,
    Meaning,
    smtp_meaning,
    sqlstate_meaning,
)
from recovery.judgement.readers import http, members
from recovery.judgement.readers.conclude import Seen, by_contract, conclude
from recovery.judgement.reading import ObservationInvalid, Reading

KIND = "exception"
_KNOWN = members.COMMON | {
    "exception", "message", "phase", "bytes_sent", "request_bytes", "errno", "cause", "reused_socket", "http2", "smtp",
    "sqlstate", "cancelled_by", "response",
}  # fmt: skip
_MOST_BYTES = 2**53 - 1

_STREAM_REFUSED = replace(
    NOT_SENT,
    rule="transport.stream_refused",
    code=Code.STREAM_REFUSED,
    source="RFC 9113 6.8, 8.7",
    proof=Proof.REFUSED,
)
_FAILED_AFTER = replace(LOST, rule="transport.failed_after_answer", code=Code.FAILED_AFTER_ANSWER)

_ONLY_WHILE_CONNECTING: Final = frozenset({"ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EAI_NONAME", "WSAECONNREFUSED"})
"""connect(2) and getaddrinfo(3) alone raise these; ETIMEDOUT and EHOSTUNREACH may come later as well."""
_CONNECT_TYPES: Final = frozenset(
    {"ConnectTimeout", "ConnectTimeoutError", "ConnectionRefusedError", "NewConnectionError", "NameResolutionError",
     "PoolTimeout", "SSLCertVerificationError", "UnknownHostException", "gaierror", "ClientConnectorDNSError"}
)  # fmt: skip
"""Exception types whose own documentation places them before the request: requests, httpx, urllib3, Python, Java."""
_REFUSED_STREAM: Final = frozenset({"REFUSED_STREAM", "0X7", "7", "H3_REQUEST_REJECTED"})


def read(
    observation: Mapping[str, Any], *, contract: Contract, earlier: Sequence[AttemptFacts], now: datetime
) -> Reading:
    """Reads an `exception` observation.

    Raises:
        ObservationInvalid: a member of the wrong type, or a phase that does not exist.
    """
    name = members.text(observation, "exception") or ""
    message = members.text(observation, "message")
    phase = phase_of(observation)
    bytes_sent = members.whole_number(observation, "bytes_sent", least=0, most=_MOST_BYTES)
    members.whole_number(observation, "request_bytes", least=0, most=_MOST_BYTES)
    members.flag(observation, "reused_socket")
    members.mapping(observation, "request")
    members.text(observation, "observed_at")
    cancelled_by = observation.get("cancelled_by")
    if cancelled_by is not None and not isinstance(cancelled_by, str):
        raise ObservationInvalid("cancelled_by", "must be text.")
    sqlstate = members.text(observation, "sqlstate")
    looked_at, unread = members.split(observation, _KNOWN)
    seen = Seen(
        kind=KIND,
        contract=contract,
        earlier=earlier,
        speaker=Speaker.HARNESS,
        phase=phase,
        network_attempts=members.network_attempts(observation),
        owner_code=sqlstate,
        quoted=(message[:300],) if message else (),
        read=looked_at,
        unread=unread,
    )
    context = Context.answer(speaker=seen.speaker, phase=phase, code=sqlstate, error=_typed(observation))
    ruled = by_contract(context, seen)
    if ruled is not None:
        return ruled
    response = members.mapping(observation, "response")
    if response.get("status") is not None:
        return _after_answer(observation, response, seen, now)
    said = _protocol(observation, sqlstate)
    if said is not None:
        return conclude(said, seen if said.effect is Effect.UNKNOWN else _answered(seen, said))
    return conclude(_by_phase(observation, name, phase, bytes_sent), seen)


def _answered(seen: Seen, said: Meaning) -> Seen:
    """A refusal with a reply behind it is the server's; one that was never sent stays the harness's."""
    return replace(seen, speaker=Speaker.OWNER_ANSWER) if said.proof is Proof.REFUSED else seen


def _typed(observation: Mapping[str, Any]) -> dict[str, Any]:
    """The structured members that a contract's rule may look at as `error`; never the message."""
    return {
        name: observation[name]
        for name in ("exception", "errno", "sqlstate", "http2", "smtp", "bytes_sent", "cancelled_by")
        if observation.get(name) is not None
    }


def phase_of(observation: Mapping[str, Any]) -> Phase | None:
    """The stated phase, or None.

    Raises:
        ObservationInvalid: there is no such phase.
    """
    value = observation.get("phase")
    if value is None:
        return None
    try:
        return Phase(value)
    except ValueError:
        raise ObservationInvalid("phase", f"must be one of {', '.join(Phase)}, or null.") from None


def _after_answer(observation: Mapping[str, Any], response: Mapping[str, Any], seen: Seen, now: datetime) -> Reading:
    """An answer came before the failure. A refusal stands; anything that looks like success is to be checked."""
    inner = {
        "kind": http.KIND,
        **{name: response[name] for name in ("status", "headers", "body", "redirects") if name in response},
        **{name: observation[name] for name in ("request", "network_attempts", "observed_at") if name in observation},
    }
    try:
        reading = http.read(inner, contract=seen.contract, earlier=seen.earlier, now=now)
    except ObservationInvalid as error:
        raise ObservationInvalid(f"response.{error.field}", error.message) from None
    reading = replace(reading, kind=KIND, phase=seen.phase or Phase.AFTER_RESPONSE, read=seen.read, unread=seen.unread)
    if seen.contract.is_read:
        done = reading.failure_class is FailureClass.SUCCESS
        return (
            replace(reading, failure_class=FailureClass.TRANSIENT, code=Code.FAILED_AFTER_ANSWER.value)
            if done
            else reading
        )
    if reading.effect not in (Effect.APPLIED, Effect.PENDING):
        return reading
    # Without the body, or the contract's word, nobody knows that the answer was whole.
    whole = isinstance(response.get("body"), Mapping) or reading.rule == "contract.success"
    if seen.phase is Phase.AFTER_RESPONSE and reading.effect is Effect.APPLIED and whole:
        return replace(
            reading,
            failure_class=FailureClass.VERIFICATION,
            code=Code.FAILED_AFTER_ANSWER.value,
            rule="transport.failed_after_done",
            remedy=Action.VERIFY,
        )
    if reading.effect is Effect.PENDING:
        return reading
    # The head of the answer came; what its body would have said is not known.
    return replace(
        reading,
        failure_class=FailureClass.VERIFICATION,
        remedy=Action.RECONCILE,
        effect=Effect.UNKNOWN,
        proof=None,
        code=Code.ANSWER_UNREADABLE.value,
        rule="transport.answer_cut",
        request=Request.ACCEPTED,
        receipt={},
    )


def _protocol(observation: Mapping[str, Any], sqlstate: str | None) -> Meaning | None:
    """What the protocol below proves, where the observation carries its own members."""
    http2 = members.mapping(observation, "http2")
    if http2:
        stream = members.whole_number(http2, "stream_id", least=0, most=2**62, inside="http2.")
        last = members.whole_number(http2, "last_stream_id", least=0, most=2**62, inside="http2.")
        refused = str(http2.get("rst_code", "")).strip().upper()[:40] in _REFUSED_STREAM
        if refused or (stream is not None and last is not None and stream > last):
            return _STREAM_REFUSED
        return LOST
    smtp = members.mapping(observation, "smtp")
    if smtp:
        return smtp_meaning(
            last_command=members.text(smtp, "last_command", inside="smtp.") or "?",
            reply=_reply_code(smtp.get("reply")),
            data_sent=members.flag(smtp, "data_sent", inside="smtp."),
        )
    return sqlstate_meaning(sqlstate) if sqlstate else None


def _reply_code(reply: Any) -> int | None:
    """The three digits in front of a mail server's reply, which RFC 5321 4.2 makes the machine's part."""
    digits = str(reply)[:3] if isinstance(reply, str | int) and not isinstance(reply, bool) else ""
    return int(digits) if len(digits) == 3 and digits.isascii() and digits.isdigit() else None


def _by_phase(observation: Mapping[str, Any], name: str, phase: Phase | None, bytes_sent: int | None) -> Meaning:
    left = bytes_sent is not None and bytes_sent > 0
    if phase in BEFORE_ANY_BYTE and not left:
        return NOT_SENT
    if phase in (None, Phase.SEND) and bytes_sent == 0:
        return NOT_SENT
    if phase is None and not left and _only_connecting(observation, name):
        return NOT_SENT
    if phase is Phase.AFTER_RESPONSE:
        return _FAILED_AFTER
    if observation.get("cancelled_by") is not None:
        return CANCELLED
    return NO_ANSWER if "timeout" in name.lower() or observation.get("errno") == "ETIMEDOUT" else LOST


def _only_connecting(observation: Mapping[str, Any], name: str) -> bool:
    """Whether the type or the number of the error, or of what caused it, can come from connecting alone."""
    level: Any = observation
    for _ in range(5):
        if not isinstance(level, Mapping):
            return isinstance(level, str) and _is_connect_type(level)
        if level is not observation and level.get("phase") in (Phase.SEND, Phase.AWAIT, Phase.AFTER_RESPONSE):
            return False
        errno = level.get("errno")
        if isinstance(errno, str) and errno.upper() in _ONLY_WHILE_CONNECTING:
            return True
        kind = level.get("exception")
        if isinstance(kind, str) and _is_connect_type(kind):
            return True
        level = level.get("cause")
    return _is_connect_type(name)


def _is_connect_type(name: str) -> bool:
    return name.rsplit(".", 1)[-1] in _CONNECT_TYPES
