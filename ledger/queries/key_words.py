"""What an owner said to the requests that carried a key after the first one."""

from uuid import UUID

import orjson

from ledger.database import execute
from ledger.rules.replays import KeyWord
from ledger.rules.vocabulary import Effect


def words_to_repeats(*, id: UUID, idempotency_key: str | None) -> tuple[KeyWord, ...]:
    """Reports of an operation's attempts with this key, oldest first, without those of the first such attempt."""
    rows = execute(
        "SELECT e.attempt, e.effect, e.detail FROM evidence e "
        "JOIN attempt a ON a.operation = e.operation AND a.number = e.attempt "
        "WHERE e.operation = %(id)s AND a.idempotency_key = %(key)s AND e.outcome = 'observed' AND a.number > "
        "(SELECT min(number) FROM attempt WHERE operation = %(id)s AND idempotency_key = %(key)s) ORDER BY e.seq",
        {"id": id, "key": idempotency_key},
    )
    return tuple(_word(attempt, effect, detail) for attempt, effect, detail in rows)


def _word(attempt: int, effect: str | None, detail: object) -> KeyWord:
    told = orjson.loads(detail) if isinstance(detail, str | bytes) else detail
    found = told if isinstance(told, dict) else {}
    status = found.get("status")
    return KeyWord(
        attempt=attempt,
        code=str(found.get("code", "")),
        status=status if isinstance(status, int) else None,
        effect=Effect(effect) if effect else None,
    )
