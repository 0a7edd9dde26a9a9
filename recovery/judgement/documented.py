"""What does a signal mean where no contract says more?

Every row is a `Meaning`: what kind of failure, what it proves about the effect, and the page that says so.
A row with effect `none` stands only where that page says that the request was not acted on.

| table              | looked up by                                     |
| ------------------ | ------------------------------------------------ |
| `STATUSES`         | HTTP status                                      |
| `CODES`            | an owner's error code in a structured member     |
| `JSONRPC_CODES`    | the number in a JSON-RPC error                   |
| `sqlstate_meaning` | SQLSTATE, the whole code before its class        |
| `smtp_meaning`     | the reply of a mail server                       |
| `grpc_meaning`     | the name or number of a gRPC status              |
| `TASK_STATUSES`    | the status of an MCP task                        |
| `gateway_meaning`  | the documented mark of a gateway on an answer    |

Status 402, 423 and the like have their documented meaning; a status that is not here proves nothing.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from ledger.rules.vocabulary import Action, Effect, FailureClass, Phase, Proof
from recovery.judgement.codes import Code


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """One row of a default table."""

    rule: str
    failure_class: FailureClass
    effect: Effect
    code: Code
    source: str
    proof: Proof | None = None
    remedy: Action | None = None
    field: str | None = None
    foreign_only: bool = False
    """It proves `none` only when nothing of ours may have caused it: an earlier request of ours makes it unknown."""


def _none(
    rule: str,
    failure_class: FailureClass,
    code: Code,
    source: str,
    *,
    remedy: Action | None = None,
    field: str | None = None,
    foreign_only: bool = False,
    proof: Proof = Proof.REFUSED,
) -> Meaning:
    return Meaning(
        rule=rule,
        failure_class=failure_class,
        effect=Effect.NONE,
        code=code,
        source=source,
        proof=proof,
        remedy=remedy,
        field=field,
        foreign_only=foreign_only,
    )


def _unknown(
    rule: str, code: Code, source: str, *, failure_class: FailureClass = FailureClass.UNKNOWN_OUTCOME
) -> Meaning:
    return Meaning(rule=rule, failure_class=failure_class, effect=Effect.UNKNOWN, code=code, source=source)


def _pending(rule: str, failure_class: FailureClass, code: Code, source: str) -> Meaning:
    return Meaning(
        rule=rule,
        failure_class=failure_class,
        effect=Effect.PENDING,
        code=code,
        source=source,
        proof=Proof.OWNER_RESULT,
    )


# Rows that several tables share.
INVALID = _none("refused.contents", FailureClass.INVALID_REQUEST, Code.INVALID_REQUEST, "RFC 9110 15.5.1")
UNAUTHENTICATED = _none("refused.credential", FailureClass.AUTHORIZATION, Code.UNAUTHENTICATED, "RFC 9110 15.5.2")
FORBIDDEN = _none("refused.permission", FailureClass.AUTHORIZATION, Code.FORBIDDEN, "RFC 9110 15.5.4")
NOT_FOUND = _none(
    "refused.not_found", FailureClass.NOT_FOUND, Code.NOT_FOUND, "RFC 9110 15.5.5",
    remedy=Action.REPAIR, foreign_only=True,
)  # fmt: skip
CONFLICT = _none(
    "refused.conflict", FailureClass.STATE_CONFLICT, Code.STATE_CONFLICT, "RFC 9110 15.5.10", foreign_only=True
)
PRECONDITION = _none(
    "refused.precondition", FailureClass.STATE_CONFLICT, Code.PRECONDITION_FAILED, "RFC 9110 13.1.1, 15.5.13",
    foreign_only=True,
)  # fmt: skip
BUSINESS = _none(
    "refused.business_rule", FailureClass.BUSINESS_RULE, Code.BUSINESS_RULE, "the owner's error code", foreign_only=True
)
LIMITED = _none("refused.limiter", FailureClass.TRANSIENT, Code.RATE_LIMITED, "RFC 6585 4")
NOT_SUPPORTED = _none(
    "refused.not_supported", FailureClass.INVALID_REQUEST, Code.NOT_SUPPORTED, "RFC 9110 15.6.2", remedy=Action.STOP
)
INTERNAL = _unknown("answer.internal_error", Code.SERVER_ERROR, "RFC 9110 9.2.2, 15.6.1")
IN_FLIGHT = _pending(
    "answer.key_in_use", FailureClass.STATE_CONFLICT, Code.KEY_IN_USE, "IETF idempotency-key draft 2.7"
)
KEY_REUSED = _none(
    "refused.key_reused", FailureClass.INVALID_REQUEST, Code.KEY_REUSED, "IETF idempotency-key draft 2.7",
    foreign_only=True,
)  # fmt: skip
KEY_ENDED = _none(
    "refused.key_effect_ended", FailureClass.STATE_CONFLICT, Code.KEY_EFFECT_ENDED, "Amazon EC2 error codes",
    remedy=Action.RECONCILE, foreign_only=True,
)  # fmt: skip
KEY_EXPIRED = _none(
    "refused.key_expired", FailureClass.STATE_CONFLICT, Code.KEY_EXPIRED, "OASIS Repeatable Requests 1.0: it fails closed",
    remedy=Action.RECONCILE,
)  # fmt: skip
ROW_LOCKED = _none("refused.row_locked", FailureClass.TRANSIENT, Code.LOCKED, "Salesforce API status codes")
ROLLED_BACK_WITH_OTHERS = _none(
    "refused.with_others", FailureClass.STATE_CONFLICT, Code.ROLLED_BACK,
    "Salesforce composite; Amazon DynamoDB transactions: all or none",
)  # fmt: skip
NOT_GRANTED_YET = _none(
    "refused.not_granted_yet", FailureClass.AUTHORIZATION, Code.FORBIDDEN, "RFC 8628 3.5", remedy=Action.WAIT
)
ERROR_INSIDE = _unknown("answer.error_inside", Code.ERROR_IN_ANSWER, "law 1")
NOT_LISTED = _unknown("answer.not_listed", Code.ANSWER_NOT_RECOGNISED, "law 12")
TO_BE_CHECKED = replace(
    NOT_LISTED,
    rule="answer.to_be_checked",
    failure_class=FailureClass.VERIFICATION,
    remedy=Action.VERIFY,
    source="law 5: text proves neither success nor failure",
)

# What an answer says of the work.
DONE: Final = Meaning(
    rule="answer.done",
    failure_class=FailureClass.SUCCESS,
    effect=Effect.APPLIED,
    code=Code.DONE,
    source="RFC 9110 15.3.1, 15.3.2, 15.3.5",
    proof=Proof.OWNER_RESULT,
)
UNFINISHED: Final = _pending("answer.unfinished", FailureClass.SUCCESS, Code.IN_PROGRESS, "RFC 9110 15.3.3")
PARTIAL: Final = Meaning(
    rule="answer.partial",
    failure_class=FailureClass.PARTIAL,
    effect=Effect.PARTIAL,
    code=Code.PARTIAL_RESULT,
    source="the owner's own lists",
    proof=Proof.OWNER_RESULT,
)
UNACCOUNTED: Final = replace(PARTIAL, rule="answer.partial_unaccounted", effect=Effect.UNKNOWN, proof=None)
UNREADABLE: Final = replace(NOT_LISTED, rule="answer.unreadable", code=Code.ANSWER_UNREADABLE)
CONTRADICTS: Final = replace(NOT_LISTED, rule="answer.contradicts", code=Code.ANSWER_CONTRADICTS)
INPUT_REQUIRED: Final = _none(
    "answer.input_required", FailureClass.AUTHORIZATION, Code.PERSON_NEEDED, "MCP 2026-07-28, multi round-trip requests",
    proof=Proof.OWNER_RESULT, foreign_only=True,
)  # fmt: skip


def _status_rows() -> dict[int, Meaning]:
    refused = {
        402: BUSINESS, 451: _none("refused.law", FailureClass.BUSINESS_RULE, Code.BUSINESS_RULE, "RFC 7725 3"),
        403: FORBIDDEN, 401: UNAUTHENTICATED,
        407: _none("refused.proxy_credential", FailureClass.AUTHORIZATION, Code.UNAUTHENTICATED, "RFC 9110 15.5.8"),
        511: _none("refused.network_credential", FailureClass.AUTHORIZATION, Code.UNAUTHENTICATED, "RFC 6585 6"),
        404: NOT_FOUND,
        410: _none(
            "refused.gone", FailureClass.NOT_FOUND, Code.NOT_FOUND, "RFC 9110 15.5.11",
            remedy=Action.REPLACE, foreign_only=True,
        ),
        409: CONFLICT, 412: PRECONDITION,
        423: _none("refused.locked", FailureClass.STATE_CONFLICT, Code.LOCKED, "RFC 4918 11.3", remedy=Action.WAIT),
        424: _none("refused.dependency", FailureClass.STATE_CONFLICT, Code.STATE_CONFLICT, "RFC 4918 11.4"),
        428: _none(
            "refused.unconditional", FailureClass.INVALID_REQUEST, Code.INVALID_REQUEST, "RFC 6585 3", field="If-Match"
        ),
        429: LIMITED,
        408: _none("refused.incomplete", FailureClass.TRANSIENT, Code.NOT_TAKEN, "RFC 9110 15.5.9"),
        421: _none("refused.misdirected", FailureClass.TRANSIENT, Code.NOT_TAKEN, "RFC 9110 15.5.20"),
        425: _none("refused.too_early", FailureClass.TRANSIENT, Code.NOT_TAKEN, "RFC 8470 5.2"),
        501: NOT_SUPPORTED, 505: NOT_SUPPORTED,
        307: _none("refused.moved", FailureClass.NOT_FOUND, Code.MOVED, "RFC 9110 15.4.8", remedy=Action.REPLACE),
        308: _none("refused.moved", FailureClass.NOT_FOUND, Code.MOVED, "RFC 9110 15.4.9", remedy=Action.REPLACE),
    }  # fmt: skip
    refused |= dict.fromkeys((400, 405, 406, 411, 413, 414, 415, 416, 417, 422, 426, 431), INVALID)
    gateway = _unknown("gateway.no_answer", Code.GATEWAY_ERROR, "RFC 9110 15.6.3, 15.6.5")
    return refused | {
        500: INTERNAL,
        502: gateway,
        503: _unknown("answer.unavailable", Code.SERVICE_UNAVAILABLE, "RFC 9110 15.6.4: no safe default for a write"),
        504: gateway,
        520: gateway,
        522: gateway,
        524: gateway,
    }


STATUSES: Final[Mapping[int, Meaning]] = MappingProxyType(_status_rows())

GATEWAY_STATUSES: Final = frozenset({502, 504, 520, 522, 524})
"""RFC 9110 defines the first two as said by a gateway; Cloudflare made the others. Every 5xx that is not in `STATUSES`
is taken for a gateway's too."""

