"""Do a contract's rules read its own sample answers the way that the contract says?

| `to`                    | tried against                                        | must come out as            |
| ----------------------- | ---------------------------------------------------- | --------------------------- |
| not stated              | every rule that reads it                             | one of them says `effect`   |
| `request`               | `errors`, then `in_flight`, then `success`           | `effect`                    |
| `lookup`, `lookup[1]`   | `found`, `no_match`, `match`, `effect` and `same`    | `effect`, or `outcome`      |
| `verify`                | `expect`, beside the sample's `payload`              | `verification`              |
| `notice`                | its `effect`, and where it names the operation       | `effect`                    |

A condition that is neither true nor false for a sample that it should read is wrong. One that no sample can compute
is named too: most often a member is misspelt there.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ledger.rules.contract_compiled import CompiledLookup
from ledger.rules.contract_sections import Sample, SampleTo
from ledger.rules.expressions import MISSING, Condition, Context, Value
from ledger.rules.vocabulary import Effect, LookupOutcome, Verification

if TYPE_CHECKING:
    from ledger.rules.contract import Contract


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tried:
    """One expression, where it stands, and what it reads."""

    path: str
    part: str
    """`request`, `lookup[0]`, `verify` or `notice`."""
    expression: Condition | Value
    listed_in: Value | None = None
    """It looks at each item of this list, and not at the answer that holds it."""

    def contexts(self, sample: Sample) -> list[Context]:
        """What it would see of a sample: the answer, or each item in it."""
        page = sample_context(sample)
        if self.listed_in is None:
            return [page]
        items = self.listed_in.read(page)
        return [_item_context(sample, item) for item in items] if isinstance(items, list | tuple) else []

    def value(self, context: Context) -> Any:
        if isinstance(self.expression, Condition):
            return self.expression.evaluate(context)
        return self.expression.read(context)


def sample_problems(contract: "Contract") -> Iterator[tuple[str, str]]:
    """(path, sentence) of each sample that comes out differently, and of each condition that a sample breaks."""
    tried = tuple(_expressions(contract))
    for index, sample in enumerate(contract.samples):
        at = f"samples[{index}]"
        said = tuple(_stated(sample, at)) or tuple(_told(contract, sample, at))
        yield from said
        for one in tried:
            if not isinstance(one.expression, Condition) or not _reads(one.part, sample):
                continue
            if any(_not_boolean(one, context) for context in one.contexts(sample)):
                yield one.path, f"For {at} this does not give true or false."


def never_computed(contract: "Contract") -> Iterator[tuple[str, str]]:
    """(path, sentence) of each expression that reads some of the samples and can be computed for none of them."""
    for one in _expressions(contract):
        reading = (sample for sample in contract.samples if _reads(one.part, sample))
        contexts = [context for sample in reading for context in one.contexts(sample)]
        if contexts and all(one.value(context) is MISSING for context in contexts):
            yield (
                one.path,
                "None of the samples has what this looks at. Correct it, or add a sample for which it holds.",
            )


def sample_context(sample: Sample) -> Context:
    """What conditions see of a sample's answer."""
    answer = sample.answer
    return _context(sample, answer.body if "body" in answer.model_fields_set else MISSING)


def _item_context(sample: Sample, item: Any) -> Context:
    """What conditions see of one item of a list: the item is the body."""
    return _context(sample, item)


def _context(sample: Sample, body: Any) -> Context:
    answer = sample.answer
    return Context.answer(
        status=answer.status,
        headers=answer.headers,
        body=body,
        error=answer.error,
        code=answer.code,
        speaker=answer.speaker,
        phase=answer.phase,
    )


def _stated(sample: Sample, at: str) -> Iterator[tuple[str, str]]:
    """What a sample must say for its kind."""
    if sample.to is SampleTo.VERIFY:
        if sample.verification not in (Verification.VERIFIED, Verification.FAILED):
            yield f"{at}.verification", "An answer to verify is verified or failed: state which."
        if sample.payload is None:
            yield f"{at}.payload", "State the payload that the answer is compared with."
    elif sample.effect is None and sample.outcome is None:
        yield f"{at}.effect", "State the effect that this answer shows."
    elif sample.outcome is not None and not sample.to_lookup:
        yield f"{at}.outcome", "Only an answer to a lookup has an outcome; state to: lookup, or the effect."


