"""Ascertain for harnesses that wait: a thin shell that carries out what conversation.py asks for."""

import contextlib
import ssl
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import httpx2

from recovery.client.clock import Clock
from recovery.client.conversation import (
    Ask,
    Conversation,
    Flow,
    Intent,
    LostReplyError,
    Patience,
    Pause,
    Reply,
    encode,
    read_operation,
)
from recovery.client.errors import AscertainError, ReportNotDeliveredError, TooLateError
from recovery.client.models import Decision, Operation, Permit
from recovery.client.operation import LONGEST_BODY, OUTCOMES_OF_A_CALL, OperationCore, known_phase
from recovery.client.passage import Phase
from recovery.client.transport import MeasuredTransport
from recovery.client.version import USER_AGENT

T = TypeVar("T")


class Ascertain:
    """One workspace of an Ascertain server, as seen by a harness. Safe to share between threads.

    `url` is the server's address without `/api/v1`. `verify` is False or an SSL context for servers and owners with
    certificates of your own. Environment proxies are used for Ascertain only when `trust_env` is set, never for owners:
    hand `send` a `client` of your own for that.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        patience: Patience | None = None,
        verify: ssl.SSLContext | bool = True,
        trust_env: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self._base = url.rstrip("/") + "/api/v1"
        self._patience = patience or Patience()
        self._clock = clock or Clock()
        context = verify if isinstance(verify, ssl.SSLContext) else httpx2.create_ssl_context(verify=verify)
        headers = {"authorization": f"Bearer {token}", "user-agent": USER_AGENT, "accept": "application/json"}
        self._api = httpx2.Client(headers=headers, verify=context, trust_env=trust_env)
        self._owners = httpx2.Client(
            transport=MeasuredTransport(ssl_context=context), trust_env=False, headers={"user-agent": USER_AGENT}
        )

    def operation(
        self,
        *,
        tool: str,
        operation_id: str,
        payload: Any,
        agent: Mapping[str, Any] | None = None,
        principal: str | None = None,
        deadline_at: datetime | str | None = None,
        items: Any = None,
        trace_id: str | None = None,
    ) -> "GuardedOperation":
        """One intended effect. Entering the block records it durably and asks for the first permit.

        Entering raises UnreachableError, or a RefusedError; then nothing may be sent.
        """
        intent = Intent(
            operation_id=operation_id,
            tool=tool,
            payload=payload,
            principal=principal,
            agent=agent,
            deadline_at=deadline_at,
            items=items,
            trace_id=trace_id,
        )
        conversation = Conversation(intent=intent, clock=self._clock, patience=self._patience)
        return GuardedOperation(
            conversation=conversation, clock=self._clock, owners=self._owners, carry_out=self._carry_out
        )

    def read(self, *, operation_id: str) -> Operation:
        """The operation as it stands; raises OperationNotFoundError."""
        return self._carry_out(read_operation(operation_id=operation_id, patience=self._patience))

    def close(self) -> None:
        """Close all connections."""
        self._api.close()
        self._owners.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _carry_out(self, flow: Flow[T]) -> T:
        try:
            step = next(flow)
            while True:
                if isinstance(step, Pause):
                    time.sleep(step.seconds)
                    step = flow.send(None)
                    continue
                try:
                    reply = self._ask(step)
                except httpx2.HTTPError as error:
                    lost = LostReplyError(f"{type(error).__name__}: {error}")
                    lost.__cause__ = error
                    step = flow.throw(lost)
                else:
                    step = flow.send(reply)
        except StopIteration as stop:
            result: T = stop.value
            return result

    def _ask(self, ask: Ask) -> Reply:
        asked_at = self._clock.monotonic()
        headers = {"content-type": "application/json"} if ask.body is not None else None
        response = self._api.request(
            ask.method,
            self._base + ask.path,
            content=ask.body,
            params=dict(ask.params) if ask.params is not None else None,
            headers=headers,
            timeout=ask.timeout,
        )
        try:
            body = response.json()
        except ValueError:
            body = None
        return Reply(status=response.status_code, headers=response.headers, body=body, asked_at=asked_at)


class GuardedOperation(OperationCore):
    """One operation inside its `with` block."""

    def __init__(
        self,
        *,
        conversation: Conversation,
        clock: Clock,
        owners: httpx2.Client,
        carry_out: Callable[[Flow[Any]], Any],
    ) -> None:
        super().__init__(conversation=conversation, clock=clock)
        self._owners = owners
        self._carry_out = carry_out

    def __enter__(self) -> Self:
        self._carry_out(self._conversation.open())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        report = self._leave(error)
        if report is None:
            return
        try:
            self._deliver(report, hurried=error is not None)
        except ReportNotDeliveredError as undelivered:
            if error is None:
                raise
            error.add_note(str(undelivered))

    def send(
        self,
        method: str | httpx2.Request,
        url: httpx2.URL | str | None = None,
        *,
        client: httpx2.Client | None = None,
        **options: Any,
    ) -> Decision:
        """Make the permitted call once, report what was seen, and return the decision.

        Takes a request, or a method and URL with the options of `httpx2.Client.build_request` (`json`, `headers`, …).
        Adds the permit's headers, ends with the permit's timeout, follows no redirect, repeats nothing. Afterwards
        `response` holds the owner's answer, or `exception` what happened instead. A `client` of your own is used as it
        is, its phases are known but its bytes are not counted.

        Raises NoPermitError or PermitSpentError (nothing was sent), ReportNotDeliveredError (the call was made).
        """
        through = client if client is not None else self._owners
        request = self._prepare(through, method, url, options)
        request.read()
        passage = self._depart(request, asynchronous=False)
        try:
            passage.refuse_when_late()
            with contextlib.closing(through.send(request, stream=True, follow_redirects=False)) as response:
                content = bytearray()
                truncated = False
                self._answered(response, b"", truncated=False)
                try:
                    for part in response.iter_bytes():
                        content += part
                        truncated = len(content) > LONGEST_BODY
                        if truncated:
                            break
                        if passage.remaining() <= 0:
                            raise httpx2.ReadTimeout("The answer took longer than the permit allows.", request=request)
                finally:
                    self._answered(response, bytes(content), truncated=truncated)
            report = self._arrive(request, response)
        except Exception as error:
            report = self._fail(error)
            if not isinstance(error, OUTCOMES_OF_A_CALL):
                self._deliver_beside(report, error)
                raise
        except BaseException as error:
            self._deliver_beside(self._fail(error), error)
            raise
        return self._deliver(report)

    def observe(self, observation: Mapping[str, Any]) -> Decision:
        """Report what was seen of a call that was made otherwise, in a shape of the wire; twice is the same as once.

        Raises NoPermitError, ReportNotDeliveredError.
        """
        self._start_observing()
        return self._deliver(encode(dict(observation)))

    def run(
        self,
        call: Callable[[Permit], T],
        *,
        observe: Callable[[T], Mapping[str, Any]] | None = None,
        one_request: bool = False,
    ) -> T:
        """Run any callable with the permit, report what it returned or raised, and hand that on unchanged.

        `observe` turns its result into an observation; without it an HTTP answer is told as one, anything else as an
        envelope. `one_request` states that the callable makes one network request and repeats none: only then is a
        refused connection taken as proof that nothing was sent. After `dispatch_by` it is not run: TooLateError.
        """
        permit = self._start_run()
        if self._is_late():
            late = TooLateError("The permit's time to send has passed; nothing was sent.")
            self._deliver_beside(self._fail_run(late, phase=Phase.BEFORE_DISPATCH, one_request=False), late)
            raise late
        try:
            result = call(permit)
        except BaseException as error:
            phase = known_phase(error) if one_request else None
            self._deliver_beside(self._fail_run(error, phase=phase, one_request=one_request), error)
            raise
        try:
            if observe is not None:
                report = encode(dict(observe(result)))
            else:
                report = self._result_of_run(result, one_request=one_request)
        except Exception as error:
            report = self._fail_run(error, phase=Phase.AFTER_RESPONSE, one_request=one_request)
            self._deliver_beside(report, error)
            raise
        self._deliver(report)
        return result

    def retry(self) -> bool:
        """Ask for a further permit. True when it was given; else `decision` says why not and what to do."""
        self._new_permit()
        self._carry_out(self._conversation.ask_permit())
        return self.permitted

    def revise(
        self, *, kind: Literal["repair", "refresh", "replan"], payload: Any, reason: str, field: str | None = None
    ) -> bool:
        """Record another payload for the same intent and ask for its permit; True when that was given.

        Raises ConflictError when the decision licensed no such revision.
        """
        revision = self._conversation.revise(kind=kind, payload=payload, field=field, reason=reason)
        self._carry_out(revision)
        return self.retry()

    def wait(self, timeout: float) -> Operation:
        """Follow the operation until it is settled or `timeout` seconds are up; return it as it then stands.

        Returns early when the next move is the harness's own: state `open`, where `retry` may ask for a permit.
        """
        operation: Operation = self._carry_out(self._conversation.wait(seconds=timeout))
        return operation

    def _deliver(self, report: bytes, *, hurried: bool = False) -> Decision:
        try:
            decision: Decision | None = self._carry_out(self._conversation.report(report, hurried=hurried))
        except AscertainError as error:
            raise self._not_delivered(report, error) from error
        return self._delivered(decision)

    def _deliver_beside(self, report: bytes, error: BaseException) -> None:
        """Report on the way out; a failure of that becomes a note on the exception that is under way."""
        try:
            self._deliver(report, hurried=True)
        except ReportNotDeliveredError as undelivered:
            error.add_note(str(undelivered))