# An owner's codes. Each line is one meaning; the words are the codes as their owners document them, compared without
# case, separators and the endings Exception, Error and Fault.
_CODE_LINES: Final[tuple[tuple[Meaning, str], ...]] = (
    (LIMITED, """
        Throttling ThrottlingException ThrottledException RequestThrottled RequestThrottledException
        TooManyRequestsException ProvisionedThroughputExceededException RequestLimitExceeded BandwidthLimitExceeded
        SlowDown EC2ThrottledException LimitExceededException PriorRequestNotComplete
        Throttled RATE_LIMITED RATE_LIMIT rate_limit_exceeded
        rateLimitExceeded userRateLimitExceeded ratelimited TOO_MANY_REQUESTS activityLimitReached
        RESOURCE_EXHAUSTED M_LIMIT_EXCEEDED slow_down request_limit_exceeded MAX_COST_EXCEEDED API_LIMIT_EXCEEDED
        REQUEST_LIMIT_EXCEEDED RateLimitReached
    """),  # botocore retries; GraphQL owners; Google errors; Matrix; RFC 8628; Salesforce
    (UNAUTHENTICATED, """
        UNAUTHENTICATED unauthorized invalid_token invalid_grant invalid_client expired_token token_expired
        token_revoked not_authed invalid_auth account_inactive ExpiredToken UnrecognizedClientException
        InvalidClientTokenId ExpiredTokenException IncompleteSignature SignatureDoesNotMatch
        MissingAuthenticationToken AuthFailure InvalidAuthenticationToken AuthenticationFailed
        M_UNKNOWN_TOKEN M_MISSING_TOKEN INVALID_SESSION_ID authentication_required authentication_error
        authentication_failed session_expired login_required
    """),  # RFC 6749, 6750; OpenID Connect; Slack; AWS common errors; Azure; Matrix; Salesforce
    (FORBIDDEN, """
        PERMISSION_DENIED FORBIDDEN access_denied insufficient_scope invalid_scope unauthorized_client missing_scope
        no_permission not_allowed_token_type ekm_access_denied AccessDenied AccessDeniedException
        UnauthorizedOperation AuthorizationFailed M_FORBIDDEN INSUFFICIENT_ACCESS permission_error
        INSUFFICIENT_ACCESS_OR_READONLY consent_required
        insufficientPermissions insufficient_permissions NOT_AUTHORIZED not_authorized
    """),  # gRPC; RFC 6749, 6750; Slack; AWS; Azure; Matrix; Salesforce
    (INVALID, """
        INVALID_ARGUMENT OUT_OF_RANGE invalid_request bad_request BAD_USER_INPUT GRAPHQL_PARSE_FAILED
        GRAPHQL_VALIDATION_FAILED OPERATION_RESOLUTION_FAILURE ValidationError ValidationException validation_failed
        UnprocessableEntity unprocessable_content invalid_request_error InvalidParameterValue InvalidParameter
        MissingParameter InvalidInput MalformedQueryString parameter_invalid parameter_missing parameter_unknown
        RecordInvalid InvalidArgument MalformedXML M_BAD_JSON M_NOT_JSON M_INVALID_PARAM M_MISSING_PARAM
        unsupported_grant_type unsupported_response_type REQUIRED_FIELD_MISSING INVALID_FIELD MALFORMED_ID
        FIELD_CUSTOM_VALIDATION_EXCEPTION missing_required_field invalid_arguments no_text msg_too_long
        INVALID_REQUEST MISSING_REQUIRED_PARAMETER idempotency_key_required PERSISTED_QUERY_NOT_FOUND invalid_input
    """),
    (NOT_FOUND, """
        NOT_FOUND ResourceNotFoundException ResourceNotFound NoSuchKey NoSuchBucket NoSuchEntity RecordNotFound
        M_NOT_FOUND M_UNRECOGNIZED channel_not_found user_not_found message_not_found thread_not_found
        resource_missing ENTITY_IS_DELETED object_not_found
    """),
    (CONFLICT, """
        ALREADY_EXISTS conflict ConflictException ResourceInUseException BucketAlreadyExists EntityAlreadyExists
        BlobAlreadyExists ExecutionAlreadyExists DUPLICATE_VALUE name_taken already_reacted already_in_channel
        uniqueness ResourceConflictException
        ABORTED edit_conflict M_ROOM_IN_USE M_USER_IN_USE ResourceAlreadyExistsException
    """),
    (PRECONDITION, """
        ConditionalCheckFailedException PreconditionFailed ConditionNotMet UpdateConditionNotSatisfied
        OptimisticLockException stale_object StaleObject etag_mismatch version_conflict
        version_conflict_engine_exception
    """),
    (BUSINESS, """
        FAILED_PRECONDITION card_error card_declined insufficient_funds insufficient_quota expired_card
        incorrect_cvc payment_required billing_hard_limit_reached
        is_archived restricted_action ServiceQuotaExceededException QuotaExceeded
        STORAGE_LIMIT_EXCEEDED
    """),
    (NOT_SUPPORTED, "UNIMPLEMENTED not_implemented unsupported_operation method_not_supported_for_channel_type"),
    (INTERNAL, """
        INTERNAL internal_error internal_server_error INTERNAL_SERVER_ERROR InternalFailure InternalError
        InternalServerException server_error api_error fatal_error UNKNOWN_EXCEPTION UNKNOWN UNAVAILABLE
        service_unavailable ServiceUnavailable ServiceUnavailableException DEADLINE_EXCEEDED CANCELLED DATA_LOSS
        temporarily_unavailable RequestTimeout RequestTimeoutException timeout GatewayTimeout gateway_timeout M_UNKNOWN
        OperationTimedOut IDEMPOTENCY_PREVIOUS_ATTEMPT_FAILED TransactionConflictException
        processing_error lock_timeout
    """),  # an owner's own word that it does not know, or may have acted
    (IN_FLIGHT, """
        idempotency_key_in_use IDEMPOTENCY_CONCURRENT_REQUEST IdempotentRequestInProgress idempotency_in_flight
        IdempotentCallInProgressFault IdempotencyTokenInUseException TransactionInProgressException
        request_in_progress idempotency_request_in_progress
    """),
    (KEY_REUSED, """
        idempotency_error IDEMPOTENCY_KEY_REUSED IDEMPOTENCY_KEY_PARAMETER_MISMATCH IdempotentParameterMismatch
        IdempotentParameterMismatchException IdempotentRequestError idempotency_conflict DUPLICATE_REQUEST_ID
        PAYPAL_REQUEST_ID_PREVIOUSLY_USED IdempotencyException
    """),
    (KEY_ENDED, "IdempotentInstanceTerminated"),
    (KEY_EXPIRED, "RepeatabilityRequestExpired RepeatabilityFirstSentTooOld"),
    (ROW_LOCKED, "UNABLE_TO_LOCK_ROW"),
    (ROLLED_BACK_WITH_OTHERS, "PROCESSING_HALTED ALL_OR_NONE_OPERATION_ROLLED_BACK TransactionCanceledException"),
    (NOT_GRANTED_YET, "authorization_pending"),
)  # fmt: skip

