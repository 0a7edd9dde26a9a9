"""What does a tool promise, and what follows from it for one call?

| question | answered by |
| --- | --- |
| may this document be taken? | `parse_contract`, `parse_stated_contract` |
| may it be published, and what could be better in it? | `check_contract` |
| can this release carry all of it out? | `unsupported` |
| do these arguments fit? | `check_arguments` |
| which key does this attempt carry, and where? | `idempotency_key`, `dispatch_headers` |
| which members make it the same intent? | `identity_members` |
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any, Final, Literal
from uuid import UUID, uuid5

from jsonschema import Draft202012Validator
from pydantic import Field, ValidationError
from pydantic_core import ErrorDetails

from ledger.rules.arguments import ArgumentProblem, first_problem, validator
from ledger.rules.contract_checks import Complaint, complaints, unsupported_parts, unused_parts
from ledger.rules.contract_compiled import Compiled, compile_contract
from ledger.rules.contract_document import ContractInvalid, Document, Problem, join_path, read_document
from ledger.rules.contract_samples import never_computed
from ledger.rules.contract_sections import (
    PRESET_TAKEN,
    Approval,
    Budgets,
    Dispatch,
    ErrorRule,
    Escalation,
    Expression,
    Idempotency,
    Items,
    LookupRule,
    Member,
    Name,
    Notice,
    Poll,
    Resolution,
    Retry,
    Sample,
    Section,
    Source,
    Verify,
)
from ledger.rules.durations import Duration
from ledger.rules.presets import Taken, take_in
from ledger.rules.templates import render_text
from ledger.rules.vocabulary import EffectKind, Guarantee

__all__ = [
    "ArgumentProblem",
    "Checked",
    "Contract",
    "ContractInvalid",
    "ErrorRule",
    "LookupRule",
    "Problem",
    "check_arguments",
    "check_contract",
    "dispatch_headers",
    "idempotency_key",
    "identity_members",
    "parse_contract",
    "parse_stated_contract",
    "unsupported",
]


_KEYS: Final = UUID("6f1ed2a8-3c55-5d0e-9b0a-5a1c1c5b7d11")
"""The name space of our keys. It never changes: a key must be the same after every restart and upgrade."""


class Contract(Section):
    """A tool's contract: the whole document. Build it with `parse_contract` or `parse_stated_contract`."""

    preset: str | None = Field(default=None, pattern=PRESET_TAKEN)
    """Where a part of this document came from: `stripe-v1@2026-11-30`. A text that says `preset: stripe-v1` takes it in
    while it is read."""
    contract: Name | Literal[""] = ""
    """The tool's name. Empty only in a contract that is stated with a question and never published."""
    title: str = Field(default="", max_length=200)
    """What the tool does, in a few words."""
    effect: EffectKind
    """What the tool does to the world: read, write or batch."""
    owner: Name | Literal[""] = ""
    """The system that holds the truth about the effect."""
    identity: Literal["none"] | tuple[Member, ...] | None = Field(default=None, max_length=50)
    """Members that make it the same intent; not stated: all of them; `none`: meant to repeat."""
    arguments: dict[str, Any] | None = None
    """JSON Schema of the payload; checked before anything is recorded."""
    result: dict[str, Any] | None = None
    """JSON Schema of the result; a malformed one is kept and makes verification unavailable."""
    idempotency: Idempotency = Idempotency()
    """What the owner promises about repeats. Not stated: nothing."""
    success: Expression | None = None
    """CEL over the answer: what it must look like to count as applied."""
    receipt: dict[Member, Expression] = Field(default_factory=dict, max_length=20)
    """What to keep of an answer (CEL), for lookups and checks: ids, addresses. `request.…` keeps what the harness says
    of what it sent, such as a transaction's id; that is taken from exceptions too."""
    lookup: tuple[LookupRule, ...] = Field(default=(), max_length=10)
    """How to learn the truth; tried in order."""
    verify: Verify | None = None
    """How the outcome is checked once the effect is applied."""
    notice: Notice | None = None
    """How the owner's signed notifications are read."""
    errors: tuple[ErrorRule, ...] = Field(default=(), max_length=200)
    """What answers mean, before the defaults; the first that matches wins."""
    items: Items | None = None
    """Where a batch keeps its items."""
    budgets: Budgets = Budgets()
    """How often each kind of step may be taken."""
    deadline: Duration = timedelta(minutes=15)
    """How long it may be dispatched."""
    reconcile_until: Duration = timedelta(hours=72)
    """How long the owner is asked."""
    dispatch_within: Duration = timedelta(seconds=30)
    """How long a permit may be used to start sending."""
    timeout: Duration = timedelta(seconds=30)
    """How long one attempt may take once it is sent."""
    poll: Poll = Poll()
    """The waits between lookups."""
    retry: Retry = Retry()
    """The waits before licensed repeats."""
    approval: Approval | None = None
    """When a person must permit the request first."""
    resolution: Resolution = Resolution()
    """Which answers of a person need a second one."""
    escalation: Escalation = Escalation()
    """How people hear of what only they can settle."""
    redact: tuple[Member, ...] = Field(default=(), max_length=100)
    """Payload members that are not shown."""
    dispatch: Dispatch | None = None
    """Lets Ascertain itself send licensed repeats."""
    samples: tuple[Sample, ...] = Field(default=(), max_length=100)
    """Answers and what they mean, tried against the rules when the contract is published."""
    source: Source | None = None
    """Where the owner documents this."""

    @cached_property
    def compiled(self) -> Compiled:
        """Every condition, compiled once a contract."""
        return compile_contract(self)

    @cached_property
    def _arguments_validator(self) -> Draft202012Validator | None:
        return None if self.arguments is None else validator(self.arguments)

    @property
    def is_read(self) -> bool:
        """Whether the tool has no effect to lose."""
        return self.effect is EffectKind.READ


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A contract that can be published, and what could be better in it."""

    contract: Contract
    notes: tuple[Problem, ...]


def parse_contract(source: str | Mapping[str, Any]) -> Contract:
    """Reads a contract document: YAML or JSON text, or a mapping of plain JSON values. A preset that it names is taken
    in.

    Raises:
        ContractInvalid: with every problem found, each with its path and (for text) its line: unknown keys, wrong
            types, expressions that may not stand, promises that contradict each other, samples that come out
            differently.
    """
    return _parse(take_in(read_document(source), stated=False), stated=False)


def check_contract(source: str | Mapping[str, Any]) -> Checked:
    """Reads a contract document as publishing would, and says what could be better.

    Raises:
        ContractInvalid: as `parse_contract`, and for parts that this release cannot carry out.
    """
    taken = take_in(read_document(source), stated=False)
    contract = _parse(taken, stated=False, published=True)
    advised = {note.path for note in taken.advice}
    notes = (
        taken.document.problem(path, message)
        for path, message in (*unused_parts(contract), *never_computed(contract))
        if path not in advised
    )
    return Checked(contract=contract, notes=(*taken.advice, *notes))


def parse_stated_contract(source: Mapping[str, Any]) -> Contract:
    """Reads a contract that comes with a question (`/classify`): as `parse_contract`, but the tool's name and what
    only a dispatch needs may be left out. It is never published.

    Raises:
        ContractInvalid: as `parse_contract`.
    """
    return _parse(take_in(read_document(source), stated=True), stated=True)


def unsupported(contract: Contract) -> tuple[Problem, ...]:
    """Parts of the document that this release cannot carry out. Publishing refuses them: a promise that nobody keeps
    is worse than none."""
    return tuple(
        Problem(path=complaint.path, line=None, message=complaint.message) for complaint in unsupported_parts(contract)
    )


def check_arguments(contract: Contract, payload: Any) -> ArgumentProblem | None:
    """The first thing that is wrong with a payload, by the contract's JSON Schema; None when it fits."""
    against = contract._arguments_validator
    return None if against is None else first_problem(against, payload)


