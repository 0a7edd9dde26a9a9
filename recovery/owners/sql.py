"""`lookup.by: sql` and `lookup.by: postgres_xact`: one question to the owner's PostgreSQL, and its answer.

The credential (`as`) is the database's address: a libpq connection string or URL. Its host must be the owner's own or
stand among the owner's hosts. `authoritative` and `lag` are the contract's: a replica has the lag of its replication.

`sql`, where the rows that the statement gives are `body`, by column:

| rows that match (`match`; without it every row)  | outcome                                             |
| ------------------------------------------------ | --------------------------------------------------- |
| none                                             | no_match; not complete when the rows were cut       |
| one that is `found` (not stated: any)            | found, and `effect` says what                       |
| one for which `no_match` holds                   | no_match                                            |
| several                                          | found several times: a person looks                 |

`postgres_xact`, where the harness told the transaction's id before it sent COMMIT (`pg_current_xact_id()`):

| `pg_xact_status(xid8)`                 | the primary says               | a standby says                 |
| -------------------------------------- | ------------------------------ | ------------------------------ |
| committed                              | applied                        | applied                        |
| aborted                                | none: a proof, not an absence  | inconclusive                   |
| in progress                            | pending                        | pending                        |
| null (too old), or an id that is ahead | inconclusive                   | inconclusive                   |

Source: PostgreSQL documentation, "Transaction ID and Snapshot Information Functions" (PostgreSQL 13 or newer).
An id means something in its own cluster alone. After a fail-over that lost transactions an id may be given twice, so
`lag` and a second lookup by business key are for clusters that replicate asynchronously.
"""

import json
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Final

import psycopg
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

from ledger.rules.templates import NotRendered, render_value
from ledger.rules.vocabulary import Effect, LookupOutcome
from recovery.owners.answers import Told, missing, not_asked, of_answer, of_items, of_state, values_of
from recovery.owners.base import Question, Reply
from recovery.owners.credentials import CredentialMissing, secret
from recovery.owners.postgres import CannotAsk, reading

SLOWEST: Final = 5.0
"""Seconds for one answer, from connecting to its last row."""
MOST_ROWS: Final = 100
LARGEST_ANSWER: Final = 1024 * 1024
"""Characters of all rows together."""
_XACT = re.compile(r"[1-9]\d{0,18}", re.ASCII)
_STATUS: Final = "SELECT pg_xact_status(%(xact)s::text::xid8), pg_is_in_recovery()"
_AHEAD: Final = "22023"
"""SQLSTATE of an id that this cluster has not given out yet."""
_NOT_GIVEN_YET: Final = "The id lies ahead of what this database has given out: it is another's, or a standby lags"
_TOO_OLD: Final = "The database no longer knows what became of so old a transaction"
_EFFECTS: Final = {"committed": Effect.APPLIED, "aborted": Effect.NONE, "in progress": Effect.PENDING}
_ROW: Final = "ascertain_row"


class SqlLookup:
    """Asks an owner's database with the contract's SELECT."""

    def ask(self, question: Question) -> Reply:
        """One statement in a read-only transaction."""
        rule = question.lookup.rule
        if rule.sql is None:
            return not_asked("The contract states no statement")
        told = Told(query=" ".join(rule.sql.statement.split())[:600], principal=rule.credential or "")
        try:
            values = values_of(question)
            parameters = {name: render_value(value, values=values) for name, value in rule.sql.parameters.items()}
            with _asking(question) as cursor:
                rows, complete = _rows(cursor, rule.sql.statement, parameters)
        except NotRendered as error:
            return missing(error.name, told)
        except CredentialMissing as error:
            return not_asked(str(error), told)
        except CannotAsk as error:
            return _not_answered(error, told)
        told = replace(
            told,
            complete=complete,
            stop_reason="" if complete else "truncated",
            body=json.dumps(rows, ensure_ascii=False),
        )
        if len(rows) == 1 and question.lookup.match is None:
            return of_answer(question, rows[0], told)
        return of_items(question, rows, told)


class PostgresXactLookup:
    """Asks an owner's database what became of one transaction."""

    def ask(self, question: Question) -> Reply:
        """One `pg_xact_status`."""
        rule = question.lookup.rule
        told = Told(query="pg_xact_status", principal=rule.credential or "")
        try:
            xact = str(render_value(rule.xact or "", values=values_of(question)))
            if _XACT.fullmatch(xact) is None:
                return not_asked("What was told as the transaction's id is not one", told)
            told = replace(told, query=f"pg_xact_status({xact})")
            with _asking(question) as cursor:
                row = cursor.execute(_STATUS, {"xact": xact}).fetchone()
        except NotRendered as error:
            return missing(error.name, told)
        except CredentialMissing as error:
            return not_asked(str(error), told)
        except CannotAsk as error:
            if error.state == _AHEAD:
                return told.reply(LookupOutcome.INCONCLUSIVE, reason=_NOT_GIVEN_YET)
            return _not_answered(error, told)
        status, standby = row if row is not None else (None, False)
        told = replace(told, body=json.dumps({"status": status, "standby": standby}))
        if standby and status == "aborted":
            return told.reply(LookupOutcome.INCONCLUSIVE, reason="A standby says aborted, which only the primary knows")
        said = {"status": status, "standby": standby}
        return of_state(question, said, told, otherwise=_EFFECTS.get(status), reason=_TOO_OLD)


def _asking(question: Question) -> AbstractContextManager[psycopg.Cursor[TupleRow]]:
    return reading(
        address=secret(question.lookup.rule.credential, secrets=question.secrets),
        reach=question.reach,
        seconds=min(SLOWEST, question.time_left),
    )


def _rows(cursor: psycopg.Cursor[TupleRow], statement: str, parameters: Mapping[str, Any]) -> tuple[list[Any], bool]:
    """The rows as JSON, and whether those are all."""
    inner = statement.rstrip().rstrip(";")
    whole = f"SELECT left(row_to_json({_ROW})::text, %(ascertain_cut)s) FROM (\n{inner}\n) AS {_ROW}"  # noqa: S608 - the contract's own statement; values travel beside it
    values = {name: Jsonb(value) if isinstance(value, dict) else value for name, value in parameters.items()}
    values["ascertain_cut"] = LARGEST_ANSWER + 1
    rows: list[Any] = []
    size = 0
    for (row,) in cursor.stream(whole, values):
        size += len(row)
        if size > LARGEST_ANSWER:
            raise CannotAsk(f"The answer is larger than {LARGEST_ANSWER // 1024} KiB")
        if len(rows) == MOST_ROWS:
            return rows, False
        rows.append(json.loads(row))
    return rows, True


def _not_answered(error: CannotAsk, told: Told) -> Reply:
    return told.reply(
        LookupOutcome.LOOKUP_FAILED,
        complete=False,
        reason=error.reason.rstrip("."),
        overloaded=error.overloaded,
        refused_credential=error.refused_credential,
    )