_SEPARATORS = re.compile(r"[^a-z0-9]+")
_ENDINGS = re.compile(r"(exception|error|fault)$")
_CODE_SHAPE = re.compile(r"[A-Za-z][A-Za-z0-9_.:/#-]{1,127}", re.ASCII)


@lru_cache(maxsize=4096)
def plain_code(code: str) -> str:
    """A code without case, namespace, separators and the ending Exception, Error or Fault."""
    last = code.split(":http", 1)[0].rstrip("/").rsplit("#", 1)[-1].rsplit("/", 1)[-1].rsplit(":", 1)[-1]
    bare = _SEPARATORS.sub("", last.lower())
    return _ENDINGS.sub("", bare) or bare


CODES: Final[Mapping[str, Meaning]] = MappingProxyType(
    {plain_code(code): meaning for meaning, codes in _CODE_LINES for code in codes.split()}
)


def looks_like_a_code(value: Any) -> bool:
    """Whether a value is written as a machine's code: one word, no spaces. Prose is not."""
    return isinstance(value, str) and _CODE_SHAPE.fullmatch(value) is not None


_KEY_FAMILIES: Final[tuple[tuple[Meaning, tuple[str, ...]], ...]] = (
    (KEY_EXPIRED, ("expired",)),
    (IN_FLIGHT, ("inuse", "inprogress", "inflight", "concurrent", "processing", "locked")),
    (KEY_REUSED, ("mismatch", "reuse", "conflict", "different", "changed", "duplicate")),
    (INVALID, ("required", "missing", "invalid", "toolong")),
)
"""Owners spell one thing in many ways (nineteen AWS services in nine), and all of them begin with Idempoten…"""

