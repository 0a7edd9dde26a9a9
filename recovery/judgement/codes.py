"""Which codes can a reading or a decision carry, and what does each say in plain words?

One registry; a code is never reused for another meaning. A contract's own error rules add theirs.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Code(StrEnum):
    """Ours. The sentence to each stands in `SENTENCES`."""

    DONE = "DONE"
    IN_PROGRESS = "IN_PROGRESS"
    KEY_IN_USE = "KEY_IN_USE"
    KEY_REUSED = "KEY_REUSED"
    KEY_EFFECT_ENDED = "KEY_EFFECT_ENDED"
    KEY_EXPIRED = "KEY_EXPIRED"
    STORED_FAILURE = "STORED_FAILURE"
    INVALID_REQUEST = "INVALID_REQUEST"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    FORBIDDEN = "FORBIDDEN"
    PERSON_NEEDED = "PERSON_NEEDED"
    NOT_FOUND = "NOT_FOUND"
    MOVED = "MOVED"
    SESSION_EXPIRED = "SESSION_EXPIRED"
    NO_ROUTE = "NO_ROUTE"
    RATE_LIMITED = "RATE_LIMITED"
    NOT_TAKEN = "NOT_TAKEN"
    LOCKED = "LOCKED"
    STATE_CONFLICT = "STATE_CONFLICT"
    PRECONDITION_FAILED = "PRECONDITION_FAILED"
    BUSINESS_RULE = "BUSINESS_RULE"
    NOT_SUPPORTED = "NOT_SUPPORTED"
    SERVER_ERROR = "SERVER_ERROR"
    SERVICE_UNAVAILABLE = "SERVICE_UNAVAILABLE"
    GATEWAY_ERROR = "GATEWAY_ERROR"
    ORIGIN_NOT_REACHED = "ORIGIN_NOT_REACHED"
    REDIRECTED = "REDIRECTED"
    ANSWER_UNREADABLE = "ANSWER_UNREADABLE"
    ANSWER_CONTRADICTS = "ANSWER_CONTRADICTS"
    ANSWER_NOT_RECOGNISED = "ANSWER_NOT_RECOGNISED"
    ERROR_IN_ANSWER = "ERROR_IN_ANSWER"
    PARTIAL_RESULT = "PARTIAL_RESULT"
    ITEM_NOT_ACCOUNTED_FOR = "ITEM_NOT_ACCOUNTED_FOR"
    OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"
    TOOL_FAILED = "TOOL_FAILED"
    PROCESS_FAILED = "PROCESS_FAILED"
    WORK_FAILED = "WORK_FAILED"
    POLL_FAILED = "POLL_FAILED"
    WORK_NOT_KNOWN = "WORK_NOT_KNOWN"
    NOT_SENT = "NOT_SENT"
    CONNECTION_LOST = "CONNECTION_LOST"
    TRANSPORT_TIMEOUT = "TRANSPORT_TIMEOUT"
    CANCELLED = "CANCELLED"
    STREAM_REFUSED = "STREAM_REFUSED"
    MAIL_NOT_HANDED_OVER = "MAIL_NOT_HANDED_OVER"
    MAIL_REFUSED = "MAIL_REFUSED"
    ROLLED_BACK = "ROLLED_BACK"
    COMMIT_AMBIGUOUS = "COMMIT_AMBIGUOUS"
    FAILED_AFTER_ANSWER = "FAILED_AFTER_ANSWER"
    CLAIM_REFUSED = "CLAIM_REFUSED"
    CONTRACT_RULE = "CONTRACT_RULE"
    EARLIER_ATTEMPT_OPEN = "EARLIER_ATTEMPT_OPEN"
    NO_REPORT = "NO_REPORT"
    CHECKED = "CHECKED"
    CHECK_FAILED = "CHECK_FAILED"
    CHECKS_ENDED = "CHECKS_ENDED"
    CHECK_UNAVAILABLE = "CHECK_UNAVAILABLE"
    FOUND_TWICE = "FOUND_TWICE"
    FOUND = "FOUND"
    CONFLICT = "CONFLICT"
    ABSENT = "ABSENT"
    ABSENCE_NOT_PROVED = "ABSENCE_NOT_PROVED"
    LOOKUP_FAILED = "LOOKUP_FAILED"
    DEADLINE_PASSED = "DEADLINE_PASSED"
    POLLS_ENDED = "POLLS_ENDED"
    RETRIES_ENDED = "RETRIES_ENDED"
    REPAIRS_ENDED = "REPAIRS_ENDED"
    NOT_LICENSED = "NOT_LICENSED"
    NOBODY_TO_ASK = "NOBODY_TO_ASK"


SENTENCES: Final[Mapping[str, str]] = MappingProxyType(
    {
        Code.DONE: "The owner answered that it is done.",
        Code.IN_PROGRESS: "The owner took the request and has not finished.",
        Code.KEY_IN_USE: "An earlier request with the same key is still running at the owner.",
        Code.KEY_REUSED: "The owner knows this key from a request with other contents.",
        Code.KEY_EFFECT_ENDED: "The owner says that what was made under this key has ended since.",
        Code.STORED_FAILURE: "The owner repeats the failure that it keeps under this key.",
        Code.KEY_EXPIRED: "The owner refused because it no longer remembers this key.",
        Code.INVALID_REQUEST: "The owner refused the request because of its contents.",
        Code.UNAUTHENTICATED: "The owner did not accept the credential.",
        Code.FORBIDDEN: "The owner refused: this is outside the present permissions.",
        Code.PERSON_NEEDED: "The owner asks a person for an answer before it goes on.",
        Code.NOT_FOUND: "What the request addresses does not exist, or cannot be seen by us.",
        Code.MOVED: "What the request addresses lives at another address.",
        Code.SESSION_EXPIRED: "The session that the request belongs to has ended at the owner.",
        Code.NO_ROUTE: "Something on the way answered that it knows no such address.",
        Code.RATE_LIMITED: "The owner's limiter refused the request before acting.",
        Code.NOT_TAKEN: "The owner did not take the request this time.",
        Code.LOCKED: "What the request addresses is locked by other work.",
        Code.STATE_CONFLICT: "The owner refused because its state is not the one that the request expects.",
        Code.PRECONDITION_FAILED: "The condition in the request did not hold, so the owner did not act.",
        Code.BUSINESS_RULE: "A rule of the owner refuses this.",
        Code.NOT_SUPPORTED: "The owner does not offer what the request asks for.",
        Code.SERVER_ERROR: "The owner answered with an internal error.",
        Code.SERVICE_UNAVAILABLE: "The owner, or something in front of it, was unavailable.",
        Code.GATEWAY_ERROR: "A gateway answered for an owner whose answer it did not have.",
        Code.ORIGIN_NOT_REACHED: "A gateway documents that it never reached the owner.",
        Code.REDIRECTED: "The request was sent elsewhere on its way.",
        Code.ANSWER_UNREADABLE: "An answer came that cannot be read.",
        Code.ANSWER_CONTRADICTS: "The answer says success and failure at once.",
        Code.ANSWER_NOT_RECOGNISED: "The answer is none that is known for this tool.",
        Code.ERROR_IN_ANSWER: "The answer reports an error inside a success.",
        Code.PARTIAL_RESULT: "Some parts went through and others did not.",
        Code.ITEM_NOT_ACCOUNTED_FOR: "The answer names other items and not this one.",
        Code.OUTCOME_UNKNOWN: "Whoever answered says that the outcome is unknown.",
        Code.TOOL_FAILED: "The tool answered with an error of its own.",
        Code.PROCESS_FAILED: "The program ended without a result that can be read.",
        Code.WORK_FAILED: "The owner began the work, and it failed.",
        Code.POLL_FAILED: "Asking how far the work is failed, which says nothing of the work.",
        Code.WORK_NOT_KNOWN: "The owner knows nothing of the work that was asked about, or not any more.",
        Code.NOT_SENT: "Nothing of the request left for the owner.",
        Code.CONNECTION_LOST: "The connection ended after the request may have left.",
        Code.TRANSPORT_TIMEOUT: "No answer came in time after the request may have left.",
        Code.CANCELLED: "Our side stopped waiting; the owner may have gone on.",
        Code.STREAM_REFUSED: "The server closed the stream without processing the request.",
        Code.MAIL_NOT_HANDED_OVER: "The mail dialogue ended before the message was handed over.",
        Code.MAIL_REFUSED: "The mail server refused the message.",
        Code.ROLLED_BACK: "The database rolled the transaction back.",
        Code.COMMIT_AMBIGUOUS: "The database does not say whether the transaction was committed.",
        Code.FAILED_AFTER_ANSWER: "The owner answered, and our own code failed afterwards.",
        Code.CLAIM_REFUSED: "A rule of the contract claims more than whoever answered can know.",
        Code.CONTRACT_RULE: "A rule of the tool's contract fits this answer.",
        Code.EARLIER_ATTEMPT_OPEN: "What an earlier request of this operation did is still unknown.",
        Code.NO_REPORT: "A permit ended without a report.",
        Code.CHECKED: "The outcome was checked and is as intended.",
        Code.CHECK_FAILED: "The outcome was checked and differs from what was intended.",
        Code.CHECKS_ENDED: "The outcome could not be checked as often as the contract allows.",
        Code.CHECK_UNAVAILABLE: "The check of the outcome could not run.",
        Code.FOUND_TWICE: "The owner holds more than one of what was to be made once.",
        Code.FOUND: "The owner holds what the operation intended.",
        Code.CONFLICT: "The owner holds something else under our key.",
        Code.ABSENT: "The owner proved that nothing happened.",
        Code.ABSENCE_NOT_PROVED: "The owner did not show it, which does not prove yet that it is absent.",
        Code.LOOKUP_FAILED: "Asking the owner failed.",
        Code.DEADLINE_PASSED: "The operation's deadline has passed.",
        Code.POLLS_ENDED: "The budget for asking the owner is used up.",
        Code.RETRIES_ENDED: "The budget for repeats is used up.",
        Code.REPAIRS_ENDED: "The budget for repairs is used up.",
        Code.NOT_LICENSED: "Nothing licenses a repeat.",
        Code.NOBODY_TO_ASK: "The effect is unknown and the contract names no way to look it up.",
    }
)


def sentence(code: str) -> str:
    """What a code says, for people reading logs; a contract's own codes get a general sentence."""
    return SENTENCES.get(code, SENTENCES[Code.CONTRACT_RULE])
