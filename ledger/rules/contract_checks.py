"""Which promises of a contract contradict each other, and which can this release not keep?

| a contract says | and must also say, or may not say | because |
| --- | --- | --- |
| `no_match` (a write) | `lag`, and `authoritative` if it is to count | absence needs a moment after which it counts |
| `guarantee: key` | `field`, and `{operation_id}` in the key | a key that all operations share protects none |
| `idempotency.key` | what makes more than 300 characters | a key is kept, and sent, whole or not at all |
| an error of class `transient` (a write) | `effect: none` | only a proved absence makes a retry safe |
| an error of class `unknown_outcome` | `effect: unknown` | that is what the class means |
| an error of class `success` | `effect: applied` or `pending` | likewise |
| an error that says more than whoever answers then may know | nothing of the kind | law 3 |
| `effect: batch` | `items`, below the payload | an effect that may be partial is followed item by item |
| `samples` | what its own rules say of them (contract_samples.py) | a rule that misreads its own example is wrong |
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from ledger.rules.arguments import schema_problem
from ledger.rules.contract_samples import sample_problems
from ledger.rules.contract_sections import (
    ASKED_BY_HANDLE,
    PAGED,
    TRANSPORT_HEADERS,
    Dispatch,
    Idempotency,
    LookupBy,
    LookupRequest,
    LookupRule,
    SqlRequest,
)
from ledger.rules.evidence import may_assert
from ledger.rules.expressions import Condition, Context
from ledger.rules.templates import KEY_NAMES, PATH_NAMES, PATH_ROOTS, slots, strings
from ledger.rules.vocabulary import Effect, EffectKind, FailureClass, Guarantee, Proof, Speaker

if TYPE_CHECKING:
    from ledger.rules.contract import Contract

LONGEST_KEY: Final = 300
"""Characters of an idempotency key that the ledger keeps."""
LONGEST_OPERATION_ID: Final = 200
LAST_REVISION: Final = 9_999

_EFFECTS_OF: Final = {
    FailureClass.TRANSIENT: (Effect.NONE,),
    FailureClass.UNKNOWN_OUTCOME: (Effect.UNKNOWN,),
    FailureClass.SUCCESS: (Effect.APPLIED, Effect.PENDING),
    FailureClass.PARTIAL: (Effect.PARTIAL,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """A part of the document and what is wrong with it."""

    path: str
    message: str


def complaints(contract: "Contract", *, stated: bool) -> list[Complaint]:
    """Everything that the shape alone does not show. `stated`: it comes with a question and is never published."""
    found = list(_schemas(contract))
    found += _items(contract, stated=stated)
    found += _idempotency(contract, stated=stated)
    found += _lookups(contract)
    found += _errors(contract)
    found += _waits(contract)
    found += _expressions(contract)
    if not stated:
        found += _named(contract)
        found += _claims(contract)
    if not found:
        found += _samples(contract)
    return found


def unsupported_parts(contract: "Contract") -> Iterator[Complaint]:
    """What this release would have to ignore."""
    if contract.approval is not None:
        yield Complaint(
            path="approval",
            message="Approvals cannot be asked for yet. Leaving this part out lets every request through unasked: "
            "keep the tool away from agents until then if that is not acceptable.",
        )


def unused_parts(contract: "Contract") -> Iterator[tuple[str, str]]:
    """(path, sentence) of what may stand and does nothing."""
    if contract.items is not None and contract.effect is not EffectKind.BATCH:
        yield "items", f"A {contract.effect} is followed as a whole; its items count only with effect: batch."
    if contract.idempotency.guarantee is Guarantee.KEY and contract.idempotency.retention is None:
        yield (
            "idempotency.retention",
            "Without it a key licenses no repeat: nobody can know how long the owner remembers it.",
        )


def _named(contract: "Contract") -> Iterator[Complaint]:
    if not contract.contract:
        yield Complaint(path="contract", message="The tool's name must be stated.")
    if not contract.owner:
        yield Complaint(path="owner", message="The owner that holds the truth must be stated.")


def _schemas(contract: "Contract") -> Iterator[Complaint]:
    for path, schema in (("arguments", contract.arguments), ("result", contract.result)):
        if schema is not None and (problem := schema_problem(schema)) is not None:
            yield Complaint(path=path, message=problem)


_ITEMS_PATH = re.compile(r"payload(\.[A-Za-z_$][\w$-]*)*")


def _items(contract: "Contract", *, stated: bool) -> Iterator[Complaint]:
    if contract.items is None:
        if contract.effect is EffectKind.BATCH and not stated:
            yield Complaint(
                path="items",
                message="State where a batch keeps its items and which member is an item's key, such as "
                "{path: payload.tickets, key: ref}.",
            )
        return
    if _ITEMS_PATH.fullmatch(contract.items.path) is None or contract.items.path == "payload":
        yield Complaint(
            path="items.path",
            message="Write the member of the payload that is the list, such as payload.tickets: a part of the batch "
            "is sent again by putting fewer items there.",
        )


def _idempotency(contract: "Contract", *, stated: bool) -> Iterator[Complaint]:
    promised = contract.idempotency
    try:
        names = slots(promised.key)
    except ValueError as error:
        yield Complaint(path="idempotency.key", message=str(error))
        return
    for name in names:
        if name not in KEY_NAMES:
            yield Complaint(
                path="idempotency.key",
                message=f"A key is made of operation_id, operation_uuid and revision, not {name}.",
            )
    if (longest := _longest_key(promised, names)) > LONGEST_KEY:
        yield Complaint(
            path="idempotency.key",
            message=f"The longest operation_id would make a key of {longest} characters; {LONGEST_KEY} can be kept. "
            "Shorten it, or use {operation_uuid}.",
        )
    if promised.guarantee is Guarantee.KEY:
        if not {"operation_id", "operation_uuid"} & set(names):
            yield Complaint(
                path="idempotency.key",
                message="Without {operation_id} or {operation_uuid} every operation would share one key.",
            )
        if promised.field is None and not stated:
            yield Complaint(
                path="idempotency.field", message="State where the key travels, such as header:Idempotency-Key."
            )
        if "{revision}" in promised.key and promised.repair_key == "same":
            yield Complaint(path="idempotency.repair_key", message="A key with {revision} in it cannot stay the same.")


def _longest_key(promised: Idempotency, names: tuple[str, ...]) -> int:
    """Characters of the key that the longest operation_id and the last revision would make."""
    longest = {"operation_id": LONGEST_OPERATION_ID, "operation_uuid": 36, "revision": len(str(LAST_REVISION))}
    ends = promised.repair_key == "new" and not {"operation_uuid", "revision"} & set(names)
    ending = f"#r{LAST_REVISION}" if ends else ""
    slots_written = sum(len(f"{{{name}}}") for name in names)
    return len(promised.key) - slots_written + sum(longest.get(name, 0) for name in names) + len(ending)


def _lookups(contract: "Contract") -> Iterator[Complaint]:
    for index, rule in enumerate(contract.lookup):
        yield from _lookup(contract, rule, f"lookup[{index}]")
    if contract.verify is not None:
        yield from _request("verify.http", contract.verify.http)
        if not contract.verify.expect:
            yield Complaint(path="verify.expect", message="State what to compare, such as title: body.title.")
    if contract.dispatch is not None:
        yield from _dispatch(contract, contract.dispatch)
    if contract.notice is not None and contract.notice.operation_id is None and contract.notice.idempotency_key is None:
        yield Complaint(
            path="notice", message="State operation_id or idempotency_key: how a notification names the operation."
        )


def _dispatch(contract: "Contract", dispatch: Dispatch) -> Iterator[Complaint]:
    http = dispatch.http
    yield from _templates("dispatch.http.path", http.path)
    yield from _templates("dispatch.http.headers", http.headers)
    yield from _templates("dispatch.http.body", http.body, whole=_WHOLE)
    for name in http.headers:
        if name.lower() in TRANSPORT_HEADERS:
            yield Complaint(
                path=f"dispatch.http.headers.{name}",
                message="This header says how the message travels; leave it out.",
            )
    if contract.is_read:
        yield Complaint(path="dispatch", message="A read is repeated by whoever needs its answer; leave dispatch out.")
    if contract.idempotency.field == "url" and "{idempotency_key}" not in http.path:
        yield Complaint(
            path="dispatch.http.path", message="The key travels in the address: write {idempotency_key} in the path."
        )
    if (contract.idempotency.field or "").startswith("body:") and not (
        http.body == "{payload}" or isinstance(http.body, dict)
    ):
        yield Complaint(
            path="dispatch.http.body", message="The key travels in the body, so the body has to be an object."
        )


_NEEDS: Final = {
    LookupBy.STATUS: ("http", "found"),
    LookupBy.SEARCH: ("http", "items", "match"),
    LookupBy.LIST: ("http", "items", "match"),
    LookupBy.OPERATION: ("http", "effect"),
    LookupBy.MCP_TOOL: ("mcp",),
    LookupBy.MCP_TASK: ("task",),
    LookupBy.SQL: ("sql", "as"),
    LookupBy.POSTGRES_XACT: ("xact", "as"),
    LookupBy.REPLAY: (),
}
"""The parts without which a lookup of this kind cannot ask, or cannot read what it is told."""
_NAMED: Final = {"as": "credential"}
"""Parts whose word in the document cannot be a name in Python."""


def _lookup(contract: "Contract", rule: LookupRule, at: str) -> Iterator[Complaint]:
    for part in _NEEDS[rule.by]:
        if getattr(rule, _NAMED.get(part, part)) is None:
            yield Complaint(path=f"{at}.{part}", message=f"A lookup by {rule.by} must state {part}.")
    if rule.by is LookupBy.REPLAY and contract.idempotency.guarantee is not Guarantee.KEY:
        yield Complaint(path=f"{at}.by", message="A replay needs an owner that guarantees its keys (guarantee: key).")
    if rule.by is LookupBy.REPLAY and contract.effect is EffectKind.BATCH:
        yield Complaint(
            path=f"{at}.by", message="A batch is looked up item by item, and a replay is of the whole: leave it out."
        )
    if rule.by is LookupBy.REPLAY and contract.dispatch is None:
        yield Complaint(path="dispatch", message="A replay sends the request again: state dispatch.")
    if rule.http is not None:
        paged = rule.by in PAGED
        yield from _request(f"{at}.http", rule.http, paged=paged)
        if paged:
            yield from _cursor(rule, rule.http, at)
    if rule.by in ASKED_BY_HANDLE and rule.no_match is not None:
        yield Complaint(
            path=f"{at}.no_match",
            message="A handle that the owner does not know has expired, or is another's: it proves nothing. "
            "Leave no_match out.",
        )
    if rule.mcp is not None:
        yield from _templates(f"{at}.mcp.arguments", rule.mcp.arguments, whole=_WHOLE)
        yield from _templates(f"{at}.mcp.session", rule.mcp.session)
        if rule.by is LookupBy.MCP_TOOL and rule.mcp.tool is None:
            yield Complaint(path=f"{at}.mcp.tool", message="State the tool that is asked.")
        if rule.mcp.session is not None and rule.mcp.mode != "legacy":
            yield Complaint(
                path=f"{at}.mcp.mode", message="Sessions ended with the handshake: write mode: legacy beside session."
            )
    if rule.by is LookupBy.MCP_TOOL and rule.found is None and (rule.items is None or rule.match is None):
        yield Complaint(
            path=f"{at}.found",
            message="State found, or items and match: without them any answer of the tool would count as the object.",
        )
    if rule.sql is not None:
        yield from _templates(f"{at}.sql.parameters", rule.sql.parameters)
        yield from _statement(f"{at}.sql.statement", rule.sql)
    yield from _templates(f"{at}.task", rule.task)
    yield from _templates(f"{at}.xact", rule.xact)
    if rule.no_match is not None and contract.effect is not EffectKind.READ and rule.lag is None:
        yield Complaint(
            path=f"{at}.no_match",
            message="State lag beside no_match: how long after a dispatch's possible end the owner may still be "
            "working on it. Without it an absence can never count.",
        )
    if rule.by in PAGED and rule.authoritative:
        yield Complaint(
            path=f"{at}.authoritative", message="A search or list is an index: what it does not hold proves nothing."
        )


_PLACEHOLDER: Final = re.compile(r"%(?:%|\(([^()]*)\)s|)")


def _statement(path: str, sql: SqlRequest) -> Iterator[Complaint]:
    for found in _PLACEHOLDER.finditer(sql.statement):
        if found[0] == "%":
            yield Complaint(path=path, message="A percent sign stands as %%, and a value as %(name)s.")
        elif found[1] is not None and found[1] not in sql.parameters:
            yield Complaint(path=path, message=f"%({found[1]})s has no value: state it under parameters.")


def _request(path: str, request: LookupRequest, *, paged: bool = False) -> Iterator[Complaint]:
    if (request.path is None) == (request.at is None):
        yield Complaint(
            path=path, message="State path, or at (the receipt member that holds the address): one of the two."
        )
    if request.body is not None and request.method != "POST":
        yield Complaint(path=f"{path}.body", message=f"A {request.method} carries no body; use POST, or leave it out.")
    cursor = frozenset({"cursor"}) if paged else frozenset()
    yield from _templates(f"{path}.path", request.path, whole=cursor)
    yield from _templates(f"{path}.headers", request.headers)
    yield from _templates(f"{path}.body", request.body, whole=_WHOLE | cursor)
    for name in request.headers:
        if name.lower() in TRANSPORT_HEADERS:
            yield Complaint(
                path=f"{path}.headers.{name}", message="This header says how the message travels; leave it out."
            )


_CURSOR_PARAMETER = re.compile(r"[?&][^?&=]+=\{cursor\}(?=&|$)")


def _cursor(rule: LookupRule, request: LookupRequest, at: str) -> Iterator[Complaint]:
    """Where `{cursor}` stands it must be able to go away: the first page has none."""
    stated = [text for text in strings([request.path, request.body]) if "{cursor}" in text]
    if stated and rule.next is None:
        yield Complaint(path=f"{at}.next", message="State next: where a page shows the cursor of the one after it.")
    if "{cursor}" in _CURSOR_PARAMETER.sub("", request.path or ""):
        yield Complaint(
            path=f"{at}.http.path", message="A cursor stands alone in a query parameter, such as ?after={cursor}."
        )
    if any("{cursor}" in text and text != "{cursor}" for text in strings(request.body)):
        yield Complaint(path=f"{at}.http.body", message="A cursor stands alone in a member, such as after: '{cursor}'.")


_WHOLE: Final = frozenset({"payload", "receipt", "item"})
"""What may also stand as a whole value in a body."""


def _templates(path: str, template: object, *, whole: frozenset[str] = frozenset()) -> Iterator[Complaint]:
    for text in strings(template):
        try:
            names = slots(text)
        except ValueError as error:
            yield Complaint(path=path, message=str(error))
            continue
        for name in names:
            root, _, member = name.partition(".")
            if name not in PATH_NAMES and name not in whole and not (root in PATH_ROOTS and member):
                yield Complaint(
                    path=path,
                    message="Here may stand operation_id, idempotency_key, payload.…, receipt.… and item.…, "
                    f"not {name}.",
                )


def _errors(contract: "Contract") -> Iterator[Complaint]:
    if contract.effect is EffectKind.READ:
        return
    for index, rule in enumerate(contract.errors):
        fitting = _EFFECTS_OF.get(rule.failure_class)
        if fitting is not None and rule.effect not in fitting:
            yield Complaint(
                path=f"errors[{index}].effect",
                message=f"An answer of class {rule.failure_class} has the effect {' or '.join(fitting)}, "
                f"not {rule.effect}; state it, or choose another class.",
            )


_STATED = re.compile(r"\b(speaker|phase)\s*==\s*['\"](\w+)['\"]")
_GATEWAY_STATUSES: Final = frozenset({502, 504, *range(520, 600)})
"""502 and 504 are a gateway's by RFC 9110; those from 520 on are no standard's, and only gateways send them."""
_WITHOUT_AN_ANSWER: Final = frozenset({"send", "await"})


def _claims(contract: "Contract") -> Iterator[Complaint]:
    """Error rules that claim more than whoever speaks in such a case may say."""
    if contract.effect is EffectKind.READ:
        return
    for index, error in enumerate(contract.compiled.errors):
        effect = error.rule.effect
        if effect is Effect.UNKNOWN:
            continue
        stated: dict[str, str] = dict(_STATED.findall(error.when.source))
        speaker = _speaker_of(stated, error.when)
        if speaker is not None and not may_assert(speaker=speaker, effect=effect, proof=Proof.CONTRACT_RULE):
            yield Complaint(
                path=f"errors[{index}].effect",
                message=f"{_SPOKEN[speaker]} answers in this case, and cannot know that the effect is {effect}. "
                "Say unknown, and state a lookup that finds out.",
            )
        elif stated.get("phase") in _WITHOUT_AN_ANSWER and error.when.variables <= {"phase", "speaker"}:
            yield Complaint(
                path=f"errors[{index}].effect",
                message=f"In the phase {stated['phase']} bytes may have left and no answer came, so nobody can know "
                f"that the effect is {effect}. Say unknown, and state a lookup that finds out.",
            )


_SPOKEN: Final = {
    Speaker.GATEWAY: "A gateway",
    Speaker.HARNESS: "The harness alone",
    Speaker.OWNER_INDEX: "An index",
    Speaker.VERIFIER: "A check",
    Speaker.TOOL_TEXT: "A tool's text",
    Speaker.LEDGER: "The ledger itself",
    Speaker.OPERATOR: "A person",
    Speaker.OWNER_ANSWER: "The owner",
    Speaker.OWNER_STATUS: "The owner's status",
    Speaker.OWNER_NOTICE: "The owner's notice",
}


def _speaker_of(stated: dict[str, str], when: Condition) -> Speaker | None:
    """Who must be speaking when this condition holds, as far as it says so itself."""
    if stated.get("speaker") in set(Speaker):
        return Speaker(stated["speaker"])
    if when.statuses is not None and when.statuses <= _GATEWAY_STATUSES:
        return Speaker.GATEWAY
    reached = stated.get("phase")
    return Speaker.HARNESS if reached is not None and reached != "after_response" else None


def _waits(contract: "Contract") -> Iterator[Complaint]:
    for path, wait in (
        ("deadline", contract.deadline),
        ("dispatch_within", contract.dispatch_within),
        ("timeout", contract.timeout),
        ("reconcile_until", contract.reconcile_until),
        ("poll.first", contract.poll.first),
        ("poll.max", contract.poll.max),
    ):
        if wait <= timedelta(0):
            yield Complaint(path=path, message="This must be longer than nothing.")
    for name, first, longest in (
        ("poll", contract.poll.first, contract.poll.max),
        ("retry", contract.retry.first, contract.retry.max),
    ):
        if first > longest:
            yield Complaint(path=f"{name}.first", message="The first wait is longer than the longest.")


def _expressions(contract: "Contract") -> Iterator[Complaint]:
    """A dry run on empty answers: a condition that looks only at what is always there must give true or false."""
    for path, condition in contract.compiled.conditions():
        if not condition.variables <= {"status", "speaker", "effect"}:
            continue
        context = Context.answer(status=200, speaker="owner_answer", effect="unknown")
        if condition.matches(context) is None:
            yield Complaint(path=path, message="This does not give true or false for an answer with status 200.")


def _samples(contract: "Contract") -> Iterator[Complaint]:
    for path, message in sample_problems(contract):
        yield Complaint(path=path, message=message)