_REFUSAL_FAMILIES: Final[tuple[tuple[Meaning, frozenset[str]], ...]] = (
    (FORBIDDEN, frozenset({"permission", "permissions", "privilege", "privileges", "scope", "scopes"})),
    (
        BUSINESS,
        frozenset({"insufficient", "declined", "overdrawn", "overbooked", "taken", "closed", "exceeded", "out"}),
    ),
)
"""Words of a code beside a refusal: they tell the kind of refusal, never whether it was one."""
_CODE_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")


def code_meaning(code: str) -> Meaning | None:
    """What an owner's code means wherever it stands; None when nobody here knows it."""
    plain = plain_code(code)
    if plain in CODES:
        return CODES[plain]
    if not plain.startswith("idempoten"):
        return None
    return next((meaning for meaning, parts in _KEY_FAMILIES if any(part in plain for part in parts)), None)


def refusal_kind(code: str) -> Meaning | None:
    """What an unknown code tells of a refusal that its status has proved already; None for no known word."""
    words = {word.lower() for word in _CODE_WORD.findall(code)}
    return next((meaning for meaning, known in _REFUSAL_FAMILIES if words & known), None)


JSONRPC_CODES: Final[Mapping[int, Meaning]] = MappingProxyType(
    {
        -32700: INVALID,
        -32600: INVALID,
        -32602: INVALID,
        -32601: _none(
            "refused.no_such_method", FailureClass.NOT_FOUND, Code.NOT_FOUND, "JSON-RPC 2.0 5.1", remedy=Action.REPAIR
        ),
        -32002: NOT_FOUND,
        -32020: INVALID,
        -32021: INVALID,
        -32022: INVALID,
        -32042: _none("refused.person_needed", FailureClass.AUTHORIZATION, Code.FORBIDDEN, "MCP 2025-11-25"),
    }
)
"""Refusals before anything ran, when the peer itself says so. Every other number proves nothing (-32603, -32000 …)."""