def _told(contract: "Contract", sample: Sample, at: str) -> Iterator[tuple[str, str]]:
    context = sample_context(sample)
    if sample.to_lookup:
        yield from _to_lookup(contract, sample, at, context)
    elif sample.to is SampleTo.VERIFY:
        yield from _to_verify(contract, sample, at, context)
    elif sample.to is SampleTo.NOTICE:
        yield from _to_notice(contract, sample, at, context)
    else:
        said = _of_the_request(contract, context)
        if sample.to is None:
            said |= _of_lookups(contract, context)
        else:
            said = dict(list(said.items())[:1])
        if said and sample.effect not in said.values():
            rules = ", ".join(f"{path} says {effect}" for path, effect in said.items())
            yield f"{at}.effect", f"The sample says {sample.effect}, but {rules}."


def _of_the_request(contract: "Contract", context: Context) -> dict[str, Effect]:
    """What each rule that matches says of the effect, in the order in which they are asked."""
    compiled = contract.compiled
    said: dict[str, Effect] = {}
    for index, error in enumerate(compiled.errors):
        if error.when.matches(context):
            said[f"errors[{index}]"] = error.rule.effect
            break
    if compiled.in_flight is not None and compiled.in_flight.matches(context):
        said["idempotency.in_flight"] = Effect.PENDING
    if compiled.success is not None and compiled.success.matches(context):
        said["success"] = Effect.APPLIED
    return said


def _of_lookups(contract: "Contract", context: Context) -> dict[str, Effect]:
    found = {}
    for index, lookup in enumerate(contract.compiled.lookups):
        if lookup.found is not None and lookup.found.matches(context):
            effect = lookup.effect_of(context)
            if effect is not None:
                found[f"lookup[{index}]"] = effect
    return found


def _to_lookup(contract: "Contract", sample: Sample, at: str, context: Context) -> Iterator[tuple[str, str]]:
    lookups = dict(enumerate(contract.compiled.lookups))
    if sample.lookup_index is not None:
        lookups = {index: lookup for index, lookup in lookups.items() if index == sample.lookup_index}
    if not lookups:
        yield f"{at}.to", "The contract has no such lookup."
        return
    said = {f"lookup[{index}]": _looked_up(lookup, sample, context) for index, lookup in lookups.items()}
    if not any(_as_stated(sample, outcome, effect) for outcome, effect in said.values()):
        rules = ", ".join(f"{path} says {effect or outcome}" for path, (outcome, effect) in said.items())
        stated = sample.outcome if sample.effect is None else sample.effect
        yield f"{at}.{'outcome' if sample.effect is None else 'effect'}", f"The sample says {stated}, but {rules}."


def _as_stated(sample: Sample, outcome: LookupOutcome, effect: Effect | None) -> bool:
    if sample.outcome is not None and outcome is not sample.outcome:
        return False
    if sample.effect is None:
        return True
    return effect is sample.effect or (sample.effect is Effect.UNKNOWN and effect is None)


def _looked_up(lookup: CompiledLookup, sample: Sample, context: Context) -> tuple[LookupOutcome, Effect | None]:
    """What a lookup makes of an answer, before it is graded."""
    unclear = (LookupOutcome.INCONCLUSIVE, None)
    if lookup.items is None:
        return _object(lookup, sample, context)
    listed = _listed(lookup, sample, context)
    if listed is None:
        return unclear
    if not listed:
        cut = lookup.truncated is not None and lookup.truncated.matches(context) is not False
        more = lookup.next is not None and bool(lookup.next.read(context))
        return unclear if cut or more else (LookupOutcome.NO_MATCH, None)
    if len(listed) > 1:
        return LookupOutcome.FOUND, None
    return _object(lookup, sample, _item_context(sample, listed[0]))


def _object(lookup: CompiledLookup, sample: Sample, context: Context) -> tuple[LookupOutcome, Effect | None]:
    if lookup.found is None or lookup.found.matches(context):
        effect = lookup.effect_of(context)
        compared = sample.payload is None or not _differing(lookup.same, sample.payload, context)
        return (LookupOutcome.FOUND, effect) if effect is not None and compared else (LookupOutcome.INCONCLUSIVE, None)
    if lookup.no_match is not None and lookup.no_match.matches(context):
        return LookupOutcome.NO_MATCH, None
    return LookupOutcome.INCONCLUSIVE, None


def _listed(lookup: CompiledLookup, sample: Sample, context: Context) -> list[Any] | None:
    """The items that match; None when the answer holds no list."""
    items = lookup.items.read(context) if lookup.items is not None else MISSING
    if not isinstance(items, list | tuple) or lookup.match is None:
        return None
    key = sample.operation_id if sample.idempotency_key is None else sample.idempotency_key
    return [
        item
        for item in items
        if lookup.match.matches(
            Context.match(item=item, operation_id=sample.operation_id, payload=sample.payload, idempotency_key=key)
        )
    ]


