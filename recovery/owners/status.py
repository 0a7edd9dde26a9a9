"""`lookup.by: status`: one question by our key, over HTTP.

What the answer says is read by answers.py; a redirect is an answer that the contract does not know. A page of HTML is
not taken for the object when the contract looks at nothing but the status: a login page answers 200 too.
"""

from recovery.owners.answers import not_asked, of_answer
from recovery.owners.base import Question, Reply
from recovery.owners.http import Answered, ask_over_http, unless_for_people


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
        return unless_for_people(question, answer, of_answer(question, answer.value, answer.told))