JSONRPC_OTHER: Final = _unknown("answer.jsonrpc_error", Code.ERROR_IN_ANSWER, "MCP 2026-07-28, Error Codes")
NOT_PROCESSED: Final = _none(
    "refused.not_processed", FailureClass.TRANSIENT, Code.NOT_TAKEN, "MCP draft error registry: data.notProcessed"
)
LOST: Final = _unknown("transport.connection_lost", Code.CONNECTION_LOST, "RFC 9110 9.2.2; RFC 9112 9.3.1")
NO_ANSWER: Final = replace(LOST, rule="transport.no_answer_in_time", code=Code.TRANSPORT_TIMEOUT)
PLACEHOLDER: Final = replace(LOST, rule="harness.placeholder", code=Code.NO_REPORT, source="law 3")
CANCELLED: Final = replace(LOST, rule="transport.cancelled", code=Code.CANCELLED)
NOT_SENT: Final = _none(
    "transport.not_sent", FailureClass.TRANSIENT, Code.NOT_SENT, "RFC 9110 9.2.2: nothing of the request had left",
    proof=Proof.NOT_SENT,
)  # fmt: skip
BEFORE_ANY_BYTE: Final = frozenset({Phase.BEFORE_DISPATCH, Phase.RESOLVE, Phase.CONNECT, Phase.TLS})