def _differing(fields: Mapping[str, Value], payload: Any, context: Context) -> tuple[str, ...]:
    """Payload members that the owner shows differently, or not at all."""
    return tuple(name for name, value in fields.items() if _differs(value.read(context), _member(payload, name)))


def _differs(seen: Any, meant: Any) -> bool:
    return seen is MISSING or meant is MISSING or bool(seen != meant)


def _member(payload: Any, path: str) -> Any:
    for step in path.split("."):
        if not isinstance(payload, Mapping) or step not in payload:
            return MISSING
        payload = payload[step]
    return payload


def _to_verify(contract: "Contract", sample: Sample, at: str, context: Context) -> Iterator[tuple[str, str]]:
    if contract.verify is None:
        yield f"{at}.to", "The contract does not say how to verify."
        return
    differing = _differing(contract.compiled.expect, sample.payload, context)
    said = Verification.FAILED if differing else Verification.VERIFIED
    if said is not sample.verification:
        why = f" ({', '.join(differing)} differs)" if differing else ""
        yield f"{at}.verification", f"The sample says {sample.verification}, but verify.expect says {said}{why}."


def _to_notice(contract: "Contract", sample: Sample, at: str, context: Context) -> Iterator[tuple[str, str]]:
    notice = contract.compiled.notice
    if notice is None:
        yield f"{at}.to", "The contract does not say how a notification is read."
        return
    named = [value for value in (notice.operation_id, notice.idempotency_key) if value is not None]
    if not any(isinstance(value.read(context), str) for value in named):
        yield f"{at}.answer", "Nothing in this notification names the operation, by the contract's own words."
    said = notice.effect_of(context)
    if said is not sample.effect and not (said is None and sample.effect is Effect.UNKNOWN):
        yield f"{at}.effect", f"The sample says {sample.effect}, but notice says {said or 'nothing'}."


def _reads(part: str, sample: Sample) -> bool:
    """Whether a part of the contract would read this answer."""
    if sample.to is None:
        return part == "request" or part.startswith("lookup")
    if sample.to_lookup:
        return part.startswith("lookup") if sample.lookup_index is None else part == f"lookup[{sample.lookup_index}]"
    return part == str(sample.to)


def _not_boolean(one: _Tried, context: Context) -> bool:
    value = one.value(context)
    return value is not MISSING and not isinstance(value, bool)


def _expressions(contract: "Contract") -> Iterator[_Tried]:
    """Every expression that reads an answer."""
    compiled = contract.compiled
    for path, expression in (
        ("success", compiled.success),
        ("idempotency.in_flight", compiled.in_flight),
        ("idempotency.replay_marker", compiled.replay_marker),
        *((f"errors[{index}].when", error.when) for index, error in enumerate(compiled.errors)),
        *((f"receipt.{name}", value) for name, value in compiled.receipt.items()),
    ):
        # A sample is an answer: what the harness sent stands in none.
        if expression is not None and "request" not in expression.variables:
            yield _Tried(path=path, part="request", expression=expression)
    for index, lookup in enumerate(compiled.lookups):
        yield from _lookup_expressions(f"lookup[{index}]", lookup)
    for name, value in compiled.expect.items():
        yield _Tried(path=f"verify.expect.{name}", part="verify", expression=value)
    if compiled.notice is not None:
        notice = compiled.notice
        for effect, condition in notice.effects:
            yield _Tried(path=f"notice.effect.{effect}", part="notice", expression=condition)
        for name, read in (
            ("operation_id", notice.operation_id),
            ("idempotency_key", notice.idempotency_key),
            ("event_at", notice.event_at),
            ("revision", notice.revision),
            *((f"same.{name}", value) for name, value in notice.same.items()),
        ):
            if read is not None:
                yield _Tried(path=f"notice.{name}", part="notice", expression=read)


def _lookup_expressions(at: str, lookup: CompiledLookup) -> Iterator[_Tried]:
    for name, expression in (
        ("no_match", lookup.no_match),
        ("truncated", lookup.truncated),
        ("items", lookup.items),
        ("next", lookup.next),
        ("revision", lookup.revision),
    ):
        if expression is not None:
            yield _Tried(path=f"{at}.{name}", part=at, expression=expression)
    for name, of_object in (
        ("found", lookup.found),
        ("event_at", lookup.event_at),
        *((f"effect.{effect}", condition) for effect, condition in lookup.effects),
        *((f"same.{name}", value) for name, value in lookup.same.items()),
    ):
        if of_object is not None:
            yield _Tried(path=f"{at}.{name}", part=at, expression=of_object, listed_in=lookup.items)
