"""What the blocking and the asynchronous operation share: the rules of one permit, and what is reported of a call."""

import json
import socket
import ssl
from collections.abc import Iterator, Mapping
from typing import Any

import httpx2

from recovery.client import observations
from recovery.client.clock import Clock
from recovery.client.conversation import Conversation, encode
from recovery.client.errors import AscertainError, NoPermitError, ReportNotDeliveredError, TooLateError
from recovery.client.models import Decision, Operation, Permit
from recovery.client.observations import Answer, Sent
from recovery.client.passage import Passage, Phase
from recovery.client.transport import PASSAGE

LONGEST_BODY = 16 * 1024 * 1024
"""Bytes of an owner's answer that are read; the rest is left unread and the answer marked as truncated."""

OUTCOMES_OF_A_CALL = (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, TooLateError)
"""Exceptions that are news about the call. Any other one is the harness's own and is raised after the report."""

_NEVER_CONNECTED = frozenset(
    {
        "ConnectionRefusedError",
        "ConnectError",
        "ConnectTimeout",
        "ConnectTimeoutError",
        "NewConnectionError",
        "PoolTimeout",
    }
)
"""Exception classes of the common HTTP libraries that are raised only before a connection stands."""


class LeftWithoutReportError(Exception):
    """The block ended and nothing was reported of the permitted call. Use `op.send`, `op.run` or `op.observe`."""