GRPC_NAMES: Final = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
    "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
    "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
)  # fmt: skip
_GRPC_UNKNOWN = _unknown("grpc.proves_nothing", Code.SERVER_ERROR, "gRPC status codes guide")


def grpc_meaning(name: str) -> Meaning:
    """What a gRPC status proves. CANCELLED, DEADLINE_EXCEEDED, UNAVAILABLE, INTERNAL, UNKNOWN and DATA_LOSS may follow
    an effect, and a name that is none of the seventeen proves nothing."""
    if name == "OK":
        return DONE
    return (CODES[plain_code(name)] if name in GRPC_NAMES else None) or _GRPC_UNKNOWN


TASK_STATUSES: Final[Mapping[str, Meaning]] = MappingProxyType(
    {
        "working": replace(UNFINISHED, source="MCP tasks: working"),
        "submitted": replace(UNFINISHED, source="MCP tasks: working"),
        "input_required": replace(
            UNFINISHED,
            rule="answer.task_asks",
            failure_class=FailureClass.AUTHORIZATION,
            code=Code.PERSON_NEEDED,
            remedy=Action.AUTHORIZE,
            source="MCP tasks: input_required",
        ),
        "completed": replace(TO_BE_CHECKED, rule="answer.task_completed_unseen", source="MCP tasks: the result is not here"),
        "failed": _unknown("answer.task_failed", Code.ERROR_IN_ANSWER, "MCP tasks: a failed task may have begun"),
        "cancelled": _unknown("answer.task_cancelled", Code.CANCELLED, "MCP tasks: cancelling undoes nothing"),
    }
)  # fmt: skip
"""What the status of an MCP task says, in both revisions. A completed task says it in its result."""

