"""`lookup.by: status`: one question by our key, over HTTP.

What the answer says is read by answers.py; a redirect is an answer that the contract does not know. A page of HTML is
not taken for the object when the contract looks at nothing but the status: a login page answers 200 too.
"""

from collections.abc import Iterator

from ledger.rules.contract_compiled import CompiledLookup
from ledger.rules.vocabulary import LookupOutcome
from recovery.owners.answers import not_asked, of_answer
from recovery.owners.base import Question, Reply
from recovery.owners.http import Answered, ask_over_http

_OF_THE_ANSWER = frozenset({"body", "headers"})


class StatusLookup:
    """Asks an owner's status address. Follows no redirect and repeats nothing."""

    def ask(self, question: Question) -> Reply:
        """One GET, HEAD or POST as the contract writes it."""
        rule = question.lookup.rule
        if rule.http is None:
            return not_asked("The contract names no address to ask")
        answer = ask_over_http(question, rule.http, seconds=question.time_left)
        if not isinstance(answer, Answered):
            return answer
        reply = of_answer(question, answer.value, answer.told)
        if reply.outcome is LookupOutcome.FOUND and answer.is_page_for_people and not _looks_inside(question.lookup):
            reason = "The answer is a page for people, and the contract looks at nothing in it"
            return answer.told.reply(LookupOutcome.INCONCLUSIVE, reason=reason)
        return reply


def _looks_inside(lookup: CompiledLookup) -> bool:
    return any(variables & _OF_THE_ANSWER for variables in _variables(lookup))


def _variables(lookup: CompiledLookup) -> Iterator[frozenset[str]]:
    if lookup.found is not None:
        yield lookup.found.variables
    for _, condition in lookup.effects:
        yield condition.variables
    for place in lookup.same.values():
        yield place.variables
