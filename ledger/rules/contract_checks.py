"""Which promises of a contract contradict each other, and which can this release not keep?

| a contract says | and must also say, or may not say | because |
| --- | --- | --- |
| `no_match` (a write) | `lag`, and `authoritative` if it is to count | absence needs a moment after which it counts |
| `guarantee: key` | `field`, and `{operation_id}` in the key | a key that all operations share protects none |
| an error of class `transient` (a write) | `effect: none` | only a proved absence makes a retry safe |
| an error of class `unknown_outcome` | `effect: unknown` | that is what the class means |
| an error of class `success` | `effect: applied` or `pending` | likewise |
| an error that says more than whoever answers then may know | nothing of the kind | law 3 |
| `samples` | what its own rules say of them | a rule that misreads its own example is wrong |
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from ledger.rules.arguments import schema_problem
from ledger.rules.contract_sections import LookupBy, LookupRequest, LookupRule, Sample
from ledger.rules.evidence import may_assert
from ledger.rules.expressions import MISSING, Condition, Context
from ledger.rules.templates import KEY_NAMES, PATH_NAMES, PATH_ROOTS, slots, strings
from ledger.rules.vocabulary import Effect, EffectKind, FailureClass, Guarantee, Proof, Speaker

if TYPE_CHECKING:
    from ledger.rules.contract import Contract

SUPPORTED_LOOKUPS: Final = frozenset({LookupBy.STATUS})
"""The ways to ask an owner that this release can carry out."""

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
    if contract.effect is EffectKind.BATCH:
        yield Complaint(path="effect", message="Batches cannot be carried out yet; publish a contract for one item.")
    if contract.items is not None:
        yield Complaint(path="items", message="Items of a batch cannot be followed yet; leave this part out.")
    for index, rule in enumerate(contract.lookup):
        if rule.by not in SUPPORTED_LOOKUPS:
            yield Complaint(
                path=f"lookup[{index}].by",
                message=f"A lookup by {rule.by} cannot be carried out yet; use a lookup by status, or leave it out.",
            )
    if contract.verify is not None:
        yield Complaint(path="verify", message="The outcome cannot be verified yet; leave this part out.")
    if contract.approval is not None:
        yield Complaint(
            path="approval",
            message="Approvals cannot be asked for yet. Leaving this part out lets every request through unasked: "
            "keep the tool away from agents until then if that is not acceptable.",
        )
    if contract.dispatch is not None:
        yield Complaint(path="dispatch", message="Ascertain cannot send repeats itself yet; leave this part out.")


def _named(contract: "Contract") -> Iterator[Complaint]:
    if not contract.contract:
        yield Complaint(path="contract", message="The tool's name must be stated.")
    if not contract.owner:
        yield Complaint(path="owner", message="The owner that holds the truth must be stated.")


def _schemas(contract: "Contract") -> Iterator[Complaint]:
    for path, schema in (("arguments", contract.arguments), ("result", contract.result)):
        if schema is not None and (problem := schema_problem(schema)) is not None:
            yield Complaint(path=path, message=problem)


def _idempotency(contract: "Contract", *, stated: bool) -> Iterator[Complaint]:
    promised = contract.idempotency
    try:
        names = slots(promised.key)
    except ValueError as error:
        yield Complaint(path="idempotency.key", message=str(error))
        return
    for name in names:
        if name not in KEY_NAMES:
            yield Complaint(path="idempotency.key", message=f"A key is made of operation_id and revision, not {name}.")
    if promised.guarantee is Guarantee.KEY:
        if "operation_id" not in names:
            yield Complaint(
                path="idempotency.key", message="Without {operation_id} every operation would share one key."
            )
        if promised.field is None and not stated:
            yield Complaint(
                path="idempotency.field", message="State where the key travels, such as header:Idempotency-Key."
            )
        if "{revision}" in promised.key and promised.repair_key == "same":
            yield Complaint(path="idempotency.repair_key", message="A key with {revision} in it cannot stay the same.")


def _lookups(contract: "Contract") -> Iterator[Complaint]:
    for index, rule in enumerate(contract.lookup):
        yield from _lookup(contract, rule, f"lookup[{index}]")
    if contract.verify is not None:
        yield from _request("verify.http", contract.verify.http)
    if contract.dispatch is not None:
        yield from _templates("dispatch.http.path", contract.dispatch.http.path)
        yield from _templates("dispatch.http.headers", contract.dispatch.http.headers)
        yield from _templates("dispatch.http.body", contract.dispatch.http.body, whole=_WHOLE)
    if contract.notice is not None and contract.notice.operation_id is None and contract.notice.idempotency_key is None:
        yield Complaint(
            path="notice", message="State operation_id or idempotency_key: how a notification names the operation."
        )


_NEEDS: Final = {
    LookupBy.STATUS: ("http", "found"),
    LookupBy.SEARCH: ("http", "items", "match"),
    LookupBy.LIST: ("http", "items", "match"),
    LookupBy.OPERATION: ("http", "effect"),
    LookupBy.MCP_TOOL: ("mcp", "found"),
    LookupBy.MCP_TASK: ("task",),
    LookupBy.SQL: ("sql",),
    LookupBy.POSTGRES_XACT: ("xact",),
    LookupBy.REPLAY: (),
}
"""The parts without which a lookup of this kind cannot ask, or cannot read what it is told."""


def _lookup(contract: "Contract", rule: LookupRule, at: str) -> Iterator[Complaint]:
    for part in _NEEDS[rule.by]:
        if getattr(rule, part) is None:
            yield Complaint(path=f"{at}.{part}", message=f"A lookup by {rule.by} must state {part}.")
    if rule.by is LookupBy.REPLAY and contract.idempotency.guarantee is not Guarantee.KEY:
        yield Complaint(path=f"{at}.by", message="A replay needs an owner that guarantees its keys (guarantee: key).")
    if rule.by is LookupBy.REPLAY and contract.dispatch is None:
        yield Complaint(path="dispatch", message="A replay sends the request again: state dispatch.")
    if rule.http is not None:
        yield from _request(f"{at}.http", rule.http)
    if rule.mcp is not None:
        yield from _templates(f"{at}.mcp.arguments", rule.mcp.arguments, whole=_WHOLE)
    if rule.sql is not None:
        yield from _templates(f"{at}.sql.parameters", rule.sql.parameters)
    yield from _templates(f"{at}.task", rule.task)
    yield from _templates(f"{at}.xact", rule.xact)
    if rule.no_match is not None and contract.effect is not EffectKind.READ and rule.lag is None:
        yield Complaint(
            path=f"{at}.no_match",
            message="State lag beside no_match: how long after a dispatch's possible end the owner may still be "
            "working on it. Without it an absence can never count.",
        )
    if rule.by in (LookupBy.SEARCH, LookupBy.LIST) and rule.authoritative:
        yield Complaint(
            path=f"{at}.authoritative", message="A search or list is an index: what it does not hold proves nothing."
        )


def _request(path: str, request: LookupRequest) -> Iterator[Complaint]:
    if (request.path is None) == (request.at is None):
        yield Complaint(
            path=path, message="State path, or at (the receipt member that holds the address): one of the two."
        )
    if request.body is not None and request.method != "POST":
        yield Complaint(path=f"{path}.body", message=f"A {request.method} carries no body; use POST, or leave it out.")
    yield from _templates(f"{path}.path", request.path)
    yield from _templates(f"{path}.headers", request.headers)
    yield from _templates(f"{path}.body", request.body, whole=_WHOLE)


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
    for index, sample in enumerate(contract.samples):
        context = _context(sample)
        said = _said(contract, context)
        if said and sample.effect not in said.values():
            rules = ", ".join(f"{path} says {effect}" for path, effect in said.items())
            yield Complaint(path=f"samples[{index}].effect", message=f"The sample says {sample.effect}, but {rules}.")
        for path, condition in contract.compiled.conditions():
            if _not_boolean(condition, context):
                yield Complaint(path=path, message=f"For samples[{index}] this does not give true or false.")


def _said(contract: "Contract", context: Context) -> dict[str, Effect]:
    """What each rule that matches says of the effect, by the rule's path."""
    compiled = contract.compiled
    said: dict[str, Effect] = {}
    if compiled.success is not None and compiled.success.matches(context):
        said["success"] = Effect.APPLIED
    for index, error in enumerate(compiled.errors):
        if error.when.matches(context):
            said[f"errors[{index}]"] = error.rule.effect
            break
    for index, lookup in enumerate(compiled.lookups):
        if lookup.found is not None and lookup.found.matches(context):
            effect = lookup.effect_of(context)
            if effect is not None:
                said[f"lookup[{index}]"] = effect
    return said


def _not_boolean(condition: Condition, context: Context) -> bool:
    value = condition.evaluate(context)
    return value is not MISSING and not isinstance(value, bool)


def _context(sample: Sample) -> Context:
    answer = sample.answer
    stated = answer.model_fields_set
    return Context.answer(
        status=answer.status,
        headers=answer.headers,
        body=answer.body if "body" in stated else MISSING,
        error=answer.error,
        code=answer.code,
        speaker=answer.speaker,
        phase=answer.phase,
    )