SESSION_EXPIRED: Final = _none(
    "refused.session_expired", FailureClass.TRANSIENT, Code.SESSION_EXPIRED, "MCP 2025-06-18, Streamable HTTP",
    remedy=Action.REFRESH,
)  # fmt: skip
NO_ROUTE: Final = _none("refused.no_route", FailureClass.TRANSIENT, Code.NO_ROUTE, "a non-JSON-RPC 404 to JSON-RPC")

_PG = "PostgreSQL, Appendix A"
_ROLLED_BACK = _none("database.rolled_back", FailureClass.TRANSIENT, Code.ROLLED_BACK, _PG)
_AMBIGUOUS = _unknown("database.ambiguous", Code.COMMIT_AMBIGUOUS, _PG)
_NOT_CONNECTED = _none("database.not_connected", FailureClass.TRANSIENT, Code.NOT_SENT, _PG, proof=Proof.NOT_SENT)
_SQLSTATES: Final[Mapping[str, Meaning]] = MappingProxyType(
    {
        "40001": _ROLLED_BACK, "40P01": _ROLLED_BACK, "55P03": _ROLLED_BACK, "57014": _ROLLED_BACK,
        "40003": _AMBIGUOUS,
        "08001": _NOT_CONNECTED, "08004": _NOT_CONNECTED, "57P03": _NOT_CONNECTED, "53300": _NOT_CONNECTED,
        "23505": CONFLICT, "23P01": CONFLICT,
        "25006": _none("database.read_only", FailureClass.STATE_CONFLICT, Code.STATE_CONFLICT, _PG),
        "42501": FORBIDDEN,
        "P0001": BUSINESS,
        # Some databases report every broken constraint with the class alone.
        "23000": CONFLICT,
    }
)  # fmt: skip
_SQL_CLASSES: Final[Mapping[str, Meaning]] = MappingProxyType(
    {
        "40": _none("database.rolled_back", FailureClass.STATE_CONFLICT, Code.ROLLED_BACK, _PG),
        "22": INVALID, "42": INVALID, "0A": INVALID, "54": INVALID, "23": INVALID,
        "28": UNAUTHENTICATED, "3D": NOT_FOUND, "53": _ROLLED_BACK,
        "25": CONFLICT, "55": CONFLICT,
    }
)  # fmt: skip


def sqlstate_meaning(sqlstate: str) -> Meaning:
    """What a database's SQLSTATE proves. 08… and 57P01 may follow a commit whose answer was lost: unknown."""
    state = sqlstate.upper()
    return _SQLSTATES.get(state) or _SQL_CLASSES.get(state[:2]) or _AMBIGUOUS


_RFC5321 = "RFC 5321 3.3, 4.2.1, 4.2.5"
_BEFORE_DATA: Final = frozenset({"", "CONNECT", "EHLO", "HELO", "STARTTLS", "AUTH", "MAIL", "MAIL FROM", "RCPT",
                                 "RCPT TO", "RSET", "NOOP", "VRFY"})  # fmt: skip


_AFTER_MESSAGE: Final = frozenset({"DATA", "BDAT", ".", "QUIT"})
_MAIL_TAKEN: Final = Meaning(
    rule="mail.taken",
    failure_class=FailureClass.VERIFICATION,
    effect=Effect.APPLIED,
    code=Code.FAILED_AFTER_ANSWER,
    source=_RFC5321,
    proof=Proof.OWNER_RESULT,
    remedy=Action.VERIFY,
)


def smtp_meaning(*, last_command: str, reply: int | None, data_sent: bool | None) -> Meaning:
    """What a broken mail dialogue proves. Nothing is handed over before DATA; a refusal after it means not delivered;
    silence after the message's last byte proves nothing."""
    if reply is not None and 400 <= reply <= 599:
        return _smtp_refusal(reply)
    early = last_command.strip().upper() in _BEFORE_DATA and data_sent is not True
    if reply == 250 and data_sent is True and last_command.strip().upper() in _AFTER_MESSAGE:
        return _MAIL_TAKEN
    if early or data_sent is False:
        return _none("mail.not_handed_over", FailureClass.TRANSIENT, Code.MAIL_NOT_HANDED_OVER, _RFC5321,
                     proof=Proof.NOT_SENT)  # fmt: skip
    return _unknown("mail.no_reply_after_data", Code.CONNECTION_LOST, _RFC5321)


