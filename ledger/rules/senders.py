"""Who sends a repeat: the harness that began the operation, or Ascertain itself?

| the operation                                                     | who sends it                            |
| ----------------------------------------------------------------- | --------------------------------------- |
| was never sent                                                    | the harness: we invent no first dispatch |
| its contract has no `dispatch`                                    | the harness                             |
| its decision asks for another payload, or for something else      | the harness                             |
| two people accepted the risk of a duplicate                       | the harness                             |
| its decision licenses a repeat, and our credential acts as its own principal | Ascertain                    |
| likewise, and the credential acts as somebody else                | the harness                             |

A key is remembered for whoever sent it. Where the contract does not say who our credential acts as, a repeat that
relies on its key is the harness's; a repeat of what is proved not to have happened makes no second effect either way.
"""

from ledger.rules.contract import Contract
from ledger.rules.decision import Decision
from ledger.rules.facts import Facts
from ledger.rules.licences import Refusal
from ledger.rules.vocabulary import Action, Licence, Sender

REPEATS = frozenset({Action.RETRY, Action.RECOVER_ITEMS})
"""Decisions that license a repeat of what was to be sent."""


def sender_of(*, facts: Facts, contract: Contract, decision: Decision) -> Sender:
    """Who takes the step that the decision licenses."""
    if decision.recovery_action not in REPEATS or not facts.attempts or facts.is_read:
        return Sender.HARNESS
    if decision.licence is Licence.ACCEPTED_DUPLICATE_RISK:
        return Sender.HARNESS
    refusal = may_ascertain_send(facts=facts, contract=contract, licence=decision.licence)
    return Sender.HARNESS if refusal is not None else Sender.WORKER


def may_ascertain_send(*, facts: Facts, contract: Contract, licence: Licence | None) -> Refusal | None:
    """Why Ascertain may not send this operation's request under this licence; None when it may."""
    dispatch = contract.dispatch
    if dispatch is None:
        return Refusal(code="NO_DISPATCH", sentence="The contract does not say how Ascertain could send it.")
    if dispatch.principal is not None and dispatch.principal != facts.principal:
        return Refusal(
            code="ANOTHER_PRINCIPAL", sentence="Ascertain's credential acts as somebody else than this operation."
        )
    unproved = dispatch.principal is None and dispatch.credential is not None and facts.principal
    if licence is Licence.KEY_IN_WINDOW and unproved:
        return Refusal(
            code="PRINCIPAL_UNPROVED",
            sentence="The contract does not say who Ascertain's credential acts as, so the owner may not know the key "
            "from it.",
        )
    return None