def idempotency_key(contract: Contract, *, operation_id: str, revision: int) -> str | None:
    """The key that an attempt of this revision carries; None when the contract names no place for one.

    A key is a correlation even where the owner guarantees nothing about it: a lookup can find it again.

    A later revision is another request, so its key ends in `#r2` (with `{operation_uuid}` it is another UUID), unless
    the contract says that a repair keeps it.
    """
    promised = contract.idempotency
    if promised.guarantee is not Guarantee.KEY and promised.field is None:
        return None
    if revision == 1 and promised.key == "{operation_id}":
        return operation_id
    kept = promised.repair_key == "same" or revision == 1
    named = operation_id if kept else f"{operation_id}#r{revision}"
    values = {"operation_id": operation_id, "operation_uuid": str(uuid5(_KEYS, named)), "revision": revision}
    key = render_text(promised.key, values=values)
    differs = kept or "{revision}" in promised.key or "{operation_uuid}" in promised.key
    return key if differs else f"{key}#r{revision}"


def dispatch_headers(contract: Contract, key: str | None) -> dict[str, str]:
    """The headers that carry the key; empty when it travels elsewhere (the harness places it) or there is none."""
    where = contract.idempotency.field
    if key is None or where is None or not where.startswith("header:"):
        return {}
    return {where.removeprefix("header:"): key}


