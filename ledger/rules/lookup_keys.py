"""By what does a lookup ask, and for which attempts does its answer speak?

| the rule asks by                                              | exact | speaks for                                    |
| ------------------------------------------------------------- | ----- | --------------------------------------------- |
| `idempotency_key`                                             | yes   | the attempts that carried this key            |
| `operation_id`                                                | yes   | every attempt                                 |
| something the owner handed out (`receipt.…`, `at`, task, xact) | yes   | the one attempt that it was handed out for    |
| members of the payload, where the contract's guarantee is `natural` | yes | every attempt: they name what is made       |
| an item's own key, for one item of a batch                    | yes   | the item                                      |
| anything else, for one item of a batch                        | no    | it may speak of the batch, or of another item |
| other members of the payload, or nothing of this operation    | no    | nobody: what is found may be another's        |
"""

import re
from typing import TYPE_CHECKING, Any, Final

from ledger.rules.contract_sections import LookupBy, LookupRule
from ledger.rules.templates import slots, strings
from ledger.rules.vocabulary import EffectKind, Guarantee

if TYPE_CHECKING:
    from ledger.rules.contract import Contract

_OF_ONE_ATTEMPT: Final = frozenset({LookupBy.MCP_TASK, LookupBy.POSTGRES_XACT})


def asks_exactly(rule: LookupRule, *, contract: "Contract") -> bool:
    """Whether what this rule finds can only be this operation's."""
    if contract.effect is EffectKind.BATCH and contract.items is not None:
        return _asks_by_item(rule, contract)
    named = _named(rule, contract)
    if named & {"operation_id", "idempotency_key"} or asks_by_handle(rule):
        return True
    return contract.idempotency.guarantee is Guarantee.NATURAL and "payload" in _roots(named)


def asks_by_handle(rule: LookupRule) -> bool:
    """Whether it asks by what one attempt was handed out, so that it speaks for that attempt alone."""
    if rule.by in _OF_ONE_ATTEMPT or (rule.http is not None and rule.http.at is not None):
        return True
    return "receipt" in _roots(_in_templates(rule))


def asks_by_operation_id(rule: LookupRule) -> bool:
    """Whether it asks by the operation's own name, whatever keys its attempts carried."""
    named = _in_templates(rule)
    return "operation_id" in named and "idempotency_key" not in named and not asks_by_handle(rule)


def _asks_by_item(rule: LookupRule, contract: "Contract") -> bool:
    """Whether it asks by an item's key: in its templates, or where it chooses among what was found, where `payload` is
    the item that is asked about."""
    key = contract.items.key if contract.items is not None else ""
    named = _in_templates(rule)
    if named & {f"item.{key}", "item.key"}:
        return True
    if contract.idempotency.guarantee is Guarantee.NATURAL and "item" in _roots(named):
        return True
    match = next((each.match for each in contract.compiled.lookups if each.rule is rule), None)
    return match is not None and re.search(rf"\bpayload\.{re.escape(key)}\b", match.source) is not None


def _named(rule: LookupRule, contract: "Contract") -> set[str]:
    """What the rule's templates and its `match` compare with."""
    named = _in_templates(rule)
    for compiled in contract.compiled.lookups:
        if compiled.rule is rule and compiled.match is not None:
            named |= compiled.match.variables
    return named


def _in_templates(rule: LookupRule) -> set[str]:
    parts: list[Any] = [rule.task, rule.xact]
    if rule.http is not None:
        parts += [rule.http.path, rule.http.headers, rule.http.body]
    if rule.mcp is not None:
        parts += [rule.mcp.arguments, rule.mcp.session]
    if rule.sql is not None:
        parts.append(rule.sql.parameters)
    return {name for text in strings(parts) for name in slots(text)}


def _roots(named: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in named}