class OperationCore:
    """The state of one operation in a harness; no I/O of its own."""

    def __init__(self, *, conversation: Conversation, clock: Clock) -> None:
        self._conversation = conversation
        self._clock = clock
        self._permit_given = False
        self._undelivered: bytes | None = None
        self._request: dict[str, Any] | None = None
        self._passage: Passage | None = None
        self._answer: Answer | None = None
        self.response: httpx2.Response | None = None
        """The owner's answer to the last `send`, read to its end; None when there was none or it was cut."""
        self.exception: BaseException | None = None
        """What ended the last `send` without an answer."""
        self.report_error: Exception | None = None
        """Why the last report did not reach Ascertain; None when it did."""

    @property
    def permit(self) -> Permit | None:
        """Leave for one call, or None: then `decision` says why, and the call must not be made.

        Reading it hands it out: from then on only you know whether anything was sent. `permitted` only looks.
        """
        if self._conversation.permit is not None:
            self._permit_given = True
        return self._conversation.permit

    @property
    def part(self) -> Any:
        """Of a batch that is sent again in part: what to send now, in place of what the operation began with. None: the
        payload as it is. Looking at it hands nothing out."""
        permit = self._conversation.permit
        return permit.payload if permit is not None else None

    @property
    def permitted(self) -> bool:
        """A call may be made now."""
        return self._conversation.permit is not None and not self._conversation.spent

    @property
    def decision(self) -> Decision | None:
        """The latest decision; None while there was nothing to decide."""
        return self._conversation.decision

    @property
    def operation(self) -> Operation | None:
        """The operation as Ascertain last told it."""
        return self._conversation.operation

    def _prepare(
        self,
        client: httpx2.Client | httpx2.AsyncClient,
        method: str | httpx2.Request,
        url: httpx2.URL | str | None,
        options: Mapping[str, Any],
    ) -> httpx2.Request:
        """The request with the permit's headers; the permit stays unspent."""
        permit = self._conversation.may_send()
        if isinstance(method, httpx2.Request):
            if url is not None or options:
                raise TypeError("Give either a request, or a method with its URL and options.")
            request = method
        elif url is None:
            raise TypeError("A method needs a URL.")
        else:
            request = client.build_request(method, url, **options)
        request.headers.update(permit.headers)
        return request

    def _depart(self, request: httpx2.Request, *, asynchronous: bool) -> Passage:
        """Spend the permit. The body must have been read: its length is part of the measure."""
        permit = self._conversation.may_send()
        self._conversation.spent = True
        self._undelivered = None
        self.response = self.exception = self._answer = None
        if "transfer-encoding" in request.headers:
            # The body lies in memory by now: a stated length keeps the count of its bytes exact.
            del request.headers["transfer-encoding"]
            request.headers["content-length"] = str(len(request.content))
        passage = Passage(
            clock=self._clock.monotonic,
            dispatch_by=self._conversation.dispatch_until,
            timeout=permit.timeout,
            request_bytes=wire_length(request),
            started_at=self._clock.monotonic(),
        )
        request.extensions = {
            **request.extensions,
            PASSAGE: passage,
            "trace": passage.atrace if asynchronous else passage.trace,
            "timeout": httpx2.Timeout(permit.timeout).as_dict(),
        }
        sent = Sent(
            method=request.method,
            path=request.url.path,
            headers=dict(request.headers),
            idempotency_key=permit.idempotency_key,
        )
        self._request = sent.told(permit_headers=permit.headers)
        self._passage = passage
        return passage

    def _answered(self, response: httpx2.Response, content: bytes, *, truncated: bool) -> None:
        self._answer = Answer(
            status=response.status_code, headers=dict(response.headers), content=content, truncated=truncated
        )

    def _arrive(self, request: httpx2.Request, response: httpx2.Response) -> bytes:
        """The report of a whole answer."""
        answer, passage = self._answer, self._passage
        if answer is None or passage is None or self._request is None:
            raise RuntimeError("An answer arrived for a call that never left.")
        headers = [
            (name, value)
            for name, value in response.headers.multi_items()
            if name.lower() not in ("content-encoding", "transfer-encoding", "content-length")
        ]
        self.response = httpx2.Response(
            response.status_code,
            headers=headers,
            content=answer.content,
            request=request,
            extensions=response.extensions,
        )
        return encode(
            observations.http(
                answer=answer,
                request=self._request,
                elapsed_ms=round((self._clock.monotonic() - passage.started_at) * 1000),
                observed_at=self._clock.stamp(),
                network_attempts=max(passage.requests, 1),
            )
        )

    def _fail(self, error: BaseException) -> bytes:
        """The report of a measured call that ended with an exception."""
        self.exception = error
        return encode(
            observations.failure(
                error=error,
                passage=self._passage,
                request=self._request,
                answer=self._answer,
                observed_at=self._clock.stamp(),
            )
        )

    def _start_observing(self) -> None:
        if self._conversation.permit is None:
            raise NoPermitError("There is no attempt that this could be reported for.", decision=self.decision)
        self._conversation.spent = True

    def _start_run(self) -> Permit:
        permit = self._conversation.may_send()
        self._permit_given = True
        self._conversation.spent = True
        self._undelivered = None
        return permit

    def _is_late(self) -> bool:
        return self._clock.monotonic() >= self._conversation.dispatch_until

    def _fail_run(self, error: BaseException, *, phase: Phase | None, one_request: bool) -> bytes:
        """The report of a call that we did not measure."""
        return encode(
            observations.failure(
                error=error,
                passage=None,
                request=None,
                answer=None,
                observed_at=self._clock.stamp(),
                phase=phase,
                network_attempts=1 if one_request else None,
            )
        )

    def _result_of_run(self, result: Any, *, one_request: bool) -> bytes:
        """The report of what a callable returned: an HTTP answer when it looks like one, else an envelope."""
        status, headers = getattr(result, "status_code", None), getattr(result, "headers", None)
        if isinstance(status, int) and isinstance(headers, Mapping):
            answer = Answer(status=status, headers={str(k): str(v) for k, v in headers.items()}, content=result.content)
            observation: dict[str, Any] = {"kind": "http", **answer.told(), "observed_at": self._clock.stamp()}
        else:
            observation = {"kind": "envelope", "body": result, "observed_at": self._clock.stamp()}
        if one_request:
            observation["network_attempts"] = 1
        return encode(observation)

    def _leave(self, error: BaseException | None) -> bytes | None:
        """What must still be reported when the block ends; None when nothing must."""
        if self._conversation.permit is None or self._conversation.reported:
            return None
        if self._undelivered is not None:
            return self._undelivered
        untouched = not self._permit_given and not self._conversation.spent
        reason = error or LeftWithoutReportError("The block ended without a report of the permitted call.")
        return self._fail_run(reason, phase=Phase.BEFORE_DISPATCH if untouched else None, one_request=False)

    def _new_permit(self) -> None:
        self._permit_given = False
        self._undelivered = None

    def _delivered(self, decision: Decision | None) -> Decision:
        self._undelivered = None
        self.report_error = None
        if decision is None:
            raise AscertainError("Ascertain took the report, but its answer holds no decision; read the operation.")
        return decision

    def _not_delivered(self, report: bytes, error: Exception) -> ReportNotDeliveredError:
        self._undelivered = report
        self.report_error = error
        told = f"Ascertain did not take the report of this call: {error}"
        return ReportNotDeliveredError(told, observation=json.loads(report))


def known_phase(error: BaseException) -> Phase | None:
    """How far a single request got, judged by the exception that ended it; None when the exception does not tell."""
    stated = getattr(error, "phase", None)
    if stated in set(Phase):
        return Phase(stated)
    for cause in _causes(error):
        if isinstance(cause, socket.gaierror):
            return Phase.RESOLVE
        if isinstance(cause, ssl.SSLCertVerificationError):
            return Phase.TLS
        if type(cause).__name__ in _NEVER_CONNECTED:
            return Phase.CONNECT
    return None


def wire_length(request: httpx2.Request) -> int:
    """Bytes of the request in HTTP/1.1, head and body (RFC 9112, sections 3 and 5)."""
    line = len(request.method) + 1 + len(request.url.raw_path) + len(" HTTP/1.1\r\n")
    fields = sum(len(name) + len(": ") + len(value) + len("\r\n") for name, value in request.headers.raw)
    return line + fields + len("\r\n") + len(request.content)


def _causes(error: BaseException) -> Iterator[BaseException]:
    current: BaseException | None = error
    for _ in range(16):
        if current is None:
            return
        yield current
        # Only what was raised "from" it: a mere context may be an earlier, unrelated failure.
        current = current.__cause__
