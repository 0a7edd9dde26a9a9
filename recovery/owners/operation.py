"""`lookup.by: operation`: what has become of something that takes long, by the handle that the owner gave for it.

| the owner's convention                      | the contract says                                                              |
| ------------------------------------------- | ------------------------------------------------------------------------------ |
| AIP-151 (Google)                            | `path: /v1/{receipt.…}` or `at`; effect by `body.done`, `error` or `response`    |
| Operation-Location (Azure)                  | `at`: the receipt member that keeps the header; effect by `body.status`          |
| Operation-Id that we choose (Azure)         | `path: /operations/{idempotency_key}`: the handle cannot be lost                 |
| 202 and Location, then 303 to the result    | `at`; a 303 within the same origin is followed, the result is judged             |
| observedGeneration (Kubernetes)             | `path` by name; `body.status.observedGeneration >= body.metadata.generation && …` |
| home-made                                   | likewise, by whatever the body says                                              |

| the owner answers                       | outcome                                                               |
| --------------------------------------- | --------------------------------------------------------------------- |
| 404 or 410                              | inconclusive: the handle has expired, or is not known; never an absence |
| something that an `effect` condition knows | found, with that effect; Retry-After says when to ask again          |
| no success, and `found` is not stated   | inconclusive; 403: lookup_failed                                      |
| anything else                           | inconclusive, as answers.py says                                      |

A handle that was lost with the answer makes the lookup inconclusive, so that the contract's next one is asked.
"""

from typing import Final

from ledger.rules.vocabulary import LookupOutcome
from recovery.owners.answers import not_asked, of_answer, unknown_to_the_contract
from recovery.owners.base import Question, Reply
from recovery.owners.http import Answered, ask_over_http, unless_for_people

MOST_REDIRECTS: Final = 3
_GONE: Final = frozenset({404, 410})


class OperationLookup:
    """Asks for a long-running operation. Follows redirects within the same origin, to its result."""

    def ask(self, question: Question) -> Reply:
        """One GET, HEAD or POST as the contract writes it."""
        rule = question.lookup.rule
        if rule.http is None:
            return not_asked("The contract names no address to ask")
        answer = ask_over_http(question, rule.http, seconds=question.time_left, redirects=MOST_REDIRECTS)
        if not isinstance(answer, Answered):
            return answer
        told = answer.told
        if told.status in _GONE:
            reason = f"The owner answered {told.status}: the handle has expired or is not known, which settles nothing"
            return told.reply(LookupOutcome.INCONCLUSIVE, complete=False, reason=reason)
        if question.lookup.found is None and not told.is_success:
            return unknown_to_the_contract(told)
        reply = of_answer(question, answer.value, told)
        if reply.outcome is LookupOutcome.NO_MATCH:
            reason = "The owner says that there is no such operation, which settles nothing"
            return told.reply(LookupOutcome.INCONCLUSIVE, complete=False, reason=reason)
        return unless_for_people(question, answer, reply)
