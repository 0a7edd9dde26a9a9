"""What does a tool promise, and what follows from it for one call?

| question | answered by |
| --- | --- |
| may this document be taken? | `parse_contract`, `parse_stated_contract` |
| can this release carry all of it out? | `unsupported` |
| do these arguments fit? | `check_arguments` |
| which key does this attempt carry, and where? | `idempotency_key`, `dispatch_headers` |
| which members make it the same intent? | `identity_members` |
"""

import json
from collections.abc import Mapping
from datetime import timedelta
from functools import cached_property
from typing import Any, Literal

from jsonschema import Draft202012Validator
from pydantic import Field, ValidationError
from pydantic_core import ErrorDetails

from ledger.rules.arguments import ArgumentProblem, first_problem, validator
from ledger.rules.contract_checks import Complaint, complaints, unsupported_parts
from ledger.rules.contract_compiled import Compiled, compile_contract
from ledger.rules.contract_document import ContractInvalid, Document, Problem, join_path, read_document
from ledger.rules.contract_sections import (
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
from ledger.rules.vocabulary import EffectKind, Guarantee

__all__ = [
    "ArgumentProblem",
    "Contract",
    "ContractInvalid",
    "ErrorRule",
    "LookupRule",
    "Problem",
    "check_arguments",
    "dispatch_headers",
    "idempotency_key",
    "identity_members",
    "parse_contract",
    "parse_stated_contract",
    "unsupported",
]


class Contract(Section):
    """A tool's contract: the whole document. Build it with `parse_contract` or `parse_stated_contract`."""

    contract: Name | Literal[""] = ""
    """The tool's name. Empty only in a contract that is stated with a question and never published."""
    title: str = Field(default="", max_length=200)
    effect: EffectKind
    owner: Name | Literal[""] = ""
    identity: Literal["none"] | tuple[Member, ...] | None = Field(default=None, max_length=50)
    """Members that make it the same intent; not stated: all of them; `none`: meant to repeat."""
    arguments: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    idempotency: Idempotency = Idempotency()
    success: Expression | None = None
    receipt: dict[Member, Expression] = Field(default_factory=dict, max_length=20)
    lookup: tuple[LookupRule, ...] = Field(default=(), max_length=10)
    verify: Verify | None = None
    notice: Notice | None = None
    errors: tuple[ErrorRule, ...] = Field(default=(), max_length=200)
    items: Items | None = None
    budgets: Budgets = Budgets()
    deadline: Duration = timedelta(minutes=15)
    reconcile_until: Duration = timedelta(hours=72)
    dispatch_within: Duration = timedelta(seconds=30)
    """How long a permit may be used to start sending."""
    timeout: Duration = timedelta(seconds=30)
    """How long one attempt may take once it is sent."""
    poll: Poll = Poll()
    retry: Retry = Retry()
    approval: Approval | None = None
    resolution: Resolution = Resolution()
    escalation: Escalation = Escalation()
    redact: tuple[Member, ...] = Field(default=(), max_length=100)
    dispatch: Dispatch | None = None
    samples: tuple[Sample, ...] = Field(default=(), max_length=100)
    source: Source | None = None

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


def parse_contract(source: str | Mapping[str, Any]) -> Contract:
    """Reads a contract document: YAML or JSON text, or a mapping of plain JSON values.

    Raises:
        ContractInvalid: with every problem found, each with its path and (for text) its line: unknown keys, wrong
            types, expressions that may not stand, promises that contradict each other, samples that come out
            differently.
    """
    return _parse(read_document(source), stated=False)


def parse_stated_contract(source: Mapping[str, Any]) -> Contract:
    """Reads a contract that comes with a question (`/classify`): as `parse_contract`, but the tool's name and what
    only a dispatch needs may be left out. It is never published.

    Raises:
        ContractInvalid: as `parse_contract`.
    """
    return _parse(read_document(source), stated=True)


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

    A later revision is another request, so its key ends in `#r2`, unless the contract says that a repair keeps it.
    """
    promised = contract.idempotency
    if promised.guarantee is not Guarantee.KEY and promised.field is None:
        return None
    key = promised.key.replace("{operation_id}", operation_id).replace("{revision}", str(revision))
    if revision > 1 and promised.repair_key == "new" and "{revision}" not in promised.key:
        return f"{key}#r{revision}"
    return key


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


def _parse(document: Document, *, stated: bool) -> Contract:
    try:
        text = json.dumps(document.value, allow_nan=False)
        contract = Contract.model_validate_json(text)
    except ValidationError as error:
        raise _invalid(document, _from_pydantic(document, error.errors(include_url=False))) from None
    except (ValueError, RecursionError):
        raise _invalid(document, [Complaint(path="", message="The document holds text that is not Unicode.")]) from None
    found = [Complaint(path=path, message=message) for path, message in contract.compiled.problems]
    found += complaints(contract, stated=stated)
    if found:
        raise _invalid(document, found)
    return contract


def _invalid(document: Document, found: list[Complaint]) -> ContractInvalid:
    return ContractInvalid(
        tuple(
            Problem(path=complaint.path, line=document.line_of(complaint.path), message=complaint.message)
            for complaint in found
        )
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