def identity_members(contract: Contract, payload: Any) -> Any:
    """The value whose digest says that two operations are the same intent; None when the tool is meant to repeat.

    Reads are always meant to repeat. Members that are not in the payload are left out.
    """
    if contract.is_read or contract.identity == "none":
        return None
    if contract.identity is None:
        return {"payload": payload}
    found = {}
    for member in contract.identity:
        value: Any = payload
        for step in member.split("."):
            if not isinstance(value, Mapping) or step not in value:
                break
            value = value[step]
        else:
            found[member] = value
    return {"members": found}


def _parse(taken: Taken, *, stated: bool, published: bool = False) -> Contract:
    document = taken.document
    try:
        text = json.dumps(document.value, allow_nan=False)
        contract = Contract.model_validate_json(text)
    except ValidationError as error:
        raise _invalid(taken, _from_pydantic(document, error.errors(include_url=False))) from None
    except (ValueError, RecursionError):
        raise _invalid(taken, [Complaint(path="", message="The document holds text that is not Unicode.")]) from None
    found = [Complaint(path=path, message=message) for path, message in contract.compiled.problems]
    found += complaints(contract, stated=stated)
    if published:
        found += unsupported_parts(contract)
    if found or taken.problems:
        raise _invalid(taken, found)
    return contract


def _invalid(taken: Taken, found: list[Complaint]) -> ContractInvalid:
    told = {problem.path for problem in taken.problems}
    rest = (complaint for complaint in found if complaint.path not in told)
    return ContractInvalid(
        (*taken.problems, *(taken.document.problem(complaint.path, complaint.message) for complaint in rest))
    )


def _from_pydantic(document: Document, errors: list[ErrorDetails]) -> list[Complaint]:
    found: dict[str, str] = {}
    for error in errors:
        path = ""
        value: Any = document.value
        for step in error["loc"]:
            if isinstance(step, int):
                known = isinstance(value, list) and step < len(value)
            else:
                known = isinstance(value, dict) and (step in value or error["type"] == "missing")
            # Pydantic adds steps of its own for unions; they are no part of the document.
            if known:
                path = join_path(path, step)
                value = value[step] if isinstance(step, int) else value.get(step)
        found.setdefault(path, _sentence(error))
    return [Complaint(path=path, message=message) for path, message in found.items()]


def _sentence(error: ErrorDetails) -> str:
    if error["type"] == "extra_forbidden":
        return f"{error['loc'][-1]} is not a part of a contract here."
    if error["type"] == "missing":
        return f"{error['loc'][-1]} must be stated."
    message = error["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return message[:1].upper() + message[1:] + "."