def _smtp_refusal(reply: int) -> Meaning:
    if reply < 500:
        failure, remedy = FailureClass.TRANSIENT, None
    elif reply in (530, 534, 535, 538):
        failure, remedy = FailureClass.AUTHORIZATION, None
    elif reply in (500, 501, 502, 503, 504, 550, 551, 553, 555):
        failure, remedy = FailureClass.INVALID_REQUEST, Action.REPAIR
    else:
        failure, remedy = FailureClass.BUSINESS_RULE, None
    return _none("mail.refused", failure, Code.MAIL_REFUSED, _RFC5321, remedy=remedy)


_NOT_REACHED = "gateway.origin_not_reached"
_PROXY_NOT_REACHED: Final = frozenset(
    {"dns_timeout", "dns_error", "destination_not_found", "destination_unavailable", "destination_ip_prohibited",
     "destination_ip_unroutable", "connection_refused", "connection_timeout", "connection_limit_reached",
     "tls_protocol_error", "tls_certificate_error", "http_request_denied"}
)  # fmt: skip
"""RFC 9209 2.3: errors that happen before the request is forwarded."""
_PROXY_ERROR = re.compile(r";\s*error=\"?([a-z_]{1,60})")
_SQUID_NOT_REACHED: Final = frozenset({"ERR_CONNECT_FAIL", "ERR_DNS_FAIL", "ERR_ACCESS_DENIED", "ERR_CANNOT_FORWARD"})


_GATEWAY_MARKS: Final = frozenset(
    {"cf-ray", "cf-mitigated", "proxy-status", "x-envoy-overloaded", "x-squid-error", "x-vercel-error",
     "x-kong-response-latency"}
)  # fmt: skip


def gateway_meaning(*, status: int, headers: Mapping[str, Any]) -> Meaning | None:
    """What a gateway says when its documented mark shows that it spoke; None when nothing shows that one did.

    Cloudflare puts its name on the owner's answers too, so there only its own 52x statuses count.
    """
    server = str(headers.get("server", "")).lower()[:60]
    if _GATEWAY_MARKS.isdisjoint(headers) and not server.startswith(("cloudflare", "awselb/")):
        return None
    cloudflare = server == "cloudflare" or "cf-ray" in headers
    if cloudflare and status in (521, 523, 525, 526):
        return _not_reached("Cloudflare 5xx errors")
    if cloudflare and (520 <= status <= 530):
        return STATUSES[520]
    if cloudflare and str(headers.get("cf-mitigated", "")).lower() == "challenge":
        return _none("gateway.challenge", FailureClass.AUTHORIZATION, Code.FORBIDDEN, "Cloudflare challenge pages")
    proxy_error = _PROXY_ERROR.search(str(headers.get("proxy-status", ""))[:1000])
    if proxy_error is not None:
        return _not_reached("RFC 9209 2.3") if proxy_error[1] in _PROXY_NOT_REACHED else STATUSES[502]
    if str(headers.get("x-envoy-overloaded", "")).lower() == "true":
        return _not_reached("Envoy router headers: dropped before the upstream")
    squid = str(headers.get("x-squid-error", "")).split(" ", 1)[0]
    if squid:
        return _not_reached("Squid error pages") if squid in _SQUID_NOT_REACHED else STATUSES[502]
    if "x-vercel-error" in headers or (
        "x-kong-response-latency" in headers and "x-kong-upstream-latency" not in headers
    ):
        return _limits_or_nothing(status)
    if status >= 400 and server.startswith("awselb/"):
        return _limits_or_nothing(status)
    return None


def _not_reached(source: str) -> Meaning:
    return _none(_NOT_REACHED, FailureClass.TRANSIENT, Code.ORIGIN_NOT_REACHED, source, proof=Proof.NOT_SENT)


def _limits_or_nothing(status: int) -> Meaning:
    return LIMITED if status == 429 else STATUSES[502]
