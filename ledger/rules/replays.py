"""May the same request be sent once more, with the same key, to learn what became of it?

The first line that holds is the answer:

| no, because                                                        | code               |
| ------------------------------------------------------------------ | ------------------ |
| nothing licenses it by its key (licences.py says why)              | the refusal's      |
| it would be sent as somebody else (senders.py)                     | the refusal's      |
| the owner knows the key from a request with other contents         | KEY_REUSED         |
| the owner repeats a stored failure under this key                  | STORED_FAILURE     |
| the owner refused the same request under this key for good         | REFUSED_UNDER_KEY  |
| two such requests in a row came to the same failure, and the owner stores failures | STORED_FAILURE |

A lost answer, a busy owner, a key still in use and a credential that was refused are no last word: the next look may
ask again, within the budget of polls.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ledger.rules.contract import Contract
from ledger.rules.facts import Facts
from ledger.rules.licences import Refusal, may_repeat
from ledger.rules.senders import may_ascertain_send
from ledger.rules.vocabulary import Effect, Licence

KEY_REUSED: Final = "KEY_REUSED"
KEY_IN_USE: Final = "KEY_IN_USE"
STORED_FAILURE: Final = "STORED_FAILURE"
LAST_WORDS: Final = frozenset({KEY_REUSED, STORED_FAILURE})
"""Codes after which the same request with the same key is answered in the same way for ever."""
_NOT_FOR_GOOD: Final = frozenset({401, 403, 407, 408, 425, 429})


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyWord:
    """What an owner said to one of the requests that carried a key, in the order of the reports."""

    attempt: int
    code: str
    status: int | None
    effect: Effect | None


def may_replay(*, facts: Facts, contract: Contract, words: Sequence[KeyWord], now: datetime) -> Refusal | None:
    """Why it may not be sent now to learn the truth; None when it may.

    `words` are those to repeats: not to the first request with this key.
    """
    if facts.is_read:
        return Refusal(code="READ", sentence="A read is not sent again to learn what a write did.")
    licence = may_repeat(facts=facts, contract=contract, now=now)
    if isinstance(licence, Refusal):
        return licence
    if licence is not Licence.KEY_IN_WINDOW:
        return Refusal(
            code="NO_KEY_LICENCE", sentence="A replay relies on the owner's memory of the key, and on nothing else."
        )
    refusal = may_ascertain_send(facts=facts, contract=contract, licence=licence)
    return refusal if refusal is not None else _last_word(words, stores=contract.idempotency.caches_errors)


def _last_word(words: Sequence[KeyWord], *, stores: bool) -> Refusal | None:
    if any(word.code == KEY_REUSED for word in words):
        return Refusal(
            code=KEY_REUSED, sentence="The owner knows the key from a request with other contents, and says so again."
        )
    if any(word.code == STORED_FAILURE for word in words):
        return Refusal(
            code=STORED_FAILURE, sentence="The owner repeats the failure that it stored under this key; it stays so."
        )
    if any(_refused_for_good(word) for word in words):
        return Refusal(
            code="REFUSED_UNDER_KEY", sentence="The owner refused the same request under this key; it stays so."
        )
    last = [word.status for word in words if word.status is not None][-2:]
    if stores and len(last) == 2 and last[0] == last[1] and last[0] >= 500:
        return Refusal(
            code=STORED_FAILURE, sentence="The owner stores failures and gave the same one twice; it stays so."
        )
    return None


def _refused_for_good(word: KeyWord) -> bool:
    status = word.status
    return status is not None and 400 <= status < 500 and status not in _NOT_FOR_GOOD and word.code != KEY_IN_USE
